//! A file of this machine, and what becomes of it in a bucket.

use std::path::PathBuf;

use rocwheel_content::{Digest, hexadecimal};
use serde::{Serialize, Serializer};

use super::S3Store;
use crate::error::Error;

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadState {
    /// The bucket gets it.
    New,
    /// The bucket has it.
    Unchanged,
    /// The bucket has another one of this name, which is replaced.
    Replaced,
}

/// A file and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketUpload {
    /// On this machine.
    pub path: PathBuf,
    /// In the store.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    #[serde(serialize_with = "as_hexadecimal")]
    pub sha256: Digest,
    /// What becomes of it.
    pub state: UploadState,
}

fn as_hexadecimal<S: Serializer>(digest: &Digest, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hexadecimal(digest))
}

pub(super) fn changed_here(upload: &BucketUpload) -> Error {
    Error::Read { path: upload.path.clone(), source: std::io::Error::other("it changed while it was uploaded") }
}

pub(super) fn other_bytes(store: &S3Store, upload: &BucketUpload) -> Error {
    Error::OtherBytes { problems: vec![format!("`{}`", store.shown(&upload.key))] }
}
