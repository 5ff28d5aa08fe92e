//! Input: the files of a set. Output: what follows from them: versions, entry points, targets, and
//! the name of the set.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_content::archive_path::parent;
use rocwheel_index::requirement::Requirement;
use rocwheel_pages::views::target;
use rocwheel_store::listing::distributions;
use rocwheel_stream::{ReleaseSet, SetFile, StreamFault};

use crate::Error;

/// Projects that a set is named after.
const MAIN_PROJECTS: [&str; 3] = ["rocm", "torch", "jax"];

/// Those of them that other projects of their set require.
const FRAMEWORKS: [&str; 2] = ["torch", "jax"];

/// Fills in what follows from the files.
pub(super) fn complete(set: &mut ReleaseSet) {
    set.versions =
        distributions(set.files.keys()).into_iter().map(|one| (one.project, one.version.to_string())).collect();
    set.extras = BTreeMap::new();
    for (key, file) in set.files.iter().filter(|(_, file)| !file.extras.is_empty()) {
        set.extras.entry(parent(key).to_owned()).or_default().extend(file.extras.iter().cloned());
    }
    let required: BTreeSet<String> = set
        .files
        .iter()
        .flat_map(|(key, file)| required_names(file).into_iter().filter(move |name| name != parent(key)))
        .collect();
    let all = set.versions.keys().filter(|project| !required.contains(*project)).cloned();
    set.entry_points = all.collect();
    // torchvision and torchaudio require torch, and people still ask for torch.
    if !set.entry_points.iter().any(|project| MAIN_PROJECTS.contains(&project.as_str())) {
        set.entry_points.extend(set.versions.keys().find(|project| FRAMEWORKS.contains(&project.as_str())).cloned());
        set.entry_points.sort();
    }
    if set.entry_points.is_empty() {
        // Packages that require each other.
        set.entry_points = set.versions.keys().cloned().collect();
    }
    let targets: BTreeSet<&str> = set.versions.keys().filter_map(|project| target(project)).collect();
    set.targets_promised = targets.into_iter().map(str::to_owned).collect();
}

pub(super) fn required_names(file: &SetFile) -> Vec<String> {
    file.requires.iter().filter_map(|text| Some(Requirement::parse(text).ok()?.name)).collect()
}

/// `rocm-7.2.0`: the entry point and its version. Several entry points of one version share it.
pub(super) fn default_name(set: &ReleaseSet) -> Result<String, Error> {
    let named: Vec<(&String, &String)> =
        set.entry_points.iter().filter_map(|name| Some((name, set.versions.get(name)?))).collect();
    let versions: BTreeSet<&String> = named.iter().map(|(_, version)| *version).collect();
    let plain = named.iter().find(|(name, _)| MAIN_PROJECTS.contains(&name.as_str()));
    let only = named.first().filter(|_| versions.len() == 1);
    if let Some((name, version)) = plain.or(only) {
        return Ok(set_name(name, version));
    }
    let shown: Vec<String> = named.iter().map(|(name, version)| set_name(name, version)).collect();
    let example = shown.first().cloned().unwrap_or_default();
    Err(StreamFault::Refused {
        what: "the set needs a name".to_owned(),
        problems: vec![format!("nothing in it requires {}", shown.join(", "))],
        hint: format!("name it: `--set {example}`"),
    }
    .into())
}

/// Names of sets have no `!`, which versions with an epoch have.
fn set_name(name: &str, version: &str) -> String {
    format!("{name}-{}", version.replace('!', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(files: &[(&str, &[&str])]) -> ReleaseSet {
        let mut set = ReleaseSet::new("", jiff::Timestamp::UNIX_EPOCH);
        for (key, requires) in files {
            let requires = requires.iter().map(|text| (*text).to_owned()).collect();
            set.files.insert((*key).to_owned(), SetFile { requires, ..SetFile::default() });
        }
        complete(&mut set);
        set
    }

    #[test]
    fn a_set_is_named_after_what_people_install() {
        let rocm = set(&[
            ("rocm/rocm-7.2.0.tar.gz", &["rocm-sdk-core==7.2.0", "rocm-sdk-device-gfx942==7.2.0; extra == 'gfx942'"]),
            ("rocm-sdk-core/rocm_sdk_core-7.2.0-py3-none-linux_x86_64.whl", &[]),
            ("rocm-sdk-device-gfx942/rocm_sdk_device_gfx942-7.2.0-py3-none-linux_x86_64.whl", &[]),
        ]);
        assert_eq!(
            (default_name(&rocm).unwrap().as_str(), &rocm.entry_points[..]),
            ("rocm-7.2.0", &["rocm".to_owned()][..])
        );
        assert_eq!(rocm.targets_promised, ["gfx942"]);
        let versions = [("torch", "2.9.0"), ("torchaudio", "2.9.0"), ("torchvision", "0.24.0"), ("triton", "3.5.0")];
        for requires in [&["triton==3.5.0"][..], &[]] {
            let files = versions.map(|(name, version)| {
                let needs: &[&str] = if name == "torch" { requires } else { &["torch==2.9.0"] };
                let needs = if name == "triton" { &[] } else { needs };
                (format!("{name}/{name}-{version}+rocm7.10.0-cp312-cp312-linux_x86_64.whl"), needs)
            });
            let torch = set(&files.each_ref().map(|(key, needs)| (key.as_str(), *needs)));
            assert_eq!(default_name(&torch).unwrap(), "torch-2.9.0+rocm7.10.0");
            assert!(torch.entry_points.contains(&"torch".to_owned()), "{:?}", torch.entry_points);
        }
        let two = set(&[("a/a-1-py3-none-any.whl", &[]), ("b/b-2-py3-none-any.whl", &[])]);
        assert!(default_name(&two).is_err(), "neither of two versions is that of the set");
    }
}
