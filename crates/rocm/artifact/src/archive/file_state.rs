//! Input: a file. Output: a state that differs if the file or its bytes have changed.

use std::io;
use std::path::Path;

use rocwheel_system::{FileIdentity, FileMetadata as _, Timestamp, open_identity};

/// Identity, size and time of a file. Two equal states are the same bytes, unless the time was
/// set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileState {
    identity: FileIdentity,
    /// In bytes.
    pub(super) size: u64,
    modified: Timestamp,
}

impl FileState {
    /// The state of an open file, even if its path leads to another file now.
    pub(super) fn of_open(file: &fs_err::File) -> io::Result<FileState> {
        let metadata = file.metadata()?;
        Ok(FileState { identity: open_identity(file)?, size: metadata.len(), modified: metadata.modified_at() })
    }

    /// The state of the file at a path. A link is not followed.
    pub(super) fn of_path(path: &Path) -> io::Result<FileState> {
        let metadata = fs_err::symlink_metadata(path)?;
        let identity = metadata.identity(path)?;
        Ok(FileState { identity, size: metadata.len(), modified: metadata.modified_at() })
    }
}
