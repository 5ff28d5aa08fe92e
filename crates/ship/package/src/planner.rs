//! Input: a request and a catalog. Output: a [`Plan`]. Reads names, sizes and ELF headers; writes
//! nothing.

mod assemble;
mod completeness;
mod systems;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_artifact::{Catalog, EntryKind, Manifest};
use rocwheel_progress::{Exit, Failure, Reporter, Unit, counted, in_backticks};
use rocwheel_tables::target::{self, base_target};
use rocwheel_tables::{DlopenTable, Pattern, TargetTable};
use rocwheel_wheel::Platform;
use rocwheel_wheel::manylinux;

use crate::contents::Tools;
use crate::devel::{DevelEntry, DevelTree};
use crate::imported::Imported;
use crate::inspect::Natures;
use crate::licenses::Licenses;
use crate::plan::ShapeReason;
use crate::plan::{LeftOut, Plan};
use crate::populate::{FileSource, Input, Note, PlannedFile, Population};
use crate::request::{Incompletes, Request, Shape, Unclaimed, Unsupported};
use crate::rules::Rules;
use crate::search_path::{AbsentLibrary, Dropped, SearchPaths};
use crate::select::ArtifactSelection;
use crate::size;
use crate::templates::Templates;
use crate::tree::Tree;
use crate::{Logical, dll_imports, system};
pub use completeness::IncompleteSet;
use completeness::Problem;

/// Plans the packages that `request` makes of `catalog`, which holds artifacts for one system.
///
/// # Errors
/// Everything that would make the set wrong is found here, before anything is written: missing
/// targets, libraries that nothing provides, one path with two contents, a version that pip does
/// not accept. With [`Incompletes::Drop`], incomplete packages are skipped instead, as long as core
/// is complete.
pub fn plan(request: &Request, catalog: &Catalog, reporter: &dyn Reporter) -> Result<Plan, Failure> {
    publishable(request, |request| {
        let place = Place { artifacts: &request.artifacts, catalog, system: request.system };
        systems::make(vec![Planner::new(request, place, reporter)?])
    })
}

/// Makes a plan and looks for wheels that are too large to publish. An imported set whose manifest
/// means [`Shape::Fat`] is planned again as [`Shape::Split`] if that takes kernels out of them.
fn publishable(request: &Request, make: impl Fn(&Request) -> Result<Plan, Failure>) -> Result<Plan, Failure> {
    let mut plan = make(request)?;
    plan.too_large = size::larger_than(request.largest_wheel, &plan.wheels)?;
    let Some(largest) = plan.too_large.iter().max_by_key(|large| large.bytes).cloned() else { return Ok(plan) };
    if request.shape.is_some() || plan.shape != Shape::Fat || plan.targets.is_empty() {
        return Ok(plan);
    }
    let mut split = make(&Request { shape: Some(Shape::Split), ..request.clone() })?;
    split.too_large = size::larger_than(request.largest_wheel, &split.wheels)?;
    split.shape_reason = Some(ShapeReason { instead_of: largest, limit: request.largest_wheel });
    Ok(split)
}

/// Like [`plan`], for artifacts for Linux and artifacts for Windows: packages for both, and one
/// selector for all of them.
pub fn plan_both(request: &Request, [linux, windows]: [&Catalog; 2], reporter: &dyn Reporter) -> Result<Plan, Failure> {
    let windows_artifacts = request.windows_artifacts.as_ref().unwrap_or(&request.artifacts);
    let linux = Place { artifacts: &request.artifacts, catalog: linux, system: Some(Platform::Linux) };
    let windows = Place { artifacts: windows_artifacts, catalog: windows, system: Some(Platform::Windows) };
    let mut plan =
        systems::make(vec![Planner::new(request, linux, reporter)?, Planner::new(request, windows, reporter)?])?;
    plan.too_large = size::larger_than(request.largest_wheel, &plan.wheels)?;
    Ok(plan)
}

#[derive(Clone, Copy)]
struct Place<'a> {
    artifacts: &'a Path,
    catalog: &'a Catalog,
    /// The system that the artifacts are for; `None` determines it from the files.
    system: Option<Platform>,
}

/// Returns the shape of the artifacts: an import records it, a TheRock build sets a flag.
fn shape_of(manifest: &Manifest, imported: Option<&Imported>) -> Shape {
    // Artifacts that were imported as fat may have been split since.
    match imported.and_then(|imported| imported.shape.as_deref()) {
        _ if manifest.is_split() => Shape::Split,
        Some("fat") => Shape::Fat,
        _ => Shape::PerFamily,
    }
}

/// Returns the targets (or families) to package, the requested ones or else all that the artifacts
/// hold, in numeric order. The second list has the requested ones that are missing and may be
/// skipped.
fn targets(
    asked: &[String],
    incompletes: Incompletes,
    catalog: &Catalog,
    shape: Shape,
) -> Result<(Vec<String>, Vec<String>), Failure> {
    let per_target = catalog.artifacts.iter().map(|artifact| &artifact.name).filter(|name| !name.is_generic());
    let mut present: Vec<String> = per_target.map(|name| name.base_target().to_owned()).collect();
    target::sort(&mut present);
    present.dedup();
    if asked.is_empty() {
        return Ok((present, Vec::new()));
    }
    let wanted = expand(asked, shape, &present)?;
    let (there, missing): (Vec<String>, Vec<String>) = wanted.into_iter().partition(|target| present.contains(target));
    // A set without any of its targets has nothing that was requested.
    let may_miss = incompletes == Incompletes::Drop && !there.is_empty();
    if missing.is_empty() || may_miss {
        return Ok((there, missing));
    }
    let failure = Failure::message(format!("no artifact holds code for {}", missing.join(", ")));
    Err(failure.with_hint(if present.is_empty() {
        "no artifact is for a target: fetch the missing ones, or ask for no target".to_owned()
    } else {
        format!("fetch the missing artifacts, or ask only for existing targets: {}", present.join(","))
    }))
}

/// Expands lists to targets, or to families in the per-family shape; in numeric order.
fn expand(lists: &[String], shape: Shape, present: &[String]) -> Result<Vec<String>, Failure> {
    let list = lists.join(",");
    let mut names: Vec<String> = if shape == Shape::PerFamily {
        let names = list.split([';', ',']).map(str::trim).filter(|name| !name.is_empty());
        names.map(|name| base_target(name).to_owned()).collect()
    } else {
        let expanded = TargetTable::embedded().expand_with(&list, present)?;
        expanded.iter().map(|target| base_target(target).to_owned()).collect()
    };
    target::sort(&mut names);
    names.dedup();
    // A portable target has no device package, and needs none.
    let table = TargetTable::embedded();
    names.retain(|name| present.contains(name) || !table.members(name).iter().any(|target| table.is_portable(target)));
    Ok(names)
}

fn natures(catalog: &Catalog, reporter: &dyn Reporter) -> Result<Natures, Failure> {
    let files: Vec<(PathBuf, bool)> = catalog
        .artifacts
        .iter()
        .flat_map(|artifact| artifact.entries.iter().map(move |entry| (artifact, entry)))
        .filter_map(|(artifact, entry)| match entry.kind {
            EntryKind::File { executable, .. } => {
                Some((artifact.root.join(&artifact.basedirs[entry.basedir]).join(&entry.path), executable))
            }
            _ => None,
        })
        .collect();
    let _stage = reporter.stage("Reading headers", Some(files.len() as u64), Unit::Items);
    Natures::read(&files, reporter)
}

struct Planner<'a> {
    request: &'a Request,
    artifacts: &'a Path,
    catalog: &'a Catalog,
    system: Platform,
    shape: Shape,
    rules: Rules,
    tools: Tools,
    dlopen: &'static DlopenTable,
    natures: Natures,
    licenses: Licenses,
    /// `true` if the artifacts come from an import.
    is_imported: bool,
    /// Libraries that may be missing, according to this request or the import.
    allowed: BTreeSet<String>,
    targets: Vec<String>,
    /// Targets (or families) that another run packages for the other system; in numeric order.
    elsewhere: Vec<String>,
    templates: Arc<Templates>,
    /// Distributions that are skipped because they are incomplete.
    dropped: BTreeSet<Logical>,
    /// Packages that are skipped, with the things they lack.
    incomplete: BTreeMap<String, BTreeSet<(String, Option<AbsentLibrary>)>>,
    version: String,
}

const GIVE_VERSION: &str = "give one such as `7.1.0` or `7.1.0a20261121` with --version";

/// The version of the request or of the manifest does not conform to PEP 440, or not in its form.
fn wrong_version(request: &Request, version: &str, artifacts: &Path) -> Failure {
    if request.version.is_none() {
        let artifacts = artifacts.display();
        let what = format!("names version `{version}`, which pip does not accept (PEP 440)");
        return Failure::message(format!("the manifest of `{artifacts}` {what}")).with_hint(
            "set the packages' version with --version, or correct `rocm_package_version` in therock_manifest.json",
        );
    }
    let failure = match version.parse::<pep440_rs::Version>() {
        Ok(canonical) => Failure::message(format!("`{version}` is not how installers write this version (PEP 440)"))
            .with_hint(format!("give it as `--version {canonical}`")),
        Err(_) => {
            Failure::message(format!("`{version}` is not a version that pip accepts (PEP 440)")).with_hint(GIVE_VERSION)
        }
    };
    failure.with_exit(Exit::Usage)
}

fn empty_target(target: &str, artifacts: &[String]) -> Failure {
    let artifacts = in_backticks(artifacts);
    let what = format!("nothing is in the artifacts for {target} that belongs into its device package");
    Failure::message(format!("{what}: {artifacts}"))
        .with_hint(format!("fetch these artifacts again, remove them, or ask for the targets without {target}"))
}

impl<'a> Planner<'a> {
    fn new(request: &'a Request, place: Place<'a>, reporter: &dyn Reporter) -> Result<Self, Failure> {
        let Place { artifacts, catalog, system } = place;
        let manifest = Manifest::find(catalog)?;
        let Some(version) = request.version.clone().or_else(|| manifest.rocm_package_version.clone()) else {
            let text = format!("the manifest of `{}` does not name a version", artifacts.display());
            return Err(Failure::message(text).with_hint(GIVE_VERSION));
        };
        if rocwheel_wheel::check_version(&version).is_err() {
            return Err(wrong_version(request, &version, artifacts));
        }
        // The suffix becomes part of the names of packages that Python imports.
        if !request.nonce.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
            let text = format!("`{}` cannot be part of the name of an import package", request.nonce);
            return Err(Failure::message(text).with_hint("use letters, digits and `_`").with_exit(Exit::Usage));
        }
        let imported = Imported::find(&manifest);
        let shape = request.shape.unwrap_or_else(|| shape_of(&manifest, imported.as_ref()));
        let templates = match &request.templates {
            Some(folder) => Templates::read(folder)?,
            None => Templates::embedded(),
        };
        let natures = natures(catalog, reporter)?;
        let system = system.unwrap_or_else(|| system::of_files(&catalog.artifacts, &natures));
        let (wanted, absent) = targets(request.targets_on(system), request.incompletes, catalog, shape)?;
        let mut planner = Planner {
            request,
            artifacts,
            catalog,
            system,
            shape,
            rules: Rules::embedded()?,
            tools: Tools::embedded()?,
            dlopen: DlopenTable::embedded(),
            natures,
            licenses: Licenses::collect(catalog, imported.as_ref()),
            is_imported: imported.is_some(),
            allowed: imported
                .map(|imported| imported.allowed_unresolved)
                .into_iter()
                .flatten()
                .chain(request.allow_unresolved.iter().cloned())
                .collect(),
            targets: wanted,
            elsewhere: expand(request.only_on(system.other()), shape, &[])?,
            templates: Arc::new(templates),
            dropped: BTreeSet::new(),
            incomplete: BTreeMap::new(),
            version,
        };
        for target in absent {
            planner.note_incomplete(&planner.name_for(&target), ("no artifact holds code for it".to_owned(), None));
        }
        Ok(planner)
    }
}

#[derive(Default)]
struct Findings {
    dropped: Vec<Dropped>,
    problems: Vec<Problem>,
    /// Libraries that packages for Windows import and that no table knows.
    unknown: Vec<AbsentLibrary>,
    notes: Vec<Note>,
}

/// Wheels that are installed together, with their selector.
struct Set {
    family: Option<String>,
    world: Tree,
    /// In order of precedence; core and profiler first.
    populations: Vec<Population>,
    devel: DevelTree,
}

/// Packages that have no problem, by system.
struct Settled {
    sets: Vec<Set>,
    findings: Findings,
    leftovers: Leftovers,
}

/// Artifacts and files that are in no package.
struct Leftovers {
    left_out: Vec<LeftOut>,
    unclaimed: Vec<LeftOut>,
}

impl Planner<'_> {
    /// Plans the sets, and again without the incomplete packages until all are complete.
    fn settle(&mut self) -> Result<Settled, Failure> {
        self.check_system()?;
        loop {
            let (sets, findings, leftovers) = self.sets()?;
            let problems = completeness::problems(&sets, &findings.problems);
            if problems.is_empty() {
                if self.request.unsupported == Unsupported::Refuse {
                    self.check_kpack(&sets)?;
                }
                return Ok(Settled { sets, findings, leftovers });
            }
            // Every round skips at least one package, so the number of rounds is limited.
            self.leave_out(&problems)?;
        }
    }

    fn selection(&self) -> ArtifactSelection<'_> {
        ArtifactSelection {
            catalog: self.catalog,
            rules: &self.rules,
            shape: self.shape,
            system: self.system,
            targets: &self.targets,
        }
    }

    fn sets(&self) -> Result<(Vec<Set>, Findings, Leftovers), Failure> {
        let selection = self.selection();
        let (left_out, unclaimed) = selection.leftovers();
        if self.request.unclaimed == Unclaimed::Refuse && !unclaimed.is_empty() {
            let lines: String = unclaimed.iter().map(|row| format!("\n  {}: {}", row.what, row.reason)).collect();
            let text = format!("{} that no rule claims:{lines}", counted(unclaimed.len() as u64, "thing"));
            return Err(Failure::message(text).with_hint("remove --strict to package the rest"));
        }
        let leftovers = Leftovers { left_out, unclaimed };
        let mut findings = Findings::default();
        let mut sets = Vec::new();
        if self.shape == Shape::PerFamily && !self.targets.is_empty() {
            for family in &self.targets {
                sets.push(self.set(&selection, Some(family), &mut findings)?);
            }
        } else {
            sets.push(self.set(&selection, None, &mut findings)?);
        }
        Ok((sets, findings, leftovers))
    }

    fn platform_package(&self, logical: Logical, family: Option<&str>) -> String {
        let family = family.filter(|_| logical.is_per_family());
        let family = family.map(|family| format!("_{}", base_target(family).replace('-', "_")));
        format!("_{}{}{}", logical.import_package(), family.unwrap_or_default(), self.request.nonce)
    }

    fn set(
        &self,
        selection: &ArtifactSelection<'_>,
        family: Option<&String>,
        findings: &mut Findings,
    ) -> Result<Set, Failure> {
        let family = family.map(String::as_str);
        let world = Tree::merge(self.catalog, self.system, |artifact| {
            selection.packaged(artifact)
                && (artifact.name.is_generic() || family.is_none_or(|family| artifact.name.base_target() == family))
        })?;
        let input = Input { world: &world, natures: &self.natures, system: self.system };
        let mut populations = Vec::new();
        for logical in [Logical::Core, Logical::Profiler, Logical::Libraries, Logical::Hpc] {
            if self.dropped.contains(&logical) {
                continue;
            }
            let mut population =
                Population::new(logical, self.target(logical, family), self.platform_package(logical, family));
            population.fill(&input, &selection.paths(logical, family, &world));
            population.add_second_names(self.rules.of(logical));
            if !population.files.is_empty() {
                populations.push(population);
            }
        }
        if self.shape == Shape::Split && !self.dropped.contains(&Logical::Device) {
            for target in &self.targets {
                let mut population = Population::new(
                    Logical::Device,
                    Some(target.clone()),
                    self.platform_package(Logical::Device, None),
                );
                let mut paths = selection.paths(Logical::Device, Some(target), &world);
                paths.retain(|path| {
                    world.get(path).is_some_and(|node| !selection.moved_to_libraries(node.owners.as_slice()))
                });
                population.fill_verbatim(&input, &paths);
                if population.files.is_empty() {
                    if self.request.incompletes == Incompletes::Refuse {
                        let of_target = self.catalog.artifacts.iter().map(|artifact| &artifact.name);
                        let of_target = of_target.filter(|name| name.base_target() == target);
                        let artifacts: Vec<String> = of_target.map(ToString::to_string).collect();
                        return Err(empty_target(target, &artifacts));
                    }
                    let line = "no artifact holds code for it".to_owned();
                    findings.problems.push(Problem::of(&population, family, line));
                    continue;
                }
                populations.push(population);
            }
        }
        if populations.is_empty() {
            return Err(Failure::message(format!("`{}` holds no artifact for any package", self.artifacts.display())));
        }
        let mut devel = {
            let runtime: Vec<&Population> =
                populations.iter().filter(|population| population.logical != Logical::Device).collect();
            let mut paths = selection.paths(Logical::Devel, family, &world);
            for logical in &self.dropped {
                let theirs = selection.paths(*logical, family, &world);
                paths.retain(|path| !theirs.contains(path));
            }
            DevelTree::build(&input, &paths, &runtime)
        };
        self.search_paths(&mut populations, &mut devel, family, findings);
        for population in &mut populations {
            findings.notes.append(&mut population.notes);
        }
        findings.notes.append(&mut devel.notes);
        Ok(Set { family: family.map(str::to_owned), world, populations, devel })
    }

    /// Returns the target that is part of a distribution's name.
    fn target(&self, logical: Logical, family: Option<&str>) -> Option<String> {
        family.filter(|_| self.shape == Shape::PerFamily && logical.is_per_family()).map(str::to_owned)
    }

    fn search_paths(
        &self,
        populations: &mut Vec<Population>,
        devel: &mut DevelTree,
        family: Option<&str>,
        findings: &mut Findings,
    ) {
        let packages: BTreeMap<Logical, String> =
            Logical::ALL.into_iter().map(|logical| (logical, self.platform_package(logical, family))).collect();
        let provided =
            |library: &str| manylinux::Policies::built_in().provides(library) || self.is_allowed_to_miss(library);
        if self.system == Platform::Windows {
            self.dll_imports(populations, family, &provided, findings);
            return;
        }
        let search =
            SearchPaths { rules: &self.rules, dlopen: self.dlopen, natures: &self.natures, provided: &provided };
        for index in 0..populations.len() {
            let mut population = populations.remove(index);
            let reachable = self.reachable(population.logical);
            let others: Vec<&Population> =
                populations.iter().filter(|other| reachable.contains(&other.logical)).collect();
            let outcome = search.apply(&mut population, &others, &packages);
            findings.dropped.extend(outcome.dropped);
            for missing in outcome.missing {
                findings.problems.push(Problem::missing(&population, family, missing));
            }
            populations.insert(index, population);
        }
        // In the development tree every file is at its own path, so its programs look for libraries
        // in the tree itself.
        let mut mirror = Population::new(Logical::Devel, None, packages[&Logical::Devel].clone());
        for (path, entry) in &devel.entries {
            match entry {
                DevelEntry::Directory => {}
                DevelEntry::Symlink { .. } => drop(mirror.files.insert(path.clone(), PlannedFile::text(""))),
                DevelEntry::File(file) => drop(mirror.files.insert(path.clone(), file.clone())),
            }
        }
        let outcome = search.apply(&mut mirror, &[], &packages);
        findings.dropped.extend(outcome.dropped);
        findings.notes.extend(outcome.missing.into_iter().flat_map(|missing| {
            missing.needed_by.into_iter().map(move |path| Note {
                distribution: Logical::Devel.key().to_owned(),
                path,
                message: format!("needs `{}`, which is not in the development tree", missing.library),
            })
        }));
        for (path, file) in mirror.files {
            if let (FileSource::Edited { .. }, Some(entry)) = (&file.source, devel.entries.get_mut(&path)) {
                *entry = DevelEntry::File(file);
            }
        }
    }

    /// Finds missing DLLs. Files for Windows have no search path, so none of them changes.
    fn dll_imports(
        &self,
        populations: &[Population],
        family: Option<&str>,
        provided: &dyn Fn(&str) -> bool,
        findings: &mut Findings,
    ) {
        for (index, population) in populations.iter().enumerate() {
            let reachable = self.reachable(population.logical);
            let others = populations.iter().enumerate().filter(|(other, _)| *other != index);
            let others = others.map(|(_, other)| other).filter(|other| reachable.contains(&other.logical));
            let others: Vec<&Population> = others.collect();
            let outcome = dll_imports::check(population, &others, &self.natures, provided);
            for missing in outcome.missing {
                findings.problems.push(Problem::missing(population, family, missing));
            }
            findings.unknown.extend(outcome.unknown);
        }
    }

    /// `true` if a library may be missing. `library` may be a pattern of names that are loaded.
    fn is_allowed_to_miss(&self, library: &str) -> bool {
        self.allowed.contains(library)
            || self
                .request
                .allow_unresolved
                .iter()
                .any(|allowed| Pattern::new(allowed).matches(library) || Pattern::new(library).matches(allowed))
    }

    /// Returns the distributions that are installed whenever `logical` is.
    fn reachable(&self, logical: Logical) -> BTreeSet<Logical> {
        let mut reachable = BTreeSet::new();
        let mut pending = self.rules.of(logical).requires.clone();
        while let Some(next) = pending.pop() {
            if reachable.insert(next) {
                pending.extend(&self.rules.of(next).requires);
            }
        }
        reachable
    }
}
