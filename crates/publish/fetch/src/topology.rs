//! Input: TheRock's BUILD_TOPOLOGY.toml. Output: which artifacts a stage of the build makes, and
//! which ones it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_progress::Failure;
use serde::Deserialize;

/// The stages, groups and artifacts of a build.
#[derive(Debug, Clone, Deserialize)]
pub struct BuildTopology {
    #[serde(default)]
    build_stages: BTreeMap<String, StageRow>,
    #[serde(default)]
    artifact_groups: BTreeMap<String, GroupRow>,
    #[serde(default)]
    artifacts: BTreeMap<String, ArtifactTableRow>,
}

#[derive(Debug, Clone, Deserialize)]
struct StageRow {
    #[serde(default)]
    artifact_groups: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct GroupRow {
    #[serde(default)]
    artifact_group_deps: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct ArtifactTableRow {
    artifact_group: String,
    #[serde(default)]
    artifact_deps: Vec<String>,
}

fn no_topology(path: &Path, reason: &str) -> Failure {
    Failure::message(format!("`{}`: {reason}", path.display()))
        .with_hint("name TheRock's BUILD_TOPOLOGY.toml of the same commit with `--topology FILE`")
}

impl BuildTopology {
    pub fn read(path: &Path) -> Result<BuildTopology, Failure> {
        let text = fs_err::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => no_topology(path, "there is no such file"),
            _ => no_topology(path, &error.to_string()),
        })?;
        let topology: BuildTopology = toml::from_str(&text).map_err(|error| no_topology(path, error.message()))?;
        if topology.artifacts.is_empty() {
            return Err(no_topology(path, "it has no artifacts"));
        }
        Ok(topology)
    }

    /// The stages, sorted by name.
    pub fn stages(&self) -> Vec<&str> {
        self.build_stages.keys().map(String::as_str).collect()
    }

    /// All artifacts, sorted by name.
    pub fn artifacts(&self) -> Vec<&str> {
        self.artifacts.keys().map(String::as_str).collect()
    }

    /// The artifacts of a group; `None` for an unknown one.
    pub fn of_group(&self, group: &str) -> Option<BTreeSet<String>> {
        self.artifact_groups.contains_key(group).then(|| self.in_groups(&[group.to_owned()]))
    }

    /// The groups, sorted by name.
    pub fn groups(&self) -> Vec<&str> {
        self.artifact_groups.keys().map(String::as_str).collect()
    }

    /// The artifacts that a stage makes; `None` for an unknown one.
    pub fn made_by(&self, stage: &str) -> Option<BTreeSet<String>> {
        Some(self.in_groups(&self.build_stages.get(stage)?.artifact_groups))
    }

    /// The artifacts of earlier stages that a stage needs: those of the groups that its groups
    /// depend on, and everything that these and its own artifacts depend on. `None` for an unknown
    /// stage.
    pub fn needed_by(&self, stage: &str) -> Option<BTreeSet<String>> {
        let row = self.build_stages.get(stage)?;
        let made = self.in_groups(&row.artifact_groups);
        let groups = row.artifact_groups.iter().filter_map(|group| self.artifact_groups.get(group));
        let deps: Vec<String> = groups.flat_map(|group| group.artifact_group_deps.iter().cloned()).collect();
        let mut needed = self.in_groups(&deps);
        let begin = needed.clone();
        let mut open: Vec<&String> = begin.iter().chain(&made).collect();
        while let Some(name) = open.pop() {
            for needs in self.artifacts.get(name).into_iter().flat_map(|row| &row.artifact_deps) {
                if needed.insert(needs.clone()) {
                    open.push(needs);
                }
            }
        }
        Some(needed.difference(&made).cloned().collect())
    }

    fn in_groups(&self, groups: &[String]) -> BTreeSet<String> {
        let inside = self.artifacts.iter().filter(|(_, row)| groups.contains(&row.artifact_group));
        inside.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_needs_what_its_artifacts_need() {
        let text = r#"
            [build_stages.base]
            artifact_groups = ["base"]
            [build_stages.math]
            artifact_groups = ["math"]
            [artifact_groups.base]
            [artifact_groups.extra]
            [artifact_groups.math]
            artifact_group_deps = ["base"]
            [artifacts.sysdeps]
            artifact_group = "base"
            [artifacts.fftw3]
            artifact_group = "extra"
            artifact_deps = ["zlib"]
            [artifacts.zlib]
            artifact_group = "extra"
            [artifacts.blas]
            artifact_group = "math"
            artifact_deps = ["prim"]
            [artifacts.prim]
            artifact_group = "math"
            artifact_deps = ["fftw3"]
        "#;
        let topology: BuildTopology = toml::from_str(text).unwrap();
        let names = |set: Option<BTreeSet<String>>| set.unwrap().into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names(topology.made_by("math")), "blas prim");
        assert_eq!(names(topology.needed_by("math")), "fftw3 sysdeps zlib");
        assert_eq!(names(topology.needed_by("base")), "");
        assert_eq!(names(topology.of_group("extra")), "fftw3 zlib");
        assert!(topology.made_by("none").is_none() && topology.of_group("none").is_none());
    }
}
