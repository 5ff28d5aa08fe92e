//! Input: PATH and the installed ROCm. Output: a finding if PATH finds the compiler of another
//! ROCm.

use std::path::Path;

use crate::finding::Symptom;
use crate::installed::Installed;
use crate::tree::MachineTree;
use crate::variables::SessionVariables;

const NAME: &str = "hipcc";

/// Compares the first `hipcc` on PATH with the packages in the environment `prefix`.
pub(crate) fn check(
    tree: &MachineTree,
    variables: &SessionVariables,
    (installed, prefix): (&Installed, &str),
    symptoms: &mut Vec<Symptom>,
) {
    let Some(version) = installed.rocm_version().filter(|_| installed.of_rocm().next().is_some()) else { return };
    let paths = variables.folders("PATH").into_iter().map(|folder| format!("{folder}/{NAME}"));
    let Some(program) = paths.into_iter().find(|path| tree.exists(path)) else { return };
    if Path::new(&program).starts_with(prefix) {
        return;
    }
    let Some(root) = root_of(tree, &program) else { return };
    let text = tree.text_if_any(&format!("{root}/.info/version"));
    let found = text.or_else(|| Some(root.rsplit_once("rocm-")?.1.to_owned()));
    let other = found.as_deref().map(|text| text.split('-').next().unwrap_or_default());
    if other.is_some_and(|other| is_same(other, &version)) {
        return;
    }
    let symptom = Symptom::new("other-compiler")
        .fill("program", &program)
        .fill("other", other.unwrap_or("of an unknown version"))
        .fill("version", &version)
        .seen("PATH", &program)
        .seen(format!("{root}/.info/version"), other.unwrap_or("not readable"));
    // Packages without tools have no compiler to prefer.
    let folder = format!("{prefix}/bin");
    let has_own = tree.exists(&format!("{folder}/{NAME}"));
    let symptom = symptom.fill("folder", &rocwheel_progress::shell_word(&folder));
    symptoms.push(if has_own { symptom } else { symptom.without_command() });
}

/// The folder of the ROCm that a program is in, with links resolved.
fn root_of(tree: &MachineTree, program: &str) -> Option<String> {
    let place = tree.locate(program).ok()?;
    let real = if tree.root().is_some() { place } else { rocwheel_system::canonicalize(place).ok()? };
    let path = tree.path_inside(&real);
    let (root, _) = path.rsplit_once("/bin/")?;
    Some(root.to_owned())
}

/// `true` for `7.1` and `7.1.0`: parts that one lacks are equal.
fn is_same(one: &str, other: &str) -> bool {
    numbers(one).zip(numbers(other)).all(|(one, other)| one == other)
}

fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text[..end].split('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_far_as_both_go() {
        assert!(is_same("7.1.0", "7.1.0a20261101") && is_same("7.1", "7.1.2") && !is_same("6.3.0", "7.10.0"));
    }
}
