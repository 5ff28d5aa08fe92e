//! Input: the snapshots of a stream. Output: what happened to it; and the stream as it was.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::archive_path::file_name;
use rocwheel_progress::Reporter;
use rocwheel_store::{Store, with_threads};
use serde::Serialize;

use super::manifest::{SnapshotChanges, SnapshotFile, UnlistedFile};
use super::{FOLDER, Stream, StreamChange, StreamFault, Transition, read_snapshot};
use crate::error::Error;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HistoryRow {
    pub number: u64,
    pub created: Timestamp,
    /// When it should no longer be trusted.
    pub expires: Option<Timestamp>,
    pub action: String,
    /// How many files are listed since.
    pub files: usize,
    pub bytes: u64,
    /// The ids of the keys that claim to have signed it.
    pub keys: Vec<String>,
}

/// The numbers of the snapshots that exist, in order.
pub(super) fn numbers(store: &dyn Store, reporter: &dyn Reporter) -> Result<Vec<u64>, Error> {
    let files = store.list(&format!("{FOLDER}/snapshots"), reporter)?;
    let mut numbers: Vec<u64> =
        files.iter().filter_map(|file| file_name(&file.key).strip_suffix(".json")?.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// All publications whose snapshots exist, the first one first.
pub fn history(store: &dyn Store, name: &str, reporter: &dyn Reporter) -> Result<Vec<HistoryRow>, Error> {
    let stream = Stream::existing(store, name)?;
    let mut numbers = numbers(store, reporter)?;
    // One that is under way is not a publication yet.
    numbers.retain(|number| *number <= stream.manifest.number);
    let rows = numbers.par_iter().map(|number| {
        reporter.check()?;
        let (manifest, envelope) = read_snapshot(store, *number, None)?;
        Ok(HistoryRow {
            number: *number,
            created: manifest.created,
            expires: manifest.expires,
            files: manifest.files.len(),
            bytes: manifest.files.values().map(|file| file.size).sum(),
            action: manifest.action,
            keys: envelope.signatures().iter().map(|one| one.keyid.clone()).collect(),
        })
    });
    with_threads(store, || rows.collect())
}

/// Lists again what a snapshot listed, as a new publication. Files that were withdrawn since stay
/// withdrawn.
pub fn roll_back(
    store: &dyn Store,
    to: u64,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<SnapshotChanges, Error> {
    change_stream(store, change, reporter, |stream| {
        let wanted = stream.snapshot(to)?;
        let mut next = stream.next(change, format!("roll back to {to}"));
        let mut missing = Vec::new();
        let mut files: BTreeMap<String, SnapshotFile> = BTreeMap::new();
        for (key, file) in wanted.files {
            let listed = stream.manifest.files.get(&key);
            let existing = listed.or_else(|| stream.manifest.unlisted.get(&key).map(|file| &file.file));
            match existing {
                Some(existing) if existing.sha256 == file.sha256 => {
                    let yanked = existing.yanked.clone().or_else(|| file.yanked.clone());
                    let provenance_sha256 = existing.provenance_sha256.clone();
                    files.insert(key, SnapshotFile { provenance_sha256, yanked, ..file });
                }
                _ => missing.push(key),
            }
        }
        if let Some(first) = missing.first() {
            let (what, first) = (format!("snapshot {to}"), file_name(first).to_owned());
            return Err(StreamFault::Gone { what, missing: missing.len(), first }.into());
        }
        for (key, file) in &stream.manifest.files {
            if !files.contains_key(key) {
                next.unlisted.insert(key.clone(), UnlistedFile { since: change.now, file: file.clone() });
            }
        }
        next.unlisted.retain(|key, _| !files.contains_key(key));
        (next.files, next.sets) = (files, wanted.sets);
        let changes = SnapshotChanges::between(&stream.manifest, &next);
        if change.write {
            stream.commit(Transition { manifest: next, sets: BTreeMap::new() }, change.keys, reporter)?;
        }
        Ok(changes)
    })
}

/// Runs a change under the lock, or on what a reader sees for a dry run.
pub(super) fn change_stream<T>(
    store: &dyn Store,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
    work: impl FnOnce(&mut Stream<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    // A lock makes a folder, so a name without a stream is refused before.
    let mut stream = Stream::existing(store, change.stream)?;
    stream.check_signed(change)?;
    if !change.write {
        return work(&mut stream);
    }
    let (_lock, mut stream) = Stream::lock(store, change, reporter)?;
    work(&mut stream)
}
