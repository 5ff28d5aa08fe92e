//! What can be wrong with the place of a result.

use std::io;
use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

/// Why an output cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The output holds something this command did not write.
    #[error("the output `{path}` is not empty and was not made by `{command}`")]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The command.
        command: &'static str,
    },
    /// A finished file or folder could not be put in its place, or an old one not be removed.
    #[error("cannot {action} `{path}`")]
    Place {
        /// What was attempted.
        action: &'static str,
        /// The place.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The disk is too small.
    #[error("`{path}` has {free} bytes free, but the output takes {needed}")]
    Space {
        /// The directory that holds the output.
        path: PathBuf,
        /// Bytes that will be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The output is a link to nothing.
    #[error("the output `{path}` is a link to `{target}`, which does not exist")]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Its text.
        target: PathBuf,
    },
    /// Another run works on the same output.
    #[error("another run is writing to the output `{path}`")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
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

/// What to do when the system refuses to write.
pub fn storage_hint(source: &io::Error) -> Option<String> {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("make room on the disk and run it again".into())
        }
        io::ErrorKind::PermissionDenied => Some("check the permissions of the path and of its directory".into()),
        // Linux answers ENAMETOOLONG from 4096 bytes on.
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
