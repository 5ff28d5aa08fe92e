//! Input: text, or the tags of wheels. Output: a version of CPython.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use rocwheel_progress::{Exit, Hint};

use crate::names::WheelName;

/// A version of CPython, displayed like in the names of its folders: `3.12`, `3.13t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PythonVersion {
    /// The first number: 3.
    pub major: u16,
    /// The second number: 12.
    pub minor: u16,
    /// `true` for the build without the global lock (PEP 703), which has its own folders and
    /// extension modules.
    pub free_threaded: bool,
}

impl PythonVersion {
    /// The newest version that the file names of all wheels allow. A tag for any Python allows all
    /// versions.
    pub fn newest_of<P: AsRef<Path>>(wheels: &[P]) -> PythonVersion {
        let default = PythonVersion { major: 3, minor: 12, free_threaded: false };
        let names = wheels.iter().filter_map(|path| path.as_ref().file_name()?.to_str()?.parse::<WheelName>().ok());
        let versions = names.filter_map(|name| {
            let is_stable = name.abis.iter().any(|abi| abi == "abi3");
            let is_threaded = name.abis.iter().any(|abi| abi.ends_with('t'));
            let versions = name.pythons.iter().filter_map(|tag| {
                let minor = tag.strip_prefix("cp3")?.parse().ok()?;
                Some(PythonVersion { major: 3, minor, free_threaded: is_threaded })
            });
            let newest = versions.max()?;
            // The stable ABI supports this version and all later ones.
            Some(if is_stable && newest < default { default } else { newest })
        });
        versions.min().unwrap_or(default)
    }
}

/// A text that is not a version of Python.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a version of Python")]
pub struct InvalidPythonVersion {
    /// The text as the user wrote it.
    pub text: String,
}

impl Hint for InvalidPythonVersion {
    fn hint(&self) -> Option<String> {
        Some("write it as `3.12`, or `3.13t` for the build without the global lock".to_owned())
    }

    fn exit(&self) -> Exit {
        Exit::Usage
    }
}

impl FromStr for PythonVersion {
    type Err = InvalidPythonVersion;

    /// Parses `3.12`, `3.13t` and the forms in tags, `cp312` and `312`.
    fn from_str(text: &str) -> Result<PythonVersion, InvalidPythonVersion> {
        let plain = text.strip_suffix('t');
        let version = plain.unwrap_or(text);
        let version = version.strip_prefix("cp").or_else(|| version.strip_prefix("py")).unwrap_or(version);
        version
            .split_once('.')
            .or_else(|| version.split_at_checked(1).filter(|(major, _)| *major == "3"))
            .and_then(|(major, minor)| Some((number(major)?, number(minor)?)))
            .map(|(major, minor)| PythonVersion { major, minor, free_threaded: plain.is_some() })
            .ok_or_else(|| InvalidPythonVersion { text: text.to_owned() })
    }
}

fn number(digits: &str) -> Option<u16> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}{}", self.major, self.minor, if self.free_threaded { "t" } else { "" })
    }
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
}
