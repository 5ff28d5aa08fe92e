//! The failures of an audit, and the advice for each. Problems *of* the wheels are findings, not
//! errors.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Failure, Hint};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The environment cannot be opened, or one of its files cannot be read.
    #[error(transparent)]
    Loader(rocwheel_loader::Error),
    /// The required wheels cannot be collected.
    #[error(transparent)]
    Index(#[from] Failure),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// A file is not a wheel, or a member of it cannot be unpacked.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error("could not look through the GPU code of `{}`", path.display())]
    GpuCode { path: PathBuf, source: Box<rocwheel_kpack::Error> },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Loader(error) => error.hint(),
            Self::Index(failure) => failure.hint().map(str::to_owned),
            Self::Wheel(error) => error.hint(),
            Self::GpuCode { source, .. } => source.hint(),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Loader(error) => error.exit(),
            Self::Index(failure) => failure.exit(),
            Self::Wheel(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}

impl From<rocwheel_loader::Error> for Error {
    fn from(error: rocwheel_loader::Error) -> Error {
        match error {
            rocwheel_loader::Error::Interrupted(interrupted) => Error::Interrupted(interrupted),
            error => Error::Loader(error),
        }
    }
}
