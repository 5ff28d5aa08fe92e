//! Everything that can go wrong when GPU code is read and written, and hints how to fix it. The
//! modules for artifacts, wheels, pruning and fusing each have an enum for the rest.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

use crate::plan::UnchangedReason;

/// A failure that all modules share.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// The GPU code of a file is malformed or has an unknown format.
    #[error("could not read the GPU code of `{key}`")]
    GpuCode {
        /// Path of the file, relative to the input.
        key: String,
        /// The error of the reader.
        source: rocwheel_kpack::Error,
    },
    /// An archive could not be written.
    #[error("could not write the archive `{}`", path.display())]
    WriteArchive {
        /// Path of the archive.
        path: PathBuf,
        /// The error of the writer.
        source: rocwheel_kpack::Error,
    },
    /// A file could not be read.
    #[error("could not read `{key}`")]
    Read {
        /// Path of the file, relative to the input.
        key: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// Two files have the same path.
    #[error("`{key}` is given twice")]
    DuplicateFile {
        /// The path of both files.
        key: String,
    },
    /// A bundle has two code objects for one target; an archive holds one.
    #[error("bundle {bundle} of `{key}` has two code objects for `{target}`")]
    DuplicateTarget {
        /// Path of the file.
        key: String,
        /// Index of the bundle in the fat binary section.
        bundle: usize,
        /// The target.
        target: String,
    },
    /// An entry with code that names no target, so that it cannot be put into an archive.
    #[error("bundle {bundle} of `{key}` has {size} bytes of code under `{id}`, which names no GPU target")]
    NoTarget {
        /// Path of the file.
        key: String,
        /// Index of the bundle in the fat binary section.
        bundle: usize,
        /// Name of the entry.
        id: String,
        /// Size of the entry in bytes.
        size: u64,
    },
    /// The file has nothing to split.
    #[error("`{}` holds no GPU code that can be split off{}", path.display(), because(*reason))]
    NothingToSplit {
        /// Path of the file.
        path: PathBuf,
        /// The reason why its GPU code has to stay; `None` if it has no GPU code.
        reason: Option<UnchangedReason>,
    },
    /// A code object too large for memory; compilers do not make such objects.
    #[error("bundle {bundle} of `{key}` claims {size} bytes of code for {target}; up to {limit} are taken")]
    CodeObjectTooLarge {
        /// Path of the file.
        key: String,
        /// Index of the bundle in the fat binary section.
        bundle: usize,
        /// The target of the code object.
        target: String,
        /// The size in the entry table, in bytes.
        size: u64,
        /// The largest accepted size, in bytes.
        limit: u64,
    },
    /// A target with characters that cannot be part of a file name.
    #[error("`{key}` has code for a target called `{}`, which cannot be part of a file name", target.escape_debug())]
    TargetName {
        /// Path of the file.
        key: String,
        /// Name of the target.
        target: String,
    },
    /// A wheel could not be read or written.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// Artifacts could not be read.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    /// A file cannot be edited, because its own headers contradict each other.
    #[error("`{key}` is damaged: {why}")]
    Contradiction {
        /// Path of the file.
        key: String,
        /// The contradiction, for the message.
        why: String,
    },
    /// An error in a list of targets.
    #[error(transparent)]
    Rocm(#[from] rocwheel_tables::Error),
    /// The name of a kernel database that is not in the tables.
    #[error("there is no kernel database `{name}`")]
    UnknownDatabase {
        /// The name as given.
        name: String,
        /// The names in the tables, for the message.
        known: String,
    },
    /// The input has code for none of the requested targets.
    #[error("there is no GPU code for {wanted}: the input has code for {found}")]
    NothingSelected {
        /// The requested targets, separated by `, `.
        wanted: String,
        /// The targets in the input, separated by `, `.
        found: String,
    },
}

/// Lets the enum of a module take the errors that [`Error`] takes.
macro_rules! passes_on {
    ($error:ident) => {
        $crate::error::passes_on!(
            $error: std::io::Error, rocwheel_progress::Interrupted, rocwheel_wheel::Error, rocwheel_artifact::Error,
            rocwheel_output::Error, rocwheel_tables::Error
        );
    };
    ($error:ident: $($source:ty),+) => {
        $(impl From<$source> for $error {
            fn from(source: $source) -> Self {
                Self::from(crate::Error::from(source))
            }
        })+
    };
}

pub(crate) use passes_on;

fn because(reason: Option<UnchangedReason>) -> String {
    reason.map_or_else(String::new, |reason| format!(": {reason}"))
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::GpuCode { source, .. } | Self::WriteArchive { source, .. } => source.hint(),
            Self::Artifact(error) => error.hint(),
            Self::Rocm(error) => error.hint(),
            Self::Output(error) => error.hint(),
            Self::Wheel(error) => error.hint(),
            Self::UnknownDatabase { known, .. } => Some(format!("known are {known}")),
            Self::Contradiction { .. } => Some("get the file again, or build it again".to_owned()),
            Self::NothingSelected { .. } | Self::NothingToSplit { .. } => {
                Some("`rocwheel kernels` shows what is in a file".to_owned())
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Artifact(error) => error.exit(),
            Self::Wheel(error) => error.exit(),
            Self::Output(error) => error.exit(),
            Self::UnknownDatabase { .. } | Self::Rocm(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
