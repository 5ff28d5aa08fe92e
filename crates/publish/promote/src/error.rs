//! What keeps a set from being promoted, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint, Interrupted, counted, listed_problems, write_error};

/// Every failure of a promotion. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("version {old} cannot be promoted to {new}: {reason}")]
    Version { old: String, new: String, reason: String },
    #[error("cannot tell the version of the set in `{}`: {reason}", path.display())]
    NoVersion { path: PathBuf, reason: String },
    #[error("nothing was promoted: {} cannot be{}", counted(problems.len() as u64, "file"), listed_problems(problems))]
    Files {
        /// `FILE: why`.
        problems: Vec<String>,
    },
    /// The old version is still somewhere.
    #[error(
        "nothing was promoted: {} still {} version {version}{}",
        places(problems),
        verb(problems),
        listed_problems(problems)
    )]
    Leftovers {
        version: String,
        /// `FILE: MEMBER: line`.
        problems: Vec<String>,
    },
    #[error("nothing was promoted: the set would not be closed{}", listed_problems(problems))]
    NotClosed {
        /// `FILE requires REQUIREMENT`.
        problems: Vec<String>,
    },
    #[error("cannot keep {wanted}: {reason}")]
    Targets { wanted: String, reason: String },
    /// A wheel is not the one of its record, by which members were skipped.
    #[error("`{}` changed since it was packed", path.display())]
    Changed { path: PathBuf },
    /// A result has the name of a file with other contents.
    #[error("`{}` exists", path.display())]
    Exists { path: PathBuf },
}

fn places(problems: &[String]) -> String {
    if problems.len() == 1 { "1 place".to_owned() } else { format!("{} places", problems.len()) }
}

fn verb(problems: &[String]) -> &'static str {
    if problems.len() == 1 { "says" } else { "say" }
}

impl Error {
    /// To be used as `.map_err(Error::read(path))`.
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Error {
        |source| Error::Read { path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Error {
        |source| Error::Write { path: path.to_owned(), source: write_error(path)(source) }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Wheel(source) => source.hint()?,
            Self::NoVersion { .. } => "name it with `--set-version`".to_owned(),
            Self::Files { .. } => {
                "`--ignore PATTERN` leaves files behind, and `--copy PATTERN` takes them along unchanged".to_owned()
            }
            Self::Leftovers { .. } => {
                "`--also-in PATTERN` gives these members the new version, and `--accept PATTERN` leaves them".to_owned()
            }
            Self::NotClosed { .. } => {
                "add the missing files, or name a folder that has them with `--beside DIR`".to_owned()
            }
            Self::Changed { .. } => {
                "`rocwheel package` writes it again; without its record in the cache, all of it is read".to_owned()
            }
            Self::Exists { .. } => "choose an empty folder, or add `--force` to replace it".to_owned(),
            _ => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Files { problems } | Self::Leftovers { problems, .. } | Self::NotClosed { problems } => {
                problems.clone()
            }
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Wheel(source) => source.exit(),
            Self::Version { .. } | Self::Targets { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
