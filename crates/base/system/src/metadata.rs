//! Input: metadata of a file and its path. Output: what the standard library does not provide in
//! portable form.
//!
//! Every function gets the path as well, because Windows tells an identity and a number of links of
//! open files only, and keeps no mode.

use std::io;
use std::path::Path;

/// Two paths with the same identity are one file. On Windows these are the serial number of the
/// volume and the index of the file on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Number of the device.
    pub device: u64,
    /// Number of the inode on it.
    pub inode: u64,
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Whole seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: i64,
}

/// Owner of a file, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOwner {
    pub user: u32,
    pub group: u32,
}

/// Metadata of the file at a path. If the metadata is that of a link, so are the answers.
pub trait FileMetadata {
    /// Type and permissions, in the format of `st_mode`. Windows keeps no permissions but "read
    /// only": there a file has the mode 0755 or 0644, by [`FileMetadata::is_executable`], and a
    /// folder 0755.
    fn mode(&self, path: &Path) -> u32;

    /// `true` if the owner, the group or others may execute it. On Windows, if it is a program or a
    /// library by its first bytes, or begins with `#!`. `false` for a file that cannot be read.
    fn is_executable(&self, path: &Path) -> bool {
        self.mode(path) & 0o111 != 0
    }

    /// Which file it is.
    ///
    /// # Errors
    /// On Windows, a file that cannot be opened.
    fn identity(&self, path: &Path) -> io::Result<FileIdentity>;

    /// Number of hard links.
    ///
    /// # Errors
    /// On Windows, a file that cannot be opened.
    fn link_count(&self, path: &Path) -> io::Result<u64>;

    /// Time of the last change of its bytes.
    fn modified_at(&self) -> Timestamp;

    /// Time of the last change of its bytes or metadata.
    ///
    /// # Errors
    /// On Windows, a file that cannot be opened.
    fn changed_at(&self, path: &Path) -> io::Result<Timestamp>;

    /// Owner and group; `None` on Windows, where they are not numbers.
    fn owner(&self) -> Option<FileOwner>;
}
