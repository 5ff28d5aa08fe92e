//! Input: tests of any kind (pytest, gtest, ctest, scripts, PyTorch's own runner), lists and GPUs.
//! Output: a folder with the events of the run, and its sum.
//!
//! Tests run in processes of their own under a supervisor, so a test that crashes or hangs costs
//! itself and its time limit. What did not run is `not_run`, which is never a pass.

use std::collections::BTreeMap;
use std::path::Path;

use rocwheel_progress::{Failure, Reporter, Unit};
use rocwheel_report::outcome::{TestAttempt, TestOutcome, TestRunFacts, WholeCollection};
use serde::Serialize;

use crate::driver::{Collection, CollectionRequest, FailedCollection, TestDriver};
use crate::engine::Engine;
use crate::lists::{ListKind, ListRemark, ListRow, ListSetting, ListVerdict, ListedTest, judge};
use crate::recorder::{RunRecorder, RunSummary};
use crate::shard::part;
use crate::worker::{SuiteLimits, TestWorker};

pub struct SuiteRequest<'a> {
    pub driver: &'a dyn TestDriver,
    /// What is written in the first line; `shard` and `shards` choose the part that runs.
    pub facts: TestRunFacts,
    pub output: &'a Path,
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
    pub scratch: &'a Path,
    /// The present time in RFC 3339.
    pub now: &'a dyn Fn() -> String,
}

/// Runs a suite.
///
/// What was tested before an error or an interruption is in the folder of the run.
pub fn run_suite(request: SuiteRequest<'_>, reporter: &dyn Reporter) -> Result<RunSummary, Failure> {
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
    let all = collection.all_ids();
    if all.is_empty() {
        recorder.problem("no test was collected");
    }
    let mut verdict = judge(request.rows, &all, request.setting);
    let all = if request.only_skipped { only_skipped(all, &mut verdict) } else { all };
    if request.only_skipped && all.is_empty() {
        recorder.problem("the lists skip none of the collected tests, so `--only-skipped` has nothing to run");
    }
    let own = part(&all, request.durations, facts.shard, facts.shards);
    let remarks = std::mem::take(&mut verdict.remarks);
    recorder.quarantine(verdict.quarantined());
    recorder.collected(&own, Some(WholeCollection::of(&all, collection.folder.clone())));
    let to_run = settle(&own, &collection, &verdict.tests, &recorder);
    let engine = Engine::new(request.driver, &recorder, &verdict.tests, &request.limits, (request.scratch, reporter));
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
pub fn preview_suite(request: &SuiteRequest<'_>, reporter: &dyn Reporter) -> Result<SuitePreview, Failure> {
    let collection = request.driver.collect(request.scratch, reporter)?;
    let all = collection.all_ids();
    let mut verdict = judge(request.rows, &all, request.setting);
    let all = if request.only_skipped { only_skipped(all, &mut verdict) } else { all };
    let own = part(&all, request.durations, request.facts.shard, request.facts.shards);
    let failed = collection.failed.into_iter().map(|failed| (failed.id, failed.message));
    let unusable: BTreeMap<String, String> =
        failed.chain(collection.not_run).filter(|(id, _)| own.contains(id)).collect();
    let by_themselves: BTreeMap<String, String> = collection.skipped.into_iter().collect();
    let mut deselected = BTreeMap::new();
    for id in &own {
        let listed = verdict.tests.get(id).filter(|listed| listed.kind == ListKind::Skip);
        if let Some(reason) = listed.map(|listed| &listed.reason).or_else(|| by_themselves.get(id)) {
            deselected.insert(id.clone(), reason.clone());
        }
    }
    let run = own.iter().filter(|id| !deselected.contains_key(*id) && !unusable.contains_key(*id)).cloned().collect();
    Ok(SuitePreview { run, deselected, unusable, remarks: verdict.remarks })
}

/// The tests that the lists skip, without the lists' verdict.
fn only_skipped(all: Vec<String>, verdict: &mut ListVerdict) -> Vec<String> {
    let listed = std::mem::take(&mut verdict.tests);
    all.into_iter().filter(|id| listed.get(id).is_some_and(|listed| listed.kind == ListKind::Skip)).collect()
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
            recorder.attempt(TestAttempt::not_run(id, reason));
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
        recorder.attempt(TestAttempt { outcome, output, ..TestAttempt::not_run(id, &message) });
    }
    to_run
}
