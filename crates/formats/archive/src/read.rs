//! Input: a ZIP file made by any tool. Output: its members, and their bytes at random access.
//!
//! Opening reads the directory and the header of each member, and refuses archives that installers
//! would read differently. Methods that cannot be unpacked are refused when a member is read.

mod chunks;
mod directory;
mod layout;
mod points;
mod sparse;
mod stream;
mod unpack;
mod zip_directory;
mod zip_file;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::fault::IN_MEMORY;
use crate::write::REGULAR_FILE;
pub use directory::DirectoryEntries;
pub use layout::{MemberPlace, ZipLayout};
pub use sparse::Sparse;
pub use stream::MemberStream;
pub use unpack::MemberMemory;
pub use zip_directory::{DistantMember, ZipDirectory};
pub use zip_file::{ForeignBytes, ZipFile};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberKind {
    File,
    /// A folder; its name ends in `/`. Installers create folders as needed.
    Directory,
    /// A symbolic link; its bytes are the target. Installers make a file with that text from it.
    Symlink,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Path inside the archive.
    pub name: String,
    /// Size of the unpacked bytes.
    pub size: u64,
    /// Size of the bytes in the archive.
    pub compressed: u64,
    /// `true` if the mode has an execute bit.
    pub executable: bool,
    pub kind: MemberKind,
    /// The permission bits of Unix; usual ones if the archive has none.
    pub mode: u32,
    pub(crate) crc32: u32,
    /// The number of the compression method in the ZIP file.
    pub(crate) method: u16,
    pub(crate) encrypted: bool,
    /// Position of the bytes in the file.
    pub(crate) offset: u64,
    /// Position of its local header in the file.
    pub(crate) header: u64,
    /// The fields of the local header that the directory entry has too.
    pub(crate) own: [u8; directory::OWN],
    /// Records that the bytes of a stored member have been compared with `crc32`.
    pub(crate) compared: Compared,
}

/// A flag for a comparison that is done once for all clones of a member. It does not take part in
/// the equality of members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Compared(Arc<Mutex<bool>>);

impl PartialEq for Compared {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Compared {}

impl Compared {
    /// Runs `compare` unless it has succeeded before. Other threads that call this meanwhile wait.
    fn once<E>(&self, compare: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut done = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !*done {
            compare()?;
            *done = true;
        }
        Ok(())
    }
}

impl Listed {
    /// `true` if the archive contains the bytes uncompressed, so that [`ZipFile::reader`]
    /// holds none of them in memory.
    pub fn is_stored(&self) -> bool {
        self.method == 0
    }

    /// The checksum of the bytes according to the archive. Members with the same size and checksum
    /// are equal unless someone constructed them to differ.
    pub fn crc32(&self) -> u32 {
        self.crc32
    }

    /// `true` if [`ZipFile::reader`] holds all bytes in memory.
    pub fn is_held(&self) -> bool {
        !self.is_stored() && self.size <= IN_MEMORY
    }

    /// The range of its header and its bytes in the file.
    pub fn range(&self) -> Range<u64> {
        self.header..self.offset + self.compressed
    }

    /// The mode of a regular file with its permission bits.
    pub fn file_mode(&self) -> u32 {
        REGULAR_FILE | self.mode
    }
}
