//! Failures of builds that several modules have, each with a hint.

use std::fmt;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Failure, Hint};
use serde::{Deserialize, Serialize};

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

impl std::error::Error for StepFailure {}

impl Hint for StepFailure {
    fn hint(&self) -> Option<String> {
        let cause = self.cause.as_ref().map_or_else(String::new, |cause| format!("{cause}; "));
        Some(format!("{cause}everything it said is in `{}`", self.log.display()))
    }
}

/// A failure that the program in a container reported.
#[derive(Debug, thiserror::Error)]
#[error("in a container of `{image}`: {message}")]
pub struct ContainerFailure {
    pub image: String,
    /// The error and its causes, as one text.
    pub message: String,
    pub hint: Option<String>,
    pub exit: Exit,
    pub failed_step: Option<Box<StepFailure>>,
}

impl Hint for ContainerFailure {
    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }

    fn exit(&self) -> Exit {
        self.exit
    }
}

/// The step that failed, here or in a container.
pub fn failed_step(failure: &Failure) -> Option<&StepFailure> {
    failure.find().or_else(|| failure.find::<ContainerFailure>()?.failed_step.as_deref())
}

/// A contradiction in the request, without a hint.
pub(crate) fn request(reason: impl Into<String>) -> Failure {
    rocwheel_recipe::Error::request(reason).into()
}

/// A contradiction in the request, with a hint.
pub(crate) fn request_with(reason: impl Into<String>, hint: impl Into<String>) -> Failure {
    rocwheel_recipe::Error::request_with(reason, hint).into()
}

/// A mistake in a file that is valid TOML.
pub(crate) fn malformed(path: &str, reason: impl Into<String>) -> Failure {
    rocwheel_recipe::Error::malformed(path, reason).into()
}

/// Another run has what this one needs.
pub(crate) fn locked(job: String) -> Failure {
    rocwheel_recipe::Error::Locked { job }.into()
}

pub(crate) fn preflight(job: &str, reason: &str, hint: impl Into<String>) -> Failure {
    Failure::message(format!("this machine cannot build {job}: {reason}")).with_hint(hint)
}

/// This machine has no Python of `version`: `3.12`, `3.13t`.
pub(crate) fn no_python(version: &str, found: &[String]) -> Failure {
    let there = if found.is_empty() { String::new() } else { format!("there are {}; ", found.join(", ")) };
    Failure::message(format!("there is no Python {version} on this machine")).with_hint(format!(
        "{there}install it (`uv python install {version}`), or name an interpreter with `--interpreter`"
    ))
}

pub(crate) fn with_optional_hint(message: String, hint: Option<&str>) -> Failure {
    let failure = Failure::message(message);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
