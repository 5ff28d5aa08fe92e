//! Input: populations for Windows. Output: the libraries that they import and that are missing.
//!
//! Windows looks for a DLL by its name alone: among those that the process has loaded, beside the
//! program or library that imports it, and in folders that Python adds (`rocm_sdk` adds those of
//! all packages). So a package is complete if the packages that are installed with it hold all
//! names, in any folder.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_content::archive_path::{file_name, join};
use rocwheel_tables::windows;

use crate::inspect::{Nature, Natures};
use crate::populate::Population;
use crate::search_path::AbsentLibrary;

/// Libraries that a population imports and that no package holds.
#[derive(Debug, Default)]
pub struct UnmetImports {
    /// Libraries that belong to ROCm.
    pub missing: Vec<AbsentLibrary>,
    /// Libraries that no table knows: the tables of Windows' own libraries are never complete.
    pub unknown: Vec<AbsentLibrary>,
}

/// Looks in `population` and `others` for all libraries that the files of `population` import when
/// they are loaded. Delay-loaded imports may be missing.
pub fn check(
    population: &Population,
    others: &[&Population],
    natures: &Natures,
    provided: &dyn Fn(&str) -> bool,
) -> UnmetImports {
    let names: BTreeSet<String> = std::iter::once(&population)
        .chain(others)
        .flat_map(|one| one.files.keys())
        .map(|path| file_name(path).to_ascii_lowercase())
        .collect();
    let mut missing: BTreeMap<(bool, &str), BTreeSet<String>> = BTreeMap::new();
    for (path, file) in &population.files {
        let Some(Nature::Windows(pe)) = file.path().map(|source| natures.of(source)) else { continue };
        for library in &pe.imports.needed {
            if names.contains(&library.to_ascii_lowercase()) || windows::provides(library) || provided(library) {
                continue;
            }
            let is_rocm = windows::provider(library) == Some(windows::DllProvider::Rocm);
            missing.entry((is_rocm, library)).or_default().insert(join(&population.platform_package, path));
        }
    }
    let mut outcome = UnmetImports::default();
    for ((is_rocm, library), needed_by) in missing {
        let needed_by = needed_by.into_iter().collect();
        let row = AbsentLibrary { library: library.to_owned(), is_loaded_by_name: false, needed_by };
        if is_rocm { outcome.missing.push(row) } else { outcome.unknown.push(row) }
    }
    outcome
}
