//! Everything that can go wrong while names, wheels and source distributions are made or read.

use std::io;
use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

use crate::TagPart;
use crate::read::Fault;

/// What went wrong; the message says what was attempted, the source says why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The output folder does not take a temporary file.
    #[error("cannot create a file in `{}`", directory.display())]
    Create {
        /// The output folder.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The output could not be written: disk full, quota, file too large.
    #[error("cannot write `{}`{}", path.display(), during(member.as_deref()))]
    Write {
        /// The file that was to come into being.
        path: PathBuf,
        /// The member that was being written, if it was one.
        member: Option<String>,
        /// Why.
        source: io::Error,
    },
    /// The finished temporary file could not be moved to its name.
    #[error("cannot move the finished file to `{}`", path.display())]
    Persist {
        /// The final name.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The content of a member could not be read.
    #[error("cannot read the content of member `{member}`{}", from(origin.as_ref()))]
    Read {
        /// The member that was to be written.
        member: String,
        /// The file its content comes from, where it is one.
        origin: Option<PathBuf>,
        /// Why.
        source: io::Error,
    },
    /// A content has fewer or more bytes than it said: somebody writes to the input while it is
    /// read.
    #[error("the content of member `{member}`{} changed while it was read: {expected} bytes were announced", from(origin.as_ref()))]
    SizeChanged {
        /// The member that was being written.
        member: String,
        /// The file its content comes from, where it is one.
        origin: Option<PathBuf>,
        /// Bytes that [`rocwheel_content::Content::size`] announced.
        expected: u64,
        /// How it showed.
        source: io::Error,
    },
    /// A member name that must not be in an archive.
    #[error("member name `{name}` cannot be used: {reason}")]
    MemberName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two members have the same name.
    #[error("two members are named `{name}`")]
    DuplicateMember {
        /// The name.
        name: String,
    },
    /// A name, version, tag or file name that the packaging specifications do not allow.
    #[error("`{value}` is not a valid {what}: {reason}")]
    Name {
        /// What it was meant to be: "wheel file name", "version", …
        what: &'static str,
        /// The text.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A part of a tag that no installer knows.
    #[error("no installer knows the {} `{text}`", part.noun())]
    UnknownTag {
        /// Which part.
        part: TagPart,
        /// As it was written.
        text: String,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// A metadata field whose value would break the file.
    #[error("metadata field {field} cannot hold `{value}`: {reason}")]
    Metadata {
        /// Field name as it is written to METADATA.
        field: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// A wheel cannot be opened or one of its members cannot be unpacked.
    #[error("cannot read wheel `{}`", path.display())]
    Open {
        /// The wheel.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A wheel can be opened but breaks the wheel specification.
    #[error("wheel `{}` is malformed: {reason}", path.display())]
    Malformed {
        /// The wheel.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A member of a wheel cannot be unpacked.
    #[error("cannot unpack member `{member}` of `{}`", path.display())]
    Unpack {
        /// The wheel.
        path: PathBuf,
        /// The member.
        member: String,
        /// Why.
        source: Fault,
    },
    /// A wheel has no such file, or it cannot be changed in the way that was asked for.
    #[error("member `{member}` of `{}` {reason}", path.display())]
    Member {
        /// The wheel.
        path: PathBuf,
        /// The member.
        member: String,
        /// What is the matter, so that a sentence comes of it.
        reason: &'static str,
    },
    /// The output is the input.
    #[error("`{}` would be replaced while it is read", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// A source distribution cannot be read.
    #[error("cannot read source distribution `{}`", path.display())]
    OpenSdist {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A source distribution can be read but breaks the specification.
    #[error("source distribution `{}` is malformed: {reason}", path.display())]
    MalformedSdist {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A source distribution is to be edited as only a wheel can be.
    #[error("`{}` is a source distribution and does not have {what}", path.display())]
    NotAWheel {
        /// The file.
        path: PathBuf,
        /// What it does not have.
        what: &'static str,
    },
    /// A library in a wheel cannot be edited.
    #[error("cannot change the search path of member `{member}` of `{}`", path.display())]
    Elf {
        /// The wheel.
        path: PathBuf,
        /// The library.
        member: String,
        /// Why.
        source: Box<rocwheel_elf::Error>,
    },
    /// Something has the name of the output.
    #[error("the output `{}` exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The input, whose place another file took, cannot be removed.
    #[error("cannot remove `{}`", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A policy table that is not in the expected form.
    #[error("cannot understand the manylinux policy table")]
    PolicyTable {
        /// Why.
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
            Error::Write { source, path, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some(format!("free space on the file system of `{}`, or choose another output folder", path.display()))
            }
            Error::SameFile { .. } => Some("choose another output folder".to_owned()),
            Error::Exists { .. } => Some("replace it with `--force`, or choose another output folder".to_owned()),
            Error::NotAWheel { .. } => Some("give wheels and source distributions to separate commands".to_owned()),
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
