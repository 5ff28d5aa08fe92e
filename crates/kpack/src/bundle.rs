//! Input: a random-access file and the range of its `.hip_fatbin` section. Output: the entry table of every offload
//! bundle in it.
//!
//! A section holds one bundle per translation unit, each on a 4096-byte boundary with zeros between; each is a plain
//! clang offload bundle or a compressed one (`CCOB`). Only the entry tables are read: of a compressed bundle as much is
//! decompressed as the table needs.

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use positioned_io::ReadAt;

use crate::error::Error;

/// Bundles start on multiples of this, in bytes.
pub const ALIGNMENT: u64 = 4096;
const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_MAGIC: &[u8; 4] = b"CCOB";
/// A bundle has an entry per target; the most seen in a real library is 14.
const MAX_ENTRIES: u64 = 4096;
/// Bytes of an entry's name; real ones have some 40.
const MAX_ID: u64 = 1024;

/// One offload bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// First byte, from the start of the section.
    pub offset: u64,
    /// Bytes in the section, without the padding that follows.
    pub length: u64,
    /// How it is compressed; `None` for a plain bundle.
    pub compression: Option<Compression>,
    /// What it holds, in the order of the table.
    pub entries: Vec<Entry>,
}

/// The header of a compressed bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// Version of the header: 1, 2 or 3.
    pub version: u16,
    /// How the payload is compressed.
    pub method: Method,
    /// Bytes of the bundle once decompressed.
    pub uncompressed: u64,
}

/// How the payload of a compressed bundle is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// One zlib stream.
    Zlib,
    /// One zstd frame.
    Zstd,
}

/// One entry of a bundle's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Kind, triple and target, for example `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+`.
    pub id: String,
    /// First byte, from the start of the (decompressed) bundle.
    pub offset: u64,
    /// Size in bytes; 0 for the host's entry.
    pub size: u64,
}

impl Entry {
    /// The GPU target with its features, `gfx90a:xnack+`: what follows the last `--`. `None` for the host's entry.
    pub fn target(&self) -> Option<&str> {
        if self.id.starts_with("host-") {
            return None;
        }
        let (_, target) = self.id.rsplit_once("--")?;
        (!target.is_empty()).then_some(target)
    }
}

/// Reads the entry tables of all bundles in `section`, a range of bytes of `reader`.
///
/// An empty section has no bundles. Anything but zeros between the bundles is an error.
pub fn read(reader: &dyn ReadAt, section: Range<u64>) -> Result<Vec<Bundle>, Error> {
    let mut bundles = Vec::new();
    let mut position = 0;
    let window = Window { reader, section };
    while let Some(offset) = window.next_bundle(position)? {
        let bundle = window.read_bundle(offset)?;
        position = offset + bundle.length.max(1);
        bundles.push(bundle);
    }
    Ok(bundles)
}

/// The targets, with their features, that any bundle of the section has code for.
pub fn targets(reader: &dyn ReadAt, section: Range<u64>) -> Result<BTreeSet<String>, Error> {
    let bundles = read(reader, section)?;
    let entries = bundles.iter().flat_map(|bundle| &bundle.entries).filter(|entry| entry.size > 0);
    Ok(entries.filter_map(Entry::target).map(str::to_owned).collect())
}

/// The section, as something that can only be read inside its bounds.
struct Window<'a> {
    reader: &'a dyn ReadAt,
    section: Range<u64>,
}

impl Window<'_> {
    fn size(&self) -> u64 {
        self.section.end.saturating_sub(self.section.start)
    }

    /// Fills `buffer` from `offset`; `bundle` is the bundle an error is about.
    fn fill(&self, bundle: u64, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.size()) {
            return Err(malformed(bundle, "it reaches beyond the section"));
        }
        let read = self.reader.read_exact_at(self.section.start.saturating_add(offset), buffer);
        read.map_err(|source| Error::Read { offset: bundle, source })
    }

    /// The first bundle at or after `position`, which may be the section's end. Only zeros may be skipped.
    fn next_bundle(&self, position: u64) -> Result<Option<u64>, Error> {
        let mut offset = position.next_multiple_of(ALIGNMENT);
        let mut page = [0; ALIGNMENT as usize];
        while offset < self.size() {
            let length = ALIGNMENT.min(self.size() - offset) as usize;
            self.fill(offset, offset, &mut page[..length])?;
            let page = &page[..length];
            if page.starts_with(MAGIC) || page.starts_with(COMPRESSED_MAGIC) {
                return Ok(Some(offset));
            }
            if page.iter().any(|byte| *byte != 0) {
                return Err(Error::NotABundle { offset });
            }
            offset += ALIGNMENT;
        }
        Ok(None)
    }

    fn read_bundle(&self, offset: u64) -> Result<Bundle, Error> {
        let mut magic = [0; 4];
        self.fill(offset, offset, &mut magic)?;
        if magic == *COMPRESSED_MAGIC {
            return self.read_compressed(offset);
        }
        let available = self.size() - offset;
        let source = BufReader::with_capacity(4096, Span { window: self, position: offset, end: self.size() });
        let entries = read_table(source, offset, available)?;
        let length = entries.iter().map(|entry| entry.offset + entry.size).max().unwrap_or(0);
        Ok(Bundle { offset, length: length.max(MAGIC.len() as u64), compression: None, entries })
    }

    fn read_compressed(&self, offset: u64) -> Result<Bundle, Error> {
        let mut head = [0; 8];
        self.fill(offset, offset, &mut head)?;
        let version = u16::from_le_bytes([head[4], head[5]]);
        let method = match u16::from_le_bytes([head[6], head[7]]) {
            0 => Method::Zlib,
            1 => Method::Zstd,
            value => {
                return Err(Error::Unsupported { offset, field: "method", value });
            }
        };
        let (total, uncompressed, header) = match version {
            1 => (None, self.number(offset, 8, 4)?, 20),
            2 => (Some(self.number(offset, 8, 4)?), self.number(offset, 12, 4)?, 24),
            3 => (Some(self.number(offset, 8, 8)?), self.number(offset, 16, 8)?, 32),
            value => {
                return Err(Error::Unsupported { offset, field: "version", value });
            }
        };
        let total = match total {
            Some(total) => total,
            None => self.length_without_size(offset)?,
        };
        let end = offset.checked_add(total).filter(|end| total >= header && *end <= self.size());
        let end = end.ok_or_else(|| malformed(offset, format!("its size {total} does not fit the section")))?;
        let payload = Span { window: self, position: offset + header, end };
        let payload: Box<dyn Read> = match method {
            Method::Zlib => Box::new(flate2::read::ZlibDecoder::new(payload)),
            Method::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(payload);
                Box::new(decoder.map_err(|source| Error::Read { offset, source })?)
            }
        };
        let entries = read_table(payload, offset, uncompressed)?;
        let compression = Some(Compression { version, method, uncompressed });
        Ok(Bundle { offset, length: total, compression, entries })
    }

    fn number(&self, bundle: u64, at: u64, width: usize) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.fill(bundle, bundle + at, &mut bytes[..width])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Version 1 does not say how long it is: it ends before the next boundary on which a bundle starts.
    fn length_without_size(&self, offset: u64) -> Result<u64, Error> {
        let mut next = offset + ALIGNMENT;
        while next < self.size() {
            let mut start = [0; MAGIC.len()];
            let length = (MAGIC.len() as u64).min(self.size() - next) as usize;
            self.fill(offset, next, &mut start[..length])?;
            if start[..length].starts_with(COMPRESSED_MAGIC) || start[..length].starts_with(MAGIC) {
                break;
            }
            next += ALIGNMENT;
        }
        Ok(next.min(self.size()) - offset)
    }
}

/// A range of the section as a stream.
struct Span<'a> {
    window: &'a Window<'a>,
    position: u64,
    end: u64,
}

impl Read for Span<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (self.end.saturating_sub(self.position)).min(buffer.len() as u64) as usize;
        let read = self
            .window
            .reader
            .read_at(self.window.section.start.saturating_add(self.position), &mut buffer[..length])?;
        self.position += read as u64;
        Ok(read)
    }
}

/// Reads a bundle's magic and table. `size` is what the whole bundle may have, in bytes.
fn read_table(mut source: impl Read, bundle: u64, size: u64) -> Result<Vec<Entry>, Error> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::UnexpectedEof => malformed(bundle, "it ends within its entry table"),
        _ => Error::Read { offset: bundle, source },
    };
    let mut magic = [0; MAGIC.len()];
    source.read_exact(&mut magic).map_err(failed)?;
    if magic != *MAGIC {
        return Err(malformed(bundle, "its content is not an offload bundle"));
    }
    let count = number(&mut source).map_err(failed)?;
    if count > MAX_ENTRIES {
        return Err(malformed(bundle, format!("it claims {count} entries")));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let offset = number(&mut source).map_err(failed)?;
        let length = number(&mut source).map_err(failed)?;
        let id_length = number(&mut source).map_err(failed)?;
        if id_length > MAX_ID {
            return Err(malformed(bundle, format!("it claims an entry with a name of {id_length} bytes")));
        }
        let mut id = vec![0; id_length as usize];
        source.read_exact(&mut id).map_err(failed)?;
        let id = String::from_utf8(id).map_err(|_| malformed(bundle, "the name of an entry is not text"))?;
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(malformed(bundle, format!("its entry `{id}` reaches beyond the bundle")));
        }
        entries.push(Entry { id, offset, size: length });
    }
    Ok(entries)
}

fn number(source: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn malformed(offset: u64, reason: impl Into<String>) -> Error {
    Error::Malformed { offset, reason: reason.into() }
}
