//! From a request and a catalog to a [`Plan`]. Reads names, sizes and ELF headers; writes nothing.

mod assemble;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use artifact::dlopen::DlopenTable;
use artifact::targets::{self, base_target};
use artifact::{Catalog, EntryKind, Manifest, TargetTable};
use elf::Elf;
use kpack::{FatBinary, Magic};
use report::{Reporter, Unit};
use wheel::manylinux;

use crate::contents::Tools;
use crate::devel::{DevelEntry, DevelTree};
use crate::imported::Imported;
use crate::inspect::Natures;
use crate::licenses::Licenses;
use crate::populate::{Input, Note, PlannedFile, Population, Source};
use crate::request::{Plan, Request, Shape, Unclaimed, Unsupported};
use crate::rules::Rules;
use crate::search_path::{Dropped, Missing, SearchPaths};
use crate::select::Selection;
use crate::tree::Tree;
use crate::{Error, Logical};

/// Section by which AMD's tool marks a library whose device code is in `.kpack` archives (kpack spec 3).
const KPACK_MARKER: &str = ".rocm_kpack_ref";
/// Section of device code, or of the markers that stand for it.
const CODE_SECTION: &str = ".hip_fatbin";

/// Computes what `request` makes of `catalog`.
///
/// # Errors
/// Everything that would make the set wrong is found here, before anything is written: missing targets, libraries
/// that nothing provides, one path with two contents, a version pip does not accept.
pub fn plan(request: &Request, catalog: &Catalog, reporter: &dyn Reporter) -> Result<Plan, Error> {
    let manifest = Manifest::find(catalog)?;
    let version = request.version.clone().unwrap_or_else(|| manifest.rocm_package_version.clone());
    if wheel::check_version(&version).is_err() {
        return Err(match request.version {
            Some(_) => Error::Version { value: version },
            None => Error::ManifestVersion { value: version, artifacts: request.artifacts.clone() },
        });
    }
    let imported = Imported::find(&manifest);
    let shape = request.shape.unwrap_or_else(|| shape_of(&manifest, imported.as_ref()));
    let wanted = targets(request, catalog, shape)?;
    let planner = Planner {
        request,
        catalog,
        shape,
        rules: Rules::embedded()?,
        tools: Tools::embedded()?,
        dlopen: DlopenTable::embedded(),
        natures: natures(catalog, reporter)?,
        licenses: Licenses::collect(catalog, imported.as_ref())?,
        allowed: imported.map(|imported| imported.allowed_unresolved).unwrap_or_default(),
        manifest: (version != manifest.rocm_package_version).then(|| renamed(manifest, &version)),
        targets: wanted,
        version,
    };
    planner.plan()
}

/// The manifest's text with another version: what is installed must say one version everywhere.
fn renamed(mut manifest: Manifest, version: &str) -> String {
    let digits = |character: char| character.is_ascii_digit() || character == '.';
    let release = version.split(|character| !digits(character)).next().unwrap_or_default().trim_end_matches('.');
    manifest.rocm_version = Some(release.to_owned());
    version.clone_into(&mut manifest.rocm_package_version);
    manifest.to_json()
}

/// The shape the artifacts are made for: an import says so itself, a TheRock build by its flag.
fn shape_of(manifest: &Manifest, imported: Option<&Imported>) -> Shape {
    // What was imported fat may have been split since.
    match imported.and_then(|imported| imported.shape.as_deref()) {
        _ if manifest.is_split() => Shape::Split,
        Some("fat") => Shape::Fat,
        _ => Shape::PerFamily,
    }
}

/// Targets (or families) that are packaged: those asked for, else those that are there; numerically sorted.
fn targets(request: &Request, catalog: &Catalog, shape: Shape) -> Result<Vec<String>, Error> {
    let per_target = catalog.artifacts.iter().map(|artifact| &artifact.name).filter(|name| !name.is_generic());
    let mut present: Vec<String> = match shape {
        Shape::PerFamily => per_target.map(|name| name.target_family.clone()).collect(),
        Shape::Split | Shape::Fat => per_target.map(|name| name.base_target().to_owned()).collect(),
    };
    targets::sort(&mut present);
    present.dedup();
    if request.targets.is_empty() {
        return Ok(present);
    }
    let list = request.targets.join(",");
    let mut wanted = if shape == Shape::PerFamily {
        request.targets.iter().flat_map(|list| list.split([';', ','])).map(|name| name.trim().to_owned()).collect()
    } else {
        let expanded = TargetTable::embedded().expand_with(&list, &present)?;
        expanded.iter().map(|target| base_target(target).to_owned()).collect::<Vec<_>>()
    };
    targets::sort(&mut wanted);
    wanted.dedup();
    let missing: Vec<String> = wanted.iter().filter(|target| !present.contains(target)).cloned().collect();
    if missing.is_empty() { Ok(wanted) } else { Err(Error::MissingTargets { targets: missing, present }) }
}

fn natures(catalog: &Catalog, reporter: &dyn Reporter) -> Result<Natures, Error> {
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
    reporter.begin("Reading headers", Some(files.len() as u64), Unit::Items);
    let natures = Natures::read(&files, reporter);
    reporter.end();
    natures
}

struct Planner<'a> {
    request: &'a Request,
    catalog: &'a Catalog,
    shape: Shape,
    rules: Rules,
    tools: Tools,
    dlopen: &'static DlopenTable,
    natures: Natures,
    licenses: Licenses,
    /// Libraries that were allowed to be missing when the artifacts were imported.
    allowed: BTreeSet<String>,
    /// Text of the manifest to ship when another version than the one it names was asked for.
    manifest: Option<String>,
    targets: Vec<String>,
    version: String,
}

/// What is found on the way to the wheels.
#[derive(Default)]
struct Findings {
    dropped: Vec<Dropped>,
    missing: Vec<Missing>,
    notes: Vec<Note>,
}

/// One set of wheels that are installed together, with its selector.
struct Set {
    family: Option<String>,
    folder: Option<String>,
    world: Tree,
    /// In order of precedence; core and profiler first.
    populations: Vec<Population>,
    devel: DevelTree,
}

impl Planner<'_> {
    fn plan(&self) -> Result<Plan, Error> {
        let selection =
            Selection { catalog: self.catalog, rules: &self.rules, shape: self.shape, targets: &self.targets };
        let (left_out, unclaimed) = selection.leftovers();
        if self.request.unclaimed == Unclaimed::Refuse && !unclaimed.is_empty() {
            let lines = unclaimed.iter().map(|row| format!("{}: {}", row.what, row.reason)).collect();
            return Err(Error::Unclaimed { unclaimed: lines });
        }
        let mut findings = Findings::default();
        let mut sets = Vec::new();
        if self.shape == Shape::PerFamily && !self.targets.is_empty() {
            for family in &self.targets {
                let folder = (self.targets.len() > 1).then(|| family.clone());
                sets.push(self.set(&selection, Some(family), folder, &mut findings)?);
            }
        } else {
            sets.push(self.set(&selection, None, None, &mut findings)?);
        }
        self.check(&sets, &findings)?;
        self.finish(&sets, findings, left_out, unclaimed)
    }

    fn platform_package(&self, logical: Logical, family: Option<&str>) -> String {
        let name = match (logical, family) {
            (Logical::Libraries, Some(family)) => {
                format!("{}_{}", self.rules.of(logical).platform_package, base_target(family).replace('-', "_"))
            }
            _ => self.rules.of(logical).platform_package.clone(),
        };
        name + &self.request.nonce
    }

    fn set(
        &self,
        selection: &Selection<'_>,
        family: Option<&String>,
        folder: Option<String>,
        findings: &mut Findings,
    ) -> Result<Set, Error> {
        let family = family.map(String::as_str);
        let world = Tree::merge(self.catalog, |artifact| {
            selection.packaged(artifact)
                && (artifact.name.is_generic() || family.is_none_or(|family| artifact.name.target_family == family))
        })?;
        let input = Input { world: &world, natures: &self.natures };
        let mut populations = Vec::new();
        for logical in [Logical::Core, Logical::Profiler, Logical::Libraries] {
            let mut population =
                Population::new(logical, self.target(logical, family), self.platform_package(logical, family));
            population.fill(&input, &selection.paths(logical, family, &world));
            population.add_second_names(self.rules.of(logical));
            if !population.files.is_empty() {
                populations.push(population);
            }
        }
        if self.shape == Shape::Split {
            for target in &self.targets {
                let mut population = Population::new(
                    Logical::Device,
                    Some(target.clone()),
                    self.platform_package(Logical::Libraries, None),
                );
                let mut paths = selection.paths(Logical::Device, Some(target), &world);
                paths.retain(|path| {
                    world.get(path).is_some_and(|node| !selection.moved_to_libraries(node.owners.as_slice()))
                });
                population.fill_verbatim(&input, &paths);
                if population.files.is_empty() {
                    return Err(Error::MissingTargets { targets: vec![target.clone()], present: Vec::new() });
                }
                populations.push(population);
            }
        }
        if populations.is_empty() {
            return Err(Error::Nothing { path: self.request.artifacts.clone(), wanted: "any package".into() });
        }
        let mut devel = {
            let runtime: Vec<&Population> =
                populations.iter().filter(|population| population.logical != Logical::Device).collect();
            DevelTree::build(&input, &selection.paths(Logical::Devel, family, &world), &runtime)
        };
        self.search_paths(&mut populations, &mut devel, family, findings);
        for population in &mut populations {
            findings.notes.append(&mut population.notes);
        }
        findings.notes.append(&mut devel.notes);
        Ok(Set { family: family.map(str::to_owned), folder, world, populations, devel })
    }

    /// The target that is part of a distribution's name.
    fn target(&self, logical: Logical, family: Option<&str>) -> Option<String> {
        match (self.shape, logical) {
            (Shape::PerFamily, Logical::Libraries) => family.map(str::to_owned),
            _ => None,
        }
    }

    fn search_paths(
        &self,
        populations: &mut Vec<Population>,
        devel: &mut DevelTree,
        family: Option<&str>,
        findings: &mut Findings,
    ) {
        let packages: BTreeMap<Logical, String> =
            Logical::ALL[..5].iter().map(|logical| (*logical, self.platform_package(*logical, family))).collect();
        let provided =
            |library: &str| manylinux::Policies::built_in().provides(library) || self.allowed.contains(library);
        let search =
            SearchPaths { rules: &self.rules, dlopen: self.dlopen, natures: &self.natures, provided: &provided };
        for index in 0..populations.len() {
            let mut population = populations.remove(index);
            let reachable = self.reachable(population.logical);
            let others: Vec<&Population> =
                populations.iter().filter(|other| reachable.contains(&other.logical)).collect();
            let outcome = search.apply(&mut population, &others, &packages);
            findings.dropped.extend(outcome.dropped);
            findings.missing.extend(outcome.missing);
            populations.insert(index, population);
        }
        // The development tree shows every file at its own place, so its programs look around in the tree itself.
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
            if let (Source::Edited { .. }, Some(entry)) = (&file.source, devel.entries.get_mut(&path)) {
                *entry = DevelEntry::File(file);
            }
        }
    }

    /// The distributions that are installed whenever `logical` is.
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

    /// The last look at the set: everything needed is there, and the runtime can read the device code.
    fn check(&self, sets: &[Set], findings: &Findings) -> Result<(), Error> {
        let mut problems: Vec<String> = findings
            .missing
            .iter()
            .map(|missing| {
                let shown =
                    missing.needed_by.iter().take(3).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
                let more = missing.needed_by.len().saturating_sub(3);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("`{}` is needed by {shown}{more}", missing.library)
            })
            .collect();
        for set in sets {
            for population in &set.populations {
                for (path, soname) in &population.aliases {
                    let canonical = crate::tree::join(crate::tree::parent(path), soname);
                    if !population.files.contains_key(&canonical) {
                        problems.push(format!("`{path}` is known to the loader as `{soname}`, which is not there"));
                    }
                }
            }
        }
        problems.sort();
        problems.dedup();
        if !problems.is_empty() {
            return Err(Error::Incomplete { problems });
        }
        if self.request.unsupported == Unsupported::Refuse {
            for set in sets {
                self.check_kpack(set)?;
            }
        }
        Ok(())
    }

    /// Pitfalls 8: a runtime without kpack support loads such a library silently and then has no kernels.
    fn check_kpack(&self, set: &Set) -> Result<(), Error> {
        let understood = set.world.iter().any(|(path, _)| crate::tree::file_name(path).starts_with("librocm_kpack.so"));
        for population in set.populations.iter().filter(|_| !understood) {
            for file in population.files.values() {
                let Some(path) = file.path() else { continue };
                let Some(elf) = self.natures.of(path).elf() else { continue };
                if elf.sections.iter().any(|section| section.name == KPACK_MARKER) || is_kpacked(path, elf) {
                    return Err(Error::KpackUnsupported { path: path.clone() });
                }
            }
        }
        Ok(())
    }
}

/// Whether a wrapper of the file says that its code is in an archive; no section needs to say so. A file that cannot be
/// read as a fat binary says nothing.
fn is_kpacked(path: &Path, elf: &Elf) -> bool {
    let has_code = elf.sections.iter().any(|section| section.name == CODE_SECTION);
    let read = || {
        let file = fs_err::File::open(path).ok()?;
        FatBinary::read(file.file(), file.metadata().ok()?.len()).ok()?
    };
    has_code && read().is_some_and(|fat| fat.wrappers.iter().any(|wrapper| wrapper.magic == Magic::Kpacked))
}
