//! What can go wrong with artifacts, and hints how to fix it: an enum of what callers decide by,
//! and the failures that several modules have.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_output::storage_hint;
use rocwheel_progress::{Exit, Failure, Hint, is_full};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error("could not read the archive `{path}`")]
    DamagedArchive {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not write the archive `{path}`")]
    WriteArchive {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` has the SHA-256 digest `{actual}`, but its sidecar says `{expected}`")]
    DigestMismatch { path: PathBuf, expected: String, actual: String },
    /// A file of an earlier version was written to while the new one was compared with it.
    #[error("`{path}` changed while it was compared")]
    OlderChanged { path: PathBuf },
    /// A defect of one member, whose path is relative to the artifact.
    #[error("{failure}")]
    Member { member: String, failure: Failure },
    /// Anything else.
    #[error(transparent)]
    Failure(#[from] Failure),
}

impl Error {
    /// Turns an I/O error that means a full disk into a failure without source, which would name a
    /// temporary file that is removed by now; other errors stay unchanged.
    pub(crate) fn or_full_disk(self, output: &Path) -> Self {
        match self {
            Self::Io(source) if is_full(&source) => {
                Failure::message(format!("no space is left on the disk of `{}`", output.display()))
                    .with_hint("make room on that disk, or choose another output")
                    .into()
            }
            other => other,
        }
    }
}

pub(crate) fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Io(source) | Self::WriteArchive { source, .. } => storage_hint(source),
            Self::DamagedArchive { .. } | Self::DigestMismatch { .. } => {
                Some("fetch the archive again; it is incomplete or was changed after its digest was taken".to_owned())
            }
            Self::OlderChanged { .. } => Some(AGAIN.to_owned()),
            Self::Member { failure, .. } | Self::Failure(failure) => failure.hint().map(str::to_owned),
            Self::Interrupted(_) => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Failure(failure) => failure.exit(),
            _ => Exit::Failed,
        }
    }
}

/// The hint for files that changed while they were read.
pub(crate) const AGAIN: &str = "run the command again when nothing writes there";

/// A directory or archive that was meant as an artifact has a name that does not parse.
pub(crate) fn malformed_name(name: &str, path: &Path) -> Failure {
    let path = path.display();
    Failure::message(format!(
        "`{path}` is not named like an artifact: `{name}` does not have exactly three fields separated by `_`"
    ))
    .with_hint("rename it to {name}_{component}_{target}, for example `core-hip_lib_generic`; fields cannot hold `_`")
}

pub fn given_twice(artifact: &dyn Display, first: &Path, second: &Path) -> Failure {
    let (first, second) = (first.display(), second.display());
    Failure::message(format!("artifact `{artifact}` is given twice: `{first}` and `{second}`"))
        .with_hint("keep one of the two and move the other away")
}

/// A file name that is not UTF-8, which no wheel can hold.
pub fn not_unicode(path: &Path) -> Failure {
    Failure::message(format!("the file name `{}` is not UTF-8", path.display()))
}

/// An archive whose name ends in neither `.tar.zst` nor `.tar.xz`.
pub fn unknown_archive(path: &Path) -> Failure {
    let path = path.display();
    Failure::message(format!("`{path}` is not an artifact archive: its name ends in neither .tar.zst nor .tar.xz"))
        .with_exit(Exit::Usage)
}

/// The output holds files that this program did not write.
pub(crate) fn output_not_ours(path: &Path) -> Failure {
    Failure::message(format!("the output `{}` is not empty and was not made by this command", path.display()))
        .with_hint("choose an empty directory, or remove this one")
}

const WHAT_HOLDS_ARTIFACTS: &str =
    "give the directory that holds the artifacts; `rocwheel artifact import` makes one of packages";

pub fn not_there(path: &Path) -> Failure {
    Failure::message(format!("there is no `{}`", path.display())).with_hint(WHAT_HOLDS_ARTIFACTS)
}

pub(crate) fn no_directory(path: &Path) -> Failure {
    Failure::message(format!("`{}` is not a directory", path.display())).with_hint(WHAT_HOLDS_ARTIFACTS)
}

/// The directory of artifacts holds none.
pub fn no_artifacts(path: &Path) -> Failure {
    Failure::message(format!("there is no artifact in `{}`", path.display()))
        .with_hint("an artifact is called {name}_{component}_{target} and holds artifact_manifest.txt")
}
