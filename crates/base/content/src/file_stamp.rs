//! Input: a file. Output: what the file system knows about this version of it. A change of the file
//! changes that, too.
//!
//! The time of the last change cannot be set back by a program. But clocks of file systems tick
//! every few milliseconds, and a file that changes twice within a tick shows it once. So something
//! that was recorded about a file counts only if the file had been at rest before
//! ([`FileStamp::had_settled`]).

use std::path::Path;
use std::{fmt, io};

use rocwheel_system::{FileIdentity, FileMetadata as _, Timestamp, open_identity};

/// Seconds after which a file that changes has another time. FAT counts in steps of two seconds.
const SETTLED: i64 = 3;

/// Device, inode, size, and the times of the last modification and the last change of a file. The
/// text has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// Which file it is.
    pub identity: FileIdentity,
    /// Bytes.
    pub size: u64,
    modified: Timestamp,
    changed: Timestamp,
}

impl FileStamp {
    /// The stamp of the file at a path; links are followed.
    ///
    /// # Errors
    /// The errors of `stat(2)`.
    pub fn at(path: &Path) -> io::Result<FileStamp> {
        let metadata = fs_err::metadata(path)?;
        let identity = metadata.identity(path)?;
        FileStamp::new(path, &metadata, identity)
    }

    /// The stamp of an open file.
    ///
    /// # Errors
    /// The errors of `fstat(2)`.
    pub fn of(file: &fs_err::File) -> io::Result<FileStamp> {
        FileStamp::new(file.path(), &file.metadata()?, open_identity(file)?)
    }

    fn new(path: &Path, metadata: &std::fs::Metadata, identity: FileIdentity) -> io::Result<FileStamp> {
        let (modified, changed) = (metadata.modified_at(), metadata.changed_at(path)?);
        Ok(FileStamp { identity, size: metadata.len(), modified, changed })
    }

    /// The text without the time of the last change, which is also that of a new or a removed hard
    /// link. Only for files whose time of modification is never set back.
    pub fn without_change(&self) -> String {
        let FileStamp { identity, size, modified, .. } = self;
        let FileIdentity { device, inode, .. } = identity;
        format!("{device} {inode} {size} {}.{:09}", modified.seconds, modified.nanoseconds)
    }

    /// `true` if the file had not changed for a while when something was written about it.
    pub fn had_settled(&self, written: Timestamp) -> bool {
        self.changed.seconds.checked_add(SETTLED).is_some_and(|settled| written.seconds >= settled)
    }
}

impl fmt::Display for FileStamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileStamp { identity, size, modified, changed } = self;
        write!(formatter, "{} {} {size}", identity.device, identity.inode)?;
        for time in [modified, changed] {
            write!(formatter, " {}.{:09}", time.seconds, time.nanoseconds)?;
        }
        Ok(())
    }
}
