//! Readers that know something about the bytes that pass them: how many there were, whether they
//! are as many as announced, whether reading failed.

use std::io::{self, Read};

/// A reader that counts its bytes, and remembers whether it failed: so the caller of code that
/// reads and writes can distinguish the two.
pub struct TrackedReader<R> {
    inner: R,
    /// Number of bytes so far.
    pub count: u64,
    /// `true` after an error of the inner reader.
    pub has_failed: bool,
}

impl<R: Read> TrackedReader<R> {
    /// Tracks what is read from `inner`.
    pub fn new(inner: R) -> TrackedReader<R> {
        TrackedReader { inner, count: 0, has_failed: false }
    }
}

impl<R: Read> Read for TrackedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer).inspect_err(|_| self.has_failed = true)?;
        self.count += read as u64;
        Ok(read)
    }
}

/// A reader that fails when it has more bytes than a limit, or ends before a number of them: `tar`
/// treats an early end as if the member were shorter.
pub struct MeasuredReader<R> {
    inner: R,
    /// Bytes that must follow.
    least: u64,
    /// Bytes that may follow.
    most: u64,
}

impl<R: Read> MeasuredReader<R> {
    /// Fails with [`io::ErrorKind::UnexpectedEof`] if there are fewer than `count` bytes.
    pub fn at_least(count: u64, inner: R) -> MeasuredReader<R> {
        MeasuredReader { inner, least: count, most: u64::MAX }
    }

    /// Fails if there are more than `count` bytes.
    pub fn at_most(count: u64, inner: R) -> MeasuredReader<R> {
        MeasuredReader { inner, least: 0, most: count }
    }
}

impl<R: Read> Read for MeasuredReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if read == 0 && self.least > 0 && !buffer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends inside a member"));
        }
        self.least = self.least.saturating_sub(read as u64);
        self.most = self.most.checked_sub(read as u64).ok_or_else(|| io::Error::other("it unpacks to too much"))?;
        Ok(read)
    }
}
