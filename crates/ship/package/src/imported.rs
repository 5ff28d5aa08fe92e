//! Input: the manifest of artifacts. Output: the record that `rocwheel artifact import` wrote into
//! it, as [`Imported`]. Builds of TheRock have no such record.

use std::collections::BTreeSet;

use rocwheel_artifact::Manifest;
use serde::Deserialize;

/// The object `rocwheel.import` of `therock_manifest.json`, with the keys that packaging uses.
#[derive(Debug, Default, Deserialize)]
pub struct Imported {
    #[serde(default)]
    pub shape: Option<String>,
    #[serde(default)]
    system_libraries: Vec<SystemLibrary>,
    /// SONAMEs of libraries that were allowed to be missing.
    #[serde(default)]
    pub allowed_unresolved: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
struct SystemLibrary {
    #[serde(default)]
    license: Option<String>,
}

impl Imported {
    /// Returns the record in a manifest; `None` if the artifacts were not imported.
    pub fn find(manifest: &Manifest) -> Option<Imported> {
        let record = manifest.other.get("rocwheel")?.get("import")?;
        Some(Imported::deserialize(record).unwrap_or_default())
    }

    /// Returns the SPDX expressions of the system libraries in the import.
    pub fn licenses(&self) -> BTreeSet<String> {
        self.system_libraries.iter().filter_map(|library| library.license.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_told_from_a_build() {
        let manifest = |text: &str| serde_json::from_str::<Manifest>(text).unwrap();
        assert!(Imported::find(&manifest(r#"{"rocm_package_version": "7.0"}"#)).is_none());
        let imported = Imported::find(&manifest(
            r#"{"rocm_package_version": "7.0", "rocwheel": {"import": {"kind": "deb", "shape": "fat",
                "system_libraries": [{"soname": "librocm_sysdeps_z.so.1", "license": "Zlib"}, {"soname": "x"}],
                "allowed_unresolved": ["libx.so.1"]}}}"#,
        ))
        .unwrap();
        assert_eq!(imported.shape.as_deref(), Some("fat"));
        assert_eq!(imported.licenses(), BTreeSet::from(["Zlib".to_owned()]));
        assert!(imported.allowed_unresolved.contains("libx.so.1"));
    }
}
