//! Input: the retention of a stream. Output: old files are listed no more, and deleted when the
//! grace period is over.
//!
//! A file that a kept one requires is kept too: an index that lists `torch` without the `rocm` that
//! it pins is broken.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use pep440_rs::Version;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_index::companion::{ATTESTATIONS, DELTA, PACKING};
use rocwheel_index::requirement::Requirement;
use rocwheel_progress::{Reporter, Silent, Unit};
use rocwheel_store::listing::{StoredDistribution, distributions, project_of};
use rocwheel_store::{Error as StoreError, Store, StoredFile, with_threads};
use serde::Serialize;

use super::history::{change_stream, numbers};
use super::manifest::{SnapshotManifest, UnlistedFile};
use super::settings::{Retention, patterns_of};
use super::yank::requirements;
use super::{
    FOLDER, InnerStreams, ReleaseSet, Stream, StreamChange, Transition, document_key, snapshot_key, statement_key,
};
use crate::error::Error;

/// The endings of files beside a distribution.
const BESIDE: [&str; 4] = [".metadata", ATTESTATIONS, DELTA, PACKING];

/// What a pruning does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PrunePlan {
    /// Keys of files that pages list no more.
    pub unlisted: Vec<String>,
    /// Keys of files that are deleted: no page listed them for the grace period, or they are
    /// orphans whose deletion was requested.
    pub deleted: Vec<String>,
    pub bytes: u64,
    pub snapshots: Vec<u64>,
    /// Keys of files that belong to no publication: a killed run left them. Those that are deleted
    /// are in `deleted` too.
    pub orphans: Vec<String>,
}

/// Prunes a stream by its settings. `orphans` are deleted only on request, because another
/// publisher may be uploading them.
pub fn prune_stream(
    store: &dyn Store,
    delete_orphans: bool,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<PrunePlan, Error> {
    change_stream(store, change, reporter, |stream| {
        let plan = plan(stream, delete_orphans, change, reporter)?;
        if !change.write {
            return Ok(plan);
        }
        // The others are orphans, which no snapshot names.
        let expired = plan.deleted.iter().filter(|key| stream.manifest.unlisted.contains_key(*key));
        let expired: BTreeSet<&String> = expired.collect();
        if !plan.unlisted.is_empty() || !expired.is_empty() {
            let mut next = stream.next(change, "prune".to_owned());
            for one in distributions(expired.iter().copied()) {
                next.unlisted.remove(&one.file.key);
                let newest = next.pruned.entry(one.project).or_insert_with(|| one.version.clone());
                *newest = one.version.max(newest.clone());
            }
            for key in &plan.unlisted {
                if let Some(file) = next.files.remove(key) {
                    next.unlisted.insert(key.clone(), UnlistedFile { since: change.now, file });
                }
            }
            let gone = removed_sets(stream, &next)?;
            next.sets.retain(|name, _| !gone.contains(name));
            stream.commit(Transition { manifest: next, sets: BTreeMap::new() }, change.keys, reporter)?;
        }
        delete(stream, &plan, &expired, reporter)?;
        Ok(plan)
    })
}

/// The names of the sets that lose their descriptions: none of their files came with them, or is
/// left, and they are not whole. The files of a whole set may all have come with others.
fn removed_sets(stream: &Stream<'_>, next: &SnapshotManifest) -> Result<BTreeSet<String>, Error> {
    let alive: BTreeSet<&String> = next.files.values().map(|file| &file.set).collect();
    let mut removed = BTreeSet::new();
    for name in next.sets.keys().filter(|name| !alive.contains(name)) {
        if !stream.set(name)?.files.keys().all(|key| next.files.contains_key(key)) {
            removed.insert(name.clone());
        }
    }
    Ok(removed)
}

fn plan(
    stream: &Stream<'_>,
    delete_orphans: bool,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<PrunePlan, Error> {
    let retention = &stream.settings.retention;
    let snapshots = numbers(stream.store, reporter)?;
    let mut held: BTreeSet<String> = BTreeSet::new();
    for number in retention.keep_snapshots.iter().filter(|number| snapshots.contains(number)) {
        held.extend(stream.snapshot(*number)?.files.into_keys());
    }
    let sets = patterns_of(&retention.keep_sets)
        .map_err(|source| StoreError::Pattern { pattern: retention.keep_sets.join(" "), source })?;
    for name in stream.manifest.sets.keys().filter(|name| sets.is_match(name)) {
        held.extend(stream.set(name)?.files.into_keys());
    }
    let kept = kept(stream, &held, change.now)?;
    let unlisted: Vec<String> = stream.manifest.files.keys().filter(|key| !kept.contains(*key)).cloned().collect();
    let grace = SignedDuration::from_hours(24 * i64::from(retention.grace_days));
    let deleted =
        stream.manifest.unlisted.iter().filter(|(key, file)| {
            file.since.checked_add(grace).is_ok_and(|end| end <= change.now) && !held.contains(*key)
        });
    let mut deleted: Vec<(&String, u64)> = deleted.map(|(key, file)| (key, file.file.size)).collect();
    let newest = stream.manifest.number;
    // The snapshot of this prune is one of those that stay.
    let amount = (retention.snapshots as u64).saturating_sub(u64::from(!unlisted.is_empty() || !deleted.is_empty()));
    let old = snapshots
        .into_iter()
        .filter(|number| *number < newest && *number + amount <= newest && !retention.keep_snapshots.contains(number));
    let orphans = orphans(stream, reporter)?;
    deleted.extend(orphans.iter().filter(|_| delete_orphans).map(|file| (&file.key, file.size)));
    Ok(PrunePlan {
        unlisted,
        bytes: deleted.iter().map(|(_, size)| size).sum(),
        deleted: deleted.into_iter().map(|(key, _)| key.clone()).collect(),
        snapshots: old.collect(),
        orphans: orphans.iter().map(|file| file.key.clone()).collect(),
    })
}

/// Files `PROJECT/FILE` that no publication has. What is deeper is of another stream or of another
/// program, and so is everything in the folder of another stream.
fn orphans(stream: &Stream<'_>, reporter: &dyn Reporter) -> Result<Vec<StoredFile>, Error> {
    let mut inner = InnerStreams::new(stream.store);
    let mut orphans = Vec::new();
    for file in stream.store.list("", reporter)? {
        let key = BESIDE.iter().find_map(|ending| file.key.strip_suffix(ending)).unwrap_or(&file.key);
        let is_known = stream.manifest.files.contains_key(key) || stream.manifest.unlisted.contains_key(key);
        let is_orphan = !is_known && project_of(file_name(key)).is_some_and(|project| project == parent(key));
        if is_orphan && !inner.have(&file.key)? {
            orphans.push(file);
        }
    }
    Ok(orphans)
}

/// The listed files that stay.
fn kept(stream: &Stream<'_>, held: &BTreeSet<String>, now: Timestamp) -> Result<BTreeSet<String>, Error> {
    let Retention { days, versions, .. } = stream.settings.retention;
    let files = &stream.manifest.files;
    if days.is_none() && versions.is_none() {
        return Ok(files.keys().cloned().collect());
    }
    let all = distributions(files.keys());
    let mut projects: BTreeMap<&str, BTreeMap<&Version, Vec<&StoredDistribution>>> = BTreeMap::new();
    for one in &all {
        projects.entry(&one.project).or_default().entry(&one.version).or_default().push(one);
    }
    let limit = days.and_then(|days| now.checked_sub(SignedDuration::from_hours(24 * i64::from(days))).ok());
    let young = files.iter().filter(|(_, file)| limit.is_some_and(|limit| file.uploaded > limit));
    let young: BTreeSet<&String> = young.map(|(key, _)| key).collect();
    // Project and version. A version stays as a whole.
    let mut kept: BTreeSet<(&str, &Version)> = BTreeSet::new();
    let mut withdrawn = BTreeSet::new();
    for (project, by_version) in &projects {
        let all_withdrawn = by_version.iter().filter(|(_, stored)| {
            stored.iter().all(|one| files.get(&one.file.key).is_some_and(|file| file.yanked.is_some()))
        });
        withdrawn.extend(all_withdrawn.map(|(version, _)| (*project, *version)));
        let newest = by_version.keys().rev().map(|version| (*project, *version));
        let amount = versions.unwrap_or(0);
        kept.extend(newest.clone().take(amount));
        // People install these instead of withdrawn ones.
        kept.extend(newest.filter(|version| !withdrawn.contains(version)).take(amount));
        for (version, stored) in by_version {
            if stored.iter().any(|one| young.contains(&one.file.key) || held.contains(&one.file.key)) {
                kept.insert((project, version));
            }
        }
    }
    let requirements = requirements(stream)?;
    let mut open: Vec<(&str, &Version)> = kept.iter().copied().collect();
    while let Some((project, version)) = open.pop() {
        let files = projects.get(project).and_then(|by_version| by_version.get(version));
        for requirement in files.into_iter().flatten().filter_map(|one| requirements.get(&one.file.key)).flatten() {
            for required in required(requirement, &projects, &kept, &withdrawn) {
                kept.insert(required);
                open.push(required);
            }
        }
    }
    let kept = all.iter().filter(|one| kept.contains(&(one.project.as_str(), &one.version)));
    Ok(kept.map(|one| one.file.key.clone()).collect())
}

/// What has to stay because of a requirement: what it pins, or the newest that meets it if nothing
/// that stays does. A withdrawn one does only if there is no other.
fn required<'p>(
    requirement: &Requirement,
    projects: &BTreeMap<&'p str, BTreeMap<&'p Version, Vec<&StoredDistribution>>>,
    kept: &BTreeSet<(&'p str, &'p Version)>,
    withdrawn: &BTreeSet<(&'p str, &'p Version)>,
) -> Vec<(&'p str, &'p Version)> {
    let Some((project, by_version)) = projects.get_key_value(requirement.name.as_str()) else { return Vec::new() };
    let accepted: Vec<(&str, &Version)> =
        by_version.keys().filter(|version| requirement.accepts(version)).map(|version| (*project, *version)).collect();
    if requirement.pins() {
        return accepted.into_iter().filter(|one| !kept.contains(one)).collect();
    }
    let (yanked, others): (Vec<_>, Vec<_>) = accepted.into_iter().partition(|one| withdrawn.contains(one));
    let usable = if others.is_empty() { yanked } else { others };
    if usable.iter().any(|one| kept.contains(one)) { Vec::new() } else { usable.last().copied().into_iter().collect() }
}

impl Stream<'_> {
    /// SHA-256 of files that the snapshots name, by key, of those that `wanted` names. Reads every
    /// snapshot.
    pub fn named_files(&self, wanted: &BTreeSet<&String>) -> Result<BTreeMap<String, String>, Error> {
        if wanted.is_empty() || self.manifest.number == 0 {
            return Ok(BTreeMap::new());
        }
        let mut snapshots = numbers(self.store, &Silent)?;
        // One that is under way is not a publication yet.
        snapshots.retain(|number| *number <= self.manifest.number);
        let found = snapshots.par_iter().map(|number| {
            let files = match super::read_snapshot(self.store, *number, None) {
                Ok((manifest, _)) => manifest.files.into_iter(),
                // Another run pruned it, or it is damaged, which `verify` reports.
                Err(Error::Stream(_)) => return Ok(BTreeMap::new()),
                Err(error) => return Err(error),
            };
            Ok(files.filter(|(key, _)| wanted.contains(key)).map(|(key, file)| (key, file.sha256)).collect())
        });
        let found = with_threads(self.store, || found.collect::<Result<Vec<BTreeMap<_, _>>, _>>())?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// Deletes the files and the snapshots of a plan. Files beside expired ones go with them; those
/// beside orphans are orphans themselves.
fn delete(
    stream: &Stream<'_>,
    plan: &PrunePlan,
    expired: &BTreeSet<&String>,
    reporter: &dyn Reporter,
) -> Result<(), Error> {
    let store = stream.store;
    reporter.begin("Deleting files", Some(plan.deleted.len() as u64), Unit::Items);
    let removed = (|| -> Result<(), Error> {
        for key in &plan.deleted {
            reporter.check()?;
            store.remove(key)?;
            for ending in BESIDE.iter().filter(|_| expired.contains(key)) {
                store.remove(&format!("{key}{ending}"))?;
            }
            reporter.advance(1);
        }
        for number in &plan.snapshots {
            store.remove(&snapshot_key(*number))?;
        }
        delete_documents(store, reporter)?;
        Ok(())
    })();
    reporter.end();
    removed
}

/// Deletes the descriptions of sets that no snapshot refers to, and the statements that none of the
/// others does. Nothing but them names these files.
fn delete_documents(store: &dyn Store, reporter: &dyn Reporter) -> Result<(), Error> {
    let (mut documents, mut statements): (BTreeSet<String>, BTreeSet<String>) = Default::default();
    for number in numbers(store, reporter)? {
        for (name, sha256) in super::read_snapshot(store, number, None)?.0.sets {
            let key = document_key(&sha256);
            if documents.contains(&key) {
                continue;
            }
            // The statements of a missing description are unknown, so all statements stay.
            let Some(bytes) = store.read(&key)? else { return Ok(()) };
            statements.extend(ReleaseSet::parse(&bytes, &name)?.statements.iter().map(|sha256| statement_key(sha256)));
            documents.insert(key);
        }
    }
    for (folder, used) in [("documents", documents), ("statements", statements)] {
        for file in store.list(&format!("{FOLDER}/{folder}"), reporter)? {
            if !used.contains(&file.key) {
                store.remove(&file.key)?;
            }
        }
    }
    Ok(())
}
