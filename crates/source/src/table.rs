//! Input: `data/sources.toml`, or a user's file of the same form. Output: projects, version lines
//! and rules, checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;

const BUILT_IN: &str = include_str!("../../../data/sources.toml");

/// Everything that is known of framework sources without looking at one.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    schema: u32,
    /// In the order in which they are checked out.
    #[serde(rename = "project")]
    pub projects: Vec<Project>,
    /// Newest first.
    #[serde(rename = "line", default)]
    pub lines: Vec<Line>,
    /// Files of torch's tree that pin other projects.
    pub pins: PinFiles,
    /// What `build_env.json` says, by rule.
    #[serde(default)]
    pub triton_rules: Vec<TritonRules>,
    /// Releases that are to be had as one file.
    #[serde(rename = "archive", default)]
    pub archives: Vec<KnownArchive>,
}

/// A project whose sources can be checked out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Project {
    /// What users call it; empty in a recipe, which names it.
    #[serde(default)]
    pub name: String,
    /// Its folder below the root of all checkouts, and its name in patch sets; empty in a recipe
    /// means its name.
    #[serde(default)]
    pub directory: String,
    /// Its key in manifests; `None`: manifests do not have it.
    #[serde(default)]
    pub manifest: Option<String>,
    /// Branch, tag or commit when nobody says otherwise.
    #[serde(default, rename = "ref")]
    pub reference: Option<String>,
    /// The tag or branch of a release, with VERSION for its number; `None`: nobody knows one.
    #[serde(default)]
    release_tag: Option<String>,
    /// Connections at a time for submodules when nobody says otherwise.
    #[serde(default)]
    pub jobs: Option<u16>,
    /// What is changed in the tree after its checkout.
    #[serde(default)]
    pub local_change: LocalChange,
    /// Where the tree says its version.
    #[serde(default)]
    pub version_file: Option<String>,
    /// Its name in torch's `related_commits`.
    #[serde(default)]
    pub related: Option<String>,
    /// Whether torch's tree pins its commit and its version.
    #[serde(default)]
    pub pinned_by_torch: bool,
    /// Which of `origins` is taken when nobody says otherwise.
    origin: String,
    /// Addresses by short name (`upstream`, `rocm`).
    pub origins: BTreeMap<String, String>,
}

/// What is changed in a tree after its checkout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalChange {
    /// CUDA sources are converted when the tree has `tools/amd_build/build_amd.py`.
    Hipify,
    /// `build_env.json` is written, which the build reads.
    BuildEnvironment,
    /// Nothing.
    #[default]
    None,
}

/// A version line of torch and what belongs to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Line {
    /// `nightly` or `2.9`.
    pub name: String,
    /// Short name of torch's origin.
    pub torch_origin: String,
    /// torch's branch.
    pub torch_ref: String,
    /// Whether torch's `related_commits` has to name the others' commits.
    #[serde(default)]
    pub related: bool,
    /// Name of the rules for `build_env.json`.
    pub triton_rules: String,
}

/// Files of torch's tree that pin other projects, relative to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PinFiles {
    /// Commits of audio, vision and apex.
    pub related_commits: String,
    /// The system whose lines in it count.
    pub related_system: String,
    /// triton's commit.
    pub triton_commit: String,
    /// triton's version, such as `3.4.0`.
    pub triton_version: String,
}

/// What `build_env.json` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TritonRules {
    /// What lines refer to.
    pub name: String,
    /// When the commit comes from torch's pin.
    #[serde(default)]
    pub pinned: BTreeMap<String, String>,
    /// When it was named in another way.
    #[serde(default)]
    pub other: BTreeMap<String, String>,
}

/// A release that is to be had as one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownArchive {
    /// Name of the project.
    pub project: String,
    /// Its version.
    pub version: String,
    /// Where it is.
    pub url: String,
    /// Lower-case hexadecimal SHA-256 of the file.
    pub sha256: String,
}

impl Table {
    /// The text of the one that comes with the program.
    pub const BUILT_IN: &'static str = BUILT_IN;

    /// The one that comes with the program.
    pub fn built_in() -> Table {
        Self::parse(BUILT_IN, "data/sources.toml").expect("a test reads it")
    }

    /// Reads a table; `name` is what errors call it.
    ///
    /// # Errors
    /// What is not TOML of this form, two things of one name, a name that refers to nothing.
    pub fn parse(text: &str, name: &str) -> Result<Table, Error> {
        let wrong = |reason: String| Error::Table { path: name.to_owned(), reason };
        let table: Table = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if table.schema != 1 {
            return Err(wrong(format!("its schema is {}, and this program knows schema 1", table.schema)));
        }
        table.check(name)?;
        Ok(table)
    }

    /// The same with the projects that recipes describe themselves. A project of the table wins.
    ///
    /// # Errors
    /// As [`Table::parse`].
    pub fn with_projects<'a>(mut self, projects: impl Iterator<Item = &'a Project>) -> Result<Table, Error> {
        for project in projects {
            if !self.projects.iter().any(|known| known.name == project.name) {
                self.projects.push(project.clone());
            }
        }
        self.check("the recipes")?;
        Ok(self)
    }

    /// Checks names and what refers to them; `name` is what errors call the table.
    fn check(&self, name: &str) -> Result<(), Error> {
        let wrong = |reason: String| Error::Table { path: name.to_owned(), reason };
        for (at, project) in self.projects.iter().enumerate() {
            if self.projects[..at]
                .iter()
                .any(|other| other.name == project.name || other.directory == project.directory)
            {
                return Err(wrong(format!("project `{}` or its directory is listed twice", project.name)));
            }
            if !project.origins.contains_key(&project.origin) {
                return Err(wrong(format!("project `{}` has no origin `{}`", project.name, project.origin)));
            }
            if project.name.is_empty() {
                return Err(wrong("a project has no `name`".into()));
            }
            if !is_plain_name(&project.directory) {
                return Err(wrong(format!("`{}` is not the name of a folder", project.directory)));
            }
        }
        for line in &self.lines {
            let origins = self.project("torch").map(|torch| &torch.origins)?;
            if !origins.contains_key(&line.torch_origin) {
                return Err(wrong(format!("line `{}`: torch has no origin `{}`", line.name, line.torch_origin)));
            }
            if self.rules(&line.triton_rules).is_none() {
                return Err(wrong(format!("line `{}`: there are no triton rules `{}`", line.name, line.triton_rules)));
            }
        }
        Ok(())
    }

    /// A project by its name, its folder or its key in manifests.
    ///
    /// # Errors
    /// When there is none.
    pub fn project(&self, name: &str) -> Result<&Project, Error> {
        let is_it = |project: &&Project| {
            project.name == name || project.directory == name || project.manifest.as_deref() == Some(name)
        };
        self.projects.iter().find(is_it).ok_or_else(|| Error::UnknownProject {
            name: name.to_owned(),
            known: self.projects.iter().map(|project| project.name.clone()).collect(),
        })
    }

    /// A version line by its name or by torch's branch; `stable` is the newest release.
    ///
    /// # Errors
    /// When there is none.
    pub fn line(&self, name: &str) -> Result<&Line, Error> {
        let is_it = |line: &&Line| line.name == name || line.torch_ref == name;
        let version = |line: &&Line| line.name.parse::<pep440_rs::Version>().ok();
        let newest = || self.lines.iter().filter(|line| version(line).is_some()).max_by_key(version);
        let found = self.lines.iter().find(is_it).or_else(|| newest().filter(|_| name == "stable"));
        found.ok_or_else(|| Error::UnknownLine {
            name: name.to_owned(),
            known: self.lines.iter().map(|line| line.name.clone()).collect(),
        })
    }

    /// Rules for `build_env.json` by name.
    pub fn rules(&self, name: &str) -> Option<&TritonRules> {
        self.triton_rules.iter().find(|rules| rules.name == name)
    }

    /// A release of a project that is known as one file.
    pub fn archive(&self, project: &str, version: &str) -> Option<&KnownArchive> {
        self.archives.iter().find(|archive| archive.project == project && archive.version == version)
    }
}

impl Project {
    /// The same under the name that a recipe has for it.
    #[must_use]
    pub fn named(self, name: &str) -> Project {
        let directory = if self.directory.is_empty() { name.to_owned() } else { self.directory };
        Project { name: name.to_owned(), directory, ..self }
    }

    /// The tag or branch of a release.
    pub fn release_tag(&self, version: &str) -> Option<String> {
        Some(self.release_tag.as_ref()?.replace("VERSION", version))
    }

    /// The address for what a user wrote: a short name, or an address as it is. `None`: the
    /// default.
    pub fn origin(&self, given: Option<&str>) -> String {
        let given = given.unwrap_or(&self.origin);
        self.origins.get(given).cloned().unwrap_or_else(|| given.to_owned())
    }
}

/// Whether a text names an entry of a folder and nothing else.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(['/', '\\', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_program_is_right() {
        let table = Table::parse(BUILT_IN, "data/sources.toml").unwrap();
        assert_eq!(table.projects.len(), 7);
        assert_eq!(table.lines.len(), 9);
        assert_eq!(table.line("release/2.9").unwrap().name, "2.9");
        assert_eq!(table.project("pytorch_audio").unwrap().name, "torchaudio");
        assert!(table.project("torch").unwrap().origin(Some("rocm")).contains("ROCm/pytorch"));
        assert_eq!(table.project("torch").unwrap().origin(Some("/mirror")), "/mirror");
        for archive in &table.archives {
            assert!(table.project(&archive.project).is_ok());
            assert_eq!(archive.sha256.len(), 64);
        }
    }

    #[test]
    fn references_to_nothing_are_refused() {
        let wrong =
            |from: &str, to: &str| Table::parse(&BUILT_IN.replacen(from, to, 1), "mine.toml").unwrap_err().to_string();
        assert!(wrong("schema = 1", "schema = 2").contains("schema is 2"));
        assert!(wrong("name = \"torchaudio\"", "name = \"torch\"").contains("twice"));
        assert!(wrong("origin = \"upstream\"", "origin = \"nowhere\"").contains("no origin `nowhere`"));
        assert!(wrong("triton-rules = \"new\"", "triton-rules = \"newest\"").contains("`newest`"));
        assert!(wrong("directory = \"pytorch\"", "directory = \"../pytorch\"").contains("not the name of a folder"));
        assert!(wrong("torch-ref", "torch-reff").contains("torch-reff"));
    }
}
