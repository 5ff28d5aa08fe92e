//! Input: a member in the archive. Output: its bytes, in memory, in windows or in a temporary file.
//! There are never more bytes than the archive announces, and their checksum must be the announced
//! one.

use std::io::{self, BufReader, Read as _, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use flate2::bufread::DeflateDecoder;
use libdeflater::{DecompressionError, Decompressor};
use positioned_io::{Cursor, ReadAt, Slice};
use rocwheel_content::{Reader, SharedFile};

use super::Listed;
use crate::Error;
use crate::fault::{Fault, IN_MEMORY};

/// Number of bytes that are unpacked at once otherwise.
const WINDOW: usize = 1 << 18;

/// Memory for one member, which the next one can use.
#[derive(Debug, Default)]
pub(crate) struct Space {
    packed: Vec<u8>,
    bytes: Vec<u8>,
}

/// The first bytes of a buffer, which grows if it is too short. Old contents are not cleared.
fn beginning(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    &mut buffer[..length]
}

/// Memory for looking at many members on many threads. It is used again, because the system would
/// have to clear all of it for each large member; as much stays as the largest ones needed that
/// were looked at together.
#[derive(Debug, Default)]
pub struct MemberMemory {
    unused: Mutex<Vec<Space>>,
}

impl MemberMemory {
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Space) -> T) -> T {
        let mut space = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        let result = work(&mut space);
        self.unused.lock().unwrap_or_else(PoisonError::into_inner).push(space);
        result
    }
}

/// A member and the archive that contains it.
pub(crate) struct Packed<'a, F = SharedFile> {
    pub(crate) path: &'a Path,
    pub(crate) file: &'a F,
    pub(crate) listed: &'a Listed,
}

impl<F: ReadAt + Clone + Send + Sync + 'static> Packed<'_, F> {
    pub(crate) fn error(&self, source: Fault) -> Error {
        Error::Unpack { path: self.path.to_owned(), member: self.listed.name.clone(), source }
    }

    /// Fails if the member has a form that is not allowed in wheels.
    pub(crate) fn check_form(&self) -> Result<(), Error> {
        let listed = self.listed;
        match listed.method {
            _ if listed.encrypted => Err(self.error(Fault::Encrypted)),
            0 | 8 => Ok(()),
            other => Err(self.error(Fault::Method(other))),
        }
    }

    /// The packed bytes.
    pub(super) fn window(&self) -> Slice<F> {
        Slice::new(self.file.clone(), self.listed.offset, Some(self.listed.compressed))
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Error> {
        let mut space = Space::default();
        self.bytes_in(&mut space)?;
        Ok(space.bytes)
    }

    /// The unpacked bytes, in memory that may have been used before.
    pub(crate) fn bytes_in<'s>(&self, space: &'s mut Space) -> Result<&'s [u8], Error> {
        self.check_form()?;
        let listed = self.listed;
        if listed.size > IN_MEMORY {
            return Err(self.error(Fault::TooLarge { size: listed.size }));
        }
        let Space { packed, bytes } = space;
        // The packed form can be larger than the bytes. Then it would be useless to hold both.
        if listed.method == 0 || listed.compressed > IN_MEMORY {
            bytes.clear();
            bytes.reserve_exact(listed.size as usize);
            self.each(|window| {
                bytes.extend_from_slice(window);
                Ok(())
            })?;
            return Ok(bytes);
        }
        let packed = beginning(packed, listed.compressed as usize);
        self.window().read_exact_at(0, packed).map_err(|error| self.error(Fault::Read(error)))?;
        let bytes = beginning(bytes, listed.size as usize);
        let actual = Decompressor::new().deflate_decompress(packed, bytes).map_err(|error| {
            self.error(match error {
                DecompressionError::InsufficientSpace => Fault::Longer { announced: listed.size },
                DecompressionError::BadData => Fault::Damaged,
            })
        })?;
        self.check_end(actual as u64, crc32fast::hash(&bytes[..actual]))?;
        Ok(bytes)
    }

    /// Passes the bytes to `sink` in windows. An error may come after some of them.
    pub(crate) fn each(&self, mut sink: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.check_form()?;
        let announced = self.listed.size;
        let source = BufReader::with_capacity(WINDOW, Cursor::new(self.window()));
        let mut reader: Box<dyn io::Read> =
            if self.listed.method == 0 { Box::new(source) } else { Box::new(DeflateDecoder::new(source)) };
        let mut window = vec![0; WINDOW.min(announced as usize + 1)];
        let (mut actual, mut crc32) = (0, crc32fast::Hasher::new());
        loop {
            let count = match reader.read(&mut window) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // flate2's errors for bytes that are not a stream, and for a stream that ends too
                // early.
                Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof) => {
                    return Err(self.error(Fault::Damaged));
                }
                Err(error) => return Err(self.error(Fault::Read(error))),
            };
            actual += count as u64;
            if actual > announced {
                return Err(self.error(Fault::Longer { announced }));
            }
            crc32.update(&window[..count]);
            sink(&window[..count])?;
        }
        self.check_end(actual, crc32.finalize())
    }

    /// The first `length` bytes, or all if there are fewer. The checksum is not checked.
    pub(crate) fn start(&self, length: usize) -> Result<Vec<u8>, Error> {
        self.check_form()?;
        let source = BufReader::with_capacity(4096, Cursor::new(self.window()));
        let reader: Box<dyn io::Read> =
            if self.listed.method == 0 { Box::new(source) } else { Box::new(DeflateDecoder::new(source)) };
        let mut bytes = Vec::with_capacity(length);
        match reader.take(length as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof) => {
                Err(self.error(Fault::Damaged))
            }
            Err(error) => Err(self.error(Fault::Read(error))),
        }
    }

    /// `true` if another member has the same packed bytes, and so the same contents.
    pub(crate) fn is_packed_like(&self, other: &Packed<'_, F>) -> Result<bool, Error> {
        let members = [self.listed, other.listed];
        let [form, other_form] = members.map(|member| (member.method, member.size, member.compressed, member.crc32));
        if form != other_form {
            return Ok(false);
        }
        let (mut window, mut others) = (vec![0; WINDOW], vec![0; WINDOW]);
        let mut position = 0;
        while position < self.listed.compressed {
            let length = (self.listed.compressed - position).min(WINDOW as u64) as usize;
            for (packed, window) in [(self, &mut window), (other, &mut others)] {
                let read = packed.window().read_exact_at(position, &mut window[..length]);
                read.map_err(|error| packed.error(Fault::Read(error)))?;
            }
            if window[..length] != others[..length] {
                return Ok(false);
            }
            position += length as u64;
        }
        Ok(true)
    }

    pub(super) fn check_end(&self, actual: u64, crc32: u32) -> Result<(), Error> {
        let announced = self.listed.size;
        if actual < announced {
            return Err(self.error(Fault::Shorter { announced, actual }));
        }
        if crc32 != self.listed.crc32 {
            return Err(self.error(Fault::Checksum));
        }
        Ok(())
    }

    /// Random access to a window of the archive, or to bytes in memory; `None` for a packed member
    /// that is too large for it. The checksum has been compared.
    pub(super) fn window_or_bytes(&self) -> Result<Option<Reader>, Error> {
        self.check_form()?;
        if self.listed.method == 0 {
            self.listed.compared.once(|| self.each(|_| Ok(())))?;
            return Ok(Some(Box::new(self.window())));
        }
        if self.listed.size <= IN_MEMORY { Ok(Some(Box::new(self.bytes()?))) } else { Ok(None) }
    }

    /// Random access: a window of the archive, bytes in memory, or an unnamed file in `scratch`.
    /// The checksum has been compared.
    pub(crate) fn reader(&self, scratch: &Path) -> Result<Reader, Error> {
        if let Some(reader) = self.window_or_bytes()? {
            return Ok(reader);
        }
        let mut file =
            tempfile::tempfile_in(scratch).map_err(|source| Error::Create { directory: scratch.to_owned(), source })?;
        self.each(|window| file.write_all(window).map_err(Error::write(scratch, Some(&self.listed.name))))?;
        Ok(Box::new(file))
    }
}
