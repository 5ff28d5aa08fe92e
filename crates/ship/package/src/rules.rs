//! Input: the table of distributions, `data/distributions.toml`, and the artifacts. Output:
//! [`Rules`] (rocm-python-packages spec 2.5, 2.6, 2.8).

use std::collections::BTreeMap;
use std::fmt;

use rocwheel_progress::Failure;
use rocwheel_tables::RocmTables;
use serde::{Deserialize, Serialize};

use crate::error::table_error;

const EMBEDDED: &str = include_str!("../../../../data/distributions.toml");

/// The role of a distribution, independent of its name on an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Logical {
    /// `rocm-sdk-core`: runtime, compiler, tools.
    Core,
    /// `rocm-profiler`.
    Profiler,
    /// `rocm-sdk-libraries`: math and communication libraries.
    Libraries,
    /// `rocm-sdk-hpc`: libraries for HPC that are not in `rocm[libraries]`.
    Hpc,
    /// `rocm-sdk-device-<target>`: kernels of one GPU target.
    Device,
    /// `rocm-sdk-devel`: headers, CMake files and links to everything else.
    Devel,
    /// `rocm`: the selector, the only source distribution.
    Meta,
}

impl Logical {
    /// All distributions in planning order; if several need a link to one file, the first of them
    /// owns it.
    pub const ALL: [Logical; 7] = [
        Logical::Core,
        Logical::Profiler,
        Logical::Libraries,
        Logical::Hpc,
        Logical::Device,
        Logical::Devel,
        Logical::Meta,
    ];

    /// Returns the key used in `_dist_info.py`, extras and `--only`.
    pub fn key(self) -> &'static str {
        match self {
            Logical::Core => "core",
            Logical::Profiler => "profiler",
            Logical::Libraries => "libraries",
            Logical::Hpc => "hpc",
            Logical::Device => "device",
            Logical::Devel => "devel",
            Logical::Meta => "meta",
        }
    }

    /// Returns the name of the distribution, without its target.
    pub fn distribution(self) -> String {
        match self {
            Logical::Meta => "rocm".to_owned(),
            Logical::Profiler => "rocm-profiler".to_owned(),
            _ => format!("rocm-sdk-{self}"),
        }
    }

    /// Returns the import package with the Python code, without a family; its name with `_` in
    /// front is the package that holds the files. Device packages share that of the libraries.
    pub fn import_package(self) -> String {
        let owner = if self == Logical::Device { Logical::Libraries } else { self };
        owner.distribution().replace('-', "_")
    }

    /// `true` if each family has its own, where device code is inside the libraries.
    pub fn is_per_family(self) -> bool {
        matches!(self, Logical::Libraries | Logical::Hpc)
    }

    /// Parses a key or a distribution name such as `rocm-sdk-core`.
    pub fn parse(text: &str) -> Option<Logical> {
        if text == "selector" {
            return Some(Logical::Meta);
        }
        Logical::ALL.into_iter().find(|logical| text == logical.key() || text == logical.distribution())
    }
}

impl fmt::Display for Logical {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.key())
    }
}

/// A pair of artifact and component that is taken besides the product of artifacts and components.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// TheRock artifact name.
    pub artifact: String,
    pub component: String,
}

/// An exec stub that is added if its program exists and its own path is free.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stub {
    pub path: String,
    /// Path of the program, relative to the stub's directory.
    pub target: String,
}

/// The files that a distribution takes and the directories it searches for libraries.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Summary for METADATA, one line.
    pub summary: String,
    /// Names of artifacts whose `components` are taken, from the rows of the artifacts.
    #[serde(skip)]
    pub artifacts: Vec<String>,
    /// Components that are taken from `artifacts`.
    pub components: Vec<String>,
    /// Further pairs of artifact and component.
    #[serde(default)]
    pub also: Vec<Also>,
    /// Globs that a path must match; empty takes all.
    #[serde(default)]
    pub include: Vec<String>,
    /// Globs of paths that are excluded.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// The reason why `include` and `exclude` skip paths, for the report.
    #[serde(default)]
    pub exclude_reason: String,
    /// Globs of libraries that are also packaged under their names without the last dotted part.
    #[serde(default)]
    pub unversioned: Vec<String>,
    /// Programs that are also packaged under another path.
    #[serde(default)]
    pub stubs: Vec<Stub>,
    /// Library directories as `<logical>:<path>`, in search order.
    pub search: Vec<String>,
    /// Distributions that this one requires at the same version.
    #[serde(default)]
    pub requires: Vec<Logical>,
}

impl Rule {
    pub fn takes(&self, artifact: &str, component: &str) -> bool {
        (self.artifacts.iter().any(|name| name == artifact) && self.components.iter().any(|name| name == component))
            || self.also.iter().any(|pair| pair.artifact == artifact && pair.component == component)
    }

    /// `true` if the rule takes any component of the artifact.
    pub fn names(&self, artifact: &str) -> bool {
        self.artifacts.iter().any(|name| name == artifact) || self.also.iter().any(|pair| pair.artifact == artifact)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LeftOutComponent {
    component: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct File {
    left_out_component: Vec<LeftOutComponent>,
    #[serde(flatten)]
    distributions: BTreeMap<Logical, Rule>,
}

#[derive(Debug)]
pub struct Rules {
    distributions: BTreeMap<Logical, Rule>,
    left_out: BTreeMap<String, String>,
    left_out_components: BTreeMap<String, String>,
}

impl Rules {
    pub fn embedded() -> Result<Rules, Failure> {
        Rules::parse(EMBEDDED, RocmTables::in_use())
    }

    /// Parses a table in the format of `data/distributions.toml`, for the artifacts of `tables`.
    pub fn parse(text: &str, tables: &RocmTables) -> Result<Rules, Failure> {
        let mut file: File = toml::from_str(text).map_err(table_error)?;
        let rows = tables.artifacts();
        let left_out = rows.iter().filter_map(|row| Some((row.name.clone(), row.left_out.clone()?))).collect();
        let left_out_components = file.left_out_component.into_iter().map(|row| (row.component, row.reason)).collect();
        for (logical, rule) in &mut file.distributions {
            let taken = rows.iter().filter(|row| match logical {
                Logical::Device => row.device,
                _ => row.package.as_deref() == Some(logical.key()),
            });
            rule.artifacts = taken.map(|row| row.name.clone()).collect();
        }
        Ok(Rules { distributions: file.distributions, left_out, left_out_components })
    }

    /// Returns the rule of a distribution that holds files.
    ///
    /// # Panics
    /// For [`Logical::Meta`], which has no files.
    pub fn of(&self, logical: Logical) -> &Rule {
        &self.distributions[&logical]
    }

    /// Returns the reason why no distribution takes this artifact, if it is excluded on purpose.
    pub fn left_out(&self, artifact: &str) -> Option<&str> {
        self.left_out.get(artifact).map(String::as_str)
    }

    /// Returns the reason why no distribution takes this component, if it is excluded on purpose.
    pub fn left_out_component(&self, component: &str) -> Option<&str> {
        self.left_out_components.get(component).map(String::as_str)
    }

    /// `true` if a distribution takes any component of the artifact.
    pub fn names(&self, artifact: &str) -> bool {
        self.distributions.values().any(|rule| rule.names(artifact))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_reads_and_names_the_spec_s_artifacts() {
        let rules = Rules::embedded().unwrap();
        assert!(rules.of(Logical::Core).takes("core-hip", "dev"));
        assert!(!rules.of(Logical::Core).takes("rand", "lib"));
        assert!(rules.of(Logical::Libraries).takes("sparse", "lib"), "older spelling of a part of `blas`");
        assert_eq!(rules.left_out("fftw3"), Some("used while building ROCm or by its tests"));
        assert_eq!(rules.left_out("blas"), None);
        assert!(Rules::parse("[core]\nnope = 1", RocmTables::in_use()).is_err());
    }

    #[test]
    fn distributions_are_found_by_key_and_by_name() {
        for logical in Logical::ALL {
            assert_eq!(Logical::parse(logical.key()), Some(logical));
        }
        for (name, logical) in
            [("rocm-sdk-devel", Logical::Devel), ("rocm", Logical::Meta), ("selector", Logical::Meta)]
        {
            assert_eq!(Logical::parse(name), Some(logical));
        }
        assert_eq!(Logical::parse("rocm-sdk"), None);
    }
}
