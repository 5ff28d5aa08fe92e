//! Input: a ZIP file with any name, a wheel or not. Output: its members and their bytes at random
//! access.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::{Reader, SharedFile};
use rocwheel_progress::Reporter;

use super::directory::{self, Directory, DirectoryEntries};
use super::unpack::Packed;
use super::{Listed, MemberKind, MemberMemory, MemberStream, Sparse};
use crate::Error;
use crate::fault::Fault;

/// An open ZIP file. Many threads can read from it at once; the file must not change during that
/// time. The members that its functions take are those of [`ZipFile::members`].
pub struct ZipFile {
    path: PathBuf,
    directory: Directory,
}

/// Numbers of bytes of a file that belong to no part of the archive in it. Readers that search for
/// its end skip them; uv and PyPI refuse such a wheel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForeignBytes {
    /// Those in front of the archive.
    pub ahead: u64,
    /// Those behind it.
    pub behind: u64,
}

impl ZipFile {
    /// Opens the ZIP file at `path`. Fails if it is not a ZIP file, and if the name of a member
    /// leaves the folder or occurs twice, its bytes overlap those of another one, or its size is
    /// impossible.
    pub fn open(path: &Path) -> Result<ZipFile, Error> {
        Ok(ZipFile { path: path.to_owned(), directory: directory::read(path)? })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &SharedFile {
        &self.directory.file
    }

    /// All members in the order of the archive.
    pub fn members(&self) -> &[Listed] {
        &self.directory.members
    }

    pub fn comment(&self) -> &[u8] {
        &self.directory.comment
    }

    /// The bytes of the file that are not of the archive.
    pub fn foreign_bytes(&self) -> Result<ForeignBytes, Error> {
        let size = fs_err::metadata(&self.path).map_err(Error::open(&self.path))?.len();
        let ahead = self.members().iter().map(|member| member.header).min().unwrap_or_default();
        let behind = directory::bytes_behind(self.file(), size).map_err(Error::open(&self.path))?;
        Ok(ForeignBytes { ahead, behind })
    }

    /// The directory entries of [`ZipFile::members`]; `None` if they cannot be reused.
    pub fn entries(&self) -> Result<Option<DirectoryEntries>, Error> {
        directory::entries(self.file(), self.directory.start, self.members()).map_err(Error::open(&self.path))
    }

    fn packed<'a>(&'a self, member: &'a Listed) -> Packed<'a> {
        Packed { path: &self.path, file: self.file(), listed: member }
    }

    fn file_of<'a>(&'a self, member: &'a Listed) -> Result<Packed<'a>, Error> {
        let packed = self.packed(member);
        if member.kind == MemberKind::Directory { Err(packed.error(Fault::Directory)) } else { Ok(packed) }
    }

    /// Fails if the member has a form that is not allowed in wheels.
    pub fn check_form(&self, member: &Listed) -> Result<(), Error> {
        self.packed(member).check_form()
    }

    /// The bytes of a member, at most 64 MiB. The CRC is checked.
    pub fn bytes(&self, member: &Listed) -> Result<Vec<u8>, Error> {
        self.file_of(member)?.bytes()
    }

    /// Shows the bytes of a member, at most 64 MiB, to `look`. The CRC is checked before that.
    pub fn with_bytes<T>(
        &self,
        member: &Listed,
        memory: &MemberMemory,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        let packed = self.file_of(member)?;
        memory.with(|space| Ok(look(packed.bytes_in(space)?)))
    }

    /// Passes the bytes of a member to `sink` in windows. Size and CRC are checked at the end.
    pub fn each(&self, member: &Listed, sink: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.packed(member).each(sink)
    }

    /// The bytes of a member in their order. Nothing is kept, so the size does not matter. Size and
    /// CRC are checked at the end, where reading fails if they differ.
    pub fn stream(&self, member: &Listed) -> Result<MemberStream, Error> {
        self.file_of(member)?.stream()
    }

    /// The first `length` bytes of a member, or all if it has fewer. At most one window is
    /// unpacked, and the checksum is not checked.
    pub fn start(&self, member: &Listed, length: usize) -> Result<Vec<u8>, Error> {
        self.file_of(member)?.start(length)
    }

    /// Random access to a member. The CRC is checked here. A stored member is read in the archive,
    /// after one pass over it; others are unpacked into memory up to 64 MiB. Of a larger one, some
    /// megabytes are in memory at a time; a read far from the last ones unpacks a few more.
    pub fn reader(&self, member: &Listed) -> Result<Reader, Error> {
        let packed = self.file_of(member)?;
        match packed.window_or_bytes()? {
            Some(reader) => Ok(reader),
            None => Ok(Box::new(packed.points()?)),
        }
    }

    /// Like [`ZipFile::reader`], but a large member is unpacked into an unnamed file in the folder
    /// `scratch`, which is deleted with the reader.
    pub fn reader_in(&self, member: &Listed, scratch: &Path) -> Result<Reader, Error> {
        self.file_of(member)?.reader(scratch)
    }

    /// Random access to a few ranges of a member. Only as much of it is unpacked as its stream
    /// requires; `scratch` is used like in [`ZipFile::reader_in`]. The CRC is checked only if the
    /// whole member is unpacked.
    pub fn sparse(&self, member: &Listed, scratch: &Path) -> Result<Sparse, Error> {
        self.file_of(member)?.sparse(scratch)
    }

    /// Unpacks members on all threads, and compares each with its CRC. The bytes are discarded:
    /// this is for members that are copied in packed form.
    ///
    /// # Errors
    /// The first member that cannot be unpacked or has a different CRC; an interruption.
    pub fn check_members(&self, mut members: Vec<&Listed>, reporter: &dyn Reporter) -> Result<(), Error> {
        let directory = members.iter().find(|member| member.kind == MemberKind::Directory);
        directory.map_or(Ok(()), |member| self.file_of(member).map(drop))?;
        // Starts with the largest, so that it does not run alone at the end.
        members.sort_by_key(|member| std::cmp::Reverse(member.size));
        members.into_par_iter().try_for_each(|member| {
            self.each(member, |_| {
                reporter.check()?;
                Ok(())
            })
        })
    }

    /// `true` if a member has the same packed bytes as a member of another archive, as copies do.
    /// For members that were packed by different tools the result may be `false` although their
    /// contents are equal.
    pub fn is_copy(&self, member: &Listed, other: &ZipFile, other_member: &Listed) -> Result<bool, Error> {
        self.file_of(member)?.is_packed_like(&other.file_of(other_member)?)
    }

    /// The positions of the chunks in a stream that [`crate::ZipWriter`] may have made, for
    /// [`ZipFile::each_chunk`]; `None` for another one.
    pub fn chunks(&self, member: &Listed) -> Option<Vec<u64>> {
        self.packed(member).chunks().unwrap_or_default()
    }

    /// Passes the bytes of a member to `sink` in order, while several threads unpack its chunks.
    /// `false` if it turns out not to consist of them, or has another CRC.
    pub fn each_chunk(&self, member: &Listed, starts: &[u64], sink: impl FnMut(&[u8])) -> Result<bool, Error> {
        self.packed(member).each_chunk(starts, sink)
    }
}
