//! Input: a folder of Python packages. Output: the packages in it that have to do with GPUs, and
//! their files. Nothing is imported.

use std::collections::BTreeSet;
use std::path::Path;

use rocwheel_loader::site::{Distribution, PackageFolder, Role, Site};
use rocwheel_progress::{Reporter, shell_word};
use rocwheel_wheel::PythonVersion;

use crate::finding::gpu_package;

/// Pieces of evidence that a finding shows.
pub(crate) const MOST_EVIDENCE: usize = 6;

pub(crate) struct Installed {
    /// That of the environment itself.
    pub(crate) folder: PackageFolder,
    /// Further folders from which its Python imports packages.
    pub(crate) beside: Vec<PackageFolder>,
    /// `None` if neither the path of the folder nor a package tells.
    pub(crate) python: Option<PythonVersion>,
    pub(crate) site: Site,
}

impl Installed {
    /// Opens the packages of an environment, which may have none.
    pub(crate) fn open(
        folder: PackageFolder,
        beside: Vec<PackageFolder>,
        (scratch, reporter): (&Path, &dyn Reporter),
    ) -> Result<Installed, rocwheel_loader::Error> {
        let python = folder.python();
        let place = folder.place(python.unwrap_or_else(|| PythonVersion::newest_of::<&Path>(&[])));
        let folders: Vec<PackageFolder> = std::iter::once(&folder).chain(&beside).cloned().collect();
        let mut site = match Site::of_search_path(&folders, &place, scratch, reporter) {
            Ok(site) => site,
            Err(rocwheel_loader::Error::NoWheels) => Site::of_files([], &place),
            Err(error) => return Err(error),
        };
        // The others are there for the loader only.
        for distribution in &mut site.distributions {
            if !is_of_gpus(&distribution.name) {
                distribution.role = Role::Beside;
            }
        }
        // Of the others the loader needs libraries. Without their Python files an environment of
        // 400 packages takes half the time.
        let kept: Vec<bool> = site.distributions.iter().map(|one| one.role == Role::Audited || one.is_rest()).collect();
        site.files.retain(|path, placed| kept[placed.wheel] || !is_text(path));
        Ok(Installed { folder, beside, python, site })
    }

    /// All folders of packages, that of the environment first.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &PackageFolder> {
        std::iter::once(&self.folder).chain(&self.beside)
    }

    pub(crate) fn folder_of<'a>(&'a self, distribution: &'a Distribution) -> &'a Path {
        let above = if distribution.is_rest() { Some(&*distribution.path) } else { distribution.path.parent() };
        above.unwrap_or(self.folder.path())
    }

    pub(crate) fn of_gpus(&self) -> impl Iterator<Item = &Distribution> {
        self.site.distributions.iter().filter(|distribution| distribution.role == Role::Audited)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Distribution> {
        self.site.distributions.iter().find(|distribution| distribution.name == name)
    }

    pub(crate) fn of_rocm(&self) -> impl Iterator<Item = &Distribution> {
        self.of_gpus().filter(|one| one.name == "rocm" || one.name.starts_with("rocm-sdk"))
    }

    /// The version of ROCm: that of the selector, else of core.
    pub(crate) fn rocm_version(&self) -> Option<String> {
        let named = ["rocm", "rocm-sdk-core"].iter().find_map(|name| self.get(name));
        named.or_else(|| self.of_rocm().next()).map(Distribution::version)
    }

    /// The paths in the folder of the packages that belong to some packages.
    pub(crate) fn files<'a>(
        &'a self,
        is_wanted: impl Fn(&Distribution) -> bool + 'a,
    ) -> impl Iterator<Item = (&'a Distribution, &'a str)> + 'a {
        let wanted: Vec<bool> = self.site.distributions.iter().map(is_wanted).collect();
        let files = self.site.files.iter().filter(move |(_, placed)| wanted[placed.wheel]);
        files.map(|(path, placed)| (&self.site.distributions[placed.wheel], self.site.shown(path)))
    }

    /// The targets for which packages have kernels, by the names of their files and of the packages
    /// themselves; empty if names do not tell.
    pub(crate) fn kernels(&self, prefixes: &[&str]) -> BTreeSet<String> {
        let files = self.files(|one| begins_with(&one.name, prefixes));
        let mut targets: BTreeSet<String> = files.filter_map(|(_, path)| kernel_target(path)).collect();
        let named = self.of_gpus().filter(|one| begins_with(&one.name, prefixes));
        targets.extend(named.filter_map(|one| one.name.split_once("-device-").map(|(_, target)| target.to_owned())));
        targets
    }

    /// Families that the installed selector offers packages for; they are lines of a Python file.
    pub(crate) fn offered(&self) -> Vec<String> {
        let path = format!("{}/rocm_sdk/_dist_info.py", self.site.packages());
        let text = self.site.bytes(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let rows = text.lines().filter_map(|line| line.strip_prefix("AVAILABLE_TARGET_FAMILIES.append("));
        let values = rows.filter_map(|row| row.strip_suffix(')'));
        values.map(|value| value.trim_matches(['\'', '"']).to_owned()).collect()
    }
}

fn begins_with(name: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// What a Python module assigns to a name, as it is written: `'7.1'` in `hip: Optional[str] =
/// '7.1'`.
pub(crate) fn assigned_value<'a>(module: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = module.lines().filter_map(|line| line.strip_prefix(name)?.split_once('='));
    let (_, value) = lines.find(|(kind, _)| kind.trim().is_empty() || kind.starts_with(':'))?;
    Some(value.trim())
}

/// `true` for a file that no loader reads, by its name.
fn is_text(path: &str) -> bool {
    const SUFFIXES: [&str; 12] =
        [".py", ".pyi", ".txt", ".md", ".rst", ".h", ".hpp", ".json", ".toml", ".html", ".js", ".css"];
    SUFFIXES.iter().any(|suffix| path.ends_with(suffix))
}

pub(crate) fn is_of_gpus(name: &str) -> bool {
    gpu_package(name).is_some()
}

/// `true` if a folder of packages has one that has to do with GPUs.
pub(crate) fn has_gpu_packages(folder: &Path) -> bool {
    let entries = fs_err::read_dir(folder).ok().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| package_of(&name)).any(|name| is_of_gpus(&name))
}

/// The canonical name of the package that a `.dist-info` or `.egg-info` folder is of.
pub(crate) fn package_of(info: &str) -> Option<String> {
    let stem = info.strip_suffix(".dist-info").or_else(|| info.strip_suffix(".egg-info"))?;
    Some(rocwheel_wheel::canonical_name(stem.split('-').next()?))
}

/// The target in the name of a file with kernels: `gfx942` for
/// `_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_lazy_gfx942.dat`.
fn kernel_target(path: &str) -> Option<String> {
    let holds_kernels = path.contains("/library/") || path.contains(".kpack") || path.contains("aotriton");
    let (folder, name) = path.rsplit_once('/')?;
    let text = if name.contains("gfx") { name } else { folder.rsplit('/').next()? };
    if !holds_kernels && !name.starts_with("_device_gfx") {
        return None;
    }
    let rest = &text[text.find("gfx")? + 3..];
    let number: String = rest.chars().take_while(|letter| matches!(letter, '0'..='9' | 'a'..='f')).collect();
    let after = &rest[number.len()..];
    let generic =
        ["-generic", "-4-generic", "_4_generic", "_generic"].iter().find(|suffix| after.starts_with(**suffix));
    let name = format!("gfx{number}{}", generic.unwrap_or(&"")).replace('_', "-");
    (number.len() >= 3 || generic.is_some()).then_some(name)
}

/// `name==version`, quoted for a shell if it has to be.
pub(crate) fn pinned(distribution: &Distribution) -> String {
    shell_word(&format!("{}=={}", distribution.name, distribution.version()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_tell_the_target() {
        for (path, target) in [
            ("_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_lazy_gfx942.dat", Some("gfx942")),
            ("torch/lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco", Some("gfx90a")),
            ("torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2", None),
            ("torch/lib/.kpack/torch_gfx1100.kpack", Some("gfx1100")),
            ("_rocm_sdk_libraries/.kpack/blas_lib_gfx9-4-generic.kpack", Some("gfx9-4-generic")),
            ("_rocm_sdk_libraries/_device_gfx1201.py", Some("gfx1201")),
            ("docs/gfx942.txt", None),
        ] {
            assert_eq!(kernel_target(path).as_deref(), target, "{path}");
        }
    }
}
