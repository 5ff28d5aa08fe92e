//! Input: missing cells, sets of GPU targets, and labels of machines. Output: a GitHub Actions job
//! for each cell, in stages. The wheels that a job installs are built in an earlier stage.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use rocwheel_progress::Failure;
use rocwheel_recipe::Book;
use rocwheel_recipe::evaluate;
use rocwheel_recipe::matrix::{CellStatus, FrameworkTable, Matrix, MatrixRow, Origin, Point};
use rocwheel_recipe::plan::all_before;
use rocwheel_recipe::{Cell, ChosenBy, Platform};

/// Default machine for Windows. It has Visual Studio 2022, which builds torch.
const WINDOWS: &str = "windows-2022";
/// Folder for sources and builds on Windows, where a command line is limited to 32767 characters.
const WINDOWS_WORK: &str = "C:/b";

/// GPU targets that are built together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuTargetSet {
    /// The set as the user wrote it, such as `gfx110X-all`.
    pub text: String,
    pub names: Vec<String>,
}

impl GpuTargetSet {
    fn is_called(&self, word: &str) -> bool {
        self.text == word || self.names == [word]
    }
}

/// Labels of the machines (`runs-on`): one label, or a list of labels that a machine must all have.
#[derive(Debug, Clone, Default)]
pub struct RunnerLabels {
    /// Label for cells on Linux that no entry of `labels` fits.
    pub default: Option<Value>,
    /// Labels by the properties of a cell: its GPU targets, backend or system, or several of these
    /// words separated by spaces (`windows gfx1151`). Labels for Windows have the word `windows`.
    pub labels: BTreeMap<String, Value>,
}

impl RunnerLabels {
    /// The label with the most specific words that fit a cell. GPU targets are more specific than
    /// the backend, and the backend more than the system.
    fn of(&self, point: &Point, targets: Option<&GpuTargetSet>) -> Option<Value> {
        let of_system = self.labels.iter().filter(|(words, _)| {
            point.platform == Platform::Linux || words.split_whitespace().any(|word| word == "windows")
        });
        let fitting = of_system.filter_map(|(words, label)| {
            let weights = words.split_whitespace().map(|word| match word {
                _ if targets.is_some_and(|targets| targets.is_called(word)) => Some(4),
                _ if point.backend == word => Some(2),
                _ => (point.platform.name() == word).then_some(1),
            });
            Some((weights.sum::<Option<u32>>()?, label))
        });
        let best = fitting.max_by_key(|(sum, _)| *sum).map(|(_, label)| label.clone());
        best.or_else(|| match point.platform {
            Platform::Linux => self.default.clone(),
            Platform::Windows => Some(json!(WINDOWS)),
        })
    }

    /// Words in the labels that are not a backend, a system or a set of GPU targets.
    pub fn unknown(&self, book: &Book, targets: &[GpuTargetSet]) -> Vec<String> {
        let words = self.labels.keys().flat_map(|words| words.split_whitespace());
        let unknown = words.filter(|word| {
            word.parse::<Platform>().is_err()
                && !book.entries().any(|entry| entry.recipe.backends.iter().any(|backend| backend == word))
                && !targets.iter().any(|set| set.is_called(word))
        });
        unknown.map(str::to_owned).collect()
    }
}

#[derive(Debug)]
pub struct JobSources<'a> {
    pub table: &'a FrameworkTable,
    pub book: &'a Book,
    /// All cells. The wheels of existing cells are installed.
    pub matrix: &'a Matrix,
    /// Every cell with GPU code is built once for each of these sets. Empty: each build chooses its
    /// targets.
    pub targets: &'a [GpuTargetSet],
    pub runners: &'a RunnerLabels,
}

/// Jobs of GitHub Actions, in stages.
#[derive(Debug)]
pub struct StagedJobs {
    /// Jobs of a stage need nothing from the same or a later stage.
    pub stages: Vec<Vec<Value>>,
    /// Cells that cannot be built for a set of GPU targets, each with the reason.
    pub left_out: Vec<String>,
}

struct Staged {
    stage: usize,
    /// Indices of its row and of its set of GPU targets; the jobs of a stage are sorted by them.
    at: (usize, usize),
    job: Value,
}

impl StagedJobs {
    /// Divides cells into stages.
    pub fn new(rows: &[(&MatrixRow, Option<Origin>)], sources: &JobSources<'_>) -> Result<StagedJobs, Failure> {
        let mut names: Vec<String> = sources.matrix.rows.iter().map(|row| row.point.recipe.clone()).collect();
        names.sort();
        names.dedup();
        let order = sources.book.order(&names)?;
        let order: Vec<String> = order.into_iter().map(|entry| entry.recipe.name.clone()).collect();
        let mut made = StagedJobs { stages: Vec::new(), left_out: Vec::new() };
        // Jobs by the names of their artifacts.
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

    pub fn count(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    pub fn has(&self, platform: Platform) -> bool {
        self.stages.iter().flatten().any(|job| job["platform"] == platform.name())
    }

    /// All jobs in one stage. Each build finds its own inputs.
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

/// The wheels that a job installs before it builds.
struct Needs {
    jobs: Vec<String>,
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

    /// The reason why a cell is not built for these GPU targets; `None`: it is built.
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
            Err(error @ rocwheel_recipe::Error::Targets { .. }) => Some(error.to_string()),
            _ => None,
        }
    }

    /// The wheels that a cell takes from recipes built before its own: for the same system, ROCm,
    /// Python and torch. A result for any Python is built against nothing.
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
            ("platform".to_owned(), json!(point.platform)),
            ("recipe".to_owned(), json!(point.recipe)),
            ("rocm".to_owned(), json!(point.rocm)),
            ("sdk".to_owned(), json!(self.needs_sdk(point))),
            ("version".to_owned(), json!(point.version)),
        ]);
        // Braces around a single name would be part of it.
        let pattern = match &needs.jobs[..] {
            [] => None,
            [one] => Some(json!(format!("wheel-{one}"))),
            several => Some(json!(format!("wheel-{{{}}}", several.join(",")))),
        };
        let optional = [
            ("torch", point.torch.as_ref().map(|torch| json!(torch))),
            ("python", point.python.map(|python| json!(python.to_string()))),
            ("targets", targets.map(|targets| json!(targets.text))),
            ("runner", self.runners.of(point, targets)),
            ("work", (point.platform == Platform::Windows).then(|| json!(WINDOWS_WORK))),
            ("with", (!needs.files.is_empty()).then(|| json!(needs.files.join(" ")))),
            ("needs", (!needs.jobs.is_empty()).then(|| json!(needs.jobs.join(" ")))),
            ("pattern", pattern),
        ];
        let origin = origin.map(Origin::option).map(|(name, value)| (name, Some(json!(value))));
        let given = optional.into_iter().chain(origin);
        values.extend(given.filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Value::Object(values)
    }
}

/// Name of a cell's artifacts, without the prefix `wheel-`.
fn artifact_name(point: &Point, targets: Option<&GpuTargetSet>) -> String {
    let parts = [
        Some(point.recipe.clone()),
        Some(point.version.clone()),
        Some(point.backend.clone()),
        Some(format!("rocm{}", point.rocm)),
        point.torch.as_ref().map(|torch| format!("torch{torch}")),
        point.python.map(|python| format!("py{python}")),
        (point.platform == Platform::Windows).then(|| point.platform.name().to_owned()),
        targets.map(|targets| targets.text.clone()),
    ];
    let name: Vec<String> = parts.into_iter().flatten().collect();
    // Not all characters are allowed in names of artifacts (`actions/upload-artifact`, "Inputs").
    name.join("-").replace(|character: char| !character.is_ascii_alphanumeric() && !"._-+".contains(character), "_")
}
