//! Input: a body that a server sends. Output: the same, or an error if it arrives so slowly that
//! nobody would wait for its end.
//!
//! A client ends a read that has taken a minute. A server that sends a byte each half minute never
//! gets there, and would hold a download for years.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// The bytes that have to arrive in each [`SPAN`]. A modem sends six times as many.
const LEAST: u64 = 64 << 10;
const SPAN: Duration = Duration::from_mins(1);

/// A body with a least speed.
pub(crate) struct Paced<R> {
    body: R,
    span: Duration,
    began: Instant,
    arrived: u64,
}

impl<R: Read> Paced<R> {
    pub(crate) fn new(body: R) -> Paced<R> {
        Paced { body, span: SPAN, began: Instant::now(), arrived: 0 }
    }
}

impl<R: Read> Read for Paced<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.body.read(buffer)?;
        self.arrived += count as u64;
        if count > 0 && self.began.elapsed() >= self.span {
            if self.arrived < LEAST {
                let message = format!("{} bytes arrived in {} s", self.arrived, self.began.elapsed().as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            (self.began, self.arrived) = (Instant::now(), 0);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends this many bytes every five milliseconds, ten times.
    struct Slow(usize, usize);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(5));
            self.1 += 1;
            Ok(if self.1 > 10 { 0 } else { self.0.min(buffer.len()) })
        }
    }

    fn read(bytes: usize, span: Duration) -> io::Result<usize> {
        let mut all = Vec::new();
        Paced { span, ..Paced::new(Slow(bytes, 0)) }.read_to_end(&mut all)
    }

    #[test]
    fn a_body_that_trickles_is_an_error() {
        let error = read(1, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("bytes arrived in"), "{error}");
        assert_eq!(read(1, Duration::from_hours(1)).unwrap(), 10, "a short body needs no speed");
    }

    #[test]
    fn a_body_at_speed_is_complete() {
        let count = LEAST as usize;
        let mut body = Paced { span: Duration::ZERO, ..Paced::new(Slow(count, 0)) };
        let mut buffer = vec![0; count];
        let mut all = 0;
        while let Ok(read) = body.read(&mut buffer)
            && read > 0
        {
            all += read;
        }
        assert_eq!(all, 10 * count);
    }
}
