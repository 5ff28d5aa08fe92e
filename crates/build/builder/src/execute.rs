//! Input: a job and a place. Output: the job's wheel or tarball in the folder of outputs, checked
//! and audited, or the reason for the failure.
//!
//! A job has its own folder with its sources, its Python environment and a log for each stage.
//! Finished stages are recorded: a stopped job continues where it was, and a finished job does not
//! run again.

mod actions;
mod after;
mod check;
mod collect;
mod compiler;
mod context;
mod counted_output;
mod environment;
mod facts;
mod folder;
mod install;
mod installed;
mod installer;
mod provenance;
mod requirements;
mod rocm_index;
mod tarball;
mod user_environment;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use context::is_on;
pub use rocwheel_output::LastLook;
use rocwheel_progress::{Exit, Failure, Reporter, Unit, suggestion};
use rocwheel_wheel::WheelName;
use serde::{Deserialize, Serialize};

use crate::error;
use crate::preflight::{self, Estimated, Machine};
use crate::python::Search;
use crate::slurm::Submitted;
use context::Context;
use folder::Folder;
use rocwheel_process::ProcessEnd;
use rocwheel_recipe::plan::PlanFolder;
use rocwheel_recipe::surroundings::Surroundings;
use rocwheel_recipe::{BuildMode, ChosenBy, PythonVersion, Repair};
use rocwheel_recipe::{BuiltFile, InputWheel, Job, Rocm};
use rocwheel_recipe::{Check, JobStep, Pythons};
pub use user_environment::UserEnvironment;

#[derive(Debug, Clone)]
pub struct JobPlace {
    /// Folder of outputs; absolute path.
    pub output: PathBuf,
    /// Folder that holds the folders of the jobs; absolute path.
    pub work: PathBuf,
    /// The caller's environment. Little of it reaches the steps.
    pub surroundings: Surroundings,
    /// Maximum number of parallel compilers.
    pub jobs: u16,
    /// When to stop; a later run continues.
    pub deadline: Option<Instant>,
    /// Path of this program, which steps and checks may run.
    pub program: PathBuf,
    /// Path of uv, which makes environments and installs faster than Python itself.
    pub uv: Option<PathBuf>,
    /// The interpreter; `None`: one of the job's version is searched for.
    pub interpreter: Option<PathBuf>,
    /// The user's environment that `--develop` installs into; `None`: the job's own.
    pub into: Option<PathBuf>,
    /// What remains of the job's environment and copies when it is done.
    pub leftovers: Leftovers,
    /// How to treat an output file of the same name that is not an earlier result.
    pub existing: ExistingOutput,
    pub last_look: LastLook,
    /// The machine's resources, if they are to be checked before anything begins.
    pub machine: Option<Machine>,
}

/// What remains when a job is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftovers {
    /// Only the logs.
    Remove,
    /// All files.
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingOutput {
    /// It stays, and the job fails.
    Refuse,
    Replace,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StageSelection {
    /// All stages that are not done.
    #[default]
    Rest,
    /// This stage, and those before it that are not done.
    Only(String),
    /// This stage and all after it, even if they are done.
    From(String),
}

/// Receives events while jobs are made and run.
pub trait Listener {
    /// Receives progress and warnings, and reports the user's wish to stop.
    fn reporter(&self) -> &dyn Reporter;
    /// A message that is not a warning.
    fn note(&self, _text: &str) {}
    /// A message for users who want to know more (`-v`).
    fn detail(&self, _text: &str) {}
    /// Options that make this program print the same messages in a container as here: `-v`.
    fn talk(&self) -> &'static [&'static str] {
        &[]
    }
    /// A job failed; other jobs continue.
    fn failed(&self, _error: Failure) {}
    /// Slurm has accepted tasks for `cells` cells of a plan.
    fn submitted(&self, _folder: &PlanFolder, _submitted: &Submitted, _cells: usize) {}
    /// A stage begins and writes to `log`.
    fn begins(&self, _title: &str, _stage: &str, _log: &Path) {}
    /// A stage has ended.
    fn done(&self, _title: &str, _stage: &str, _took: Duration) {}
    /// The number of files to compile is known.
    fn estimated(&self, _title: &str, _estimated: &Estimated) {}
    /// The audit has `count` remarks that are not errors.
    fn remarks(&self, _title: &str, _count: usize) {}
}

/// The outcome of a job that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "status")]
pub enum JobOutcome {
    /// This run built it.
    Built {
        /// The output files, relative to the folder of outputs.
        outputs: Vec<BuiltFile>,
        /// Duration of this run in seconds.
        seconds: f64,
    },
    /// An earlier run has built it.
    Unchanged {
        /// The output files, relative to the folder of outputs.
        outputs: Vec<BuiltFile>,
    },
    /// The environment with the sources installed in place is ready (`--develop`).
    Ready { environment: PathBuf },
    /// The selected stages are done, but not all (`--only`).
    Partly { stage: String },
    /// The time limit was reached; another run continues.
    Stopped { stage: String },
}

impl JobOutcome {
    /// [`Exit::Partial`] if another run has to continue.
    pub fn exit(&self) -> Exit {
        if matches!(self, JobOutcome::Stopped { .. }) { Exit::Partial } else { Exit::Done }
    }

    /// The wheels that were made, as inputs of other jobs. `output` is the folder of outputs.
    pub(crate) fn wheels(&self, output: &Path) -> Vec<InputWheel> {
        let (JobOutcome::Built { outputs, .. } | JobOutcome::Unchanged { outputs }) = self else { return Vec::new() };
        let wheels = outputs.iter().filter(|made| WheelName::is_wheel(&made.path));
        wheels.map(|made| InputWheel { path: output.join(&made.path), sha256: made.sha256.clone() }).collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Stage<'a> {
    Sources,
    Environment,
    Estimate,
    InstallRocm,
    Compiler,
    InstallWith,
    Step(&'a JobStep),
    Collect,
    Repair(Repair),
    Split,
    InstallResult,
    Check(&'a Check, Option<PythonVersion>),
    Provenance,
    Publish,
}

impl Stage<'_> {
    fn name(self) -> String {
        match self {
            Stage::Sources => "sources".into(),
            Stage::Environment => "environment".into(),
            Stage::Estimate => "estimate".into(),
            Stage::InstallRocm => "install-rocm".into(),
            Stage::Compiler => "compiler".into(),
            Stage::InstallWith => "install-with".into(),
            Stage::Step(step) => step.name.clone(),
            Stage::Collect => "collect".into(),
            Stage::Repair(_) => "repair".into(),
            Stage::Split => "split".into(),
            Stage::InstallResult => "install-result".into(),
            Stage::Check(check, None) => format!("check-{}", check.name),
            Stage::Check(check, Some(python)) => format!("check-{}-py{python}", check.name),
            Stage::Provenance => "provenance".into(),
            Stage::Publish => "publish".into(),
        }
    }
}

fn stages(job: &Job) -> Vec<Stage<'_>> {
    let recipe = &job.recipe;
    let mut stages = vec![Stage::Sources, Stage::Environment];
    if recipe.estimate.is_some() {
        stages.push(Stage::Estimate);
    }
    if matches!(job.rocm, Rocm::Index { .. } | Rocm::FindLinks { .. }) {
        stages.push(Stage::InstallRocm);
    }
    if recipe.sdk && !recipe.targets.names.is_empty() {
        stages.push(Stage::Compiler);
    }
    if !job.with.is_empty() {
        stages.push(Stage::InstallWith);
    }
    stages.extend(recipe.steps.iter().map(Stage::Step));
    let is_wheel = recipe.output.wheel.is_some() && recipe.cell.mode == BuildMode::Wheel;
    if recipe.cell.mode == BuildMode::Wheel {
        stages.push(Stage::Collect);
    }
    if is_wheel && recipe.output.repair() != Repair::None {
        stages.push(Stage::Repair(recipe.output.repair()));
    }
    // Without GPU code there is nothing to split off.
    if is_wheel && recipe.output.is_split() && recipe.targets.chosen_by != ChosenBy::Nobody {
        stages.push(Stage::Split);
    }
    if is_wheel && recipe.checks.iter().any(|check| !check.fresh) {
        stages.push(Stage::InstallResult);
    }
    for check in &recipe.checks {
        if !check.fresh {
            stages.push(Stage::Check(check, None));
        } else if is_wheel {
            stages.push(Stage::Check(check, None));
            let others = job.try_on.iter().filter(|_| recipe.python == Pythons::Any);
            stages.extend(others.map(|python| Stage::Check(check, Some(*python))));
        }
    }
    if recipe.cell.mode == BuildMode::Wheel {
        stages.extend([Stage::Provenance, Stage::Publish]);
    }
    stages
}

/// Names of the stages of a job, in order: the values of `--only` and `--from`.
pub fn stage_names(job: &Job) -> Vec<String> {
    stages(job).into_iter().map(Stage::name).collect()
}

/// The default Python of a build: that of `interpreter`, otherwise the first `python3` that is
/// found.
pub fn default_python(place: &JobPlace, reporter: &dyn Reporter) -> Result<PythonVersion, Failure> {
    let search = Search { environment: &place.surroundings, uv: place.uv.as_deref() };
    let found = match &place.interpreter {
        Some(path) => search.ask(path, reporter)?,
        None => Some(search.find(None, reporter)?),
    };
    let found = found.ok_or_else(|| error::no_python("3", &[]))?;
    Ok(found.version.parse()?)
}

/// Runs the stages of a job that are not done.
/// The error of a failed stage has its last lines and the likely cause. Another run with the same
/// job is an error too.
pub fn run(
    job: &Job,
    place: &JobPlace,
    selection: &StageSelection,
    listener: &dyn Listener,
    reporter: &dyn Reporter,
) -> Result<JobOutcome, Failure> {
    let began = Instant::now();
    let stages = stages(job);
    let (first_again, last) = bounds(job, selection)?;
    let mut folder = Folder::open(job, place)?;
    let _tree = install::own_tree(job)?;
    if *selection == StageSelection::Rest
        && let Some(outputs) = folder.finished(place)
    {
        return Ok(JobOutcome::Unchanged { outputs });
    }
    // Only the steps after `configure` compile, which takes the space.
    let compiles = stages.iter().position(|stage| stage.name() == "configure").is_none_or(|at| last > at);
    if let Some(machine) = place.machine.as_ref().filter(|_| compiles) {
        machine.check(&job.recipe, folder.path())?;
    }
    folder.forget(stages[first_again..].iter().map(|stage| stage.name()))?;
    let mut steps = stages[..=last].iter().filter(|stage| matches!(stage, Stage::Step(_)));
    if compiles
        && steps.any(|step| !folder.is_done(&step.name()))
        && let Some(expected) = preflight::expected(&job.recipe, place.jobs)
    {
        listener.note(&format!("{}: {expected}", job.title()));
    }
    let context = Context::new(job, place, folder.path().to_owned(), reporter);
    if place.machine.is_some() {
        context.check_requirements()?;
    }
    let title = job.title();
    let running = reporter.stage(&format!("Building {title}"), None, Unit::Items);
    let ended = walk(&stages[..=last], &mut folder, &context, listener);
    drop(running);
    if last >= stages.iter().position(|stage| matches!(stage, Stage::Step(_))).unwrap_or(usize::MAX) {
        context.finish(stages.len());
    }
    if let Some(stage) = ended? {
        return Ok(JobOutcome::Stopped { stage });
    }
    if last + 1 < stages.len() {
        return Ok(JobOutcome::Partly { stage: stages[last].name() });
    }
    if job.recipe.cell.mode == BuildMode::Develop {
        return Ok(JobOutcome::Ready { environment: context.venv() });
    }
    let outputs = folder.outputs().to_vec();
    if place.leftovers == Leftovers::Remove {
        folder.tidy()?;
    }
    Ok(JobOutcome::Built { outputs, seconds: began.elapsed().as_secs_f64() })
}

/// The first stage that runs again even if it is done, and the last stage to run.
fn bounds(job: &Job, selection: &StageSelection) -> Result<(usize, usize), Failure> {
    let names = stage_names(job);
    let end = names.len() - 1;
    let (StageSelection::Only(name) | StageSelection::From(name)) = selection else { return Ok((names.len(), end)) };
    let at = names.iter().position(|other| other == name).ok_or_else(|| rocwheel_recipe::Error::Unknown {
        what: "step",
        name: name.clone(),
        place: format!(" of {}", job.title()),
        hint: suggestion(name, names.iter().map(String::as_str)),
    })?;
    Ok((at, if matches!(selection, StageSelection::Only(_)) { at } else { end }))
}

/// Runs the stages that are not done. Returns the stage in which the time limit was reached, if
/// any.
fn walk(
    stages: &[Stage<'_>],
    folder: &mut Folder,
    context: &Context<'_>,
    listener: &dyn Listener,
) -> Result<Option<String>, Failure> {
    let title = context.job.title();
    for (number, stage) in stages.iter().enumerate() {
        let name = stage.name();
        if folder.is_done(&name) {
            continue;
        }
        context.reporter.check()?;
        if context.is_late() {
            return Ok(Some(name));
        }
        let began = Instant::now();
        let mut log = folder.log(number, &name)?;
        listener.begins(&title, &name, log.path());
        // The number of steps says nothing about the time they take, so only the current step and
        // its running time are shown.
        let step = format!("{title}: {name} (step {} of {})", number + 1, stages.len());
        let running = context.reporter.stage(&step, None, Unit::Items);
        let ended = match *stage {
            Stage::Sources => context.sources(&mut log),
            Stage::Environment => context.make_environment(&mut log),
            Stage::Estimate => context.estimate(&mut log).map(|estimated| {
                listener.estimated(&title, &estimated);
                None
            }),
            Stage::InstallRocm => context.install_rocm(&mut log),
            Stage::Compiler => context.check_compiler(&mut log),
            Stage::InstallWith => context.install_with(&mut log),
            Stage::Step(step) => context.step(step, &mut log),
            Stage::Collect => context.collect(folder).map(|()| None),
            Stage::Repair(way) => context.repair(way, folder, &mut log).map(|()| None),
            Stage::Split => context.split(folder, &mut log).map(|()| None),
            Stage::InstallResult => context.install_result(folder.outputs(), &mut log),
            Stage::Check(check, python) => context.check(check, python, folder.outputs(), &mut log),
            Stage::Provenance => context.provenance(folder).map(|()| None),
            Stage::Publish => context.publish(folder, listener).map(|()| None),
        };
        drop(running);
        if ended? == Some(ProcessEnd::Deadline) {
            return Ok(Some(name));
        }
        folder.mark(&name, began.elapsed())?;
        listener.done(&title, &name, began.elapsed());
    }
    Ok(None)
}
