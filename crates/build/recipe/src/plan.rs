//! Input: the jobs of many cells, and their dependencies. Output: a plan, which is a folder with a
//! file for each job. The outcome of each job is recorded there, wherever and however often it
//! runs.
//!
//! ```text
//! plan.toml           what is planned, in order
//! jobs/ID.json        a job: `rocwheel build --job` runs it alone
//! state/ID.json       its attempts; state/ID.lock is held by the one that runs
//! ```
//! No process owns the folder. Any program that sees it, such as another run or a node of a
//! cluster, can continue the plan. A killed run leaves nothing that the next one has to clean up.

mod folder;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rocwheel_progress::Reporter;
use rocwheel_wheel::WheelName;
use serde::{Deserialize, Serialize};

use crate::book::Book;
use crate::cell::BuildMode;
use crate::error::Error;
use crate::evaluated::{Evaluated, Pythons};
use crate::job::{BuiltFile, InputWheel, Job, JobSource, Rocm};
use crate::matrix::ExistingWheels;
use crate::recipe::WorkOn;
pub use folder::{PlanFolder, Seen, State, Taken};
pub use record::{Attempt, End, Ended, Record};

/// Version of the format of plan.toml.
const SCHEMA: u32 = 1;
/// Seconds in a minute.
const MINUTE: u64 = 60;
/// Bytes of a decimal GB, the unit of memory in recipes, and of the MiB that schedulers use.
const GB: f64 = 1e9;
const MIB: f64 = 1_048_576.0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    pub schema: u32,
    /// Folder of outputs; absolute path.
    pub output: PathBuf,
    /// Folder that holds the folders of the jobs; absolute path.
    pub work: PathBuf,
    /// The cells; each comes after those that it waits for.
    #[serde(rename = "cell")]
    pub cells: Vec<PlannedCell>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PlannedCell {
    /// `GROUP.COLUMN`. Cells of a group differ only in their column, and cells of a column belong
    /// together.
    pub id: String,
    /// A name for messages.
    pub title: String,
    pub recipe: String,
    /// Key of the job before the wheels of other cells are added to it.
    pub key: String,
    /// Identifiers of the cells that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// `true` if its result is installed for the cells that wait for it.
    pub installs: bool,
    /// Subfolder of the folder of outputs. It keeps results of several target sets apart, which
    /// have the same name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub folder: String,
    /// The reason why it is not built; `None`: it is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<SkipReason>,
    pub requests: Requests,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// The tables exclude it, for this reason.
    Excluded(String),
    /// These files of it exist already.
    Exists(Vec<String>),
}

/// Resources to request from a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Requests {
    pub cpus: u16,
    /// Memory in MiB.
    pub memory: u64,
    /// Time in minutes; `None`: the scheduler's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minutes: Option<u64>,
}

impl Requests {
    pub fn of(recipe: &Evaluated) -> Requests {
        let cost = &recipe.cost;
        let cpus = cost.cpus.unwrap_or(1);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "memory is a small positive number of GB"
        )]
        let memory = (cost.memory_per_job.max(0.1) * f64::from(cpus) * GB / MIB).ceil() as u64;
        Requests { cpus, memory, minutes: cost.time.map(|seconds| seconds.div_ceil(MINUTE)) }
    }
}

/// One combination of the axes before anything else is known about it. Cells of several recipes
/// that belong together share it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Combination {
    /// Number of the combination, counted over all.
    pub column: usize,
    /// The set of GPU targets as a folder name, if there are several sets; otherwise empty.
    pub folder: String,
}

/// A job that is to be added to a plan.
#[derive(Debug, Clone)]
pub struct WantedJob {
    pub job: Job,
    /// Its combination of the axes.
    pub combination: Combination,
    /// The reason why the tables exclude it; `None`: they do not.
    pub excluded: Option<String>,
    /// Recipes of the plan that are built before it.
    pub after: Vec<String>,
}

/// Makes a plan from jobs that are added in build order.
pub struct Planner<'a> {
    cells: Vec<PlannedCell>,
    jobs: Vec<Job>,
    /// Digest of everything that distinguishes a job → its index.
    identities: BTreeMap<[u8; 32], usize>,
    /// Recipe and column → backend and index of the cell that is built there.
    places: BTreeMap<(String, usize), Vec<(String, usize)>>,
    groups: Vec<(String, String, Requests)>,
    existing: Option<&'a ExistingWheels>,
    reporter: &'a dyn Reporter,
}

impl<'a> Planner<'a> {
    /// `existing`: wheels that exist already; their cells are not built.
    pub fn new(existing: Option<&'a ExistingWheels>, reporter: &'a dyn Reporter) -> Planner<'a> {
        Planner {
            cells: Vec::new(),
            jobs: Vec::new(),
            identities: BTreeMap::new(),
            places: BTreeMap::new(),
            groups: Vec::new(),
            existing,
            reporter,
        }
    }

    /// Adds a job. A job that differs from an earlier one only in values that do not affect it is
    /// the same cell.
    pub fn add(&mut self, wanted: WantedJob) -> Result<(), Error> {
        let WantedJob { mut job, combination, excluded, after } = wanted;
        let recipe = &job.recipe;
        let backend = recipe.cell.backend.clone().unwrap_or_default();
        let folder = if recipe.targets.names.is_empty() { String::new() } else { combination.folder.clone() };
        let place = (recipe.recipe.clone(), combination.column);
        // Existing wheels change from run to run, but the key and so the plan stay the same.
        let key = job.key();
        let mut left_out = excluded.map(SkipReason::Excluded);
        let mut needs = Vec::new();
        for before in &after {
            let Some(at) = self.before(before, combination.column, &backend) else { continue };
            let cell = &self.cells[at];
            match &cell.left_out {
                None => needs.push(cell.id.clone()),
                Some(SkipReason::Excluded(reason)) => {
                    left_out.get_or_insert_with(|| SkipReason::Excluded(format!("{before} is not built: {reason}")));
                }
                Some(SkipReason::Exists(_)) if cell.installs => job.with.extend(self.found(at)?),
                Some(SkipReason::Exists(_)) => {}
            }
        }
        let identity = identity(&job, &folder, &needs)?;
        if let Some(&there) = self.identities.get(&identity) {
            // A combination that is excluded for one torch may be allowed for another, and the
            // wheel is the same.
            if let (Some(SkipReason::Excluded(_)), None) = (&self.cells[there].left_out, &left_out) {
                self.cells[there].left_out = None;
            }
            self.places.entry(place).or_default().push((backend, there));
            return Ok(());
        }
        if left_out.is_none()
            && let Some(existing) = self.existing
        {
            let files = existing.of(&job.recipe, &folder);
            left_out = (!files.is_empty()).then_some(SkipReason::Exists(files));
        }
        let requests = Requests::of(&job.recipe);
        let group = (job.recipe.recipe.clone(), backend.clone(), requests);
        let group = self.groups.iter().position(|known| *known == group).unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        self.identities.insert(identity, self.cells.len());
        self.places.entry(place).or_default().push((backend, self.cells.len()));
        self.cells.push(PlannedCell {
            id: format!("{group}.{}", combination.column),
            title: if folder.is_empty() { job.title() } else { format!("{}-{folder}", job.title()) },
            recipe: job.recipe.recipe.clone(),
            key,
            needs,
            installs: job.recipe.output.install,
            folder,
            left_out,
            requests,
        });
        self.jobs.push(job);
        Ok(())
    }

    /// The cell of a recipe in a column: the one with the same backend, otherwise the first.
    fn before(&self, recipe: &str, column: usize, backend: &str) -> Option<usize> {
        let cells = self.places.get(&(recipe.to_owned(), column))?;
        cells.iter().find(|(other, _)| other == backend).or(cells.first()).map(|(_, at)| *at)
    }

    /// The existing wheels of a cell.
    fn found(&self, at: usize) -> Result<Vec<InputWheel>, Error> {
        let (Some(existing), Some(SkipReason::Exists(files))) = (self.existing, &self.cells[at].left_out) else {
            return Ok(Vec::new());
        };
        existing.inputs(files, self.reporter)
    }

    pub fn len(&self) -> usize {
        self.cells.len()
    }

    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Gives each of several cells that share a checkout a copy of it. Otherwise the second would
    /// take the first's leftovers for its own, and a cluster builds them at the same time.
    fn separate(&mut self) -> Result<(), Error> {
        let mut shared: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
        for (at, job) in self.jobs.iter().enumerate().filter(|(at, _)| self.cells[*at].left_out.is_none()) {
            if let (JobSource::Checkout { path, .. }, WorkOn::Checkout) = (&job.source, job.recipe.source.work_on) {
                shared.entry(path.clone()).or_default().push(at);
            }
        }
        for (path, cells) in shared.into_iter().filter(|(_, cells)| cells.len() > 1) {
            for at in cells {
                if self.jobs[at].recipe.cell.mode == BuildMode::Develop {
                    let reason = format!("`--develop` installs `{}` in place, which can be done once", path.display());
                    return Err(Error::request_with(reason, "name one value of each axis"));
                }
                self.jobs[at].recipe.source.work_on = WorkOn::Copy;
            }
        }
        Ok(())
    }

    /// Fails if two cells would make the same file.
    pub fn finish(mut self, output: PathBuf, work: PathBuf) -> Result<(Plan, Vec<Job>), Error> {
        self.separate()?;
        let mut names: BTreeMap<String, &PlannedCell> = BTreeMap::new();
        for (cell, job) in self.cells.iter().zip(&self.jobs) {
            if matches!(cell.left_out, Some(SkipReason::Excluded(_))) {
                continue;
            }
            let Some(name) = name(job, &cell.folder) else { continue };
            if let Some(other) = names.insert(name, cell) {
                return Err(Error::request_with(
                    format!("{} and {} would make the same file", other.title, cell.title),
                    "remove `--version-suffix`, so that versions say what they were built against, or build them into two folders",
                ));
            }
        }
        Ok((Plan { schema: SCHEMA, output, work, cells: self.cells }, self.jobs))
    }
}

/// Digest of everything that decides the result of a job, without values that its recipe does not
/// use.
fn identity(job: &Job, folder: &str, needs: &[String]) -> Result<[u8; 32], Error> {
    let mut recipe = serde_json::to_value(&job.recipe).map_err(Error::unwritable("job"))?;
    let cell = recipe.as_object_mut().and_then(|fields| fields.remove("cell")).unwrap_or_default();
    let text = recipe.to_string();
    // These values decide what is only determined while the job runs.
    let mut decides =
        vec!["python", "release", "mode", "clean", "label", "build-number", "system-packages", "compiler-cache"];
    if text.contains("${torch") {
        decides.extend(["torch", "torch-index"]);
    }
    if text.contains("${rocm") || text.contains("${label") || job.recipe.sdk {
        decides.push("rocm");
    }
    let cell: Vec<&serde_json::Value> = decides.iter().map(|name| &cell[name]).collect();
    let rocm = Some(&job.rocm).filter(|_| job.recipe.sdk);
    let with: Vec<&str> = job.with.iter().map(|input| input.sha256.as_str()).collect();
    let rest = (cell, rocm, &job.source, folder, needs, with);
    let rest = serde_json::to_value(rest).map_err(Error::unwritable("job"))?.to_string();
    Ok(blake3::Hasher::new().update(text.as_bytes()).update(rest.as_bytes()).finalize().into())
}

/// Path of the file that a job makes, if it can be predicted.
fn name(job: &Job, folder: &str) -> Option<String> {
    let recipe = &job.recipe;
    if let Some(tarball) = &recipe.output.tarball {
        return Some(format!("{folder}/{}", tarball.path)).filter(|path| !path.contains("${"));
    }
    let mut version = recipe.version.clone()?;
    if version.contains("${label}")
        && let Rocm::Prefix { version: rocm, .. } = &job.rocm
    {
        version = version.replace("${label}", &format!("rocm{rocm}"));
    }
    if let Some(known) = &recipe.cell.version {
        version = version.replace("${source.version}", known);
    }
    if version.contains("${") {
        return None;
    }
    let python = match recipe.python {
        Pythons::Any => "py3".to_owned(),
        Pythons::Each => recipe.cell.python.map(|python| python.to_string())?,
    };
    Some(format!("{folder}/{}-{version}-{python}", recipe.distribution.as_deref()?))
}

impl Plan {
    /// Identifies the plan: 16 hexadecimal digits of a digest over its content.
    pub fn key(&self) -> String {
        let mut digest = blake3::Hasher::new();
        for cell in &self.cells {
            let excluded = if let Some(SkipReason::Excluded(reason)) = &cell.left_out { reason } else { "" };
            for text in [&cell.id, &cell.key, &cell.folder, excluded] {
                digest.update(text.as_bytes()).update(&[0]);
            }
        }
        digest.finalize().to_hex()[..16].to_owned()
    }

    pub fn to_build(&self) -> impl Iterator<Item = &PlannedCell> {
        self.cells.iter().filter(|cell| cell.left_out.is_none())
    }

    /// Looks a cell up by its identifier or title.
    pub fn cell(&self, id: &str) -> Result<&PlannedCell, Error> {
        let by_id = self.cells.iter().find(|cell| cell.id == id);
        by_id.or_else(|| self.cells.iter().find(|cell| cell.title == id)).ok_or_else(|| Error::Unknown {
            what: "cell",
            name: id.to_owned(),
            place: " in the plan".into(),
            hint: match rocwheel_progress::nearest(id, self.cells.iter().map(|cell| cell.title.as_str())) {
                Some(title) => format!("did you mean `{title}`?"),
                None => "`rocwheel build status DIR` lists them".into(),
            },
        })
    }
}

impl PlannedCell {
    /// The group and the column in the identifier; `None` if it has another form.
    pub fn place(&self) -> Option<(usize, usize)> {
        let (group, column) = self.id.split_once('.')?;
        Some((group.parse().ok()?, column.parse().ok()?))
    }

    /// The wheels among its outputs, as inputs of other jobs.
    pub fn inputs(&self, plan: &Plan, made: &[BuiltFile]) -> Vec<InputWheel> {
        let folder = plan.output.join(&self.folder);
        let wheels = made.iter().filter(|made| WheelName::is_wheel(&made.path));
        wheels.map(|made| InputWheel { path: folder.join(&made.path), sha256: made.sha256.clone() }).collect()
    }
}

/// Recipes that are built before `recipe`, directly or indirectly. Only those in `order` are
/// returned, in its order.
pub fn all_before(book: &Book, recipe: &str, order: &[String]) -> Result<Vec<String>, Error> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut open = vec![recipe];
    while let Some(name) = open.pop() {
        for before in &book.get(name)?.recipe.after {
            // The search also passes through recipes that are not built now.
            if found.insert(before) {
                open.push(before);
            }
        }
    }
    Ok(order.iter().filter(|name| found.contains(name.as_str())).cloned().collect())
}

/// Folder name for a set of GPU targets. Results of several sets have the same names and need
/// separate folders.
pub fn folder_of(targets: &[String]) -> String {
    const LONGEST: usize = 60;
    let name = targets.join("-").replace(':', "");
    if name.len() <= LONGEST {
        return name;
    }
    // Sets of many targets have the same beginning, so a digest distinguishes them.
    let digest = blake3::hash(name.as_bytes()).to_hex();
    format!("{}-and-{}-more-{}", targets[0].replace(':', ""), targets.len() - 1, &digest[..8])
}
