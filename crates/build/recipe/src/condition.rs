//! Input: a condition of a recipe (`when`) and a cell. Output: `true` if the condition holds.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use pep440_rs::{Version, VersionSpecifiers};

use crate::cell::{BuildMode, BuildPurpose, Cell, CompilerCache, Platform, SdkKind, Switch};
use crate::error::Error;
use crate::recipe::When;
use rocwheel_progress::suggestion;

/// Names whose values are version specifiers.
const VERSIONS: [&str; 3] = ["version", "torch", "rocm"];

/// The other names that every recipe may use.
const NAMES: [&str; 9] =
    ["platform", "backend", "sdk", "compiler-cache", "release", "mode", "clean", "system-packages", "with"];

pub(crate) struct Facts<'a> {
    /// Path of the recipe, as errors show it.
    pub(crate) path: &'a str,
    pub(crate) cell: &'a Cell,
    pub(crate) backend: &'a str,
    pub(crate) backends: &'a [String],
    /// Features that are already decided.
    pub(crate) features: &'a BTreeMap<String, Switch>,
}

impl Facts<'_> {
    /// `true` if every name of the condition fits. A version that is not known fits no specifier.
    /// A name or value that does not exist is an error, even if another name has already decided
    /// the condition.
    pub(crate) fn hold(&self, when: &When) -> Result<bool, Error> {
        let mut holds = true;
        for (key, values) in when {
            let mut fits = false;
            for value in values.all() {
                fits |= self.fits(key, value)?;
            }
            holds &= fits;
        }
        Ok(holds)
    }

    fn fits(&self, key: &str, value: &str) -> Result<bool, Error> {
        let cell = self.cell;
        let (names, is): (Vec<&str>, &str) = match key {
            "platform" => (Platform::ALL.map(Platform::name).to_vec(), cell.platform.name()),
            "backend" => (self.backends.iter().map(String::as_str).collect(), self.backend),
            "compiler-cache" => (CompilerCache::NAMES.to_vec(), cell.compiler_cache.name()),
            "sdk" => (SdkKind::NAMES.to_vec(), cell.sdk.name()),
            "release" => (BuildPurpose::NAMES.to_vec(), cell.release.name()),
            "mode" => (BuildMode::NAMES.to_vec(), cell.mode.name()),
            "clean" => (Switch::NAMES.to_vec(), cell.clean.name()),
            "system-packages" => (Switch::NAMES.to_vec(), cell.system_packages.name()),
            "with" => return Ok(cell.with.contains(value)),
            "version" => return self.specified(key, value, cell.version.as_deref()),
            "torch" => return self.specified(key, value, cell.torch.as_deref()),
            "rocm" => return self.specified(key, value, cell.rocm.as_deref()),
            _ if self.features.contains_key(key) => (Switch::NAMES.to_vec(), self.features[key].name()),
            _ => {
                let mut names = NAMES.to_vec();
                names.extend(VERSIONS);
                names.extend(self.features.keys().map(String::as_str));
                return Err(self.malformed(format!("there is no condition `{key}`"), suggestion(key, names)));
            }
        };
        if names.contains(&value) { Ok(value == is) } else { Err(self.unknown(key, value, &names)) }
    }

    fn specified(&self, key: &str, value: &str, is: Option<&str>) -> Result<bool, Error> {
        let specifiers = VersionSpecifiers::from_str(value).map_err(|error| {
            let reason = format!("the condition `{key}` is `{value}`: {error}");
            self.malformed(reason, "versions are compared as in requirements: `>=2.14`".into())
        })?;
        let Some(is) = is else { return Ok(false) };
        // A value that is not a version is the name of a branch, and newer than every number.
        Ok(Version::from_str(is).is_ok_and(|version| rocwheel_wheel::accepts(&specifiers, &version)))
    }

    fn unknown(&self, key: &str, value: &str, names: &[&str]) -> Error {
        let reason = format!("the condition `{key}` cannot be `{value}`");
        self.malformed(reason, suggestion(value, names.iter().copied()))
    }

    fn malformed(&self, reason: String, hint: String) -> Error {
        Error::Malformed { path: self.path.to_owned(), line: None, reason, hint: Some(hint) }
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_progress::Hint as _;

    use super::*;
    use crate::recipe::OneOrMany;

    fn hold(key: &str, values: &[&str]) -> Result<bool, Error> {
        let cell = Cell { torch: Some("2.14.1".into()), ..Cell::new(Platform::Linux) };
        let backends = ["ck".to_owned(), "triton".to_owned()];
        let features = BTreeMap::from([("flash-attention".to_owned(), Switch::On)]);
        let facts = Facts { path: "x.toml", cell: &cell, backend: "ck", backends: &backends, features: &features };
        let values = OneOrMany::Many(values.iter().map(|&value| value.to_owned()).collect());
        facts.hold(&When::from([(key.to_owned(), values)]))
    }

    #[test]
    fn conditions_hold_or_not_and_wrong_ones_are_errors() {
        assert!(hold("platform", &["windows", "linux"]).unwrap());
        assert!(!hold("backend", &["triton"]).unwrap());
        assert!(hold("torch", &[">=2.14"]).unwrap());
        assert!(!hold("torch", &["<2.14"]).unwrap());
        assert!(!hold("rocm", &[">=1"]).unwrap(), "nobody said it");
        assert!(hold("flash-attention", &["on"]).unwrap());
        assert!(!hold("with", &["triton"]).unwrap());
        for (key, value, hint) in [
            ("platfrom", "linux", "did you mean `platform`?"),
            ("platform", "linx", "did you mean `linux`?"),
            ("backend", "tritn", "did you mean `triton`?"),
            ("torch", "2.14", "versions are compared as in requirements: `>=2.14`"),
        ] {
            assert_eq!(hold(key, &[value]).unwrap_err().hint().unwrap(), hint);
        }
    }
}
