//! What was written.

use std::path::PathBuf;

/// The result of writing an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub path: PathBuf,
    /// Number of members, generated ones included.
    pub files: u64,
    /// Size of all members unpacked, in bytes.
    pub raw: u64,
    /// Size of the file in bytes.
    pub compressed: u64,
    /// SHA-256 of the file in hexadecimal; `None` with [`Skip`](crate::FileDigest::Skip).
    pub sha256: Option<String>,
}
