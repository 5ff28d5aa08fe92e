//! What can go wrong when GPU targets are removed, and what to do about it.

use std::io;
use std::path::PathBuf;

use report::{Exit, Hint};

/// Why nothing was pruned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// No target is to be kept.
    #[error("no GPU target is named that is to be kept")]
    NothingWanted,
    /// A name that is neither a target nor a family.
    #[error(transparent)]
    Artifact(#[from] artifact::Error),
    /// A target with a feature that nobody knows.
    #[error(transparent)]
    Target(kpack::Error),
    /// The GPU code of a file is malformed, or the file cannot be changed.
    #[error("could not remove GPU code from `{key}`")]
    GpuCode {
        /// The file.
        key: String,
        /// What is wrong with it.
        source: kpack::Error,
    },
    /// Bytes could not be read, or not be kept on the disk.
    #[error("could not work on `{key}`")]
    Content {
        /// The file.
        key: String,
        /// Why.
        source: io::Error,
    },
    /// A wheel cannot be read or written.
    #[error(transparent)]
    Wheel(#[from] wheel::Error),
    /// A file, or a bundle of it, would have no code for any GPU left.
    #[error("`{key}` would have no GPU code left{}: it has code for {found}", of(*bundle))]
    Empty {
        /// The file.
        key: String,
        /// The bundle, when others would keep some.
        bundle: Option<usize>,
        /// What it has.
        found: String,
    },
    /// A path that is no file with GPU code, no wheel and no directory.
    #[error("`{}` has no GPU code that could be removed: {reason}", path.display())]
    Unsuitable {
        /// The path.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// Something is in the way of the output.
    #[error("the output `{}` exists", path.display())]
    Exists {
        /// What is there.
        path: PathBuf,
    },
    /// Two inputs would become one output.
    #[error("two inputs are called `{name}`")]
    SameName {
        /// The last part of both paths.
        name: String,
    },
    /// The output lies in an input.
    #[error("the output `{}` lies in the input `{}`", output.display(), input.display())]
    Inside {
        /// The output.
        output: PathBuf,
        /// The input.
        input: PathBuf,
    },
    /// What was written is not what should have been written.
    #[error("the result for `{}` is wrong, and was not kept: {}", path.display(), differences.join("; "))]
    Verification {
        /// The input.
        path: PathBuf,
        /// What differs.
        differences: Vec<String>,
    },
}

fn of(bundle: Option<usize>) -> String {
    bundle.map(|bundle| format!(" in bundle {bundle}")).unwrap_or_default()
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Artifact(error) => error.hint(),
            Self::GpuCode { source, .. } => source.hint(),
            Self::Wheel(error) => error.hint(),
            Self::NothingWanted => Some("name targets or families with `--keep`: `--keep gfx942,gfx90a`".to_owned()),
            Self::Empty { .. } => {
                Some("keep one of its targets as well, or allow files without GPU code with `--allow-empty`".to_owned())
            }
            Self::Unsuitable { .. } => Some("`rocwheel kernels` shows what is in a file".to_owned()),
            Self::Exists { .. } => Some("remove it, or choose another output".to_owned()),
            Self::SameName { .. } => Some("prune them one at a time, with an output for each".to_owned()),
            Self::Inside { .. } => Some("choose an output outside of the inputs".to_owned()),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted | Self::Wheel(wheel::Error::Interrupted { .. }) => Exit::Interrupted,
            Self::NothingWanted | Self::Target(_) => Exit::Usage,
            Self::Artifact(error) => error.exit(),
            // The writer contradicts itself: that is not the user's fault.
            Self::Verification { .. } => Exit::Bug,
            _ => Exit::Failed,
        }
    }
}
