//! Failures of recipes, matrices and jobs, each with a hint.

use std::io;

use rocwheel_process::NotStarted;
use rocwheel_progress::{Exit, Failure, Hint};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error("could not understand `{path}`{}: {reason}", at_line(*line))]
    Malformed {
        /// Path of the file, or the name of a built-in one.
        path: String,
        /// Line in the file, counted from 1.
        line: Option<usize>,
        reason: String,
        hint: Option<String>,
    },
    #[error("there is no {what} `{name}`{place}")]
    Unknown {
        what: &'static str,
        name: String,
        /// ` of the recipe …`, or empty.
        place: String,
        hint: String,
    },
    /// Recipes depend on each other.
    #[error("recipes wait for each other: {}", names.join(" → "))]
    Cycle {
        /// Names in the order of the cycle; the last equals the first.
        names: Vec<String>,
    },
    /// The request contradicts itself or the recipe, or is incomplete.
    #[error("{reason}")]
    Request { reason: String, hint: Option<String> },
    /// A recipe cannot be built for some GPU targets.
    #[error("{recipe} cannot be built for {targets}")]
    Targets {
        recipe: String,
        /// The targets that it cannot be built for, and their origin.
        targets: String,
        known: Vec<String>,
        more: Option<String>,
    },
    #[error("{reason}")]
    Source { reason: String, hint: Option<String> },
    /// A file of an installed ROCm is damaged.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// An error of the tables, or of the sources.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// rocwheel does not understand the version of a Python.
    #[error(transparent)]
    PythonVersion(#[from] rocwheel_wheel::InvalidPythonVersion),
    #[error(transparent)]
    NoProgram(#[from] NotStarted),
    #[error("another run builds {job}")]
    Locked { job: String },
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

/// A mistake in a file that is valid TOML.
pub(crate) fn malformed(path: &str, reason: impl Into<String>) -> Result<(), Error> {
    Err(Error::malformed(path, reason))
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

    /// The failure to write a value as JSON or TOML. `what` is in the place of a path.
    pub fn unwritable<E: std::fmt::Display>(what: &'static str) -> impl FnOnce(E) -> Error {
        move |error| Error::malformed(what, error.to_string())
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
            Error::Artifact(error) => return error.hint(),
            Error::Failure(failure) => return failure.hint().map(str::to_owned),
            Error::PythonVersion(error) => return error.hint(),
            Error::NoProgram(error) => return error.hint(),
            Error::Locked { .. } => "wait until it has ended".into(),
            Error::Io(_) | Error::Interrupted(_) => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Failure(failure) => failure.rows().to_vec(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Unknown { .. } | Error::Request { .. } | Error::Targets { .. } => Exit::Usage,
            Error::Locked { .. } => Exit::TryAgain,
            Error::Artifact(error) => error.exit(),
            Error::Failure(failure) => failure.exit(),
            Error::PythonVersion(error) => error.exit(),
            _ => Exit::Failed,
        }
    }
}
