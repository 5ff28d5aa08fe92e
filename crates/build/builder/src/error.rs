//! Failures of builds, each with a hint.

use std::path::PathBuf;
use std::{fmt, io};

use rocwheel_process::NotStarted;
use rocwheel_progress::{Exit, Hint};
use serde::{Deserialize, Serialize};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error(transparent)]
    Recipe(rocwheel_recipe::Error),
    #[error("{attempt}")]
    Download { attempt: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error(transparent)]
    Archive(#[from] rocwheel_source::Error),
    /// The index of ROCm does not answer as an index does.
    #[error(transparent)]
    Index(#[from] rocwheel_index::Error),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A wheel that the job built cannot be repaired.
    #[error(transparent)]
    Repair(#[from] rocwheel_repair::Error),
    /// The GPU code of a wheel that the job built cannot be split off.
    #[error(transparent)]
    Split(#[from] rocwheel_progress::Failure),
    #[error(transparent)]
    Publish(#[from] rocwheel_output::Error),
    #[error(transparent)]
    Audit(#[from] rocwheel_audit::Error),
    /// rocwheel does not understand the version of a Python.
    #[error(transparent)]
    PythonVersion(#[from] rocwheel_wheel::InvalidPythonVersion),
    #[error(transparent)]
    NoProgram(#[from] NotStarted),
    /// This machine has no Python of that version.
    #[error("there is no Python {version} on this machine")]
    NoPython {
        /// The version that was asked for: `3.12`, `3.13t`.
        version: String,
        found: Vec<String>,
    },
    /// A fact that only a running job can know is not available.
    #[error("`${{{name}}}` is not known: {reason}")]
    NoFact {
        /// Name of the fact in recipes.
        name: String,
        reason: String,
        hint: Option<String>,
    },
    #[error("{0}")]
    Step(Box<StepFailure>),
    /// A build's result is not the expected one.
    #[error("{job} made the wrong thing: {reason}")]
    Output { job: String, reason: String, hint: Option<String> },
    /// The audit finds errors in a result.
    #[error("the audit finds {}{} in `{wheel}`: {first}", count, if *count == 1 { " error" } else { " errors" })]
    Refused {
        wheel: String,
        count: usize,
        /// Code and text of the first error.
        first: String,
    },
    #[error("{reason}")]
    Engine { reason: String, hint: Option<String> },
    /// A failure that the program in a container reported.
    #[error("in a container of `{image}`: {message}")]
    Inside {
        image: String,
        /// The error and its causes, as one text.
        message: String,
        hint: Option<String>,
        exit: Exit,
        failure: Option<Box<StepFailure>>,
    },
    #[error("{program} says: {said}")]
    Slurm {
        program: String,
        said: String,
        hint: Option<String>,
        /// `true` if a later attempt may succeed.
        is_temporary: bool,
    },
    #[error("this machine cannot build {job}: {reason}")]
    Preflight { job: String, reason: String, hint: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    pub job: String,
    pub step: String,
    /// How the step ended: `exit code 1`, `it took longer than …`.
    pub reason: String,
    /// The last lines of its output.
    pub tail: Vec<String>,
    /// File with its whole output.
    pub log: PathBuf,
    /// The likely cause and a remedy, if known.
    pub cause: Option<String>,
}

impl fmt::Display for StepFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step `{}` of {} failed: {}", self.step, self.job, self.reason)?;
        self.tail.iter().try_for_each(|line| write!(formatter, "\n    {line}"))
    }
}

impl From<rocwheel_recipe::Error> for Error {
    fn from(error: rocwheel_recipe::Error) -> Error {
        match error {
            rocwheel_recipe::Error::Io(error) => error.into(),
            rocwheel_recipe::Error::Interrupted(interrupted) => interrupted.into(),
            error => Error::Recipe(error),
        }
    }
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
    /// The step that failed, here or in a container.
    pub fn failed_step(&self) -> Option<&StepFailure> {
        match self {
            Error::Step(failure) => Some(failure),
            Error::Inside { failure, .. } => failure.as_deref(),
            _ => None,
        }
    }

    /// A contradiction in the request, without a hint.
    pub(crate) fn request(reason: impl Into<String>) -> Error {
        Error::Recipe(rocwheel_recipe::Error::request(reason))
    }

    /// A contradiction in the request, with a hint.
    pub(crate) fn request_with(reason: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Recipe(rocwheel_recipe::Error::request_with(reason, hint))
    }

    /// A mistake in a file that is valid TOML.
    pub(crate) fn malformed(path: &str, reason: impl Into<String>) -> Error {
        Error::Recipe(rocwheel_recipe::Error::malformed(path, reason))
    }

    /// Another run has what this one needs.
    pub(crate) fn locked(job: String) -> Error {
        Error::Recipe(rocwheel_recipe::Error::Locked { job })
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoFact { hint, .. }
            | Error::Engine { hint, .. }
            | Error::Inside { hint, .. }
            | Error::Slurm { hint, .. }
            | Error::Output { hint, .. } => return hint.clone(),
            Error::Preflight { hint, .. } => hint.clone(),
            Error::Recipe(error) => return error.hint(),
            Error::Archive(error) => return error.hint(),
            Error::Index(error) => return error.hint(),
            Error::Wheel(error) => return error.hint(),
            Error::Repair(rocwheel_repair::Error::Missing { .. } | rocwheel_repair::Error::Unreachable { .. }) => {
                "install what has it where this is built; without `--repair` the wheel is built as it is, and `rocwheel repair` has \
                 `--lib-path` and `--exclude` for it"
                    .into()
            }
            Error::Repair(error) => return error.hint(),
            Error::Split(failure) => return failure.hint().map(str::to_owned),
            Error::Publish(error) => return error.hint(),
            Error::Audit(error) => return error.hint(),
            Error::PythonVersion(error) => return error.hint(),
            Error::NoPython { version, found } => {
                let there = if found.is_empty() { String::new() } else { format!("there are {}; ", found.join(", ")) };
                format!(
                    "{there}install it (`uv python install {version}`), or name an interpreter with `--interpreter`"
                )
            }
            Error::NoProgram(error) => return error.hint(),
            Error::Step(failure) => {
                let log = failure.log.display();
                match &failure.cause {
                    Some(cause) => format!("{cause}; everything it said is in `{log}`"),
                    None => format!("everything it said is in `{log}`"),
                }
            }
            Error::Refused { wheel, .. } => {
                format!("`rocwheel audit {wheel}` shows all; `--no-audit` accepts the wheel")
            }
            Error::Io(_) | Error::Interrupted(_) | Error::Download { .. } => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Recipe(error) => error.rows(),
            Error::Archive(error) => error.rows(),
            Error::Repair(error) => error.rows(),
            Error::Split(failure) => failure.rows().to_vec(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Slurm { is_temporary: true, .. } => Exit::TryAgain,
            Error::Inside { exit, .. } => *exit,
            Error::Recipe(error) => error.exit(),
            Error::Archive(error) => error.exit(),
            Error::Index(error) => error.exit(),
            Error::Wheel(error) => error.exit(),
            Error::Repair(error) => error.exit(),
            Error::Split(failure) => failure.exit(),
            Error::Publish(error) => error.exit(),
            Error::Audit(error) => error.exit(),
            Error::PythonVersion(error) => error.exit(),
            _ => Exit::Failed,
        }
    }
}
