//! What can be wrong with GPU code.

use std::io;

use report::{Exit, Hint};

/// Why GPU code could not be read. Offsets are in bytes from the start of the `.hip_fatbin` section.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither an offload bundle nor a compressed one stands where one should.
    #[error("no offload bundle at offset {offset:#x} of the fat binary section")]
    NotABundle {
        /// Where one was expected.
        offset: u64,
    },
    /// A field of a bundle contradicts another, or leaves the section.
    #[error("malformed offload bundle at offset {offset:#x} of the fat binary section: {reason}")]
    Malformed {
        /// Where the bundle starts.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A compressed bundle of a version or method that is not known.
    #[error("the compressed offload bundle at offset {offset:#x} has the unknown {field} {value}")]
    Unsupported {
        /// Where the bundle starts.
        offset: u64,
        /// `version` or `method`.
        field: &'static str,
        /// Its value.
        value: u16,
    },
    /// Reading or decompressing failed.
    #[error("could not read the offload bundle at offset {offset:#x} of the fat binary section")]
    Read {
        /// Where the bundle starts.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// A fat binary's sections contradict themselves or the file.
    #[error("malformed fat binary: {reason}")]
    FatBinary {
        /// What is wrong.
        reason: String,
    },
    /// A wrapper that the runtime would refuse.
    #[error("malformed fat binary: wrapper {number} at offset {offset:#x} of the file: {reason}")]
    Wrapper {
        /// Its number, by address.
        number: usize,
        /// Where it starts in the file.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Reading a part of a fat binary failed.
    #[error("could not read {what} of the fat binary")]
    Io {
        /// What was being read.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The host file's headers or their edit.
    #[error(transparent)]
    Elf(#[from] elf::Error),
    /// The headers of an AMDGPU ELF file contradict each other, or leave the file.
    #[error("malformed AMDGPU code object: {reason}")]
    MalformedCodeObject {
        /// What is wrong with it.
        reason: String,
    },
    /// Reading a code object failed.
    #[error("could not read the code object at offset {offset:#x}")]
    ReadCodeObject {
        /// In bytes from the start of the code object.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// A text that is no GPU target.
    #[error("`{target}` is no GPU target: {reason}")]
    Target {
        /// The text.
        target: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A table of kernel databases that cannot be used.
    #[error("could not read the table of kernel databases")]
    Table(#[from] toml::de::Error),
    /// An expression of the table does not compile.
    #[error("could not compile the expression `{expression}` of the table of kernel databases")]
    Expression {
        /// As written in the table.
        expression: String,
        /// Why.
        source: Box<regex::Error>,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unsupported { .. } => Some("the file was made by a newer compiler than this program knows".into()),
            Self::Elf(error) => error.hint(),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Elf(error) => error.exit(),
            _ => Exit::Failed,
        }
    }
}
