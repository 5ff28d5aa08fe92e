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
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use super::{ChooserEntry, ChooserOptions, OfferedFile, OfferedProject};

const SECONDS_A_DAY: i64 = 86_400;

/// Numbered values.
#[derive(Clone)]
struct Table<T> {
    numbers: HashMap<T, u32>,
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn number(&mut self, value: &T) -> u32 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        number
    }

    fn optional(&mut self, value: Option<&T>) -> i32 {
        value.map_or(-1, |value| i32::try_from(self.number(value)).unwrap_or(i32::MAX))
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.values.get(usize::try_from(number).ok()?)
    }

    fn get_optional(&self, number: i32) -> Option<&T> {
        self.get(u32::try_from(number).ok()?)
    }
}

impl<T: Serialize> Serialize for Table<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl<'de, T: Clone + Eq + Hash + Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values: Vec<T> = Vec::deserialize(deserializer)?;
        let numbers = values.iter().cloned().zip(0..).collect();
        Ok(Table { numbers, values })
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

/// A row of the page in texts.
pub(super) struct RowTexts {
    version: String,
    tags: Vec<String>,
    needs: String,
    rocm: Option<String>,
    /// The day on which the newest file was published, since 1970.
    day: i32,
    python: String,
    yanked: Option<String>,
}

/// A row: version, set of tags, needs, ROCm, day, Requires-Python, reason for the withdrawal.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Row(u32, u32, u32, i32, i32, u32, i32);

/// The rows of a project, the newest version first.
pub(super) fn rows_of(project: &OfferedProject) -> Vec<RowTexts> {
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
    let rows = shapes.into_iter().map(|(shape, (tags, day))| RowTexts {
        version: shape.version.to_string(),
        tags: tags.into_iter().map(str::to_owned).collect(),
        needs: shape.needs.to_owned(),
        day: i32::try_from(day).unwrap_or(i32::MAX),
        python: shape.python.to_owned(),
        yanked: shape.yanked.map(str::to_owned),
        rocm: shape.rocm,
    });
    rows.collect()
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct PageTables {
    versions: Table<String>,
    tags: Table<String>,
    sets: Table<Vec<u32>>,
    // Records of earlier versions have `needs`, without versions: they are not read.
    #[serde(rename = "requirements")]
    needs: Table<String>,
    rocm: Table<String>,
    pythons: Table<String>,
    reasons: Table<String>,
    rows: Table<Vec<Row>>,
}

impl PageTables {
    /// The number of a list of rows.
    pub(super) fn number(&mut self, rows: &[RowTexts]) -> u32 {
        let rows: Vec<Row> = rows.iter().map(|row| self.row(row)).collect();
        self.rows.number(&rows)
    }

    fn row(&mut self, texts: &RowTexts) -> Row {
        let tags: Vec<u32> = texts.tags.iter().map(|tag| self.tags.number(tag)).collect();
        Row(
            self.versions.number(&texts.version),
            self.sets.number(&tags),
            self.needs.number(&texts.needs),
            self.rocm.optional(texts.rocm.as_ref()),
            texts.day,
            self.pythons.number(&texts.python),
            self.reasons.optional(texts.yanked.as_ref()),
        )
    }

    /// The number of a list of rows that another page has; `None` if it has no such list.
    pub(super) fn number_of(&mut self, other: &PageTables, rows: u32) -> Option<u32> {
        let mut all = Vec::new();
        for Row(version, set, needs, rocm, day, python, reason) in other.rows.get(rows)? {
            let tags: Option<Vec<u32>> =
                other.sets.get(*set)?.iter().map(|tag| Some(self.tags.number(other.tags.get(*tag)?))).collect();
            all.push(Row(
                self.versions.number(other.versions.get(*version)?),
                self.sets.number(&tags?),
                self.needs.number(other.needs.get(*needs)?),
                self.rocm.optional(other.rocm.get_optional(*rocm)),
                *day,
                self.pythons.number(other.pythons.get(*python)?),
                self.reasons.optional(other.reasons.get_optional(*reason)),
            ));
        }
        Some(self.rows.number(&all))
    }

    /// JSON that can be inside a `<script>`: no `<` is in it.
    pub(super) fn text(
        &self,
        projects: &BTreeMap<String, ChooserEntry>,
        index: &str,
        find_links: Option<&str>,
        options: &ChooserOptions,
    ) -> String {
        let projects = projects.iter().map(|(name, entry)| json!([name, entry.rows, entry.status, entry.reason]));
        let gpus = options.gpus.iter().map(|gpu| {
            let served_by: Vec<String> = gpu.served_by.iter().map(|name| canonical_name(name)).collect();
            json!({"n": gpu.target, "p": gpu.product, "t": served_by, "c": gpu.cards})
        });
        let changes = options.changes.as_ref().map(|changes| {
            let [added, removed, withdrawn] = [&changes.added, &changes.removed, &changes.withdrawn]
                .map(|all| all.iter().map(|one| json!([one.project, one.version, one.files])).collect::<Vec<Value>>());
            json!({ "since": changes.since, "added": added, "removed": removed, "withdrawn": withdrawn })
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
            "projects": projects.collect::<Vec<Value>>(),
        });
        document.to_string().replace('<', "\\u003c")
    }
}

/// The ROCm that a file is for: what it pins, or what its version says (`2.9.1+rocm7.2`).
fn rocm_of(project: &str, file: &OfferedFile) -> Option<String> {
    if let Some(rocm) = &file.rocm {
        return Some(rocm.to_string());
    }
    if project == "rocm" || project.starts_with("rocm-sdk") || project == "rocm-profiler" {
        return Some(file.version.to_string());
    }
    let version = file.version.to_string();
    let (_, local) = version.split_once('+')?;
    let (_, rocm) = local.split_once("rocm")?;
    rocm.starts_with(|first: char| first.is_ascii_digit()).then(|| rocm.to_owned())
}
