//! What keeps a wheel from being got, and what to do about it.

use rocwheel_progress::{Exit, Hint, Interrupted};

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A wheel or source distribution cannot be read.
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    /// A file of an index cannot be chosen or downloaded.
    #[error("cannot {attempted}: {reason}")]
    Get {
        /// `download …`, the words after "cannot".
        attempted: String,
        /// The reason, for people.
        reason: String,
        /// What the user can do, as one sentence.
        hint: String,
        /// `Exit::TryAgain` if another try may help.
        exit: Exit,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Wheel(error) => error.hint(),
            Self::Get { hint, .. } => Some(hint.clone()),
            Self::Interrupted(_) => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.rows(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Get { exit, .. } => *exit,
            Self::Wheel(_) => Exit::Failed,
        }
    }
}
