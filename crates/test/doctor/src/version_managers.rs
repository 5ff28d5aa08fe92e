//! Input: the `python3` on PATH, and the files of pyenv, asdf and mise. Output: the Python that it
//! would start, which is not started.
//!
//! The three put a small program in front of every Python. It looks for a version in variables, in
//! files of the working directory and its parents, and in a file of the user.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use toml::Value;

use crate::variables::SessionVariables;

/// Size up to which a script or a file of settings is read.
const LARGEST: u64 = 1 << 18;

/// The Python behind a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Behind {
    /// The program is a Python itself, or at least not a script.
    Itself,
    /// A Python that a manager of versions would start.
    Chosen {
        program: PathBuf,
        /// The manager and the variable or file with the version.
        by: String,
    },
    /// It is not known which one; the words say why.
    Unknown(String),
}

/// A session in which a program is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) variables: &'a SessionVariables,
}

/// The versions that are wanted, the first of which comes first, and what names them.
struct Wanted {
    versions: Vec<String>,
    source: String,
}

/// A manager of versions, and the folder with the Pythons that it has installed.
struct Manager {
    name: &'static str,
    installs: PathBuf,
}

impl Session<'_> {
    /// Looks through a program that may be a manager's.
    pub(crate) fn look_through(&self, program: &Path) -> Behind {
        let real = rocwheel_system::canonicalize(program).unwrap_or_else(|_| program.to_owned());
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "mise" || name == "rtx" {
            return self.of_mise(program);
        }
        let Some(script) = script(&real) else {
            return if name.starts_with("python") { Behind::Itself } else { Behind::Unknown(format!("is {name}")) };
        };
        if script.contains("pyenv") && script.contains(" exec ") {
            self.of_pyenv(program, &script)
        } else if script.contains("asdf exec") {
            self.of_asdf(program)
        } else {
            Behind::Unknown("is a script, which may start any Python".to_owned())
        }
    }

    fn home(&self) -> PathBuf {
        PathBuf::from(self.variables.filled("HOME").unwrap_or("/root"))
    }

    /// The folder that a variable names, else one in the home.
    fn folder(&self, variable: &str, of_home: &str) -> PathBuf {
        self.variables.filled(variable).map_or_else(|| self.home().join(of_home), PathBuf::from)
    }

    fn of_pyenv(&self, program: &Path, script: &str) -> Behind {
        let written = script.lines().find_map(|line| line.trim().strip_prefix("export PYENV_ROOT="));
        let root = written.map(|path| PathBuf::from(path.trim_matches(['"', '\''])));
        let root = root.unwrap_or_else(|| self.folder("PYENV_ROOT", ".pyenv"));
        let manager = Manager { name: "pyenv", installs: root.join("versions") };
        if let Some(value) = self.variables.filled("PYENV_VERSION") {
            let versions = value.split(':').map(str::to_owned).collect();
            return self.choose(&manager, Wanted { versions, source: "PYENV_VERSION".to_owned() }, program);
        }
        let named = self.variables.filled("PYENV_DIR").map(Path::new);
        let near = [named, Some(self.directory)].into_iter().flatten();
        let mut files = near.flat_map(Path::ancestors).map(|folder| folder.join(".python-version"));
        let file = files.find(|file| file.is_file()).unwrap_or_else(|| root.join("version"));
        let text = read(&file).unwrap_or_default();
        let words = text.lines().filter_map(|line| line.split_whitespace().next());
        let mut versions: Vec<String> = words.filter(|word| !word.starts_with('#')).map(str::to_owned).collect();
        if versions.is_empty() {
            versions.push("system".to_owned());
        }
        let wanted = Wanted { versions, source: shown(&file) };
        self.choose(&manager, wanted, program)
    }

    fn of_asdf(&self, program: &Path) -> Behind {
        let data = self.folder("ASDF_DATA_DIR", ".asdf");
        let manager = Manager { name: "asdf", installs: data.join("installs/python") };
        if let Some(value) = self.variables.filled("ASDF_PYTHON_VERSION") {
            let versions = value.split_whitespace().map(str::to_owned).collect();
            return self.choose(&manager, Wanted { versions, source: "ASDF_PYTHON_VERSION".to_owned() }, program);
        }
        let settings = read(&self.folder("ASDF_CONFIG_FILE", ".asdfrc")).unwrap_or_default();
        let has_legacy = settings.lines().any(|line| line.replace(' ', "") == "legacy_version_file=yes");
        let names = ["ASDF_TOOL_VERSIONS_FILENAME", "ASDF_DEFAULT_TOOL_VERSIONS_FILENAME"];
        let name = names.iter().find_map(|name| self.variables.filled(name)).unwrap_or(".tool-versions");
        let home = self.home();
        for folder in self.directory.ancestors().chain([home.as_path()]) {
            let found = tool_versions(&folder.join(name)).or_else(|| {
                let file = folder.join(".python-version");
                has_legacy.then(|| words_of(&file)).flatten()
            });
            if let Some(wanted) = found {
                return self.choose(&manager, wanted, program);
            }
        }
        Behind::Unknown(format!("is asdf's, and no `{name}` names a version of python"))
    }

    fn of_mise(&self, program: &Path) -> Behind {
        let shared = self.folder("XDG_DATA_HOME", ".local/share").join("mise");
        let data = self.variables.filled("MISE_DATA_DIR").map_or(shared, PathBuf::from);
        let manager = Manager { name: "mise", installs: data.join("installs/python") };
        if let Some(value) = self.variables.filled("MISE_PYTHON_VERSION") {
            let wanted = Wanted { versions: vec![value.to_owned()], source: "MISE_PYTHON_VERSION".to_owned() };
            return self.choose(&manager, wanted, program);
        }
        if let Some(name) = self.variables.filled("MISE_ENV") {
            return Behind::Unknown(format!("is mise's, and the files of MISE_ENV={name} are not read"));
        }
        let user = self.folder("XDG_CONFIG_HOME", ".config").join("mise");
        let user = self.variables.filled("MISE_CONFIG_DIR").map_or(user, PathBuf::from);
        let global = self.variables.filled("MISE_GLOBAL_CONFIG_FILE").map(PathBuf::from);
        let global = global.unwrap_or_else(|| user.join("config.toml"));
        let mut files: Vec<PathBuf> = Vec::new();
        for folder in self.directory.ancestors() {
            files.extend(NEAR_OF_MISE.iter().map(|name| folder.join(name)));
        }
        files.push(global.clone());
        files.push(PathBuf::from("/etc/mise/config.toml"));
        let has_idiomatic = self.reads_python_version(&global);
        for file in files {
            let wanted = match file.file_name().and_then(|name| name.to_str()) {
                Some(".tool-versions") => tool_versions(&file),
                Some(".python-version") => has_idiomatic.then(|| words_of(&file)).flatten(),
                _ => match tools_of_mise(&file) {
                    Err(words) => return Behind::Unknown(format!("is mise's, and `{}` {words}", file.display())),
                    Ok(wanted) => wanted,
                },
            };
            if let Some(wanted) = wanted {
                return self.choose(&manager, wanted, program);
            }
        }
        Behind::Unknown("is mise's, and no file of it names a version of python".to_owned())
    }

    /// `true` if mise reads `.python-version`, which it does if it is told to.
    fn reads_python_version(&self, global: &Path) -> bool {
        let named = self.variables.filled("MISE_IDIOMATIC_VERSION_FILE_ENABLE_TOOLS").unwrap_or_default();
        let document = read(global).and_then(|text| toml::from_str::<Value>(&text).ok());
        let settings = document.as_ref().and_then(|document| document.get("settings"));
        let tools = settings.and_then(|settings| settings.get("idiomatic_version_file_enable_tools"));
        let listed = tools.and_then(Value::as_array).into_iter().flatten();
        named.split(',').any(|name| name.trim() == "python")
            || listed.into_iter().any(|tool| tool.as_str() == Some("python"))
    }

    /// The first wanted Python that exists.
    fn choose(&self, manager: &Manager, wanted: Wanted, shim: &Path) -> Behind {
        let Wanted { versions, source } = wanted;
        let by = format!("{}, by {source}", manager.name);
        for version in &versions {
            let program = if version == "system" {
                self.after(shim)
            } else {
                manager.prefix(version).map(|prefix| prefix.join("bin/python3")).filter(|program| program.is_file())
            };
            if let Some(program) = program {
                return Behind::Chosen { program, by };
            }
        }
        let listed = versions.join(", ");
        // pyenv starts the system's Python then; the others start none.
        if manager.name == "pyenv"
            && let Some(program) = self.after(shim)
        {
            return Behind::Chosen { program, by: format!("pyenv: {listed} of {source} is not installed") };
        }
        let place = manager.installs.display();
        Behind::Unknown(format!("is {}'s, and {listed} of {source} is not installed in {place}", manager.name))
    }

    /// The `python3` on PATH behind the folder of a manager.
    fn after(&self, shim: &Path) -> Option<PathBuf> {
        let own = shim.parent()?;
        let path = self.variables.filled("PATH")?;
        let rest: Vec<&str> = path.split(':').filter(|folder| Path::new(folder) != own).collect();
        let program = rocwheel_system::find_program("python3", &rest.join(":"))?;
        (self.look_through(&program) == Behind::Itself).then_some(program)
    }
}

/// The files of a folder in which mise looks, the strongest first.
const NEAR_OF_MISE: [&str; 10] = [
    "mise.local.toml",
    ".mise.local.toml",
    "mise.toml",
    ".mise.toml",
    "mise/config.toml",
    ".mise/config.toml",
    ".config/mise.toml",
    ".config/mise/config.toml",
    ".tool-versions",
    ".python-version",
];

impl Manager {
    /// The folder of a version, or of the newest one that begins with it.
    fn prefix(&self, version: &str) -> Option<PathBuf> {
        if let Some(path) = version.strip_prefix("path:") {
            return Some(PathBuf::from(path));
        }
        let version = version.strip_prefix("prefix:").unwrap_or(version).replace("ref:", "ref-");
        let plain = version.strip_prefix("python-").unwrap_or(&version);
        let exact = [version.as_str(), plain].into_iter().map(|name| self.installs.join(name));
        if let Some(folder) = exact.into_iter().find(|folder| folder.is_dir()) {
            return Some(folder);
        }
        let start = format!("{plain}.");
        let entries = fs_err::read_dir(&self.installs).ok()?.flatten();
        let names: BTreeSet<(Vec<u64>, String)> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with(&start))
            // Neither previews nor builds without the lock, as pyenv does.
            .filter_map(|name| Some((numbers(&name)?, name)))
            .collect();
        names.last().map(|(_, name)| self.installs.join(name))
    }
}

/// `3.12.10` as numbers; `None` for any other version.
fn numbers(name: &str) -> Option<Vec<u64>> {
    name.split('.').map(|part| part.parse().ok()).collect()
}

/// The versions of python in a `.tool-versions`.
fn tool_versions(file: &Path) -> Option<Wanted> {
    let text = read(file)?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let versions = lines.filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("python")).then(|| words.map(str::to_owned).collect::<Vec<_>>())
    });
    let versions = versions.flatten().collect::<Vec<_>>();
    (!versions.is_empty()).then(|| Wanted { versions, source: shown(file) })
}

/// The versions in a `.python-version`.
fn words_of(file: &Path) -> Option<Wanted> {
    let text = read(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let versions: Vec<String> = lines.map(str::to_owned).collect();
    (!versions.is_empty()).then(|| Wanted { versions, source: shown(file) })
}

/// The versions of python in the `[tools]` of mise; an error if the file is not understood.
fn tools_of_mise(file: &Path) -> Result<Option<Wanted>, String> {
    let Some(text) = read(file) else { return Ok(None) };
    let document: Value = toml::from_str(&text).map_err(|error| format!("is not understood: {}", error.message()))?;
    let tools = document.get("tools");
    let Some(value) = tools.and_then(|tools| tools.get("python").or_else(|| tools.get("core:python"))) else {
        return Ok(None);
    };
    let values: Vec<&Value> = value.as_array().map_or_else(|| vec![value], |values| values.iter().collect());
    let versions = values.into_iter().map(|value| value.get("version").unwrap_or(value).as_str().map(str::to_owned));
    let versions: Option<Vec<String>> = versions.collect();
    let versions = versions.ok_or_else(|| "has a version of python that is no text".to_owned())?;
    Ok(Some(Wanted { versions, source: shown(file) }))
}

fn shown(file: &Path) -> String {
    format!("`{}`", file.display())
}

/// The text of a file; `None` if it does not exist or is not text.
fn read(file: &Path) -> Option<String> {
    let size = fs_err::metadata(file).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > LARGEST { None } else { fs_err::read_to_string(file).ok() }
}

fn script(program: &Path) -> Option<String> {
    read(program).filter(|text| text.starts_with("#!"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Folder {
            Folder(tempfile::tempdir().unwrap())
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.path(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(&path, text).unwrap();
            path
        }

        /// What is behind `shim` in the folder `project`, with these variables and HOME.
        fn behind(&self, shim: &Path, variables: &[(&str, &str)]) -> String {
            let home = ("HOME", self.0.path().to_str().unwrap());
            let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            let variables = SessionVariables::of(variables.iter().copied().chain([home]).map(own));
            let directory = self.path("project");
            match (Session { directory: &directory, variables: &variables }).look_through(shim) {
                Behind::Itself => "itself".to_owned(),
                Behind::Unknown(words) => words,
                Behind::Chosen { program, .. } => {
                    let program = program.strip_prefix(self.0.path()).unwrap_or(&program);
                    program.to_string_lossy().replace("/bin/python3", "")
                }
            }
        }
    }

    #[test]
    fn pyenv_is_seen_through() {
        let folder = Folder::new();
        let shim = folder.write(".pyenv/shims/python3", "#!/bin/bash\nexec \"/x/libexec/pyenv\" exec \"$program\"\n");
        for version in ["3.9.2", "3.12.1", "3.12.10", "3.13.0rc1", "tools"] {
            folder.write(&format!(".pyenv/versions/{version}/bin/python3"), "");
        }
        let usual = folder.write("usr/bin/python3", "\u{7f}ELF").parent().unwrap().to_string_lossy().into_owned();
        // The system's own Python has to be one that can be executed.
        rocwheel_system::set_mode(folder.path("usr/bin/python3"), 0o755).unwrap();
        fs_err::create_dir_all(folder.path("project")).unwrap();
        assert!(folder.behind(&shim, &[]).contains("system of"), "{}", folder.behind(&shim, &[]));
        folder.write(".pyenv/version", "3.9.2\n");
        assert_eq!(folder.behind(&shim, &[]), ".pyenv/versions/3.9.2");
        folder.write("project/.python-version", "# mine\n3.99\n3.12 # newest\n");
        assert_eq!(folder.behind(&shim, &[]), ".pyenv/versions/3.12.10");
        for (value, wanted) in [("tools", "tools"), ("python-3.12.1", "3.12.1"), ("3.99:3.9", "3.9.2")] {
            assert_eq!(folder.behind(&shim, &[("PYENV_VERSION", value)]), format!(".pyenv/versions/{wanted}"));
        }
        assert!(folder.behind(&shim, &[("PYENV_VERSION", "3.13")]).contains("3.13 of PYENV_VERSION is not installed"));
        let path = format!("{}:{usual}", folder.path(".pyenv/shims").display());
        for version in ["3.99:system", "3.99"] {
            assert_eq!(folder.behind(&shim, &[("PYENV_VERSION", version), ("PATH", &path)]), "usr");
        }
    }

    #[test]
    fn asdf_is_seen_through() {
        let folder = Folder::new();
        let shim = folder.write(
            ".asdf/shims/python3",
            "#!/bin/bash\n# asdf-plugin: python 3.12.1\nexec asdf exec \"python3\" \"$@\"\n",
        );
        for version in ["3.12.1", "3.11.4"] {
            folder.write(&format!(".asdf/installs/python/{version}/bin/python3"), "");
        }
        fs_err::create_dir_all(folder.path("project")).unwrap();
        assert!(folder.behind(&shim, &[]).contains("no `.tool-versions` names a version of python"));
        folder.write(".tool-versions", "nodejs 20.1\npython 3.99.9 3.12.1 # two\n");
        assert_eq!(folder.behind(&shim, &[]), ".asdf/installs/python/3.12.1");
        folder.write("project/.python-version", "3.11.4\n");
        assert_eq!(folder.behind(&shim, &[]), ".asdf/installs/python/3.12.1", "asdf does not read it");
        folder.write(".asdfrc", "legacy_version_file = yes\n");
        assert_eq!(folder.behind(&shim, &[]), ".asdf/installs/python/3.11.4");
        assert_eq!(folder.behind(&shim, &[("ASDF_PYTHON_VERSION", "3.12.1")]), ".asdf/installs/python/3.12.1");
    }

    #[test]
    fn mise_is_seen_through() {
        let folder = Folder::new();
        let program = folder.write("bin/mise", "\u{7f}ELF");
        let shim = folder.path("shims/python3");
        fs_err::create_dir_all(folder.path("shims")).unwrap();
        fs_err::create_dir_all(folder.path("project")).unwrap();
        rocwheel_system::symlink(program, &shim).unwrap();
        let installs = ".local/share/mise/installs/python";
        for version in ["3.12.1", "3.11.4", "3.13.0"] {
            folder.write(&format!("{installs}/{version}/bin/python3"), "");
        }
        assert!(folder.behind(&shim, &[]).contains("no file of it names a version"));
        for (file, text, wanted) in [
            (".config/mise/config.toml", "[tools]\npython = '3.11'\n", "3.11.4"),
            ("project/.tool-versions", "python 3.13.0\n", "3.13.0"),
            ("project/.mise.toml", "[tools]\npython = ['3.12', '3.11']\n", "3.12.1"),
            ("project/mise.local.toml", "[tools]\npython = { version = 'prefix:3.11' }\n", "3.11.4"),
        ] {
            folder.write(file, text);
            assert_eq!(folder.behind(&shim, &[]), format!("{installs}/{wanted}"), "{file}");
        }
        assert!(folder.behind(&shim, &[("MISE_ENV", "ci")]).contains("MISE_ENV=ci are not read"));
        folder.write("project/mise.local.toml", "[tools\n");
        assert!(folder.behind(&shim, &[]).contains("mise.local.toml` is not understood"));
    }

    #[test]
    fn other_programs_are_themselves_or_unknown() {
        let folder = Folder::new();
        let python = folder.write("bin/python3.12", "\u{7f}ELF");
        let script = folder.write("bin/python3", "#!/bin/sh\nexec /opt/python3 \"$@\"\n");
        let other = folder.write("bin/rye", "\u{7f}ELF");
        assert_eq!(folder.behind(&python, &[]), "itself");
        assert!(folder.behind(&script, &[]).starts_with("is a script"));
        assert_eq!(folder.behind(&other, &[]), "is rye");
    }
}
