//! What can go wrong with recipes, matrices and builds, and what to do about it.

use std::path::PathBuf;
use std::{fmt, io};

use rocwheel_report::{Exit, Hint};
use serde::{Deserialize, Serialize};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// A recipe, a layer or a table is not what it has to be.
    #[error("could not understand `{path}`{}: {reason}", at_line(*line))]
    Malformed {
        /// The file, or the name of a built-in one.
        path: String,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
        /// What was probably meant.
        hint: Option<String>,
    },
    /// No such recipe, step, backend or version.
    #[error("there is no {what} `{name}`{place}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// What was asked for.
        name: String,
        /// ` of the recipe …`, or nothing.
        place: String,
        /// What there is.
        hint: String,
    },
    /// Recipes that wait for each other.
    #[error("recipes wait for each other: {}", names.join(" → "))]
    Cycle {
        /// In a circle; the last is the first.
        names: Vec<String>,
    },
    /// What is asked for contradicts itself or the recipe, or says too little.
    #[error("{reason}")]
    Request {
        /// How.
        reason: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// GPU targets that a recipe cannot build.
    #[error("{recipe} cannot be built for {targets}")]
    Targets {
        /// Name and version of the recipe.
        recipe: String,
        /// The targets that it cannot be built for, and where they come from.
        targets: String,
        /// Those that can.
        known: Vec<String>,
        /// What the recipe says about the others.
        more: Option<String>,
    },
    /// Sources that are not there, or not what the job was made for.
    #[error("{reason}")]
    Source {
        /// What is the matter.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// GPU targets that do not exist.
    #[error(transparent)]
    Rocm(#[from] rocwheel_rocm::Error),
    /// A file of an installed ROCm is damaged.
    #[error(transparent)]
    Artifact(#[from] rocwheel_artifact::Error),
    /// A source archive could not be downloaded.
    #[error("{attempt}")]
    Download {
        /// What was attempted, with the address.
        attempt: String,
        /// Why it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The archive of the sources.
    #[error(transparent)]
    Archive(#[from] rocwheel_source::Error),
    /// A wheel that was made cannot be read.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A wheel that was made cannot be made to load elsewhere.
    #[error(transparent)]
    Repair(#[from] rocwheel_repair::Error),
    /// The GPU code of a wheel that was made cannot be split off.
    #[error(transparent)]
    Split(#[from] rocwheel_split::Error),
    /// A result cannot be moved to its place.
    #[error(transparent)]
    Publish(#[from] rocwheel_output::Error),
    /// The audit of what was made did not come to an end.
    #[error(transparent)]
    Audit(#[from] rocwheel_audit::Error),
    /// The version that a Python has is not one that rocwheel understands.
    #[error(transparent)]
    PythonVersion(#[from] rocwheel_wheel::InvalidPythonVersion),
    /// There is no such Python on this machine.
    #[error("there is no Python {version} on this machine")]
    NoPython {
        /// `3.12`, `3.13t`.
        version: String,
        /// Those that are there.
        found: Vec<String>,
    },
    /// A program that a step needs cannot be started.
    #[error("could not start `{program}`")]
    NoProgram {
        /// Its name or path.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// Something that is only known when a job runs is not there.
    #[error("`${{{name}}}` is not known: {reason}")]
    NoFact {
        /// Its name in recipes.
        name: String,
        /// Why.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A step failed.
    #[error("{0}")]
    Step(Box<StepFailure>),
    /// What a build made is not what was to be made.
    #[error("{job} made the wrong thing: {reason}")]
    Output {
        /// Name of the job.
        job: String,
        /// How it is wrong.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The audit finds errors in what was made.
    #[error("the audit finds {}{} in `{wheel}`: {first}", count, if *count == 1 { " error" } else { " errors" })]
    Refused {
        /// The wheel.
        wheel: String,
        /// How many errors.
        count: usize,
        /// Code and text of the first.
        first: String,
    },
    /// Another run builds the same.
    #[error("another run builds {job}")]
    Locked {
        /// Name of the job.
        job: String,
    },
    /// Docker or Podman does not do what it is asked for.
    #[error("{reason}")]
    Engine {
        /// What.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// What failed in a container, as the program in it says.
    #[error("in a container of `{image}`: {message}")]
    Inside {
        /// The image.
        image: String,
        /// The error and its causes.
        message: String,
        /// What to do.
        hint: Option<String>,
        /// Which exit code it deserves.
        exit: Exit,
        /// The step that failed, when it was one.
        failure: Option<Box<StepFailure>>,
    },
    /// Slurm refuses, or does not answer.
    #[error("{program} says: {said}")]
    Slurm {
        /// Which of its programs.
        program: String,
        /// In its own words.
        said: String,
        /// What they mean.
        hint: Option<String>,
        /// Whether it may be otherwise later.
        is_temporary: bool,
    },
    /// The machine cannot do it.
    #[error("this machine cannot build {job}: {reason}")]
    Preflight {
        /// Name of the job.
        job: String,
        /// Why.
        reason: String,
        /// What to do.
        hint: String,
    },
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFailure {
    /// Name of the job.
    pub job: String,
    /// Name of the step.
    pub step: String,
    /// `exit code 1`, `it took longer than …`.
    pub reason: String,
    /// The last lines it said.
    pub tail: Vec<String>,
    /// Everything it said.
    pub log: PathBuf,
    /// What is the likely cause and what to do.
    pub cause: Option<String>,
}

impl fmt::Display for StepFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "step `{}` of {} failed: {}", self.step, self.job, self.reason)?;
        self.tail.iter().try_for_each(|line| write!(formatter, "\n    {line}"))
    }
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
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

    /// A contradiction, without advice.
    pub(crate) fn request(reason: impl Into<String>) -> Error {
        Error::Request { reason: reason.into(), hint: None }
    }

    /// A contradiction, and what to do.
    pub(crate) fn request_with(reason: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Request { reason: reason.into(), hint: Some(hint.into()) }
    }

    /// Something wrong in a file, as far as it is not TOML's business.
    pub(crate) fn malformed(path: &str, reason: impl Into<String>) -> Error {
        Error::Malformed { path: path.to_owned(), line: None, reason: reason.into(), hint: None }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::Malformed { hint, .. }
            | Error::Request { hint, .. }
            | Error::Source { hint, .. }
            | Error::NoFact { hint, .. }
            | Error::Engine { hint, .. }
            | Error::Inside { hint, .. }
            | Error::Slurm { hint, .. }
            | Error::Output { hint, .. } => return hint.clone(),
            Error::Unknown { hint, .. } | Error::Preflight { hint, .. } => hint.clone(),
            Error::Cycle { .. } => "take one of the names out of `after`".into(),
            Error::Targets { known, .. } if known.is_empty() => "its recipe is for no GPU target".into(),
            Error::Targets { known, more, .. } => {
                let more = more.as_ref().map(|more| format!("; {more}")).unwrap_or_default();
                format!("it can be built for {}{more}", known.join(", "))
            }
            Error::Rocm(error) => return error.hint(),
            Error::Artifact(error) => return error.hint(),
            Error::Archive(error) => return error.hint(),
            Error::Wheel(error) => return error.hint(),
            Error::Repair(rocwheel_repair::Error::Missing { .. } | rocwheel_repair::Error::Unreachable { .. }) => {
                "install what has it where this is built; without `--repair` the wheel is built as it is, and `rocwheel repair` has \
                 `--lib-path` and `--exclude` for it"
                    .into()
            }
            Error::Repair(error) => return error.hint(),
            Error::Split(error) => return error.hint(),
            Error::Publish(error) => return error.hint(),
            Error::Audit(error) => return error.hint(),
            Error::PythonVersion(error) => return error.hint(),
            Error::NoPython { version, found } => {
                let there = if found.is_empty() { String::new() } else { format!("there are {}; ", found.join(", ")) };
                format!(
                    "{there}install it (`uv python install {version}`), or name an interpreter with `--interpreter`"
                )
            }
            Error::NoProgram { program, .. } => format!("install `{program}`, or put its folder into PATH"),
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
            Error::Locked { .. } => "wait until it has ended".into(),
            Error::Io(_) | Error::Interrupted(_) | Error::Download { .. } => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Archive(error) => error.rows(),
            Error::Repair(error) => error.rows(),
            Error::Split(error) => error.rows(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Unknown { .. } | Error::Request { .. } | Error::Targets { .. } => Exit::Usage,
            Error::Locked { .. } | Error::Slurm { is_temporary: true, .. } => Exit::TryAgain,
            Error::Inside { exit, .. } => *exit,
            Error::Rocm(error) => error.exit(),
            Error::Artifact(error) => error.exit(),
            Error::Archive(error) => error.exit(),
            Error::Wheel(error) => error.exit(),
            Error::Repair(error) => error.exit(),
            Error::Split(error) => error.exit(),
            Error::Publish(error) => error.exit(),
            Error::Audit(error) => error.exit(),
            Error::PythonVersion(error) => error.exit(),
            _ => Exit::Failed,
        }
    }
}
