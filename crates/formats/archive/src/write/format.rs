//! Input: the properties of a member. Output: the records of a ZIP file as bytes (APPNOTE 6.3.10):
//! local headers, the central directory and its end.

/// The compression of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// Uncompressed.
    Stored,
    /// Deflate (RFC 1951).
    Deflated,
}

/// All values in the headers of one member.
#[derive(Debug, Clone)]
pub(crate) struct Header<'a> {
    pub(crate) name: &'a str,
    /// Type and permission bits, as in Unix.
    pub(crate) mode: u32,
    pub(crate) method: Method,
    pub(crate) crc32: u32,
    pub(crate) size: u64,
    pub(crate) compressed: u64,
    /// Position of the local header in the file.
    pub(crate) offset: u64,
    /// `true` if both headers have 64-bit sizes, because 32 bits might be too few.
    pub(crate) large: bool,
}

/// Date and time in MS-DOS form: 1980 to 2107 in steps of two seconds, without a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DosTime {
    date: u16,
    time: u16,
}

const SECONDS_A_DAY: u64 = 86_400;
/// 1980-01-01 and the last even second of 2107, in seconds since 1970.
const FIRST: u64 = 315_532_800;
const LAST: u64 = 4_354_819_198;

impl DosTime {
    /// The UTC time `epoch` seconds after 1970, clamped to the range that the form can represent.
    pub(crate) fn from_epoch(epoch: u64) -> DosTime {
        let epoch = epoch.clamp(FIRST, LAST);
        let (days, seconds) = (epoch / SECONDS_A_DAY, epoch % SECONDS_A_DAY);
        // Converts days to a date. Years begin in March, so that the leap day is the last day.
        let shifted = days + 719_468;
        let era = shifted / 146_097;
        let day_of_era = shifted % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        DosTime {
            date: ((year - 1980) << 9 | month << 5 | day) as u16,
            time: ((seconds / 3600) << 11 | (seconds / 60 % 60) << 5 | (seconds % 60 / 2)) as u16,
        }
    }
}

/// Offset, in an entry of the central directory, of the position of the member's local header.
pub(crate) const CENTRAL_OFFSET: usize = 42;
/// File names are UTF-8.
const UTF8_FLAG: u16 = 1 << 11;
const VERSION_DEFLATE: u16 = 20;
const VERSION_ZIP64: u16 = 45;
const MADE_BY_UNIX: u16 = 3 << 8;
const ZIP64_EXTRA: u16 = 1;
/// The bits of a mode with the file type, and their values.
const TYPE: u32 = 0o170_000;
pub(crate) const REGULAR_FILE: u32 = 0o100_000;
pub(crate) const DIRECTORY: u32 = 0o040_000;
pub(crate) const SYMLINK: u32 = 0o120_000;

/// An upper limit for the size of deflated data when every byte is in stored blocks, with room for
/// alignment.
fn deflate_bound(size: u64) -> u64 {
    size + size / 4096 + 1024
}

/// `true` if a member with these sizes needs 64-bit fields.
pub(crate) fn is_large(size: u64, compressed: u64) -> bool {
    size.max(compressed) >= u64::from(u32::MAX)
}

/// `true` if a member of `size` bytes gets 64-bit sizes because its compressed size is not known
/// yet.
pub(crate) fn needs_large(size: u64) -> bool {
    deflate_bound(size) >= u64::from(u32::MAX)
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn u16(&mut self, value: u16) -> &mut Bytes {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Bytes {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Bytes {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn slice(&mut self, bytes: &[u8]) -> &mut Bytes {
        self.0.extend_from_slice(bytes);
        self
    }
}

/// The value if it fits, else the mark that tells readers to use the 64-bit field.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Header<'_> {
    /// The part that local and central header share: from the flags to the length of the name.
    fn common(&self, bytes: &mut Bytes, time: DosTime, version: u16) {
        let method = match self.method {
            Method::Stored => 0,
            Method::Deflated => 8,
        };
        let (compressed, size) =
            if self.large { (u32::MAX, u32::MAX) } else { (narrow(self.compressed), narrow(self.size)) };
        bytes.u16(version).u16(UTF8_FLAG).u16(method).u16(time.time).u16(time.date);
        bytes.u32(self.crc32).u32(compressed).u32(size).u16(self.name.len() as u16);
    }

    /// The local header. Its length depends only on the name and on `large`, so it can be
    /// overwritten in place.
    pub(crate) fn local(&self, time: DosTime) -> Vec<u8> {
        let mut bytes = Bytes(Vec::with_capacity(50 + self.name.len()));
        bytes.u32(0x0403_4b50);
        self.common(&mut bytes, time, if self.large { VERSION_ZIP64 } else { VERSION_DEFLATE });
        bytes.u16(if self.large { 20 } else { 0 }).slice(self.name.as_bytes());
        if self.large {
            bytes.u16(ZIP64_EXTRA).u16(16).u64(self.size).u64(self.compressed);
        }
        bytes.0
    }

    /// The entry of the central directory.
    pub(crate) fn central(&self, time: DosTime) -> Vec<u8> {
        let mut extra = Bytes(Vec::new());
        if self.large {
            extra.u64(self.size).u64(self.compressed);
        }
        if self.offset >= u64::from(u32::MAX) {
            extra.u64(self.offset);
        }
        let version = if extra.0.is_empty() { VERSION_DEFLATE } else { VERSION_ZIP64 };
        let mut bytes = Bytes(Vec::with_capacity(80 + self.name.len()));
        bytes.u32(0x0201_4b50).u16(MADE_BY_UNIX | version);
        self.common(&mut bytes, time, version);
        // The low byte contains MS-DOS attributes, which also mark a folder.
        let attributes = self.mode << 16 | if self.mode & TYPE == DIRECTORY { 0x10 } else { 0 };
        bytes.u16(if extra.0.is_empty() { 0 } else { extra.0.len() as u16 + 4 });
        // No comment, first disk, no internal attributes.
        bytes.u16(0).u16(0).u16(0).u32(attributes).u32(narrow(self.offset));
        bytes.slice(self.name.as_bytes());
        if !extra.0.is_empty() {
            bytes.u16(ZIP64_EXTRA).u16(extra.0.len() as u16).slice(&extra.0);
        }
        bytes.0
    }
}

/// The end records of a ZIP file after a central directory of `size` bytes that begins at `offset`
/// and has `entries` entries. The archive's comment is the last part.
pub(crate) fn end(entries: u64, offset: u64, size: u64, comment: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(Vec::new());
    let limit = u64::from(u32::MAX);
    if entries >= u64::from(u16::MAX) || offset >= limit || size >= limit {
        bytes.u32(0x0606_4b50).u64(44).u16(MADE_BY_UNIX | VERSION_ZIP64).u16(VERSION_ZIP64).u32(0).u32(0);
        bytes.u64(entries).u64(entries).u64(size).u64(offset);
        bytes.u32(0x0706_4b50).u32(0).u64(offset + size).u32(1);
    }
    let count = u16::try_from(entries).unwrap_or(u16::MAX);
    bytes.u32(0x0605_4b50).u16(0).u16(0).u16(count).u16(count);
    let comment = &comment[..comment.len().min(usize::from(u16::MAX))];
    bytes.u32(narrow(size)).u32(narrow(offset)).u16(comment.len() as u16).slice(comment);
    bytes.0
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn date(epoch: u64) -> (u16, u16, u16, u16, u16, u16) {
        let DosTime { date, time } = DosTime::from_epoch(epoch);
        (1980 + (date >> 9), date >> 5 & 15, date & 31, time >> 11, time >> 5 & 63, (time & 31) * 2)
    }

    #[test]
    fn times_are_civil_and_clamped() {
        assert_eq!(date(0), (1980, 1, 1, 0, 0, 0));
        assert_eq!(date(951_782_400), (2000, 2, 29, 0, 0, 0));
        assert_eq!(date(1_795_238_399), (2026, 11, 21, 5, 19, 58));
        assert_eq!(date(4_107_542_400), (2100, 3, 1, 0, 0, 0));
        assert_eq!(date(u64::MAX), (2107, 12, 31, 23, 59, 58));
    }

    /// A ZIP file whose member begins after a hole of `hole` bytes.
    fn write(path: &Path, hole: u64, large: bool) {
        let data = b"hello";
        let header = Header {
            name: "größe.txt",
            mode: REGULAR_FILE | 0o755,
            method: Method::Stored,
            crc32: crc32fast::hash(data),
            size: 5,
            compressed: 5,
            offset: hole,
            large,
        };
        let time = DosTime::from_epoch(0);
        let central = header.central(time);
        let mut file = fs_err::File::create(path).unwrap();
        file.seek(SeekFrom::Start(hole)).unwrap();
        let local = header.local(time);
        file.write_all(&local).unwrap();
        file.write_all(data).unwrap();
        file.write_all(&central).unwrap();
        file.write_all(&end(1, hole + local.len() as u64 + 5, central.len() as u64, b"")).unwrap();
    }

    #[cfg_attr(windows, ignore = "compares with Python, which Wine has not")]
    #[test]
    fn other_programs_read_64_bit_fields() {
        let folder = tempfile::tempdir().unwrap();
        for (hole, large) in [(0, false), (0, true), (0x1_0000_0010, false), (0x1_0000_0010, true)] {
            let path = folder.path().join("x.zip");
            write(&path, hole, large);
            let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); i = z.infolist()[0]; \
                          print(i.filename, z.read(i).decode(), oct(i.external_attr >> 16), i.date_time[0], z.testzip())";
            let output = Command::new("python3").args(["-X", "utf8", "-c", script]).arg(&path).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(text, "größe.txt hello 0o100755 1980 None\n", "{}", String::from_utf8_lossy(&output.stderr));
            let mut archive = zip::ZipArchive::new(fs_err::File::open(&path).unwrap()).unwrap();
            let mut read = String::new();
            archive.by_name("größe.txt").unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, "hello");
        }
    }
}
