//! A file of this machine, and what becomes of it in a bucket.

use std::path::PathBuf;

use rocwheel_content::{Digest, hexadecimal};
use serde::{Serialize, Serializer};

use super::S3Store;
use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UploadState {
    New,
    Unchanged,
    /// The bucket has another one of this name, which is replaced.
    Replaced,
    /// The bucket was not asked.
    #[serde(rename = "not compared")]
    Uncompared,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BucketUpload {
    pub path: PathBuf,
    pub key: String,
    /// Bytes.
    pub size: u64,
    #[serde(serialize_with = "as_hexadecimal")]
    pub sha256: Digest,
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
