//! Input: a ZIP file that is far away, as a content. Output: its directory and the bytes of single
//! members, with no more of the file read than that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use positioned_io::ReadAt;
use rocwheel_content::{Content, Reader};

use super::unpack::Packed;
use super::{Listed, MemberKind, directory};
use crate::Error;
use crate::fault::Fault;

/// The directory at the end of a ZIP file. [`super::ZipFile`] also reads the header before each
/// member, which over a network would take as many requests as there are members. Here only the
/// headers of members that are read are compared with the directory.
pub struct ZipDirectory {
    path: PathBuf,
    file: SharedReader,
    members: Vec<Listed>,
}

/// A member of a remote archive. Only the requested bytes are read.
pub struct DistantMember {
    path: PathBuf,
    file: SharedReader,
    listed: Listed,
}

impl DistantMember {
    fn packed(&self) -> Packed<'_, SharedReader> {
        Packed { path: &self.path, file: &self.file, listed: &self.listed }
    }

    /// The first `length` bytes, or all if there are fewer. The checksum is not compared.
    pub fn start(&self, length: usize) -> Result<Vec<u8>, Error> {
        self.packed().start(length)
    }

    /// All bytes, at most 64 MiB; the CRC is compared.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        self.packed().bytes()
    }

    /// Random access to a stored member, whose checksum is not compared; `None` for a compressed
    /// one.
    pub fn stored(&self) -> Option<Reader> {
        self.listed.is_stored().then(|| Box::new(self.packed().window()) as Reader)
    }
}

/// An open content with several owners.
#[derive(Clone)]
struct SharedReader(Arc<Reader>);

impl ReadAt for SharedReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(position, buffer)
    }
}

impl ZipDirectory {
    /// Reads the directory of the archive in `content`. `path` is the one that messages name.
    pub fn open(path: &Path, content: &dyn Content) -> Result<ZipDirectory, Error> {
        let file = content.open().map_err(Error::open(path))?;
        let members = directory::read_central(path, &file, content.size())?;
        Ok(ZipDirectory { path: path.to_owned(), file: SharedReader(Arc::new(file)), members })
    }

    /// The path that messages name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All members in the order of the archive, as the directory has them.
    pub fn members(&self) -> &[Listed] {
        &self.members
    }

    /// The bytes of one of [`ZipDirectory::members`], at most 64 MiB; the CRC is checked.
    ///
    /// # Errors
    /// A member that has another header than the directory says, or cannot be unpacked.
    pub fn bytes(&self, member: &Listed) -> Result<Vec<u8>, Error> {
        let listed = directory::locate(&self.path, &self.file, member)?;
        let packed = Packed { path: &self.path, file: &self.file, listed: &listed };
        if listed.kind == MemberKind::Directory { Err(packed.error(Fault::Directory)) } else { packed.bytes() }
    }

    /// One of [`ZipDirectory::members`], read through `file`, another reader of the same archive.
    /// With a reader for each thread, none waits for another.
    ///
    /// # Errors
    /// A member that has another header than the directory says, or a form that wheels do not
    /// have.
    pub fn open_member(&self, member: &Listed, file: Reader) -> Result<DistantMember, Error> {
        let file = SharedReader(Arc::new(file));
        let listed = directory::locate(&self.path, &file, member)?;
        Packed { path: &self.path, file: &file, listed: &listed }.check_form()?;
        Ok(DistantMember { path: self.path.clone(), file, listed })
    }
}
