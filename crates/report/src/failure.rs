//! An error on its way to the user, with the hint and the exit code of where it was made.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::{fmt, io};

use crate::{Exit, Hint};

/// Any error of a command. It takes hint and exit code from the error it is made of, so no list of
/// error types has to be kept where it is printed.
///
/// Like `anyhow::Error` it is not an [`Error`] itself: that would rule out the conversion from all
/// of them.
pub struct Failure(Box<Inner>);

struct Inner {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    rows: Vec<String>,
    exit: Exit,
}

/// What was attempted when another error came up.
#[derive(Debug)]
struct Attempt {
    text: Cow<'static, str>,
    source: Box<dyn Error + Send + Sync>,
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl Error for Attempt {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

impl Failure {
    /// An error that is only a text, without a hint; exit code 1.
    pub fn message(text: impl Into<Cow<'static, str>>) -> Self {
        Self::other(text.into())
    }

    /// An error of a library that knows neither hints nor exit codes; exit code 1.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Box::new(Inner { error: error.into(), hint: None, rows: Vec::new(), exit: Exit::Failed }))
    }

    /// The same failure, introduced by what was attempted. Hint and exit code stay.
    #[must_use]
    pub fn context(self, text: impl Into<Cow<'static, str>>) -> Self {
        let inner = *self.0;
        let attempt = Attempt { text: text.into(), source: inner.error };
        Self(Box::new(Inner { error: Box::new(attempt), ..inner }))
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The whole list of which the message shows the first rows; [`Hint::rows`].
    pub fn rows(&self) -> &[String] {
        &self.0.rows
    }

    /// The exit code it deserves.
    pub fn exit(&self) -> Exit {
        self.0.exit
    }

    /// The error and its causes, outermost first.
    pub fn chain(&self) -> impl Iterator<Item = &(dyn Error + 'static)> {
        let mut next: Option<&(dyn Error + 'static)> = Some(&*self.0.error);
        std::iter::from_fn(move || {
            let error = next?;
            next = error.source();
            Some(error)
        })
    }

    /// The first error of this type in the chain.
    pub fn find<E: Error + 'static>(&self) -> Option<&E> {
        self.chain().find_map(|error| error.downcast_ref())
    }
}

impl<E: Hint + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let (hint, rows, exit) = (error.hint(), error.rows(), error.exit());
        Self(Box::new(Inner { error: Box::new(error), hint, rows, exit }))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(formatter)
    }
}

/// The whole chain in one line: what a test shows that did not expect it.
impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&crate::with_causes(&*self.0.error))
    }
}

impl Hint for io::Error {}
impl Hint for Infallible {}

/// Says what was attempted when a result is an error.
pub trait Context<T> {
    /// # Errors
    /// The error, introduced by `text`.
    fn context(self, text: impl Into<Cow<'static, str>>) -> Result<T, Failure>;
    /// # Errors
    /// The error, introduced by the text that `text` makes.
    fn with_context(self, text: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> Context<T> for Result<T, E> {
    fn context(self, text: impl Into<Cow<'static, str>>) -> Result<T, Failure> {
        self.map_err(|error| error.into().context(text))
    }

    fn with_context(self, text: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| error.into().context(text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interrupted;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read the table")]
    struct Table(#[source] io::Error);

    impl Hint for Table {
        fn hint(&self) -> Option<String> {
            Some("write it anew".to_owned())
        }

        fn exit(&self) -> Exit {
            Exit::Usage
        }
    }

    #[test]
    fn hint_and_exit_code_survive_what_is_said_in_front() {
        let table = || Err::<(), _>(Table(io::Error::other("no disk")));
        let failure = table().with_context(|| "cannot package".to_owned()).unwrap_err();
        assert_eq!((failure.hint(), failure.exit()), (Some("write it anew"), Exit::Usage));
        assert_eq!(format!("{failure:?}"), "cannot package: cannot read the table: no disk");
        assert_eq!(failure.to_string(), "cannot package");
        assert!(failure.find::<Table>().is_some() && failure.find::<Interrupted>().is_none());
        assert_eq!(failure.chain().count(), 3);
    }

    #[test]
    fn an_error_that_knows_nothing_is_exit_code_1() {
        let failure = Failure::other("x".parse::<u8>().unwrap_err()).context("cannot count");
        assert_eq!((failure.hint(), failure.exit()), (None, Exit::Failed));
        assert_eq!(Failure::from(Interrupted).exit(), Exit::Interrupted);
        assert_eq!(Failure::message("nothing to do").to_string(), "nothing to do");
    }
}
