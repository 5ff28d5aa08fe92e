//! Input: a set and the stream that it goes into. Output: what the set takes away from people who
//! upgrade, and if it is published already.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;
use rocwheel_content::Digest;
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_promote::target_of;
use rocwheel_store::Error as StoreError;
use rocwheel_store::listing::{StoredDistribution, clashes, distributions};
use rocwheel_stream::{ReleaseSet, SnapshotManifest, Stream, StreamFault, VersionKind};
use rocwheel_wheel::Platform;

use super::AllowedGap;
use super::local::LocalSet;
use crate::Error;

/// A problem, and the option that accepts it, if any does.
pub(super) type Objection = (Option<AllowedGap>, String);

/// The published set of this name, if it has all these files: a run that is repeated, also after
/// others have added files to the set.
pub(super) fn published_set(stream: &Stream<'_>, set: &ReleaseSet) -> Result<Option<ReleaseSet>, Error> {
    if !stream.manifest.sets.contains_key(&set.name) {
        return Ok(None);
    }
    let before = stream.set(&set.name)?;
    let mut files = set.files.iter();
    let is_there = files.all(|(key, file)| before.files.get(key).is_some_and(|old| old.sha256 == file.sha256));
    Ok(is_there.then_some(before))
}

/// The error of an upload for a set that was planned: the stream lists none of the other bytes that
/// the store has.
pub(super) fn stored_otherwise(error: StoreError, set: &str) -> Error {
    let StoreError::OtherBytes { problems } = error else { return error.into() };
    let files = if problems.len() == 1 { problems[0].clone() } else { "these files".to_owned() };
    let reason = "has other bytes, which the stream does not list: it was damaged, or another run left it";
    StreamFault::Refused {
        what: format!("`{set}` cannot be published"),
        problems: problems.into_iter().map(|file| format!("{file} {reason}")).collect(),
        hint: format!("if no other run is publishing, delete {files} in the store, and run the command again"),
    }
    .into()
}

/// Files whose names the stream or one of its snapshots has with other bytes, and files that
/// installers take for others.
pub(super) fn other_bytes(stream: &Stream<'_>, local: &LocalSet) -> Result<Vec<String>, Error> {
    let manifest = &stream.manifest;
    let mut problems = Vec::new();
    let deleted = stream.named_files(&maybe_deleted(manifest, local))?;
    let mut changed: BTreeMap<(String, Version), usize> = BTreeMap::new();
    for one in distributions(local.files.keys()) {
        let key = &one.file.key;
        let unlisted = manifest.unlisted.get(key).map(|file| &file.file);
        let existing = manifest.files.get(key).or(unlisted).map(|file| &file.sha256);
        let Some(old) = existing.or_else(|| deleted.get(key)) else { continue };
        if local.files.get(key).is_some_and(|new| new.set_file.sha256 != *old) {
            *changed.entry((one.project.clone(), one.version.clone())).or_default() += 1;
        }
    }
    for ((project, version), files) in changed {
        let (free, has) = (free_post(manifest, &project, &version), if files == 1 { "has" } else { "have" });
        problems.push(format!(
            "{files} of the files of {project} {version} {has} other bytes in the stream; {free} is not taken"
        ));
    }
    let projects: BTreeSet<&str> = local.files.keys().map(|key| parent(key)).collect();
    for project in projects {
        let mut keys: BTreeSet<&String> = manifest.files_of(project).map(|(key, _)| key).collect();
        keys.extend(local.files.keys().filter(|key| parent(key) == project));
        problems.extend(clashes(&distributions(keys)));
    }
    Ok(problems)
}

/// Keys of files that pruning may have deleted: of their projects it deleted this version or a
/// newer one. Snapshots are read for them.
fn maybe_deleted<'l>(manifest: &SnapshotManifest, local: &'l LocalSet) -> BTreeSet<&'l String> {
    let all = distributions(local.files.keys()).into_iter();
    let old = all.filter(|one| manifest.pruned.get(&one.project).is_some_and(|newest| one.version <= *newest));
    let files = old.filter_map(|one| local.files.get_key_value(&one.file.key));
    // The bytes of a promotion that is only planned are not known yet.
    let known = files.filter(|(_, file)| file.sha256 != Digest::default()).map(|(key, _)| key);
    known.filter(|key| !manifest.files.contains_key(*key) && !manifest.unlisted.contains_key(*key)).collect()
}

/// The next version that sorts after `version` and before that of the next day.
fn free_post(manifest: &SnapshotManifest, project: &str, version: &Version) -> String {
    let all = manifest.files.keys().chain(manifest.unlisted.keys()).filter(|key| parent(key) == project);
    let taken: BTreeSet<String> = distributions(all).into_iter().map(|one| one.version.to_string()).collect();
    let plain = version.to_string();
    let base = plain.rsplit_once(".post").map_or(plain.as_str(), |(base, _)| base);
    let mut number = 1;
    while taken.contains(&format!("{base}.post{number}")) {
        number += 1;
    }
    format!("{base}.post{number}")
}

/// The older version with which a new one is compared, and its files.
fn before<'d>(published: &'d [StoredDistribution], version: &Version) -> Vec<&'d StoredDistribution> {
    let newest = published.iter().map(|one| &one.version).filter(|old| *old < version).max();
    published.iter().filter(|one| Some(&one.version) == newest).collect()
}

/// What a file is for: `cp312-cp312 on Linux`, `any Python on Windows`.
fn uses(one: &StoredDistribution) -> BTreeSet<String> {
    let Some(wheel) = &one.wheel else { return BTreeSet::from(["source distribution".to_owned()]) };
    let uses = wheel.tags().into_iter().map(|tag| {
        let system =
            Platform::of_tag(&tag.platform).map_or_else(|| "any system".to_owned(), |system| system.to_string());
        format!("{}-{} on {system}", tag.python, tag.abi)
    });
    uses.collect()
}

/// Uses and extras that the newest older version has, and the new one has not.
pub(super) fn fewer(stream: &Stream<'_>, set: &ReleaseSet) -> Result<Vec<Objection>, Error> {
    let mut found = Vec::new();
    let mut known: BTreeMap<String, ReleaseSet> = BTreeMap::new();
    for (project, version) in &set.versions {
        let Ok(version) = version.parse::<Version>() else { continue };
        let published = distributions(stream.manifest.files_of(project).map(|(key, _)| key));
        let old = before(&published, &version);
        let Some(first) = old.first() else { continue };
        let old_version = &first.version;
        let new = distributions(set.files.keys().filter(|key| parent(key) == project));
        let is_wheel = new.iter().any(|one| one.wheel.is_some());
        let new: BTreeSet<String> = new.iter().flat_map(uses).collect();
        let mut old_uses: BTreeSet<String> = old.iter().flat_map(|one| uses(one)).collect();
        if is_wheel {
            // A wheel is worth more than a source distribution.
            old_uses.remove("source distribution");
        }
        // Pythons that were dropped on purpose are not reported.
        for lost in old_uses.difference(&new).filter(|lost| !set.pythons_dropped.contains(*lost)) {
            found.push(format!("{project} {old_version} has a file for {lost}, and {version} has none"));
        }
        let mut extras = BTreeSet::new();
        for one in &old {
            let Some(row) = stream.manifest.files.get(&one.file.key) else { continue };
            if !known.contains_key(&row.set) {
                known.insert(row.set.clone(), stream.set(&row.set)?);
            }
            extras.extend(known[&row.set].files.get(&one.file.key).into_iter().flat_map(|file| file.extras.clone()));
        }
        let empty = BTreeSet::new();
        let now = set.extras.get(project).unwrap_or(&empty);
        // Targets that were dropped on purpose are not reported.
        let lost = extras.difference(now).filter(|extra| {
            target_of(extra).is_none_or(|target| set.targets_dropped.iter().all(|dropped| dropped != target))
        });
        let lost: Vec<&str> = lost.map(String::as_str).collect();
        if !lost.is_empty() {
            found.push(format!("{project} {old_version} has the extras {}, and {version} has not", lost.join(", ")));
        }
    }
    Ok(found.into_iter().map(|text| (Some(AllowedGap::Fewer), text)).collect())
}

/// Versions that people who upgrade do not get, because the stream has ones that sort later.
pub(super) fn order(stream: &Stream<'_>, set: &ReleaseSet) -> Vec<Objection> {
    let mut found = Vec::new();
    for (project, version) in &set.versions {
        let Ok(version) = version.parse::<Version>() else { continue };
        let published = distributions(stream.manifest.files_of(project).map(|(key, _)| key));
        if published.iter().any(|one| one.version == version) {
            continue;
        }
        let listed = published
            .iter()
            .filter(|one| stream.manifest.files.get(&one.file.key).is_some_and(|file| file.yanked.is_none()));
        let later: Vec<&Version> = listed.map(|one| &one.version).filter(|old| **old > version).collect();
        let newest = later.iter().max();
        let same_line = later.iter().find(|old| old.release() == version.release());
        match (same_line, newest) {
            (Some(old), _) => found.push((
                Some(AllowedGap::Misordered),
                format!("{project} {version} sorts before {old}, which the stream has: installers would not take it"),
            )),
            (None, Some(newest)) => found.push((
                Some(AllowedGap::Older),
                format!("{project} {version} is older than {newest}, which the stream has"),
            )),
            (None, None) => {}
        }
    }
    found
}

/// Versions of another kind than the stream's. One final version hides all nightly ones.
pub(super) fn kinds(stream: &Stream<'_>, set: &ReleaseSet) -> Vec<Objection> {
    let mut found = Vec::new();
    for (project, version) in &set.versions {
        let Ok(version) = version.parse::<Version>() else { continue };
        let kind = VersionKind::of(&version);
        let published = distributions(stream.manifest.files_of(project).map(|(key, _)| key));
        let is_entry = set.entry_points.contains(project);
        let other = published.iter().find(|one| VersionKind::of(&one.version) != kind);
        if let Some(wanted) = stream.settings.kind.filter(|wanted| is_entry && *wanted != kind) {
            let (wanted, kind) = (wanted.word(), kind.word());
            found.push((None, format!("{project} {version} is of kind {kind}, and the stream takes kind {wanted}")));
        } else if let Some(other) = other.filter(|_| stream.settings.kind.is_none()) {
            let (kind, of, other) = (kind.word(), VersionKind::of(&other.version).word(), &other.version);
            found.push((
                Some(AllowedGap::Mixed),
                format!("{project} {version} is of kind {kind}, and the stream has {other} of kind {of}"),
            ));
        }
    }
    found
}

/// Projects of which the set has several versions.
pub(super) fn several_versions(keys: impl IntoIterator<Item = String>) -> Vec<String> {
    let keys: Vec<String> = keys.into_iter().collect();
    let mut versions: BTreeMap<String, BTreeMap<Version, String>> = BTreeMap::new();
    for one in distributions(&keys) {
        versions.entry(one.project.clone()).or_default().insert(one.version.clone(), one.file.key.clone());
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(project, versions)| {
            let files: Vec<String> = versions.values().map(|key| format!("`{}`", file_name(key))).collect();
            format!("{project} has {} versions: {}", versions.len(), files.join(", "))
        })
        .collect()
}
