//! Input: a random-access file. Output: its bytes by position, in bounded reads whose errors name
//! the structure.

use std::io;

use object::pod::{self, Pod};
use positioned_io::ReadAt;

use crate::Error;

/// Largest size of a table of headers or section names, in bytes: enough for a million section
/// headers, more than real files have.
const TABLE_LIMIT: u64 = 64 << 20;
/// Bytes in a window, in which strings are read.
const STRING_WINDOW: u64 = 256;
/// Longest string that is read, in bytes: RPATHs of a few kilobytes exist, C++ symbol names are
/// read elsewhere.
const STRING_LIMIT: u64 = 1 << 20;

/// Position of a string table in the file, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StringTable {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// A file with bounded reads and errors that name the structure.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) reader: &'a dyn ReadAt,
}

impl Source<'_> {
    pub(crate) fn fill(&self, offset: u64, buffer: &mut [u8], what: &'static str) -> Result<(), Error> {
        let length = buffer.len() as u64;
        let truncated = Error::Truncated { what, offset, length };
        if offset.checked_add(length).is_none_or(|end| end > i64::MAX as u64) {
            return Err(truncated);
        }
        self.reader.read_exact_at(offset, buffer).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => truncated,
            _ => Error::Read { what, source },
        })
    }

    /// Reads `length` bytes at `offset`, at most `limit`. A length that exceeds the file is refused
    /// before memory is allocated for it.
    pub(crate) fn bytes_up_to(
        &self,
        offset: u64,
        length: u64,
        limit: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, Error> {
        if length > limit {
            return Err(Error::TooLarge { what, length, limit });
        }
        if length == 0 {
            return Ok(Vec::new());
        }
        let last = offset.checked_add(length - 1).ok_or(Error::Truncated { what, offset, length })?;
        if length > 4096 {
            self.fill(last, &mut [0], what).map_err(|error| match error {
                Error::Truncated { .. } => Error::Truncated { what, offset, length },
                other => other,
            })?;
        }
        let mut buffer = vec![0; length as usize];
        self.fill(offset, &mut buffer, what)?;
        Ok(buffer)
    }

    pub(crate) fn bytes(&self, offset: u64, length: u64, what: &'static str) -> Result<Vec<u8>, Error> {
        self.bytes_up_to(offset, length, TABLE_LIMIT, what)
    }

    /// Reads the zero-terminated string at `index` of `table`.
    pub(crate) fn string(&self, table: StringTable, index: u64, what: &'static str) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        let mut position = index;
        loop {
            if position >= table.size {
                return Err(Error::malformed(what, format!("string {index:#x} is not inside the string table")));
            }
            let length = STRING_WINDOW.min(table.size - position);
            let offset = table.offset.saturating_add(position);
            let window = self.bytes(offset, length, what)?;
            if let Some(end) = window.iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&window[..end]);
                return Ok(text);
            }
            text.extend_from_slice(&window);
            position += length;
            if text.len() as u64 > STRING_LIMIT {
                return Err(Error::TooLarge { what, length: text.len() as u64, limit: STRING_LIMIT });
            }
        }
    }

    /// Returns the size of the file in bytes. `ReadAt` does not offer it, so it is found by probing
    /// (some 60 reads of one byte).
    pub(crate) fn size(&self) -> Result<u64, Error> {
        let mut high = 1 << 20;
        while high < 1 << 62 && present(self.fill(high, &mut [0], "end"))?.is_some() {
            high *= 2;
        }
        let mut low = 0;
        while low < high {
            let middle = low + (high - low) / 2;
            if present(self.fill(middle, &mut [0], "end"))?.is_some() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Reads as much of `buffer` as the file has: a file of three bytes is not a broken ELF file,
    /// but no ELF file at all.
    pub(crate) fn read_some(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read_at(filled as u64, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Read { what: "identification", source }),
            }
        }
        Ok(filled)
    }
}

/// `None` if the file ended before what was read.
pub(crate) fn present<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Ok(bytes) => Ok(Some(bytes)),
        Err(Error::Truncated { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// Casts the head of `bytes`; the structures have no alignment (feature `unaligned`), so only the
/// length can be wrong.
pub(crate) fn cast<T: Pod>(bytes: &[u8], what: &'static str) -> Result<T, Error> {
    match pod::from_bytes::<T>(bytes) {
        Ok((value, _)) => Ok(*value),
        Err(()) => Err(Error::malformed(what, format!("{} bytes are too few", bytes.len()))),
    }
}

pub(crate) fn cast_all<T: Pod>(bytes: &[u8], what: &'static str) -> Result<Vec<T>, Error> {
    let (values, _) = pod::slice_from_bytes::<T>(bytes, bytes.len() / size_of::<T>())
        .map_err(|()| Error::malformed(what, "its size is wrong"))?;
    Ok(values.to_vec())
}
