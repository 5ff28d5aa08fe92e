//! Input: the name of a directory or file. Output: the three fields of an artifact name, or `None`.
//!
//! An artifact directory is called `{name}_{component}_{target_family}`; its archive has `.tar.zst`
//! or `.tar.xz` appended. Each field is one or more characters other than `_`, so a name with any
//! other number of underscores is not an artifact.

use std::fmt;
use std::str::FromStr;

use rocwheel_tables::target;
use serde::{Deserialize, Serialize};

use crate::archive::Compression;
use crate::component::Component;
use crate::error::{Error, malformed_name};

/// The target family of artifacts that are for no particular GPU.
pub const GENERIC: &str = "generic";

/// `{name}_{component}_{target_family}`, for example `core-hip_lib_generic` or
/// `blas_lib_gfx942:xnack+`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactName {
    /// The project or library that was built, for example `core-hip`.
    pub name: String,
    /// The part of it: the name of a [`Component`]. Unknown components are kept unchanged.
    pub component: String,
    /// `generic`, a family (`gfx94X-dcgpu`), a target (`gfx942`) or a target with features
    /// (`gfx942:xnack+`).
    pub target_family: String,
}

impl ArtifactName {
    /// Parses a directory name. `None` means "not an artifact", which by itself is not an error.
    pub fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('_');
        let (name, component, target_family) = (fields.next()?, fields.next()?, fields.next()?);
        let complete = fields.next().is_none()
            && [name, component, target_family].iter().all(|field| !field.is_empty() && !field.contains(['/', '\0']));
        complete.then(|| Self { name: name.into(), component: component.into(), target_family: target_family.into() })
    }

    /// Parses the file name of an archive: an artifact name with `.tar.zst` or `.tar.xz` appended.
    pub fn parse_archive(file_name: &str) -> Option<(Self, Compression)> {
        let (stem, compression) = Compression::split(file_name)?;
        Self::parse(stem).map(|name| (name, compression))
    }

    pub fn archive_name(&self, compression: Compression) -> String {
        format!("{self}{}", compression.suffix())
    }

    /// `None` if the component is none of the six in [`Component`].
    pub fn known_component(&self) -> Option<Component> {
        Component::parse(&self.component)
    }

    /// The target family up to its first `:`, so `gfx942` for `gfx942:xnack+`.
    pub fn base_target(&self) -> &str {
        target::base_target(&self.target_family)
    }

    /// `true` if the artifact holds nothing for a particular GPU.
    pub fn is_generic(&self) -> bool {
        self.target_family == GENERIC
    }
}

impl fmt::Display for ArtifactName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}_{}", self.name, self.component, self.target_family)
    }
}

impl FromStr for ArtifactName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text).ok_or_else(|| malformed_name(text, text.as_ref()).into())
    }
}

impl Serialize for ArtifactName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ArtifactName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not an artifact name")))
    }
}

/// `true` if a name that does not parse was most likely meant to be an artifact: one of its
/// `_`-separated fields is a component. Such names are reported, not ignored.
pub(crate) fn looks_like_artifact(stem: &str) -> bool {
    stem.split('_').skip(1).any(|field| Component::parse(field).is_some())
}

/// `true` if a directory entry has the name of an artifact, of its archive, or of an archive in a
/// format that cannot be read.
pub fn is_meant_as_artifact(file_name: &str) -> bool {
    const ENDINGS: [&str; 9] = [".tar.zst", ".tar.xz", ".tar.gz", ".tar.bz2", ".tar", ".tgz", ".txz", ".zst", ".zip"];
    let stem = ENDINGS.iter().find_map(|ending| file_name.strip_suffix(ending)).unwrap_or(file_name);
    // `blas_lib_generic.log` and `.sha256sum` are files beside an artifact.
    let is_other_file = stem.rsplit('_').next().is_some_and(|last| last.contains('.'));
    !is_other_file && (looks_like_artifact(stem) || ArtifactName::parse(stem).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn three_fields_parse() {
        let name = ArtifactName::parse("core-hip_lib_generic").unwrap();
        assert_eq!((name.name.as_str(), name.component.as_str()), ("core-hip", "lib"));
        assert!(name.is_generic());
        let name = ArtifactName::parse("a.b+c:d_lib_gfx942:xnack+").unwrap();
        assert_eq!(name.name, "a.b+c:d");
        assert_eq!(name.base_target(), "gfx942");
        assert_eq!(name.to_string(), "a.b+c:d_lib_gfx942:xnack+");
    }

    #[test]
    fn anything_else_is_not_an_artifact() {
        for text in ["", "a", "a_b", "a_b_c_d", "__", "a__c", "_b_c", "a_b_", "a_b_c/d", "a/x_b_c"] {
            assert_eq!(ArtifactName::parse(text), None, "{text}");
        }
        for text in
            ["a_b_c_d.tar.xz", "a_b_c.tar.gz", "a_b_c.sha256sum", "a_b_c.tar.xz.sha256sum", "a_b_.tar.xz", "a_b_c"]
        {
            assert_eq!(ArtifactName::parse_archive(text), None, "{text}");
        }
    }

    #[test]
    fn archive_names_carry_the_compression() {
        let (name, compression) = ArtifactName::parse_archive("blas_lib_gfx942:xnack+.tar.zst").unwrap();
        assert_eq!(compression, Compression::Zstd);
        assert_eq!(name.target_family, "gfx942:xnack+");
        assert_eq!(name.archive_name(Compression::Xz), "blas_lib_gfx942:xnack+.tar.xz");
    }

    #[test]
    fn unknown_components_are_artifacts_too() {
        let name = ArtifactName::parse("a_bits_generic").unwrap();
        assert_eq!(name.known_component(), None);
        assert_eq!(name.component, "bits");
    }

    #[test]
    fn misspelt_artifacts_are_recognised() {
        assert!(looks_like_artifact("core_hip_lib_generic"));
        assert!(looks_like_artifact("core-hip_lib"));
        assert!(!looks_like_artifact("therock-dist-linux"));
        assert!(!looks_like_artifact("lib"));
    }

    #[test]
    fn entries_that_are_meant_as_artifacts_are_told_by_their_names() {
        for name in "blas_lib_gfx942:xnack+ rocm-7.1_lib_generic core_hip_lib_generic a_b_c a_lib_b.tar.zst \
            a_lib_b.tar.gz"
            .split(' ')
        {
            assert!(is_meant_as_artifact(name), "{name}");
        }
        for name in ["logs", "therock-dist.tar.gz", "a_lib_b.tar.zst.sha256sum", "a_lib_b.fprint", "a_lib_b.log"] {
            assert!(!is_meant_as_artifact(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn formatting_parses_back(name in "[^_/\0]{1,12}", component in "[^_/\0]{1,6}", family in "[^_/\0]{1,12}") {
            let made = ArtifactName { name, component, target_family: family };
            prop_assert_eq!(ArtifactName::parse(&made.to_string()), Some(made.clone()));
            for compression in [Compression::Zstd, Compression::Xz] {
                prop_assert_eq!(ArtifactName::parse_archive(&made.archive_name(compression)), Some((made.clone(), compression)));
            }
        }

        #[test]
        fn parsing_agrees_with_the_pattern(text in "[a-c_.:+-]{0,12}") {
            let pattern = regex::Regex::new(r"\A[^_]+_[^_]+_[^_]+\z").unwrap();
            prop_assert_eq!(ArtifactName::parse(&text).is_some(), pattern.is_match(&text));
            if let Some(name) = ArtifactName::parse(&text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
