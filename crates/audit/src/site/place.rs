//! Input: the name of a member of a wheel. Output: where pip puts it in a virtual environment on
//! Linux.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rocwheel_wheel::WheelName;
use rocwheel_wheel::read::Wheel;

use crate::Error;

/// The environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Which Python it has.
    pub python: PythonVersion,
    /// Its absolute path, without a slash at the end. Only a value: nothing has to be there.
    pub prefix: String,
    /// Where packages are, when it is not where a virtual environment has them.
    packages: Option<String>,
}

impl Place {
    /// A virtual environment with this prefix.
    pub fn new(python: PythonVersion, prefix: impl Into<String>) -> Place {
        Place { python, prefix: prefix.into(), packages: None }
    }

    /// The same with the packages in another folder, relative to the prefix.
    pub(super) fn with_packages(self, packages: String) -> Place {
        Place { packages: Some(packages), ..self }
    }

    /// The folder that packages are imported from, relative to the prefix.
    pub fn packages(&self) -> String {
        self.packages.clone().unwrap_or_else(|| format!("lib/python{}/site-packages", self.python))
    }
}

/// A version of CPython, shown as its folders have it: `3.12`, `3.13t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PythonVersion {
    /// 3.
    pub major: u16,
    /// 12.
    pub minor: u16,
    /// Whether it is the build without the global lock (PEP 703), which has folders and extension
    /// modules of its own.
    pub free_threaded: bool,
}

impl PythonVersion {
    /// The newest that the tags of all wheels allow, by their file names. A tag for any Python
    /// allows every one.
    pub fn newest_of<P: AsRef<Path>>(wheels: &[P]) -> PythonVersion {
        let default = PythonVersion { major: 3, minor: 12, free_threaded: false };
        let names = wheels.iter().filter_map(|path| path.as_ref().file_name()?.to_str()?.parse::<WheelName>().ok());
        let of_wheel = |name: WheelName| {
            let is_stable = name.abis.iter().any(|abi| abi == "abi3");
            let is_threaded = name.abis.iter().any(|abi| abi.ends_with('t'));
            let versions = name.pythons.iter().filter_map(|tag| {
                let minor = tag.strip_prefix("cp3")?.parse().ok()?;
                Some(PythonVersion { major: 3, minor, free_threaded: is_threaded })
            });
            let newest = versions.max()?;
            // The stable ABI is for this one and all that follow.
            Some(if is_stable && newest < default { default } else { newest })
        };
        names.filter_map(of_wheel).min().unwrap_or(default)
    }
}

impl FromStr for PythonVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<PythonVersion, Error> {
        let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
        let plain = text.strip_suffix('t');
        let version = plain.unwrap_or(text);
        // `cp312` and `312` are how tags have it.
        let version = version.strip_prefix("cp").or_else(|| version.strip_prefix("py")).unwrap_or(version);
        let split = || version.is_char_boundary(1).then(|| version.split_at(1)).filter(|(major, _)| *major == "3");
        version
            .split_once('.')
            .or_else(split)
            .and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
            .map(|(major, minor)| PythonVersion { major, minor, free_threaded: plain.is_some() })
            .ok_or_else(|| Error::PythonVersion { text: text.to_owned() })
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}{}", self.major, self.minor, if self.free_threaded { "t" } else { "" })
    }
}

/// Finds the places for the members of one wheel.
pub(super) struct Destination<'a> {
    pub(super) place: &'a Place,
    /// What the wheel is called in messages.
    pub(super) path: &'a Path,
    pub(super) wheel: &'a Wheel,
    pub(super) points: &'a BTreeMap<String, String>,
}

impl Destination<'_> {
    /// The path of a member, and whether it is a script; `None` for one that pip leaves out because
    /// it writes a script of that name itself.
    pub(super) fn of(&self, member: &str) -> Result<Option<(String, bool)>, Error> {
        let packages = self.place.packages();
        let data = member.split_once('/').and_then(|(folder, rest)| folder.strip_suffix(".data").map(|_| rest));
        let Some(rest) = data else {
            return Ok(Some((format!("{packages}/{member}"), false)));
        };
        let fail = |why| Error::Unplaceable { wheel: self.path.to_owned(), member: member.to_owned(), why };
        let Some((key, path)) = rest.split_once('/') else {
            return Err(fail("it is in the `.data` folder itself, and has to be in a folder of it"));
        };
        Ok(Some(match key {
            "purelib" | "platlib" => (format!("{packages}/{path}"), false),
            "data" => (path.to_owned(), false),
            "headers" => {
                let name = rocwheel_wheel::canonical_name(&self.wheel.name.distribution);
                let python = PythonVersion { free_threaded: false, ..self.place.python };
                (format!("include/site/python{python}/{name}/{path}"), false)
            }
            "scripts" if self.points.contains_key(without_wrapper(path)) => return Ok(None),
            "scripts" => (format!("bin/{path}"), true),
            _ => {
                return Err(fail(
                    "installers know the folders purelib, platlib, headers, scripts and data of a `.data` folder",
                ));
            }
        }))
    }
}

/// The name of the entry point that a file of the scripts was generated for, as setuptools names
/// such files.
fn without_wrapper(script: &str) -> &str {
    let lower = script.to_ascii_lowercase();
    [".exe", "-script.py", ".pya"]
        .into_iter()
        .find(|suffix| lower.ends_with(suffix))
        .map_or(script, |suffix| &script[..script.len() - suffix.len()])
}

/// Console and window programs of a wheel: name and what they call (entry points specification). A
/// name that is no file name is left out: installers refuse it or write nothing they can find
/// again.
pub(super) fn entry_points(wheel: &Wheel) -> Result<BTreeMap<String, String>, Error> {
    let member = format!("{}/entry_points.txt", wheel.info());
    if wheel.member(&member).is_none() {
        return Ok(BTreeMap::new());
    }
    let bytes = wheel.bytes(&member)?;
    Ok(parse_entry_points(&String::from_utf8_lossy(&bytes)))
}

fn parse_entry_points(text: &str) -> BTreeMap<String, String> {
    let mut points = BTreeMap::new();
    let mut in_scripts = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            in_scripts = ["console_scripts", "gui_scripts"].contains(&section.trim());
        } else if in_scripts
            && !line.starts_with(['#', ';'])
            && let Some((name, target)) = line.split_once('=')
        {
            // Extras behind the target were for a time when scripts had requirements of their own.
            let target = target.split('[').next().unwrap_or_default().trim();
            let name = name.trim();
            if !name.is_empty() && !name.contains(['/', '\\', '\0']) && name != "." && name != ".." {
                points.insert(name.to_owned(), target.to_owned());
            }
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_python_are_read_and_shown() {
        for text in ["3.12", "3.13t", "3.9"] {
            assert_eq!(text.parse::<PythonVersion>().unwrap().to_string(), text);
        }
        for (text, version) in [("312", "3.12"), ("cp313t", "3.13t"), ("py39", "3.9")] {
            assert_eq!(text.parse::<PythonVersion>().unwrap().to_string(), version);
        }
        for text in ["3", "3.12.1", "cp", "cp3", "abi3", "27", "3.x", "", "3.", "t", "-3.1", "3.+1"] {
            let error = text.parse::<PythonVersion>().unwrap_err();
            assert_eq!(error.to_string(), format!("`{text}` is not a version of Python"));
        }
    }

    #[test]
    fn the_newest_python_of_all_tags_is_taken() {
        let python = |names: &[&str]| PythonVersion::newest_of(names).to_string();
        assert_eq!(python(&["a-1-cp310-cp310-linux_x86_64.whl"]), "3.10");
        assert_eq!(python(&["a-1-cp39-abi3-linux_x86_64.whl"]), "3.12");
        assert_eq!(python(&["a-1-cp313-abi3-linux_x86_64.whl"]), "3.13");
        assert_eq!(python(&["a-1-cp313-cp313t-linux_x86_64.whl"]), "3.13t");
        assert_eq!(python(&["a-1-py3-none-any.whl", "x/b-1-cp311-cp311-linux_x86_64.whl"]), "3.11");
        assert_eq!(python(&["a-1-cp310.cp311-none-any.whl"]), "3.11");
        assert_eq!(python(&["nonsense"]), "3.12");
    }

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
