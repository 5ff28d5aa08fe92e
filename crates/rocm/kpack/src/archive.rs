//! Input: a `.kpack` archive as a random-access file. Output: its table of contents, and one code
//! object at a time.
//!
//! An archive (spec 2) is a header of 64 bytes, the code objects, and a table of contents in
//! MessagePack. Only the table is kept in memory. [`ArchiveWriter`] writes an archive without
//! keeping any code object.

mod table;
mod write;

use std::cmp::Ordering;
use std::io::{self, BufReader, Read};

use positioned_io::{Cursor, ReadAt, Slice};
use rocwheel_tables::target;

use crate::code_object;
use crate::error::Error;
use table::Table;

pub use write::{ArchiveWriter, Blob, StoredCode};

/// Bytes that are compared at a time.
const WINDOW: usize = 256 << 10;
const MAGIC: &[u8; 4] = b"KPAK";
const VERSION: u32 = 1;
/// Size of the header in bytes; the code objects follow.
const HEADER_SIZE: u64 = 64;
/// The loader's limit for the size of all code objects of a compressed archive, in bytes.
const MAX_BLOBS_SIZE: u64 = 1 << 32;
/// The loader's limit for the number of code objects in an archive.
const MAX_BLOBS: u64 = 1_048_576;
/// Largest table of contents that is read, in bytes; [`MAX_BLOBS`] entries with long names take
/// less.
const MAX_TABLE_SIZE: u64 = 1 << 28;

/// Storage of the code objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Uncompressed.
    None,
    /// Each in a separate zstd frame.
    ZstdPerKernel,
}

impl Scheme {
    /// Returns the name of the scheme in archives.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ZstdPerKernel => "zstd-per-kernel",
        }
    }
}

/// The table of contents of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KpackArchive {
    /// The group of the code objects, usually a distribution or an artifact.
    pub group: String,
    /// The target or family the archive was made for; the loader does not read it.
    pub family: String,
    /// The targets, with their features, for which the loader opens the archive.
    pub targets: Vec<String>,
    /// Storage of the code objects.
    pub scheme: Scheme,
    /// Sorted by name, index and target.
    records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    name: String,
    index: Option<u32>,
    target: String,
    original_size: u64,
    offset: u64,
    size: u64,
}

/// The position of a code object in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located<'a> {
    /// The marker's `kernel_name`. Without an index, the whole text in the table.
    pub name: &'a str,
    /// The wrapper's index. `None` for a text that does not end with `#` and an index: no wrapper
    /// refers to that code, because the loader always looks for `name#index`.
    pub index: Option<u32>,
    /// The target, with its features.
    pub target: &'a str,
    /// Size of the code object in bytes.
    pub original_size: u64,
    /// Offset of the stored bytes in the file.
    pub offset: u64,
    /// Number of stored bytes.
    pub size: u64,
}

impl Located<'_> {
    /// Returns the name and index as the table has them: `lib/librocblas.so.4#0`.
    pub fn key(&self) -> String {
        key(self.name, self.index)
    }

    fn describe(&self) -> String {
        describe(self.name, self.index, self.target)
    }

    fn read_error(&self) -> impl Fn(io::Error) -> Error {
        move |source| Error::ReadArchive { what: self.describe(), source }
    }
}

fn key(name: &str, index: Option<u32>) -> String {
    match index {
        Some(index) => format!("{name}#{index}"),
        None => name.to_owned(),
    }
}

fn describe(name: &str, index: Option<u32>, target: &str) -> String {
    format!("`{}` for `{}`", key(name, index).escape_debug(), target.escape_debug())
}

impl Record {
    fn located(&self) -> Located<'_> {
        Located {
            name: &self.name,
            index: self.index,
            target: &self.target,
            original_size: self.original_size,
            offset: self.offset,
            size: self.size,
        }
    }

    fn compare(&self, name: &str, index: Option<u32>, target: &str) -> Ordering {
        let same = self.name.as_str().cmp(name).then_with(|| self.index.cmp(&index));
        same.then_with(|| target::compare(&self.target, target))
    }
}

/// A code object as the table of contents lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableEntry {
    /// Name and index as in the table: `lib/librocblas.so.4#0`.
    pub key: String,
    /// The target, with its features.
    pub target: String,
    /// Size of the code object in bytes.
    pub original_size: u64,
    /// Number of stored bytes. A compressed archive has the lengths of its frames between them, so
    /// each code object gets a share of all frames, in proportion to its size.
    pub stored: u64,
}

/// Reads the header and the table of contents of an archive of `size` bytes, and nothing of its
/// code objects. The order is that of the table.
///
/// # Errors
/// Those of [`KpackArchive::open`] that the table shows.
pub fn read_table(reader: &dyn ReadAt, size: u64) -> Result<Vec<TableEntry>, Error> {
    let (table, _) = table_of(reader, size)?;
    let total: u64 = table.kernels.iter().map(|kernel| kernel.original_size).fold(0, u64::saturating_add);
    let mut seen: u64 = 0;
    let entries = table.kernels.into_iter().map(|kernel| {
        let stored = match &table.blobs {
            table::Blobs::Listed(_) => kernel.original_size,
            table::Blobs::Frames { size, .. } => {
                // Differences of running sums add up to the whole.
                let before = share(*size, seen, total);
                seen = seen.saturating_add(kernel.original_size);
                share(*size, seen, total) - before
            }
        };
        let key = key(&kernel.name, kernel.index);
        TableEntry { key, target: kernel.target, original_size: kernel.original_size, stored }
    });
    Ok(entries.collect())
}

/// The part of `length` that corresponds to `seen` out of `total`.
pub fn share(length: u64, seen: u64, total: u64) -> u64 {
    if total == 0 { 0 } else { (u128::from(length) * u128::from(seen) / u128::from(total)) as u64 }
}

/// The table of contents, and its offset in the file.
fn table_of(reader: &dyn ReadAt, size: u64) -> Result<(Table, u64), Error> {
    let table_offset = read_header(reader, size)?;
    let table_size = size - table_offset;
    if table_size > MAX_TABLE_SIZE {
        return Err(malformed(format!(
            "its table of contents has {table_size} bytes; at most {MAX_TABLE_SIZE} are read"
        )));
    }
    let mut bytes = vec![0; table_size as usize];
    let read = reader.read_exact_at(table_offset, &mut bytes);
    read.map_err(|source| Error::ReadArchive { what: "the table of contents".into(), source })?;
    Ok((Table::parse(&bytes)?, table_offset))
}

impl KpackArchive {
    /// Reads the table of contents of an archive of `size` bytes.
    ///
    /// It is at least as strict as the loader, and stricter for archives that versions of the
    /// loader treat differently: unknown compression, the same name and target twice.
    pub fn open(reader: &dyn ReadAt, size: u64) -> Result<Self, Error> {
        let (table, table_offset) = table_of(reader, size)?;
        let blobs = match &table.blobs {
            table::Blobs::Listed(blobs) => checked(blobs, table_offset)?,
            table::Blobs::Frames { offset, size } => frames(reader, *offset, *size, table_offset)?,
        };
        let records = table.kernels.into_iter().map(|kernel| {
            let blob = usize::try_from(kernel.ordinal).ok().and_then(|ordinal| blobs.get(ordinal));
            let Some(&(offset, size)) = blob else {
                let (what, count) = (describe(&kernel.name, kernel.index, &kernel.target), blobs.len());
                return Err(malformed(format!("{what} is number {} of {count} code objects", kernel.ordinal)));
            };
            if table.scheme == Scheme::None && kernel.original_size != size {
                let (what, stated) = (describe(&kernel.name, kernel.index, &kernel.target), kernel.original_size);
                return Err(malformed(format!("{what} should have {stated} bytes, but {size} are stored")));
            }
            let (name, index, target, original_size) = (kernel.name, kernel.index, kernel.target, kernel.original_size);
            Ok(Record { name, index, target, original_size, offset, size })
        });
        let mut records = records.collect::<Result<Vec<_>, Error>>()?;
        records.sort_by(|left, right| left.compare(&right.name, right.index, &right.target));
        let twice =
            records.windows(2).find(|pair| pair[0].compare(&pair[1].name, pair[1].index, &pair[1].target).is_eq());
        if let Some(pair) = twice {
            return Err(malformed(format!("it has {} twice", pair[0].located().describe())));
        }
        let (group, family, targets, scheme) = (table.group, table.family, table.targets, table.scheme);
        Ok(Self { group, family, targets, scheme, records })
    }

    /// Returns all code objects, by name, index and target, the targets in numeric order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Located<'_>> {
        self.records.iter().map(Record::located)
    }

    /// Returns the code object that the loader uses for exactly this target. The loader uses none
    /// for a target that is not in [`KpackArchive::targets`], and always looks with an index.
    pub fn find(&self, name: &str, index: impl Into<Option<u32>>, target: &str) -> Option<Located<'_>> {
        let index = index.into();
        let found = self.records.binary_search_by(|record| record.compare(name, index, target)).ok()?;
        Some(self.records[found].located())
    }

    /// Reads one code object. If its frame has a checksum, it is compared.
    pub fn read(&self, reader: &dyn ReadAt, located: &Located<'_>) -> Result<Vec<u8>, Error> {
        let stored = stored(reader, located)?;
        match self.scheme {
            Scheme::None => Ok(stored),
            Scheme::ZstdPerKernel => unpack(&stored, located),
        }
    }

    /// Compares one code object with the bytes of `code`; of either, a window is in memory. Returns
    /// the offset of the first different byte, which is the shorter length if one begins with the
    /// other; `None` for equal ones. If the frame has a checksum, it is compared as well.
    ///
    /// # Errors
    /// A frame that does not decompress, and failures to read `code`.
    pub fn first_difference(
        &self,
        reader: &dyn ReadAt,
        located: &Located<'_>,
        code: &mut dyn Read,
    ) -> Result<Option<u64>, Error> {
        let span =
            BufReader::with_capacity(WINDOW, Cursor::new(Slice::new(reader, located.offset, Some(located.size))));
        let mut stored: Box<dyn Read + '_> = match self.scheme {
            Scheme::None => Box::new(span),
            Scheme::ZstdPerKernel => {
                Box::new(zstd::stream::read::Decoder::with_buffer(span).map_err(located.read_error())?.single_frame())
            }
        };
        let (mut found, mut expected) = (vec![0; WINDOW], vec![0; WINDOW]);
        let mut at = 0;
        loop {
            let count = read_window(&mut stored, &mut found).map_err(located.read_error())?;
            let found = &found[..count];
            let count = read_window(code, &mut expected).map_err(located.read_error())?;
            let expected = &expected[..count];
            if found != expected {
                let equal = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
                return Ok(Some(at + equal as u64));
            }
            if count < WINDOW {
                return Ok(None);
            }
            at += count as u64;
        }
    }

    /// Like [`KpackArchive::read`], for code that is copied to another file, where damage can no
    /// longer be detected: code without a checksum must have the header and metadata of the target
    /// it is stored under.
    pub fn read_sound(&self, reader: &dyn ReadAt, located: &Located<'_>) -> Result<Vec<u8>, Error> {
        let stored = stored(reader, located)?;
        let (code, is_vouched) = match self.scheme {
            Scheme::None => (stored, false),
            Scheme::ZstdPerKernel => (unpack(&stored, located)?, has_checksum(&stored)),
        };
        match code_object::contradiction(located.target, &code) {
            Some(reason) if !is_vouched => Err(Error::Damaged { what: located.describe(), reason }),
            _ => Ok(code),
        }
    }

    /// Reads one code object in its stored form, for an archive of the same scheme. It is not
    /// checked.
    pub fn blob(&self, reader: &dyn ReadAt, located: &Located<'_>) -> Result<Blob, Error> {
        Ok(Blob { original_size: located.original_size, bytes: stored(reader, located)? })
    }
}

/// `true` if a frame ends with a checksum of its content: bit 2 of the byte behind its magic number
/// (RFC 8878, 3.1.1.1).
fn has_checksum(frame: &[u8]) -> bool {
    frame.get(4).is_some_and(|descriptor| descriptor & 4 != 0)
}

/// Reads the header and returns the offset of the table of contents.
fn read_header(reader: &dyn ReadAt, size: u64) -> Result<u64, Error> {
    if size < HEADER_SIZE {
        return Err(Error::NotAnArchive {
            reason: format!("it has {size} bytes, and the header alone has {HEADER_SIZE}"),
        });
    }
    let mut header = [0; 16];
    let read = reader.read_exact_at(0, &mut header);
    read.map_err(|source| Error::ReadArchive { what: "the header".into(), source })?;
    if !header.starts_with(MAGIC) {
        return Err(Error::NotAnArchive { reason: format!("it starts with `{}`", header[..4].escape_ascii()) });
    }
    let mut version = [0; 4];
    version.copy_from_slice(&header[4..8]);
    let version = u32::from_le_bytes(version);
    if version != VERSION {
        return Err(Error::UnsupportedArchive { field: "version", value: version.to_string() });
    }
    let mut offset = [0; 8];
    offset.copy_from_slice(&header[8..16]);
    let offset = u64::from_le_bytes(offset);
    if offset < HEADER_SIZE || offset >= size {
        return Err(malformed(format!("its table of contents would start at byte {offset} of {size}")));
    }
    Ok(offset)
}

/// Checks that the blobs of an uncompressed archive lie between the header and the table.
fn checked(blobs: &[(u64, u64)], table_offset: u64) -> Result<Vec<(u64, u64)>, Error> {
    let outside = blobs
        .iter()
        .find(|(offset, size)| *offset < HEADER_SIZE || offset.checked_add(*size).is_none_or(|end| end > table_offset));
    match outside {
        Some((offset, size)) => Err(malformed(format!(
            "{size} bytes from byte {offset} are not between its header and its table of contents"
        ))),
        None => Ok(blobs.to_vec()),
    }
}

/// Returns offset and size of the frames of a compressed archive: the area has their number, then
/// each frame with its length before it.
fn frames(reader: &dyn ReadAt, offset: u64, size: u64, table_offset: u64) -> Result<Vec<(u64, u64)>, Error> {
    let end = offset.checked_add(size).filter(|end| offset >= HEADER_SIZE && *end <= table_offset && size >= 4);
    let end = end.ok_or_else(|| {
        malformed(format!(
            "{size} bytes of frames from byte {offset} are not between its header and its table of contents"
        ))
    })?;
    if size > MAX_BLOBS_SIZE {
        return Err(malformed(format!("its frames have {size} bytes; the loader takes {MAX_BLOBS_SIZE}")));
    }
    let count = frame_number(reader, offset)?;
    if count > MAX_BLOBS {
        return Err(malformed(format!("it has {count} frames; the loader takes {MAX_BLOBS}")));
    }
    let mut position = offset + 4;
    let mut frames = Vec::new();
    for index in 0..count {
        let length = if position + 4 > end { None } else { Some(frame_number(reader, position)?) };
        let Some(length) = length.filter(|length| position + 4 + length <= end) else {
            let reason = format!("its frame {index} of {count} reaches beyond the {size} bytes of all frames");
            return Err(malformed(reason));
        };
        frames.push((position + 4, length));
        position += 4 + length;
    }
    if position != end {
        return Err(malformed(format!("{} bytes follow its last frame", end - position)));
    }
    Ok(frames)
}

fn frame_number(reader: &dyn ReadAt, at: u64) -> Result<u64, Error> {
    let mut bytes = [0; 4];
    let read = reader.read_exact_at(at, &mut bytes);
    read.map_err(|source| Error::ReadArchive { what: "the frames".into(), source })?;
    Ok(u64::from(u32::from_le_bytes(bytes)))
}

/// Fills a window; only the end of the stream leaves it partly filled. Returns the number of bytes.
fn read_window(stream: &mut dyn Read, window: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < window.len() {
        match stream.read(&mut window[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads the stored bytes of a code object.
fn stored(reader: &dyn ReadAt, located: &Located<'_>) -> Result<Vec<u8>, Error> {
    // The sizes were checked against the file's size, so the file has so many bytes.
    let mut bytes = vec![0; located.size as usize];
    let read = reader.read_exact_at(located.offset, &mut bytes);
    read.map_err(located.read_error())?;
    Ok(bytes)
}

/// Decompresses one frame, which must give exactly the number of bytes in the table.
fn unpack(frame: &[u8], located: &Located<'_>) -> Result<Vec<u8>, Error> {
    let expected = located.original_size;
    // Memory is only allocated in advance if the frame and the table state the same size. In one
    // step, zstd needs no window besides the result.
    let stated = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
    if stated == Some(expected) && expected <= MAX_RESERVED {
        let mut bytes = Vec::with_capacity(expected as usize);
        let length = zstd::zstd_safe::find_frame_compressed_size(frame)
            .map_err(|code| located.read_error()(io::Error::other(zstd::zstd_safe::get_error_name(code))))?;
        let mut decompressor = zstd::bulk::Decompressor::new().map_err(located.read_error())?;
        decompressor.decompress_to_buffer(&frame[..length], &mut bytes).map_err(located.read_error())?;
        return sized(bytes, located);
    }
    let decoder = zstd::stream::read::Decoder::with_buffer(frame).map_err(located.read_error())?.single_frame();
    let mut decoder = decoder.take(expected.saturating_add(1));
    let mut bytes = Vec::new();
    decoder.read_to_end(&mut bytes).map_err(located.read_error())?;
    sized(bytes, located)
}

/// Checks that the bytes have the size in the table.
fn sized(bytes: Vec<u8>, located: &Located<'_>) -> Result<Vec<u8>, Error> {
    let expected = located.original_size;
    if bytes.len() as u64 != expected {
        let found = if bytes.len() as u64 > expected { "more".to_owned() } else { bytes.len().to_string() };
        return Err(malformed(format!("{} should have {expected} bytes, but has {found}", located.describe())));
    }
    Ok(bytes)
}

/// Largest allocation, in bytes, that is based on the sizes in a frame and a table alone.
const MAX_RESERVED: u64 = 64 << 20;

fn malformed(reason: impl Into<String>) -> Error {
    Error::Archive { reason: reason.into() }
}
