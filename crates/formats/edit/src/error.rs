//! The errors of edits.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// Errors of this crate. The message names the attempted action, the source gives the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error(transparent)]
    Archive(#[from] rocwheel_archive::Error),
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// An edit of a source distribution that only a wheel supports.
    #[error("`{}` is a source distribution and does not have {what}", path.display())]
    NotAWheel {
        path: PathBuf,
        /// The thing that only a wheel has.
        what: &'static str,
    },
    /// An edit after which builders and installers would believe the fields of a source
    /// distribution (PEP 643).
    #[error("`{}` would get the fields of core metadata 2.2, from which on no build changes them", path.display())]
    StaticSdist { path: PathBuf },
    #[error("cannot change the search path of member `{member}` of `{}`", path.display())]
    Elf { path: PathBuf, member: String, source: Box<rocwheel_elf::Error> },
    /// A file with the name of the output exists.
    #[error("the output `{}` exists", path.display())]
    Exists { path: PathBuf },
}

/// A value that cannot be used as `what`.
pub(crate) fn unusable(what: &'static str, value: &str, reason: impl Into<String>) -> rocwheel_wheel::Error {
    rocwheel_wheel::Error::Name { what, value: value.to_owned(), reason: reason.into() }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Wheel(error) => error.hint(),
            Error::Archive(error) => error.hint(),
            Error::Output(error) => error.hint(),
            Error::Exists { .. } => Some("replace it with `--force`, or choose another output folder".to_owned()),
            Error::NotAWheel { .. } => Some("give wheels and source distributions to separate commands".to_owned()),
            Error::StaticSdist { .. } => Some(
                "if that is so, add `--metadata Metadata-Version=2.4`, and `--metadata Dynamic+=Requires-Dist` for each field \
                 that a build does change"
                    .to_owned(),
            ),
            Error::Elf { source, .. } => source.hint(),
            Error::Interrupted(_) => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Wheel(error) => error.exit(),
            Error::Archive(error) => error.exit(),
            Error::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
