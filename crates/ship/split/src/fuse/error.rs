//! Everything that can go wrong when GPU code is put back into its files, and hints how to fix it.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// Every failure of this module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The parts or a file of the result cannot be read or written.
    #[error(transparent)]
    Split(Box<crate::Error>),
    /// The GPU code of a file cannot be put back into it.
    #[error("cannot put the GPU code of `{key}` together: {why}")]
    Fuse {
        /// Path of the file.
        key: String,
        /// The reason, for the message.
        why: String,
    },
    /// A file has no room for its GPU code, or cannot be edited.
    #[error("could not put the GPU code back into `{key}`")]
    PutBack {
        /// Path of the file.
        key: String,
        /// The error of the edit.
        source: rocwheel_kpack::Error,
        /// `true` if compressed code might fit: a file for Windows has only its original room.
        try_compressed: bool,
    },
    /// Builds to be merged differ in more than their GPU code.
    #[error("{count} of the builds' files are not the same, first `{path}`: {why}")]
    Unequal {
        /// The first file that differs.
        path: String,
        /// The difference, for the message.
        why: String,
        /// Number of files that differ.
        count: usize,
    },
    /// A wrapper would register a bundle without any code.
    #[error("`{path}` would have a bundle without code: {why}")]
    WithoutCode {
        /// Path of the file.
        path: String,
        /// The missing part, for the message.
        why: String,
    },
    /// A given archive has no code for any of the files.
    #[error("`{}` holds no code for the files that are put together", archive.display())]
    UnusedArchive {
        /// Path of the archive.
        archive: PathBuf,
    },
    /// The result does not hold the same code as the input: nothing is written.
    #[error("the fused `{path}` is not what went in: {why}")]
    NotFused {
        /// Path of the file.
        path: String,
        /// The difference, for the message.
        why: String,
    },
}

crate::error::passes_on!(Error);

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Error {
        Error::Split(Box::new(error))
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Split(error) => error.hint(),
            Self::PutBack { try_compressed: true, .. } => {
                Some("its code was compressed, and there is no room for more: add `--compress`".to_owned())
            }
            Self::PutBack { source, .. } => source.hint(),
            Self::Unequal { .. } => {
                Some("only builds of the same sources for different GPUs can become one".to_owned())
            }
            Self::WithoutCode { .. } => Some(
                "give all archives that the file was split into, or allow bundles without code with `--allow-empty`"
                    .to_owned(),
            ),
            Self::UnusedArchive { .. } => {
                Some("`rocwheel kernels` shows what it holds; remove it, or give the file that it is for".to_owned())
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Split(error) => error.exit(),
            // The writer contradicts itself, which is not the user's fault.
            Self::NotFused { .. } => Exit::Bug,
            _ => Exit::Failed,
        }
    }
}
