//! Input: a bundle in a section. Output: its code objects, one at a time.

use std::io::{self, Read};
use std::ops::Range;

use md5::{Digest, Md5};
use positioned_io::ReadAt;

use super::{
    Bundle, BundleEntry, CompressionHeader, Window, compressed, in_order, malformed, more_than_stated, same_bytes,
};
use crate::error::Error;

/// Bytes that are allocated because of a size in a table, before any of them was read.
const CHUNK: usize = 1 << 20;

/// Upper limits for reading a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest decompressed size of a compressed bundle, in bytes. A higher limit allows more time,
    /// not more memory.
    pub uncompressed: u64,
    /// Largest size of a code object in bytes; [`Bundle::visit`] has each in memory as a whole.
    pub code_object: u64,
    /// `Compare` checks the content of a compressed bundle against its checksum.
    pub checksum: Checksum,
}

/// Treatment of the checksum of a compressed bundle, an MD5, which takes longer to compute than the
/// decompression.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Checksum {
    /// It is compared.
    #[default]
    Compare,
    /// It is ignored, for a bundle that is compared in another pass.
    Skip,
}

/// 16 GiB and 2 GiB, checksums compared. The largest sizes in real libraries so far are 60 MB and
/// 12 MB.
impl Default for Limits {
    fn default() -> Self {
        Self { uncompressed: 16 << 30, code_object: 2 << 30, checksum: Checksum::Compare }
    }
}

impl Bundle {
    /// Calls `each` for every entry that has bytes, in the order of their offsets, with the bytes.
    /// One entry is in memory at a time; a compressed bundle is decompressed as a stream. The
    /// host's entry has bytes in few bundles; it has no [`BundleEntry::target`]. Entries that share
    /// their bytes get one call each.
    ///
    /// `section` is the range of `reader` that the bundle was read from.
    ///
    /// # Errors
    /// Those of `each`, and those of the bundle. Damage of a compressed bundle is only detected
    /// after all of it was read: after the last call of `each`.
    pub fn visit<E: From<Error>>(
        &self,
        reader: &dyn ReadAt,
        section: Range<u64>,
        each: impl FnMut(&BundleEntry, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit_within(reader, section, Limits::default(), each)
    }

    /// Like [`Bundle::visit`], with other limits than the default.
    pub fn visit_within<E: From<Error>>(
        &self,
        reader: &dyn ReadAt,
        section: Range<u64>,
        limits: Limits,
        mut each: impl FnMut(&BundleEntry, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = Vec::new();
        self.visit_streams(reader, section, limits, |entries, code| {
            let bytes = code.read_whole(&mut buffer)?;
            entries.iter().try_for_each(|entry| each(entry, bytes))
        })
    }

    /// Like [`Bundle::visit_within`], with the bytes of each code object as a stream, so that none
    /// is in memory as a whole. Entries that share their bytes get one call together. Bytes that
    /// `each` does not read are skipped.
    ///
    /// # Errors
    /// Those of [`Bundle::visit`]. If a stream fails, its error is returned even if `each` ignores
    /// it.
    pub fn visit_streams<E: From<Error>>(
        &self,
        reader: &dyn ReadAt,
        section: Range<u64>,
        limits: Limits,
        mut each: impl FnMut(&[&BundleEntry], &mut CodeStream<'_, '_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let window = Window { reader, section };
        let entries = in_order(&self.entries);
        for entry in &entries {
            let what = format!("the entry `{}`", entry.id.escape_debug());
            within(self.offset, what, entry.size, limits.code_object)?;
        }
        let mut source = Source::open(self, &window, limits)?;
        for shared in entries.chunk_by(|first, second| same_bytes(first, second)) {
            source.go_to(shared[0])?;
            let size = shared[0].size;
            let mut stream = CodeStream { source: &mut source, size, left: size, failed: None };
            let done = each(shared, &mut stream);
            let (left, failed) = (stream.left, stream.failed);
            failed.map_or(Ok(()), Err)?;
            done?;
            source.skip(left)?;
        }
        Ok(source.finish()?)
    }
}

/// The bytes of one code object, from front to back.
pub struct CodeStream<'a, 'b> {
    source: &'a mut Source<'b>,
    size: u64,
    /// Bytes that were not read yet.
    left: u64,
    /// The first error, which [`Bundle::visit_streams`] returns.
    failed: Option<Error>,
}

impl CodeStream<'_, '_> {
    /// Size of the code object in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads what is left of the code object, as [`CodeStream::read_next`] does.
    ///
    /// # Errors
    /// Those of the bundle.
    pub fn read_whole<'c>(&mut self, buffer: &'c mut Vec<u8>) -> Result<&'c [u8], Error> {
        self.read_next(self.left, buffer)
    }

    /// Reads the next `size` bytes, at most what is left, to the start of `buffer`, and returns
    /// them. The buffer never shrinks, so that it is not cleared for each code object, and only
    /// grows as bytes arrive.
    ///
    /// # Errors
    /// Those of the bundle.
    pub fn read_next<'c>(&mut self, size: u64, buffer: &'c mut Vec<u8>) -> Result<&'c [u8], Error> {
        let size = size.min(self.left);
        let (bundle, filled) = (self.source.bundle(), fill(self, size, buffer));
        filled.map_err(|source| {
            self.failed.take().unwrap_or_else(|| failed(bundle, source, "it ends within a code object"))
        })?;
        Ok(&buffer[..size as usize])
    }

    /// Skips the next `bytes`, at most what is left.
    ///
    /// # Errors
    /// Those of the bundle.
    pub fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        let bytes = bytes.min(self.left);
        self.source.skip(bytes)?;
        self.left -= bytes;
        Ok(())
    }
}

impl Read for CodeStream<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.left.min(buffer.len() as u64) as usize;
        match self.source.read(&mut buffer[..length]) {
            Ok(count) => {
                self.left -= count as u64;
                Ok(count)
            }
            Err(error) => {
                let told = io::Error::other(error.to_string());
                self.failed.get_or_insert(error);
                Err(told)
            }
        }
    }
}

/// The content of a bundle, with a position.
enum Source<'a> {
    Plain {
        window: &'a Window<'a>,
        bundle: u64,
        position: u64,
    },
    Compressed {
        stream: Box<dyn Read + 'a>,
        header: CompressionHeader,
        bundle: u64,
        position: u64,
        /// `None` if the checksum is skipped.
        digest: Option<Md5>,
    },
}

impl<'a> Source<'a> {
    fn open(bundle: &Bundle, window: &'a Window<'a>, limits: Limits) -> Result<Self, Error> {
        let Some(header) = bundle.compression else {
            return Ok(Self::Plain { window, bundle: bundle.offset, position: 0 });
        };
        within(bundle.offset, "a decompressed size".into(), header.uncompressed, limits.uncompressed)?;
        let stream = compressed::payload(window, bundle.offset, bundle.length, header)?;
        let digest = (limits.checksum == Checksum::Compare).then(Md5::new);
        Ok(Self::Compressed { stream, header, bundle: bundle.offset, position: 0, digest })
    }

    fn bundle(&self) -> u64 {
        match self {
            Self::Plain { bundle, .. } | Self::Compressed { bundle, .. } => *bundle,
        }
    }

    /// Moves to the first byte of an entry; entries must come in order.
    fn go_to(&mut self, entry: &BundleEntry) -> Result<(), Error> {
        match self {
            Self::Plain { position, .. } => *position = entry.offset,
            Self::Compressed { position, bundle, .. } => {
                let Some(gap) = entry.offset.checked_sub(*position) else {
                    let id = entry.id.escape_debug();
                    return Err(malformed(*bundle, format!("its entry `{id}` overlaps another")));
                };
                self.skip(gap)?;
            }
        }
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        if let Self::Plain { position, .. } = self {
            *position += bytes;
            return Ok(());
        }
        let mut passed = vec![0; bytes.min(CHUNK as u64) as usize];
        let mut left = bytes;
        while left > 0 {
            let length = left.min(passed.len() as u64) as usize;
            left -= self.read(&mut passed[..length])? as u64;
        }
        Ok(())
    }

    /// Reads up to `buffer.len()` bytes, at least one unless the buffer is empty.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match self {
            Self::Plain { window, bundle, position } => {
                let start = bundle.saturating_add(*position);
                let read = read_some(&mut window.stream(start, window.size()), buffer);
                let count = read.map_err(|source| failed(*bundle, source, "its section ends within a code object"))?;
                *position += count as u64;
                Ok(count)
            }
            Self::Compressed { stream, header, bundle, position, digest } => {
                let count = read_some(stream, buffer).map_err(|source| {
                    let claimed = header.uncompressed;
                    failed(*bundle, source, &format!("its content is shorter than the {claimed} bytes it claims"))
                })?;
                if let Some(digest) = digest {
                    digest.update(&buffer[..count]);
                }
                *position += count as u64;
                Ok(count)
            }
        }
    }

    /// Checks that a compressed bundle has the size and checksum in its header.
    fn finish(mut self) -> Result<(), Error> {
        if let Self::Compressed { header, position, .. } = &self {
            let rest = header.uncompressed.saturating_sub(*position);
            self.skip(rest)?;
        }
        let Self::Compressed { mut stream, header, bundle, digest, .. } = self else { return Ok(()) };
        let more = stream.read(&mut [0]).map_err(|source| failed(bundle, source, "it ends within its payload"))?;
        if more > 0 {
            return Err(more_than_stated(bundle, header.uncompressed));
        }
        match digest.map(checksum).filter(|found| *found != header.checksum) {
            Some(found) => Err(Error::Checksum { offset: bundle, expected: header.checksum, found }),
            None => Ok(()),
        }
    }
}

/// Reads at least one byte.
fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Returns the checksum as in the header: the first eight bytes of the MD5.
pub(super) fn checksum(digest: Md5) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.finalize()[..8]);
    u64::from_le_bytes(first)
}

/// Reads exactly `size` bytes to the start of a buffer.
fn fill(source: &mut impl Read, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    let size = usize::try_from(size).map_err(io::Error::other)?;
    let mut filled = 0;
    while filled < size {
        if buffer.len() == filled {
            buffer.resize(size.min(filled + filled.max(CHUNK)), 0);
        }
        let end = size.min(buffer.len());
        source.read_exact(&mut buffer[filled..end])?;
        filled = end;
    }
    Ok(())
}

fn failed(bundle: u64, source: io::Error, cut: &str) -> Error {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => malformed(bundle, cut),
        _ => Error::Read { offset: bundle, source },
    }
}

fn within(bundle: u64, what: String, size: u64, limit: u64) -> Result<(), Error> {
    if size > limit { Err(Error::TooLarge { offset: bundle, what, size, limit }) } else { Ok(()) }
}
