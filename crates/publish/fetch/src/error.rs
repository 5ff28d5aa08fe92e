//! What can go wrong with one file, and failures of several modules.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Failure, Hint as _, Interrupted, in_backticks, with_causes};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadFault {
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The network or the server failed, also after several tries.
    #[error("{0}")]
    Network(String),
    #[error("{reason}")]
    Refused {
        reason: String,
        /// Advice for the user, if the fault of the store has one.
        hint: Option<String>,
    },
    #[error("its SHA-256 is {actual}, but {said_by} says {expected}")]
    Digest {
        /// Hexadecimal.
        expected: String,
        /// Hexadecimal.
        actual: String,
        /// Source of the expected hash: `its sidecar` or `the store`.
        said_by: &'static str,
    },
    #[error("it has {actual} bytes instead of {expected}")]
    Size { expected: u64, actual: u64 },
    /// The sidecar is no checksum.
    #[error("its sidecar is not a SHA-256")]
    Sidecar,
    #[error("`{}` cannot be written: {source}", path.display())]
    Disk { path: PathBuf, source: io::Error },
    /// It was fetched and is no artifact.
    #[error("{}", with_causes(.0))]
    Artifact(rocwheel_artifact::Error),
    /// A directory that rocwheel did not make is in the way.
    #[error("`{}` exists and was not fetched by rocwheel", path.display())]
    Foreign { path: PathBuf },
}

impl DownloadFault {
    /// To be used as `.map_err(DownloadFault::disk(path))`.
    pub(crate) fn disk(path: &Path) -> impl Fn(io::Error) -> DownloadFault {
        |source| DownloadFault::Disk { path: path.to_owned(), source }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Network(_) => Exit::TryAgain,
            _ => Exit::Failed,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Network(_) => "run it again: what was downloaded so far is kept and continued".to_owned(),
            Self::Refused { hint, .. } => return hint.clone(),
            Self::Disk { source, .. } => return rocwheel_output::storage_hint(source),
            Self::Digest { .. } | Self::Size { .. } | Self::Sidecar => {
                "the file in the store is damaged, or its sidecar is of another build: push it again".to_owned()
            }
            Self::Artifact(error) => return error.hint(),
            Self::Foreign { .. } => "choose another output, or move the directory away".to_owned(),
            _ => return None,
        })
    }
}

/// Files that a message lists; `--json` has all of them.
const SHOWN: usize = 20;

/// A failure of several artifacts, each with its problem: `FILE: why`.
pub(crate) fn artifacts_failure(what: impl FnOnce(&str) -> String, problems: Vec<String>) -> Failure {
    let count = if problems.len() == 1 { "1 artifact".to_owned() } else { format!("{} artifacts", problems.len()) };
    Failure::message(format!("{}:{}", what(&count), list(&problems))).with_rows(problems)
}

/// Patterns, targets or names that are asked for and that nothing has; `existing` is for the hint.
pub(crate) fn unmatched(folder: &str, wanted: &[String], existing: &[String]) -> Failure {
    Failure::message(format!("`{folder}` has nothing for {}", in_backticks(wanted)))
        .with_hint(format!("there are {}", in_backticks(existing)))
}

pub(crate) fn wrong_place(text: String) -> Failure {
    Failure::message(text).with_exit(Exit::Usage)
}

/// An address, without a password, that cannot be reached.
pub(crate) fn unreachable(address: &str, reason: impl Display) -> Failure {
    Failure::message(format!("cannot read `{address}`: {reason}"))
        .with_hint("check the address and the network, then try again")
        .with_exit(Exit::TryAgain)
}

pub(crate) fn disk_error(attempted: &str, path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| {
        let hint = rocwheel_output::storage_hint(&error);
        let failure = Failure::attempt(format!("cannot {attempted} `{}`", path.display()))(error);
        hint.into_iter().fold(failure, Failure::with_hint)
    }
}

fn list(problems: &[String]) -> String {
    let mut text: String = problems.iter().take(SHOWN).map(|problem| format!("\n  {problem}")).collect();
    if problems.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", problems.len() - SHOWN));
    }
    text
}
