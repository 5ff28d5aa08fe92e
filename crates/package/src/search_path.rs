//! Where each library looks for others: populations in, `DT_RPATH` entries and missing libraries
//! out.
//!
//! The search path is computed from what each file needs and loads, at least today's table (spec
//! 2.8) plus `$ORIGIN`. Entries that are absolute or leave the set are dropped and listed (pitfalls
//! 2).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_elf::Elf;
use rocwheel_rocm::dlopen::{DlopenTable, Load};
use serde::Serialize;

use crate::Logical;
use crate::inspect::Natures;
use crate::populate::{Population, Source};
use crate::rules::Rules;
use crate::tree::{file_name, join, parent};

/// An entry of a library's own search path that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Dropped {
    /// Distribution and path of the file.
    pub file: String,
    /// The entry.
    pub entry: String,
}

/// A library that the set does not hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// Its SONAME, or the pattern that is loaded at run time.
    pub library: String,
    /// It is not in DT_NEEDED: the files load it by name when they run (`dlopen`).
    pub is_loaded_by_name: bool,
    /// Installed paths of the files that need it.
    pub needed_by: Vec<String>,
}

/// What the computation found besides the search paths it wrote into the populations.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Entries not kept.
    pub dropped: Vec<Dropped>,
    /// Needed libraries that are neither in reach nor part of every system.
    pub missing: Vec<Missing>,
}

/// Libraries in the directories of the installed set: `_rocm_sdk_core/lib` → SONAMEs and file names
/// there.
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

/// Computes the search path of every ELF file of `populations[index]`, given all populations it may
/// look into.
pub struct SearchPaths<'a> {
    /// The table of distributions.
    pub rules: &'a Rules,
    /// Libraries loaded by name at run time.
    pub dlopen: &'a DlopenTable,
    /// What each file is.
    pub natures: &'a Natures,
    /// Libraries that every system has, or that were allowed to be missing.
    pub provided: &'a dyn Fn(&str) -> bool,
}

impl SearchPaths<'_> {
    /// Rewrites [`Source::File`] into [`Source::Edited`] where the search path changes. `packages`
    /// names the platform package of each distribution that the table of rules may refer to.
    pub fn apply(
        &self,
        population: &mut Population,
        others: &[&Population],
        packages: &BTreeMap<Logical, String>,
    ) -> Outcome {
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
        let mut outcome = Outcome::default();
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
            // Whether the flag can go is seen when the file is edited.
            if !is_same || elf.wants_executable_stack() {
                file.source = Source::Edited { path: source, search_path: entries };
            }
        }
        outcome.missing = missing
            .into_iter()
            .map(|((library, is_loaded_by_name), needed_by)| Missing {
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

/// A library that a file asks for.
enum Wanted<'a> {
    /// In its DT_NEEDED.
    Needed(&'a str),
    /// At run time, by a name that fits a pattern.
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

/// The directories of a file's own search path that exist in the set, in order; the rest goes to
/// `drop`.
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

/// The installed directory that a search path entry of a file in `origin` means; `None` when it
/// leaves site-packages.
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

/// How a file in `origin` names `directory`: `$ORIGIN` for its own, else up to site-packages and
/// down again, as today's tool spells it even inside one package.
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
