//! Input: an open file and a position. Output: bytes, written there.

use std::io;

use crate::system::write_at;

/// Writes to an open file from a given position, so several threads can write to different parts of
/// it. On Unix the file's own position does not move.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "both kinds of files have one inside")]
pub struct PositionedWriter<'a> {
    file: &'a std::fs::File,
    position: u64,
}

#[expect(clippy::disallowed_types, reason = "both kinds of files have one inside")]
impl<'a> PositionedWriter<'a> {
    /// Begins at `position`, in bytes from the start of the file.
    pub fn new(file: &'a std::fs::File, position: u64) -> Self {
        Self { file, position }
    }
}

impl io::Write for PositionedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = write_at(self.file, bytes, self.position)?;
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn two_writers_write_to_their_own_parts() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (mut one, mut other) = (PositionedWriter::new(file.as_file(), 0), PositionedWriter::new(file.as_file(), 3));
        other.write_all(b"def").unwrap();
        one.write_all(b"abc").unwrap();
        assert_eq!(fs_err::read(file.path()).unwrap(), b"abcdef");
    }
}
