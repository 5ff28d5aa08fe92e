//! Input: a virtual environment. Output: a finding if its Python no longer exists, or has become
//! another version than its packages are for. An update of the system or the removal of a Python
//! does both.

use std::path::{Path, PathBuf};

use rocwheel_loader::site::prefix_of;
use rocwheel_progress::shell_path;
use rocwheel_system::environment_setting;
use rocwheel_wheel::PythonVersion;

use crate::finding::Symptom;
use crate::installed::Installed;

/// Links that are followed before they count as a circle.
const MOST_LINKS: usize = 16;

/// Compares the Python that an environment starts with the one that its packages are for. A copy of
/// a machine need not have its programs, so this is for the machine itself.
pub(crate) fn check(installed: &Installed, symptoms: &mut Vec<Symptom>) {
    let (Some(prefix), Some(python)) = (prefix_of(installed.folder.path()), installed.python) else { return };
    let Ok(settings) = fs_err::read_to_string(prefix.join("pyvenv.cfg")) else { return };
    let program = prefix.join("bin/python");
    let end = match end_of(&program) {
        Some(end) if end != program => end,
        _ => return,
    };
    let version = python.to_string();
    let problem = if end.exists() {
        let Some(other) = version_of(&end).filter(|other| *other != python) else { return };
        format!("is Python {other}")
    } else {
        "does not exist".to_owned()
    };
    let folder = shell_path(prefix);
    let command = if environment_setting(&settings, "uv").is_some() {
        format!("uv venv --allow-existing --python {version} {folder}")
    } else {
        format!("python{version} -m venv --upgrade {folder}")
    };
    symptoms.push(
        Symptom::new("environment-python")
            .fill("version", &version)
            .fill("problem", &problem)
            .fill("command", &command)
            .seen(program.to_string_lossy(), end.to_string_lossy())
            .seen(end.to_string_lossy(), problem)
            .seen(installed.folder.path().to_string_lossy(), format!("for Python {version}")),
    );
}

/// The file that a link leads to in the end, which need not exist; `None` for a path at which there
/// is nothing, and for links in a circle.
fn end_of(path: &Path) -> Option<PathBuf> {
    fs_err::symlink_metadata(path).ok()?;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs_err::read_link(&path) else { return Some(path) };
        path = path.parent()?.join(target);
    }
    None
}

/// The version in the name of a program: `python3.12`.
fn version_of(program: &Path) -> Option<PythonVersion> {
    program.file_name()?.to_str()?.strip_prefix("python")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_to_their_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let link = |target: &str, name: &str| rocwheel_system::symlink(target, path(name)).unwrap();
        link("python3", "python");
        link("/nowhere/python3.12", "python3");
        link("circle", "circle");
        assert_eq!(end_of(&path("python")), Some(PathBuf::from("/nowhere/python3.12")));
        assert_eq!((end_of(&path("circle")), end_of(&path("absent"))), (None, None));
        assert_eq!(version_of(Path::new("/usr/bin/python3.12")).unwrap().to_string(), "3.12");
        assert_eq!(version_of(Path::new("/usr/bin/python3")), None, "the name does not tell");
    }
}
