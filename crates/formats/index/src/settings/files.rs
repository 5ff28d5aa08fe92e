//! Input: environment variables and a working directory. Output: the paths of the configuration
//! files of pip and uv for it, the weakest first, even if they do not exist.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rocwheel_wheel::Platform;

pub struct ConfigurationFiles<'a> {
    /// Reads an environment variable. An empty one counts as unset.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The user's home directory; without it, the user has no files.
    pub home: Option<PathBuf>,
    /// The system on which pip and uv run.
    pub platform: Platform,
}

impl ConfigurationFiles<'_> {
    fn set(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The user's folder for settings: `APPDATA` on Windows, elsewhere that of the XDG base
    /// directory specification. Relative paths in the variables are ignored.
    fn user(&self) -> Option<PathBuf> {
        let (variable, usual) = match self.platform {
            Platform::Linux => ("XDG_CONFIG_HOME", ".config"),
            Platform::Windows => ("APPDATA", "AppData/Roaming"),
        };
        let named = self.set(variable).map(PathBuf::from).filter(|path| self.is_absolute(path));
        named.or_else(|| Some(self.home.as_ref()?.join(usual)))
    }

    fn machine(&self) -> PathBuf {
        match self.platform {
            Platform::Linux => "/etc".into(),
            Platform::Windows => self.set("ProgramData").map_or_else(|| "C:/ProgramData".into(), PathBuf::from),
        }
    }

    fn is_absolute(&self, path: &Path) -> bool {
        match (self.platform, path.as_os_str().as_encoded_bytes()) {
            (Platform::Windows, [b'\\', b'\\', ..]) | (Platform::Linux, [b'/', ..]) => true,
            (Platform::Windows, [drive, b':', b'/' | b'\\', ..]) => drive.is_ascii_alphabetic(),
            _ => false,
        }
    }

    /// pip's files for the machine and for the user (pip documentation, "Configuration").
    pub fn of_pip_user(&self) -> Vec<PathBuf> {
        let (machine, old, name) = match self.platform {
            Platform::Linux => ("pip.conf", ".pip/pip.conf", "pip/pip.conf"),
            Platform::Windows => ("pip/pip.ini", "pip/pip.ini", "pip/pip.ini"),
        };
        let old = self.home.as_ref().map(|home| home.join(old));
        let user = self.user().map(|user| user.join(name));
        [Some(self.machine().join(machine)), old, user].into_iter().flatten().collect()
    }

    /// All files of pip: those for machine and user, that of the virtual environment, and the one
    /// in `PIP_CONFIG_FILE`. Empty if that is Python's `os.devnull`.
    pub fn of_pip(&self) -> Vec<PathBuf> {
        let (nothing, own) = match self.platform {
            Platform::Linux => ("/dev/null", "pip.conf"),
            Platform::Windows => ("nul", "pip.ini"),
        };
        let named = self.set("PIP_CONFIG_FILE").map(PathBuf::from);
        if named.as_deref() == Some(Path::new(nothing)) {
            return Vec::new();
        }
        let environment = self.set("VIRTUAL_ENV").map(|environment| PathBuf::from(environment).join(own));
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
        let machine = self.machine().join("uv/uv.toml");
        let machine = match self.platform {
            Platform::Windows => machine,
            Platform::Linux => {
                let folders = self.set("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
                let mut files = std::env::split_paths(&folders).map(|folder| folder.join("uv/uv.toml"));
                files.find(|file| file.is_absolute() && file.is_file()).unwrap_or(machine)
            }
        };
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
            if own.is_file() {
                return Some(own);
            }
            fs_err::read_to_string(&project).is_ok_and(|text| text.contains("[tool.uv")).then_some(project)
        });
        self.of_uv_user().into_iter().chain(project).collect()
    }
}

#[cfg(test)]
#[expect(clippy::redundant_closure_for_method_calls, reason = "a method by name takes one lifetime only")]
mod tests {
    use super::*;

    fn files(variables: &[(&str, &str)], get: impl Fn(&ConfigurationFiles<'_>) -> Vec<PathBuf>) -> Vec<String> {
        files_on(Platform::Linux, variables, get)
    }

    fn files_on(
        platform: Platform,
        variables: &[(&str, &str)],
        get: impl Fn(&ConfigurationFiles<'_>) -> Vec<PathBuf>,
    ) -> Vec<String> {
        let variable = |name: &str| Some(OsString::from(variables.iter().find(|(known, _)| *known == name)?.1));
        let found = get(&ConfigurationFiles { variable: &variable, home: Some("/home/me".into()), platform });
        found.iter().map(|path| path.display().to_string().replace('\\', "/")).collect()
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
    fn on_windows_they_have_other_names() {
        let of = |variables: &[(&str, &str)], get: fn(&ConfigurationFiles<'_>) -> Vec<PathBuf>| {
            files_on(Platform::Windows, variables, get)
        };
        let roaming = ("APPDATA", "C:/Users/me/AppData/Roaming");
        let pip = ["C:/ProgramData/pip/pip.ini", "/home/me/pip/pip.ini", "C:/Users/me/AppData/Roaming/pip/pip.ini"];
        assert_eq!(of(&[roaming, ("XDG_CONFIG_HOME", "C:/x")], |files| files.of_pip()), pip);
        assert_eq!(of(&[roaming, ("VIRTUAL_ENV", "C:/venv")], |files| files.of_pip())[3], "C:/venv/pip.ini");
        assert!(of(&[("PIP_CONFIG_FILE", "nul")], |files| files.of_pip()).is_empty());
        let uv = ["D:/Data/uv/uv.toml", "/home/me/AppData/Roaming/uv/uv.toml"];
        assert_eq!(of(&[("ProgramData", "D:/Data")], |files| files.of_uv_user()), uv);
    }

    #[test]
    fn uv_reads_machine_user_and_project_or_what_a_variable_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string().replace('\\', "/");
        for name in ["machine/uv/uv.toml", "project/pyproject.toml"] {
            fs_err::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs_err::write(folder.path().join(name), "[tool.uv]\n").unwrap();
        }
        fs_err::create_dir(folder.path().join("project/deep")).unwrap();
        let folders = std::env::join_paths([path("none"), path("machine")]).unwrap().into_string().unwrap();
        let machine = ("XDG_CONFIG_DIRS", folders.as_str());
        let of_uv = |files: &ConfigurationFiles<'_>| files.of_uv(&folder.path().join("project/deep"));
        let user = "/home/me/.config/uv/uv.toml".to_owned();
        assert_eq!(files(&[machine], of_uv), [path("machine/uv/uv.toml"), user, path("project/pyproject.toml")]);
        assert_eq!(files(&[machine, ("UV_CONFIG_FILE", "/mine")], of_uv), ["/mine"]);
        let none = [machine, ("UV_CONFIG_FILE", "/mine"), ("UV_NO_CONFIG", "1")];
        assert!(files(&none, of_uv).is_empty() && files(&none, |files| files.of_uv_user()).is_empty());
        assert_eq!(files(&[("UV_NO_CONFIG", "0"), ("UV_CONFIG_FILE", "/mine")], of_uv), ["/mine"]);
    }
}
