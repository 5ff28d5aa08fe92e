//! Input: a member in the archive. Output: its bytes as a stream, which needs no memory and no
//! temporary file, however large it is.

use std::io::{self, BufReader, Read};
use std::path::PathBuf;

use flate2::bufread::DeflateDecoder;
use positioned_io::Cursor;
use rocwheel_content::SharedFile;

use super::Listed;
use super::unpack::Packed;
use crate::Error;
use crate::fault::Fault;

/// Number of packed bytes that are read at once.
const WINDOW: usize = 1 << 18;

/// The bytes of one member, in their order. The last read fails if they are not those that the
/// archive announces.
pub struct MemberStream {
    reader: Box<dyn Read + Send>,
    path: PathBuf,
    file: SharedFile,
    listed: Listed,
    position: u64,
    crc32: crc32fast::Hasher,
}

impl Packed<'_> {
    pub(super) fn stream(&self) -> Result<MemberStream, Error> {
        self.check_form()?;
        let source = BufReader::with_capacity(WINDOW, Cursor::new(self.window()));
        let reader: Box<dyn Read + Send> =
            if self.listed.is_stored() { Box::new(source) } else { Box::new(DeflateDecoder::new(source)) };
        Ok(MemberStream {
            reader,
            path: self.path.to_owned(),
            file: self.file.clone(),
            listed: self.listed.clone(),
            position: 0,
            crc32: crc32fast::Hasher::new(),
        })
    }
}

impl MemberStream {
    fn error(&self, fault: Fault) -> io::Error {
        io::Error::other(Packed { path: &self.path, file: &self.file, listed: &self.listed }.error(fault))
    }
}

impl Read for MemberStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match self.reader.read(buffer) {
            Ok(count) => count,
            // flate2's errors for bytes that are not a stream, and for a stream that ends too
            // early.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof) => {
                return Err(self.error(Fault::Damaged));
            }
            Err(error) => return Err(error),
        };
        self.crc32.update(&buffer[..count]);
        self.position += count as u64;
        let announced = self.listed.size;
        if self.position > announced {
            return Err(self.error(Fault::Longer { announced }));
        }
        if count == 0 && !buffer.is_empty() {
            if self.position < announced {
                return Err(self.error(Fault::Shorter { announced, actual: self.position }));
            }
            if self.crc32.clone().finalize() != self.listed.crc32 {
                return Err(self.error(Fault::Checksum));
            }
        }
        Ok(count)
    }
}
