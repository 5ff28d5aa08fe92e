//! Input: populations. Output: the `DT_RPATH` entries of each ELF file, and the libraries that are
//! missing.
//!
//! The search path is computed from the libraries that each file needs and loads; it has at least
//! the entries of TheRock's current table (spec 2.8) and `$ORIGIN`. Entries that are absolute or
//! leave the set are dropped and listed (pitfalls 2).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_content::archive_path::{file_name, join, parent};
use rocwheel_elf::Elf;
use rocwheel_progress::{few_in_backticks, in_backticks};
use rocwheel_tables::dlopen::{DlopenTable, Load};
use serde::Serialize;

use crate::Logical;
use crate::inspect::Natures;
use crate::populate::{FileSource, Population};
use crate::rules::Rules;

/// An entry of a library's own search path that was dropped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Dropped {
    /// Distribution and path of the file.
    pub file: String,
    pub entry: String,
}

/// A library that the set does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct AbsentLibrary {
    /// Its SONAME, or the pattern of its name if it is loaded at run time.
    pub library: String,
    /// `true` if it is not in DT_NEEDED, but the files load it by name at run time (`dlopen`).
    pub is_loaded_by_name: bool,
    /// Installed paths of the files that need it.
    pub needed_by: Vec<String>,
}

impl AbsentLibrary {
    /// Returns a sentence with the first files that need it.
    pub(crate) fn line(&self) -> String {
        self.needed_by(&first(&self.needed_by))
    }

    /// Returns a sentence with all files that need it.
    pub(crate) fn whole(&self) -> String {
        self.needed_by(&in_backticks(&self.needed_by))
    }

    fn needed_by(&self, files: &str) -> String {
        let how = if self.is_loaded_by_name { "loaded by name (dlopen)" } else { "needed" };
        format!("`{}` is {how} by {files}", self.library)
    }
}

/// Lists the first names, and the number of the others.
pub(crate) fn first(names: &[String]) -> String {
    few_in_backticks(names, 3)
}

/// Results of the computation besides the search paths, which are written into the populations.
#[derive(Debug, Default)]
pub struct SearchPathReport {
    pub dropped: Vec<Dropped>,
    /// Needed libraries that are not in a reachable package and not part of every system.
    pub missing: Vec<AbsentLibrary>,
}

/// Libraries in the directories of the installed set: directory such as `_rocm_sdk_core/lib` → file
/// names in it.
struct Layout {
    directories: BTreeMap<String, BTreeSet<String>>,
}

impl Layout {
    fn of(populations: &[&Population]) -> Layout {
        let mut directories: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for population in populations {
            for path in population.files.keys() {
                let installed = join(&population.platform_package, path);
                directories.entry(parent(&installed).to_owned()).or_default().insert(file_name(path).to_owned());
            }
        }
        Layout { directories }
    }

    fn holds(&self, directory: &str, wanted: &Wanted<'_>) -> bool {
        self.directories.get(directory).is_some_and(|names| match wanted {
            Wanted::Needed(name) => names.contains(*name),
            Wanted::Loaded(load) => names.iter().any(|name| load.matches(name)),
        })
    }

    fn directory_of(&self, wanted: &Wanted<'_>, likely: &[String]) -> Option<String> {
        likely
            .iter()
            .find(|directory| self.holds(directory, wanted))
            .cloned()
            .or_else(|| self.directories.keys().find(|directory| self.holds(directory, wanted)).cloned())
    }
}

/// Computes the search path of every ELF file of a population, given all populations it may use.
pub struct SearchPaths<'a> {
    pub rules: &'a Rules,
    /// The table of libraries that are loaded by name at run time.
    pub dlopen: &'a DlopenTable,
    pub natures: &'a Natures,
    /// `true` for libraries that every system has, or that may be missing.
    pub provided: &'a dyn Fn(&str) -> bool,
}

impl SearchPaths<'_> {
    /// Turns [`FileSource::File`] into [`FileSource::Edited`] for files whose search path changes.
    /// `packages` has the platform package of each distribution in the table of rules.
    pub fn apply(
        &self,
        population: &mut Population,
        others: &[&Population],
        packages: &BTreeMap<Logical, String>,
    ) -> SearchPathReport {
        let layout = {
            let mut all = vec![&*population];
            all.extend(others);
            Layout::of(&all)
        };
        let table: Vec<String> = self
            .rules
            .of(population.logical)
            .search
            .iter()
            .filter_map(|entry| {
                let (logical, path) = entry.split_once(':')?;
                Some(join(packages.get(&Logical::parse(logical)?)?, path))
            })
            .collect();
        let mut outcome = SearchPathReport::default();
        let mut missing: BTreeMap<(String, bool), BTreeSet<String>> = BTreeMap::new();
        let package = population.platform_package.clone();
        for (path, file) in &mut population.files {
            let Some(source) = file.path().cloned() else { continue };
            let Some(elf) = self.natures.of(&source).elf() else { continue };
            if elf.needed.is_empty() && elf.rpath.is_none() && elf.runpath.is_none() {
                continue;
            }
            let installed = join(&package, path);
            let mut directories = kept(elf, parent(&installed), &layout, &package, &mut |entry| {
                outcome.dropped.push(Dropped { file: installed.clone(), entry });
            });
            push(&mut directories, parent(&installed).to_owned());
            for directory in &table {
                push(&mut directories, directory.clone());
            }
            for wanted in self.wanted(elf) {
                match layout.directory_of(&wanted, &directories) {
                    Some(directory) => push(&mut directories, directory),
                    None if wanted.is_required() && !(self.provided)(wanted.name()) => {
                        let key = (wanted.name().to_owned(), matches!(wanted, Wanted::Loaded(_)));
                        missing.entry(key).or_default().insert(installed.clone());
                    }
                    None => {}
                }
            }
            let entries: Vec<String> =
                directories.iter().map(|directory| spell(parent(&installed), directory)).collect();
            let is_same = elf.runpath.is_none() && elf.rpath.as_deref() == Some(entries.join(":").as_str());
            // The edit decides later if the executable-stack flag can be removed.
            if !is_same || elf.wants_executable_stack() {
                file.source = FileSource::Edited { path: source, search_path: entries };
            }
        }
        outcome.missing = missing
            .into_iter()
            .map(|((library, is_loaded_by_name), needed_by)| AbsentLibrary {
                library,
                is_loaded_by_name,
                needed_by: needed_by.into_iter().collect(),
            })
            .collect();
        outcome
    }

    fn wanted<'e>(&'e self, elf: &'e Elf) -> impl Iterator<Item = Wanted<'e>> {
        let loads = elf.soname.iter().flat_map(|soname| self.dlopen.of(soname));
        elf.needed.iter().map(|name| Wanted::Needed(name)).chain(loads.map(Wanted::Loaded))
    }
}

/// A library that a file needs.
enum Wanted<'a> {
    /// An entry of DT_NEEDED.
    Needed(&'a str),
    /// A library that is loaded at run time, by a name that matches a pattern.
    Loaded(&'a Load),
}

impl Wanted<'_> {
    fn name(&self) -> &str {
        match self {
            Wanted::Needed(name) => name,
            Wanted::Loaded(load) => &load.pattern,
        }
    }

    fn is_required(&self) -> bool {
        match self {
            Wanted::Needed(_) => true,
            Wanted::Loaded(load) => load.required,
        }
    }
}

fn push(directories: &mut Vec<String>, directory: String) {
    if !directories.contains(&directory) {
        directories.push(directory);
    }
}

/// Returns the directories of a file's own search path that exist in the set, in order; the other
/// entries are passed to `drop`.
fn kept(elf: &Elf, origin: &str, layout: &Layout, package: &str, drop: &mut dyn FnMut(String)) -> Vec<String> {
    let mut directories = Vec::new();
    let own = elf.rpath.iter().chain(&elf.runpath).flat_map(|path| path.split(':')).filter(|entry| !entry.is_empty());
    for entry in own {
        match locate(entry, origin) {
            Some(directory)
                if layout.directories.contains_key(&directory)
                    || directory == package
                    || directory.starts_with(&format!("{package}/")) =>
            {
                push(&mut directories, directory);
            }
            _ => drop(entry.to_owned()),
        }
    }
    directories
}

/// Returns the installed directory that a search path entry of a file in `origin` refers to; `None`
/// if it is outside site-packages.
pub fn locate(entry: &str, origin: &str) -> Option<String> {
    let below = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}"))?;
    if !below.is_empty() && !below.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = origin.split('/').filter(|part| !part.is_empty()).collect();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Returns the search path entry for `directory` in a file in `origin`: `$ORIGIN` for its own
/// directory, else up to site-packages and down again, which TheRock's current tool does even
/// inside one package.
pub fn spell(origin: &str, directory: &str) -> String {
    if origin == directory {
        return "$ORIGIN".to_owned();
    }
    let up = "../".repeat(origin.split('/').filter(|part| !part.is_empty()).count());
    format!("$ORIGIN/{up}{directory}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_located_inside_site_packages_only() {
        assert_eq!(locate("$ORIGIN", "p/lib").as_deref(), Some("p/lib"));
        assert_eq!(locate("${ORIGIN}/../lib64/", "p/lib").as_deref(), Some("p/lib64"));
        assert_eq!(locate("$ORIGIN/../../../lib", "p/lib"), None);
        assert_eq!(locate("/opt/rocm/lib", "p/lib"), None);
        assert_eq!(locate("$ORIGINAL", "p/lib"), None);
        assert_eq!(locate("$ORIGIN/../..", "p/lib"), None);
    }

    #[test]
    fn directories_are_spelled_as_today() {
        assert_eq!(spell("_rocm_sdk_core/lib", "_rocm_sdk_core/lib"), "$ORIGIN");
        assert_eq!(spell("_rocm_sdk_libraries/lib", "_rocm_sdk_core/lib"), "$ORIGIN/../../_rocm_sdk_core/lib");
        assert_eq!(
            spell("_rocm_sdk_core/lib/llvm/bin", "_rocm_sdk_core/lib/llvm/lib"),
            "$ORIGIN/../../../../_rocm_sdk_core/lib/llvm/lib"
        );
    }

    #[test]
    fn what_is_spelled_is_located_again() {
        for (origin, directory) in [("a/b/c", "a/b"), ("a", "b/lib"), ("a/lib", "a/lib")] {
            assert_eq!(locate(&spell(origin, directory), origin).as_deref(), Some(directory));
        }
    }
}
