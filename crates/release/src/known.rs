//! Input: what the last run found out about each file. Output: the files that need not be read
//! again.
//!
//! There is one record for each project, so a new wheel costs the reading of its own project only.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rocwheel_content::archive_path::join;
use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::store::StoredFile;

/// The folder of everything that is neither a page nor a distribution.
pub(crate) const TOP: &str = ".rocwheel";
/// The folder of the records. Installers and listings ignore it for its dot.
pub(crate) const FOLDER: &str = ".rocwheel/index";
/// The file that a publisher locks.
pub(crate) const LOCK: &str = ".rocwheel/index.lock";
/// The form of the records. One of another form is ignored, and its files are read again.
const SCHEMA: u32 = 2;
/// A file that changed later than this before it was read may change again without a new time:
/// file systems count in steps of up to two seconds.
const YOUNG: Duration = Duration::from_secs(2);

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct KnownFile {
    pub(crate) size: u64,
    /// [`StoredFile::stamp`] when it was read; empty for a file that was too young.
    pub(crate) stamp: String,
    pub(crate) sha256: String,
    pub(crate) requires_python: Option<String>,
    pub(crate) metadata_sha256: Option<String>,
    /// The version of ROCm that METADATA pins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rocm: Option<String>,
    /// What METADATA requires, as the chooser has it. All builds of a wheel require the same, so
    /// the record has each text once, and the file its number.
    #[serde(skip)]
    pub(crate) needs: Arc<str>,
    #[serde(rename = "needs")]
    needs_at: usize,
    /// When the file was first in the index.
    pub(crate) uploaded: Timestamp,
}

impl KnownFile {
    pub(crate) fn new(file: &StoredFile, facts: Facts, uploaded: Timestamp, began: SystemTime) -> KnownFile {
        let Facts { sha256, requires_python, metadata_sha256, rocm, needs, .. } = facts;
        let is_old = began.checked_sub(YOUNG).is_some_and(|limit| file.stamp < stamp(limit));
        let stamp = if is_old || !is_time(&file.stamp) { file.stamp.clone() } else { String::new() };
        KnownFile {
            size: file.size,
            stamp,
            sha256,
            requires_python,
            metadata_sha256,
            rocm,
            needs: needs.into(),
            needs_at: 0,
            uploaded,
        }
    }

    pub(crate) fn is_of(&self, file: &StoredFile) -> bool {
        self.size == file.size && self.stamp == file.stamp && !self.stamp.is_empty()
    }
}

/// The record of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct KnownProject {
    schema: u32,
    /// What else its pages were made of: the options, the status, this program's version.
    pub(crate) made_with: String,
    /// The pages with their sizes in bytes.
    pub(crate) pages: BTreeMap<String, u64>,
    /// The different texts of [`KnownFile::needs`].
    needs: Vec<Arc<str>>,
    /// Its files by key.
    pub(crate) files: BTreeMap<String, KnownFile>,
}

impl KnownProject {
    pub(crate) fn new(made_with: String, mut files: BTreeMap<String, KnownFile>) -> KnownProject {
        let mut needs: Vec<Arc<str>> = Vec::new();
        for file in files.values_mut() {
            file.needs_at = needs.iter().position(|text| *text == file.needs).unwrap_or(needs.len());
            if file.needs_at == needs.len() {
                needs.push(Arc::clone(&file.needs));
            }
        }
        KnownProject { schema: SCHEMA, made_with, pages: BTreeMap::new(), needs, files }
    }

    /// `None` for a record of another form.
    pub(crate) fn parse(bytes: &[u8]) -> Option<KnownProject> {
        let mut known: KnownProject = serde_json::from_slice(bytes).ok()?;
        for file in known.files.values_mut() {
            file.needs = Arc::clone(known.needs.get(file.needs_at)?);
        }
        (known.schema == SCHEMA).then_some(known)
    }

    /// # Panics
    /// Never: all keys are text.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("all keys are text")
    }
}

/// The folder of the records of an index whose first page is in the folder `pages`.
pub(crate) fn folder(pages: &str) -> String {
    if pages.is_empty() { FOLDER.to_owned() } else { join(FOLDER, pages) }
}

/// Where the record of a project of that index is.
pub(crate) fn key(pages: &str, project: &str) -> String {
    join(&folder(pages), &format!("{project}.json"))
}

/// A time of modification as a stamp. Later times are later texts.
pub(crate) fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:012}.{:09}", since.as_secs(), since.subsec_nanos())
}

fn is_time(stamp: &str) -> bool {
    stamp.len() == 22 && stamp.as_bytes()[12] == b'.'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store lists normal keys. A record with another key is that of a project that is gone.
    #[test]
    fn keys_are_normal() {
        assert_eq!(key("", "torch"), ".rocwheel/index/torch.json");
        assert_eq!(key("gfx110X/simple", "torch"), ".rocwheel/index/gfx110X/simple/torch.json");
    }
}
