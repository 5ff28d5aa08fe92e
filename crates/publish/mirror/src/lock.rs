//! The files of a mirror.

use jiff::Timestamp;
use rocwheel_choose::parse_lock;
use rocwheel_content::HashAlgorithm;
use rocwheel_index::page::FileHash;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockedFile {
    /// Canonical name of the project.
    pub project: String,
    pub version: String,
    /// Where it is: an address, or a path of this machine.
    pub address: String,
    /// SHA-256 in hexadecimal: that of the index, or of uv, which computes it where the index has
    /// no hash. `None` if the index has a hash of another kind.
    pub sha256: Option<String>,
    pub told: ToldFacts,
}

/// What the page of its index says of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ToldFacts {
    /// `true` if it has a SHA-256.
    pub sha256: bool,
    /// The SHA-256 of METADATA beside it, in hexadecimal.
    pub metadata: Option<String>,
    pub uploaded: Option<Timestamp>,
}

impl LockedFile {
    pub(crate) fn hash(&self) -> Option<FileHash> {
        let hexadecimal = self.sha256.clone()?;
        Some(FileHash { algorithm: HashAlgorithm::Sha256, hexadecimal })
    }
}

/// The files of a lock (PEP 751) by name.
///
/// # Errors
/// The problem of the lock, in words.
pub(crate) fn files(text: &str) -> Result<Vec<(String, LockedFile)>, String> {
    let mut files = Vec::new();
    for package in parse_lock(text)? {
        for file in package.files {
            let (project, version) = (package.name.clone(), package.version.clone());
            let (address, sha256, told) = (file.address, file.sha256, ToldFacts::default());
            files.push((file.name, LockedFile { project, version, address, sha256, told }));
        }
    }
    Ok(files)
}
