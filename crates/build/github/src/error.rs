//! Failures of pages, workflows and releases, each with a hint.

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
    /// A recipe, a page or provenance is wrong, or a request contradicts itself.
    #[error(transparent)]
    Recipe(rocwheel_recipe::Error),
    /// A file cannot be hashed.
    #[error(transparent)]
    Digest(#[from] rocwheel_source::Error),
    /// The name of a wheel is wrong.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A program cannot be started.
    #[error(transparent)]
    NoProgram(#[from] NotStarted),
    /// The GitHub CLI failed.
    #[error("{reason}")]
    GitHub {
        /// The failed command.
        reason: String,
        /// A remedy.
        hint: Option<String>,
    },
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
    /// A contradiction in the request, with a hint.
    pub(crate) fn request_with(reason: impl Into<String>, hint: impl Into<String>) -> Error {
        Error::Recipe(rocwheel_recipe::Error::request_with(reason, hint))
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::GitHub { hint, .. } => hint.clone(),
            Error::Recipe(error) => error.hint(),
            Error::Digest(error) => error.hint(),
            Error::Wheel(error) => error.hint(),
            Error::NoProgram(error) => error.hint(),
            Error::Io(_) | Error::Interrupted(_) => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Digest(error) => error.rows(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Recipe(error) => error.exit(),
            Error::Digest(error) => error.exit(),
            Error::Wheel(error) => error.exit(),
            _ => Exit::Failed,
        }
    }
}
