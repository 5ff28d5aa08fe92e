//! Input: a ZIP file with any name, a wheel or not. Output: its members and their bytes at random
//! access.

use std::path::{Path, PathBuf};

use rocwheel_content::{Reader, SharedFile};

use super::{Fault, Listed, MemberKind, Packed, directory};
use crate::Error;

/// An open ZIP file. It must meet the same requirements as a [`super::Wheel`], except for name and
/// metadata.
pub struct ZipFile {
    path: PathBuf,
    file: SharedFile,
    members: Vec<Listed>,
}

impl ZipFile {
    /// Opens the ZIP file at `path`. Fails if it is not a ZIP file, and if the name of a member
    /// leaves the folder or occurs twice, its bytes overlap those of another one, or its size is
    /// impossible.
    pub fn open(path: &Path) -> Result<ZipFile, Error> {
        let directory = directory::read(path)?;
        Ok(ZipFile { path: path.to_owned(), file: directory.file, members: directory.members })
    }

    /// All members in the order of the archive.
    pub fn members(&self) -> &[Listed] {
        &self.members
    }

    fn packed<'a>(&'a self, member: &'a Listed) -> Result<Packed<'a>, Error> {
        let packed = Packed { path: &self.path, file: &self.file, listed: member };
        if member.kind == MemberKind::Directory { Err(packed.error(Fault::Directory)) } else { Ok(packed) }
    }

    /// The first `length` bytes of one of [`ZipFile::members`], or all if it has fewer. At most one
    /// window is unpacked, and the checksum is not checked.
    pub fn start(&self, member: &Listed, length: usize) -> Result<Vec<u8>, Error> {
        self.packed(member)?.start(length)
    }

    /// Random access to one of [`ZipFile::members`]. The CRC is checked here. A stored member is
    /// read in the archive, after one pass over it; others are unpacked into memory up to 64 MiB.
    /// Of a larger one, some megabytes are in memory at a time; a read far from the last ones
    /// unpacks a few more.
    pub fn reader(&self, member: &Listed) -> Result<Reader, Error> {
        let packed = self.packed(member)?;
        match packed.window_or_bytes()? {
            Some(reader) => Ok(reader),
            None => Ok(Box::new(packed.points()?)),
        }
    }
}
