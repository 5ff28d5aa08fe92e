//! Input: units of work in order. Output: their results, produced in parallel on rayon's pool and
//! delivered in the same order, with a bounded number of units in progress.

#![warn(missing_docs)]

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

/// Time that an idle worker of the pool sleeps between two looks at the results.
const NAP: Duration = Duration::from_micros(200);

/// Runs `work` on every unit in the pool and `consume` on every result, in order, on the calling
/// thread. Stops at the first error in order, of `work` or of `consume`, waits for the units that
/// have begun, and returns the error. A panic of `work` is passed on.
///
/// `units` is asked for the next unit on the calling thread, and only when there is room: at most
/// two units per thread of the pool are between start and `consume`. This bounds the memory.
///
/// The calling thread may itself be a worker of the pool. It works while it waits, so whole files
/// can be written in parallel with no more threads than the pool has.
///
/// ```
/// let mut squares = Vec::new();
/// let collect = |square| -> Result<(), String> {
///     squares.push(square);
///     Ok(())
/// };
/// rocwheel_pipeline::ordered(0_u64..4, |number| Ok(number * number), collect)?;
/// assert_eq!(squares, [0, 1, 4, 9]);
/// # Ok::<(), String>(())
/// ```
pub fn ordered<U, T, E>(
    units: impl Iterator<Item = U>,
    work: impl Fn(U) -> Result<T, E> + Sync,
    mut consume: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E>
where
    U: Send,
    T: Send,
    E: Send,
{
    // Two units per thread: one that is being worked on and one that waits to be consumed.
    let window = 2 * rayon::current_num_threads();
    let mut units = units.fuse();
    let Some(first) = units.next() else { return Ok(()) };
    // A single unit is processed here: to wake a thread of the pool and wait for it takes longer
    // than a small unit.
    let Some(second) = units.next() else { return work(first).and_then(consume) };
    let mut units = [first, second].into_iter().chain(units);
    let cancelled = AtomicBool::new(false);
    let (sender, receiver) = mpsc::channel::<(usize, Outcome<T, E>)>();
    let (work, cancelled) = (&work, &cancelled);
    rayon::in_place_scope(|scope| {
        let mut begun = 0;
        let mut done = 0;
        let mut early = BTreeMap::new();
        let result = loop {
            while begun < done + window
                && let Some(unit) = units.next()
            {
                let (sender, index) = (sender.clone(), begun);
                scope.spawn(move |_| {
                    if !cancelled.load(Ordering::Relaxed) {
                        let outcome = catch_unwind(AssertUnwindSafe(|| work(unit)));
                        // The receiver is gone after an error. The result is not needed then.
                        let _ = sender.send((index, outcome));
                    }
                });
                begun += 1;
            }
            if done == begun {
                break Ok(());
            }
            while !early.contains_key(&done) {
                let (index, outcome) = receive(&receiver);
                early.insert(index, outcome);
            }
            let Some(outcome) = early.remove(&done) else { continue };
            done += 1;
            match outcome {
                Ok(result) => {
                    if let Err(error) = result.and_then(&mut consume) {
                        break Err(error);
                    }
                }
                Err(panic) => {
                    cancelled.store(true, Ordering::Relaxed);
                    resume_unwind(panic);
                }
            }
        };
        cancelled.store(true, Ordering::Relaxed);
        result
    })
}

type Outcome<T, E> = Result<Result<T, E>, Box<dyn Any + Send>>;

/// The next result. A worker of the pool runs other jobs while it waits; otherwise all workers
/// could wait for each other.
fn receive<T>(receiver: &Receiver<T>) -> T {
    loop {
        match receiver.try_recv() {
            Ok(value) => return value,
            Err(TryRecvError::Disconnected) => unreachable!("the caller holds a sender"),
            Err(TryRecvError::Empty) => {}
        }
        let waited = match rayon::yield_now() {
            Some(rayon::Yield::Executed) => continue,
            Some(rayon::Yield::Idle) => receiver.recv_timeout(NAP),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if let Ok(value) = waited {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let mut seen = Vec::new();
        let uneven = |unit: u64| -> Result<u64, ()> {
            std::thread::sleep(Duration::from_micros(unit * 7919 % 300));
            Ok(unit)
        };
        ordered(0..500, uneven, |unit| {
            seen.push(unit);
            Ok(())
        })
        .unwrap();
        assert!(seen.iter().copied().eq(0..500));
    }

    #[test]
    fn the_first_error_ends_it() {
        let mut seen = 0;
        let fails = |unit: u64| if unit >= 40 { Err(unit) } else { Ok(unit) };
        let result = ordered(0..1000, fails, |_| {
            seen += 1;
            Ok(())
        });
        assert_eq!((result, seen), (Err(40), 40));
        assert_eq!(ordered(0..1000, Ok::<u64, u64>, |unit| if unit == 7 { Err(unit) } else { Ok(()) }), Err(7));
    }

    #[test]
    fn a_panic_is_passed_on() {
        let bad = |unit: u64| -> Result<(), ()> {
            assert!(unit != 5, "five");
            Ok(())
        };
        assert!(catch_unwind(AssertUnwindSafe(|| ordered(0..100, bad, |()| Ok(())))).is_err());
    }

    #[test]
    fn workers_of_a_small_pool_do_not_wait_for_each_other() {
        use rayon::prelude::*;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let total: u64 = pool.install(|| {
            (0..16_u64)
                .into_par_iter()
                .map(|_| {
                    let mut sum = 0;
                    ordered(0..100_u64, Ok::<u64, ()>, |unit| {
                        sum += unit;
                        Ok(())
                    })
                    .unwrap();
                    sum
                })
                .sum()
        });
        assert_eq!(total, 16 * 4950);
    }
}
