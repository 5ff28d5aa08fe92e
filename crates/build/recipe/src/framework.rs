//! Versions, backends and Pythons that a framework is built for: a row of `data/frameworks.toml`,
//! or `[framework]` of a recipe.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::cell::{Platform, PythonVersion, minor};

/// A framework and its axes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Framework {
    /// Name of its recipe. Empty in a recipe file, where it is that recipe.
    #[serde(default)]
    pub recipe: String,
    /// Versions to build.
    pub versions: Vec<String>,
    /// Backends to build.
    #[serde(default)]
    pub backends: Vec<String>,
    /// Target systems.
    #[serde(default = "linux")]
    pub platforms: Vec<Platform>,
    /// `true` if a result is for one version of torch, which is part of its name.
    #[serde(default)]
    pub against_torch: bool,
    /// For each version, the torch versions (first two numbers) that it belongs to, if file names
    /// do not have them.
    #[serde(default)]
    pub(crate) torch: BTreeMap<String, Vec<String>>,
    /// `true` for torch itself: the support tables then apply to its own versions.
    #[serde(default)]
    pub is_torch: bool,
    /// Pythons to build for; empty: the result is for no Python.
    #[serde(default)]
    pub python: Vec<String>,
}

fn linux() -> Vec<Platform> {
    vec![Platform::Linux]
}

impl Framework {
    /// Completes a framework that a recipe defines with the recipe's name, backends and platforms.
    pub(crate) fn of_recipe(self, name: &str, backends: &[String], platforms: &[Platform]) -> Framework {
        Framework { recipe: name.to_owned(), backends: backends.to_vec(), platforms: platforms.to_vec(), ..self }
    }

    pub(crate) fn pythons(&self) -> impl Iterator<Item = PythonVersion> + '_ {
        // `Table::parse` has validated them.
        self.python.iter().filter_map(|text| text.parse().ok())
    }

    /// The version of the table for a wheel's public version. If versions follow torch, a later
    /// patch release counts as the same version.
    pub(crate) fn version_of(&self, public: &str) -> String {
        let mut versions = self.versions.iter();
        let same = versions.find(|known| *known == public || (self.follows_torch() && minor(known) == minor(public)));
        same.cloned().unwrap_or_else(|| public.to_owned())
    }

    /// `true` if its versions follow those of torch.
    fn follows_torch(&self) -> bool {
        self.is_torch || !self.torch.is_empty()
    }

    /// The torch versions that a version belongs to; empty if file names have them, or if there are
    /// none.
    pub(crate) fn torch_of(&self, version: &str) -> &[String] {
        self.torch.get(version).map_or(&[], Vec::as_slice)
    }
}
