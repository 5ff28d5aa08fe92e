//! Input: the installed torch. Output: whether it is for AMD's GPUs, for this GPU, and for the
//! installed ROCm. Its metadata and the names of its files tell; importing it would take seconds.

use std::collections::BTreeSet;

use pep440_rs::Version;
use rocwheel_loader::site::Distribution;
use rocwheel_progress::{shell_path, shell_word};
use rocwheel_tables::DevicePackages;

use crate::builds::{self, Builds, Kind};
use crate::coverage::Unexamined;
use crate::finding::Symptom;
use crate::gpus::GpuFacts;
use crate::installed::{Installed, assigned_value};
use crate::target_names::{is_covered, listed};

/// What the installed torch is built for, and what tells it; `None` without torch.
pub(crate) fn kind(installed: &Installed) -> Option<(Kind, String)> {
    installed.get("torch").map(|torch| kind_of(installed, torch))
}

fn kind_of(installed: &Installed, torch: &Distribution) -> (Kind, String) {
    if let Some(found) = built_for(installed) {
        return found;
    }
    let version = torch.version();
    let local = version.split_once('+').map_or("", |(_, local)| local);
    let nvidia = torch.metadata.all("Requires-Dist").into_iter().find(|text| text.starts_with("nvidia-"));
    if let Some(path) = library_of_torch(installed, &["libtorch_hip.so", "libc10_hip.so"]) {
        (Kind::Rocm, path.to_owned())
    } else if local.contains("rocm") {
        (Kind::Rocm, version)
    } else if let Some(path) = library_of_torch(installed, &["libtorch_cuda.so", "libc10_cuda.so"]) {
        (Kind::Cuda, path.to_owned())
    } else if local.starts_with("cu") {
        (Kind::Cuda, version)
    } else if let Some(requirement) = nvidia {
        (Kind::Cuda, format!("requires {}", requirement.split(';').next().unwrap_or_default().trim()))
    } else {
        (Kind::Processor, "no libtorch_hip.so".to_owned())
    }
}

/// The first of these libraries that torch has.
fn library_of_torch<'a>(installed: &'a Installed, starts: &[&str]) -> Option<&'a str> {
    starts.iter().find_map(|start| {
        let mut paths = installed.files(|one| one.name == "torch").map(|(_, path)| path);
        paths.find(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with(start)))
    })
}

/// What `torch/version.py` says: its build writes the versions of HIP and CUDA there, or `None`.
fn built_for(installed: &Installed) -> Option<(Kind, String)> {
    let bytes = installed.site.bytes(&format!("{}/torch/version.py", installed.site.packages())).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let hip = assigned_value(&text, "hip")?.trim_matches(['\'', '"']);
    let cuda = assigned_value(&text, "cuda")?.trim_matches(['\'', '"']);
    let (kind, name, value) = match (hip, cuda) {
        ("None", "None") => (Kind::Processor, "hip", "None"),
        ("None", cuda) => (Kind::Cuda, "cuda", cuda),
        (hip, _) => (Kind::Rocm, "hip", hip),
    };
    Some((kind, format!("torch/version.py: {name} = {value}")))
}

/// Judges torch for the GPUs of the machine. The packages that go with it are told with it.
pub(crate) fn check(
    installed: &Installed,
    (gpus, compiled): (&[(&GpuFacts, String)], &Builds),
    symptoms: &mut Vec<Symptom>,
    unexamined: &mut Vec<Unexamined>,
) {
    let Some(torch) = installed.get("torch") else { return };
    let (kind, reason) = kind_of(installed, torch);
    let name = match kind {
        Kind::Processor => Some("cpu-torch"),
        Kind::Cuda => Some("cuda-torch"),
        Kind::Rocm => None,
    };
    let Some(name) = name else {
        if !kernels(installed, torch, gpus, symptoms) {
            let why = "the names of its files do not tell for which GPUs they are";
            let decides = format!("`rocwheel kernels {}`", shell_path(installed.folder.path()));
            unexamined.push(Unexamined::new("the kernels of torch", why, decides));
        }
        return;
    };
    let Some((gpu, target)) = gpus.first() else { return };
    let mut requirements = vec!["torch".to_owned()];
    requirements.extend(builds::of_cuda(compiled));
    let symptom = if name == "cpu-torch" { Symptom::new("cpu-torch") } else { Symptom::new("cuda-torch") };
    symptoms.push(
        symptom
            .fill("version", &torch.version())
            .fill("target", target)
            .fill("requirements", &requirements.join(" "))
            .seen(torch.file_name(), reason)
            .seen(format!("/sys/class/kfd/kfd/topology/nodes/{}/properties", gpu.node), target),
    );
}

/// Kernels of torch itself: those of the libraries in it, and of its device packages. `false` if it
/// is not known for which GPUs they are, although there is one.
fn kernels(
    installed: &Installed,
    torch: &Distribution,
    gpus: &[(&GpuFacts, String)],
    symptoms: &mut Vec<Symptom>,
) -> bool {
    let targets = installed.kernels(&["torch", "amd-torch-device"]);
    if targets.is_empty() {
        return gpus.is_empty();
    }
    for (gpu, target) in gpus.iter().filter(|(_, target)| !is_covered(target, &targets)) {
        let has_packages = installed.of_gpus().any(|one| one.name.starts_with("amd-torch-device"));
        let requirement = if has_packages {
            format!("amd-torch-device-{}=={}", DevicePackages::embedded().key(target), torch.version())
        } else {
            "torch".to_owned()
        };
        symptoms.push(
            Symptom::new("torch-without-kernels")
                .fill("version", &torch.version())
                .fill("installed", &listed(&targets))
                .fill("target", target)
                .fill("requirement", &shell_word(&requirement))
                .seen(torch.file_name(), format!("kernels for {}", listed(&targets)))
                .seen(format!("/sys/class/kfd/kfd/topology/nodes/{}/properties", gpu.node), target),
        );
    }
    true
}

/// Packages that pin a version of ROCm other than the installed one.
pub(crate) fn check_pins(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let Some(rocm) = installed.rocm_version() else { return };
    let mut told: BTreeSet<String> = BTreeSet::new();
    for package in installed.of_gpus().filter(|one| !one.name.starts_with("rocm")) {
        let required = package.metadata.all("Requires-Dist").into_iter().filter_map(|text| pin(&text));
        let checked = checked_version(installed, package).map(|version| ("rocm".to_owned(), version));
        for (name, wanted) in required.chain(checked) {
            let Some(found) = installed.get(&name).map(Distribution::version).or_else(|| {
                // The selector is built on the user's machine, and may be missing.
                (name == "rocm").then(|| rocm.clone())
            }) else {
                continue;
            };
            let same = match (wanted.parse::<Version>(), found.parse::<Version>()) {
                (Ok(wanted), Ok(found)) => wanted == found || !wanted.is_local() && wanted == found.without_local(),
                _ => wanted == found,
            };
            if same || !told.insert(package.name.clone()) {
                continue;
            }
            symptoms.push(
                Symptom::new("torch-needs-other-rocm")
                    .fill("package", &format!("{} {}", package.name, package.version()))
                    .fill("needed", &format!("{name} {wanted}"))
                    .fill("installed", &found)
                    .fill("requirement", &shell_word(&format!("{name}=={wanted}")))
                    .seen(package.file_name(), format!("{name}=={wanted}"))
                    .seen(name, found),
            );
        }
    }
}

/// The exact version in a requirement on ROCm: `rocm[libraries]==7.1; …`.
pub(crate) fn pin(requirement: &str) -> Option<(String, String)> {
    let text = requirement.split(';').next()?;
    let (name, version) = text.split_once("==")?;
    let name = name.split(['[', ' ', '(']).next()?.trim();
    let version = version.split([',', ')', ' ']).next()?.trim();
    let name = rocwheel_wheel::canonical_name(name);
    let is_rocm = name == "rocm" || name.starts_with("rocm-sdk");
    (is_rocm && !version.contains('*') && !version.is_empty()).then(|| (name, version.to_owned()))
}

/// The version that torch's start compares ROCm with (`rocm_sdk.initialize_process`).
pub(crate) fn checked_version(installed: &Installed, package: &Distribution) -> Option<String> {
    if package.name != "torch" {
        return None;
    }
    let bytes = installed.site.bytes(&format!("{}/torch/_rocm_init.py", installed.site.packages())).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let value = text.split_once("check_version=")?.1;
    let quote = value.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
    // It may be a pattern (`7.*`), which is not judged.
    value[1..].split(quote).next().filter(|version| version.parse::<Version>().is_ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_of_rocm_are_found() {
        let found = |text: &str| pin(text).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(found("rocm[libraries]==7.1.0; platform_system == 'Linux'").as_deref(), Some("rocm 7.1.0"));
        assert_eq!(found("rocm_sdk_core (==7.1)").as_deref(), Some("rocm-sdk-core 7.1"));
        assert_eq!((found("triton==3.1"), found("rocm==7.*"), found("rocm>=7")), (None, None, None));
    }
}
