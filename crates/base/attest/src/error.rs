//! Errors of keys and envelopes.

use rocwheel_progress::{Exit, Hint};

/// Why a key or an envelope cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttestError {
    /// A key cannot be used. Messages have nothing of its contents.
    #[error("`{name}` cannot be used as a key: {reason}")]
    Key {
        /// The file or variable.
        name: String,
        /// The fault; never a part of a key.
        reason: String,
    },
    /// The system gives no random numbers.
    #[error("the system has no random numbers for a key")]
    NoRandom,
    /// The bytes are not an envelope, or the envelope of another kind of document.
    #[error("`{name}` is not the envelope that is expected here: {reason}")]
    Envelope {
        /// The file.
        name: String,
        /// The fault; never a part of a key.
        reason: String,
    },
}

impl AttestError {
    pub(crate) fn envelope(name: &str, reason: String) -> AttestError {
        AttestError::Envelope { name: name.to_owned(), reason }
    }

    pub(crate) fn key(name: &str, reason: &str) -> AttestError {
        AttestError::Key { name: name.to_owned(), reason: reason.to_owned() }
    }
}

impl Hint for AttestError {
    fn hint(&self) -> Option<String> {
        matches!(self, Self::Key { .. }).then(|| "`rocwheel release key new FILE` makes a key".to_owned())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Key { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
