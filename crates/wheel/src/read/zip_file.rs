//! Input: a ZIP file of any name, a wheel or not. Output: its members and their bytes at random
//! access.

use std::path::{Path, PathBuf};

use super::{Fault, Kind, Listed, Packed, directory};
use crate::Error;
use rocwheel_content::{Reader, SharedFile};

/// An open ZIP file. It is held to the same rules as a [`super::Wheel`], except that it needs no
/// name and no metadata.
pub struct ZipFile {
    path: PathBuf,
    file: SharedFile,
    members: Vec<Listed>,
}

impl ZipFile {
    /// Opens the ZIP file at `path`. Errors when it is none, or has a member whose name leaves the
    /// folder, comes twice, whose bytes overlap another one's or whose size cannot be.
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
        if member.kind == Kind::Directory { Err(packed.error(Fault::Directory)) } else { Ok(packed) }
    }

    /// The first `length` bytes of one of [`ZipFile::members`], fewer if it has fewer. No more than
    /// a window is unpacked and no checksum is checked.
    pub fn start(&self, member: &Listed, length: usize) -> Result<Vec<u8>, Error> {
        self.packed(member)?.start(length)
    }

    /// Random access to one of [`ZipFile::members`], as [`super::Wheel::reader`] gives it.
    pub fn reader(&self, member: &Listed, scratch: &Path) -> Result<Reader, Error> {
        self.packed(member)?.reader(scratch)
    }
}
