//! What keeps a set from being published, and what to do about it.

use rocwheel_progress::{Exit, Hint, Interrupted, listed_problems};
use rocwheel_stream::StreamFault;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    #[error(transparent)]
    Pages(#[from] rocwheel_pages::Error),
    #[error(transparent)]
    Delta(#[from] rocwheel_delta::Error),
    #[error(transparent)]
    Stream(#[from] rocwheel_stream::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// Repositories of native packages that cannot be published.
    #[error("the native packages cannot be published:{}", listed_problems(problems))]
    Native {
        /// `REPOSITORY: why`.
        problems: Vec<String>,
    },
}

impl From<StreamFault> for Error {
    fn from(fault: StreamFault) -> Error {
        Error::Stream(fault.into())
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Pages(error) => error.hint(),
            Self::Delta(error) => error.hint(),
            Self::Stream(error) => error.hint(),
            Self::Wheel(error) => error.hint(),
            Self::Interrupted(_) | Self::Native { .. } => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.rows(),
            Self::Pages(error) => error.rows(),
            Self::Delta(error) => error.rows(),
            Self::Stream(error) => error.rows(),
            Self::Native { problems } => problems.clone(),
            Self::Interrupted(_) | Self::Wheel(_) => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Pages(error) => error.exit(),
            Self::Delta(error) => error.exit(),
            Self::Stream(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Wheel(_) | Self::Native { .. } => Exit::Failed,
        }
    }
}
