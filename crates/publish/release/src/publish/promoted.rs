//! Input: a set of one stream, and the plan that gives it another version. Output: its files on
//! this machine, and what another stream would get.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_content::{hexadecimal, parse_sha256, sha256, sha256_of};
use rocwheel_index::companion::ATTESTATIONS;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_promote::{PlannedPromotion, PromotionPlan};
use rocwheel_store::{Error as StoreError, FileTransfer, Store, StoredBytes, StoredFile, with_threads};
use rocwheel_stream::{ReleaseSet, SetFile, SnapshotManifest, Stream, StreamChange, StreamFault};
use rocwheel_wheel::{Headers, canonical_name};

use super::{LocalFile, LocalSet, PublicationPlan};
use crate::Error;

/// The set that can become a version: the one of that name, or else the only one whose version has
/// the same release (`7.12.0rc1` for `7.12.0`). All its files are listed, and none is withdrawn.
pub fn find_set(stream: &Stream<'_>, name: Option<&str>, version: Option<&Version>) -> Result<ReleaseSet, Error> {
    let set = if let Some(name) = name {
        stream.set(name)?
    } else {
        let all = stream.manifest.sets.keys().map(|name| stream.set(name)).collect::<Result<Vec<_>, _>>()?;
        let mut found: Vec<ReleaseSet> = all.into_iter().filter(|set| is_candidate(set, version)).collect();
        match found.len() {
            1 => found.remove(0),
            0 => {
                let what = version.map_or_else(|| "set".to_owned(), |wanted| format!("candidate of {wanted}"));
                let problems: Vec<String> = stream.manifest.sets.keys().cloned().collect();
                let Some(last) = problems.last() else { return Err(StreamFault::Nothing { what }.into()) };
                let hint = format!("name one: `--set {last}`; without `--version` it keeps its names");
                return Err(StreamFault::Refused { what: format!("the stream has no {what}"), problems, hint }.into());
            }
            _ => {
                let what = "the set needs a name".to_owned();
                let problems: Vec<String> = found.into_iter().map(|set| set.name).collect();
                let hint = format!("name one: `--set {}`", problems[problems.len() - 1]);
                return Err(StreamFault::Refused { what, problems, hint }.into());
            }
        }
    };
    let problems: Vec<String> = set
        .files
        .iter()
        .filter_map(|(key, file)| match stream.manifest.files.get(key) {
            None => Some(format!("`{}` is not listed any more", file_name(key))),
            Some(row) if row.sha256 != file.sha256 => Some(format!("`{}` has other bytes", file_name(key))),
            Some(row) => row.yanked.as_ref().map(|reason| format!("`{}` is withdrawn: {reason}", file_name(key))),
        })
        .collect();
    if problems.is_empty() {
        return Ok(set);
    }
    let (what, hint) = (format!("`{}` cannot be promoted", set.name), "promote a set that is whole".to_owned());
    Err(StreamFault::Refused { what, problems, hint }.into())
}

fn is_candidate(set: &ReleaseSet, version: Option<&Version>) -> bool {
    let rocm = set.versions.get("rocm").or_else(|| set.versions.get("rocm-sdk-core"));
    let of_rocm = rocm.and_then(|text| text.parse::<Version>().ok());
    match (version, of_rocm) {
        (Some(wanted), Some(found)) => {
            found == *wanted || (found.only_release() == wanted.only_release() && found.any_prerelease())
        }
        // Without a version all names stay, and there is only one set that can be meant.
        (None, _) => true,
        _ => false,
    }
}

#[derive(Debug)]
pub struct StoredSet {
    pub set: ReleaseSet,
    /// The files, sorted by key.
    pub paths: Vec<PathBuf>,
    /// Attestations (PEP 740) by the names of their files.
    pub provenance: BTreeMap<String, Vec<u8>>,
}

impl StoredSet {
    /// Compares what was read with what the set says.
    /// `read` has the SHA-256 of files by their names.
    pub fn check(&self, read: &BTreeMap<&str, &str>) -> Result<(), Error> {
        for (key, file) in &self.set.files {
            if read.get(file_name(key)).is_some_and(|found| *found != file.sha256) {
                return Err(StreamFault::Altered { name: key.clone() }.into());
            }
        }
        Ok(())
    }
}

/// Finds the files of a set in a folder, or downloads them from a bucket into `scratch`.
pub fn stored_set(
    store: &dyn Store,
    set: ReleaseSet,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<StoredSet, Error> {
    let total = set.files.values().map(|file| file.size).sum();
    let stage = reporter.stage("Fetching the set", Some(total), Unit::Bytes);
    // A project of a bucket may have thousands of files, so each is listed once.
    let projects: BTreeSet<&str> = set.files.keys().map(|key| parent(key)).collect();
    let listed = projects.par_iter().map(|project| store.list(project, reporter));
    let listed = with_threads(store, || listed.collect::<Result<Vec<_>, _>>())?;
    let listed: BTreeMap<String, StoredFile> =
        listed.into_iter().flatten().map(|file| (file.key.clone(), file)).collect();
    let paths = set.files.par_iter().map(|(key, file)| {
        reporter.check()?;
        let stored = listed.get(key).ok_or_else(|| StreamFault::Missing { name: join(&store.name(), key) })?;
        if stored.size != file.size {
            return Err(StreamFault::Altered { name: join(&store.name(), key) }.into());
        }
        let bytes = store.bytes(stored)?;
        let path = match bytes {
            StoredBytes::Local(path) => path,
            StoredBytes::Remote(_) => {
                let path = scratch.join(file_name(key));
                bytes.copy_to(&path).map_err(StoreError::write(&path))?;
                let digest = fs_err::File::open(&path).and_then(sha256_of).map_err(StoreError::read(&path))?;
                if hexadecimal(&digest) != file.sha256 {
                    return Err(StreamFault::Altered { name: join(&store.name(), key) }.into());
                }
                path
            }
        };
        reporter.advance(file.size);
        Ok(path)
    });
    let paths = with_threads(store, || paths.collect::<Result<Vec<_>, Error>>());
    drop(stage);
    let paths = paths?;
    let mut provenance = BTreeMap::new();
    for key in set.files.keys() {
        let attested = format!("{key}{ATTESTATIONS}");
        if listed.contains_key(&attested)
            && let Some(bytes) = store.read(&attested)?
        {
            provenance.insert(file_name(key).to_owned(), bytes);
        }
    }
    Ok(StoredSet { set, paths, provenance })
}

/// What a stream would get from a promotion, before anything is written. Hashes and sizes of files
/// that do not exist yet are not known; for one that the stream has, they are the stream's.
pub fn plan_promoted(plan: &PromotionPlan, source: &ReleaseSet, target: &SnapshotManifest) -> LocalSet {
    let keys: BTreeMap<&str, &String> = source.files.keys().map(|key| (file_name(key), key)).collect();
    let mut files = BTreeMap::new();
    for file in &plan.files {
        let (Some(new_name), Some(old_key)) = (&file.new_name, keys.get(file.name.as_str())) else { continue };
        let key = join(parent(old_key), new_name);
        let old = source.files.get(*old_key).cloned().unwrap_or_default();
        let listed = target.files.get(&key).or_else(|| target.unlisted.get(&key).map(|file| &file.file));
        let expected = listed.map_or_else(|| "0".repeat(64), |row| row.sha256.clone());
        let mut local = planned_file(file, old);
        local.sha256 = parse_sha256(&expected).unwrap_or_default();
        local.set_file.sha256 = expected;
        files.insert(key, local);
    }
    LocalSet { files, ignored: Vec::new(), transfer: FileTransfer::Copy }
}

/// The manifest after a publication, for a look at it before.
pub fn planned_manifest(
    stream: &Stream<'_>,
    plan: &PublicationPlan,
    local: &LocalSet,
    change: &StreamChange<'_>,
) -> SnapshotManifest {
    super::next_manifest(stream, plan, local, change)
}

fn planned_file(file: &PlannedPromotion, old: SetFile) -> LocalFile {
    let set_file = match &file.metadata {
        None => old,
        Some(text) => {
            let headers = Headers::parse(text);
            let extras = headers.all("Provides-Extra");
            SetFile {
                requires: headers.all("Requires-Dist"),
                extras: extras.iter().map(|extra| canonical_name(extra)).collect::<BTreeSet<_>>(),
                requires_python: headers.get("Requires-Python"),
                ..old
            }
        }
    };
    LocalFile {
        path: file.path().to_owned(),
        sha256: rocwheel_content::Digest::default(),
        metadata_sha256: file.metadata.as_ref().map(|text| hexadecimal(&sha256(text.as_bytes()))),
        metadata: file.metadata.clone().map(String::into_bytes),
        provenance: None,
        delta: None,
        packing: None,
        set_file,
    }
}
