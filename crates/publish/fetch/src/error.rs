//! What can go wrong while artifacts are fetched or pushed, and what to do about it.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, Interrupted, in_backticks, with_causes};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    #[error(transparent)]
    Rocm(#[from] rocwheel_tables::Error),
    #[error("cannot {attempted} `{}`", path.display())]
    Disk {
        /// `write`, `read`.
        attempted: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("`{folder}` has no artifacts")]
    NothingThere { folder: String },
    /// Patterns, targets or names that are asked for and that nothing has.
    #[error("`{folder}` has nothing for {}", in_backticks(wanted))]
    Unmatched {
        folder: String,
        wanted: Vec<String>,
        /// Existing names, for the hint.
        existing: Vec<String>,
    },
    #[error("`{folder}` has {count} artifacts, none of which is selected")]
    NothingSelected { folder: String, count: usize },
    #[error("{} could not be fetched:{}", count(problems.len()), list(problems))]
    Downloads {
        /// `FILE: why`.
        problems: Vec<String>,
        /// [`Exit::TryAgain`] if another try may help.
        exit: Exit,
        /// Advice about the first problem.
        hint: Option<String>,
    },
    /// A web server cannot be reached.
    #[error("cannot read `{address}`: {reason}")]
    Unreachable {
        /// Without a password.
        address: String,
        reason: String,
    },
    #[error("cannot read `{address}`: the server answers {status}")]
    Status {
        /// Without a password.
        address: String,
        status: u16,
    },
    #[error("{} did not appear in `{folder}` within {seconds} seconds", in_backticks(wanted))]
    NotInTime {
        folder: String,
        wanted: Vec<String>,
        /// How long it was waited.
        seconds: u64,
    },
    #[error("`{pattern}` is no pattern of artifact names: {reason}")]
    Pattern { pattern: String, reason: String },
    /// The table of stages cannot be used.
    #[error("`{}`: {reason}", path.display())]
    Topology { path: PathBuf, reason: String },
    /// A release type, repository or run that cannot be.
    #[error("{0}")]
    Place(String),
    #[error("`{repository}` has no run of `{workflow}` {wanted}")]
    NoRun {
        /// `OWNER/NAME`.
        repository: String,
        workflow: String,
        /// `for commit …`.
        wanted: String,
    },
    #[error("GitHub answers {status} to `{address}`: {reason}")]
    GitHub { address: String, status: u16, reason: String },
    #[error("`{}` exists and was not fetched by rocwheel", path.display())]
    Foreign { path: PathBuf },
    /// The store has other bytes under the name of an artifact.
    #[error("the store has other contents of {}:{}", count(problems.len()), list(problems))]
    OtherBytes { problems: Vec<String> },
}

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

fn count(files: usize) -> String {
    if files == 1 { "1 artifact".to_owned() } else { format!("{files} artifacts") }
}

fn list(problems: &[String]) -> String {
    let mut text: String = problems.iter().take(SHOWN).map(|problem| format!("\n  {problem}")).collect();
    if problems.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", problems.len() - SHOWN));
    }
    text
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Store(error) => return error.hint(),
            Self::Artifact(error) => return error.hint(),
            Self::Rocm(error) => return error.hint(),
            Self::Disk { source, .. } => return rocwheel_output::storage_hint(source),
            Self::NothingThere { .. } => {
                "check the run, `--platform`, `--release-type` and `--repository` (nightly builds run in `ROCm/rockrel`)"
                    .to_owned()
            }
            Self::Unmatched { existing, .. } => format!("there are {}", in_backticks(existing)),
            Self::NothingSelected { .. } => "remove some of the filters; `--dry-run` lists what they leave".to_owned(),
            Self::Downloads { hint, .. } => return hint.clone(),
            Self::Unreachable { .. } => "check the address and the network, then try again".to_owned(),
            Self::Status { .. } => "check the address: it is that of the folder with the artifacts".to_owned(),
            Self::NotInTime { .. } => "look at the run on GitHub, or wait longer with `--timeout`".to_owned(),
            Self::Pattern { .. } => {
                "write a name with `*`, such as `blas_lib_*`, or a regular expression after `regex:`".to_owned()
            }
            Self::Topology { .. } => {
                "name TheRock's BUILD_TOPOLOGY.toml of the same commit with `--topology FILE`".to_owned()
            }
            Self::NoRun { .. } => {
                "check the commit, `--repository` and `--workflow`, or name the run with `--run-id`".to_owned()
            }
            Self::GitHub { status: 401 | 403 | 429, .. } => {
                "set GITHUB_TOKEN: without one GitHub allows few requests an hour".to_owned()
            }
            Self::GitHub { .. } => "check `--repository` and `--workflow`".to_owned(),
            Self::Foreign { .. } => "choose another output, or move the directory away".to_owned(),
            Self::OtherBytes { .. } => {
                "a run's artifacts do not change: push under another `--run-id`, or remove the old ones first".to_owned()
            }
            Self::Interrupted(_) | Self::Place(_) => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Downloads { problems, .. } | Self::OtherBytes { problems } => problems.clone(),
            Self::Store(error) => error.rows(),
            Self::Artifact(error) => error.rows(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Store(error) => error.exit(),
            Self::Artifact(error) => error.exit(),
            Self::Rocm(error) => error.exit(),
            Self::Downloads { exit, .. } => *exit,
            Self::Unreachable { .. } | Self::NotInTime { .. } | Self::GitHub { status: 429 | 500.., .. } => {
                Exit::TryAgain
            }
            Self::Status { status, .. } if *status >= 500 || *status == 429 => Exit::TryAgain,
            Self::Pattern { .. } | Self::Place(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
