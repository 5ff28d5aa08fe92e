//! The errors of making and reading names, wheels and source distributions.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, space_hint};

use crate::TagPart;
use crate::read::Fault;

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
        /// Field name as it is written to METADATA.
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
    /// A wheel cannot be opened or one of its members cannot be unpacked.
    #[error("cannot read wheel `{}`", path.display())]
    Open {
        /// Path of the wheel.
        path: PathBuf,
        /// The underlying I/O error.
        source: io::Error,
    },
    /// A wheel can be opened but violates the wheel specification.
    #[error("wheel `{}` is malformed: {reason}", path.display())]
    Malformed {
        /// Path of the wheel.
        path: PathBuf,
        /// The reason, printed after a colon.
        reason: String,
    },
    /// A member of a wheel cannot be unpacked.
    #[error("cannot unpack member `{member}` of `{}`", path.display())]
    Unpack {
        /// Path of the wheel.
        path: PathBuf,
        /// Name of the member, a path in the wheel.
        member: String,
        /// The cause.
        source: Fault,
    },
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
    /// An edit of a source distribution that only a wheel supports.
    #[error("`{}` is a source distribution and does not have {what}", path.display())]
    NotAWheel {
        /// Path of the file.
        path: PathBuf,
        /// The thing that only a wheel has.
        what: &'static str,
    },
    /// An edit after which builders and installers would believe the fields of a source
    /// distribution (PEP 643).
    #[error("`{}` would get the fields of core metadata 2.2, from which on no build changes them", path.display())]
    StaticSdist {
        /// Path of the file.
        path: PathBuf,
    },
    /// A library in a wheel cannot be edited.
    #[error("cannot change the search path of member `{member}` of `{}`", path.display())]
    Elf {
        /// Path of the wheel.
        path: PathBuf,
        /// The library.
        member: String,
        /// The cause.
        source: Box<rocwheel_elf::Error>,
    },
    /// A file with the name of the output exists.
    #[error("the output `{}` exists", path.display())]
    Exists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A policy table whose format is not the expected one.
    #[error("cannot understand the manylinux policy table")]
    PolicyTable {
        /// The cause.
        source: Box<toml::de::Error>,
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
            Error::Output(error) => error.hint(),
            Error::SameFile { .. } => Some("choose another output folder".to_owned()),
            Error::Exists { .. } => Some("replace it with `--force`, or choose another output folder".to_owned()),
            Error::NotAWheel { .. } => Some("give wheels and source distributions to separate commands".to_owned()),
            Error::StaticSdist { .. } => Some(
                "if that is so, add `--metadata Metadata-Version=2.4`, and `--metadata Dynamic+=Requires-Dist` for each field \
                 that a build does change"
                    .to_owned(),
            ),
            Error::SizeChanged { .. } => {
                Some("wait until no program writes to the input, then run the command again".to_owned())
            }
            Error::Malformed { reason, .. } if reason.starts_with("it is cut off") || reason.ends_with("is empty") => {
                Some("download or build it again".to_owned())
            }
            Error::UnknownTag { meant: Some(meant), .. } => Some(format!("did you mean `{meant}`?")),
            Error::UnknownTag { part, .. } => Some(format!("write it like `{}`", part.example())),
            Error::Name { what: "version", value, .. } => value
                .parse::<pep440_rs::Version>()
                .ok()
                .map(|version| format!("write it as `{version}`, the canonical form of PEP 440")),
            Error::Elf { source, .. } => source.hint(),
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
