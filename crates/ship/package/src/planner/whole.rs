//! The last check of planned sets. Input: the sets and the problems found in them. Output: an
//! error, or a plan without the incomplete packages.

use std::collections::BTreeSet;
use std::path::Path;

use rocwheel_artifact::EntryKind;
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_kpack::{FatBinary, Magic};
use rocwheel_tables::target::base_target;
use rocwheel_wheel::Platform;

use super::{Planner, Set};
use crate::error::Ways;
use crate::inspect::Nature;
use crate::populate::Population;
use crate::request::{Incomplete, Incompletes, Shape};
use crate::search_path::AbsentLibrary;
use crate::{Error, Logical, system};

/// Sections by which AMD's tool marks a library whose device code is in `.kpack` archives, in ELF
/// and in PE (kpack spec 3).
const KPACK_MARKERS: [&str; 2] = [".rocm_kpack_ref", ".kpackrf"];
/// Sections that hold device code or its wrappers, in ELF and in PE.
const CODE_SECTIONS: [&str; 2] = [".hip_fatbin", ".hip_fat"];
/// A defect of a package, such as a missing library.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    logical: Logical,
    /// GPU target of a device package, or family of libraries in the per-family shape.
    target: Option<String>,
    line: String,
    /// The library that is missing, if the problem is one.
    missing: Option<AbsentLibrary>,
}

impl Problem {
    pub(super) fn missing(population: &Population, family: Option<&str>, missing: AbsentLibrary) -> Self {
        let line = missing.line();
        Self { missing: Some(missing), ..Self::of(population, family, line) }
    }

    pub(super) fn of(population: &Population, family: Option<&str>, line: String) -> Self {
        let target = match population.logical {
            Logical::Device => population.target.clone(),
            Logical::Libraries => population.target.clone().or_else(|| family.map(str::to_owned)),
            _ => None,
        };
        Self { logical: population.logical, target, line, missing: None }
    }
}

/// Returns all problems of the sets, sorted.
pub(super) fn problems(sets: &[Set], found: &[Problem]) -> Vec<Problem> {
    let mut problems = found.to_vec();
    for set in sets {
        for population in &set.populations {
            for (path, soname) in &population.aliases {
                let canonical = join(parent(path), soname);
                if !population.files.contains_key(&canonical) {
                    let line = format!("`{path}` is known to the loader as `{soname}`, which does not exist");
                    problems.push(Problem::of(population, set.family.as_deref(), line));
                }
            }
        }
    }
    problems.sort();
    problems.dedup();
    problems
}

impl Planner<'_> {
    /// Skips the packages that have problems, and the packages that require them.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the request does not allow that, or if core is incomplete.
    pub(super) fn leave_out(&mut self, problems: &[Problem]) -> Result<(), Error> {
        let refused = self.request.incompletes == Incompletes::Refuse;
        // Every package requires core.
        if refused || problems.iter().any(|problem| problem.logical == Logical::Core) {
            let mut lines: Vec<String> = problems.iter().map(|problem| problem.line.clone()).collect();
            lines.sort();
            lines.dedup();
            let ways = if refused { self.ways() } else { Ways { drop: false, ..self.ways() } };
            let missing: BTreeSet<AbsentLibrary> =
                problems.iter().filter_map(|problem| problem.missing.clone()).collect();
            return Err(Error::Incomplete { problems: lines, missing: missing.into_iter().collect(), ways });
        }
        for problem in problems {
            let reason = (problem.line.clone(), problem.missing.clone());
            match (problem.logical, &problem.target) {
                (Logical::Libraries | Logical::Device, Some(target)) => {
                    let name = self.name_for(target);
                    self.note_incomplete(&name, reason);
                    self.targets.retain(|other| other != target);
                }
                (logical, _) => {
                    let name = match logical {
                        Logical::Profiler => "rocm-profiler",
                        Logical::Libraries => "rocm-sdk-libraries",
                        Logical::Devel => "rocm-sdk-devel",
                        Logical::Device => "rocm-sdk-device",
                        Logical::Core | Logical::Meta => "rocm-sdk-core",
                    };
                    self.note_incomplete(name, reason);
                    self.dropped.insert(logical);
                }
            }
        }
        if self.shape == Shape::PerFamily && self.targets.is_empty() {
            self.dropped.insert(Logical::Libraries);
        }
        if self.dropped.contains(&Logical::Libraries) && self.shape == Shape::Split {
            for target in std::mem::take(&mut self.targets) {
                let name = self.name_for(&target);
                self.note_incomplete(&name, ("it requires rocm-sdk-libraries".to_owned(), None));
            }
        }
        Ok(())
    }

    /// Returns the solutions for a missing library that this run offers.
    fn ways(&self) -> Ways {
        Ways { import: self.is_imported, drop: true }
    }

    /// Returns the name of the package that holds the code of a target or family.
    pub(super) fn name_for(&self, target: &str) -> String {
        match self.shape {
            Shape::PerFamily => format!("rocm-sdk-libraries-{}", base_target(target)),
            Shape::Split | Shape::Fat => format!("rocm-sdk-device-{}", base_target(target)),
        }
    }

    pub(super) fn note_incomplete(&mut self, package: &str, reason: (String, Option<AbsentLibrary>)) {
        self.incomplete.entry(package.to_owned()).or_default().insert(reason);
    }

    /// Returns the skipped packages, for the plan.
    pub(super) fn left_incomplete(&self) -> Vec<Incomplete> {
        let rows = self.incomplete.iter();
        rows.map(|(package, reasons)| Incomplete {
            package: package.clone(),
            reasons: reasons.iter().map(|(reason, _)| reason.clone()).collect(),
            missing: reasons.iter().filter_map(|(_, missing)| missing.clone()).collect(),
        })
        .collect()
    }

    /// Refuses artifacts that hold programs for the other system: they were added by mistake, and
    /// users should not be the ones who notice it.
    pub(super) fn check_system(&self) -> Result<(), Error> {
        let selection = self.selection();
        let mut paths = Vec::new();
        for artifact in self.catalog.artifacts.iter().filter(|artifact| selection.packaged(artifact)) {
            for entry in artifact.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })) {
                if system::is_foreign(self.system, &entry.path, self.natures.of(&artifact.path(entry))) {
                    paths.push(format!("{}/{}/{}", artifact.name, artifact.basedirs[entry.basedir], entry.path));
                }
            }
        }
        if paths.is_empty() {
            return Ok(());
        }
        paths.sort();
        Err(Error::Foreign { system: self.system, artifacts: self.artifacts.to_owned(), paths })
    }

    /// Refuses libraries with `.kpack` archives for a runtime without support for them. It would
    /// load such a library silently, and then find no kernels (pitfalls 8).
    pub(super) fn check_kpack(&self, sets: &[Set]) -> Result<(), Error> {
        for set in sets {
            let runtime = match self.system {
                Platform::Linux => "librocm_kpack.so",
                Platform::Windows => "rocm_kpack",
            };
            let understood = set.world.iter().any(|(path, _)| file_name(path).starts_with(runtime));
            for population in set.populations.iter().filter(|_| !understood) {
                for file in population.files.values() {
                    let Some(path) = file.path() else { continue };
                    if expects_kpack(path, self.natures.of(path)) {
                        return Err(Error::KpackUnsupported { path: path.clone() });
                    }
                }
            }
        }
        Ok(())
    }
}

/// `true` if a section or a wrapper of the file tells that its code is in an archive; not every
/// such file has the section. A file that cannot be read as a fat binary counts as `false`.
fn expects_kpack(path: &Path, nature: &Nature) -> bool {
    let (mut marked, mut has_code) = (false, false);
    let mut look = |name: &str| {
        marked |= KPACK_MARKERS.contains(&name);
        has_code |= CODE_SECTIONS.contains(&name);
    };
    match nature {
        Nature::Library(elf) | Nature::Program(elf) => elf.sections.iter().for_each(|section| look(&section.name)),
        Nature::Windows(file) => file.pe.sections.iter().for_each(|section| look(&section.name)),
        Nature::Standalone | Nature::Data => {}
    }
    let read = || {
        let file = fs_err::File::open(path).ok()?;
        FatBinary::read(file.file(), file.metadata().ok()?.len()).ok()?
    };
    marked || has_code && read().is_some_and(|fat| fat.wrappers.iter().any(|wrapper| wrapper.magic == Magic::Kpacked))
}
