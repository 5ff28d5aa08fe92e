//! The errors of reading and writing archives.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint, space_hint};

use crate::fault::Fault;

/// Errors of this crate. The message names the attempted action, the source gives the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot create a file in `{}`", directory.display())]
    Create { directory: PathBuf, source: io::Error },
    /// The output could not be written: disk full, quota, file too large.
    #[error("cannot write `{}`{}", path.display(), during(member.as_deref()))]
    Write {
        path: PathBuf,
        /// The member that was being written; `None` outside of members.
        member: Option<String>,
        source: io::Error,
    },
    #[error("cannot move the finished file to `{}`", path.display())]
    Persist { path: PathBuf, source: io::Error },
    #[error("cannot read the content of member `{member}`{}", from(origin.as_ref()))]
    Read {
        member: String,
        /// The file that contains the content; `None` if it is not in one file.
        origin: Option<PathBuf>,
        source: io::Error,
    },
    /// A content has fewer or more bytes than announced, because another process changes the input
    /// while it is read.
    #[error("the content of member `{member}`{} changed while it was read: {expected} bytes were announced", from(origin.as_ref()))]
    SizeChanged {
        member: String,
        /// The file that contains the content; `None` if it is not in one file.
        origin: Option<PathBuf>,
        /// Bytes that [`rocwheel_content::Content::size`] announced.
        expected: u64,
        /// The error that revealed it.
        source: io::Error,
    },
    #[error("member name `{name}` cannot be used: {reason}")]
    MemberName { name: String, reason: &'static str },
    #[error("two members are named `{name}`")]
    DuplicateMember { name: String },
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error("cannot read wheel `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// An archive that installers would read differently, or a wheel that violates the wheel
    /// specification.
    #[error("wheel `{}` is malformed: {reason}", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("cannot unpack member `{member}` of `{}`", path.display())]
    Unpack { path: PathBuf, member: String, source: Fault },
}

impl Error {
    /// [`Error::Open`] of the wheel at `path`.
    pub fn open<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Error {
        move |source| Error::Open { path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn write(path: &Path, member: Option<&str>) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Write { path: path.to_owned(), member: member.map(str::to_owned), source }
    }

    /// [`Error::Malformed`] of the wheel at `path`.
    pub fn malformed(path: &Path, reason: impl Into<String>) -> Error {
        Error::Malformed { path: path.to_owned(), reason: reason.into() }
    }
}

fn during(member: Option<&str>) -> String {
    member.map(|name| format!(" while adding member `{name}`")).unwrap_or_default()
}

fn from(origin: Option<&PathBuf>) -> String {
    origin.map(|path| format!(" from `{}`", path.display())).unwrap_or_default()
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Write { source, path, .. }
            | Error::Create { source, directory: path }
            | Error::Persist { source, path } => space_hint(path, source),
            Error::SizeChanged { .. } => {
                Some("wait until no program writes to the input, then run the command again".to_owned())
            }
            Error::Malformed { reason, .. } if reason.starts_with("it is cut off") || reason.ends_with("is empty") => {
                Some("download or build it again".to_owned())
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
