//! A file of the set that is promoted.

use std::path::PathBuf;

use pep440_rs::Version;
use serde::Serialize;

/// The format of a file of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SetFileKind {
    Wheel,
    /// A source distribution, `.tar.gz`.
    Sdist,
    /// `therock-dist-*.tar.gz`: ROCm without Python.
    Tarball,
    /// A Debian or RPM package. Its version is of another form, and it is copied unchanged.
    Native,
    /// `WHEEL.metadata`: a copy of the METADATA of the wheel beside it (PEP 658).
    Metadata,
    /// Something that says nothing about the set, and is copied unchanged.
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct SetFile {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) kind: SetFileKind,
    /// Canonical name of the distribution; of a tarball, its stem without version.
    pub(crate) distribution: String,
    /// The version in the file name; `None` for files that are copied.
    pub(crate) version: Option<Version>,
}
