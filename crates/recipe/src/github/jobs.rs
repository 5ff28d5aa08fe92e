//! Input: cells that are missing, sets of GPU targets and labels of machines. Output: a job of
//! GitHub Actions for each, in stages: what a job installs is built in an earlier stage.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::book::Book;
use crate::cell::{Cell, ChosenBy, Platform};
use crate::error::Error;
use crate::evaluate::evaluate;
use crate::matrix::{CellStatus, FrameworkTable, Matrix, MatrixRow, Origin, Point};
use crate::plan::all_before;

/// Machine for Windows where no label is given: Visual Studio 2022, which torch is built with.
const WINDOWS: &str = "windows-2022";
/// Folder for sources and builds on Windows, where a command line has 32767 characters.
const WINDOWS_WORK: &str = "C:/b";

/// GPU targets that are built for together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuTargetSet {
    /// As it was written, such as `gfx110X-all`.
    pub text: String,
    /// The targets that it means.
    pub names: Vec<String>,
}

impl GpuTargetSet {
    fn is_called(&self, word: &str) -> bool {
        self.text == word || self.names == [word]
    }
}

/// Labels of the machines (`runs-on`): one label, or a list of which a machine has all.
#[derive(Debug, Clone, Default)]
pub struct RunnerLabels {
    /// For Linux, where nothing else is said.
    pub default: Option<Value>,
    /// By what a cell is: its GPU targets, backend or system, or several of these words with blanks
    /// between them (`windows gfx1151`). Labels for Windows have the word `windows`.
    pub labels: BTreeMap<String, Value>,
}

impl RunnerLabels {
    /// The label of the words that say most of a cell. GPU targets say more than the backend, and
    /// that more than the system.
    fn of(&self, point: &Point, targets: Option<&GpuTargetSet>) -> Option<Value> {
        let weight = |word: &str| {
            let weights = [
                (targets.is_some_and(|targets| targets.is_called(word)), 4),
                (point.backend == word, 2),
                (point.platform.to_string() == word, 1),
            ];
            weights.into_iter().find(|(fits, _)| *fits).map(|(_, weight)| weight)
        };
        let is_of_system =
            |words: &str| point.platform == Platform::Linux || words.split_whitespace().any(|word| word == "windows");
        let sum = |words: &str| {
            is_of_system(words).then(|| words.split_whitespace().map(weight).sum::<Option<u32>>()).flatten()
        };
        let fitting = self.labels.iter().filter_map(|(words, label)| Some((sum(words)?, label)));
        let best = fitting.max_by_key(|(sum, _)| *sum).map(|(_, label)| label.clone());
        best.or_else(|| match point.platform {
            Platform::Linux => self.default.clone(),
            Platform::Windows => Some(json!(WINDOWS)),
        })
    }

    /// Words that are no backend, no system and no set of GPU targets.
    pub fn unknown(&self, book: &Book, targets: &[GpuTargetSet]) -> Vec<String> {
        let is_known = |word: &&str| {
            word.parse::<Platform>().is_ok()
                || book.entries().any(|entry| entry.recipe.backends.iter().any(|backend| backend == word))
                || targets.iter().any(|set| set.is_called(word))
        };
        let words = self.labels.keys().flat_map(|words| words.split_whitespace());
        words.filter(|word| !is_known(word)).map(str::to_owned).collect()
    }
}

/// What jobs are made of.
#[derive(Debug)]
pub struct JobSources<'a> {
    /// What belongs together.
    pub table: &'a FrameworkTable,
    /// The recipes.
    pub book: &'a Book,
    /// All cells; of those that exist the wheels are installed.
    pub matrix: &'a Matrix,
    /// Every cell that has code for GPUs is built once for each; none: for what its build chooses.
    pub targets: &'a [GpuTargetSet],
    /// The machines.
    pub runners: &'a RunnerLabels,
}

/// Jobs, in stages.
#[derive(Debug)]
pub struct StagedJobs {
    /// Those of a stage need nothing of the same or a later one.
    pub stages: Vec<Vec<Value>>,
    /// Cells that cannot be built for a set of GPU targets, with the reason.
    pub left_out: Vec<String>,
}

/// A job that has its stage.
struct Staged {
    stage: usize,
    /// Places of its row and of its set of GPU targets, by which the jobs of a stage are sorted.
    at: (usize, usize),
    job: Value,
}

impl StagedJobs {
    /// Divides cells into stages.
    ///
    /// # Errors
    /// Recipes that do not exist.
    pub fn new(rows: &[(&MatrixRow, Option<Origin>)], sources: &JobSources<'_>) -> Result<StagedJobs, Error> {
        let mut names: Vec<String> = sources.matrix.rows.iter().map(|row| row.point.recipe.clone()).collect();
        names.sort();
        names.dedup();
        let order = sources.book.order(&names)?;
        let order: Vec<String> = order.into_iter().map(|entry| entry.recipe.name.clone()).collect();
        let mut made = StagedJobs { stages: Vec::new(), left_out: Vec::new() };
        // By the names of their artifacts.
        let mut staged: BTreeMap<String, Staged> = BTreeMap::new();
        for recipe in &order {
            let before = all_before(sources.book, recipe, &order)?;
            let of_recipe = rows.iter().enumerate().filter(|(_, (row, _))| row.point.recipe == *recipe);
            for (number, (row, origin)) in of_recipe {
                for (set, targets) in sources.sets(&row.point).into_iter().enumerate() {
                    if let Some(reason) = sources.refusal(&row.point, targets) {
                        made.left_out.push(reason);
                        continue;
                    }
                    let needs = sources.needs(&row.point, targets, &before, &staged);
                    let stage = needs.jobs.iter().filter_map(|name| Some(staged.get(name)?.stage + 1)).max();
                    let name = artifact_name(&row.point, targets);
                    let job = sources.job(row, origin.as_ref(), targets, &needs);
                    staged.insert(name, Staged { stage: stage.unwrap_or(0), at: (number, set), job });
                }
            }
        }
        let mut jobs: Vec<Staged> = staged.into_values().collect();
        jobs.sort_by_key(|job| job.at);
        for Staged { stage, job, .. } in jobs {
            made.stages.resize_with(made.stages.len().max(stage + 1), Vec::new);
            made.stages[stage].push(job);
        }
        made.left_out.sort();
        made.left_out.dedup();
        Ok(made)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    /// Whether there are any for a system.
    pub fn has(&self, platform: Platform) -> bool {
        self.stages.iter().flatten().any(|job| job["platform"] == platform.to_string())
    }

    /// All in one stage: each finds by itself what it is built against.
    #[must_use]
    pub fn independent(mut self) -> StagedJobs {
        let mut jobs: Vec<Value> = self.stages.drain(..).flatten().collect();
        for job in jobs.iter_mut().filter_map(Value::as_object_mut) {
            for key in ["needs", "pattern", "with"] {
                job.remove(key);
            }
        }
        self.stages.extend((!jobs.is_empty()).then_some(jobs));
        self
    }
}

/// What a job installs before it builds.
struct Needs {
    /// Jobs whose wheels it takes.
    jobs: Vec<String>,
    /// Wheels that exist.
    files: Vec<String>,
}

impl JobSources<'_> {
    fn needs_sdk(&self, point: &Point) -> bool {
        self.book.get(&point.recipe).is_ok_and(|entry| !entry.recipe.without_sdk.contains(&point.backend))
    }

    /// The sets of GPU targets that a cell is built for.
    fn sets(&self, point: &Point) -> Vec<Option<&GpuTargetSet>> {
        if self.targets.is_empty() || !self.needs_sdk(point) {
            return vec![None];
        }
        self.targets.iter().map(Some).collect()
    }

    /// Why a cell is not built for these GPU targets; `None`: it is.
    fn refusal(&self, point: &Point, targets: Option<&GpuTargetSet>) -> Option<String> {
        let cell = Cell {
            rocm: Some(point.rocm.clone()),
            torch: point.torch.clone(),
            torch_index: Some(self.table.torch_index(point.torch.as_deref(), &point.rocm)),
            version: Some(point.version.clone()),
            backend: Some(point.backend.clone()),
            python: point.python,
            targets: targets?.names.clone(),
            chosen_by: ChosenBy::User,
            ..Cell::new(point.platform)
        };
        match evaluate(self.book.get(&point.recipe).ok()?, self.book, &cell) {
            Err(error @ Error::Targets { .. }) => Some(error.to_string()),
            _ => None,
        }
    }

    /// What a cell takes of recipes that are built before its own: for the same system, ROCm,
    /// Python and torch. What is for any Python is built against nothing.
    fn needs(
        &self,
        point: &Point,
        targets: Option<&GpuTargetSet>,
        before: &[String],
        staged: &BTreeMap<String, Staged>,
    ) -> Needs {
        let mut needs = Needs { jobs: Vec::new(), files: Vec::new() };
        let torch = self.table.torch_of(point);
        for row in &self.matrix.rows {
            let other = &row.point;
            let is_needed = before.contains(&other.recipe)
                && (point.python.is_some() && torch.is_some())
                && (point.platform, &point.rocm, point.python) == (other.platform, &other.rocm, other.python)
                && torch == self.table.torch_of(other);
            if !is_needed {
                continue;
            }
            let name = artifact_name(other, targets.filter(|_| self.needs_sdk(other)));
            match row.status {
                CellStatus::Missing if staged.contains_key(&name) => needs.jobs.push(name),
                CellStatus::Exists => needs.files.extend(row.files.first().cloned()),
                _ => {}
            }
        }
        needs
    }

    fn job(&self, row: &MatrixRow, origin: Option<&Origin>, targets: Option<&GpuTargetSet>, needs: &Needs) -> Value {
        let point = &row.point;
        let mut values = Map::from_iter([
            ("backend".to_owned(), json!(point.backend)),
            ("name".to_owned(), json!(artifact_name(point, targets))),
            ("platform".to_owned(), json!(point.platform.to_string())),
            ("recipe".to_owned(), json!(point.recipe)),
            ("rocm".to_owned(), json!(point.rocm)),
            ("sdk".to_owned(), json!(self.needs_sdk(point))),
            ("version".to_owned(), json!(point.version)),
        ]);
        let mut add = |name: &str, value: Option<Value>| values.extend(value.map(|value| (name.to_owned(), value)));
        add("torch", point.torch.as_ref().map(|torch| json!(torch)));
        add("python", point.python.map(|python| json!(python.to_string())));
        add("targets", targets.map(|targets| json!(targets.text)));
        add("runner", self.runners.of(point, targets));
        add("work", (point.platform == Platform::Windows).then(|| json!(WINDOWS_WORK)));
        add("with", (!needs.files.is_empty()).then(|| json!(needs.files.join(" "))));
        add("needs", (!needs.jobs.is_empty()).then(|| json!(needs.jobs.join(" "))));
        // Braces around one name would be part of it.
        add(
            "pattern",
            match &needs.jobs[..] {
                [] => None,
                [one] => Some(json!(format!("wheel-{one}"))),
                several => Some(json!(format!("wheel-{{{}}}", several.join(",")))),
            },
        );
        if let Some((name, value)) = origin.map(Origin::option) {
            add(name, Some(json!(value)));
        }
        Value::Object(values)
    }
}

/// What the artifacts of a cell are called, behind `wheel-`.
fn artifact_name(point: &Point, targets: Option<&GpuTargetSet>) -> String {
    let parts = [
        Some(point.recipe.clone()),
        Some(point.version.clone()),
        Some(point.backend.clone()),
        Some(format!("rocm{}", point.rocm)),
        point.torch.as_ref().map(|torch| format!("torch{torch}")),
        point.python.map(|python| format!("py{python}")),
        (point.platform == Platform::Windows).then(|| point.platform.to_string()),
        targets.map(|targets| targets.text.clone()),
    ];
    let name: Vec<String> = parts.into_iter().flatten().collect();
    // Names of artifacts may not hold everything (`actions/upload-artifact`, "Inputs").
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "._-+".contains(character);
    name.join("-").replace(|character| !is_plain(character), "_")
}
