//! Everything that can go wrong when artifacts are split, and hints how to fix it.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// Every failure of this module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An artifact, or its GPU code, cannot be read or written.
    #[error(transparent)]
    Split(#[from] crate::Error),
    /// The set's HIP runtime would load the host files and find no kernels.
    #[error("`{}` cannot read .kpack archives: there is no librocm_kpack in the set", runtime.display())]
    RuntimeWithoutArchives {
        /// Path of the HIP runtime.
        runtime: PathBuf,
    },
    /// Two artifacts of the input would be merged into one, but both have the same file.
    #[error("`{path}` of the artifact `{artifact}` would come from {first} and from {second}")]
    SamePath {
        /// The artifact that would be written.
        artifact: String,
        /// The path in that artifact.
        path: String,
        /// One source of the file, in backticks.
        first: String,
        /// The other source, in backticks.
        second: String,
    },
}

crate::error::passes_on!(Error);

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Split(error) => error.hint(),
            Self::RuntimeWithoutArchives { .. } => {
                Some("add the artifact `core-kpack`, or split all the same with `--force`".to_owned())
            }
            Self::SamePath { .. } => {
                Some("split builds for different GPU families one by one, then put them together".to_owned())
            }
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Split(error) => error.exit(),
            Self::RuntimeWithoutArchives { .. } | Self::SamePath { .. } => Exit::Failed,
        }
    }
}
