//! Input: the pipe that a program prints into. Output: what it has printed since the last time.
//!
//! pytest prints a dot for each test. To wake a thread for each dot costs as much as a small test,
//! so the reader sleeps between words, and the consumer is woken only at the end of the output, or
//! when there is much of it.

use std::io::{self, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that wait to be taken. A program that prints faster than that waits as well.
const MOST: usize = 1 << 20;

/// Bytes that are read at once.
const PAGE: usize = 1 << 14;

/// First and longest pause of the reader after a few bytes; the pipe holds 64 KiB meanwhile. The
/// first one is short, since a program of one test ends soon.
const PAUSES: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(40));

/// Reads the output of one program in a thread of its own.
#[derive(Debug)]
pub(crate) struct OutputPump {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// The program, and all that inherited its output, have closed it.
    is_closed: bool,
    /// The consumer has gone.
    is_abandoned: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes when there is room; `false` if the consumer has gone.
    fn add(&self, bytes: &[u8]) -> bool {
        let waited = self.changed.wait_while(self.lock(), |state| state.bytes.len() >= MOST && !state.is_abandoned);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.bytes.extend_from_slice(bytes);
        if state.bytes.len() >= MOST {
            self.changed.notify_all();
        }
        !state.is_abandoned
    }
}

impl OutputPump {
    pub(crate) fn start(mut reader: impl Read + Send + 'static) -> OutputPump {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::spawn(move || {
            pump(&mut reader, &own);
            drop(reader);
            own.lock().is_closed = true;
            own.changed.notify_all();
        });
        OutputPump { shared }
    }

    /// Waits until the output is closed or much has come, at most for `longest`. Returns the bytes,
    /// and `true` if no more will come.
    pub(crate) fn take(&self, longest: Duration) -> (Vec<u8>, bool) {
        let waited = self
            .shared
            .changed
            .wait_timeout_while(self.shared.lock(), longest, |state| !state.is_closed && state.bytes.len() < MOST);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let bytes = std::mem::take(&mut state.bytes);
        if bytes.len() >= MOST {
            self.shared.changed.notify_all();
        }
        (bytes, state.is_closed)
    }
}

impl Drop for OutputPump {
    fn drop(&mut self) {
        self.shared.lock().is_abandoned = true;
        self.shared.changed.notify_all();
    }
}

fn pump(reader: &mut impl Read, shared: &Shared) {
    let (first, longest) = PAUSES;
    let (mut page, mut pause) = (vec![0; PAGE], first);
    loop {
        let read = match reader.read(&mut page) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if !shared.add(&page[..read]) {
            return;
        }
        if read < PAGE / 4 {
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        } else {
            pause = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Instant;

    use super::*;

    #[test]
    fn words_wake_nobody_and_the_end_does() {
        let (reader, mut writer) = io::pipe().unwrap();
        let pump = OutputPump::start(reader);
        writer.write_all(b"a word").unwrap();
        let begun = Instant::now();
        assert_eq!(pump.take(Duration::from_millis(60)), (b"a word".to_vec(), false));
        assert!(begun.elapsed() >= Duration::from_millis(60), "a word has woken the taker");
        drop(writer);
        assert_eq!(pump.take(Duration::from_mins(1)), (Vec::new(), true));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_flood_is_taken_at_once_and_its_writer_waits() {
        let (reader, mut writer) = io::pipe().unwrap();
        let pump = OutputPump::start(reader);
        let flood = thread::spawn(move || writer.write_all(&vec![b'x'; 5 * MOST]).unwrap());
        let (mut sum, mut is_closed) = (0, false);
        while !is_closed {
            let (bytes, closed) = pump.take(Duration::from_mins(1));
            assert!(bytes.len() <= MOST + PAGE, "{}", bytes.len());
            (sum, is_closed) = (sum + bytes.len(), closed);
        }
        flood.join().unwrap();
        assert_eq!(sum, 5 * MOST);
    }

    #[test]
    fn a_reader_that_nobody_listens_to_ends() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(OutputPump::start(reader));
        // The reader closes the pipe, so a writer without an end fails.
        while writer.write_all(&[b'x'; PAGE]).is_ok() {}
    }
}
