//! Input: a ZIP file from an untrusted source. Output: its members, after the checks that must pass
//! before a byte of them is trusted: names stay inside the folder and are unique, headers agree,
//! ranges do not overlap, sizes are possible.

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::Path;

use positioned_io::{ReadAt, SizeCursor, Slice};
use rocwheel_content::{SharedFile, open_regular};
use zip::read::ZipFileEntry;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::{Compared, Listed, MemberKind};
use crate::Error;
use crate::member_name::check_member_name;

/// Deflate produces at most 258 bytes from two bits.
const MOST_PER_BYTE: u64 = 1032;
const LOCAL_HEADER: usize = 30;
const CENTRAL_HEADER: usize = 46;
const DESCRIPTOR_FLAG: u16 = 1 << 3;
/// A directory of more bytes is not kept in memory.
const LARGEST: u64 = 64 << 20;
/// Size of the part that a member's local header and its directory entry share: flags, method,
/// time, checksum, sizes, length of the name.
pub(super) const OWN: usize = 22;
/// Offset of that part in the directory entry.
const COMMON: usize = 8;

/// An open ZIP file and the contents of its directory.
pub(super) struct Directory {
    pub(super) file: SharedFile,
    /// In the order of the directory.
    pub(super) members: Vec<Listed>,
    /// Position of the directory in the file.
    pub(super) start: u64,
    pub(super) comment: Vec<u8>,
}

/// Reads the directory of the ZIP file at `path`, and the header before each member.
pub(super) fn read(path: &Path) -> Result<Directory, Error> {
    let file = open_regular(path).map_err(Error::open(path))?;
    let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| not_opened(path, error, || damage_at(path)))?;
    let (end, metadata) = (archive.central_directory_start(), archive.metadata());
    let comment = archive.comment().to_owned();
    let file = SharedFile::new(archive.into_inner().into_inner());
    let size = file.file().metadata().map_err(Error::open(path))?.len();
    if has_two_ends(&file, size).map_err(Error::open(path))? {
        return Err(Error::malformed(path, TWO_ENDS));
    }
    if metadata.has_duplicate_names() {
        let name = repeated_name(&file, end).map_err(Error::open(path))?;
        return Err(Error::malformed(path, format!("two members are named `{name}`")));
    }
    let mut listed = Vec::with_capacity(metadata.len());
    let mut ranges = Vec::with_capacity(metadata.len());
    for index in 0..metadata.len() {
        let entry = metadata.entry(index).map_err(Error::open(path))?;
        let mut member = member(&entry, path)?;
        let header = Local::read(&file, entry.header_start(), entry.name_raw().len()).map_err(Error::open(path))?;
        check(&member, &header, entry.name_raw()).map_err(|reason| Error::malformed(path, reason))?;
        member.offset = header.end;
        member.own = header.own;
        let Some(end) = header.end.checked_add(member.compressed) else {
            return Err(Error::malformed(path, format!("the size of member `{}` cannot be", member.name)));
        };
        ranges.push((entry.header_start(), end, index));
        listed.push(member);
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if pair[0].1 > pair[1].0 {
            let (first, second) = (&listed[pair[0].2].name, &listed[pair[1].2].name);
            return Err(Error::malformed(path, format!("members `{first}` and `{second}` overlap")));
        }
    }
    match ranges.last() {
        Some((_, last, index)) if *last > end => {
            let name = &listed[*index].name;
            Err(Error::malformed(path, format!("member `{name}` reaches into the directory of the archive")))
        }
        _ => Ok(Directory { file, members: listed, start: end, comment }),
    }
}

/// The members of a ZIP file of `size` bytes by its directory alone: the headers before members are
/// not read, so [`Listed::offset`] of each is 0 until [`locate`] finds it. `path` is for messages.
pub(super) fn read_central(path: &Path, file: &impl ReadAt, size: u64) -> Result<Vec<Listed>, Error> {
    let source = BufReader::new(SizeCursor::new(Slice::new(file, 0, Some(size))));
    let archive = ZipArchive::new(source).map_err(|error| not_opened(path, error, || damage(file, size)))?;
    let (start, metadata) = (archive.central_directory_start(), archive.metadata());
    if has_two_ends(file, size).map_err(Error::open(path))? {
        return Err(Error::malformed(path, TWO_ENDS));
    }
    if metadata.has_duplicate_names() {
        let name = repeated_name(file, start).map_err(Error::open(path))?;
        return Err(Error::malformed(path, format!("two members are named `{name}`")));
    }
    let entries = (0..metadata.len()).map(|index| metadata.entry(index).map_err(Error::open(path)));
    entries.map(|entry| member(&entry?, path)).collect()
}

/// A member of [`read_central`] with the place of its bytes, after the checks of its own header.
pub(super) fn locate(path: &Path, file: &impl ReadAt, listed: &Listed) -> Result<Listed, Error> {
    let header = Local::read(file, listed.header, listed.name.len()).map_err(Error::open(path))?;
    check(listed, &header, listed.name.as_bytes()).map_err(|reason| Error::malformed(path, reason))?;
    Ok(Listed { offset: header.end, own: header.own, ..listed.clone() })
}

fn member(entry: &ZipFileEntry<'_>, path: &Path) -> Result<Listed, Error> {
    let name = entry.name().map_err(Error::open(path))?.into_owned();
    let kind = kind(&name, entry.external_attributes());
    if let Err(Error::MemberName { reason, .. }) = check_member_name(name.strip_suffix('/').unwrap_or(&name)) {
        return Err(Error::malformed(path, format!("member name `{name}` cannot be used: {reason}")));
    }
    Ok(Listed {
        size: entry.size(),
        compressed: entry.compressed_size(),
        executable: entry.external_attributes() >> 16 & 0o111 != 0,
        kind,
        mode: permissions(kind, entry.external_attributes()),
        crc32: entry.crc32(),
        method: method(entry.compression()),
        encrypted: entry.encrypted(),
        offset: 0,
        header: entry.header_start(),
        own: [0; OWN],
        compared: Compared::default(),
        name,
    })
}

fn not_opened(path: &Path, error: ZipError, damage: impl FnOnce() -> Option<&'static str>) -> Error {
    match damage() {
        Some(reason) => Error::malformed(path, reason),
        None => Error::open(path)(error),
    }
}

fn damage_at(path: &Path) -> Option<&'static str> {
    let file = fs_err::File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    damage(file.file(), size)
}

/// The reason why a file cannot be opened as a ZIP file, if its contents reveal it.
fn damage(file: &impl ReadAt, size: u64) -> Option<&'static str> {
    if size == 0 {
        return Some("the file is empty");
    }
    let mut start = [0; 4];
    let is_zip = file.read_exact_at(0, &mut start).is_ok() && start == *b"PK\x03\x04";
    let has_end = ends_as_archive(file, size).unwrap_or(true);
    match (is_zip, has_end) {
        (true, false) => Some("it is cut off: the end of the archive, with its list of members, is missing"),
        (false, false) => Some("it is not a ZIP archive"),
        _ => None,
    }
}

/// The mark of the end record of a ZIP file.
const END_MARK: [u8; 4] = *b"PK\x05\x06";
/// Bytes of an end record without its comment.
const END_RECORD: usize = 22;
const TWO_ENDS: &str = "its comment has the mark of an end record, so installers may read different archives in it";

/// The last bytes of a file, in which the end record is: 22 bytes, and a comment of at most 65535.
fn last_bytes(file: &impl ReadAt, size: u64) -> io::Result<Vec<u8>> {
    let mut last = vec![0; size.min(END_RECORD as u64 + u64::from(u16::MAX)) as usize];
    file.read_exact_at(size - last.len() as u64, &mut last)?;
    Ok(last)
}

/// `true` if the last bytes contain the end record of a ZIP file.
fn ends_as_archive(file: &impl ReadAt, size: u64) -> io::Result<bool> {
    Ok(last_bytes(file, size)?.windows(4).any(|bytes| bytes == END_MARK))
}

/// `true` if an end record whose comment ends with the file is not the last mark of one: some
/// readers take the last mark (Python), others the record that fits.
fn has_two_ends(file: &impl ReadAt, size: u64) -> io::Result<bool> {
    let last = last_bytes(file, size)?;
    let mut marks = last.windows(4).enumerate().filter(|(_, bytes)| **bytes == END_MARK).map(|(at, _)| at).rev();
    marks.next();
    Ok(marks.any(|at| {
        let comment = last.get(at + END_RECORD - 2..at + END_RECORD);
        comment.is_some_and(|size| at + END_RECORD + usize::from(short_at(size, 0)) == last.len())
    }))
}

/// The number of bytes behind the end record and its comment, without zeros at the end of the file.
pub(super) fn bytes_behind(file: &impl ReadAt, size: u64) -> io::Result<u64> {
    let last = last_bytes(file, size)?;
    let Some(at) = last.windows(4).rposition(|bytes| bytes == END_MARK) else { return Ok(0) };
    let Some(comment) = last.get(at + END_RECORD - 2..at + END_RECORD) else { return Ok(0) };
    let end = at + END_RECORD + usize::from(u16::from_le_bytes([comment[0], comment[1]]));
    let behind = last.get(end..).unwrap_or_default();
    Ok(behind.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1))
}

/// The entries of a directory as bytes.
pub struct DirectoryEntries {
    bytes: Vec<u8>,
    /// Range of each member's entry in the bytes.
    ranges: Vec<Range<usize>>,
}

impl DirectoryEntries {
    /// The entry of the member with this index.
    pub fn of(&self, number: usize) -> &[u8] {
        &self.bytes[self.ranges[number].clone()]
    }
}

/// The entries of the directory at `start`. `None` if they cannot be reused: the directory is
/// larger than 64 MiB, or the file has changed.
pub(super) fn entries(file: &SharedFile, start: u64, members: &[Listed]) -> io::Result<Option<DirectoryEntries>> {
    let size = file.file().metadata()?.len().saturating_sub(start);
    if size > LARGEST {
        return Ok(None);
    }
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(start, &mut bytes)?;
    let mut ranges = Vec::with_capacity(members.len());
    let mut position = 0;
    for member in members {
        let Some(header) =
            bytes.get(position..position + CENTRAL_HEADER).filter(|header| header[..4] == *b"PK\x01\x02")
        else {
            return Ok(None);
        };
        let [name, extra, comment] = variable_lengths(header);
        let end = position + CENTRAL_HEADER + name + extra + comment;
        let name = bytes.get(position + CENTRAL_HEADER..position + CENTRAL_HEADER + name);
        if end > bytes.len() || name != Some(member.name.as_bytes()) {
            return Ok(None);
        }
        ranges.push(position..end);
        position = end;
    }
    Ok(Some(DirectoryEntries { bytes, ranges }))
}

fn kind(name: &str, attributes: u32) -> MemberKind {
    if name.ends_with('/') {
        MemberKind::Directory
    } else if attributes >> 16 & 0o170_000 == 0o120_000 {
        MemberKind::Symlink
    } else {
        MemberKind::File
    }
}

/// The permission bits. If the archive has none, as archives from Windows do, the usual ones.
fn permissions(kind: MemberKind, attributes: u32) -> u32 {
    match (attributes >> 16 & 0o7777, kind) {
        (0, MemberKind::Directory) => 0o755,
        (0, _) => 0o644,
        (mode, _) => mode,
    }
}

/// The number of the compression method in the ZIP file.
fn method(method: CompressionMethod) -> u16 {
    match method {
        CompressionMethod::Stored => 0,
        CompressionMethod::Deflated => 8,
        // The zip crate has no other function for the number, and the message to the user contains
        // it.
        #[allow(deprecated)]
        other => other.to_u16(),
    }
}

struct Local {
    flags: u16,
    compressed: u32,
    size: u32,
    name: Vec<u8>,
    own: [u8; OWN],
    /// Position of the member's bytes.
    end: u64,
}

impl Local {
    fn read(file: &impl ReadAt, offset: u64, name_length: usize) -> io::Result<Local> {
        let mut bytes = vec![0; LOCAL_HEADER + name_length];
        file.read_exact_at(offset, &mut bytes)?;
        if bytes[..4] != *b"PK\x03\x04" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a member has no header where it should be"));
        }
        let (own_length, extra) = (short_at(&bytes, 26), short_at(&bytes, 28));
        let name = if usize::from(own_length) == name_length { bytes[LOCAL_HEADER..].to_vec() } else { Vec::new() };
        let end = offset + LOCAL_HEADER as u64 + u64::from(own_length) + u64::from(extra);
        let mut own = [0; OWN];
        own.copy_from_slice(&bytes[6..6 + OWN]);
        let (flags, compressed, size) = (short_at(&bytes, 6), long_at(&bytes, 18), long_at(&bytes, 22));
        Ok(Local { flags, compressed, size, name, own, end })
    }
}

impl Listed {
    /// `true` if the member's local header, its bytes and its directory entry can be reused
    /// together: both headers have the same values in 32-bit fields, and the member has no other
    /// parts than the header and its bytes.
    pub fn is_plain(&self, entry: &[u8]) -> bool {
        let flags = short_at(&self.own, 0);
        let first_disk = entry[34..36] == [0, 0];
        entry[COMMON..COMMON + OWN] == self.own
            && flags & DESCRIPTOR_FLAG == 0
            && first_disk
            && [20, 24, 42].iter().all(|at| long_at(entry, *at) != u32::MAX)
    }
}

fn short_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The lengths of the name, the extra fields and the comment behind the header of an entry.
fn variable_lengths(header: &[u8]) -> [usize; 3] {
    [28, 30, 32].map(|at| usize::from(short_at(header, at)))
}

/// Checks that installers that read the local header and installers that read the directory see the
/// same member, and that its sizes are possible.
fn check(member: &Listed, header: &Local, raw_name: &[u8]) -> Result<(), String> {
    let name = &member.name;
    if header.name != raw_name {
        return Err(format!("member `{name}` has another name in its own header"));
    }
    if header.flags & DESCRIPTOR_FLAG == 0 {
        // The largest value refers to a 64-bit field.
        let sizes = [(header.size, member.size), (header.compressed, member.compressed)];
        if sizes.iter().any(|&(own, size)| own != u32::MAX && u64::from(own) != size) {
            return Err(format!("member `{name}` has another size in its own header"));
        }
    }
    let possible = match member.method {
        _ if member.encrypted => true,
        0 => member.size == member.compressed,
        8 => member.size <= member.compressed.saturating_mul(MOST_PER_BYTE),
        _ => true,
    };
    if possible {
        return Ok(());
    }
    Err(format!("member `{name}` cannot have {} bytes unpacked and {} packed", member.size, member.compressed))
}

/// The first name that occurs twice in the directory at `start`.
fn repeated_name(file: &impl ReadAt, start: u64) -> io::Result<String> {
    let mut seen = BTreeSet::new();
    let mut position = start;
    loop {
        let mut header = [0; CENTRAL_HEADER];
        file.read_exact_at(position, &mut header)?;
        if header[..4] != *b"PK\x01\x02" {
            return Ok("?".to_owned());
        }
        let lengths = variable_lengths(&header);
        let mut name = vec![0; lengths[0]];
        file.read_exact_at(position + CENTRAL_HEADER as u64, &mut name)?;
        position += (CENTRAL_HEADER + lengths.iter().sum::<usize>()) as u64;
        if !seen.insert(name.clone()) {
            return Ok(String::from_utf8_lossy(&name).into_owned());
        }
    }
}
