//! Failures of recipes, matrices and jobs, each with a hint.

use std::io;

use rocwheel_process::NotStarted;
use rocwheel_progress::{Exit, Hint};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source's message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// A recipe, a layer or a table has a mistake.
    #[error("could not understand `{path}`{}: {reason}", at_line(*line))]
    Malformed {
        /// Path of the file, or the name of a built-in one.
        path: String,
        /// Line in the file, counted from 1.
        line: Option<usize>,
        /// The mistake.
        reason: String,
        /// A suggestion.
        hint: Option<String>,
    },
    /// A recipe, step, backend or version does not exist.
    #[error("there is no {what} `{name}`{place}")]
    Unknown {
        /// The kind of thing.
        what: &'static str,
        /// The name that was asked for.
        name: String,
        /// ` of the recipe …`, or empty.
        place: String,
        /// The existing names or the nearest one.
        hint: String,
    },
    /// Recipes wait for each other.
    #[error("recipes wait for each other: {}", names.join(" → "))]
    Cycle {
        /// Names in the order of the cycle; the last equals the first.
        names: Vec<String>,
    },
    /// The request contradicts itself or the recipe, or is incomplete.
    #[error("{reason}")]
    Request {
        /// The contradiction or the gap.
        reason: String,
        /// A request that would work.
        hint: Option<String>,
    },
    /// A recipe cannot be built for some GPU targets.
    #[error("{recipe} cannot be built for {targets}")]
    Targets {
        /// Name and version of the recipe.
        recipe: String,
        /// The targets that it cannot be built for, and their origin.
        targets: String,
        /// The targets that it can be built for.
        known: Vec<String>,
        /// The recipe's remark about the others.
        more: Option<String>,
    },
    /// Sources are missing, or are not those that the job was made for.
    #[error("{reason}")]
    Source {
        /// What is wrong with the sources.
        reason: String,
        /// A remedy.
        hint: Option<String>,
    },
    /// A GPU target does not exist.
    #[error(transparent)]
    Rocm(#[from] rocwheel_tables::Error),
    /// A file of an installed ROCm is damaged.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// Reading a source archive failed.
    #[error(transparent)]
    Archive(#[from] rocwheel_source::Error),
    /// rocwheel does not understand the version of a Python.
    #[error(transparent)]
    PythonVersion(#[from] rocwheel_wheel::InvalidPythonVersion),
    /// A program cannot be started.
    #[error(transparent)]
    NoProgram(#[from] NotStarted),
    /// Another run builds the same job.
    #[error("another run builds {job}")]
    Locked {
        /// Title of the job.
        job: String,
    },
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

impl From<rocwheel_process::Error> for Error {
    fn from(error: rocwheel_process::Error) -> Error {
        match error {
            rocwheel_process::Error::Io(error) => error.into(),
            rocwheel_process::Error::Interrupted(interrupted) => interrupted.into(),
            rocwheel_process::Error::NotStarted(program) => program.into(),
        }
    }
}

impl Error {
    /// A contradiction in the request, without a hint.
    pub fn request(reason: impl Into<String>) -> Error {
        Error::Request { reason: reason.into(), hint: None }
    }

    /// A contradiction in the request, with a hint.
    pub fn request_with(reason: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Request { reason: reason.into(), hint: Some(hint.into()) }
    }

    /// A mistake in a file that is valid TOML.
    pub fn malformed(path: &str, reason: impl Into<String>) -> Error {
        Error::Malformed { path: path.to_owned(), line: None, reason: reason.into(), hint: None }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::Malformed { hint, .. } | Error::Request { hint, .. } | Error::Source { hint, .. } => {
                return hint.clone();
            }
            Error::Unknown { hint, .. } => hint.clone(),
            Error::Cycle { .. } => "take one of the names out of `after`".into(),
            Error::Targets { known, .. } if known.is_empty() => "its recipe is for no GPU target".into(),
            Error::Targets { known, more, .. } => {
                let more = more.as_ref().map(|more| format!("; {more}")).unwrap_or_default();
                format!("it can be built for {}{more}", known.join(", "))
            }
            Error::Rocm(error) => return error.hint(),
            Error::Artifact(error) => return error.hint(),
            Error::Archive(error) => return error.hint(),
            Error::PythonVersion(error) => return error.hint(),
            Error::NoProgram(error) => return error.hint(),
            Error::Locked { .. } => "wait until it has ended".into(),
            Error::Io(_) | Error::Interrupted(_) => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Archive(error) => error.rows(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Unknown { .. } | Error::Request { .. } | Error::Targets { .. } => Exit::Usage,
            Error::Locked { .. } => Exit::TryAgain,
            Error::Rocm(error) => error.exit(),
            Error::Artifact(error) => error.exit(),
            Error::Archive(error) => error.exit(),
            Error::PythonVersion(error) => error.exit(),
            _ => Exit::Failed,
        }
    }
}
