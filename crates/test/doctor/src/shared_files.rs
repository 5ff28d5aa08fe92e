//! Input: the packages of an environment. Output: packages that own one file: the one that was
//! installed last has written it, and removing either takes it away.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_loader::site::Distribution;

use crate::finding::{Gravity, Symptom};
use crate::installed::{Installed, MOST_EVIDENCE, pinned};
use crate::packages::is_required;

/// Folders that packages bring along by mistake.
const STRAY: [&str; 6] = ["tests", "test", "benchmarks", "examples", "docs", "scripts"];

/// Files that packages for GPUs share, by the names of the packages.
fn shared(installed: &Installed) -> BTreeMap<Vec<String>, Vec<&str>> {
    let mut found: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
    let packages = format!("{}/", installed.site.packages());
    for clash in &installed.site.clashes {
        let Some(path) = clash.path.strip_prefix(&packages) else { continue };
        let top = path.split('/').next().unwrap_or_default();
        let owners: BTreeSet<&str> =
            clash.wheels.iter().map(|index| installed.site.distributions[*index].name.as_str()).collect();
        let are_of_gpus = owners.iter().all(|name| installed.of_gpus().any(|one| one.name == **name));
        // ROCm's packages share folders, and their builder takes care of them.
        let are_of_rocm = owners.iter().all(|name| name.starts_with("rocm") || name.starts_with("amd-"));
        if owners.len() < 2 || STRAY.contains(&top) || !are_of_gpus || are_of_rocm {
            continue;
        }
        found.entry(owners.into_iter().map(str::to_owned).collect()).or_default().push(path);
    }
    found
}

/// Adds a finding for each set of packages: an error if one of them is `foreign`, for other GPUs.
/// It replaces the findings that it explains: packages for other GPUs, and changed or missing
/// files.
pub(crate) fn check(installed: &Installed, foreign: &BTreeSet<String>, symptoms: &mut Vec<Symptom>) {
    for (owners, files) in shared(installed) {
        // One that another package requires stays, then one for ROCm.
        let kept = owners
            .iter()
            .max_by_key(|name| (is_required(installed, name), name.contains("rocm"), name.contains("migraphx")));
        let Some(kept) = kept.and_then(|name| installed.get(name)) else { continue };
        let first = files.first().copied().unwrap_or_default();
        let more = match files.len() {
            1 => String::new(),
            2 => " and another file".to_owned(),
            count => format!(" and {} other files", count - 1),
        };
        let others: Vec<String> = owners.iter().filter(|name| **name != kept.name).cloned().collect();
        let replaced: Vec<String> =
            others.iter().filter_map(|name| installed.get(name)).map(Distribution::file_name).collect();
        symptoms.retain(|symptom| {
            if symptom.name == "other-build" {
                return !symptom.evidence.first().is_some_and(|seen| replaced.contains(&seen.path));
            }
            let is_of_files = ["files-changed", "files-missing"].contains(&symptom.name);
            // The first of several stands for all: the command replaces the whole package.
            !(is_of_files && symptom.evidence.first().is_some_and(|seen| files.contains(&seen.path.as_str())))
        });
        let mut symptom = Symptom::new("one-file-two-packages")
            .fill("packages", &owners.join(" and "))
            .fill("packages-list", &owners.join(" "))
            .fill("file", first)
            .fill("more", &more)
            .fill("requirement", &pinned(kept));
        for name in owners.iter().take(MOST_EVIDENCE) {
            let info = installed.get(name).map(Distribution::file_name);
            symptom = symptom.seen(info.unwrap_or_else(|| name.clone()), first);
        }
        let is_foreign = others.iter().any(|name| foreign.contains(name));
        symptoms.push(if is_foreign { symptom.weighing(Gravity::Error) } else { symptom });
    }
}
