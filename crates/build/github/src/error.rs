//! Failures of pages, workflows and releases, each with a hint.

use std::io;

use rocwheel_process::NotStarted;
use rocwheel_progress::{Exit, Hint};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error(transparent)]
    Recipe(rocwheel_recipe::Error),
    #[error(transparent)]
    Digest(#[from] rocwheel_source::Error),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error(transparent)]
    NoProgram(#[from] NotStarted),
    #[error("{reason}")]
    GitHub { reason: String, hint: Option<String> },
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
