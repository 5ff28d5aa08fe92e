//! Input: a table in TOML, which a person writes. Output: which files are withdrawn, and the status
//! of projects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use pep440_rs::Version;
use rocwheel_index::pages::ProjectStatus;
use rocwheel_store::listing::{StoredDistribution, distribution, project_of};
use rocwheel_wheel::canonical_name;
use serde::{Deserialize, Serialize};

use crate::catalog::Catalog;
use crate::error::Error;

/// The table's name in a store.
pub const FILE: &str = "index-status.toml";

/// What a person decided about files and projects of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusTable {
    /// Withdrawn files and versions (PEP 592).
    #[serde(default)]
    yanked: Vec<Yank>,
    /// Projects that are not active (PEP 792), by name.
    #[serde(default)]
    project: BTreeMap<String, ProjectRow>,
}

/// A withdrawn file, or all files of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Yank {
    file: Option<String>,
    project: Option<String>,
    version: Option<Version>,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectRow {
    status: ProjectStatus,
    reason: Option<String>,
}

impl StatusTable {
    pub fn parse(text: &str, path: &Path) -> Result<StatusTable, Error> {
        let mut table: StatusTable =
            toml::from_str(text).map_err(|error| Error::Status { path: path.to_owned(), reason: error.to_string() })?;
        for yank in &mut table.yanked {
            match (&yank.file, &yank.project, &yank.version) {
                (Some(_), None, None) | (None, Some(_), Some(_)) => {}
                _ => {
                    let reason = "a row of `yanked` has `file`, or `project` and `version`".to_owned();
                    return Err(Error::Status { path: path.to_owned(), reason });
                }
            }
            yank.project = yank.project.take().map(|name| canonical_name(&name));
        }
        table.project = table.project.into_iter().map(|(name, row)| (canonical_name(&name), row)).collect();
        Ok(table)
    }

    pub fn yank_file(&mut self, name: String, reason: String) {
        self.yanked.push(Yank { file: Some(name), project: None, version: None, reason });
    }

    pub fn set_project(&mut self, name: &str, status: ProjectStatus, reason: Option<String>) {
        if status != ProjectStatus::Active {
            self.project.insert(canonical_name(name), ProjectRow { status, reason });
        }
    }

    /// Adds the rows of another table. Those of this one come first.
    pub fn add(&mut self, other: &StatusTable) {
        self.yanked.extend(other.yanked.iter().cloned());
        for (name, row) in &other.project {
            self.project.entry(name.clone()).or_insert_with(|| row.clone());
        }
    }

    /// Why a file is withdrawn; `None` when it is not.
    pub(crate) fn yanked(&self, distribution: &StoredDistribution) -> Option<&str> {
        let found = self.yanked.iter().find(|yank| yank.is_of(distribution));
        found.map(|yank| yank.reason.as_str())
    }

    pub(crate) fn of_project(&self, name: &str) -> (ProjectStatus, Option<&str>) {
        self.project.get(name).map_or((ProjectStatus::Active, None), |row| (row.status, row.reason.as_deref()))
    }

    /// What the table says of a project and its files, as a text that differs where that differs.
    pub(crate) fn rows_of(&self, project: &str) -> String {
        let yanks: Vec<&Yank> = self.yanked.iter().filter(|yank| yank.project().as_deref() == Some(project)).collect();
        format!("{yanks:?} {:?}", self.project.get(project))
    }

    /// Rows that fit no file: most are misspelt, and a file that should be withdrawn is not.
    pub(crate) fn unused(&self, catalog: &Catalog) -> Vec<String> {
        let mut unused = Vec::new();
        for yank in &self.yanked {
            let project = yank.project().and_then(|name| catalog.projects.get(&*name));
            let mut files = project.into_iter().flat_map(|project| &project.files);
            if files.any(|listed| distribution(listed.file.clone()).is_some_and(|one| yank.is_of(&one))) {
                continue;
            }
            let version = yank.version.as_ref().map(ToString::to_string).unwrap_or_default();
            let what =
                yank.file.clone().unwrap_or_else(|| format!("{} {version}", yank.project.as_deref().unwrap_or("")));
            unused.push(format!("`yanked` names `{what}`, which is not in the index"));
        }
        let missing = self.project.keys().filter(|name| !catalog.projects.contains_key(*name));
        unused.extend(missing.map(|name| format!("`project` names `{name}`, which is not in the index")));
        unused
    }
}

impl Yank {
    fn project(&self) -> Option<Cow<'_, str>> {
        let own = self.project.as_deref().map(Cow::Borrowed);
        self.file.as_deref().map_or(own, |file| project_of(file).map(Cow::Owned))
    }

    fn is_of(&self, distribution: &StoredDistribution) -> bool {
        match (&self.file, &self.project, &self.version) {
            (Some(file), _, _) => file == distribution.name(),
            (None, Some(project), Some(version)) => {
                *project == distribution.project && *version == distribution.version
            }
            _ => false,
        }
    }
}
