//! Input: the command `pip …` of a finding, and the environment that it is for. Output: the command
//! that changes this environment and no other: uv's, pipx's, or pip of another Python.

use std::path::Path;

use rocwheel_loader::site::prefix_of;
use rocwheel_progress::{shell_path, shell_word};
use rocwheel_system::environment_setting;

use crate::installed::Installed;
use crate::variables::SessionVariables;

/// Between two commands of which the second one is for the success of the first.
pub(crate) const AND: &str = " && ";
/// The word of pip and uv that replaces installed packages of the same version.
pub(crate) const REINSTALL: &str = "--force-reinstall";

/// The program that installs packages into an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Installer {
    /// The `pip` on PATH.
    Pip,
    /// The `pip` on PATH, for a Python whose packages the distribution manages (PEP 668).
    ManagedPip,
    /// pip of the Python of an environment that is not active.
    PipOf(String),
    /// The `pip` on PATH, for an environment that has none.
    PipFor(String),
    /// uv; the environment if it is not active.
    Uv(Option<String>),
    /// pipx, with the name of the environment.
    Pipx(String),
}

impl Installer {
    /// That of the environment of packages.
    pub(crate) fn of(installed: &Installed, variables: &SessionVariables) -> Installer {
        let Some(prefix) = prefix_of(installed.folder.path()) else { return Installer::Pip };
        let settings = fs_err::read_to_string(prefix.join("pyvenv.cfg")).ok();
        let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].iter().filter_map(|name| variables.filled(name));
        let is_active = active.filter_map(|path| rocwheel_system::canonicalize(path).ok()).any(|path| path == prefix);
        let path = shell_path(prefix);
        if prefix.join("pipx_metadata.json").is_file() {
            return Installer::Pipx(shell_word(&prefix.file_name().unwrap_or_default().to_string_lossy()));
        }
        if settings.as_ref().is_some_and(|text| environment_setting(text, "uv").is_some()) {
            return Installer::Uv((!is_active).then_some(path));
        }
        let is_environment = settings.is_some() || prefix.join("conda-meta").is_dir();
        if !is_environment {
            let version = installed.python.map(|python| python.to_string()).unwrap_or_default();
            if is_managed(installed.folder.path(), prefix, &version) {
                return Installer::ManagedPip;
            }
            // That of pyenv or of a user's own build: `pip` on PATH may be of another one.
            let own = prefix.join(if cfg!(windows) { "python.exe" } else { "bin/python3" });
            let found = rocwheel_system::find_program("pip", variables.filled("PATH").unwrap_or_default());
            let is_other = found.is_none_or(|pip| pip != rocwheel_system::program_of(prefix, "pip"));
            return if own.is_file() && is_other { Installer::PipOf(shell_path(&own)) } else { Installer::Pip };
        }
        match (installed.get("pip").is_some(), is_active) {
            (true, true) => Installer::Pip,
            (true, false) => Installer::PipOf(shell_path(&rocwheel_system::program_of(prefix, "python"))),
            (false, _) => Installer::PipFor(path),
        }
    }

    /// The command for this installer. Of several commands each is adapted, and any other than one
    /// of pip stays as it is.
    pub(crate) fn adapted(&self, commands: &str) -> String {
        let each = commands.split(AND).map(|one| match one.split_once(' ') {
            Some(("pip", arguments)) => self.spelled(arguments.split(' ').collect()),
            _ => one.to_owned(),
        });
        each.collect::<Vec<_>>().join(AND)
    }

    /// The commands that install, of which each has these words after `install`.
    pub(crate) fn installs(&self, installations: &[Vec<String>], reinstalls: bool) -> Vec<String> {
        let word = reinstalls.then_some(REINSTALL);
        let each = installations.iter().map(|words| {
            self.spelled(["install"].into_iter().chain(word).chain(words.iter().map(String::as_str)).collect())
        });
        each.collect()
    }

    /// A command of pip by its words, the first of which is what pip shall do.
    fn spelled(&self, mut words: Vec<&str>) -> String {
        let verb = words.remove(0);
        let is_uv = matches!(self, Installer::Uv(_)) && verb != "config";
        let changes = ["install", "uninstall"].contains(&verb);
        let start = match self {
            Installer::Pip | Installer::ManagedPip => "pip".to_owned(),
            _ if verb == "config" => "pip".to_owned(),
            Installer::PipOf(python) => format!("{python} -m pip"),
            Installer::PipFor(prefix) => format!("pip --python {prefix}"),
            Installer::Uv(_) if verb == "cache" => return "uv cache clean".to_owned(),
            Installer::Uv(_) => "uv pip".to_owned(),
            Installer::Pipx(name) => format!("pipx runpip {name}"),
        };
        let mut all = vec![start.as_str(), verb];
        match self {
            Installer::ManagedPip if changes => all.push("--break-system-packages"),
            Installer::Uv(Some(prefix)) if is_uv => all.extend(["--python", prefix]),
            _ => {}
        }
        // uv does not ask, and has no `--yes`.
        words.retain(|word| !is_uv || *word != "--yes");
        all.extend(words);
        all.join(" ")
    }
}

/// `true` for the packages of a Python that a distribution or uv manages. Those of the user are
/// taken for those of the system's Python.
fn is_managed(folder: &Path, prefix: &Path, version: &str) -> bool {
    const MARKER: &str = "EXTERNALLY-MANAGED";
    let own = folder.parent().map(|library| library.join(MARKER));
    let is_of_system = prefix.starts_with("/usr") || prefix.ends_with(".local");
    let system = is_of_system.then(|| Path::new("/usr/lib").join(format!("python{version}")).join(MARKER));
    [own, system].into_iter().flatten().any(|marker| marker.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_change_the_environment_that_was_looked_at() {
        let install = "pip install --no-deps torch==2.9.1";
        let adapted = |installer: Installer, command: &str| installer.adapted(command);
        let of = |installer: Installer| adapted(installer, install);
        assert_eq!(
            of(Installer::PipOf("/v/bin/python".to_owned())),
            "/v/bin/python -m pip install --no-deps torch==2.9.1"
        );
        assert_eq!(of(Installer::PipFor("/v".to_owned())), "pip --python /v install --no-deps torch==2.9.1");
        assert_eq!(of(Installer::Uv(Some("/v".to_owned()))), "uv pip install --python /v --no-deps torch==2.9.1");
        assert_eq!(of(Installer::Uv(None)), "uv pip install --no-deps torch==2.9.1");
        assert_eq!(of(Installer::Pipx("vllm".to_owned())), "pipx runpip vllm install --no-deps torch==2.9.1");
        assert_eq!(of(Installer::ManagedPip), "pip install --break-system-packages --no-deps torch==2.9.1");
        assert_eq!(adapted(Installer::Uv(None), "pip cache purge"), "uv cache clean");
        for command in ["pip config --user unset global.index-url", "unset ROCM_PATH"] {
            assert_eq!(adapted(Installer::Uv(None), command), command);
        }
        assert_eq!(adapted(Installer::Pip, install), install);
        assert_eq!(adapted(Installer::ManagedPip, "pip cache purge"), "pip cache purge");
        let two = "pip uninstall --yes triton && pip install triton";
        let uv = adapted(Installer::Uv(Some("/v".to_owned())), two);
        assert_eq!(uv, "uv pip uninstall --python /v triton && uv pip install --python /v triton");
    }
}
