//! Input: a body that a server sends. Output: the same, or an error if it arrives at less than
//! 64 KiB a minute.
//!
//! A client ends a read that has taken a minute. A server that sends a byte each half minute never
//! gets there, and would hold a download for years. Only the time in which the reader waits for the
//! server counts: what the reader does between two reads may take as long as it likes.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// The bytes that have to arrive in each [`SPAN`]. A modem sends six times as many.
const LEAST: u64 = 64 << 10;
const SPAN: Duration = Duration::from_mins(1);

/// The speed at which a body arrives: an error if it is below 64 KiB a minute.
#[derive(Debug)]
pub struct Pace {
    span: Duration,
    /// Time of waiting since the last span ended.
    waited: Duration,
    /// Bytes that arrived in it.
    arrived: u64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::over(SPAN)
    }
}

impl Pace {
    /// The pace with another span of time, for tests.
    pub(crate) fn over(span: Duration) -> Pace {
        Pace { span, waited: Duration::ZERO, arrived: 0 }
    }

    /// Notes that `count` bytes arrived after a wait. No bytes are the end of the body.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] for too few bytes in a span of time.
    pub fn note(&mut self, waited: Duration, count: usize) -> io::Result<()> {
        self.waited += waited;
        self.arrived += count as u64;
        if count == 0 || self.waited < self.span {
            return Ok(());
        }
        if self.arrived < LEAST {
            let message = format!("{} bytes arrived in {} s", self.arrived, self.waited.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        (self.waited, self.arrived) = (Duration::ZERO, 0);
        Ok(())
    }
}

/// A body with a least speed.
pub(crate) struct Paced<R> {
    body: R,
    pace: Pace,
}

impl<R: Read> Paced<R> {
    pub(crate) fn new(body: R, pace: Pace) -> Paced<R> {
        Paced { body, pace }
    }
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let began = Instant::now();
        let count = self.body.read(buffer)?;
        self.pace.note(began.elapsed(), count)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn a_body_that_trickles_is_an_error() {
        let mut pace = Pace::default();
        for _ in 0..59 {
            pace.note(Duration::from_secs(1), 1).unwrap();
        }
        let error = pace.note(Duration::from_secs(1), 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), "60 bytes arrived in 60 s");
    }

    #[test]
    fn a_body_at_speed_is_complete() {
        let mut pace = Pace::default();
        for _ in 0..10 {
            pace.note(MINUTE, LEAST as usize).unwrap();
        }
        assert!(pace.note(MINUTE, LEAST as usize - 1).is_err(), "each minute counts for itself");
    }

    #[test]
    fn a_short_body_needs_no_speed() {
        let mut pace = Pace::default();
        pace.note(Duration::from_secs(59), 10).unwrap();
        pace.note(MINUTE, 0).unwrap();
    }

    #[test]
    fn reads_are_measured() {
        let mut body = Paced::new(&[0; 100][..], Pace::over(Duration::ZERO));
        assert_eq!(body.read(&mut [0; 10]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut all = Vec::new();
        assert_eq!(Paced::new(&[0; 100][..], Pace::default()).read_to_end(&mut all).unwrap(), 100);
    }
}
