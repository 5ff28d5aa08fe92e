//! Input: `data/sources.toml`, or a user's file in the same format. Output: projects, version lines
//! and rules, validated.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rocwheel_content::document::check_schema;
use rocwheel_progress::Failure;
use serde::{Deserialize, Serialize};

use crate::error;

const BUILT_IN: &str = include_str!("../../../../data/sources.toml");

/// The table of framework sources.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    schema: u32,
    /// The projects in the order in which they are checked out.
    #[serde(rename = "project")]
    pub projects: Vec<Project>,
    /// Version lines of torch, newest first.
    #[serde(rename = "line", default)]
    pub lines: Vec<Line>,
    /// Files of torch's tree that pin other projects.
    pub pins: PinFiles,
    /// Rules for the content of `build_env.json`.
    #[serde(default)]
    pub triton_rules: Vec<TritonRules>,
    /// Releases that are available as one file.
    #[serde(rename = "archive", default)]
    pub archives: Vec<KnownArchive>,
}

/// A project whose sources can be checked out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Project {
    /// Name of the project, as users type it. Empty in a recipe file, where the recipe names it.
    #[serde(default)]
    pub name: String,
    /// Its folder below the root of all checkouts, and its name in patch sets. Empty in a recipe:
    /// the same as its name.
    #[serde(default)]
    pub directory: String,
    /// Its key in manifests; `None`: manifests do not have the project.
    #[serde(default)]
    pub manifest: Option<String>,
    /// Default branch, tag or commit.
    #[serde(default, rename = "ref")]
    pub reference: Option<String>,
    /// The tag or branch of a release, with VERSION in place of its number; `None`: no pattern is
    /// known.
    #[serde(default)]
    release_tag: Option<String>,
    /// The same for three numbers, of a project whose two numbers are a line.
    #[serde(default)]
    patch_tag: Option<String>,
    /// Default number of parallel connections for submodules.
    #[serde(default)]
    pub jobs: Option<u16>,
    /// The change that is made in the tree after its checkout.
    #[serde(default)]
    pub local_change: LocalChange,
    /// Path of the file in the tree that has the version.
    #[serde(default)]
    pub version_file: Option<String>,
    /// Its name in torch's `related_commits`.
    #[serde(default)]
    pub related: Option<String>,
    /// `true` if torch's tree pins its commit and its version.
    #[serde(default)]
    pub pinned_by_torch: bool,
    /// Short name of the default origin.
    origin: String,
    /// Addresses by short name (`upstream`, `rocm`).
    pub origins: BTreeMap<String, String>,
}

/// The change that is made in a tree after its checkout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocalChange {
    /// CUDA sources are converted if the tree has `tools/amd_build/build_amd.py`.
    Hipify,
    /// `build_env.json`, which the build reads, is written.
    BuildEnvironment,
    /// The tree stays unchanged.
    #[default]
    None,
}

/// A version line of torch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Line {
    /// Name of the line, `nightly` or `2.9`.
    pub name: String,
    /// Short name of torch's origin.
    pub torch_origin: String,
    /// Name of torch's branch.
    pub torch_ref: String,
    /// `true` if torch's `related_commits` has to name the commits of the other projects.
    #[serde(default)]
    pub related: bool,
    /// Name of the rules for `build_env.json`.
    pub triton_rules: String,
}

/// Files in torch's tree that pin other projects, as paths relative to it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PinFiles {
    /// File with the commits of audio, vision and apex.
    pub related_commits: String,
    /// The system whose lines in that file apply.
    pub related_system: String,
    /// File with triton's commit.
    pub triton_commit: String,
    /// File with triton's version, such as `3.4.0`.
    pub triton_version: String,
}

/// The content of `build_env.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TritonRules {
    /// Name by which lines refer to the rules.
    pub name: String,
    /// Content if the commit comes from torch's pin.
    #[serde(default)]
    pub pinned: BTreeMap<String, String>,
    /// Content if the commit was named in another way.
    #[serde(default)]
    pub other: BTreeMap<String, String>,
}

/// A release that is available as one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownArchive {
    /// Name of the project.
    pub project: String,
    /// Version of the release.
    pub version: String,
    /// Address of the file.
    pub url: String,
    /// Lower-case hexadecimal SHA-256 of the file.
    pub sha256: String,
}

impl Table {
    /// Text of the built-in table.
    pub const BUILT_IN: &'static str = BUILT_IN;

    pub fn built_in() -> Table {
        Self::parse(BUILT_IN, "data/sources.toml").expect("a test reads it")
    }

    /// Parses a table; `name` is its name in errors.
    ///
    /// # Errors
    /// The text is not TOML of this format, two entries have one name, or a name refers to nothing.
    pub fn parse(text: &str, name: &str) -> Result<Table, Failure> {
        let table: Table = toml::from_str(text).map_err(|error| wrong(name, &error.to_string()))?;
        check_schema(table.schema, 1).map_err(|reason| wrong(name, &reason))?;
        table.check(name)?;
        Ok(table)
    }

    /// Adds the projects that recipes define themselves. A project of the table has priority.
    ///
    /// # Errors
    /// The same as [`Table::parse`].
    pub fn with_projects<'a>(mut self, projects: impl Iterator<Item = &'a Project>) -> Result<Table, Failure> {
        for project in projects {
            if !self.projects.iter().any(|known| known.name == project.name) {
                self.projects.push(project.clone());
            }
        }
        self.check("the recipes")?;
        Ok(self)
    }

    /// Checks names and references; `name` is the table's name in errors.
    fn check(&self, name: &str) -> Result<(), Failure> {
        for (at, project) in self.projects.iter().enumerate() {
            if self.projects[..at]
                .iter()
                .any(|other| other.name == project.name || other.directory == project.directory)
            {
                return Err(wrong(name, &format!("project `{}` or its directory is listed twice", project.name)));
            }
            if !project.origins.contains_key(&project.origin) {
                return Err(wrong(name, &format!("project `{}` has no origin `{}`", project.name, project.origin)));
            }
            if project.name.is_empty() {
                return Err(wrong(name, "a project has no `name`"));
            }
            if !is_plain_name(&project.directory) {
                return Err(wrong(name, &format!("`{}` is not the name of a folder", project.directory)));
            }
        }
        for line in &self.lines {
            let origins = self.project("torch").map(|torch| &torch.origins)?;
            if !origins.contains_key(&line.torch_origin) {
                return Err(wrong(name, &format!("line `{}`: torch has no origin `{}`", line.name, line.torch_origin)));
            }
            if self.rules(&line.triton_rules).is_none() {
                return Err(wrong(
                    name,
                    &format!("line `{}`: there are no triton rules `{}`", line.name, line.triton_rules),
                ));
            }
        }
        Ok(())
    }

    /// Looks a project up by its name, its folder or its key in manifests.
    ///
    /// # Errors
    /// No project fits.
    pub fn project(&self, name: &str) -> Result<&Project, Failure> {
        let found = self.projects.iter().find(|project| {
            project.name == name || project.directory == name || project.manifest.as_deref() == Some(name)
        });
        found.ok_or_else(|| {
            let known: Vec<&str> = self.projects.iter().map(|project| project.name.as_str()).collect();
            error::request(format!("there is no project `{name}`"))
                .with_hint(format!("the projects are {}", known.join(", ")))
        })
    }

    /// Looks a version line up by its name or by torch's branch; `stable` is the newest release. A
    /// version newer than all lines is a line as the newest one is.
    ///
    /// # Errors
    /// No version line fits.
    pub fn line(&self, name: &str) -> Result<Cow<'_, Line>, Failure> {
        let named = self.lines.iter().find(|line| line.name == name || line.torch_ref == name);
        let found = named.or_else(|| self.newest().filter(|_| name == "stable"));
        found.map(Cow::Borrowed).or_else(|| self.guessed_line(name).map(Cow::Owned)).ok_or_else(|| {
            let known: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
            error::request(format!("there is no version line `{name}`"))
                .with_hint(format!("the lines are {}; any other branch is `--ref`", known.join(", ")))
        })
    }

    fn newest(&self) -> Option<&Line> {
        self.lines.iter().filter(|line| version(&line.name).is_some()).max_by_key(|line| version(&line.name))
    }

    /// The line of a version that is newer than all lines.
    fn guessed_line(&self, name: &str) -> Option<Line> {
        let newest = self.newest().filter(|newest| version(name) > version(&newest.name))?;
        let torch_ref = newest.torch_ref.replace(&newest.name, name);
        Some(Line { name: name.to_owned(), torch_ref, ..newest.clone() })
    }

    /// A sentence about a version line that the table lacks and that is used all the same.
    pub fn unknown_line(&self, name: &str) -> Option<String> {
        let Line { torch_origin, torch_ref, .. } = self.guessed_line(name)?;
        Some(format!("no table knows the line {name}: torch is taken from `{torch_ref}` of `{torch_origin}`"))
    }

    /// Looks rules for `build_env.json` up by name.
    pub fn rules(&self, name: &str) -> Option<&TritonRules> {
        self.triton_rules.iter().find(|rules| rules.name == name)
    }

    /// Looks up a release of a project that is available as one file.
    pub fn archive(&self, project: &str, version: &str) -> Option<&KnownArchive> {
        self.archives.iter().find(|archive| archive.project == project && archive.version == version)
    }
}

impl Project {
    /// Completes a project that a recipe defines with its name.
    #[must_use]
    pub fn named(self, name: &str) -> Project {
        let directory = if self.directory.is_empty() { name.to_owned() } else { self.directory };
        Project { name: name.to_owned(), directory, ..self }
    }

    /// The tag or branch of a release.
    pub fn release_tag(&self, version: &str) -> Option<String> {
        Some(self.release_tag.as_ref()?.replace("VERSION", version))
    }

    /// The tag of a release that the user named as the sources: also that of a project with lines.
    pub fn tag_of_source(&self, version: &str) -> Option<String> {
        let patch_tag = self.patch_tag.as_ref().filter(|_| version.split('.').count() == 3);
        self.release_tag(version).or_else(|| Some(patch_tag?.replace("VERSION", version)))
    }

    /// The address for an origin: that of a short name, or the given address unchanged. `None`: the
    /// default.
    pub fn origin(&self, given: Option<&str>) -> String {
        let given = given.unwrap_or(&self.origin);
        self.origins.get(given).cloned().unwrap_or_else(|| given.to_owned())
    }
}

fn wrong(path: &str, reason: &str) -> Failure {
    Failure::message(format!("could not understand the table of sources `{path}`: {reason}"))
}

/// The two numbers of a version line.
fn version(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `true` if a text is the name of a single folder entry.
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
        assert_eq!(table.lines.len(), 10);
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
