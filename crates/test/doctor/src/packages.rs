//! Input: a folder of Python packages. Output: the packages that have to do with GPUs, and what
//! keeps them from working with each other and with the GPUs. Nothing is imported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pep440_rs::Version;
use rocwheel_loader::site::{Distribution, PackageFolder, Role, Site};
use rocwheel_progress::{Reporter, shell_word};
use rocwheel_tables::{DevicePackages, TargetTable};
use rocwheel_wheel::{Headers, PythonVersion};
use serde::Serialize;

use crate::builds::{Builds, Kind};
use crate::coverage::Unexamined;
use crate::finding::{Symptom, gpu_package};
use crate::gpus::GpuFacts;
use crate::tree::ReadFault;

/// Pieces of evidence that a finding shows.
pub(crate) const MOST_EVIDENCE: usize = 6;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PackageFacts {
    /// Canonical name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What its compiled code is for: `ROCm`, `CUDA`, `the processor only`; `None` if nothing tells
    /// it, and for a package without any.
    pub built_for: Option<&'static str>,
}

/// The packages of an environment.
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
        let is_kept = |one: &Distribution| one.role == Role::Audited || one.is_rest();
        let kept: Vec<bool> = site.distributions.iter().map(is_kept).collect();
        site.files.retain(|path, placed| kept[placed.wheel] || !is_text(path));
        Ok(Installed { folder, beside, python, site })
    }

    /// All folders of packages, that of the environment first.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &PackageFolder> {
        std::iter::once(&self.folder).chain(&self.beside)
    }

    /// The folder of packages that a distribution is in.
    pub(crate) fn folder_of<'a>(&'a self, distribution: &'a Distribution) -> &'a Path {
        let above = if distribution.is_rest() { Some(&*distribution.path) } else { distribution.path.parent() };
        above.unwrap_or(self.folder.path())
    }

    /// The packages that have to do with GPUs.
    pub(crate) fn of_gpus(&self) -> impl Iterator<Item = &Distribution> {
        self.site.distributions.iter().filter(|distribution| distribution.role == Role::Audited)
    }

    pub(crate) fn facts(&self, builds: &Builds, torch: Option<Kind>) -> Vec<PackageFacts> {
        let facts = |one: &Distribution| {
            let known = builds.known.get(&one.name).map(|build| build.kind);
            let kind = if one.name == "torch" { torch } else { known };
            PackageFacts { name: one.name.clone(), version: one.version(), built_for: kind.map(Kind::name) }
        };
        let mut facts: Vec<PackageFacts> = self.of_gpus().map(facts).collect();
        facts.sort_by(|one, other| one.name.cmp(&other.name));
        facts
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Distribution> {
        self.site.distributions.iter().find(|distribution| distribution.name == name)
    }

    /// The packages of ROCm itself.
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
        let is_one = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let mut targets: BTreeSet<String> =
            self.files(|one| is_one(&one.name)).filter_map(|(_, path)| kernel_target(path)).collect();
        let named = self.of_gpus().filter(|one| is_one(&one.name));
        targets.extend(named.filter_map(|one| one.name.split_once("-device-").map(|(_, target)| target.to_owned())));
        targets
    }

    /// Families that the installed selector offers packages for; they are lines of a Python file.
    pub(crate) fn offered(&self) -> Vec<String> {
        let path = format!("{}/rocm_sdk/_dist_info.py", self.site.packages());
        let text = self.site.bytes(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let quoted = |line: &str| {
            let value = line.strip_prefix("AVAILABLE_TARGET_FAMILIES.append(")?.strip_suffix(')')?;
            Some(value.trim_matches(['\'', '"']).to_owned())
        };
        text.lines().filter_map(quoted).collect()
    }
}

/// `true` for a file that no loader reads, by its name.
fn is_text(path: &str) -> bool {
    const SUFFIXES: [&str; 12] =
        [".py", ".pyi", ".txt", ".md", ".rst", ".h", ".hpp", ".json", ".toml", ".html", ".js", ".css"];
    SUFFIXES.iter().any(|suffix| path.ends_with(suffix))
}

/// `true` for a package that has to do with GPUs.
fn is_of_gpus(name: &str) -> bool {
    gpu_package(name).is_some()
}

/// `true` if a folder of packages has one that has to do with GPUs.
pub(crate) fn has_gpu_packages(folder: &Path) -> bool {
    let entries = fs_err::read_dir(folder).ok().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| package_of(&name)).any(|name| is_of_gpus(&name))
}

/// The canonical name of the package that a `.dist-info` or `.egg-info` folder is of.
fn package_of(info: &str) -> Option<String> {
    let stem = info.strip_suffix(".dist-info").or_else(|| info.strip_suffix(".egg-info"))?;
    Some(rocwheel_wheel::canonical_name(stem.split('-').next()?))
}

/// Packages whose METADATA is missing or names no package: for Python and for the other checks they
/// are not installed, although their files are. An empty folder is what an uninstallation leaves.
pub(crate) fn check_metadata(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    for folder in installed.folders() {
        let entries = fs_err::read_dir(folder.path()).ok().into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        // pip renames a folder to `~name` before it removes it.
        let mut infos: Vec<String> =
            names.filter(|name| name.ends_with(".dist-info") && !name.starts_with('~')).collect();
        infos.sort();
        for info in infos {
            let path = folder.path().join(&info);
            let Some(package) = package_of(&info).filter(|package| is_of_gpus(package)) else { continue };
            if !fs_err::read_dir(&path).is_ok_and(|mut files| files.next().is_some()) {
                continue;
            }
            let metadata = path.join("METADATA");
            let words = match fs_err::read(&metadata) {
                Ok(bytes) if Headers::parse(&String::from_utf8_lossy(&bytes)).get("Name").is_some() => continue,
                Ok(bytes) if bytes.is_empty() => "is empty",
                Ok(_) => "has no `Name`",
                Err(_) => "does not exist",
            };
            let fault = ReadFault::Other(words.to_owned());
            let question = format!("Which version of {package} is installed");
            symptoms.push(Symptom::not_read(&question, &metadata.to_string_lossy(), &fault));
        }
    }
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

/// `true` if code for one of these targets, or for a group that it belongs to, runs on a target.
pub(crate) fn is_covered(target: &str, kernels: &BTreeSet<String>) -> bool {
    let packages = DevicePackages::embedded();
    let names: BTreeSet<String> = kernels.iter().map(|kernel| kernel.replace('_', "-")).collect();
    let members = |kernel: &String| TargetTable::embedded().members(kernel).contains(&target);
    packages.chain(target).iter().any(|name| names.contains(&name.replace('_', "-"))) || kernels.iter().any(members)
}

/// Names of targets for a sentence.
pub(crate) fn listed(targets: &BTreeSet<String>) -> String {
    if targets.is_empty() { "no GPU".to_owned() } else { targets.iter().cloned().collect::<Vec<_>>().join(", ") }
}

/// `name==version`, quoted for a shell if it has to be.
pub(crate) fn pinned(distribution: &Distribution) -> String {
    shell_word(&format!("{}=={}", distribution.name, distribution.version()))
}

/// A version without the number of a repeated release: packages of one build differ in it.
fn without_post(version: &str) -> String {
    match version.split_once(".post") {
        Some((before, after)) => {
            format!("{before}{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        }
        None => version.to_owned(),
    }
}

/// Packages of ROCm that are of several versions.
pub(crate) fn check_versions(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let mut versions: BTreeMap<String, Vec<&Distribution>> = BTreeMap::new();
    for distribution in installed.of_rocm() {
        versions.entry(without_post(&distribution.version())).or_default().push(distribution);
    }
    if versions.len() < 2 {
        return;
    }
    let newest = |version: &String| version.parse::<Version>().ok();
    let main = versions.iter().max_by_key(|(version, packages)| (packages.len(), newest(version)));
    let Some(main) = main.map(|(version, _)| version.clone()) else { return };
    let mut symptom = Symptom::new("mixed-versions").fill("version", &main);
    let others = versions.iter().filter(|(version, _)| **version != main).flat_map(|(_, packages)| packages);
    let others: Vec<&Distribution> = others.copied().collect();
    for distribution in others.iter().copied().chain(versions[&main].iter().copied()).take(MOST_EVIDENCE) {
        symptom = symptom.seen(distribution.file_name(), distribution.version());
    }
    let wanted: Vec<String> = others.iter().map(|one| shell_word(&format!("{}=={main}", one.name))).collect();
    symptoms.push(symptom.fill("requirements", &wanted.join(" ")));
}

/// Kernels of ROCm's libraries for the GPUs.
pub(crate) fn check_kernels(
    installed: &Installed,
    gpus: &[(&GpuFacts, String)],
    symptoms: &mut Vec<Symptom>,
    unexamined: &mut Vec<Unexamined>,
) {
    let Some(libraries) = installed.of_rocm().find(|one| one.name.starts_with("rocm-sdk-libraries")) else { return };
    let kernels = installed.kernels(&["rocm-sdk"]);
    let offered = installed.offered();
    if kernels.is_empty() && offered.is_empty() {
        if !gpus.is_empty() {
            let why = "the names of their files do not tell for which GPUs they are";
            let decides = format!("`rocwheel kernels {}`", shell_word(&installed.folder.path().to_string_lossy()));
            unexamined.push(Unexamined::new("the kernels of ROCm's libraries", why, decides));
        }
        return;
    }
    let version = installed.rocm_version().unwrap_or_else(|| libraries.version());
    for (gpu, target) in gpus {
        if is_covered(target, &kernels) {
            continue;
        }
        let families: BTreeSet<String> = offered.iter().cloned().collect();
        let path = format!("/sys/class/kfd/kfd/topology/nodes/{}/properties", gpu.node);
        if !offered.is_empty() && !is_covered(target, &families) {
            symptoms.push(
                Symptom::new("target-not-offered")
                    .fill("version", &version)
                    .fill("offered", &offered.join(", "))
                    .fill("target", target)
                    .seen(path, target)
                    .seen("rocm_sdk/_dist_info.py", offered.join(", ")),
            );
            continue;
        }
        let family = libraries.name.strip_prefix("rocm-sdk-libraries-");
        let requirement =
            match (family, offered.iter().find(|family| is_covered(target, &BTreeSet::from([(*family).clone()])))) {
                (Some(_), Some(family)) => format!("rocm-sdk-libraries-{family}=={version}"),
                _ => format!("rocm-sdk-device-{}=={version}", DevicePackages::embedded().key(target)),
            };
        symptoms.push(
            Symptom::new("no-kernels")
                .fill("installed", &listed(&kernels))
                .fill("target", target)
                .fill("requirement", &shell_word(&requirement))
                .seen(path, target)
                .seen(libraries.file_name(), format!("kernels for {}", listed(&kernels))),
        );
    }
}

/// A devel tree that was not expanded to its end.
pub(crate) fn check_devel(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let folders = installed.folders().map(PackageFolder::path);
    symptoms.extend(folders.filter_map(half_expanded));
}

fn half_expanded(folder: &Path) -> Option<Symptom> {
    let (tree, package) = (folder.join("_rocm_sdk_devel"), folder.join("rocm_sdk_devel"));
    let archive = ["_devel.tar", "_devel.tar.xz"].iter().map(|name| package.join(name)).find(|path| path.exists());
    let is_complete = tree.join("__init__.py").is_file() && archive.is_none();
    let is_begun = tree.is_dir() && fs_err::read_dir(&tree).is_ok_and(|mut entries| entries.next().is_some());
    // A wheel may bring the folder with nothing but its Python file.
    let names = fs_err::read_dir(&tree).map_or(0, |entries| entries.flatten().count());
    let is_packed = archive.is_some() && names <= 1;
    if !is_begun || is_complete || is_packed || !package.is_dir() {
        return None;
    }
    let mut symptom = Symptom::new("half-expanded").fill("tree", &tree.to_string_lossy());
    if !tree.join("__init__.py").is_file() {
        symptom = symptom.seen(tree.join("__init__.py").to_string_lossy(), "does not exist");
    }
    if let Some(archive) = archive {
        symptom = symptom.seen(archive.to_string_lossy(), "still exists");
    }
    Some(symptom)
}

/// Files in the folders of ROCm and torch that no RECORD lists.
pub(crate) fn check_unknown_files(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let folders = ["_rocm_sdk_core/", "_rocm_sdk_libraries", "rocm_sdk", "torch/lib/"];
    let is_of_rocm = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
    let files: Vec<&str> =
        installed.files(Distribution::is_rest).map(|(_, path)| path).filter(|path| is_of_rocm(path)).collect();
    let packages: BTreeSet<&str> = installed.of_gpus().map(|one| one.name.as_str()).collect();
    if files.is_empty() || packages.is_empty() {
        return;
    }
    let symptom = Symptom::new("files-unknown");
    let symptom = files.iter().take(3).fold(symptom, |symptom, path| symptom.seen(*path, "in no RECORD"));
    let more = files.len().saturating_sub(3);
    symptoms.push(if more > 0 { symptom.seen(format!("and {more} more"), "in no RECORD") } else { symptom });
}

/// Packages with several `.dist-info` folders.
pub(crate) fn check_twice(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    symptoms.extend(installed.folders().flat_map(|folder| twice_in(folder, installed)));
}

fn twice_in(folder: &PackageFolder, installed: &Installed) -> Vec<Symptom> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for info in folder.infos() {
        let name = info.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let package = name.split('-').next().unwrap_or_default();
        names.entry(rocwheel_wheel::canonical_name(package)).or_default().push(name);
    }
    let twice = names.into_iter().filter(|(package, infos)| infos.len() > 1 && is_of_gpus(package));
    let symptom = |(package, infos): (String, Vec<String>)| {
        let requirement = installed.get(&package).map_or_else(|| package.clone(), pinned);
        let symptom = Symptom::new("installed-twice").fill("package", &package).fill("requirement", &requirement);
        infos.into_iter().fold(symptom, |symptom, info| symptom.seen(info, "exists"))
    };
    twice.map(symptom).collect()
}

/// `true` if another package for GPUs than those of ROCm requires this one by name.
pub(crate) fn is_required(installed: &Installed, name: &str) -> bool {
    let names = |one: &Distribution| one.metadata.all("Requires-Dist");
    let is_named = |text: String| {
        let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter));
        rocwheel_wheel::canonical_name(&text[..end.unwrap_or(text.len())]) == name
    };
    let mut frameworks = installed.of_gpus().filter(|one| !one.name.starts_with("rocm") && one.name != name);
    !name.starts_with("rocm") && frameworks.any(|one| names(one).into_iter().any(is_named))
}

/// Libraries that count or run GPUs, and are in two packages.
pub(crate) fn check_copies(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    const LIBRARIES: [&str; 4] = ["libamd_smi.so", "libamdhip64.so", "libhsa-runtime64.so", "librocm_smi64.so"];
    for library in LIBRARIES {
        let mut found: BTreeMap<&str, &str> = BTreeMap::new();
        for (owner, path) in installed.files(|one| !one.is_rest() && one.name != "rocm-sdk-devel") {
            let name = path.rsplit('/').next().unwrap_or_default();
            if name.starts_with(library) && !path.starts_with("_rocm_sdk_devel") {
                found.entry(owner.name.as_str()).or_insert(path);
            }
        }
        // PyTorch's triton for ROCm brings the runtime for itself, and torch needs it.
        found.retain(|name, _| !name.contains("triton") || !is_required(installed, name));
        if found.len() < 2 {
            continue;
        }
        // ROCm's own packages stay, and so does a framework.
        let rank = |name: &&str| if name.starts_with("rocm") { 2 } else { i32::from(name.starts_with("torch")) };
        let Some(copy) = found.keys().copied().min_by_key(rank) else { continue };
        let symptom = Symptom::new("two-copies").fill("library", library).fill("package", copy);
        let symptom = found.iter().fold(symptom, |symptom, (owner, path)| symptom.seen(*path, *owner));
        let is_kept = copy.starts_with("torch") || is_required(installed, copy);
        symptoms.push(if is_kept { symptom.without_command() } else { symptom });
    }
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

    #[test]
    fn code_for_a_group_runs_on_its_members() {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        assert!(is_covered("gfx942", &set("gfx942")) && is_covered("gfx942", &set("gfx9-4-generic")));
        assert!(is_covered("gfx1100", &set("gfx110X-all")) && is_covered("gfx1201", &set("gfx12-0")));
        assert!(!is_covered("gfx1152", &set("gfx1151")) && !is_covered("gfx942", &BTreeSet::new()));
    }

    #[test]
    fn a_repeated_release_is_one_version() {
        assert_eq!(without_post("7.1.0.post2+rocm"), "7.1.0+rocm");
        assert_eq!(without_post("7.1.0a20261101"), "7.1.0a20261101");
    }
}
