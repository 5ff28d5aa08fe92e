//! What can be wrong with GPU code.

use std::io;

use rocwheel_report::{Exit, Hint};

/// Why GPU code could not be read. Offsets are in bytes from the start of the `.hip_fatbin`
/// section.
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
        /// How it differs.
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
    Elf(#[from] rocwheel_elf::Error),
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
    /// A compressed bundle does not hold what its header says it holds.
    #[error(
        "the offload bundle at offset {offset:#x} of the fat binary section is damaged: its content has the checksum \
         {found:016x}, its header says {expected:016x}"
    )]
    Checksum {
        /// Where the bundle starts.
        offset: u64,
        /// What the header says.
        expected: u64,
        /// What the content has.
        found: u64,
    },
    /// Something is larger than the caller allows.
    #[error("the offload bundle at offset {offset:#x} has {what} of {size} bytes; allowed are {limit}")]
    TooLarge {
        /// Where the bundle starts.
        offset: u64,
        /// What is too large: `a content` or a code object.
        what: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A bundle that cannot be written as asked.
    #[error("could not make an offload bundle: {reason}")]
    NoBundle {
        /// What is wrong with the request.
        reason: String,
    },
    /// A code object that goes into a bundle could not be read, or the bundle not be written.
    #[error("could not write the entry `{id}` of an offload bundle")]
    WriteEntry {
        /// The entry's id.
        id: String,
        /// Why.
        source: io::Error,
    },
    /// A bundle could not be compressed or written.
    #[error("could not write an offload bundle")]
    WriteBundle(#[source] io::Error),
    /// The name of a GPU target.
    #[error(transparent)]
    Rocm(#[from] rocwheel_rocm::Error),
    /// Bytes that are no marker, or a marker that the loader would refuse.
    #[error("malformed kpack marker: {reason}")]
    Marker {
        /// What is wrong with it.
        reason: String,
    },
    /// The file does not start as an archive does.
    #[error("not a kpack archive: {reason}")]
    NotAnArchive {
        /// What it starts with instead.
        reason: String,
    },
    /// A part of an archive contradicts another, leaves the file, or is not of the type it should
    /// be.
    #[error("malformed kpack archive: {reason}")]
    Archive {
        /// What is wrong with it.
        reason: String,
    },
    /// An archive of a version or compression that is not known.
    #[error("the kpack archive has the unknown {field} `{value}`")]
    UnsupportedArchive {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// Reading an archive failed.
    #[error("could not read {what} of the kpack archive")]
    ReadArchive {
        /// Which part, for example a code object's name, index and target.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// Code without a checksum that does not fit the target it is stored under.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// Its name, index and target.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An archive that the loader would refuse is not written.
    #[error("could not make a kpack archive: {reason}")]
    NoArchive {
        /// What is wrong with the request.
        reason: String,
    },
    /// An archive could not be compressed or written.
    #[error("could not write a kpack archive")]
    WriteArchive(#[source] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unsupported { .. } => Some("the file was made by a newer compiler than this program knows".into()),
            Self::Elf(error) => error.hint(),
            Self::Rocm(error) => error.hint(),
            Self::Damaged { .. } => Some("get the archive again, or make it again from the original".into()),
            Self::UnsupportedArchive { .. } => {
                Some("the archive was made by a newer tool than this program knows".into())
            }
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Elf(error) => error.exit(),
            Self::Rocm(error) => error.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
