//! An error on its way to the user, with the hint and the exit code of the error type that caused
//! it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::{fmt, io};

use crate::write_fault::is_full;
use crate::{Exit, Hint, WriteFault};

/// Any error of a command, or of a library whose callers decide nothing by its errors. It takes
/// hint and exit code from the error that it is converted from, so the code that prints errors
/// needs no list of error types.
///
/// It does not implement [`Hint`]: that would rule out the conversion from every type that does.
pub struct Failure(Box<Inner>);

struct Inner {
    error: Box<dyn Error + Send + Sync>,
    hint: Option<String>,
    rows: Vec<String>,
    exit: Exit,
}

/// Adds the attempted action to an error.
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
    /// An error that consists of a text, without a hint; exit code 1.
    pub fn message(text: impl Into<Cow<'static, str>>) -> Self {
        Self::other(text.into())
    }

    /// An error of a library without a [`Hint`] implementation; exit code 1.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Box::new(Inner { error: error.into(), hint: None, rows: Vec::new(), exit: Exit::Failed }))
    }

    /// Puts the attempted action in front of an error, to be used as
    /// `.map_err(Failure::attempt("cannot read the table"))`. A file that could not be written says
    /// more than the attempt, and is the failure alone.
    pub fn attempt<E: Into<Failure>>(text: impl Into<Cow<'static, str>>) -> impl FnOnce(E) -> Failure {
        move |error| {
            let failure = error.into();
            if failure.0.error.is::<WriteFault>() { failure } else { failure.context(text) }
        }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same failure with all rows of a list that its message shortens; see [`Hint::rows`].
    #[must_use]
    pub fn with_rows(mut self, rows: Vec<String>) -> Self {
        self.0.rows = rows;
        self
    }

    #[must_use]
    pub fn with_exit(mut self, exit: Exit) -> Self {
        self.0.exit = exit;
        self
    }

    /// The same failure with `text`, the attempted action, in front of it. Hint and exit code stay.
    #[must_use]
    pub fn context(self, text: impl Into<Cow<'static, str>>) -> Self {
        let inner = *self.0;
        let attempt = Attempt { text: text.into(), source: inner.error };
        Self(Box::new(Inner { error: Box::new(attempt), ..inner }))
    }

    /// A sentence about how to solve the problem.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// All rows of a list of which the message shows only the first ones; see [`Hint::rows`].
    pub fn rows(&self) -> &[String] {
        &self.0.rows
    }

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
        if let Some(fault) = WriteFault::find(&error).map(WriteFault::copy) {
            let hint = fault.hint().or(hint);
            return Self(Box::new(Inner { error: Box::new(fault), hint, rows, exit }));
        }
        let hint = hint.or_else(|| hint_of_a_full_disk(&error));
        Self(Box::new(Inner { error: Box::new(error), hint, rows, exit }))
    }
}

/// Advice for an error of writing that does not name its file.
fn hint_of_a_full_disk(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref().is_some_and(is_full) {
            return Some("free space on the file system that is written to".to_owned());
        }
        next = error.source();
    }
    None
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(formatter)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.error.source()
    }
}

/// The whole chain in one line, for tests that fail with an unexpected error.
impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&crate::with_causes(&*self.0.error))
    }
}

impl Hint for io::Error {}
impl Hint for Infallible {}

/// Adds the attempted action to the error of a result.
pub trait Context<T> {
    /// # Errors
    /// The original error with `text` in front of it.
    fn context(self, text: impl Into<Cow<'static, str>>) -> Result<T, Failure>;
    /// # Errors
    /// The original error with the result of `text` in front of it. `text` is called only on an
    /// error.
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
    fn a_file_that_could_not_be_written_is_the_failure_alone() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let failure = Failure::attempt("cannot pack")(crate::write_error("/out/a.whl".as_ref())(full));
        assert_eq!(failure.to_string(), "cannot write `/out/a.whl`");
        let failure = Failure::attempt("cannot pack")(Table(io::Error::other("no disk")));
        assert_eq!(format!("{failure:?}"), "cannot pack: cannot read the table: no disk");
    }

    #[test]
    fn a_message_has_what_the_library_says_beside_it() {
        let failure = Failure::message("no artifact").with_hint("fetch one").with_exit(Exit::TryAgain);
        let failure = failure.with_rows(vec!["blas".to_owned()]).context("cannot package");
        assert_eq!((failure.hint(), failure.exit()), (Some("fetch one"), Exit::TryAgain));
        assert_eq!(failure.rows(), ["blas"]);
    }

    #[test]
    fn an_error_that_knows_nothing_is_exit_code_1() {
        let failure = Failure::other("x".parse::<u8>().unwrap_err()).context("cannot count");
        assert_eq!((failure.hint(), failure.exit()), (None, Exit::Failed));
        assert_eq!(Failure::from(Interrupted).exit(), Exit::Interrupted);
        assert_eq!(Failure::message("nothing to do").to_string(), "nothing to do");
    }
}
