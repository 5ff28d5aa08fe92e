//! What a stream has: its files and sets at one moment ([`SnapshotManifest`]), and the object that
//! names the present one ([`StreamHead`]).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use pep440_rs::Version;
use rocwheel_content::archive_path::parent;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_pages::IndexView;
use rocwheel_wheel::WheelName;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::StreamFault;
use super::settings::StreamNotice;

/// The form of the documents of a stream.
pub const SCHEMA: u32 = 1;

/// Parses a document of a stream; `fits` compares its form with ours.
pub(super) fn read_json<T: DeserializeOwned>(bytes: &[u8], name: &str, fits: fn(&T) -> bool) -> Result<T, StreamFault> {
    let reason = match serde_json::from_slice(bytes) {
        Ok(document) if fits(&document) => return Ok(document),
        Ok(_) => "another version of rocwheel wrote it".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(StreamFault::Snapshot { name: name.to_owned(), reason })
}

/// The object that decides who published last. It is replaced as a whole, and only by a publisher
/// that read the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StreamHead {
    pub(super) schema: u32,
    pub generation: u64,
    pub snapshot: String,
    /// SHA-256 of the snapshot's file in hexadecimal.
    pub sha256: String,
}

impl StreamHead {
    pub(crate) fn new(generation: u64, envelope: &[u8]) -> StreamHead {
        let snapshot = super::snapshot_key(generation);
        StreamHead { schema: SCHEMA, generation, snapshot, sha256: hexadecimal(&sha256(envelope)) }
    }

    pub(crate) fn parse(bytes: &[u8], name: &str) -> Result<StreamHead, StreamFault> {
        read_json(bytes, name, |head: &StreamHead| {
            head.schema == SCHEMA && head.snapshot == super::snapshot_key(head.generation)
        })
    }

    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("all keys are text")
    }
}

/// Everything that a stream lists after a publication. The signed payload of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotManifest {
    pub(super) schema: u32,
    /// So that one stream's snapshots are not taken for another's.
    pub stream: String,
    /// Grows by one with each publication, also with one that takes files back.
    pub number: u64,
    /// SHA-256 of the snapshot's file before this one, in hexadecimal.
    pub previous: Option<String>,
    pub created: Timestamp,
    /// When it should no longer be trusted.
    pub expires: Option<Timestamp>,
    /// The change, for people: `publish rocm-7.2.0`.
    pub action: String,
    pub files: BTreeMap<String, SnapshotFile>,
    /// Files that are not listed any more and still exist, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unlisted: BTreeMap<String, UnlistedFile>,
    /// The newest version of each project of which a file was deleted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pruned: BTreeMap<String, Version>,
    /// SHA-256 of the descriptions of sets, by name.
    pub sets: BTreeMap<String, String>,
    /// The projects that the files of a project require, for the order of pages.
    pub requires: BTreeMap<String, BTreeSet<String>>,
    /// The end of the stream, if it is announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<StreamNotice>,
    /// The public address of the stream, ending in `/`, with which pages link attestations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The smaller indexes that the stream has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<IndexView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SnapshotFile {
    /// Bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// When it was first published.
    pub uploaded: Timestamp,
    /// The value of Requires-Python in METADATA.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_python: Option<String>,
    /// SHA-256 of METADATA in hexadecimal, which is beside the file; only of wheels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_sha256: Option<String>,
    /// SHA-256 in hexadecimal of its attestations (PEP 740), which are beside the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance_sha256: Option<String>,
    /// SHA-256 in hexadecimal of the record of how it was packed, which is beside the file; only of
    /// wheels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing_sha256: Option<String>,
    /// Why it is withdrawn (PEP 592).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yanked: Option<String>,
    /// The set that it came with.
    pub set: String,
}

/// A file that pages list no more. It still exists, for lock files that name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlistedFile {
    /// When it was taken from the pages.
    pub since: Timestamp,
    /// What it was listed with.
    pub file: SnapshotFile,
}

impl SnapshotManifest {
    /// The manifest of a stream before its first publication.
    pub fn empty(stream: &str) -> SnapshotManifest {
        SnapshotManifest {
            schema: SCHEMA,
            stream: stream.to_owned(),
            number: 0,
            previous: None,
            created: Timestamp::UNIX_EPOCH,
            expires: None,
            action: String::new(),
            files: BTreeMap::new(),
            unlisted: BTreeMap::new(),
            pruned: BTreeMap::new(),
            sets: BTreeMap::new(),
            requires: BTreeMap::new(),
            notice: None,
            address: None,
            views: Vec::new(),
        }
    }

    /// Why the snapshot is not to be trusted any more; `None` before it expires.
    pub fn expiry(&self, now: Timestamp) -> Option<String> {
        let expires = self.expires.filter(|expires| *expires < now)?;
        Some(format!("snapshot {} expired on {expires}: this may be an old copy of the stream", self.number))
    }

    pub(crate) fn parse(payload: &[u8], name: &str) -> Result<SnapshotManifest, StreamFault> {
        read_json(payload, name, |manifest: &SnapshotManifest| manifest.schema == SCHEMA)
    }

    pub fn payload(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("all keys are text")
    }

    /// The names of the projects with listed files, sorted.
    pub fn projects(&self) -> BTreeSet<&str> {
        self.files.keys().map(|key| parent(key)).collect()
    }

    /// The file that another one follows: with the same project, Python, ABI and platforms, and the
    /// newest version below its own.
    pub fn predecessor(&self, key: &str) -> Option<&str> {
        let file = FileIdentity::of(key)?;
        let earlier = self.files_of(parent(key)).filter_map(|(key, _)| Some((FileIdentity::of(key)?, key)));
        let earlier = earlier.filter(|(other, _)| other.tags == file.tags && other.version < file.version);
        earlier.max_by(|(one, _), (other, _)| one.version.cmp(&other.version)).map(|(_, key)| key.as_str())
    }

    /// The listed files of a project, by key.
    pub fn files_of(&self, project: &str) -> impl Iterator<Item = (&String, &SnapshotFile)> {
        // `/` is followed by `0`, so this range has what begins with `PROJECT/`.
        self.files.range(format!("{project}/")..format!("{project}0"))
    }
}

/// What distinguishes the files of a project.
struct FileIdentity {
    version: Version,
    /// Python, ABI and platforms of a wheel; empty for a source distribution.
    tags: String,
}

impl FileIdentity {
    fn of(key: &str) -> Option<FileIdentity> {
        let name = key.rsplit('/').next().unwrap_or(key);
        if let Some(stem) = name.strip_suffix(".tar.gz") {
            let version = stem.rsplit_once('-')?.1.parse().ok()?;
            return Some(FileIdentity { version, tags: String::new() });
        }
        let name: WheelName = name.parse().ok()?;
        let tags = [&name.pythons, &name.abis, &name.platforms].map(|part| part.join(".")).join("-");
        Some(FileIdentity { version: name.version.parse().ok()?, tags })
    }
}

/// How two snapshots differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SnapshotChanges {
    /// Keys of files that only the second one lists.
    pub added: Vec<String>,
    /// Keys of files that only the first one lists.
    pub removed: Vec<String>,
    /// Keys of files that the second one lists as withdrawn, and the first one not.
    pub yanked: Vec<String>,
    /// The opposite.
    pub restored: Vec<String>,
    /// Keys of files with other bytes: an accident or an attack.
    pub replaced: Vec<String>,
}

impl SnapshotChanges {
    /// Compares two snapshots.
    pub fn between(before: &SnapshotManifest, after: &SnapshotManifest) -> SnapshotChanges {
        let mut changes = SnapshotChanges::default();
        for (key, file) in &after.files {
            match before.files.get(key) {
                None => changes.added.push(key.clone()),
                Some(old) if old.sha256 != file.sha256 => changes.replaced.push(key.clone()),
                Some(old) if old.yanked.is_none() && file.yanked.is_some() => changes.yanked.push(key.clone()),
                Some(old) if old.yanked.is_some() && file.yanked.is_none() => changes.restored.push(key.clone()),
                Some(_) => {}
            }
        }
        changes.removed.extend(before.files.keys().filter(|key| !after.files.contains_key(*key)).cloned());
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn file(sha256: &str) -> SnapshotFile {
        SnapshotFile {
            size: 1,
            sha256: sha256.to_owned(),
            uploaded: Timestamp::UNIX_EPOCH,
            requires_python: None,
            metadata_sha256: None,
            provenance_sha256: None,
            packing_sha256: None,
            yanked: None,
            set: "s".to_owned(),
        }
    }

    #[test]
    fn files_belong_to_their_projects() {
        let mut manifest = SnapshotManifest::empty("nightly");
        for key in ["rocm/rocm-1.tar.gz", "rocm-sdk-core/c-1.whl", "rocm0/x-1.whl", "torch/t-1.whl"] {
            manifest.files.insert(key.to_owned(), file("a"));
        }
        let of = |project: &str| manifest.files_of(project).map(|(key, _)| key.as_str()).collect::<Vec<_>>();
        assert_eq!(of("rocm"), ["rocm/rocm-1.tar.gz"]);
        assert_eq!(of("torch"), ["torch/t-1.whl"]);
        assert_eq!(manifest.projects().into_iter().collect::<Vec<_>>(), ["rocm", "rocm-sdk-core", "rocm0", "torch"]);
        assert_eq!(SnapshotManifest::parse(&manifest.payload(), "x").unwrap(), manifest);
    }

    #[test]
    fn a_file_follows_the_newest_earlier_one_of_its_kind() {
        let mut manifest = SnapshotManifest::empty("nightly");
        let versions = ["1.0a20261126", "1.0a20261127", "1.0a9"];
        for version in versions {
            for tags in ["py3-none-any", "py3-none-win_amd64"] {
                manifest.files.insert(format!("rocm/rocm-{version}-{tags}.whl"), file("a"));
            }
            manifest.files.insert(format!("rocm/rocm-{version}.tar.gz"), file("a"));
        }
        let rows = [
            ("rocm/rocm-1.0a20261128-py3-none-any.whl", Some("rocm/rocm-1.0a20261127-py3-none-any.whl")),
            ("rocm/rocm-1.0a20261127.tar.gz", Some("rocm/rocm-1.0a20261126.tar.gz")),
            ("rocm/rocm-1.0a20261128-cp312-cp312-any.whl", None),
            ("rocm/rocm-1.0a9-py3-none-any.whl", None),
            ("torch/torch-2.0-py3-none-any.whl", None),
        ];
        for (key, expected) in rows {
            assert_eq!(manifest.predecessor(key), expected, "{key}");
        }
    }

    #[test]
    fn changes_are_told_apart() {
        let (mut before, mut after) = (SnapshotManifest::empty("s"), SnapshotManifest::empty("s"));
        let yanked = |sha256: &str| SnapshotFile { yanked: Some("bad".to_owned()), ..file(sha256) };
        before.files.extend([("a".into(), file("1")), ("b".into(), file("1")), ("c".into(), yanked("1"))]);
        after.files.extend([("b".into(), yanked("1")), ("c".into(), file("1")), ("d".into(), file("1"))]);
        let changes = SnapshotChanges::between(&before, &after);
        let shown = (changes.added, changes.removed, changes.yanked, changes.restored);
        let one = |key: &str| vec![key.to_owned()];
        assert_eq!(shown, (one("d"), one("a"), one("b"), one("c")));
        after.files.insert("b".into(), file("2"));
        assert_eq!(SnapshotChanges::between(&before, &after).replaced, ["b"]);
    }

    #[test]
    fn a_head_names_a_snapshot_by_its_bytes() {
        let head = StreamHead::new(7, b"envelope");
        assert_eq!(head.snapshot, ".release/snapshots/7.json");
        assert_eq!(StreamHead::parse(&head.bytes(), "x").unwrap(), head);
        assert!(StreamHead::parse(b"{}", "x").is_err());
    }
}
