//! Input: a version that must not be installed. Output: its files, and those of everything that
//! pins it, withdrawn (PEP 592).
//!
//! Withdrawing `rocm-sdk-core==V` alone would leave `rocm==V` to be chosen and then fail, so
//! packages that pin a withdrawn one are withdrawn too, and their pages change first.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::Version;
use pep508_rs::MarkerEnvironment;
use rocwheel_content::archive_path::parent;
use rocwheel_index::requirement::Requirement;
use rocwheel_progress::Reporter;
use rocwheel_store::Store;
use rocwheel_store::listing::{StoredDistribution, distributions};
use serde::Serialize;

use super::history::change_stream;
use super::manifest::SnapshotManifest;
use super::{Stream, StreamChange, StreamFault, Transition};
use crate::error::Error;
use crate::install_place::marker_environments;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YankRequest {
    /// The canonical name of the project.
    pub project: String,
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
pub fn yank(
    store: &dyn Store,
    request: &YankRequest,
    change: &StreamChange<'_>,
    reporter: &dyn Reporter,
) -> Result<YankedFiles, Error> {
    let shown = format!("{}=={}", request.project, request.version);
    change_stream(store, change, reporter, |stream| {
        let verb = if request.undo { "restore" } else { "yank" };
        let mut next = stream.next(change, format!("{verb} {shown}"));
        let pins = Pins::read(stream)?;
        let direct = pins.files(&request.project, &request.version);
        if direct.is_empty() {
            return Err(StreamFault::Nothing { what: format!("{} {}", request.project, request.version) }.into());
        }
        let reasons = if request.undo {
            let reasons = restored(&stream.manifest, &pins, &direct, request);
            for text in pins.still_withdrawn(&reasons) {
                reporter.warn(&text);
            }
            reasons
        } else {
            withdrawn(&stream.manifest, &pins, &direct, request)
        };
        let mut changed = YankedFiles::default();
        let mut has_changes = false;
        for (key, reason) in reasons {
            let Some(file) = next.files.get_mut(&key).filter(|file| file.yanked != reason) else { continue };
            has_changes = true;
            // One that stays withdrawn for another reason is not counted as restored.
            if !request.undo || reason.is_none() {
                let list = if direct.contains(&key) { &mut changed.files } else { &mut changed.pinned };
                list.push(key);
            }
            file.yanked = reason;
        }
        if change.write && has_changes {
            stream.commit(Transition { manifest: next, sets: BTreeMap::new() }, change.keys, reporter)?;
        }
        Ok(changed)
    })
}

/// The new reasons of files, by key; `None` for one that is not withdrawn any more.
type Reasons = BTreeMap<String, Option<String>>;

/// The reasons after a withdrawal. What was withdrawn for another reason keeps that.
fn withdrawn(manifest: &SnapshotManifest, pins: &Pins, direct: &BTreeSet<String>, request: &YankRequest) -> Reasons {
    let this = (request.project.clone(), request.version.clone());
    let mark = because_of(&request.project, &request.version, &request.reason);
    let mut pinned = pins.dependants(&request.project, &request.version);
    pinned.retain(|key| {
        let now = manifest.files.get(key).and_then(|file| file.yanked.as_ref());
        now.is_none_or(|now| cause(now).as_ref() == Some(&this))
    });
    let mut reasons: Reasons = pinned.into_iter().map(|key| (key, Some(mark.clone()))).collect();
    reasons.extend(direct.iter().map(|key| (key.clone(), Some(request.reason.clone()))));
    reasons
}

/// The reasons after a withdrawal was taken back. What pins another withdrawn version stays
/// withdrawn, because of that.
fn restored(manifest: &SnapshotManifest, pins: &Pins, direct: &BTreeSet<String>, request: &YankRequest) -> Reasons {
    let this = (request.project.clone(), request.version.clone());
    let (mut reasons, mut others) = (Reasons::new(), BTreeMap::new());
    for one in &pins.listed {
        let key = &one.file.key;
        let Some(reason) = manifest.files.get(key).and_then(|file| file.yanked.as_ref()) else { continue };
        let cause = cause(reason);
        if direct.contains(key) || cause.as_ref() == Some(&this) {
            reasons.insert(key.clone(), None);
        } else if cause.is_none() {
            others.insert((&one.project, &one.version), reason);
        }
    }
    for ((project, version), reason) in others {
        for key in pins.dependants(project, version) {
            if let Some(new) = reasons.get_mut(&key) {
                new.get_or_insert_with(|| because_of(project, version, reason));
            }
        }
    }
    reasons
}

fn because_of(project: &str, version: &Version, reason: &str) -> String {
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("it requires {project}=={version}, which was withdrawn{because}")
}

/// The withdrawn version that a reason of [`because_of`] names; `None` for another reason: the file
/// was withdrawn itself.
fn cause(reason: &str) -> Option<(String, Version)> {
    let (pin, because) = reason.strip_prefix("it requires ")?.split_once(", which was withdrawn")?;
    let (project, version) = pin.split_once("==").filter(|_| because.is_empty() || because.starts_with(": "))?;
    Some((project.to_owned(), version.parse().ok()?))
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

/// The listed files, and what they require.
struct Pins {
    listed: Vec<StoredDistribution>,
    requirements: BTreeMap<String, Vec<Requirement>>,
    /// Those in which a requirement counts.
    environments: Vec<MarkerEnvironment>,
}

impl Pins {
    fn read(stream: &Stream<'_>) -> Result<Pins, Error> {
        let listed = distributions(stream.manifest.files.keys());
        let environments = marker_environments(&listed);
        Ok(Pins { requirements: requirements(stream)?, listed, environments })
    }

    /// Keys of the files of a version.
    fn files(&self, project: &str, version: &Version) -> BTreeSet<String> {
        let files = self.listed.iter().filter(|one| one.project == project && one.version == *version);
        files.map(|one| one.file.key.clone()).collect()
    }

    /// Keys of the files of other projects that pin a version, directly or through others.
    fn dependants(&self, project: &str, version: &Version) -> BTreeSet<String> {
        let versions: BTreeMap<&str, &Version> =
            self.listed.iter().map(|one| (one.file.key.as_str(), &one.version)).collect();
        let none = BTreeSet::new();
        let mut seen = BTreeSet::from([(project.to_owned(), version.clone())]);
        let mut open = vec![(project.to_owned(), version.clone())];
        let mut pinned = BTreeSet::new();
        while let Some((name, version)) = open.pop() {
            for (key, requirements) in &self.requirements {
                // A package can be installed without the extras that need a withdrawn one.
                let is_pinned = requirements.iter().any(|one| {
                    one.name == name
                        && one.pins()
                        && one.accepts(&version)
                        && self.environments.iter().any(|markers| one.applies_in(markers, &none))
                });
                let Some(of) = versions.get(key.as_str()).filter(|_| is_pinned) else { continue };
                let dependant = (parent(key).to_owned(), (*of).clone());
                if dependant.0 != project {
                    pinned.insert(key.clone());
                }
                if seen.insert(dependant.clone()) {
                    open.push(dependant);
                }
            }
        }
        pinned
    }

    /// A warning for each version that stays withdrawn.
    fn still_withdrawn(&self, reasons: &Reasons) -> BTreeSet<String> {
        let warnings = self.listed.iter().filter_map(|one| {
            let reason = reasons.get(&one.file.key)?.as_ref()?;
            Some(format!("{}=={} stays withdrawn: {reason}", one.project, one.version))
        });
        warnings.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_its_cause() {
        let version: Version = "2.0+rocm7".parse().unwrap();
        for reason in ["", "loses data: all, which was withdrawn"] {
            let found = cause(&because_of("beta", &version, reason));
            assert_eq!(found, Some(("beta".to_owned(), version.clone())), "{reason}");
        }
        for reason in ["", "loses data", "it requires beta==2.0", "it requires beta==2.0, which was withdrawn upstream"]
        {
            assert_eq!(cause(reason), None, "{reason}");
        }
    }
}
