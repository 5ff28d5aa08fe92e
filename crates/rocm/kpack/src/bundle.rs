//! Input: a random-access file and the range of its `.hip_fatbin` section. Output: the entry table
//! of every offload bundle in it.
//!
//! A section holds one bundle per translation unit, each on a 4096-byte boundary with zeros
//! between; each is a plain clang offload bundle or a compressed one (`CCOB`). A bundle's own table
//! and sizes determine its end. A search for the next one's magic would be wrong, because a code
//! object may contain it as well. Only the entry tables are read: of a compressed bundle only as
//! much is decompressed as the table needs. [`Bundle::visit`] reads the code objects, [`write()`]
//! writes a bundle.
//!
//! A file that is a bundle (`.co`, `.hipfb`) is a section from its first byte to its last.

mod compressed;
mod visit;
mod write;

use std::collections::BTreeSet;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use positioned_io::{Cursor, ReadAt, Slice};
use rocwheel_tables::target;

use crate::error::Error;

pub use visit::{Checksum, CodeStream, Limits};
pub use write::{BundleForm, Part, plain_size, write};

/// Alignment of bundles in bytes.
pub const ALIGNMENT: u64 = 4096;
const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";
const COMPRESSED_MAGIC: &[u8; 4] = b"CCOB";
/// Bytes of padding that are read at a time.
const SKIP: usize = 64 * 1024;
/// Largest number of entries: a bundle has one per target, at most 14 in real libraries so far.
const MAX_ENTRIES: u64 = 4096;
/// Longest name of an entry in bytes; real ones have some 40.
const MAX_ID: u64 = 1024;

/// An offload bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Offset from the start of the section, in bytes.
    pub offset: u64,
    /// Size in the section in bytes, without the padding that follows.
    pub length: u64,
    /// The header of a compressed bundle; `None` for a plain bundle.
    pub compression: Option<CompressionHeader>,
    /// The entries in the order of the table.
    pub entries: Vec<BundleEntry>,
}

/// The header of a compressed bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionHeader {
    /// Version of the header: 1, 2 or 3.
    pub version: u16,
    /// Compression of the payload.
    pub method: Method,
    /// Size of the decompressed bundle in bytes.
    pub uncompressed: u64,
    /// The first eight bytes of the MD5 of the decompressed bundle, as a little-endian number.
    pub checksum: u64,
}

/// Compression of the payload of a compressed bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// One zlib stream.
    Zlib,
    /// One zstd frame.
    Zstd,
}

/// An entry of a bundle's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleEntry {
    /// Kind, triple and target, for example `hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+`.
    pub id: String,
    /// Offset from the start of the (decompressed) bundle, in bytes.
    pub offset: u64,
    /// Size in bytes; 0 for the host's entry.
    pub size: u64,
}

impl BundleEntry {
    /// Returns the GPU target with its features, `gfx90a:xnack+`: the text behind the last `--`.
    /// `None` for the host's entry.
    pub fn target(&self) -> Option<&str> {
        target::of_bundle_id(&self.id)
    }

    /// `false` for the host's entry, which has no bytes.
    pub fn has_code(&self) -> bool {
        self.size > 0
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

/// Returns the targets, with their features, that any bundle of the section has code for.
pub fn targets(reader: &dyn ReadAt, section: Range<u64>) -> Result<BTreeSet<String>, Error> {
    let bundles = read(reader, section)?;
    let entries = bundles.iter().flat_map(|bundle| &bundle.entries).filter(|entry| entry.has_code());
    Ok(entries.filter_map(BundleEntry::target).map(str::to_owned).collect())
}

/// The section; reads outside of its bounds fail.
struct Window<'a> {
    reader: &'a dyn ReadAt,
    section: Range<u64>,
}

impl Window<'_> {
    fn size(&self) -> u64 {
        self.section.end.saturating_sub(self.section.start)
    }

    /// Fills `buffer` from `offset`; `bundle` is the offset of the bundle that an error is about.
    fn fill(&self, bundle: u64, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.size()) {
            return Err(malformed(bundle, "it reaches beyond the section"));
        }
        let read = self.reader.read_exact_at(self.section.start.saturating_add(offset), buffer);
        read.map_err(|source| Error::Read { offset: bundle, source })
    }

    /// Returns the offset of the first bundle at or after `position`, which may be the section's
    /// end. Only zeros are skipped.
    fn next_bundle(&self, position: u64) -> Result<Option<u64>, Error> {
        let mut position = position;
        let mut zeros = vec![0; SKIP];
        while position < self.size() {
            let length = (SKIP as u64).min(self.size() - position) as usize;
            self.fill(position, position, &mut zeros[..length])?;
            match zeros[..length].iter().position(|byte| *byte != 0) {
                None => position += length as u64,
                Some(at) => {
                    let offset = position + at as u64;
                    let mut start = [0; MAGIC.len()];
                    let length = (MAGIC.len() as u64).min(self.size() - offset) as usize;
                    self.fill(offset, offset, &mut start[..length])?;
                    let start = &start[..length];
                    let known = start.starts_with(MAGIC) || start.starts_with(COMPRESSED_MAGIC);
                    return if known { Ok(Some(offset)) } else { Err(Error::NotABundle { offset }) };
                }
            }
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
        let source = BufReader::with_capacity(4096, self.stream(offset, self.size()));
        let table = Table::read(source, offset, available)?;
        let length = table.end;
        Ok(Bundle { offset, length, compression: None, entries: table.entries })
    }

    fn read_compressed(&self, offset: u64) -> Result<Bundle, Error> {
        let header = compressed::Header::read(self, offset)?;
        let payload = compressed::payload(self, offset, header.total, header.compression)?;
        let table = Table::read(payload, offset, header.compression.uncompressed)?;
        Ok(Bundle { offset, length: header.total, compression: Some(header.compression), entries: table.entries })
    }

    /// The bytes from `start` to `end`, both from the beginning of the section.
    fn stream(&self, start: u64, end: u64) -> Cursor<Slice<&dyn ReadAt>> {
        let first = self.section.start.saturating_add(start);
        Cursor::new(Slice::new(self.reader, first, Some(end.saturating_sub(start))))
    }

    fn number(&self, bundle: u64, at: u64, width: usize) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.fill(bundle, bundle + at, &mut bytes[..width])?;
        Ok(u64::from_le_bytes(bytes))
    }
}

fn more_than_stated(bundle: u64, stated: u64) -> Error {
    malformed(bundle, format!("its content is longer than the {stated} bytes it claims"))
}

/// A bundle's entries, and the end of the last one. (clang pads the bundle up to an entry without
/// bytes as well.)
struct Table {
    entries: Vec<BundleEntry>,
    end: u64,
}

impl Table {
    /// Reads a bundle's magic and table. `size` is the largest size of the whole bundle, in bytes.
    fn read(mut source: impl Read, bundle: u64, size: u64) -> Result<Self, Error> {
        let mut magic = [0; MAGIC.len()];
        source.read_exact(&mut magic).map_err(table_error(bundle))?;
        if magic != *MAGIC {
            return Err(malformed(bundle, "its content is not an offload bundle"));
        }
        let count = number(&mut source).map_err(table_error(bundle))?;
        if count > MAX_ENTRIES {
            return Err(malformed(bundle, format!("it claims {count} entries")));
        }
        let mut entries = Vec::new();
        let mut table_end = MAGIC.len() as u64 + 8;
        let mut last_end = 0;
        for _ in 0..count {
            let offset = number(&mut source).map_err(table_error(bundle))?;
            let length = number(&mut source).map_err(table_error(bundle))?;
            let id_length = number(&mut source).map_err(table_error(bundle))?;
            if id_length > MAX_ID {
                return Err(malformed(bundle, format!("it claims an entry with a name of {id_length} bytes")));
            }
            let mut id = vec![0; id_length as usize];
            source.read_exact(&mut id).map_err(table_error(bundle))?;
            let id = String::from_utf8(id).map_err(|_| malformed(bundle, "the name of an entry is not text"))?;
            match offset.checked_add(length).filter(|end| *end <= size) {
                Some(end) => last_end = last_end.max(end),
                // The offset of an entry without bytes has no meaning.
                None if length == 0 => {}
                None => {
                    let reason = format!("its entry `{}` reaches beyond the bundle", id.escape_debug());
                    return Err(malformed(bundle, reason));
                }
            }
            table_end += 24 + id_length;
            entries.push(BundleEntry { id, offset, size: length });
        }
        check_places(&entries, table_end, bundle)?;
        Ok(Self { entries, end: last_end.max(table_end) })
    }
}

fn table_error(bundle: u64) -> impl Fn(io::Error) -> Error {
    move |source| match source.kind() {
        io::ErrorKind::UnexpectedEof => malformed(bundle, "it ends within its entry table"),
        _ => Error::Read { offset: bundle, source },
    }
}

/// Refuses entries that overlap the table or each other. Two entries may have the same bytes.
fn check_places(entries: &[BundleEntry], table_end: u64, bundle: u64) -> Result<(), Error> {
    let mut before: Option<&BundleEntry> = None;
    for entry in in_order(entries) {
        let id = entry.id.escape_debug();
        if entry.offset < table_end {
            return Err(malformed(bundle, format!("its entry `{id}` overlaps the table of entries")));
        }
        let overlapped = before.filter(|other| !same_bytes(other, entry) && entry.offset < other.offset + other.size);
        if let Some(other) = overlapped {
            let other = other.id.escape_debug();
            return Err(malformed(bundle, format!("its entries `{other}` and `{id}` overlap")));
        }
        before = Some(entry);
    }
    Ok(())
}

/// Returns the entries with bytes, by their offset.
fn in_order(entries: &[BundleEntry]) -> Vec<&BundleEntry> {
    let mut sorted: Vec<&BundleEntry> = entries.iter().filter(|entry| entry.has_code()).collect();
    sorted.sort_by_key(|entry| (entry.offset, entry.size));
    sorted
}

fn same_bytes(left: &BundleEntry, right: &BundleEntry) -> bool {
    (left.offset, left.size) == (right.offset, right.size)
}

fn number(source: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    source.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn malformed(offset: u64, reason: impl Into<String>) -> Error {
    Error::Malformed { offset, reason: reason.into() }
}
