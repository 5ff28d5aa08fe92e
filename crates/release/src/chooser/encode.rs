//! Input: the projects of an index. Output: the data of its chooser as JSON.
//!
//! Whatever repeats is in a table once: versions, tags, sets of tags, requirements, and the whole
//! list of versions of a project, which the packages of all GPUs have in common.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

use pep440_rs::Version;
use rocwheel_index::pages::ProjectStatus;
use rocwheel_wheel::canonical_name;
use serde::Serialize;
use serde_json::{Value, json};

use super::{ChangedVersion, ChooserOptions, OfferedFile, OfferedProject};

const SECONDS_A_DAY: i64 = 86_400;

/// Numbered values, in the order in which they were first seen.
struct Table<T> {
    numbers: HashMap<T, usize>,
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn number(&mut self, value: T) -> usize {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        self.values.push(value.clone());
        self.numbers.insert(value, self.values.len() - 1);
        self.values.len() - 1
    }

    /// The number as the page has it, with -1 for nothing.
    fn optional(&mut self, value: Option<T>) -> i64 {
        value.map_or(-1, |value| i64::try_from(self.number(value)).unwrap_or(i64::MAX))
    }
}

/// Files of one version that differ in their tags only.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shape<'a> {
    version: &'a Version,
    needs: &'a str,
    rocm: Option<String>,
    python: &'a str,
    yanked: Option<&'a str>,
}

impl Shape<'_> {
    fn rocm_version(&self) -> Option<Version> {
        self.rocm.as_ref()?.parse().ok()
    }
}

/// A row: version, set of tags, needs, ROCm, day, Requires-Python, reason for the withdrawal.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
struct Row(usize, usize, usize, i64, i64, usize, i64);

/// The data of a page.
#[derive(Default)]
pub(super) struct PageData {
    versions: Table<String>,
    tags: Table<String>,
    sets: Table<Vec<usize>>,
    needs: Table<String>,
    rocm: Table<String>,
    pythons: Table<String>,
    reasons: Table<String>,
    rows: Table<Vec<Row>>,
    projects: Vec<Value>,
}

impl PageData {
    pub(super) fn add(&mut self, project: &OfferedProject) {
        let (status, reason) = match project.status {
            ProjectStatus::Active => ("", ""),
            status => (status.word(), project.status_reason.as_deref().unwrap_or_default()),
        };
        // A quarantined project lists no files.
        let files: &[OfferedFile] =
            if project.status == ProjectStatus::Quarantined { &[] } else { project.files.as_slice() };
        let mut shapes: BTreeMap<Shape<'_>, (BTreeSet<&str>, i64)> = BTreeMap::new();
        for file in files {
            let shape = Shape {
                version: &file.version,
                needs: &file.needs,
                rocm: rocm_of(&project.name, file),
                python: file.requires_python.as_deref().unwrap_or_default(),
                yanked: file.yanked.as_deref(),
            };
            let day = file.uploaded.as_second().div_euclid(SECONDS_A_DAY);
            let (tags, newest) = shapes.entry(shape).or_insert((BTreeSet::new(), day));
            tags.insert(&file.tags);
            *newest = day.max(*newest);
        }
        // Newest first. Installers compare `+rocm10.0` and `+rocm7.2` as texts; people do not.
        let mut shapes: Vec<_> = shapes.into_iter().rev().collect();
        shapes.sort_by_cached_key(|(shape, _)| Reverse((shape.version.clone().without_local(), shape.rocm_version())));
        let rows: Vec<Row> = shapes.into_iter().map(|(shape, (tags, day))| self.row(shape, &tags, day)).collect();
        let rows = self.rows.number(rows);
        self.projects.push(json!([project.name, rows, status, reason]));
    }

    fn row(&mut self, shape: Shape<'_>, tags: &BTreeSet<&str>, day: i64) -> Row {
        let tags = tags.iter().map(|tag| self.tags.number((*tag).to_owned())).collect();
        Row(
            self.versions.number(shape.version.to_string()),
            self.sets.number(tags),
            self.needs.number(shape.needs.to_owned()),
            self.rocm.optional(shape.rocm),
            day,
            self.pythons.number(shape.python.to_owned()),
            self.reasons.optional(shape.yanked.map(str::to_owned)),
        )
    }

    /// JSON that can be inside a `<script>`: no `<` is in it.
    pub(super) fn text(self, index: &str, find_links: Option<&str>, options: &ChooserOptions) -> String {
        let gpus = options.gpus.iter().map(|gpu| {
            let served_by: Vec<String> = gpu.served_by.iter().map(|name| canonical_name(name)).collect();
            json!({"n": gpu.target, "p": gpu.product, "t": served_by})
        });
        let changed = |all: &[ChangedVersion]| -> Vec<Value> {
            all.iter().map(|one| json!([one.project, one.version, one.files])).collect()
        };
        let changes = options.changes.as_ref().map(|changes| {
            json!({
                "since": changes.since,
                "added": changed(&changes.added),
                "removed": changed(&changes.removed),
                "withdrawn": changed(&changes.withdrawn),
            })
        });
        let needs = self
            .needs
            .values
            .iter()
            .map(|text| serde_json::from_str::<Value>(text).unwrap_or_else(|_| json!({"e": [], "r": []})));
        let document = json!({
            "index": index,
            "findLinks": find_links,
            "gpus": gpus.collect::<Vec<Value>>(),
            "changes": changes,
            "versions": self.versions.values,
            "tags": self.tags.values,
            "sets": self.sets.values,
            "needs": needs.collect::<Vec<Value>>(),
            "rocm": self.rocm.values,
            "pythons": self.pythons.values,
            "reasons": self.reasons.values,
            "rows": self.rows.values,
            "projects": self.projects,
        });
        document.to_string().replace('<', "\\u003c")
    }
}

/// The ROCm that a file is for: what it pins, or what its version says (`2.9.1+rocm7.2`).
fn rocm_of(project: &str, file: &OfferedFile) -> Option<String> {
    if let Some(rocm) = &file.rocm {
        return Some(rocm.clone());
    }
    if project == "rocm" || project.starts_with("rocm-sdk") || project == "rocm-profiler" {
        return Some(file.version.to_string());
    }
    let version = file.version.to_string();
    let (_, local) = version.split_once('+')?;
    let (_, rocm) = local.split_once("rocm")?;
    rocm.starts_with(|first: char| first.is_ascii_digit()).then(|| rocm.to_owned())
}
