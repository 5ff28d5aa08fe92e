//! Input: a finding of the audit about libraries of ROCm that a package needs. Output: which of
//! them no package and no folder of the machine has.
//!
//! The audit takes for granted that a requirement brings its libraries. Here everything that there
//! will be is installed.

use std::collections::BTreeSet;

use rocwheel_loader::site::Distribution;
use rocwheel_progress::shell_word;

use crate::finding::Symptom;
use crate::installed::{Installed, MOST_EVIDENCE};
use crate::torch::{checked_version, pin};
use crate::tree::MachineTree;
use crate::variables::SessionVariables;

/// Folders that the loader of a distribution searches without being told to.
const SYSTEM: [&str; 4] = ["/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];

/// The symptom of a file that needs `names`; `None` if all of them exist.
pub(crate) fn check(
    installed: &Installed,
    (tree, variables): (&MachineTree, &SessionVariables),
    owner: &Distribution,
    file: &str,
    names: &[&str],
) -> Option<Symptom> {
    let folders = loader_folders(tree, variables);
    let files = installed.files(|_| true);
    let brought: Vec<(&str, &str)> =
        files.map(|(_, path)| (path, path.rsplit('/').next().unwrap_or_default())).collect();
    let absent = names.iter().copied().filter(|name| !brought.iter().any(|(_, known)| known == name));
    let missing: Vec<&str> =
        absent.filter(|name| !folders.iter().any(|folder| tree.exists(&format!("{folder}/{name}")))).collect();
    let first = *missing.first()?;
    let version = version_of(installed, owner);
    let requirement =
        version.as_ref().map_or_else(|| "rocm[libraries]".to_owned(), |version| format!("rocm[libraries]=={version}"));
    let mut symptom = Symptom::new("rocm-libraries-missing")
        .fill("package", &format!("{} {}", owner.name, owner.version()))
        .fill("library", first)
        .fill("requirement", &shell_word(&requirement))
        .seen(file, format!("needs {}", missing.join(", ")));
    // `libamdhip64.so.6` where version 7 is needed.
    for name in &missing {
        let Some(stem) = name.split(".so").next() else { continue };
        let mut names = brought.iter();
        let other = names.find(|(_, known)| known.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so")));
        if let Some((path, _)) = other {
            symptom = symptom.seen(*path, "is another version");
        }
    }
    Some(match installed.rocm_version() {
        None => symptom.seen("rocm", "is not installed"),
        Some(found) => symptom.seen("rocm", found),
    })
}

/// The names in backticks of a sentence that are shared libraries.
pub(crate) fn libraries_in(message: &str) -> Vec<&str> {
    let words = message.split('`').skip(1).step_by(2);
    words.filter(|word| word.starts_with("lib") && word.contains(".so")).take(MOST_EVIDENCE).collect()
}

fn loader_folders(tree: &MachineTree, variables: &SessionVariables) -> BTreeSet<String> {
    let mut folders: BTreeSet<String> = SYSTEM.iter().map(|folder| (*folder).to_owned()).collect();
    folders.extend(variables.folders("LD_LIBRARY_PATH"));
    for name in tree.names("/etc/ld.so.conf.d").unwrap_or_default() {
        let text = tree.text_if_any(&format!("/etc/ld.so.conf.d/{name}")).unwrap_or_default();
        folders.extend(text.lines().map(str::trim).filter(|line| line.starts_with('/')).map(str::to_owned));
    }
    folders
}

/// The version of ROCm that a package was made for: its requirement, what its start checks, or the
/// end of its version (`2.9.1+rocm7.1.0`).
fn version_of(installed: &Installed, owner: &Distribution) -> Option<String> {
    let pinned = owner.metadata.all("Requires-Dist").into_iter().find_map(|text| pin(&text));
    let known = pinned.map(|(_, version)| version).or_else(|| checked_version(installed, owner));
    known.or_else(|| {
        let version = owner.version();
        let text = version.split_once("+rocm")?.1.to_owned();
        // A number of two parts is that of a line of releases.
        text.split('.').nth(2).is_some().then_some(text)
    })
}
