//! Input: the memory that threads may use together. Output: shares of it; a thread waits until
//! there is room for its own.

use std::sync::{Condvar, Mutex, PoisonError};

/// Memory that threads share, in bytes.
pub struct MemoryBudget {
    limit: u64,
    taken: Mutex<u64>,
    returned: Condvar,
}

impl MemoryBudget {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> MemoryBudget {
        MemoryBudget { limit, taken: Mutex::new(0), returned: Condvar::new() }
    }

    /// Waits until `bytes` are free. More than the whole budget is given to one thread alone, when
    /// no other has a share. A thread that holds a share must not ask for another one.
    pub fn take(&self, bytes: u64) -> MemoryShare<'_> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken > 0 && taken.saturating_add(bytes) > self.limit {
            taken = self.returned.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
        *taken = taken.saturating_add(bytes);
        MemoryShare { budget: self, bytes }
    }
}

/// A share of a [`MemoryBudget`]; dropping it returns it.
pub struct MemoryShare<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl Drop for MemoryShare<'_> {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken = taken.saturating_sub(self.bytes);
        self.budget.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn threads_stay_within_the_limit_and_what_is_too_large_goes_alone() {
        let (budget, now, most) = (MemoryBudget::new(100), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (budget, now, most) = (&budget, &now, &most);
                scope.spawn(move || {
                    for round in 0..200 {
                        let bytes = if round == 100 { 1000 } else { 20 + thread };
                        let share = budget.take(bytes);
                        let sum = now.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(sum <= 100 || sum == 1000, "{sum} bytes at once");
                        most.fetch_max(sum, Ordering::SeqCst);
                        now.fetch_sub(bytes, Ordering::SeqCst);
                        drop(share);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1000);
        assert_eq!(*budget.taken.lock().unwrap(), 0);
    }
}
