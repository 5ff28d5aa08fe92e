//! Input: a version that must not be installed. Output: its files, and those of everything that
//! pins it, withdrawn (PEP 592).
//!
//! Withdrawing `rocm-sdk-core==V` alone would leave `rocm==V` to be chosen and then fail, so
//! packages that pin a withdrawn one are withdrawn too, and their pages change first.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;
use rocwheel_content::archive_path::parent;
use rocwheel_index::requirement::{InstallTarget, Requirement};
use rocwheel_report::Reporter;
use rocwheel_wheel::{Platform, PythonVersion};
use serde::Serialize;

use super::history::change_stream;
use super::manifest::SnapshotManifest;
use super::{Stream, StreamChange, StreamFault, Transition};
use crate::Error;
use crate::publish::distributions;
use crate::store::Store;

/// The withdrawn files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YankRequest {
    /// The canonical name of the project.
    pub project: String,
    /// The version.
    pub version: Version,
    /// Why, in a sentence; installers show it.
    pub reason: String,
    /// `true` to take a withdrawal back.
    pub undo: bool,
}

/// Files whose withdrawal changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct YankedFiles {
    /// Keys of the files of the version.
    pub files: Vec<String>,
    /// Keys of the files of packages that pin it, directly or through others.
    pub pinned: Vec<String>,
}

/// Withdraws a version, or takes that back.
///
/// # Errors
/// [`StreamFault::Nothing`] for a version that is not listed; as other changes of a stream.
pub fn yank(
    store: &dyn Store,
    request: &YankRequest,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<YankedFiles, Error> {
    let shown = format!("{}=={}", request.project, request.version);
    let work = |stream: &mut Stream<'_>| -> Result<YankedFiles, Error> {
        let verb = if request.undo { "restore" } else { "yank" };
        let mut next = stream.next(change, format!("{verb} {shown}"));
        let (direct, pinned) = affected(stream, request)?;
        if direct.is_empty() {
            return Err(StreamFault::Nothing { what: format!("{} {}", request.project, request.version) }.into());
        }
        let through = |reason: &str| {
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("it requires {shown}, which was withdrawn{because}")
        };
        // A withdrawal is taken back where it was made.
        let old = direct.iter().find_map(|key| stream.manifest.files.get(key)?.yanked.clone()).unwrap_or_default();
        let mark = through(if request.undo { &old } else { &request.reason });
        let mut changed = YankedFiles::default();
        for (keys, is_direct, list) in [(&direct, true, &mut changed.files), (&pinned, false, &mut changed.pinned)] {
            for key in keys {
                let Some(file) = next.files.get_mut(key) else { continue };
                let reason = match (request.undo, is_direct, &file.yanked) {
                    (false, true, now) if now.as_ref() != Some(&request.reason) => Some(request.reason.clone()),
                    // An older reason stays.
                    (false, false, None) => Some(mark.clone()),
                    (true, true, Some(_)) => None,
                    (true, false, Some(now)) if *now == mark => None,
                    _ => continue,
                };
                file.yanked = reason;
                list.push(key.clone());
            }
        }
        if change.write && !(changed.files.is_empty() && changed.pinned.is_empty()) {
            stream.commit(Transition { manifest: next, sets: BTreeMap::new() }, change.keys, reporter)?;
        }
        Ok(changed)
    };
    change_stream(store, change, reporter, work)
}

/// The requirements of all listed files, by key.
pub(super) fn requirements(stream: &Stream<'_>) -> Result<BTreeMap<String, Vec<Requirement>>, Error> {
    let manifest: &SnapshotManifest = &stream.manifest;
    let names: BTreeSet<&String> = manifest.files.values().map(|file| &file.set).collect();
    let mut found = BTreeMap::new();
    for name in names {
        for (key, file) in stream.set(name)?.files {
            if manifest.files.get(&key).is_some_and(|row| row.set == *name) {
                let parsed = file.requires.iter().filter_map(|text| Requirement::parse(text).ok());
                found.insert(key, parsed.collect());
            }
        }
    }
    Ok(found)
}

/// The files of a version, and those that pin it.
fn affected(stream: &Stream<'_>, request: &YankRequest) -> Result<(Vec<String>, Vec<String>), Error> {
    let all = distributions(stream.manifest.files.keys());
    let of = |project: &str, version: &Version| -> Vec<String> {
        let is_it = |one: &&crate::listing::Distribution| one.project == project && one.version == *version;
        all.iter().filter(is_it).map(|one| one.file.key.clone()).collect()
    };
    let direct = of(&request.project, &request.version);
    let versions: BTreeMap<&str, &Version> = all.iter().map(|one| (one.file.key.as_str(), &one.version)).collect();
    let requirements = requirements(stream)?;
    let python = PythonVersion { major: 3, minor: 12, free_threaded: false };
    let markers = [Platform::Linux, Platform::Windows]
        .map(|platform| InstallTarget { python, platform, glibc: None }.environment());
    let none = BTreeSet::new();
    let mut seen = BTreeSet::from([(request.project.clone(), request.version.clone())]);
    let mut open = vec![(request.project.clone(), request.version.clone())];
    let mut pinned = BTreeSet::new();
    while let Some((project, version)) = open.pop() {
        for (key, requirements) in &requirements {
            // A package can be installed without the extras that need a withdrawn one.
            let is_pinned = requirements.iter().any(|one| {
                one.name == project
                    && one.pins()
                    && one.accepts(&version)
                    && markers.iter().any(|markers| one.applies_in(markers, &none))
            });
            let Some(of) = versions.get(key.as_str()).filter(|_| is_pinned) else { continue };
            let dependant = (parent(key).to_owned(), (*of).clone());
            if dependant.0 != request.project {
                pinned.insert(key.clone());
            }
            if seen.insert(dependant.clone()) {
                open.push(dependant);
            }
        }
    }
    pinned.retain(|key| !direct.contains(key));
    Ok((direct, pinned.into_iter().collect()))
}
