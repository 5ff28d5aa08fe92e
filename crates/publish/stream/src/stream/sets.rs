//! What was published together ([`ReleaseSet`]): `sets/NAME.json`. It appears when all its pages
//! do, so other jobs can wait for it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::StreamFault;
use super::manifest::{SCHEMA, read_json};
use super::settings::VersionKind;

/// A set of distributions of one version each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReleaseSet {
    schema: u32,
    pub name: String,
    /// When it was published, or joined last.
    pub created: Timestamp,
    pub versions: BTreeMap<String, String>,
    /// Projects that no other project of the set requires: what people ask for.
    pub entry_points: Vec<String>,
    pub files: BTreeMap<String, SetFile>,
    /// Extras of all projects, without the packages that they are of.
    pub extras: BTreeMap<String, BTreeSet<String>>,
    /// GPU targets that the set installs for.
    pub targets_promised: Vec<String>,
    /// GPU targets that were asked for and have not all their files.
    pub targets_dropped: Vec<String>,
    /// Pythons of which something was missing, as `cp313-cp313 on Linux`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pythons_dropped: BTreeSet<String>,
    /// SHA-256 of signed statements about the set: what it was made from, who tested it, and the
    /// decision to publish it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SetFile {
    /// Bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// The value of Requires-Python.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_python: Option<String>,
    /// The values of Requires-Dist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    /// The values of Provides-Extra, in canonical form.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub extras: BTreeSet<String>,
}

impl ReleaseSet {
    /// The kinds of the versions of its entry points.
    pub fn kinds(&self) -> BTreeSet<VersionKind> {
        let versions = self.entry_points.iter().filter_map(|name| self.versions.get(name)?.parse().ok());
        versions.map(|version| VersionKind::of(&version)).collect()
    }

    pub fn new(name: &str, created: Timestamp) -> ReleaseSet {
        ReleaseSet {
            schema: SCHEMA,
            name: name.to_owned(),
            created,
            versions: BTreeMap::new(),
            entry_points: Vec::new(),
            files: BTreeMap::new(),
            extras: BTreeMap::new(),
            targets_promised: Vec::new(),
            targets_dropped: Vec::new(),
            pythons_dropped: BTreeSet::new(),
            statements: Vec::new(),
        }
    }

    pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<ReleaseSet, StreamFault> {
        read_json(bytes, name, |set: &ReleaseSet| set.schema == SCHEMA)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("all keys are text");
        bytes.push(b'\n');
        bytes
    }
}

/// `true` for a name that can be a folder's or a file's on every system and in a bucket.
pub fn is_name(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte));
    !name.is_empty() && name.len() <= 128 && !name.starts_with(['.', '-']) && is_plain
}
