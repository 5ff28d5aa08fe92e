//! Input: a ZIP file. Output: where its members lie in it.

use std::ops::Range;
use std::path::Path;

use super::directory;
use crate::Error;

/// Where a member lies in a ZIP file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberPlace {
    /// Position of its local header.
    pub header: u64,
    /// Its packed bytes, which follow the header.
    pub packed: Range<u64>,
    /// The checksum of its unpacked bytes.
    pub crc32: u32,
}

/// Where everything lies in a ZIP file. What is neither a header nor packed bytes, such as data
/// descriptors, lies between the members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZipLayout {
    /// In the order of the file.
    pub members: Vec<MemberPlace>,
    /// Position of the directory, which ends the file.
    pub directory: u64,
    /// Bytes of the file.
    pub size: u64,
}

impl ZipLayout {
    /// Reads the directory of a ZIP file with any name, and the header before each member.
    pub fn read(path: &Path) -> Result<ZipLayout, Error> {
        let read = directory::read(path)?;
        let size = read.file.file().metadata().map_err(Error::open(path))?.len();
        let members = read.members.iter().map(|member| MemberPlace {
            header: member.header,
            packed: member.offset..member.offset + member.compressed,
            crc32: member.crc32,
        });
        let mut members: Vec<MemberPlace> = members.collect();
        members.sort_unstable_by_key(|member| member.header);
        Ok(ZipLayout { members, directory: read.start, size })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::write::{SimpleFileOptions, ZipWriter};

    use super::*;

    #[test]
    fn members_and_directory_make_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut zip = ZipWriter::new(file.reopen().unwrap());
        for (name, bytes) in [("b/x", &b"hello"[..]), ("a-1.dist-info/METADATA", b"Name: a")] {
            let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
            zip.start_file(name, stored).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap();
        let layout = ZipLayout::read(file.path()).unwrap();
        let bytes = fs_err::read(file.path()).unwrap();
        assert_eq!(layout.size, bytes.len() as u64);
        let of = |member: &MemberPlace| &bytes[member.packed.start as usize..member.packed.end as usize];
        assert_eq!(layout.members.iter().map(of).collect::<Vec<_>>(), [&b"hello"[..], b"Name: a"]);
        assert_eq!(layout.members[0].header, 0);
        assert_eq!(layout.members[1].header, layout.members[0].packed.end);
        assert_eq!(layout.directory, layout.members[1].packed.end);
        assert_eq!(layout.members[0].crc32, crc32fast::hash(b"hello"));
    }
}
