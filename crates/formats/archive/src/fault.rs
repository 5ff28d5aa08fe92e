//! Why a member cannot be unpacked.

use std::io;

/// Members of up to this many bytes are unpacked in memory, in one step.
pub(crate) const IN_MEMORY: u64 = 64 << 20;

/// The reason why a member cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("it is encrypted")]
    Encrypted,
    /// It is packed with a method other than 0 (stored) and 8 (deflate), the only ones that
    /// installers know.
    #[error("it is packed with method {0}, and wheels have methods 0 and 8 only")]
    Method(u16),
    /// It is not a file.
    #[error("it is a folder")]
    Directory,
    /// It is too large to be unpacked in memory.
    #[error("its {size} bytes are more than the {IN_MEMORY} that are held in memory")]
    TooLarge {
        /// Its unpacked size in bytes.
        size: u64,
    },
    /// It unpacks to more bytes than the archive announces.
    #[error("it unpacks to more than the {announced} bytes that the archive says")]
    Longer {
        /// Number of bytes according to the archive.
        announced: u64,
    },
    /// It unpacks to fewer bytes than the archive announces.
    #[error("it unpacks to {actual} bytes, and the archive says {announced}")]
    Shorter {
        /// Number of bytes according to the archive.
        announced: u64,
        /// Actual number of bytes.
        actual: u64,
    },
    /// Its bytes do not have the checksum in the archive.
    #[error("its CRC-32 is not the one that the archive says")]
    Checksum,
    /// Its bytes are not a deflate stream.
    #[error("its bytes are not a deflate stream")]
    Damaged,
    #[error("the archive cannot be read")]
    Read(#[source] io::Error),
}
