//! The files of a mirror.

use rocwheel_choose::parse_lock;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LockedFile {
    /// Canonical name of the project.
    pub project: String,
    pub version: String,
    /// Where it is: an address, or a path of this machine.
    pub address: String,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// The files of a lock (PEP 751) by name.
///
/// # Errors
/// The problem of the lock, in words.
pub(crate) fn files(text: &str) -> Result<Vec<(String, LockedFile)>, String> {
    let mut files = Vec::new();
    for package in parse_lock(text)? {
        for file in package.files {
            let sha256 = file.sha256.ok_or_else(|| format!("the index has no SHA-256 of `{}`", file.name))?;
            let (project, version) = (package.name.clone(), package.version.clone());
            files.push((file.name, LockedFile { project, version, address: file.address, sha256 }));
        }
    }
    Ok(files)
}
