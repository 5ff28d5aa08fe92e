//! What can go wrong when a stream is read or changed, and what to do about it.

use rocwheel_progress::{Exit, Hint, Interrupted};

use crate::stream::StreamFault;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    /// A file of an index cannot be read.
    #[error(transparent)]
    Delta(#[from] rocwheel_delta::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A stream cannot be read or changed.
    #[error(transparent)]
    Stream(#[from] StreamFault),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Delta(error) => error.hint(),
            Self::Stream(fault) => fault.hint(),
            Self::Interrupted(_) => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.rows(),
            Self::Delta(error) => error.rows(),
            Self::Stream(fault) => fault.rows(),
            Self::Interrupted(_) => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Delta(error) => error.exit(),
            Self::Stream(fault) => fault.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
        }
    }
}
