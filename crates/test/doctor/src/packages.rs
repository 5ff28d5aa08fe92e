//! Input: the installed packages. Output: what keeps them from working with each other and with the
//! GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pep440_rs::Version;
use rocwheel_loader::site::{Distribution, PackageFolder};
use rocwheel_progress::{shell_path, shell_word};
use rocwheel_tables::DevicePackages;
use rocwheel_wheel::Headers;

use crate::coverage::Unexamined;
use crate::finding::Symptom;
use crate::gpus::GpuFacts;
use crate::installed::{Installed, MOST_EVIDENCE, is_of_gpus, package_of, pinned};
use crate::target_names::{is_covered, listed};
use crate::tree::ReadFault;

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

/// A version without the number of a repeated release: packages of one build differ in it.
fn without_post(version: &str) -> String {
    match version.split_once(".post") {
        Some((before, after)) => {
            format!("{before}{}", after.trim_start_matches(|letter: char| letter.is_ascii_digit()))
        }
        None => version.to_owned(),
    }
}

/// Finds ROCm packages of different releases in one environment.
pub(crate) fn check_versions(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let mut versions: BTreeMap<String, Vec<&Distribution>> = BTreeMap::new();
    for distribution in installed.of_rocm() {
        versions.entry(without_post(&distribution.version())).or_default().push(distribution);
    }
    if versions.len() < 2 {
        return;
    }
    let main = versions.iter().max_by_key(|(version, packages)| (packages.len(), version.parse::<Version>().ok()));
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
            let decides = format!("`rocwheel kernels {}`", shell_path(installed.folder.path()));
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
    let files = installed.files(Distribution::is_rest).map(|(_, path)| path);
    let files: Vec<&str> = files.filter(|path| folders.iter().any(|folder| path.starts_with(folder))).collect();
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
    let symptoms = twice.map(|(package, infos)| {
        let requirement = installed.get(&package).map_or_else(|| package.clone(), pinned);
        let symptom = Symptom::new("installed-twice").fill("package", &package).fill("requirement", &requirement);
        infos.into_iter().fold(symptom, |symptom, info| symptom.seen(info, "exists"))
    });
    symptoms.collect()
}

/// `true` if another package for GPUs than those of ROCm requires this one by name.
pub(crate) fn is_required(installed: &Installed, name: &str) -> bool {
    let frameworks = installed.of_gpus().filter(|one| !one.name.starts_with("rocm") && one.name != name);
    let mut required = frameworks.flat_map(|one| one.metadata.all("Requires-Dist"));
    !name.starts_with("rocm") && required.any(|text| name_in(&text) == name)
}

/// The canonical name at the beginning of a requirement.
fn name_in(requirement: &str) -> String {
    let end = requirement.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter));
    rocwheel_wheel::canonical_name(&requirement[..end.unwrap_or(requirement.len())])
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
        let copy = found.keys().copied().min_by_key(|name| (name.starts_with("rocm"), name.starts_with("torch")));
        let Some(copy) = copy else { continue };
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
    fn a_repeated_release_is_one_version() {
        assert_eq!(without_post("7.1.0.post2+rocm"), "7.1.0+rocm");
        assert_eq!(without_post("7.1.0a20261101"), "7.1.0a20261101");
    }
}
