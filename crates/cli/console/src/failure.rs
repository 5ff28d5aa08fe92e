//! What a command returns if it fails, and wrong usage.

use std::borrow::Cow;

pub use rocwheel_progress::Failure;
use rocwheel_progress::{Exit, Hint};

/// The result of every function of the binary that can fail.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Wrong usage that clap does not detect.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Usage {
    message: Cow<'static, str>,
    hint: Option<Cow<'static, str>>,
}

impl Usage {
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// An error in the value of an option.
    pub fn of(error: &impl Hint) -> Self {
        Self { message: error.to_string().into(), hint: error.hint().map(Cow::Owned) }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Hint for Usage {
    fn hint(&self) -> Option<String> {
        self.hint.as_deref().map(str::to_owned)
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}
