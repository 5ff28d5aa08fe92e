//! Input: a merged report. Output: statements about the wheels that were tested: our own verdict,
//! and in-toto's test-result v0.1 for other tools.
//!
//! The subjects are all wheels that were installed, by SHA-256: a wheel with other bytes has no
//! verdict. test-result has no place for what was not run, so a gate reads the verdict.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rocwheel_attest::{InTotoStatement, StatementSubject};
use serde_json::{Value, json};

use crate::outcome::{TestOutcome, TestRunFacts};
use crate::time::moment;
use crate::{ReportError, ReportOptions, ReportResult, ReportedTest, TestReport};

/// The form of the predicate.
pub const VERDICT_TYPE: &str = "https://rocwheel.dev/test-verdict/v1";
/// The form of in-toto's own predicate.
pub const TEST_RESULT_TYPE: &str = "https://in-toto.io/attestation/test-result/v0.1";
/// Outcomes that a verdict always counts, also if there are none.
const COUNTED: [TestOutcome; 12] = [
    TestOutcome::Passed,
    TestOutcome::Failed,
    TestOutcome::Error,
    TestOutcome::Crashed,
    TestOutcome::TimedOut,
    TestOutcome::OutOfMemory,
    TestOutcome::Skipped,
    TestOutcome::Deselected,
    TestOutcome::ExpectedFailure,
    TestOutcome::UnexpectedPass,
    TestOutcome::NotRun,
    TestOutcome::Unknown,
];

#[derive(Debug, Clone, Default)]
pub struct VerdictRequest {
    /// Name of the suite; `None` if the reports have exactly one.
    pub suite: Option<String>,
    /// File name → SHA-256 of wheels that the reports do not name.
    pub wheels: BTreeMap<String, String>,
    /// GPU targets that the reports do not name.
    pub targets: BTreeSet<String>,
    /// Present time in RFC 3339, for reports that do not say when they ended.
    pub now: String,
    /// The ids of all tests are in the verdict, and not only their number and digest.
    pub ids: bool,
    pub rocwheel: String,
}

/// The facts of all runs together.
struct VerdictFacts<'a> {
    suite: String,
    wheels: BTreeMap<String, String>,
    targets: BTreeSet<String>,
    gpus: BTreeMap<String, &'a BTreeMap<String, String>>,
    lists: BTreeMap<String, String>,
    sources: BTreeSet<String>,
}

impl<'a> VerdictFacts<'a> {
    fn of(report: &'a TestReport, request: &VerdictRequest) -> Result<Self, ReportError> {
        let all: Vec<&TestRunFacts> = report.runs.iter().filter_map(|run| run.facts.as_ref()).collect();
        let suites: BTreeSet<&str> = report.tests.iter().map(|test| test.suite.as_ref()).collect();
        let suite = match (&request.suite, suites.len()) {
            (Some(suite), _) => suite.clone(),
            (None, 1) => (*suites.iter().next().unwrap_or(&"")).to_owned(),
            (None, 0) => return Err(refuse("the reports have no test")),
            (None, count) => return Err(refuse(format!("the reports have {count} suites; name one with `--suite`"))),
        };
        let mut wheels = request.wheels.clone();
        for facts in &all {
            for (name, digest) in &facts.wheels {
                if wheels.insert(name.clone(), digest.clone()).is_some_and(|other| other != *digest) {
                    return Err(refuse(format!("the runs tested different files of the name `{name}`")));
                }
            }
        }
        let first = all.iter().find(|facts| !facts.wheels.is_empty());
        if let Some(other) = all.iter().find(|facts| first.is_some_and(|first| first.wheels != facts.wheels)) {
            return Err(refuse(format!("the run `{}` had other wheels than the first one", other.run)));
        }
        if wheels.is_empty() {
            return Err(refuse("no wheel is named, so it would be about nothing"));
        }
        let mut targets = request.targets.clone();
        let mut gpus = BTreeMap::new();
        let mut lists = BTreeMap::new();
        for facts in &all {
            targets.extend(facts.targets());
            for (name, gpu) in &facts.gpus {
                gpus.insert(format!("{}/{name}", facts.machine).trim_start_matches('/').to_owned(), gpu);
            }
            lists.extend(facts.lists.iter().map(|(name, digest)| (name.clone(), digest.clone())));
        }
        let sources = all.iter().filter_map(|facts| facts.source.clone()).collect();
        Ok(Self { suite, wheels, targets, gpus, lists, sources })
    }

    fn subjects(&self) -> Vec<StatementSubject> {
        self.wheels.iter().map(|(name, digest)| StatementSubject::new(name, digest)).collect()
    }
}

fn refuse(reason: impl Into<String>) -> ReportError {
    ReportError::Verdict { reason: reason.into() }
}

/// `true` for a test that in-toto's result warns of.
fn is_warned(test: &ReportedTest) -> bool {
    test.flaky || test.outcome == TestOutcome::UnexpectedPass
}

fn ids<'a>(tests: impl Iterator<Item = &'a ReportedTest>) -> Vec<&'a str> {
    tests.map(|test| test.id.as_str()).collect()
}

/// When the tests began and ended, as far as reports say it: not in the future, and not the other
/// way round.
fn period(report: &TestReport, now: &str) -> (String, String) {
    let started = report.runs.iter().filter_map(|run| moment(run.started.as_deref()?)).min();
    let finished = report.runs.iter().filter_map(|run| moment(run.finished.as_deref()?)).max();
    let (started, finished) = (started.or(finished), finished.and_then(|time| Some(time).max(started)));
    let present = now.parse::<Timestamp>().ok();
    let [started, finished] = [started, finished].map(|time| match (time, present) {
        (Some(time), Some(present)) => time.min(present).to_string(),
        (Some(time), None) => time.to_string(),
        (None, _) => now.to_owned(),
    });
    (started, finished)
}

/// The verdict about the wheels that were tested.
///
/// Fails if the reports are about no wheel, about different ones, or about several suites.
pub fn verdict(
    report: &TestReport,
    options: &ReportOptions,
    request: &VerdictRequest,
) -> Result<InTotoStatement, ReportError> {
    let facts = VerdictFacts::of(report, request)?;
    let counts = report.counts();
    let mut words: BTreeMap<&str, u64> = COUNTED.iter().map(|outcome| (outcome.word(), counts.of(*outcome))).collect();
    words.extend([("total", counts.total), ("flaky", counts.flaky)]);
    let [known_failures, unexpected_passes] = [TestOutcome::ExpectedFailure, TestOutcome::UnexpectedPass]
        .map(|outcome| ids(report.tests.iter().filter(|test| test.outcome == outcome)));
    let (started, finished) = period(report, &request.now);
    let shards: Vec<Value> = report.shards.iter().map(|shard| json!(shard)).collect();
    let reports: Vec<Value> = report
        .runs
        .iter()
        .map(|run| {
            let name = run.path.file_name().map(|name| name.to_string_lossy());
            json!({ "name": name, "digest": { "sha256": run.sha256 }, "complete": run.complete })
        })
        .collect();
    let sources: Vec<&String> = facts.sources.iter().collect();
    let predicate = json!({
        "suite": facts.suite,
        "source": match sources.as_slice() { [] => Value::Null, [one] => json!(one), all => json!(all) },
        "result": report.result(options).word(),
        "targets": facts.targets,
        "selection": report.selections(),
        "gpus": facts.gpus,
        "lists": facts.lists,
        "counts": words,
        "failed": ids(report.failures(options)),
        "known_failures": known_failures,
        "unexpected_passes": unexpected_passes,
        "flaky": ids(report.tests.iter().filter(|test| test.flaky)),
        "not_run_allowed": options.allow_not_run,
        "gaps": report.gaps(options),
        "runner": report.runner,
        "census": report.census(request.ids),
        "shards": shards,
        "started": started,
        "finished": finished,
        "reports": reports,
        "rocwheel": request.rocwheel,
    });
    Ok(InTotoStatement::new(facts.subjects(), VERDICT_TYPE, predicate))
}

/// The same for tools that read in-toto's test-result, which has three lists and no counts. There,
/// an incomplete suite is a failure.
pub fn test_result(
    report: &TestReport,
    options: &ReportOptions,
    request: &VerdictRequest,
) -> Result<InTotoStatement, ReportError> {
    let facts = VerdictFacts::of(report, request)?;
    let failed = ids(report.failures(options));
    let warned = ids(report.tests.iter().filter(|test| is_warned(test)));
    let passed = ids(report.tests.iter().filter(|test| test.outcome == TestOutcome::Passed && !is_warned(test)));
    let result = match report.result(options) {
        ReportResult::Passed if warned.is_empty() => "PASSED",
        ReportResult::Passed => "WARNED",
        ReportResult::Failed | ReportResult::Incomplete => "FAILED",
    };
    let mut configuration: Vec<Value> =
        facts.lists.iter().map(|(name, digest)| json!({ "name": name, "digest": { "sha256": digest } })).collect();
    configuration.push(json!({
        "uri": format!("urn:rocwheel:suite:{}", facts.suite),
        "annotations": { "gpus": facts.gpus, "gaps": report.gaps(options) },
    }));
    let predicate = json!({
        "result": result,
        "configuration": configuration,
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
    });
    Ok(InTotoStatement::new(facts.subjects(), TEST_RESULT_TYPE, predicate))
}
