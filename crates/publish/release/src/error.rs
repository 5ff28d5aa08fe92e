//! What can go wrong when a stream is published or read, and what to do about it.

use rocwheel_progress::{Exit, Hint, Interrupted, listed_problems};

use crate::stream::StreamFault;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    /// The pages cannot be made.
    #[error(transparent)]
    Pages(#[from] rocwheel_pages::Error),
    /// A file of an index cannot be read.
    #[error(transparent)]
    Delta(#[from] rocwheel_delta::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A wheel or source distribution cannot be read.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// Repositories of native packages that cannot be published.
    #[error("the native packages cannot be published:{}", listed_problems(problems))]
    Native {
        /// `REPOSITORY: why`.
        problems: Vec<String>,
    },
    /// A stream cannot be read or changed.
    #[error(transparent)]
    Stream(#[from] StreamFault),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Pages(error) => error.hint(),
            Self::Delta(error) => error.hint(),
            Self::Wheel(error) => error.hint(),
            Self::Stream(fault) => fault.hint(),
            Self::Interrupted(_) | Self::Native { .. } => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.rows(),
            Self::Pages(error) => error.rows(),
            Self::Delta(error) => error.rows(),
            Self::Stream(fault) => fault.rows(),
            Self::Native { problems } => problems.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Pages(error) => error.exit(),
            Self::Delta(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Stream(fault) => fault.exit(),
            Self::Wheel(_) | Self::Native { .. } => Exit::Failed,
        }
    }
}
