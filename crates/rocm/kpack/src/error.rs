//! Everything that can go wrong with GPU code.

use std::io;

use rocwheel_progress::{Exit, Failure, Hint};

/// A failure to read or write GPU code. Offsets are in bytes from the start of the `.hip_fatbin`
/// section.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no offload bundle at an offset that should have one.
    #[error("no offload bundle at offset {offset:#x} of the fat binary section")]
    NotABundle {
        /// The expected offset of the bundle.
        offset: u64,
    },
    /// A field of a bundle contradicts another, or leaves the section.
    #[error("malformed offload bundle at offset {offset:#x} of the fat binary section: {reason}")]
    Malformed {
        /// Offset of the bundle.
        offset: u64,
        /// The contradiction, for the message.
        reason: String,
    },
    /// A compressed bundle of an unknown version or method.
    #[error("the compressed offload bundle at offset {offset:#x} has the unknown {field} {value}")]
    Unsupported {
        /// Offset of the bundle.
        offset: u64,
        /// `version` or `method`.
        field: &'static str,
        /// Value of the field.
        value: u16,
    },
    /// Reading or decompressing failed.
    #[error("could not read the offload bundle at offset {offset:#x} of the fat binary section")]
    Read {
        /// Offset of the bundle.
        offset: u64,
        /// The error of the reader or the decompressor.
        source: io::Error,
    },
    /// A fat binary's sections contradict each other or the file.
    #[error("malformed fat binary: {reason}")]
    FatBinary {
        /// The contradiction, for the message.
        reason: String,
    },
    /// A wrapper that the runtime would refuse.
    #[error("malformed fat binary: wrapper {number} at offset {offset:#x} of the file: {reason}")]
    Wrapper {
        /// Index of the wrapper, by address.
        number: usize,
        /// Offset of the wrapper in the file.
        offset: u64,
        /// The reason, for the message.
        reason: String,
    },
    /// Reading a part of a fat binary failed.
    #[error("could not read {what} of the fat binary")]
    Io {
        /// The part that was being read.
        what: &'static str,
        /// The error of the reader.
        source: io::Error,
    },
    /// An error in the host file's headers or in their edit.
    #[error(transparent)]
    Elf(#[from] rocwheel_elf::Error),
    /// The headers of an AMDGPU ELF file contradict each other, or leave the file.
    #[error("malformed AMDGPU code object: {reason}")]
    MalformedCodeObject {
        /// The contradiction, for the message.
        reason: String,
    },
    /// Reading a code object failed.
    #[error("could not read the code object at offset {offset:#x}")]
    ReadCodeObject {
        /// Offset from the start of the code object, in bytes.
        offset: u64,
        /// The error of the reader.
        source: io::Error,
    },
    /// The content of a compressed bundle does not match its checksum.
    #[error(
        "the offload bundle at offset {offset:#x} of the fat binary section is damaged: its content has the checksum \
         {found:016x}, its header says {expected:016x}"
    )]
    Checksum {
        /// Offset of the bundle.
        offset: u64,
        /// The checksum in the header.
        expected: u64,
        /// The checksum of the content.
        found: u64,
    },
    /// A size exceeds the limit of the caller.
    #[error("the offload bundle at offset {offset:#x} has {what} of {size} bytes; allowed are {limit}")]
    TooLarge {
        /// Offset of the bundle.
        offset: u64,
        /// Description of the part that is too large, for the message.
        what: String,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A bundle that cannot be written as requested.
    #[error("could not make an offload bundle: {reason}")]
    NoBundle {
        /// The defect of the request.
        reason: String,
    },
    /// A code object for a bundle could not be read, or the bundle could not be written.
    #[error("could not write the entry `{id}` of an offload bundle")]
    WriteEntry {
        /// Id of the entry.
        id: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// A bundle could not be compressed or written.
    #[error("could not write an offload bundle")]
    WriteBundle(#[source] io::Error),
    /// An error in the name of a GPU target.
    #[error(transparent)]
    Rocm(#[from] Failure),
    /// Bytes that are not a marker, or a marker that the loader would refuse.
    #[error("malformed kpack marker: {reason}")]
    Marker {
        /// The reason, for the message.
        reason: String,
    },
    /// The file does not begin like an archive.
    #[error("not a kpack archive: {reason}")]
    NotAnArchive {
        /// Description of the file's beginning, for the message.
        reason: String,
    },
    /// A part of an archive contradicts another, leaves the file, or has the wrong type.
    #[error("malformed kpack archive: {reason}")]
    Archive {
        /// The contradiction, for the message.
        reason: String,
    },
    /// An archive of an unknown version or compression.
    #[error("the kpack archive has the unknown {field} `{value}`")]
    UnsupportedArchive {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: String,
    },
    /// Reading an archive failed.
    #[error("could not read {what} of the kpack archive")]
    ReadArchive {
        /// Description of the part, for example a code object's name, index and target.
        what: String,
        /// The error of the reader or the decompressor.
        source: io::Error,
    },
    /// Code without a checksum that does not match the target it is stored under.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// Its name, index and target.
        what: String,
        /// The reason, for the message.
        reason: String,
    },
    /// An archive that the loader would refuse; it is not written.
    #[error("could not make a kpack archive: {reason}")]
    NoArchive {
        /// The defect of the request.
        reason: String,
    },
    /// An archive could not be compressed or written.
    #[error("could not write a kpack archive")]
    WriteArchive(#[source] io::Error),
    /// A part of an archive of AOTriton contradicts another, or leaves the archive.
    #[error("malformed AOTriton archive: {reason}")]
    Images {
        /// The contradiction, for the message.
        reason: String,
    },
    /// Unpacking an archive of AOTriton failed.
    #[error("could not unpack the AOTriton archive")]
    ReadImages(#[source] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Unsupported { .. } => Some("the file was made by a newer compiler than this program knows".into()),
            Self::Elf(error) => error.hint(),
            Self::Rocm(failure) => failure.hint().map(str::to_owned),
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
            Self::Rocm(failure) => failure.exit(),
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
