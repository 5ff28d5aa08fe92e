//! Errors of the path where a result is written.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// Reasons why an output cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The output contains files that this command did not write.
    #[error("the output `{path}` is not empty and was not made by `{command}`")]
    NotOurs {
        path: PathBuf,
        /// The command that refuses.
        command: &'static str,
    },
    /// A finished file or folder could not be moved to its path, or an old one could not be
    /// removed.
    #[error("cannot {action} `{path}`")]
    Place {
        /// The attempted action, as the message says it: `remove`.
        action: &'static str,
        /// The path that could not be moved or removed.
        path: PathBuf,
        source: io::Error,
    },
    #[error("`{path}` has {free} bytes free, but the output takes {needed}")]
    Space {
        /// The directory that holds the output.
        path: PathBuf,
        /// Number of bytes that will be written.
        needed: u64,
        /// Number of free bytes.
        free: u64,
    },
    /// The output is a symbolic link to a path that does not exist.
    #[error("the output `{path}` is a link to `{target}`, which does not exist")]
    Dangling { path: PathBuf, target: PathBuf },
    #[error("another run is writing to the output `{path}`")]
    Locked { path: PathBuf },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Io(source) | Self::Place { source, .. } => return storage_hint(source),
            Self::Dangling { .. } => "make that directory, or choose another output",
            Self::Space { .. } => "make room on the disk, or choose another output",
            Self::NotOurs { .. } => "choose an empty directory, or remove this one",
            Self::Locked { .. } => "wait for it to end, or choose another output",
        };
        Some(text.to_owned())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Locked { .. } => Exit::TryAgain,
            _ => Exit::Failed,
        }
    }
}

/// Advice for an error of writing; `None` if there is none.
pub fn storage_hint(source: &io::Error) -> Option<String> {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on the disk and run it again".into())
        }
        io::ErrorKind::PermissionDenied => Some("check the permissions of the path and of its directory".into()),
        // Linux reports ENAMETOOLONG for paths of 4096 bytes and more.
        io::ErrorKind::InvalidFilename => {
            Some(
                "a file name has more than 255 bytes, or the path is longer than the system allows: rename the file, or work in \
                 a directory with a shorter path"
                    .into(),
            )
        }
        _ => None,
    }
}
