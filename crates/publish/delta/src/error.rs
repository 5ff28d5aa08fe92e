//! What keeps a wheel from being got, and what to do about it.

use rocwheel_progress::{Exit, Hint, Interrupted};

/// The result of a part of a wheel. `Err(Ok(reason))` is why it is downloaded as a whole.
pub(crate) type PartResult = Result<(), Result<String, Error>>;

/// The same with the reason inside, where `?` does not return it.
pub(crate) fn reason_inside(result: PartResult) -> Result<Result<(), String>, Error> {
    match result {
        Ok(()) => Ok(Ok(())),
        Err(Ok(reason)) => Ok(Err(reason)),
        Err(Err(error)) => Err(error),
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Store(#[from] rocwheel_store::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error("cannot {attempted}: {reason}")]
    Get {
        /// `download …`, the words after "cannot".
        attempted: String,
        reason: String,
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
