//! Input: [`Build`]s, each a tree of files whose GPU code is inside them or in `.kpack` archives.
//! Output: [`Fused`], one tree whose files have the code of all builds; `check` proves that they
//! do.
//!
//! The inverse of a split: host parts and archives become fat binaries again, and files of kernel
//! databases return to their original paths. Several builds of the same sources for different GPUs
//! become one.

pub mod builds;
mod check;
mod combine;
mod gather;
mod section;
pub mod wheels;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_content::Content;
use rocwheel_elf::PatchedContent;
use rocwheel_kpack::bundle::BundleForm;
use rocwheel_kpack::fatbin::{Format, Magic, NewWrapper, Replacement};
use rocwheel_progress::{Exit, Failure, Reporter, Unit};
use serde::Serialize;

use gather::{BuildPart, Origin};
use rocwheel_split::error::read_error;
use rocwheel_split::group::is_archive;
use rocwheel_split::verify::{self, Archives, Difference, Item, View};

pub use combine::{Binary, FusedBundle, FusedCode};
pub use write::{FusedOutput, write_directory, write_file};

/// One complete build: host files with the code for some GPUs, or with markers that lead to
/// archives.
pub struct Build {
    /// Its name in messages.
    pub name: String,
    /// Its files as installed.
    pub view: View,
}

#[derive(Debug, Serialize)]
pub struct Plan {
    /// The files with GPU code, sorted by path.
    pub binaries: Vec<Binary>,
    /// Archives that are no longer needed, sorted.
    pub archives: Vec<String>,
    /// The targets of all code, in numeric order.
    pub targets: Vec<String>,
    /// Archives that stay because they have code that no file asks for; sorted.
    pub kept: Vec<String>,
    pub notes: Vec<String>,
    /// Contradictions between the builds. With any, nothing can be fused.
    pub differences: Vec<Difference>,
    /// Wrappers for which no archive has code. With any, nothing is fused, unless
    /// [`Plan::allow_empty`] was called.
    pub missing: Vec<Difference>,
    /// Archives whose code is fused.
    #[serde(skip)]
    pub used: BTreeSet<String>,
    /// The index of the build that each path comes from.
    #[serde(skip)]
    pub(crate) owners: BTreeMap<String, usize>,
}

impl Plan {
    /// Number of code objects, and their total size in bytes.
    pub fn code(&self) -> (u64, u64) {
        let codes = self.binaries.iter().map(Binary::code);
        codes.fold((0, 0), |sum, code| (sum.0 + code.0, sum.1 + code.1))
    }

    /// Accepts bundles without code if no archive has any; they become notes.
    pub fn allow_empty(&mut self) {
        self.notes.extend(self.missing.drain(..).map(|missing| missing.to_string()));
    }
}

/// Makes the plan for `builds`.
///
/// # Errors
/// A file cannot be read, GPU code is malformed, or no archive has some code. Contradictions
/// between the builds are in [`Plan::differences`].
pub fn plan(builds: &[Build], reporter: &dyn Reporter) -> Result<Plan, Failure> {
    let mut plan = Plan {
        binaries: Vec::new(),
        archives: Vec::new(),
        targets: Vec::new(),
        kept: Vec::new(),
        notes: Vec::new(),
        differences: Vec::new(),
        missing: Vec::new(),
        used: BTreeSet::new(),
        owners: BTreeMap::new(),
    };
    for (number, build) in builds.iter().enumerate() {
        for (path, _) in build.view.items() {
            plan.owners.entry(path.to_owned()).or_insert(number);
        }
    }
    let archives: Vec<Archives<'_>> = builds.iter().map(|build| Archives::new(&build.view)).collect();
    // An unreadable archive is an error; it must not count as one without code.
    for (build, archives) in builds.iter().zip(&archives) {
        let paths: Vec<&str> = build.view.items().map(|(path, _)| path).filter(|path| is_archive(path)).collect();
        paths.par_iter().try_for_each(|path| archives.get(path).map(drop))?;
    }
    let paths: Vec<String> = plan.owners.keys().cloned().collect();
    let found = paths.par_iter().map(|path| {
        reporter.check()?;
        parts(builds, &archives, path)
    });
    let found: Vec<Vec<Option<BuildPart>>> = found.collect::<Result<_, _>>()?;
    for (path, parts) in paths.iter().zip(found) {
        combine_path(builds, path, parts, &mut plan)?;
    }
    plan.archives = used_up(builds, &archives, &mut plan)?;
    for archive in &plan.archives {
        plan.owners.remove(archive);
    }
    let entries = plan.binaries.iter().flat_map(|binary| &binary.bundles).flat_map(|bundle| &bundle.entries);
    let targets: BTreeSet<String> =
        entries.filter_map(|entry| rocwheel_tables::target::of_bundle_id(&entry.id)).map(str::to_owned).collect();
    plan.targets = targets.into_iter().collect();
    rocwheel_tables::target::sort(&mut plan.targets);
    Ok(plan)
}

/// A path in every build that has it as a file.
fn parts(builds: &[Build], archives: &[Archives<'_>], path: &str) -> Result<Vec<Option<BuildPart>>, Failure> {
    let parts = builds.iter().zip(archives).map(|(build, archives)| match build.view.file(path) {
        Some(content) if !is_archive(path) => BuildPart::read(&build.name, path, content, archives),
        _ => Ok(None),
    });
    parts.collect()
}

fn combine_path(builds: &[Build], path: &str, parts: Vec<Option<BuildPart>>, plan: &mut Plan) -> Result<(), Failure> {
    let with: Vec<&Build> = builds.iter().filter(|build| build.view.get(path).is_some()).collect();
    let parts: Vec<BuildPart> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        // Archives of one name may have code for different GPUs.
        for other in with.iter().skip(1).filter(|_| !is_archive(path)) {
            plan.differences.extend(different(path, with[0], other)?);
        }
        return Ok(());
    }
    if parts.len() < with.len() {
        let what = "has GPU code in one build and none in another";
        plan.differences.push(Difference::new(path, what));
        return Ok(());
    }
    plan.notes.extend(parts.iter().flat_map(|part| part.notes.clone()));
    let is_whole = parts.len() == 1 && parts[0].fat.wrappers.iter().all(|wrapper| wrapper.magic == Magic::Fat);
    if !is_whole {
        let binary = combine::combine(parts, &mut plan.differences, &mut plan.notes)?;
        plan.missing.extend(binary.iter().flat_map(Binary::missing));
        plan.binaries.extend(binary);
    }
    Ok(())
}

/// The difference of a path between two builds; `None` if there is none.
fn different(path: &str, one: &Build, other: &Build) -> Result<Option<Difference>, Failure> {
    let what = match (one.view.get(path), other.view.get(path)) {
        (Some(Item::Link { target }), Some(Item::Link { target: second })) => (target != second)
            .then(|| format!("is a link to `{target}` in {} and to `{second}` in {}", one.name, other.name)),
        (Some(Item::File { content, .. }), Some(Item::File { content: second, .. })) => {
            verify::first_difference(path, content.as_ref(), second.as_ref())?
                .map(|at| format!("differs at byte {at} between {} and {}", one.name, other.name))
        }
        _ => Some(format!("is a link in {} or in {}, and a file in the other", one.name, other.name)),
    };
    Ok(what.map(|what| Difference::new(path, what)))
}

/// The archives whose code is all in the plan. An archive with more code, or with none, stays.
fn used_up(builds: &[Build], archives: &[Archives<'_>], plan: &mut Plan) -> Result<Vec<String>, Failure> {
    let mut used: BTreeSet<(usize, &str, &str, Option<u32>, &str)> = BTreeSet::new();
    for binary in &plan.binaries {
        for (number, code) in binary.bundles.iter().flat_map(|bundle| &bundle.entries).flat_map(|entry| &entry.codes) {
            let build = builds.iter().position(|build| build.name == binary.parts[*number].build).unwrap_or(0);
            if let Origin::Archive { archive, name, index, target } = &code.origin {
                used.insert((build, &archive.path, name, Some(*index), target));
            }
        }
    }
    let (mut gone, mut left) = (BTreeSet::new(), BTreeSet::new());
    for (number, (build, archives)) in builds.iter().zip(archives).enumerate() {
        for (path, _) in build.view.items().filter(|(path, _)| is_archive(path)) {
            let Some(archive) = archives.get(path)? else { continue };
            let mut entries = archive.archive.entries();
            let is_needed = entries.len() == 0
                || entries.any(|entry| !used.contains(&(number, path, entry.name, entry.index, entry.target)));
            let _ = if is_needed { left.insert(path.to_owned()) } else { gone.insert(path.to_owned()) };
        }
    }
    let gone = gone.into_iter().filter(|path| !left.contains(path)).collect();
    plan.used = used.iter().map(|(_, path, ..)| (*path).to_owned()).collect();
    plan.kept = left.into_iter().collect();
    Ok(gone)
}

/// The result: files whose content is only read when they are written.
pub struct Fused {
    /// The files as installed.
    pub view: View,
    /// The files that have GPU code again, with their sizes.
    pub files: Vec<FusedFile>,
}

#[derive(Debug, Clone, Serialize)]
pub struct FusedFile {
    /// Path at which it is installed.
    pub path: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Size of its fat binary section in bytes.
    pub section: u64,
}

/// Puts the code into the files. Sections are kept in unlinked temporary files in `scratch`;
/// nothing else is written.
///
/// # Errors
/// The plan has differences, code is missing or does not belong together, two builds have different
/// code for one target, or a file cannot be read or edited.
pub fn fuse(
    plan: &Plan,
    builds: &[Build],
    form: BundleForm,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<Fused, Failure> {
    if let Some(first) = plan.differences.first() {
        let (count, path, why) = (plan.differences.len(), gather::shown(&first.path), &first.what);
        let text = format!("{count} of the builds' files are not the same, first `{path}`: {why}");
        let hint = "only builds of the same sources for different GPUs can become one";
        return Err(Failure::message(text).with_hint(hint));
    }
    if let Some(first) = plan.missing.first() {
        let text = format!("`{}` would have a bundle without code: {}", first.path, first.what);
        let hint = "give all archives that the file was split into, or allow bundles without code with `--allow-empty`";
        return Err(Failure::message(text).with_hint(hint));
    }
    let mut view = View::default();
    for (path, owner) in &plan.owners {
        if let Some(item) = builds[*owner].view.get(path) {
            view.insert(path, item.clone());
        }
    }
    let mut files = Vec::new();
    let stage = reporter.stage("Putting GPU code back", Some(plan.code().1), Unit::Bytes);
    for binary in &plan.binaries {
        let (content, section) = fuse_binary(binary, form, scratch, reporter)?;
        files.push(FusedFile { path: binary.path.clone(), size: content.size(), section });
        let executable = matches!(view.get(&binary.path), Some(Item::File { executable: true, .. }));
        view.insert(&binary.path, Item::File { content: Arc::new(content), executable });
    }
    drop(stage);
    check::check(plan, &view, reporter)?;
    Ok(Fused { view, files })
}

fn fuse_binary(
    binary: &Binary,
    form: BundleForm,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<(PatchedContent<Arc<dyn Content>>, u64), Failure> {
    let section = section::write(binary, form, scratch, reporter)?;
    let wrappers = binary.wrappers.iter().map(|bundle| NewWrapper {
        magic: Magic::Fat,
        pointer: section.bundles[*bundle],
        index: 0,
    });
    let part = &binary.parts[0];
    let replacement = Replacement { wrappers: wrappers.collect(), size: section.size, content: section.content };
    let reader = part.content.open().map_err(read_error(&binary.path))?;
    let patch = part.fat.replace(&reader, replacement);
    let try_compressed = part.fat.format == Format::Pe && form == BundleForm::Plain;
    let patch = patch.map_err(|error| {
        let attempt = format!("could not put the GPU code back into `{}`", binary.path);
        let failure = Failure::attempt(attempt)(error).with_exit(Exit::Failed);
        // A file for Windows has only its original room.
        let hint = "its code was compressed, and there is no room for more: add `--compress`";
        if try_compressed { failure.with_hint(hint) } else { failure }
    })?;
    Ok((PatchedContent::new(Arc::clone(&part.content), patch), section.size))
}

fn fuse_error(key: &str, why: &str) -> Failure {
    Failure::message(format!("cannot put the GPU code of `{key}` together: {why}"))
}
