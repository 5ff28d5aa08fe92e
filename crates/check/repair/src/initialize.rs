//! Input: the ROCm libraries that a package needs, and the package's `__init__.py`. Output: a
//! module that loads them, or that lets the system find them, and an `__init__.py` that runs the
//! module first.
//!
//! `_rocm_init.py` has the form that framework builds write (framework-builds, 2.5), because
//! promotion tools edit the version in it as text.

use rocwheel_tables::dlopen::DlopenTable;
use rocwheel_tables::{LibraryFamily, LibraryProduct, Providers};
use rocwheel_wheel::read::Wheel;

use crate::inventory::{Binary, Inventory};
use crate::plan::WrittenText;
use crate::{Error, error, paths, python_source};

const INIT: &str = include_str!("../../../../python/wheel-repair/_rocm_init.py");
const INSIDE: &str = include_str!("../../../../python/wheel-repair/_rocm_inside.py");
const DLL_DIRECTORY: &str = include_str!("../../../../python/wheel-repair/_rocm_dll_directory.py");

/// The short names of ROCm's libraries that must be loaded first, in the order of the table: the
/// needed ones, and those that they load by name and require.
pub(crate) fn shortnames<'a>(libraries: impl Iterator<Item = &'a str>) -> Vec<String> {
    let providers = Providers::embedded();
    let mut wanted: Vec<&LibraryFamily> = Vec::new();
    for library in libraries {
        let mut names: Vec<String> = vec![library.to_owned()];
        let loads = DlopenTable::embedded().of(library).iter().filter(|load| load.required);
        names.extend(loads.map(|load| load.pattern.replace('*', "0")));
        for name in names {
            wanted.extend(providers.of(&name).filter(|provider| provider.kind == LibraryProduct::Rocm));
        }
    }
    wanted.sort_by_key(|provider| provider.order);
    wanted.dedup_by_key(|provider| provider.order);
    wanted.into_iter().filter_map(|provider| provider.shortname.clone()).collect()
}

/// The top-level packages that contain a binary for which `condition` is true; the error is a
/// binary outside of a package.
pub(crate) fn packages(inventory: &Inventory, condition: impl Fn(&Binary) -> bool) -> Result<Vec<String>, String> {
    let mut packages: Vec<String> = Vec::new();
    for binary in inventory.binaries.iter().filter(|binary| condition(binary)) {
        let Some(site) = binary.site() else { continue };
        let Some((package, _)) = site.split_once('/') else { return Err(site.to_owned()) };
        packages.push(package.to_owned());
    }
    packages.sort();
    packages.dedup();
    // Folders such as `name.libs` contain libraries of the packages.
    packages.retain(|package| !package.contains('.'));
    Ok(packages)
}

/// A module for a package, which the package's `__init__.py` runs.
pub(crate) struct Hook<'a> {
    pub(crate) module: &'a str,
    pub(crate) text: String,
    pub(crate) purpose: &'a str,
}

impl Hook<'_> {
    /// The hook that loads ROCm's libraries, `_rocm_init.py`.
    pub(crate) fn preload(shortnames: &[String], version: &str) -> Hook<'static> {
        let quoted: Vec<String> = shortnames.iter().map(|name| format!("'{name}'")).collect();
        let text = INIT.replace("'@SHORTNAMES@'", &quoted.join(", ")).replace("@VERSION@", version);
        Hook { module: "_rocm_init", text, purpose: "loads ROCm's libraries from the wheels beside" }
    }

    /// The hook that names the folder of the libraries on Windows.
    pub(crate) fn dll_directory(folder: &str) -> Hook<'static> {
        let text = DLL_DIRECTORY.replace("@FOLDER@", folder);
        Hook { module: "_rocm_dll_directory", text, purpose: "lets Windows find ROCm's libraries inside the wheel" }
    }

    /// The texts to add or change in `package`.
    pub(crate) fn texts(&self, wheel: &Wheel, package: &str) -> Result<Vec<WrittenText>, Error> {
        let mut texts = Vec::new();
        let member = format!("{package}/{}.py", self.module);
        let present = wheel.member(&member).is_some();
        if !present || wheel.bytes(&member)? != self.text.as_bytes() {
            texts.push(text(&member, self.purpose, present, self.text.clone().into_bytes()));
        }
        let member = format!("{package}/__init__.py");
        if wheel.member(&member).is_none() {
            return Err(unusable(wheel, package, &format!("it has no `{member}`")));
        }
        let source = wheel.bytes(&member)?;
        // PyTorch imports the module itself if it exists.
        let is_run = source.windows(self.module.len()).any(|window| window == self.module.as_bytes());
        if !is_run {
            let statement = format!("from . import {0}; {0}.initialize()", self.module);
            let source = python_source::prepend(&source, &statement)
                .ok_or_else(|| unusable(wheel, package, &format!("`{member}` breaks off in the middle")))?;
            texts.push(text(&member, "runs it before everything else", true, source));
        }
        Ok(texts)
    }
}

/// Replaces every `_rocm_init.py` of other builds by one that does nothing, because there are no
/// other packages to load from.
pub(crate) fn silenced(wheel: &Wheel) -> Result<Vec<WrittenText>, Error> {
    let mut texts = Vec::new();
    for listed in wheel.members().iter().filter(|listed| paths::name(&listed.name) == "_rocm_init.py") {
        if wheel.bytes(&listed.name)? != INSIDE.as_bytes() {
            texts.push(text(
                &listed.name,
                "does nothing, as ROCm is inside the wheel",
                true,
                INSIDE.as_bytes().to_vec(),
            ));
        }
    }
    Ok(texts)
}

fn unusable(wheel: &Wheel, package: &str, reason: &str) -> Error {
    error::package(wheel.path(), package, reason, "use `--resolve rpath`, which needs no Python")
}

fn text(member: &str, purpose: &str, replaces: bool, bytes: Vec<u8>) -> WrittenText {
    WrittenText { member: member.to_owned(), purpose: purpose.to_owned(), replaces, executable: false, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_by_name_is_loaded_first() {
        let names = shortnames(["libhipblas.so.3", "libamdhip64.so.7", "libz.so.1"].into_iter());
        assert_eq!(names, ["amd_comgr", "amdhip64", "hipblas"]);
    }

    #[test]
    fn the_module_has_the_form_that_release_tools_edit() {
        let hook = Hook::preload(&["amd_comgr".to_owned(), "amdhip64".to_owned()], "7.1.0");
        let expected = "\ndef initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(\n        \
            preload_shortnames=['amd_comgr', 'amdhip64'],\n        check_version='7.1.0')\n";
        assert_eq!(hook.text, expected);
    }
}
