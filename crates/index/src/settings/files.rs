//! Input: environment variables and a working directory. Output: the paths of the configuration
//! files of pip and uv for it, the weakest first, even if they do not exist.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Finds the configuration files of pip and uv.
pub struct ConfigurationFiles<'a> {
    /// Reads an environment variable. An empty one counts as unset.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The user's home directory; without it, the user has no files.
    pub home: Option<PathBuf>,
}

impl ConfigurationFiles<'_> {
    fn set(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The user's folder for settings (XDG base directory specification). Relative paths in the
    /// variable are ignored.
    fn user(&self) -> Option<PathBuf> {
        let named = self.set("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(self.home.as_ref()?.join(".config")))
    }

    /// pip's files for the machine and for the user (pip documentation, "Configuration").
    pub fn of_pip_user(&self) -> Vec<PathBuf> {
        let old = self.home.as_ref().map(|home| home.join(".pip/pip.conf"));
        let user = self.user().map(|user| user.join("pip/pip.conf"));
        [Some(PathBuf::from("/etc/pip.conf")), old, user].into_iter().flatten().collect()
    }

    /// All files of pip: those for machine and user, that of the virtual environment, and the one
    /// in `PIP_CONFIG_FILE`. Empty if that is `/dev/null`.
    pub fn of_pip(&self) -> Vec<PathBuf> {
        let named = self.set("PIP_CONFIG_FILE").map(PathBuf::from);
        if named.as_deref() == Some(Path::new("/dev/null")) {
            return Vec::new();
        }
        let environment = self.set("VIRTUAL_ENV").map(|environment| PathBuf::from(environment).join("pip.conf"));
        self.of_pip_user().into_iter().chain(environment).chain(named).collect()
    }

    /// `true` if the user told uv to read no files.
    fn is_uv_without_files(&self) -> bool {
        self.set("UV_NO_CONFIG").is_some_and(|value| value != "0" && value != "false")
    }

    /// The file in `UV_CONFIG_FILE`, which uv then reads alone.
    pub fn named_for_uv(&self) -> Option<PathBuf> {
        self.set("UV_CONFIG_FILE").filter(|_| !self.is_uv_without_files()).map(PathBuf::from)
    }

    /// uv's files for the machine and for the user (uv's documentation, "Configuration files"). The
    /// file for the machine is the first existing one of `XDG_CONFIG_DIRS`, or uv's own.
    pub fn of_uv_user(&self) -> Vec<PathBuf> {
        if self.is_uv_without_files() {
            return Vec::new();
        }
        let folders = self.set("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
        let mut files = std::env::split_paths(&folders).map(|folder| folder.join("uv/uv.toml"));
        let machine = files.find(|file| file.is_absolute() && file.is_file());
        let machine = machine.unwrap_or_else(|| PathBuf::from("/etc/uv/uv.toml"));
        [Some(machine), self.user().map(|user| user.join("uv/uv.toml"))].into_iter().flatten().collect()
    }

    /// All files of uv: those for machine and user, and that of the project around `directory`; or
    /// only the one in `UV_CONFIG_FILE`.
    pub fn of_uv(&self, directory: &Path) -> Vec<PathBuf> {
        if self.is_uv_without_files() {
            return Vec::new();
        }
        if let Some(named) = self.named_for_uv() {
            return vec![named];
        }
        let project = directory.ancestors().find_map(|folder| {
            let (own, project) = (folder.join("uv.toml"), folder.join("pyproject.toml"));
            let has_table = || fs_err::read_to_string(&project).is_ok_and(|text| text.contains("[tool.uv"));
            if own.is_file() { Some(own) } else { has_table().then(|| project.clone()) }
        });
        self.of_uv_user().into_iter().chain(project).collect()
    }
}

#[cfg(test)]
#[expect(clippy::redundant_closure_for_method_calls, reason = "a method by name takes one lifetime only")]
mod tests {
    use super::*;

    fn files(variables: &[(&str, &str)], get: impl Fn(&ConfigurationFiles<'_>) -> Vec<PathBuf>) -> Vec<String> {
        let variable = |name: &str| Some(OsString::from(variables.iter().find(|(known, _)| *known == name)?.1));
        let found = get(&ConfigurationFiles { variable: &variable, home: Some("/home/me".into()) });
        found.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn pip_reads_machine_user_environment_and_what_a_variable_names() {
        let usual = ["/etc/pip.conf", "/home/me/.pip/pip.conf", "/home/me/.config/pip/pip.conf"];
        assert_eq!(files(&[("XDG_CONFIG_HOME", "relative")], |files| files.of_pip()), usual);
        let given = [("VIRTUAL_ENV", "/venv"), ("PIP_CONFIG_FILE", "/mine"), ("XDG_CONFIG_HOME", "/settings")];
        let all = ["/etc/pip.conf", "/home/me/.pip/pip.conf", "/settings/pip/pip.conf", "/venv/pip.conf", "/mine"];
        assert_eq!(files(&given, |files| files.of_pip()), all);
        assert_eq!(files(&given, |files| files.of_pip_user()), &all[..3]);
        assert!(files(&[("PIP_CONFIG_FILE", "/dev/null")], |files| files.of_pip()).is_empty());
    }

    #[test]
    fn uv_reads_machine_user_and_project_or_what_a_variable_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["machine/uv/uv.toml", "project/pyproject.toml"] {
            fs_err::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs_err::write(folder.path().join(name), "[tool.uv]\n").unwrap();
        }
        fs_err::create_dir(folder.path().join("project/deep")).unwrap();
        let machine = ("XDG_CONFIG_DIRS", &*format!("{}:{}", path("none"), path("machine")));
        let of_uv = |files: &ConfigurationFiles<'_>| files.of_uv(&folder.path().join("project/deep"));
        let user = "/home/me/.config/uv/uv.toml".to_owned();
        assert_eq!(files(&[machine], of_uv), [path("machine/uv/uv.toml"), user, path("project/pyproject.toml")]);
        assert_eq!(files(&[machine, ("UV_CONFIG_FILE", "/mine")], of_uv), ["/mine"]);
        let none = [machine, ("UV_CONFIG_FILE", "/mine"), ("UV_NO_CONFIG", "1")];
        assert!(files(&none, of_uv).is_empty() && files(&none, |files| files.of_uv_user()).is_empty());
        assert_eq!(files(&[("UV_NO_CONFIG", "0"), ("UV_CONFIG_FILE", "/mine")], of_uv), ["/mine"]);
    }
}
