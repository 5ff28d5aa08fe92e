//! Everything that can go wrong with an ELF or PE file. Readers have no path, so these errors name
//! none: the caller that opened the file adds the path ([`Error::File`] does so for
//! [`crate::edit_file`]).

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Hint};

/// A failure to read or edit an ELF file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The underlying reader failed.
    #[error("could not read the {what} of the file")]
    Read {
        /// The structure that was being read.
        what: &'static str,
        /// The error of the reader.
        source: io::Error,
    },
    /// A structure lies partly or completely behind the end of the file.
    #[error("the file is cut short: its {what} ({length} bytes at offset {offset:#x}) reaches behind the end")]
    Truncated {
        /// Name of the structure.
        what: &'static str,
        /// Its offset in the file, in bytes.
        offset: u64,
        /// Its size in the headers, in bytes.
        length: u64,
    },
    /// A table is larger than in any real file.
    #[error("the {what} of the file claims {length} bytes, more than the {limit} this program reads")]
    TooLarge {
        /// Name of the table.
        what: &'static str,
        /// Its size in the headers, in bytes.
        length: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Headers contradict each other or the format.
    #[error("the {what} of the file is malformed: {why}")]
    Malformed {
        /// Name of the structure.
        what: &'static str,
        /// The contradiction, for the message.
        why: String,
    },
    /// The file to edit is not ELF.
    #[error("cannot edit: not an ELF file")]
    NotElf,
    /// The file to edit is for a machine whose layout rules this crate does not know.
    #[error("cannot edit an ELF file for machine {machine} ({name}): only 64-bit x86-64 files are edited")]
    Machine {
        /// ELF's `e_machine`.
        machine: u16,
        /// Name of the machine.
        name: &'static str,
    },
    /// The file to edit is not a linked program or library.
    #[error("cannot edit {kind}: only executables and shared libraries have a search path and needed libraries")]
    NotLinked {
        /// The kind of file, with its article.
        kind: &'static str,
    },
    /// A name in the edit cannot be stored in an ELF file.
    #[error("cannot write `{text}` into an ELF file: {why}")]
    Text {
        /// The offending text.
        text: String,
        /// The reason, for the message.
        why: &'static str,
    },
    /// The edited file does not have the requested contents when it is read back, so its headers
    /// are wrong in an unknown way. Nothing is written.
    #[error("the edit of the ELF file did not read back: {what} is `{found}` instead of `{wanted}`")]
    ReadBack {
        /// The field that differs.
        what: &'static str,
        /// The value in the edited file.
        found: String,
        /// The requested value.
        wanted: String,
    },
    /// The section to replace does not exist, or shares its bytes.
    #[error("cannot replace section `{name}`: {why}")]
    Section {
        /// Name of the section.
        name: String,
        /// The reason, for the message.
        why: String,
    },
    /// An unknown word points into the section to replace, and would find other bytes there.
    #[error("cannot replace section `{section}`: the word at {address:#x} points into it, to {target:#x}")]
    StillUsed {
        /// Name of the section.
        section: String,
        /// Virtual address of the word.
        address: u64,
        /// The virtual address that it points to.
        target: u64,
    },
    /// A pointer cannot be changed.
    #[error("cannot change the pointer at {address:#x}: {why}")]
    Pointer {
        /// Virtual address of the pointer.
        address: u64,
        /// The reason, for the message.
        why: &'static str,
    },
    /// An operation on a named file failed.
    #[error("could not {action} `{}`", path.display())]
    File {
        /// The operation, an infinitive.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error of the operation.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn malformed(what: &'static str, why: impl Into<String>) -> Self {
        Self::Malformed { what, why: why.into() }
    }

    pub(crate) fn section(name: &str, why: impl Into<String>) -> Self {
        Self::Section { name: name.to_owned(), why: why.into() }
    }

    pub(crate) fn file<S: Into<Box<dyn std::error::Error + Send + Sync>>>(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(S) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source: source.into() }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Truncated { .. } => Some("fetch or build the file again: a part of it is missing".to_owned()),
            Self::Machine { machine: 224, .. } => {
                Some("this is GPU code (a code object), which has no search path: exclude it from the edit".to_owned())
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::ReadBack { .. } => Exit::Bug,
            _ => Exit::Failed,
        }
    }
}
