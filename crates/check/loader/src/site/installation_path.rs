//! Input: the name of a member of a wheel. Output: the path at which pip installs it in a virtual
//! environment on Linux.

use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{EntryPoint, EntryPointFile, PythonVersion};

use crate::Error;

/// The environment that wheels are installed into, without its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonEnvironment {
    /// Its version of Python.
    pub python: PythonVersion,
    /// Its absolute path, without a slash at the end. The path need not exist.
    pub prefix: String,
    /// The folder of the packages; `None` for the usual one of a virtual environment.
    packages: Option<String>,
}

impl PythonEnvironment {
    /// A virtual environment with this prefix.
    pub fn new(python: PythonVersion, prefix: impl Into<String>) -> PythonEnvironment {
        PythonEnvironment { python, prefix: prefix.into(), packages: None }
    }

    /// The same environment with the packages in another folder, relative to the prefix.
    pub(super) fn with_packages(self, packages: String) -> PythonEnvironment {
        PythonEnvironment { packages: Some(packages), ..self }
    }

    /// The folder from which packages are imported, relative to the prefix.
    pub fn packages(&self) -> String {
        self.packages.clone().unwrap_or_else(|| format!("lib/python{}/site-packages", self.python))
    }
}

/// Determines the installation paths of the members of one wheel.
pub(super) struct Destination<'a> {
    pub(super) place: &'a PythonEnvironment,
    /// Path of the wheel for messages.
    pub(super) path: &'a Path,
    pub(super) wheel: &'a Wheel,
    pub(super) points: &'a BTreeMap<String, String>,
}

impl Destination<'_> {
    /// The path of a member, and `true` for a script. `None` for a script that pip does not
    /// install, because it generates one with that name itself.
    pub(super) fn of(&self, member: &str) -> Result<Option<(String, bool)>, Error> {
        let packages = self.place.packages();
        let data = member.split_once('/').and_then(|(folder, rest)| folder.strip_suffix(".data").map(|_| rest));
        let Some(rest) = data else {
            return Ok(Some((format!("{packages}/{member}"), false)));
        };
        let why = match rest.split_once('/') {
            Some(("purelib" | "platlib", path)) => return Ok(Some((format!("{packages}/{path}"), false))),
            Some(("data", path)) => return Ok(Some((path.to_owned(), false))),
            Some(("headers", path)) => {
                let name = rocwheel_wheel::canonical_name(&self.wheel.name.distribution);
                let python = PythonVersion { free_threaded: false, ..self.place.python };
                return Ok(Some((format!("include/site/python{python}/{name}/{path}"), false)));
            }
            Some(("scripts", path)) if self.points.contains_key(without_wrapper(path)) => return Ok(None),
            Some(("scripts", path)) => return Ok(Some((format!("bin/{path}"), true))),
            Some(_) => "installers know the folders purelib, platlib, headers, scripts and data of a `.data` folder",
            None => "it is in the `.data` folder itself, and has to be in a folder of it",
        };
        Err(Error::Unplaceable { wheel: self.path.to_owned(), member: member.to_owned(), why })
    }
}

/// The name of the entry point for which a script file was generated, if it is named like those of
/// setuptools.
fn without_wrapper(script: &str) -> &str {
    let lower = script.to_ascii_lowercase();
    [".exe", "-script.py", ".pya"]
        .into_iter()
        .find(|suffix| lower.ends_with(suffix))
        .map_or(script, |suffix| &script[..script.len() - suffix.len()])
}

/// Console and GUI programs of a wheel: their names and the functions that they call (entry points
/// specification). A name that is not a valid file name is skipped: installers refuse it, or write
/// nothing that can be found again.
pub(super) fn entry_points(wheel: &Wheel) -> Result<BTreeMap<String, String>, Error> {
    let member = format!("{}/entry_points.txt", wheel.info());
    if wheel.member(&member).is_none() {
        return Ok(BTreeMap::new());
    }
    let bytes = wheel.bytes(&member)?;
    Ok(parse_entry_points(&String::from_utf8_lossy(&bytes)))
}

fn parse_entry_points(text: &str) -> BTreeMap<String, String> {
    let programs = EntryPointFile::parse(text).entries.into_iter().filter(EntryPoint::is_program);
    let named =
        programs.filter(|entry| !["", ".", ".."].contains(&&*entry.name) && !entry.name.contains(['/', '\\', '\0']));
    named.map(|entry| (entry.name.clone(), entry.target().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_are_found_between_other_things() {
        let text = "# made by hand\n[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n a=b:c [extra]\n;x = y:z\n\
                    ../evil = os:system\n[gui_scripts]\nwindow=w:main\n[torch.backends]\nrocm = t:b\n";
        let points = parse_entry_points(text);
        let shown: Vec<String> = points.iter().map(|(name, target)| format!("{name}={target}")).collect();
        assert_eq!(shown, ["a=b:c", "rocm-sdk=rocm_sdk.__main__:main", "window=w:main"]);
    }

    #[test]
    fn wrappers_are_known_by_their_names() {
        for (script, name) in [("pip.exe", "pip"), ("pip-script.py", "pip"), ("run.py", "run.py"), ("é", "é")] {
            assert_eq!(without_wrapper(script), name);
        }
    }
}
