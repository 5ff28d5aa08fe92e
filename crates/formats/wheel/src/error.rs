//! The errors of making and reading names, wheels and source distributions.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint};

use crate::tag_part::TagPart;

/// Errors of this crate. The message names the attempted action, the source gives the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An archive cannot be read or written.
    #[error(transparent)]
    Archive(rocwheel_archive::Error),
    /// A name, version, tag or file name that the packaging specifications do not allow.
    #[error("`{value}` is not a valid {what}: {reason}")]
    Name {
        /// The kind of text, as in the message: "wheel file name", "version", …
        what: &'static str,
        /// The text that was checked.
        value: String,
        /// The reason, printed after a colon.
        reason: String,
    },
    /// A part of a tag that no installer knows.
    #[error("no installer knows the {} `{text}`", part.noun())]
    UnknownTag {
        /// The kind of part.
        part: TagPart,
        /// The part as it was written.
        text: String,
        /// The tag that the user probably meant; `None` if there is no suggestion.
        meant: Option<String>,
    },
    /// A metadata field whose value would break the file.
    #[error("metadata field {field} cannot hold `{value}`: {reason}")]
    Metadata {
        /// Field name, as written to METADATA.
        field: String,
        /// The value that does not fit.
        value: String,
        /// The reason, printed after a colon.
        reason: &'static str,
    },
    /// The result cannot be moved to its destination.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// A wheel lacks this file, or the file cannot be changed as requested.
    #[error("member `{member}` of `{}` {reason}", path.display())]
    Member {
        /// Path of the wheel.
        path: PathBuf,
        /// Name of the member, a path in the wheel.
        member: String,
        /// The problem, as the end of a sentence that begins with the member.
        reason: &'static str,
    },
    /// The output and the input are the same file.
    #[error("`{}` would be replaced while it is read", path.display())]
    SameFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// A source distribution cannot be read.
    #[error("cannot read source distribution `{}`", path.display())]
    OpenSdist {
        /// Path of the file.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// A source distribution can be read but violates the specification.
    #[error("source distribution `{}` is malformed: {reason}", path.display())]
    MalformedSdist {
        /// Path of the file.
        path: PathBuf,
        /// The reason, printed after a colon.
        reason: String,
    },
    /// A policy table whose format is not the expected one.
    #[error("cannot understand the manylinux policy table")]
    PolicyTable {
        /// The cause.
        source: Box<toml::de::Error>,
    },
}

impl Error {
    pub(crate) fn name(what: &'static str, value: &str, reason: impl Into<String>) -> Error {
        Error::Name { what, value: value.to_owned(), reason: reason.into() }
    }

    pub(crate) fn open_sdist(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::OpenSdist { path: path.to_owned(), source }
    }

    pub(crate) fn malformed_sdist(path: &Path, reason: impl Into<String>) -> Error {
        Error::MalformedSdist { path: path.to_owned(), reason: reason.into() }
    }
}

impl From<rocwheel_archive::Error> for Error {
    fn from(error: rocwheel_archive::Error) -> Error {
        match error {
            rocwheel_archive::Error::Interrupted(interrupted) => Error::Interrupted(interrupted),
            error => Error::Archive(error),
        }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Archive(error) => error.hint(),
            Error::Output(error) => error.hint(),
            Error::SameFile { .. } => Some("choose another output folder".to_owned()),
            Error::UnknownTag { meant: Some(meant), .. } => Some(format!("did you mean `{meant}`?")),
            Error::UnknownTag { part, .. } => Some(format!("write it like `{}`", part.example())),
            Error::Name { what: "version", value, .. } => value
                .parse::<pep440_rs::Version>()
                .ok()
                .map(|version| format!("write it as `{version}`, the canonical form of PEP 440")),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Archive(error) => error.exit(),
            Error::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
