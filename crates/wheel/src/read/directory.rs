//! Input: a ZIP file that somebody else may have made. Output: its members, with what must hold
//! before a byte of them is trusted: names that stay inside, each once, headers that agree, ranges

//! that do not overlap, sizes that can be.

use std::collections::BTreeSet;
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::Path;

use positioned_io::{ReadAt, SizeCursor, Slice};
use rocwheel_content::SharedFile;
use zip::read::ZipFileEntry;
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use super::{Compared, Kind, Listed};
use crate::Error;
use crate::names::check_member_name;

/// Deflate makes at most 258 bytes of two bits.
const MOST_PER_BYTE: u64 = 1032;
const LOCAL_HEADER: usize = 30;
const CENTRAL_HEADER: usize = 46;
const DESCRIPTOR_FLAG: u16 = 1 << 3;
/// A larger directory is not held in memory as it is.
const LARGEST: u64 = 64 << 20;
/// What a member's own header and the directory have in common: flags, method, time, checksum,
/// sizes, length of the name.
pub(super) const OWN: usize = 22;
/// Where that begins in the directory's entry.
const COMMON: usize = 8;

/// An open ZIP file and what its directory says.
pub(super) struct Directory {
    pub(super) file: SharedFile,
    /// In the order in which the directory has them.
    pub(super) members: Vec<Listed>,
    /// Where the directory begins in the file.
    pub(super) start: u64,
    /// The comment of the archive.
    pub(super) comment: Vec<u8>,
}

/// Reads the directory of the ZIP file at `path`, and the header before each member.
pub(super) fn read(path: &Path) -> Result<Directory, Error> {
    let fail = |source| Error::Open { path: path.to_owned(), source };
    let malformed = |reason| Error::Malformed { path: path.to_owned(), reason };
    let file = fs_err::File::open(path).map_err(fail)?;
    let archive = ZipArchive::new(BufReader::new(file)).map_err(|error| not_opened(path, error, || damage_at(path)))?;
    let (end, metadata) = (archive.central_directory_start(), archive.metadata());
    let comment = archive.comment().to_owned();
    let file = SharedFile::new(archive.into_inner().into_inner());
    if metadata.has_duplicate_names() {
        let name = repeated_name(&file, end).map_err(fail)?;
        return Err(malformed(format!("two members are named `{name}`")));
    }
    let mut listed = Vec::with_capacity(metadata.len());
    let mut ranges = Vec::with_capacity(metadata.len());
    for index in 0..metadata.len() {
        let entry = metadata.entry(index).map_err(|error| fail(error.into()))?;
        let mut member = member(&entry, path)?;
        let header = Local::read(&file, entry.header_start(), entry.name_raw().len()).map_err(fail)?;
        check(&member, &header, entry.name_raw()).map_err(malformed)?;
        member.offset = header.end;
        member.own = header.own;
        let end = header.end.checked_add(member.compressed);
        let end = end.ok_or_else(|| malformed(format!("the size of member `{}` cannot be", member.name)))?;
        ranges.push((entry.header_start(), end, index));
        listed.push(member);
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        if pair[0].1 > pair[1].0 {
            let (first, second) = (&listed[pair[0].2].name, &listed[pair[1].2].name);
            return Err(malformed(format!("members `{first}` and `{second}` overlap")));
        }
    }
    match ranges.last() {
        Some((_, last, index)) if *last > end => {
            Err(malformed(format!("member `{}` reaches into the directory of the archive", listed[*index].name)))
        }
        _ => Ok(Directory { file, members: listed, start: end, comment }),
    }
}

/// The members of a ZIP file of `size` bytes by its directory alone: the headers before members are
/// not read, so [`Listed::offset`] of each is 0 until [`locate`] finds it. `path` is for messages.
pub(super) fn read_central(path: &Path, file: &impl ReadAt, size: u64) -> Result<Vec<Listed>, Error> {
    let fail = |source| Error::Open { path: path.to_owned(), source };
    let source = BufReader::new(SizeCursor::new(Slice::new(file, 0, Some(size))));
    let archive = ZipArchive::new(source).map_err(|error| not_opened(path, error, || damage(file, size)))?;
    let (start, metadata) = (archive.central_directory_start(), archive.metadata());
    if metadata.has_duplicate_names() {
        let name = repeated_name(file, start).map_err(fail)?;
        return Err(Error::Malformed { path: path.to_owned(), reason: format!("two members are named `{name}`") });
    }
    let entry = |index| metadata.entry(index).map_err(|error| fail(error.into()));
    (0..metadata.len()).map(|index| member(&entry(index)?, path)).collect()
}

/// A member of [`read_central`] with the place of its bytes, after the checks of its own header.
pub(super) fn locate(path: &Path, file: &impl ReadAt, listed: &Listed) -> Result<Listed, Error> {
    let header = Local::read(file, listed.header, listed.name.len())
        .map_err(|source| Error::Open { path: path.to_owned(), source })?;
    check(listed, &header, listed.name.as_bytes())
        .map_err(|reason| Error::Malformed { path: path.to_owned(), reason })?;
    Ok(Listed { offset: header.end, own: header.own, ..listed.clone() })
}

/// A member as the directory has it.
fn member(entry: &ZipFileEntry<'_>, path: &Path) -> Result<Listed, Error> {
    let name = entry.name().map_err(|error| Error::Open { path: path.to_owned(), source: error.into() })?.into_owned();
    let kind = kind(&name, entry.external_attributes());
    if let Err(Error::MemberName { reason, .. }) = check_member_name(name.strip_suffix('/').unwrap_or(&name)) {
        let reason = format!("member name `{name}` cannot be used: {reason}");
        return Err(Error::Malformed { path: path.to_owned(), reason });
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
        Some(reason) => Error::Malformed { path: path.to_owned(), reason: reason.to_owned() },
        None => Error::Open { path: path.to_owned(), source: error.into() },
    }
}

fn damage_at(path: &Path) -> Option<&'static str> {
    let file = fs_err::File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    damage(file.file(), size)
}

/// Why a file that cannot be opened as a ZIP file is none, where the file itself tells.
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

/// Whether the end record of a ZIP file is in its last bytes: 22 bytes and a comment of at most
/// 65535.
fn ends_as_archive(file: &impl ReadAt, size: u64) -> io::Result<bool> {
    const END: u64 = 22 + u16::MAX as u64;
    let mut last = vec![0; size.min(END) as usize];
    file.read_exact_at(size - last.len() as u64, &mut last)?;
    Ok(last.windows(4).any(|bytes| bytes == b"PK\x05\x06"))
}

/// The entries of a directory as they are in the file.
pub(crate) struct Entries {
    bytes: Vec<u8>,
    /// By member, where its entry is in the bytes.
    ranges: Vec<Range<usize>>,
}

impl Entries {
    /// The entry of the member of this number.
    pub(crate) fn of(&self, number: usize) -> &[u8] {
        &self.bytes[self.ranges[number].clone()]
    }
}

/// The entries of a directory that begins at `start`. `None` where they cannot be taken over for
/// any member, since the directory is larger than one of 64 MiB or another one than it was.
pub(super) fn entries(file: &SharedFile, start: u64, members: &[Listed]) -> io::Result<Option<Entries>> {
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
        let length = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let end = position + CENTRAL_HEADER + length(28) + length(30) + length(32);
        let name = bytes.get(position + CENTRAL_HEADER..position + CENTRAL_HEADER + length(28));
        if end > bytes.len() || name != Some(member.name.as_bytes()) {
            return Ok(None);
        }
        ranges.push(position..end);
        position = end;
    }
    Ok(Some(Entries { bytes, ranges }))
}

fn kind(name: &str, attributes: u32) -> Kind {
    if name.ends_with('/') {
        Kind::Directory
    } else if attributes >> 16 & 0o170_000 == 0o120_000 {
        Kind::Symlink
    } else {
        Kind::File
    }
}

/// The permission bits; the usual ones where the archive has none, as archives from Windows do.
fn permissions(kind: Kind, attributes: u32) -> u32 {
    match (attributes >> 16 & 0o7777, kind) {
        (0, Kind::Directory) => 0o755,
        (0, _) => 0o644,
        (mode, _) => mode,
    }
}

/// The number of the method in the ZIP file.
fn method(method: CompressionMethod) -> u16 {
    match method {
        CompressionMethod::Stored => 0,
        CompressionMethod::Deflated => 8,
        // The crate has no other way to say the number, which the user wants to know.
        #[allow(deprecated)]
        other => other.to_u16(),
    }
}

/// What the header before a member's bytes says.
struct Local {
    flags: u16,
    compressed: u32,
    size: u32,
    name: Vec<u8>,
    own: [u8; OWN],
    /// Where the bytes begin.
    end: u64,
}

impl Local {
    fn read(file: &impl ReadAt, offset: u64, name_length: usize) -> io::Result<Local> {
        let mut bytes = vec![0; LOCAL_HEADER + name_length];
        file.read_exact_at(offset, &mut bytes)?;
        if bytes[..4] != *b"PK\x03\x04" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a member has no header where it should be"));
        }
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let long = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let name = if usize::from(short(26)) == name_length { bytes[LOCAL_HEADER..].to_vec() } else { Vec::new() };
        let end = offset + LOCAL_HEADER as u64 + u64::from(short(26)) + u64::from(short(28));
        let mut own = [0; OWN];
        own.copy_from_slice(&bytes[6..6 + OWN]);
        Ok(Local { flags: short(6), compressed: long(18), size: long(22), name, own, end })
    }
}

impl Listed {
    /// Whether the member's own header, its bytes and `entry` of the directory can be taken over
    /// together: the two say the same, in fields of 32 bits, and nothing belongs to the member but
    /// what lies between them.
    pub(crate) fn is_plain(&self, entry: &[u8]) -> bool {
        let long = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        let flags = u16::from_le_bytes([self.own[0], self.own[1]]);
        let first_disk = entry[34..36] == [0, 0];
        entry[COMMON..COMMON + OWN] == self.own
            && flags & DESCRIPTOR_FLAG == 0
            && first_disk
            && [20, 24, 42].iter().all(|at| long(*at) != u32::MAX)
    }
}

/// Checks that installers that read the local header see what those see that read the directory,
/// and that the sizes can be.
fn check(member: &Listed, header: &Local, raw_name: &[u8]) -> Result<(), String> {
    let name = &member.name;
    if header.name != raw_name {
        return Err(format!("member `{name}` has another name in its own header"));
    }
    if header.flags & DESCRIPTOR_FLAG == 0 {
        // The largest value sends to a field of 64 bits.
        let agrees = |said: u32, size: u64| said == u32::MAX || u64::from(said) == size;
        if !agrees(header.size, member.size) || !agrees(header.compressed, member.compressed) {
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

/// The first name that the directory at `start` has twice.
fn repeated_name(file: &impl ReadAt, start: u64) -> io::Result<String> {
    let mut seen = BTreeSet::new();
    let mut position = start;
    loop {
        let mut header = [0; CENTRAL_HEADER];
        file.read_exact_at(position, &mut header)?;
        if header[..4] != *b"PK\x01\x02" {
            return Ok("?".to_owned());
        }
        let length = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let mut name = vec![0; length(28)];
        file.read_exact_at(position + CENTRAL_HEADER as u64, &mut name)?;
        position += (CENTRAL_HEADER + length(28) + length(30) + length(32)) as u64;
        if !seen.insert(name.clone()) {
            return Ok(String::from_utf8_lossy(&name).into_owned());
        }
    }
}
