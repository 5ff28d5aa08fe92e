//! What can go wrong when a stream is read or changed, and what to do about it.

use rocwheel_progress::{Exit, Hint, Interrupted};

use crate::stream::StreamFault;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    #[error(transparent)]
    Delta(#[from] rocwheel_delta::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
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
