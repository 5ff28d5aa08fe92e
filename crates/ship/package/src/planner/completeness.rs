//! The last check of planned sets. Input: the sets and the problems found in them. Output: an
//! error, or a plan without the incomplete packages.

use std::collections::BTreeSet;
use std::path::Path;

use rocwheel_artifact::{ArtifactName, EntryKind};
use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_kpack::{FatBinary, Magic};
use rocwheel_tables::target::base_target;
use rocwheel_wheel::Platform;

use rocwheel_progress::{Failure, Hint};

use super::{Planner, Set};
use crate::inspect::Nature;
use crate::plan::Incomplete;
use crate::populate::Population;
use crate::request::{Incompletes, Shape};
use crate::search_path::AbsentLibrary;
use crate::search_path::first;
use crate::{Logical, system};

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

/// The set would not load, because libraries are missing.
#[derive(Debug, thiserror::Error)]
#[error("the set is incomplete:{}", problems.iter().map(|problem| format!("\n  {problem}")).collect::<String>())]
pub struct IncompleteSet {
    /// One line for each missing library, with the files that need it.
    pub problems: Vec<String>,
    /// The missing libraries, with all files that need them.
    pub missing: Vec<AbsentLibrary>,
    /// An artifact of the input that has one of them and that no rule claims, and the key of the
    /// package that needs it.
    unclaimed: Option<(ArtifactName, &'static str)>,
    /// `true` if the artifacts were imported: the import can be told to allow the library to be
    /// missing.
    is_imported: bool,
    /// `true` if the package that needs the library can be skipped.
    can_be_dropped: bool,
}

impl Hint for IncompleteSet {
    fn hint(&self) -> Option<String> {
        let add = match &self.unclaimed {
            None => "add the artifact or package that holds it".to_owned(),
            Some((artifact, package)) => format!(
                "`{artifact}` has it, and no rule claims that artifact: add `--data-file FILE` with the row \
                 `artifact = [{{ name = \"{}\", package = \"{package}\" }}]`",
                artifact.name
            ),
        };
        let mut ways = vec![add.as_str()];
        if self.is_imported {
            ways.push("import again with --allow-unresolved LIB");
        } else {
            ways.push("accept it with `rocwheel package --allow-unresolved LIB`");
        }
        if self.can_be_dropped {
            ways.push("ship the complete packages with `rocwheel package --drop-incomplete`");
        }
        let last = ways.pop().unwrap_or_default();
        Some(format!("{}, or {last}", ways.join(", ")))
    }

    fn rows(&self) -> Vec<String> {
        self.missing.iter().map(AbsentLibrary::whole).collect()
    }
}

impl Planner<'_> {
    /// The artifact that no rule names and that has the missing library.
    fn holder(&self, problem: &Problem) -> Option<(ArtifactName, &'static str)> {
        let library = &problem.missing.as_ref()?.library;
        let mut unclaimed = self.catalog.artifacts.iter().filter(|artifact| {
            !self.rules.names(&artifact.name.name) && self.rules.left_out(&artifact.name.name).is_none()
        });
        let holder =
            unclaimed.find(|artifact| artifact.entries.iter().any(|entry| file_name(&entry.path) == library))?;
        Some((holder.name.clone(), problem.logical.key()))
    }

    /// Skips the packages that have problems, and the packages that require them.
    ///
    /// # Errors
    /// [`IncompleteSet`] if the request does not allow that, or if core is incomplete.
    pub(super) fn leave_out(&mut self, problems: &[Problem]) -> Result<(), Failure> {
        let refused = self.request.incompletes == Incompletes::Refuse;
        // Every package requires core.
        if refused || problems.iter().any(|problem| problem.logical == Logical::Core) {
            let mut lines: Vec<String> = problems.iter().map(|problem| problem.line.clone()).collect();
            lines.sort();
            lines.dedup();
            let missing: BTreeSet<AbsentLibrary> =
                problems.iter().filter_map(|problem| problem.missing.clone()).collect();
            let set = IncompleteSet {
                problems: lines,
                missing: missing.into_iter().collect(),
                unclaimed: problems.iter().find_map(|problem| self.holder(problem)),
                is_imported: self.is_imported,
                can_be_dropped: refused,
            };
            return Err(set.into());
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
                    self.note_incomplete(&logical.distribution(), reason);
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

    pub(super) fn name_for(&self, target: &str) -> String {
        match self.shape {
            Shape::PerFamily => format!("rocm-sdk-libraries-{}", base_target(target)),
            Shape::Split | Shape::Fat => format!("rocm-sdk-device-{}", base_target(target)),
        }
    }

    pub(super) fn note_incomplete(&mut self, package: &str, reason: (String, Option<AbsentLibrary>)) {
        self.incomplete.entry(package.to_owned()).or_default().insert(reason);
    }

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
    pub(super) fn check_system(&self) -> Result<(), Failure> {
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
        let (system, other, artifacts) = (self.system, self.system.other(), self.artifacts.display());
        let (files, first) =
            (if paths.len() == 1 { "a file" } else { &format!("{} files", paths.len()) }, first(&paths));
        let text = format!("the artifacts for {system} in `{artifacts}` hold {files} for {other}: {first}");
        let hint = format!(
            "keep the two apart: `--artifacts DIR` for Linux, `--windows-artifacts DIR` for Windows. Remove what came \
             from a build for {other}"
        );
        Err(Failure::message(text).with_hint(hint).with_rows(paths))
    }

    /// Refuses libraries with `.kpack` archives for a runtime without support for them. It would
    /// load such a library silently, and then find no kernels (pitfalls 8).
    pub(super) fn check_kpack(&self, sets: &[Set]) -> Result<(), Failure> {
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
                        return Err(unsupported_archives(path));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Device code in `.kpack` archives, for a runtime that cannot read them (pitfalls 8).
fn unsupported_archives(path: &Path) -> Failure {
    let what = "expects its device code in .kpack archives, but the HIP runtime of this set cannot read them";
    Failure::message(format!("`{}` {what}", path.display()))
        .with_hint("package the libraries with their code inside (--shape fat from unsplit artifacts), or --force")
}

/// `true` if a section or a wrapper of the file tells that its code is in an archive; not every
/// such file has the section. A file that cannot be read as a fat binary counts as `false`.
fn expects_kpack(path: &Path, nature: &Nature) -> bool {
    let sections: Vec<&str> = match nature {
        Nature::Library(elf) | Nature::Program(elf) => elf.sections.iter().map(|section| &*section.name).collect(),
        Nature::Windows(file) => file.pe.sections.iter().map(|section| &*section.name).collect(),
        Nature::Standalone | Nature::Data => Vec::new(),
    };
    sections.iter().any(|name| KPACK_MARKERS.contains(name))
        || sections.iter().any(|name| CODE_SECTIONS.contains(name)) && has_packed_wrapper(path).unwrap_or(false)
}

fn has_packed_wrapper(path: &Path) -> Option<bool> {
    let file = fs_err::File::open(path).ok()?;
    let fat = FatBinary::read(file.file(), file.metadata().ok()?.len()).ok()??;
    Some(fat.wrappers.iter().any(|wrapper| wrapper.magic == Magic::Kpacked))
}
