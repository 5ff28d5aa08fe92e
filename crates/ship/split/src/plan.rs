//! Input: files with GPU code. Output: a [`Plan`], which lists the archives, their contents, and
//! the archive that each wrapper of each file will refer to. Only headers and entry tables are
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_content::Content;
use rocwheel_kpack::bundle::{Checksum, Limits};
use rocwheel_kpack::fatbin::{FatBinary, Magic, Points};
use rocwheel_progress::{Failure, Reporter};
use rocwheel_tables::target;
use serde::Serialize;

use crate::error::{gpu_code_error, read_error};
use crate::group::{self, TargetNames, TargetSelection, TargetSet};

/// A file that may hold GPU code.
#[derive(Clone)]
pub struct CandidateFile {
    /// Path of the file, separated by `/`, unique in the input. The runtime looks code objects up
    /// under this name.
    pub key: String,
    pub content: Arc<dyn Content>,
    /// The directory of the archives relative to the directory of the installed file: `../.kpack`.
    pub archives: String,
}

impl CandidateFile {
    /// Creates the unit of a file that will be installed at `path`, with its archives in the
    /// directory `archives`. Both are relative to the same root and separated by `/`.
    pub fn new(key: impl Into<String>, content: Arc<dyn Content>, path: &str, archives: &str) -> Self {
        Self { key: key.into(), content, archives: relative(path, archives) }
    }
}

/// Returns the relative path from the directory that holds `file` to `directory`.
fn relative(file: &str, directory: &str) -> String {
    let mut from: Vec<&str> = file.split('/').collect();
    from.pop();
    let to: Vec<&str> = directory.split('/').collect();
    let shared = from.iter().zip(&to).take_while(|(left, right)| left == right).count();
    let up = vec![".."; from.len() - shared];
    [up.as_slice(), &to[shared..]].concat().join("/")
}

#[derive(Debug, Clone)]
pub struct Options {
    /// First part of the names of all archives.
    pub group: String,
    pub selection: TargetSelection,
    pub names: TargetNames,
    /// `Compare` checks compressed bundles against their checksums. For files from an archive that
    /// has checksums itself, this would be a second check.
    pub checksum: Checksum,
}

/// The work of [`crate::execute`]. The order of all lists follows from the input alone.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// First part of the names of all archives.
    pub group: String,
    /// The sets of targets of the bundles, most common set first.
    pub sets: Vec<TargetSet>,
    /// The files to be changed, sorted by key.
    pub binaries: Vec<PlannedBinary>,
    /// The archives, in the order of the sets, then by target.
    pub archives: Vec<PlannedKpack>,
    /// Files with GPU code that stay unchanged, sorted by key.
    pub left_alone: Vec<LeftAlone>,
    /// All targets of the changed files, selected or not, in numeric order.
    pub targets: Vec<String>,
    #[serde(skip)]
    pub(crate) selection: TargetSelection,
    #[serde(skip)]
    pub(crate) checksum: Checksum,
}

/// A file whose GPU code is moved to archives.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedBinary {
    pub key: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Size of its fat binary section in bytes.
    pub section: u64,
    /// Its bundles, in the order of the section.
    pub bundles: Vec<PlannedBundle>,
    /// For each wrapper, the index of the bundle that it points to.
    pub wrappers: Vec<usize>,
    #[serde(skip)]
    pub(crate) unit: usize,
    #[serde(skip)]
    pub(crate) fat: Arc<FatBinary>,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedBundle {
    /// Index into [`Plan::sets`].
    pub set: usize,
    /// Number of code objects that are moved to archives.
    pub code_objects: u64,
    /// Decompressed size of these code objects in bytes.
    pub bytes: u64,
    /// `true` if the bundle is compressed in the input.
    pub compressed: bool,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedKpack {
    pub name: String,
    /// Index into [`Plan::sets`].
    pub set: usize,
    /// The target in the name: the base target, or the target with its features.
    pub family: String,
    /// The targets of its code objects, with features, in numeric order.
    pub targets: Vec<String>,
    pub code_objects: u64,
    /// Size of the code objects in bytes, before compression.
    pub bytes: u64,
}

impl PlannedKpack {
    /// Returns the base target that all targets of the archive are variants of.
    pub fn base_target(&self) -> &str {
        target::base_target(&self.family)
    }
}

/// A file with GPU code that stays unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftAlone {
    pub key: String,
    pub reason: UnchangedReason,
}

/// The reason why a file with GPU code stays unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnchangedReason {
    /// No wrapper registers the code with the runtime: the program loads it by itself.
    NoWrappers,
    /// All code is in archives already.
    AlreadySplit,
    /// Some wrappers refer to archives, others do not.
    HalfSplit,
    /// A wrapper does not point to a bundle of the section.
    Elsewhere { wrapper: usize },
    /// A bundle has code, but no wrapper points to it: something else may read it.
    Unreached { bundle: usize },
}

impl fmt::Display for UnchangedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWrappers => {
                formatter.write_str("no wrapper registers its GPU code, so the program loads it by itself")
            }
            Self::AlreadySplit => formatter.write_str("its GPU code is in archives already"),
            Self::HalfSplit => formatter.write_str("some of its GPU code is in archives already, some is not"),
            Self::Elsewhere { wrapper } => write!(formatter, "wrapper {wrapper} points to no bundle"),
            Self::Unreached { bundle } => {
                write!(formatter, "no wrapper points to bundle {bundle}, so something else may read it")
            }
        }
    }
}

/// Returns the index of the bundle of each wrapper, or the reason why the file must stay unchanged.
pub fn wrappers(fat: &FatBinary) -> Result<Vec<usize>, UnchangedReason> {
    if fat.wrappers.is_empty() {
        return Err(UnchangedReason::NoWrappers);
    }
    let split = fat.wrappers.iter().filter(|wrapper| wrapper.magic == Magic::Kpacked).count();
    if split == fat.wrappers.len() {
        return Err(UnchangedReason::AlreadySplit);
    }
    if split > 0 {
        return Err(UnchangedReason::HalfSplit);
    }
    let bundles = fat.wrappers.iter().enumerate().map(|(wrapper, found)| match found.points {
        Points::Bundle(bundle) => Ok(bundle),
        _ => Err(UnchangedReason::Elsewhere { wrapper }),
    });
    let bundles: Vec<usize> = bundles.collect::<Result<_, _>>()?;
    let reached: BTreeSet<usize> = bundles.iter().copied().collect();
    let mut unreached = fat.bundles.iter().enumerate().filter(|(index, _)| !reached.contains(index));
    match unreached.find(|(_, bundle)| bundle.entries.iter().any(rocwheel_kpack::BundleEntry::has_code)) {
        Some((bundle, _)) => Err(UnchangedReason::Unreached { bundle }),
        None => Ok(bundles),
    }
}

/// Returns the targets that a bundle has code for.
///
/// # Errors
/// Code without a target, two code objects for one target, a target that cannot be part of a file
/// name.
fn bundle_targets(key: &str, index: usize, bundle: &rocwheel_kpack::Bundle) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    for entry in bundle.entries.iter().filter(|entry| entry.has_code()) {
        let Some(target) = entry.target() else {
            let (id, size) = (&entry.id, entry.size);
            let what = format!("has {size} bytes of code under `{id}`, which names no GPU target");
            return Err(Failure::message(format!("bundle {index} of `{key}` {what}")));
        };
        group::check_target_name(key, target)?;
        let limit = Limits::default().code_object;
        if entry.size > limit {
            let what = format!("claims {} bytes of code for {target}; up to {limit} are taken", entry.size);
            return Err(Failure::message(format!("bundle {index} of `{key}` {what}")));
        }
        if !found.insert(target.to_owned()) {
            return Err(Failure::message(format!("bundle {index} of `{key}` has two code objects for `{target}`")));
        }
    }
    Ok(found)
}

/// Plans the split of `units`. Files without GPU code are not in the plan.
///
/// Target sets are formed before the selection is applied, so the host files do not depend on it.
///
/// # Errors
/// Malformed GPU code, two units with one key, or a selection that matches no target of the files.
pub fn plan(units: &[CandidateFile], options: &Options, reporter: &dyn Reporter) -> Result<Plan, Failure> {
    let plan = plan_any(units, options, reporter)?;
    if plan.archives.is_empty() && !plan.targets.is_empty() {
        return Err(nothing_selected(&options.selection, &plan.targets));
    }
    Ok(plan)
}

pub(crate) fn nothing_selected(selection: &TargetSelection, found: &[String]) -> Failure {
    let wanted = selection.targets().unwrap_or_default().join(", ");
    let found = found.join(", ");
    Failure::message(format!("there is no GPU code for {wanted}: the input has code for {found}"))
        .with_hint("`rocwheel kernels` shows what is in a file")
}

pub(crate) fn given_twice(key: &str) -> Failure {
    Failure::message(format!("`{key}` is given twice"))
}

/// Like [`plan`], but the selection may match nothing.
pub(crate) fn plan_any(units: &[CandidateFile], options: &Options, reporter: &dyn Reporter) -> Result<Plan, Failure> {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by(|left, right| units[*left].key.cmp(&units[*right].key));
    if let Some(pair) = order.windows(2).find(|pair| units[pair[0]].key == units[pair[1]].key) {
        return Err(given_twice(&units[pair[0]].key));
    }
    let fats = order.par_iter().map(|unit| {
        reporter.check()?;
        read_unit(&units[*unit])
    });
    let fats: Vec<Option<FatBinary>> = fats.collect::<Result<_, _>>()?;
    let mut plan = Plan {
        group: options.group.clone(),
        sets: Vec::new(),
        binaries: Vec::new(),
        archives: Vec::new(),
        left_alone: Vec::new(),
        targets: Vec::new(),
        selection: options.selection.clone(),
        checksum: options.checksum,
    };
    let mut bundles = Vec::new();
    for (unit, fat) in order.iter().zip(fats) {
        let Some(fat) = fat else { continue };
        let key = units[*unit].key.clone();
        match wrappers(&fat) {
            Err(reason) => plan.left_alone.push(LeftAlone { key, reason }),
            Ok(wrappers) => {
                for (index, bundle) in fat.bundles.iter().enumerate() {
                    bundles.push(bundle_targets(&key, index, bundle)?);
                }
                let planned = fat.bundles.iter().map(|bundle| planned_bundle(bundle, &options.selection)).collect();
                let (size, section) = (units[*unit].content.size(), fat.section.end - fat.section.start);
                let fat = Arc::new(fat);
                plan.binaries.push(PlannedBinary { key, size, section, bundles: planned, wrappers, unit: *unit, fat });
            }
        }
    }
    let (sets, assigned) = group::group(&options.group, &bundles);
    let planned = plan.binaries.iter_mut().flat_map(|binary| &mut binary.bundles);
    planned.zip(assigned).for_each(|(bundle, set)| bundle.set = set);
    plan.targets = bundles.into_iter().flatten().collect();
    target::sort(&mut plan.targets);
    plan.sets = sets;
    plan.archives = archives(&plan, options.names);
    Ok(plan)
}

fn read_unit(unit: &CandidateFile) -> Result<Option<FatBinary>, Failure> {
    let reader = unit.content.open().map_err(read_error(&unit.key))?;
    FatBinary::read(&reader, unit.content.size()).map_err(gpu_code_error(&unit.key))
}

fn planned_bundle(bundle: &rocwheel_kpack::Bundle, selection: &TargetSelection) -> PlannedBundle {
    let kept = bundle.entries.iter().filter(|entry| is_kept(entry, selection));
    let sizes: Vec<u64> = kept.map(|entry| entry.size).collect();
    let (code_objects, bytes) = (sizes.len() as u64, sizes.iter().sum());
    PlannedBundle { set: 0, code_objects, bytes, compressed: bundle.compression.is_some() }
}

/// `true` if an entry is moved to an archive.
pub(crate) fn is_kept(entry: &rocwheel_kpack::BundleEntry, selection: &TargetSelection) -> bool {
    entry.has_code() && entry.target().is_some_and(|target| selection.takes(target))
}

fn archives(plan: &Plan, names: TargetNames) -> Vec<PlannedKpack> {
    let mut archives: Vec<PlannedKpack> = Vec::new();
    let mut places: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for (set_index, set) in plan.sets.iter().enumerate() {
        for target in set.targets.iter().filter(|target| plan.selection.takes(target)) {
            let family = names.in_file_name(target);
            let place = *places.entry((set_index, family)).or_insert_with(|| {
                archives.push(PlannedKpack {
                    name: set.archive_name(target, names),
                    set: set_index,
                    family: family.to_owned(),
                    targets: Vec::new(),
                    code_objects: 0,
                    bytes: 0,
                });
                archives.len() - 1
            });
            archives[place].targets.push(target.clone());
        }
    }
    for binary in &plan.binaries {
        for (bundle, planned) in binary.fat.bundles.iter().zip(&binary.bundles) {
            for entry in bundle.entries.iter().filter(|entry| is_kept(entry, &plan.selection)) {
                let Some(target) = entry.target() else { continue };
                let archive = &mut archives[places[&(planned.set, names.in_file_name(target))]];
                archive.code_objects += 1;
                archive.bytes += entry.size;
            }
        }
    }
    archives
}

impl Plan {
    /// Returns the index of the archive that holds code for `target` in a set.
    pub(crate) fn archive_of(&self, set: usize, target: &str) -> Option<usize> {
        self.archives.iter().position(|archive| archive.set == set && archive.targets.iter().any(|held| held == target))
    }

    /// Returns the number of code objects that are moved to archives, and their bytes before
    /// compression.
    pub fn code(&self) -> (u64, u64) {
        let count = self.archives.iter().map(|archive| archive.code_objects).sum();
        (count, self.archives.iter().map(|archive| archive.bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_found_from_the_directory_of_the_file() {
        assert_eq!(relative("lib/x.so", ".kpack"), "../.kpack");
        assert_eq!(relative("x.so", ".kpack"), ".kpack");
        assert_eq!(relative("torch/lib/x.so", "torch/.kpack"), "../.kpack");
        assert_eq!(relative("pkg.libs/x.so", "pkg/.kpack"), "../pkg/.kpack");
        assert_eq!(relative("a/b/c/x.so", "a/.kpack"), "../../.kpack");
        assert_eq!(relative(".kpack/x.so", ".kpack"), "");
    }
}
