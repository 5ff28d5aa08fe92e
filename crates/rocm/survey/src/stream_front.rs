//! Input: a stream, of which headers at the front are needed. Output: random access to its bytes;
//! those up to the farthest read are kept.
//!
//! Headers and notes of a code object are at its front, a thousandth of it. The rest of a code
//! object of 200 MB is never in memory.

use std::cell::RefCell;
use std::io::{self, Read};

use positioned_io::ReadAt;

/// Number of bytes by which the kept front grows.
const STEP: usize = 64 << 10;

/// Random access to the front of a stream.
pub(crate) struct Front<'a, R> {
    /// Bytes before the stream.
    start: &'a [u8],
    state: RefCell<State<R>>,
}

struct State<R> {
    stream: R,
    kept: Vec<u8>,
    has_failed: bool,
}

impl<'a, R: Read> Front<'a, R> {
    /// The bytes of `start`, and of the stream behind them.
    pub(crate) fn new(start: &'a [u8], stream: R) -> Self {
        Self { start, state: RefCell::new(State { stream, kept: Vec::new(), has_failed: false }) }
    }

    /// `true` if the stream could not be read.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.borrow().has_failed
    }
}

impl<R: Read> ReadAt for Front<'_, R> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        if let Some(rest) = self.start.get(position..)
            && !rest.is_empty()
        {
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            return Ok(length);
        }
        let State { stream, kept, has_failed } = &mut *self.state.borrow_mut();
        let start = position - self.start.len();
        let end = start.saturating_add(buffer.len());
        if end > kept.len() {
            let missing = (end - kept.len()).div_ceil(STEP).saturating_mul(STEP);
            let read = stream.take(missing as u64).read_to_end(kept);
            *has_failed |= read.is_err();
            read?;
        }
        let found = kept.get(start..end.min(kept.len())).unwrap_or_default();
        buffer[..found.len()].copy_from_slice(found);
        Ok(found.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_front_is_read_and_every_range_is_right() {
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        let mut stream = &bytes[10..];
        let front = Front::new(&bytes[..10], &mut stream);
        for (position, length) in [(100, 20), (0, 5), (5, 8), (70_000, 10), (64, 70_000)] {
            let mut buffer = vec![0; length];
            front.read_exact_at(position, &mut buffer).unwrap();
            assert!(buffer == bytes[position as usize..][..length], "{length} bytes at {position}");
        }
        drop(front);
        assert_eq!(bytes.len() - 10 - stream.len(), 2 * STEP);
        let front = Front::new(&[], bytes.as_slice());
        let mut end = [0; 8];
        assert_eq!(front.read_at(299_997, &mut end).unwrap(), 3);
        assert_eq!(end[..3], bytes[299_997..]);
        assert_eq!(front.read_at(u64::MAX, &mut end).unwrap(), 0);
        assert!(!front.has_failed());
    }

    #[test]
    fn a_stream_that_fails_is_remembered() {
        let broken = io::Cursor::new([1; 4]).chain(flate2::read::DeflateDecoder::new(&[0xff; 4][..]));
        let front = Front::new(&[], broken);
        assert!(front.read_at(0, &mut [0; 8]).is_err());
        assert!(front.has_failed());
    }
}
