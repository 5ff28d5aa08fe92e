//! Everything that can go wrong when GPU code for some targets is removed, and hints how to fix it.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// Every failure of this module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The GPU code of a file, or a file, cannot be read or written.
    #[error(transparent)]
    Split(#[from] crate::Error),
    /// The list of targets to keep is empty.
    #[error("no GPU target is named that is to be kept")]
    NothingWanted,
    /// A file, or a bundle of it, would have no code for any GPU left.
    #[error("`{key}` would have no GPU code left{}: it has code for {found}", of(*bundle))]
    Empty {
        /// Path of the file.
        key: String,
        /// Index of the bundle; `None` if no bundle would have code.
        bundle: Option<usize>,
        /// The targets in the file.
        found: String,
    },
    /// A path that is not a file with GPU code, a wheel or a directory.
    #[error("`{}` has no GPU code that could be removed: {reason}", path.display())]
    Unsuitable {
        /// The path.
        path: PathBuf,
        /// The reason, for the message.
        reason: String,
    },
    /// The output exists already.
    #[error("the output `{}` exists", path.display())]
    Exists {
        /// Path of the output.
        path: PathBuf,
    },
    /// Two inputs would be written to the same output.
    #[error("two inputs are called `{name}`")]
    SameName {
        /// The last part of both paths.
        name: String,
    },
    /// The output lies in an input.
    #[error("the output `{}` is in the input `{}`", output.display(), input.display())]
    Inside {
        /// Path of the output.
        output: PathBuf,
        /// Path of the input.
        input: PathBuf,
    },
    /// The pruned result has a defect, and was removed.
    #[error("the result for `{}` is wrong, and was not kept: {}", path.display(), differences.join("; "))]
    NotPruned {
        /// Path of the input.
        path: PathBuf,
        /// The defects, one sentence each.
        differences: Vec<String>,
    },
    /// A temporary file could not be written.
    #[error("could not keep what becomes of `{key}` on the disk")]
    Scratch {
        /// Path of the file that was being changed.
        key: String,
        /// The operating system's error.
        source: io::Error,
    },
}

crate::error::passes_on!(Error);

fn of(bundle: Option<usize>) -> String {
    bundle.map(|bundle| format!(" in bundle {bundle}")).unwrap_or_default()
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Split(error) => error.hint(),
            Self::Unsuitable { .. } => Some("`rocwheel kernels` shows what is in a file".to_owned()),
            Self::NothingWanted => Some("name targets or families with `--keep`: `--keep gfx942,gfx90a`".to_owned()),
            Self::Empty { .. } => {
                Some("keep one of its targets as well, or allow files without GPU code with `--allow-empty`".to_owned())
            }
            Self::Exists { .. } => Some("remove it, or choose another output".to_owned()),
            Self::SameName { .. } => Some("prune them one at a time, with an output for each".to_owned()),
            Self::Inside { .. } => Some("choose an output outside of the inputs".to_owned()),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Split(error) => error.exit(),
            // The writer contradicts itself, which is not the user's fault.
            Self::NotPruned { .. } => Exit::Bug,
            Self::NothingWanted => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
