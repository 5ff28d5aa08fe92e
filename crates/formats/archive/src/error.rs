//! The errors of reading and writing archives.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, space_hint};

use crate::fault::Fault;

/// Errors of this crate. The message names the attempted action, the source gives the reason.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No temporary file could be created in the output folder.
    #[error("cannot create a file in `{}`", directory.display())]
    Create {
        /// Path of the output folder.
        directory: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The output could not be written: disk full, quota, file too large.
    #[error("cannot write `{}`{}", path.display(), during(member.as_deref()))]
    Write {
        /// The file that was being written.
        path: PathBuf,
        /// The member that was being written; `None` outside of members.
        member: Option<String>,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The finished temporary file could not be moved to its name.
    #[error("cannot move the finished file to `{}`", path.display())]
    Persist {
        /// The final path.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// The content of a member could not be read.
    #[error("cannot read the content of member `{member}`{}", from(origin.as_ref()))]
    Read {
        /// The member that was to be written.
        member: String,
        /// The file that contains the content; `None` if it is not in one file.
        origin: Option<PathBuf>,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// A content has fewer or more bytes than announced, because another process changes the input
    /// while it is read.
    #[error("the content of member `{member}`{} changed while it was read: {expected} bytes were announced", from(origin.as_ref()))]
    SizeChanged {
        /// The member that was being written.
        member: String,
        /// The file that contains the content; `None` if it is not in one file.
        origin: Option<PathBuf>,
        /// Bytes that [`rocwheel_content::Content::size`] announced.
        expected: u64,
        /// The error that revealed it.
        source: io::Error,
    },
    /// A member name that is not allowed in an archive.
    #[error("member name `{name}` cannot be used: {reason}")]
    MemberName {
        /// The name as it was given.
        name: String,
        /// The reason, printed after a colon.
        reason: &'static str,
    },
    /// Two members have the same name.
    #[error("two members are named `{name}`")]
    DuplicateMember {
        /// The name as it was given.
        name: String,
    },
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// An archive cannot be opened or one of its members cannot be unpacked.
    #[error("cannot read wheel `{}`", path.display())]
    Open {
        /// Path of the archive.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// An archive that installers would read differently, or a wheel that violates the wheel
    /// specification.
    #[error("wheel `{}` is malformed: {reason}", path.display())]
    Malformed {
        /// Path of the archive.
        path: PathBuf,
        /// The reason, printed after a colon.
        reason: String,
    },
    /// A member cannot be unpacked.
    #[error("cannot unpack member `{member}` of `{}`", path.display())]
    Unpack {
        /// Path of the archive.
        path: PathBuf,
        /// Name of the member, a path in the archive.
        member: String,
        /// The cause.
        source: Fault,
    },
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
