//! What can go wrong with an ELF file. Readers have no path, so these errors do not name one:
//! whoever opened the file puts its path in front ([`Error::File`] does so for
//! [`crate::edit_file`]).

use std::io;
use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

/// Why an ELF file could not be read or edited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The underlying reader failed.
    #[error("could not read the {what} of the ELF file")]
    Read {
        /// The structure that was being read.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A structure lies partly or wholly behind the end of the file.
    #[error("the ELF file is cut short: its {what} ({length} bytes at offset {offset:#x}) reaches behind the end")]
    Truncated {
        /// The structure that is cut.
        what: &'static str,
        /// Its offset in the file, in bytes.
        offset: u64,
        /// Its size in bytes, as the headers claim.
        length: u64,
    },
    /// A table is larger than any sane file has it.
    #[error("the {what} of the ELF file claims {length} bytes, more than the {limit} this program reads")]
    TooLarge {
        /// The table.
        what: &'static str,
        /// Its claimed size in bytes.
        length: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// Headers contradict each other or the format.
    #[error("the {what} of the ELF file is malformed: {why}")]
    Malformed {
        /// The structure.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The file to edit is not ELF.
    #[error("cannot edit: not an ELF file")]
    NotElf,
    /// The file to edit is for a machine whose layout rules are not known here.
    #[error("cannot edit an ELF file for machine {machine} ({name}): only 64-bit x86-64 files are edited")]
    Machine {
        /// `e_machine`.
        machine: u16,
        /// The machine in words.
        name: &'static str,
    },
    /// The file to edit is not a linked program or library.
    #[error("cannot edit {kind}: only executables and shared libraries have a search path and needed libraries")]
    NotLinked {
        /// The kind in words, with its article.
        kind: &'static str,
    },
    /// A name in the edit cannot be stored in an ELF file.
    #[error("cannot write `{text}` into an ELF file: {why}")]
    Text {
        /// The offending text.
        text: String,
        /// Why not.
        why: &'static str,
    },
    /// The edited file did not read back as asked for: a file that lies in a way not met before.
    /// Nothing is written.
    #[error("the edit of the ELF file did not read back: {what} is `{found}` instead of `{wanted}`")]
    ReadBack {
        /// What differs.
        what: &'static str,
        /// The value read from the edited file.
        found: String,
        /// The value that was asked for.
        wanted: String,
    },
    /// The section to replace is not there, or not a section by itself.
    #[error("cannot replace section `{name}`: {why}")]
    Section {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// Something unknown points into the section to replace, and would find other bytes there.
    #[error("cannot replace section `{section}`: the word at {address:#x} points into it, to {target:#x}")]
    StillUsed {
        /// The section.
        section: String,
        /// Virtual address of the word.
        address: u64,
        /// Where it points.
        target: u64,
    },
    /// A pointer cannot be changed.
    #[error("cannot change the pointer at {address:#x}: {why}")]
    Pointer {
        /// Its virtual address.
        address: u64,
        /// Why not.
        why: &'static str,
    },
    /// An operation on a named file failed.
    #[error("could not {action} `{}`", path.display())]
    File {
        /// What was attempted, an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn malformed(what: &'static str, why: impl Into<String>) -> Self {
        Self::Malformed { what, why: why.into() }
    }

    pub(crate) fn file(
        action: &'static str,
        path: &std::path::Path,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::File { action, path: path.to_owned(), source: source.into() }
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
