//! Input: wheels and source distributions that are installed together. Output: the GPUs, Pythons
//! and systems that they promise.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_index::requirement::{InstallTarget, Requirement};
use rocwheel_index::tags;
use rocwheel_tables::TargetTable;
use rocwheel_wheel::{Platform, PythonVersion, canonical_name};

use crate::evidence::{served_by, target_of};
use crate::overlay::LocalFile;
use crate::question::parsed;
use crate::system::System;

/// The minor versions of Python 3 that a set without a tag for some is for.
const PYTHONS: std::ops::RangeInclusive<u16> = 10..=14;

/// A package that is asked for, and where.
pub(crate) struct Promise<'a> {
    pub(crate) root: &'a LocalFile,
    pub(crate) gpu: Option<String>,
    pub(crate) python: PythonVersion,
    pub(crate) system: System,
}

impl Promise<'_> {
    pub(crate) fn target(&self) -> InstallTarget {
        target(self.python, &self.system)
    }
}

/// The packages that no other requires, for each GPU that they promise, with the oldest and the
/// newest Python and system; `left_out` gets what is not asked about.
pub(crate) fn promises<'a>(
    files: &'a [LocalFile],
    python: Option<PythonVersion>,
    systems: &[System],
    left_out: &mut Vec<String>,
) -> Vec<Promise<'a>> {
    let mut required: BTreeSet<String> = BTreeSet::new();
    for file in files {
        required.extend(requirements(file).map(|requirement| requirement.name).filter(|name| *name != file.name));
    }
    let is_required = files.iter().all(|file| required.contains(&file.name));
    let mut roots: BTreeMap<(&str, String), Vec<&LocalFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_required || !required.contains(&file.name)) {
        roots.entry((&file.name, file.version.to_string())).or_default().push(file);
    }
    let mut asked = Vec::new();
    for own in roots.into_values() {
        let root = own[0];
        let places = places(&own, files, python, systems);
        if places.is_empty() {
            left_out.push(format!("`{}`, which is for no Python and system that is asked about", root.file));
        }
        let mut gpus: Vec<Option<String>> = gpus(root, files, left_out).into_iter().map(Some).collect();
        if gpus.is_empty() {
            left_out.push(format!("GPUs of `{}`: its METADATA names none", root.name));
            gpus.push(None);
        }
        for gpu in gpus {
            let all = places.iter().cloned();
            asked.extend(all.map(|(python, system)| Promise { root, gpu: gpu.clone(), python, system }));
        }
    }
    asked
}

/// The oldest and the newest Python on the oldest and the newest system, for Linux and Windows.
fn places(
    own: &[&LocalFile],
    all: &[LocalFile],
    python: Option<PythonVersion>,
    systems: &[System],
) -> Vec<(PythonVersion, System)> {
    let minors = [compiled(own.iter().copied()), compiled(all), PYTHONS.collect()];
    let minors = minors.into_iter().find(|minors| !minors.is_empty()).unwrap_or_default();
    let pythons = minors.into_iter().map(|minor| PythonVersion { major: 3, minor, free_threaded: false });
    let pythons: Vec<PythonVersion> = python.map_or_else(|| pythons.collect(), |python| vec![python]);
    let mut found = Vec::new();
    for platform in [Platform::Linux, Platform::Windows] {
        // A set for Windows has packages for any system too.
        if !has_wheels(all, platform) && (has_wheels(all, platform.other()) || platform == Platform::Windows) {
            continue;
        }
        let mut fitting = Vec::new();
        for system in systems.iter().filter(|system| system.glibc.is_some() == (platform == Platform::Linux)) {
            let here = pythons.iter().filter(|python| own.iter().any(|file| fits(file, &target(**python, system))));
            fitting.extend(here.map(|python| (*python, system.clone())));
        }
        let (oldest, newest) = (fitting.iter().map(|one| one.0).min(), fitting.iter().map(|one| one.0).max());
        let ends = [fitting.first(), fitting.last()].map(|end| end.and_then(|(_, system)| system.glibc));
        fitting.retain(|(python, system)| [oldest, newest].contains(&Some(*python)) && ends.contains(&system.glibc));
        found.extend(fitting);
    }
    found
}

fn has_wheels(all: &[LocalFile], platform: Platform) -> bool {
    all.iter().filter_map(|file| file.wheel.as_ref()).any(|wheel| platform.is_all_of(&wheel.platforms))
}

/// A GPU for each target that a package promises: by its name, its extras and its requirements, or
/// else by the packages beside it.
fn gpus(root: &LocalFile, all: &[LocalFile], left_out: &mut Vec<String>) -> BTreeSet<String> {
    let mut promised: BTreeSet<String> = target_of(&root.name).map(str::to_owned).into_iter().collect();
    promised.extend(root.headers.all("Provides-Extra").iter().filter_map(|extra| device(extra)));
    for requirement in requirements(root) {
        promised.extend(target_of(&requirement.name).map(str::to_owned));
        promised.extend(requirement.extras.iter().filter_map(|extra| device(extra)));
    }
    promised.remove("all");
    if promised.is_empty() {
        promised.extend(all.iter().filter_map(|file| target_of(&file.name)).map(str::to_owned));
    }
    let table = TargetTable::embedded();
    let known: Vec<&str> = table.targets().iter().map(|target| target.name.as_str()).collect();
    let mut found = BTreeSet::new();
    for promise in promised {
        let own = known.iter().find(|target| **target == promise);
        match own.or_else(|| known.iter().find(|target| served_by(target).contains(&promise))) {
            Some(gpu) => _ = found.insert((*gpu).to_owned()),
            None => left_out.push(format!("`{promise}` of `{}`, which is no GPU of the table of targets", root.name)),
        }
    }
    found
}

fn requirements(file: &LocalFile) -> impl Iterator<Item = Requirement> {
    file.headers.all("Requires-Dist").into_iter().filter_map(|text| parsed(&text).ok())
}

/// `gfx942` of the extra `device-gfx942`.
fn device(extra: &str) -> Option<String> {
    canonical_name(extra).strip_prefix("device-").map(str::to_owned)
}

/// The minor versions of Python that wheels are compiled for, up to the newest for the stable ABI.
fn compiled<'f>(files: impl IntoIterator<Item = &'f LocalFile>) -> BTreeSet<u16> {
    let mut found = BTreeSet::new();
    for wheel in files.into_iter().filter_map(|file| file.wheel.as_ref()) {
        let own = wheel.pythons.iter().filter_map(|tag| tag.strip_prefix("cp3")?.parse::<u16>().ok());
        let is_stable = wheel.abis.iter().any(|abi| abi == "abi3");
        found.extend(own.flat_map(|minor| minor..=if is_stable { *PYTHONS.end() } else { minor }));
    }
    found
}

fn target(python: PythonVersion, system: &System) -> InstallTarget {
    let platform = if system.glibc.is_some() { Platform::Linux } else { Platform::Windows };
    InstallTarget { python, platform, glibc: system.glibc }
}

fn fits(file: &LocalFile, target: &InstallTarget) -> bool {
    let python = file.headers.get("Requires-Python").and_then(|text| text.parse::<pep440_rs::VersionSpecifiers>().ok());
    python.is_none_or(|python| python.contains(&target.full_version()))
        && file.wheel.as_ref().is_none_or(|wheel| tags::rank(target, wheel).is_some())
}
