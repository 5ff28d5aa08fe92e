//! Input: tests of any kind (pytest, gtest, ctest, scripts, PyTorch's own runner), lists and GPUs.
//! Output: a folder with the events of the run, and its sum.
//!
//! Tests run in processes of their own under a supervisor, so a test that crashes or hangs costs
//! itself and its time limit. What did not run is `not_run`, which is never a pass.

mod ctest;
mod driver;
mod engine;
mod gpus;
mod gtest;
mod pytest;
mod python;
mod recorder;
mod run_test;
mod script;
mod shards;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::{Exit, Hint, Interrupted, Reporter, Unit};
use serde::Serialize;

pub use ctest::CtestDriver;
pub use driver::{
    Collection, CollectionRequest, FailedCollection, StreamEvent, TestDriver, TestStream, WaitingProcess,
};
pub use gpus::{GpuTable, find_gpus, workers_for};
pub use gtest::GtestDriver;
pub use pytest::{PytestDriver, PytestSetup};
pub use python::{InstalledTorch, PythonFacts, check_source, probe_python, source_of};
pub use recorder::{EVENTS, RunRecorder, RunSummary, not_run};
pub use run_test::{RunTest, run_with_run_test};
pub use script::ScriptDriver;

use crate::lists::{ListKind, ListRemark, ListRow, ListSetting, ListVerdict, ListedTest, judge};
use crate::outcome::{TestAttempt, TestOutcome, TestRunFacts};
use crate::supervisor::{MOST_PROCESSES, ProcessLimits};

/// How long things may take, and how often they are tried.
#[derive(Debug, Clone)]
pub struct SuiteLimits {
    /// Longest time of one test.
    pub timeout: Duration,
    /// Longest time from the start of a process to its first test: imports and collection.
    pub collect_timeout: Duration,
    /// Further attempts of a test that fails, each in a fresh process.
    pub retries: u32,
    /// What a test process and its children may use.
    pub process: ProcessLimits,
}

impl Default for SuiteLimits {
    fn default() -> Self {
        let (timeout, collect_timeout) = (Duration::from_mins(10), Duration::from_mins(10));
        let process = ProcessLimits { processes: MOST_PROCESSES, memory: None };
        Self { timeout, collect_timeout, retries: 0, process }
    }
}

/// One of the processes that test at the same time.
#[derive(Debug, Clone, Default)]
pub struct TestWorker {
    /// The GPU that it sees, as the facts of the run name it.
    pub gpu: Option<String>,
    /// What hides the other GPUs: `HIP_VISIBLE_DEVICES`.
    pub variables: BTreeMap<String, String>,
}

/// A run.
pub struct SuiteRequest<'a> {
    /// The kind of tests.
    pub driver: &'a dyn TestDriver,
    /// What is written in the first line; `shard` and `shards` choose the part that runs.
    pub facts: TestRunFacts,
    /// Folder in which the run gets its own folder.
    pub output: &'a Path,
    /// Known failures.
    pub rows: &'a [ListRow],
    /// What decides which of them count.
    pub setting: &'a ListSetting,
    /// Runs what the lists skip, and nothing else.
    pub only_skipped: bool,
    /// Seconds of each test in earlier runs, for even shards.
    pub durations: &'a BTreeMap<String, f64>,
    /// Time and attempts.
    pub limits: SuiteLimits,
    /// At least one.
    pub workers: &'a [TestWorker],
    /// Folder for temporary files.
    pub scratch: &'a Path,
    /// The present time in RFC 3339.
    pub now: &'a dyn Fn() -> String,
}

/// Runs a suite.
///
/// # Errors
/// Tests that cannot be listed at all, a folder that cannot be written, and an interruption. What
/// was tested until then is in the folder of the run.
pub fn run_suite(request: SuiteRequest<'_>, reporter: &dyn Reporter) -> Result<RunSummary, SuiteError> {
    let mut facts = request.facts;
    let recorder = RunRecorder::create(request.output, &mut facts)?;
    let (collection, waiting) = {
        let _stage = reporter.stage("Collecting tests", None, Unit::Items);
        let worker = request.workers.first().cloned().unwrap_or_default();
        let (scratch, limits) = (request.scratch, &request.limits);
        match request.driver.open(&CollectionRequest { scratch, worker: &worker, limits, reporter }) {
            Ok(opened) => opened,
            Err(error) => {
                recorder.problem(rocwheel_progress::with_causes(&error));
                recorder.finish(&(request.now)(), Vec::new());
                return Err(error);
            }
        }
    };
    let all = all_ids(&collection);
    if all.is_empty() {
        recorder.problem("no test was collected");
    }
    let mut verdict = judge(request.rows, &all, request.setting);
    let all = if request.only_skipped { only_skipped(all, &mut verdict) } else { all };
    if request.only_skipped && all.is_empty() {
        recorder.problem("the lists skip none of the collected tests, so `--only-skipped` has nothing to run");
    }
    let own = shards::part(&all, request.durations, facts.shard, facts.shards);
    let remarks = std::mem::take(&mut verdict.remarks);
    recorder.quarantine(quarantined(&verdict.tests));
    recorder.collected(&own, Some(shards::whole(&all, collection.folder.clone())));
    let to_run = settle(&own, &collection, &verdict.tests, &recorder);
    let engine =
        engine::Engine::new(request.driver, &recorder, &verdict.tests, &request.limits, (request.scratch, reporter));
    let stage = reporter.stage("Testing", Some(to_run.len() as u64), Unit::Items);
    let answer = engine.run(&to_run, request.workers, waiting);
    drop(stage);
    // A run that was cut off has no last line.
    answer?;
    Ok(recorder.finish(&(request.now)(), remarks))
}

/// What a run would do.
#[derive(Debug, Serialize)]
pub struct SuitePreview {
    /// The tests of the shard that would run, in order.
    pub run: Vec<String>,
    /// The tests of the shard that a list skips, with the reason.
    pub deselected: BTreeMap<String, String>,
    /// Files that cannot be imported, and tests that cannot run here, with the reason.
    pub unusable: BTreeMap<String, String>,
    /// Rows of lists that should change.
    pub remarks: Vec<ListRemark>,
}

/// Collects the tests and runs none.
///
/// # Errors
/// Tests that cannot be listed at all, and an interruption.
pub fn preview_suite(request: &SuiteRequest<'_>, reporter: &dyn Reporter) -> Result<SuitePreview, SuiteError> {
    let collection = request.driver.collect(request.scratch, reporter)?;
    let all = all_ids(&collection);
    let mut verdict = judge(request.rows, &all, request.setting);
    let all = if request.only_skipped { only_skipped(all, &mut verdict) } else { all };
    let own = shards::part(&all, request.durations, request.facts.shard, request.facts.shards);
    let failed = collection.failed.into_iter().map(|failed| (failed.id, failed.message));
    let unusable: BTreeMap<String, String> =
        failed.chain(collection.not_run).filter(|(id, _)| own.contains(id)).collect();
    let by_themselves: BTreeMap<String, String> = collection.skipped.into_iter().collect();
    let skip_reason = |id: &String| {
        let listed = verdict.tests.get(id).filter(|listed| listed.kind == ListKind::Skip);
        listed.map(|listed| listed.reason.clone()).or_else(|| by_themselves.get(id).cloned())
    };
    let deselected: BTreeMap<String, String> =
        own.iter().filter_map(|id| Some((id.clone(), skip_reason(id)?))).collect();
    let run = own.iter().filter(|id| !deselected.contains_key(*id) && !unusable.contains_key(*id)).cloned().collect();
    Ok(SuitePreview { run, deselected, unusable, remarks: verdict.remarks })
}

/// Every id once, also of what cannot run.
fn all_ids(collection: &Collection) -> Vec<String> {
    let failed = collection.failed.iter().map(|failed| &failed.id);
    let other = failed.chain(collection.not_run.iter().chain(&collection.skipped).map(|(id, _)| id));
    let mut seen = BTreeSet::new();
    collection.ids.iter().chain(other).filter(|id| seen.insert((*id).clone())).cloned().collect()
}

/// The tests in quarantine.
fn quarantined(tests: &BTreeMap<String, ListedTest>) -> impl Iterator<Item = String> {
    tests.iter().filter(|(_, test)| test.kind == ListKind::Quarantine).map(|(id, _)| id.clone())
}

/// The tests that the lists skip, without the lists' verdict.
fn only_skipped(all: Vec<String>, verdict: &mut ListVerdict) -> Vec<String> {
    let is_skipped = |id: &String| verdict.tests.get(id).is_some_and(|listed| listed.kind == ListKind::Skip);
    let chosen: Vec<String> = all.into_iter().filter(is_skipped).collect();
    verdict.tests.clear();
    chosen
}

/// Records the tests that need no process, and returns the others.
fn settle(
    own: &[String],
    collection: &Collection,
    listed: &BTreeMap<String, ListedTest>,
    recorder: &RunRecorder,
) -> Vec<String> {
    let failed: BTreeMap<&str, &FailedCollection> =
        collection.failed.iter().map(|failed| (failed.id.as_str(), failed)).collect();
    let absent: BTreeMap<&str, &str> =
        collection.not_run.iter().map(|(id, reason)| (id.as_str(), reason.as_str())).collect();
    let skipped: BTreeMap<&str, &str> =
        collection.skipped.iter().map(|(id, reason)| (id.as_str(), reason.as_str())).collect();
    let mut to_run = Vec::new();
    for id in own {
        if let Some(reason) = absent.get(id.as_str()) {
            recorder.attempt(not_run(id, reason));
            continue;
        }
        let deselected = listed.get(id).filter(|listed| listed.kind == ListKind::Skip);
        let (outcome, message, output) = match (failed.get(id.as_str()), deselected) {
            (_, Some(listed)) => (TestOutcome::Deselected, listed.reason.clone(), None),
            (Some(failed), None) => (TestOutcome::Error, failed.message.clone(), failed.output.clone()),
            (None, None) => {
                let Some(reason) = skipped.get(id.as_str()) else {
                    to_run.push(id.clone());
                    continue;
                };
                (TestOutcome::Skipped, (*reason).to_owned(), None)
            }
        };
        recorder.attempt(TestAttempt { outcome, output, ..not_run(id, &message) });
    }
    to_run
}

/// Errors of suites.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// A file or a process of the run.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// There is no pytest.
    #[error("`{}` has no pytest", python.display())]
    NoPytest {
        /// The Python.
        python: PathBuf,
    },
    /// pytest or Python is older than what the plugin needs.
    #[error("`{}` has {found}, which is too old", python.display())]
    Old {
        /// The Python.
        python: PathBuf,
        /// `pytest 6.2` or `Python 3.9`.
        found: String,
    },
    /// The Python does not answer.
    #[error("`{}` does not work as a Python: {said}", python.display())]
    NoPython {
        /// The Python.
        python: PathBuf,
        /// The end of what it printed.
        said: String,
    },
    /// The runner refuses a path, or the options behind `--`.
    #[error("{runner} refuses its command line: {said}")]
    Options {
        /// `pytest`.
        runner: &'static str,
        /// What it printed.
        said: String,
    },
    /// An option behind `--` that would take the tests out of our hands.
    #[error("`{option}` cannot be passed to pytest: {reason}")]
    Forbidden {
        /// The option.
        option: String,
        /// What it would break.
        reason: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// The tests cannot be listed.
    #[error("the tests cannot be listed: {reason}")]
    Collect {
        /// What happened.
        reason: String,
    },
    /// There are no sample computations of a package.
    #[error("there are no tests of `{name}`")]
    UnknownPackage {
        /// The name that was given.
        name: String,
        /// The packages that have some.
        known: Vec<String>,
    },
    /// The tests are of another commit than the installed package.
    #[error("the tests in `{}` are of commit {found}, and the installed torch is of {installed}", folder.display())]
    OtherCommit {
        /// The checkout.
        folder: PathBuf,
        /// Its commit.
        found: String,
        /// The commit in `torch/version.py`.
        installed: String,
    },
    /// The commit of the tests or of the package is not known.
    #[error("it is not known whether the tests in `{}` belong to the installed torch: {reason}", folder.display())]
    UnknownCommit {
        /// The checkout.
        folder: PathBuf,
        /// What is missing.
        reason: String,
    },
}

impl Hint for SuiteError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Io(_) | Self::Interrupted(_) => return None,
            Self::NoPytest { python } => {
                format!(
                    "install it: `{} -m pip install pytest`",
                    rocwheel_progress::shell_word(&python.to_string_lossy())
                )
            }
            Self::Old { .. } => "pytest 7 and Python 3.10 are the oldest that work".to_owned(),
            Self::NoPython { .. } => "name a Python with `--python`, such as `.venv/bin/python`".to_owned(),
            Self::Options { .. } => "correct the paths, or the options behind `--`".to_owned(),
            Self::Forbidden { instead, .. } => format!("use `{instead}`"),
            Self::Collect { .. } => "run the tests without rocwheel once to see more".to_owned(),
            Self::UnknownPackage { known, .. } => format!("name some of `{}`", known.join("`, `")),
            Self::OtherCommit { installed, .. } => {
                format!("check out {installed}, or give `--allow-version-mismatch`, which is recorded in the run")
            }
            Self::UnknownCommit { .. } => {
                "use a git checkout of the commit in `torch/version.py`, or give `--allow-version-mismatch`".to_owned()
            }
        })
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Options { .. } | Self::Forbidden { .. } | Self::UnknownPackage { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
