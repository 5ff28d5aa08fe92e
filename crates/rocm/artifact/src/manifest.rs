//! Input: `share/therock/therock_manifest.json` and `dist_info.json` of the artifact
//! `base_lib_generic`. Output: the `ROCm` version, how it was built and for which GPU targets.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rocwheel_content::document;
use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::catalog::Catalog;
use crate::error::Error;

/// The artifact that holds both files.
pub const BASE_ARTIFACT: &str = "base_lib_generic";
/// The directory of both files in [`BASE_ARTIFACT`], including the basedir.
pub const MANIFEST_DIRECTORY: &str = "base/aux-overlay/stage/share/therock";
/// Name of the file that [`Manifest`] is read from.
pub const MANIFEST_FILE: &str = "therock_manifest.json";
/// Name of the file that [`DistInfo`] is read from.
pub const DIST_INFO_FILE: &str = "dist_info.json";

/// The contents of `therock_manifest.json`. Unknown keys are kept in their order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The commit of the build system; `null` if it was not built from git.
    #[serde(default)]
    pub the_rock_commit: Option<String>,
    /// The CI job that built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_job: Option<String>,
    /// The CI run that built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_run_id: Option<String>,
    /// The full version, for example `7.1.0a20260822`. Before March 2026 no build wrote it, and a
    /// build without a version still does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm_package_version: Option<String>,
    /// The first three numbers of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm_version: Option<String>,
    /// The source repositories, sorted by path.
    #[serde(default)]
    pub submodules: Vec<Submodule>,
    /// Build flags; values are booleans or integers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Map<String, Value>>,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One source repository of a build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Submodule {
    pub submodule_name: String,
    /// Its path in the build system's tree.
    pub submodule_path: String,
    /// The address it was fetched from.
    #[serde(default)]
    pub submodule_url: Value,
    /// The commit it was built from.
    #[serde(default)]
    pub pin_sha: Value,
    /// The patches applied to it.
    #[serde(default)]
    pub patches: Value,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Manifest {
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_json(path)
    }

    /// Reads the manifest of the build that a catalog comes from; fails if it has none.
    pub fn find(catalog: &Catalog) -> Result<Self, Error> {
        let path = locate(catalog, MANIFEST_FILE).ok_or_else(|| {
            let path: PathBuf = [BASE_ARTIFACT, MANIFEST_DIRECTORY, MANIFEST_FILE].iter().collect();
            Failure::message(format!(
                "there is no therock_manifest.json: artifact `base_lib_generic` does not hold `{}`",
                path.display()
            ))
            .with_hint(
                "fetch the artifact `base_lib_generic`, which every ROCm build makes, or use `rocwheel artifact import`",
            )
        })?;
        Self::read(&path)
    }

    /// `true` if a build flag is `true` or a number other than 0. A missing flag counts as `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.flags.as_ref().and_then(|flags| flags.get(name)).is_some_and(|value| match value {
            Value::Bool(set) => *set,
            Value::Number(number) => number.as_i64() != Some(0),
            _ => false,
        })
    }

    /// `true` if device code was split from the host libraries (flag `KPACK_SPLIT_ARTIFACTS`).
    pub fn is_split(&self) -> bool {
        self.flag("KPACK_SPLIT_ARTIFACTS")
    }

    /// Two spaces of indentation, non-ASCII characters unescaped, a final newline.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

/// The text of the manifest at `path` with a build flag set. All other bytes stay unchanged,
/// including numbers that no Rust type can represent.
pub fn read_with_flag(path: &Path, name: &str, value: bool) -> Result<String, Error> {
    let bytes = crate::input::read_small(path)?;
    with_flag(&String::from_utf8_lossy(&bytes), name, value).map_err(not_understood(path))
}

fn with_flag(text: &str, name: &str, value: bool) -> Result<String, serde_json::Error> {
    let manifest: Manifest = serde_json::from_str(text)?;
    let top: Members<'_> = serde_json::from_str(text)?;
    let (place, new) = match (top.get("flags").copied(), &manifest.flags) {
        (Some(flags), Some(_)) => {
            let members: Members<'_> = serde_json::from_str(flags.get())?;
            if let Some(flag) = members.get(name) {
                (place(text, flag), value.to_string())
            } else {
                let comma = if members.is_empty() { "" } else { ", " };
                let start = place(text, flags).start + 1;
                (start..start, format!("\"{name}\": {value}{comma}"))
            }
        }
        (Some(null), None) => (place(text, null), format!("{{\"{name}\": {value}}}")),
        (None, _) => {
            let start = text.find('{').unwrap_or(0) + 1;
            let comma = if top.is_empty() { "" } else { ", " };
            (start..start, format!("\"flags\": {{\"{name}\": {value}}}{comma}"))
        }
    };
    Ok(format!("{}{new}{}", &text[..place.start], &text[place.end..]))
}

/// The members of an object, each with the text of its value.
type Members<'t> = BTreeMap<String, &'t RawValue>;

/// The byte range of `value` in `text`, of which it must be a slice.
fn place(text: &str, value: &RawValue) -> Range<usize> {
    let start = value.get().as_ptr().addr() - text.as_ptr().addr();
    start..start + value.get().len()
}

/// The contents of `dist_info.json`. Unknown keys are kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DistInfo {
    /// The GPU targets the build was made for, separated by `;`.
    pub dist_amdgpu_targets: String,
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl DistInfo {
    pub fn read(path: &Path) -> Result<Self, Error> {
        read_json(path)
    }

    /// Reads the file of the build that a catalog comes from; `None` if the build has none.
    pub fn find(catalog: &Catalog) -> Result<Option<Self>, Error> {
        locate(catalog, DIST_INFO_FILE).map(|path| Self::read(&path)).transpose()
    }

    /// In the order of the file.
    pub fn targets(&self) -> Vec<&str> {
        self.dist_amdgpu_targets.split([';', ',']).map(str::trim).filter(|target| !target.is_empty()).collect()
    }

    /// Two spaces of indentation and a final newline.
    pub fn to_json(&self) -> String {
        to_json(self)
    }
}

pub(crate) fn locate(catalog: &Catalog, file: &str) -> Option<PathBuf> {
    let artifact = catalog.artifacts.iter().find(|artifact| artifact.name.to_string() == BASE_ARTIFACT)?;
    let path = artifact.root.join(MANIFEST_DIRECTORY).join(file);
    path.is_file().then_some(path)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = crate::input::read_small(path)?;
    serde_json::from_slice(&text).map_err(not_understood(path))
}

fn not_understood(path: &Path) -> impl FnOnce(serde_json::Error) -> Error {
    move |error| Failure::other(error).context(format!("could not understand `{}`", path.display())).into()
}

fn to_json<T: Serialize>(value: &T) -> String {
    String::from_utf8(document::write_pretty(value)).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "the_rock_commit": null,
  "github_run_id": "17",
  "rocm_package_version": "7.1.0a20260822",
  "rocm_version": "7.1.0",
  "submodules": [
    {
      "submodule_name": "hip",
      "submodule_path": "rocm-systems",
      "submodule_url": "https://example.invalid/é",
      "pin_sha": "abc",
      "patches": [],
      "depth": 1
    }
  ],
  "flags": {
    "KPACK_SPLIT_ARTIFACTS": true,
    "ROCM_BUILD_FLAGS_CANARY_INTEGER_NEGATIVE": -17,
    "OFF": false
  },
  "zeta": true,
  "alpha": "x"
}
"#;

    #[test]
    fn a_manifest_survives_a_round_trip() {
        let manifest: Manifest = serde_json::from_str(TEXT).unwrap();
        assert_eq!(manifest.to_json(), TEXT);
        assert!(manifest.is_split() && !manifest.flag("OFF") && !manifest.flag("ABSENT"));
        assert!(manifest.flag("ROCM_BUILD_FLAGS_CANARY_INTEGER_NEGATIVE"));
    }

    #[test]
    fn a_manifest_may_lack_everything() {
        for text in ["{}", r#"{"rocm_package_version": "6.4.0"}"#, r#"{"the_rock_commit": "abc", "submodules": []}"#] {
            let manifest: Manifest = serde_json::from_str(text).unwrap();
            assert!(!manifest.is_split());
            assert_eq!(manifest.rocm_package_version.is_some(), text.contains("version"));
        }
        assert!(serde_json::from_str::<Manifest>("[]").is_err());
    }

    #[test]
    fn targets_of_dist_info() {
        let info: DistInfo = serde_json::from_str(r#"{"dist_amdgpu_targets": "gfx942;gfx1100;", "k": 1}"#).unwrap();
        assert_eq!(info.targets(), ["gfx942", "gfx1100"]);
        assert_eq!(info.to_json(), "{\n  \"dist_amdgpu_targets\": \"gfx942;gfx1100;\",\n  \"k\": 1\n}\n");
    }

    #[test]
    fn a_flag_is_set_and_the_rest_keeps_its_bytes() {
        let same = |text: &str| with_flag(text, "SPLIT", true).unwrap();
        let rest =
            r#""rocm_package_version" : "7.1.0", "large": 123456789012345678901234567890, "n": 1.10, "x": "}\"{","#;
        assert_eq!(
            same(&format!(r#"{{{rest} "flags": {{"a": [1, {{}}], "SPLIT": false}}, "z": {{"SPLIT": 7}} }}"#)),
            format!(r#"{{{rest} "flags": {{"a": [1, {{}}], "SPLIT": true}}, "z": {{"SPLIT": 7}} }}"#)
        );
        assert_eq!(
            same(&format!("{{{rest} \"flags\":{{\n  \"a\": 1e3\n}}}}\n")),
            format!("{{{rest} \"flags\":{{\"SPLIT\": true, \n  \"a\": 1e3\n}}}}\n")
        );
        assert_eq!(same(&format!("{{{rest}\"flags\":{{}}}}")), format!("{{{rest}\"flags\":{{\"SPLIT\": true}}}}"));
        assert_eq!(same(&format!("{{{rest}\"flags\":null}}")), format!("{{{rest}\"flags\":{{\"SPLIT\": true}}}}"));
        let bare = r#" {"rocm_package_version": "7.1.0"}"#;
        assert_eq!(same(bare), r#" {"flags": {"SPLIT": true}, "rocm_package_version": "7.1.0"}"#);
        assert_eq!(same("{}"), r#"{"flags": {"SPLIT": true}}"#);
        for text in ["", "[]", "{\"flags\""] {
            assert!(with_flag(text, "SPLIT", true).is_err(), "{text}");
        }
    }
}
