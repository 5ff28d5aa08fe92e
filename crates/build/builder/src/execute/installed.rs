//! Input: the environment of a build. Output: its Python version and the installed packages. They
//! are read from files, because starting Python to list them takes longer than everything else in a
//! small job.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;
use rocwheel_wheel::Headers;

use crate::error;
use crate::execute::context::Context;

/// Python code that prints the version of the interpreter, and names and versions of all
/// distributions on its path.
const PACKAGES: &str = "import importlib.metadata as m, json, platform\n\
    rows = {(d.metadata['Name'], d.version) for d in m.distributions() if d.metadata['Name']}\n\
    print(json.dumps([platform.python_version(), sorted(rows)]))";

#[derive(Debug, PartialEq, Eq, serde::Deserialize)]
pub(super) struct Installed {
    pub(super) python: String,
    pub(super) packages: BTreeSet<(String, String)>,
}

impl Context<'_> {
    /// The packages that the build's Python can import.
    pub(super) fn installed(&self) -> Result<Installed, Failure> {
        let mut installed = if let Some(installed) = read(&self.venv()) {
            installed
        } else {
            let answer = self.ask_python("provenance", &["-c", PACKAGES])?;
            serde_json::from_str(&answer)
                .map_err(|error| error::malformed("the answer of the build's Python", error.to_string()))?
        };
        // pip is installed only as the installer; with uv it would be missing.
        if self.place.uv.is_none() {
            installed.packages.retain(|(name, _)| name != "pip");
        }
        Ok(installed)
    }
}

/// Reads an environment from its files. `None` if it also sees packages elsewhere or has an unknown
/// layout.
fn read(venv: &Path) -> Option<Installed> {
    let text = fs_err::read_to_string(venv.join("pyvenv.cfg")).ok()?;
    // The name of the key of the version differs between Python's own `venv` and uv.
    let [system, uv, venv_version] = ["include-system-site-packages", "version_info", "version"]
        .map(|key| rocwheel_system::environment_setting(&text, key));
    if system != Some("false") {
        return None;
    }
    let python = uv.or(venv_version)?.to_owned();
    let mut packages = BTreeSet::new();
    for folder in site_packages(venv)? {
        for entry in fs_err::read_dir(folder).ok()? {
            let path = entry.ok()?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("dist-info") => {
                    let headers = Headers::parse(&fs_err::read_to_string(path.join("METADATA")).ok()?);
                    packages.insert((headers.get("Name")?, headers.get("Version")?));
                }
                // Older formats of installed packages, and files that add folders elsewhere.
                Some("egg-info" | "egg-link") => return None,
                Some("pth") if names_folders(&fs_err::read_to_string(&path).ok()?) => return None,
                _ => {}
            }
        }
    }
    Some(Installed { python, packages })
}

/// `true` if a `.pth` file of Python's module `site` adds folders; otherwise it only runs code.
fn names_folders(text: &str) -> bool {
    text.lines().any(|line| !(line.trim().is_empty() || line.starts_with(['#']) || line.starts_with("import")))
}

fn site_packages(venv: &Path) -> Option<Vec<PathBuf>> {
    if cfg!(windows) {
        return Some(vec![venv.join("Lib").join("site-packages")]);
    }
    let mut folders = Vec::new();
    for entry in fs_err::read_dir(venv.join("lib")).ok()? {
        let folder = entry.ok()?.path().join("site-packages");
        if folder.is_dir() {
            folders.push(folder);
        }
    }
    (!folders.is_empty()).then_some(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = "home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.12.1\n";

    fn environment() -> tempfile::TempDir {
        let venv = tempfile::tempdir().unwrap();
        let packages = venv.path().join("lib/python3.12/site-packages");
        for (name, version) in [("wheel", "0.45.1"), ("a.b", "1.0+x")] {
            let folder = packages.join(format!("{name}-{version}.dist-info"));
            fs_err::create_dir_all(&folder).unwrap();
            let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: nothing\n");
            fs_err::write(folder.join("METADATA"), text).unwrap();
        }
        fs_err::create_dir_all(packages.join("wheel")).unwrap();
        fs_err::write(packages.join("_virtualenv.pth"), "import _virtualenv\n").unwrap();
        fs_err::write(venv.path().join("pyvenv.cfg"), CONFIGURATION).unwrap();
        venv
    }

    #[test]
    fn an_environment_says_what_is_in_it() {
        let venv = environment();
        let packages = [("a.b", "1.0+x"), ("wheel", "0.45.1")].map(|(name, version)| (name.into(), version.into()));
        assert_eq!(
            read(venv.path()),
            Some(Installed { python: "3.12.1".into(), packages: packages.into_iter().collect() })
        );
    }

    #[test]
    fn python_is_asked_where_the_files_do_not_say_everything() {
        for (file, text) in [
            ("pyvenv.cfg", CONFIGURATION.replace("false", "true")),
            ("pyvenv.cfg", CONFIGURATION.replace("version", "versoin")),
            ("lib/python3.12/site-packages/more.pth", "/elsewhere".to_owned()),
            ("lib/python3.12/site-packages/wheel-0.45.1.dist-info/METADATA", "Name: wheel\n".to_owned()),
        ] {
            let venv = environment();
            fs_err::write(venv.path().join(file), text).unwrap();
            assert_eq!(read(venv.path()), None, "{file}");
        }
        assert_eq!(read(Path::new("nowhere")), None);
    }
}
