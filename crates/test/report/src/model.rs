//! A merged report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_progress::counted;
use serde::Serialize;

use crate::ReportOptions;
use crate::outcome::{OutsideCause, TestAttempt, TestOutcome, TestRunFacts};
use crate::program_end::RunnerEnd;

/// Groups of failures that [`TestReport::failure_groups`] returns.
const MOST_GROUPS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportForm {
    /// `events.jsonl` of a run of ours.
    Events,
    /// XML that was begun by JUnit.
    Junit,
    /// JSON of GoogleTest.
    Gtest,
    /// XML of another form: ctest's dashboard, Boost, Robot Framework, .NET.
    Xml,
    /// JSON or JSON Lines of another framework.
    Json,
    /// The Test Anything Protocol.
    Tap,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedRun {
    pub path: PathBuf,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
    pub form: ReportForm,
    /// The first line of our runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<TestRunFacts>,
    /// Start in RFC 3339, or without a zone as some tools write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// End in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<String>,
    /// The file has its end, and all tests that it announces.
    pub complete: bool,
    /// Attempts in the file.
    pub attempts: u64,
    /// Bytes of output that were not kept.
    pub cut: u64,
}

/// One try at a test.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedAttempt {
    /// Index in [`TestReport::runs`].
    pub run: u32,
    /// Number of the try in its run, from 1.
    pub attempt: u32,
    pub outcome: TestOutcome,
    /// Duration in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// The reason in a few lines, at most 2,000 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Traceback and prints, at most 64 KiB. Those of failures are kept first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The GPU, as the facts of the run name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// What outside of the test made it fail. Such a failure does not make a test flaky.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<OutsideCause>,
    /// A list had the test in quarantine, so a pass of it does not count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
}

/// A test with all tries at it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportedTest {
    pub suite: Arc<str>,
    /// Identity within the suite.
    pub id: String,
    /// The outcome that counts: that of the last try, and the worst one of several jobs.
    pub outcome: TestOutcome,
    /// It failed first, and passed at last.
    pub flaky: bool,
    /// The tries, in the order in which they were made where that is known.
    pub attempts: Vec<ReportedAttempt>,
}

/// Something that is wrong with the reports rather than with a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportProblem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// One sentence.
    pub message: String,
    /// Results are missing, so the report is incomplete.
    pub loses_results: bool,
}

impl ReportProblem {
    /// One because of which results are missing.
    pub(crate) fn losing(path: Option<&Path>, message: String) -> ReportProblem {
        ReportProblem { path: path.map(Path::to_owned), message, loses_results: true }
    }
}

/// The parts of a suite that were expected, and those that there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShardCoverage {
    pub suite: String,
    /// GPU targets that it ran on, as far as the runs say them: each has to have all parts.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub targets: BTreeSet<String>,
    pub expected: u32,
    /// The parts with a complete report, from 1.
    pub seen: BTreeSet<u32>,
}

impl ShardCoverage {
    /// The parts without a complete report.
    pub fn missing(&self) -> Vec<u32> {
        (1..=self.expected).filter(|shard| !self.seen.contains(shard)).collect()
    }

    pub(crate) fn words(&self) -> String {
        format!("`{}`{}", self.suite, on_targets(&self.targets))
    }
}

/// ` on gfx942`; nothing without targets.
fn on_targets(targets: &BTreeSet<String>) -> String {
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    if names.is_empty() { String::new() } else { format!(" on {}", names.join(" and ")) }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct OutcomeCounts {
    /// All tests: the sum of the outcomes.
    pub total: u64,
    /// Outcomes that occur, by their words.
    #[serde(flatten)]
    pub by_outcome: BTreeMap<TestOutcome, u64>,
    /// Tests that failed first and passed at last; they are among `passed`.
    pub flaky: u64,
}

impl OutcomeCounts {
    pub fn of(&self, outcome: TestOutcome) -> u64 {
        self.by_outcome.get(&outcome).copied().unwrap_or_default()
    }

    fn add(&mut self, test: &ReportedTest) {
        self.total += 1;
        *self.by_outcome.entry(test.outcome).or_default() += 1;
        self.flaky += u64::from(test.flaky);
    }
}

/// The result of all reports together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportResult {
    /// Every test that was collected did what it should.
    Passed,
    /// At least one test did not, or the runner says so.
    Failed,
    /// No test failed, and results are missing.
    Incomplete,
}

impl ReportResult {
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// Failures with the same message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    /// The message of one of them.
    pub message: String,
    pub tests: u64,
    pub example: String,
}

/// All reports, merged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestReport {
    /// The files that were read, in the order in which they were found.
    pub runs: Vec<ReportedRun>,
    /// Every test once, sorted by suite and identity.
    pub tests: Vec<ReportedTest>,
    /// Faults of the reports themselves, such as files that end in the middle.
    pub problems: Vec<ReportProblem>,
    /// Suites that were divided.
    pub shards: Vec<ShardCoverage>,
    /// How the program ended that wrote the reports.
    pub runner: RunnerEnd,
}

/// What identifies a part of a suite: name, targets, shard and number of shards.
fn part_of(facts: &TestRunFacts) -> (&str, BTreeSet<String>, u32, u32) {
    (&facts.suite, facts.targets(), facts.shard, facts.shards)
}

/// What the reports themselves say of their runner: only runs of ours say how they ended.
pub(crate) fn runner_of(runs: &[ReportedRun]) -> RunnerEnd {
    let are_ours = !runs.is_empty() && runs.iter().all(|run| run.form == ReportForm::Events);
    if are_ours { RunnerEnd::Supervised } else { RunnerEnd::Unknown }
}

impl TestReport {
    pub fn counts(&self) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        self.tests.iter().for_each(|test| counts.add(test));
        counts
    }

    pub fn counts_by_suite(&self) -> BTreeMap<Arc<str>, OutcomeCounts> {
        let mut suites: BTreeMap<Arc<str>, OutcomeCounts> = BTreeMap::new();
        for test in &self.tests {
            suites.entry(Arc::clone(&test.suite)).or_default().add(test);
        }
        suites
    }

    /// Reasons for which results are missing; empty if all are there.
    pub fn gaps(&self, options: &ReportOptions) -> Vec<String> {
        let mut gaps: Vec<String> = self
            .problems
            .iter()
            .filter(|problem| problem.loses_results)
            .map(|problem| problem.message.clone())
            .collect();
        let counts = self.counts();
        if self.tests.iter().any(ReportedTest::counts_as_pass) {
            gaps.extend(self.targets_without_pass().iter().map(|targets| {
                let place = if targets.is_empty() { " without a GPU".to_owned() } else { on_targets(targets) };
                format!("no test passed{place}")
            }));
        } else {
            gaps.push("no test passed".to_owned());
        }
        let unknown = counts.of(TestOutcome::Unknown);
        if unknown > 0 {
            let verb = if unknown == 1 { "has" } else { "have" };
            gaps.push(format!("{} {verb} no outcome that is known{}", counted(unknown, "test"), self.first_unknown()));
        }
        let not_run = counts.of(TestOutcome::NotRun);
        if not_run > 0 && !options.allow_not_run {
            let verb = if not_run == 1 { "was" } else { "were" };
            gaps.push(format!("{} {verb} not run", counted(not_run, "test")));
        }
        gaps
    }

    /// The first test without an outcome that is known, and why.
    fn first_unknown(&self) -> String {
        let first = self.tests.iter().find(|test| test.outcome == TestOutcome::Unknown);
        first.map_or_else(String::new, |test| match test.last_message().and_then(|message| message.lines().next()) {
            Some(message) => format!(", such as `{}`: {message}", test.id),
            None => format!(", such as `{}`", test.id),
        })
    }

    /// Options and names that left tests of the suites out, of runs whose part no complete run
    /// without them has.
    pub fn selections(&self) -> BTreeSet<String> {
        let complete = self.runs.iter().filter(|run| run.complete).filter_map(|run| run.facts.as_ref());
        let whole: BTreeSet<_> = complete.filter(|facts| facts.selection.is_empty()).map(part_of).collect();
        let facts = self.runs.iter().filter_map(|run| run.facts.as_ref());
        let selected = facts.filter(|facts| !facts.selection.is_empty() && !whole.contains(&part_of(facts)));
        selected.map(|facts| facts.selection.join(" ")).collect()
    }

    /// A sentence about what was selected.
    pub fn selection_note(&self) -> Option<String> {
        let words: Vec<String> = self.selections().into_iter().collect();
        (!words.is_empty()).then(|| format!("only a selection of the tests ran: {}", words.join("; ")))
    }

    /// GPU targets with runs of which no test passed, if runs were on several.
    fn targets_without_pass(&self) -> Vec<BTreeSet<String>> {
        let targets_of: Vec<Option<BTreeSet<String>>> =
            self.runs.iter().map(|run| run.facts.as_ref().map(TestRunFacts::targets)).collect();
        let mut open: BTreeSet<&BTreeSet<String>> = targets_of.iter().flatten().collect();
        if open.len() < 2 {
            return Vec::new();
        }
        for attempt in self.tests.iter().flat_map(|test| &test.attempts).filter(|attempt| attempt.counts_as_pass()) {
            if let Some(Some(targets)) = targets_of.get(attempt.run as usize) {
                open.remove(targets);
            }
        }
        open.into_iter().cloned().collect()
    }

    /// The tests that decide for a failure.
    pub fn failures<'a>(&'a self, options: &'a ReportOptions) -> impl Iterator<Item = &'a ReportedTest> {
        self.tests.iter().filter(|test| test.outcome.is_bad() || (test.flaky && options.fail_on_flaky))
    }

    pub fn result(&self, options: &ReportOptions) -> ReportResult {
        if self.runner.is_bad() || self.failures(options).next().is_some() {
            ReportResult::Failed
        } else if self.gaps(options).is_empty() {
            ReportResult::Passed
        } else {
            ReportResult::Incomplete
        }
    }

    /// Notes how the runner ended. If it ended badly and no test failed, what went wrong is in no
    /// report.
    pub fn set_runner(&mut self, runner: RunnerEnd, options: &ReportOptions) {
        if runner == RunnerEnd::Unknown {
            return;
        }
        self.runner = runner;
        if runner.is_bad() && self.failures(options).next().is_none() {
            let message = format!("{}, and no test failed in the reports: they lack what went wrong", runner.words());
            self.problems.push(ReportProblem::losing(None, message));
        }
    }

    /// Failures by their messages, in which numbers do not count; the largest group comes first.
    pub fn failure_groups(&self) -> Vec<FailureGroup> {
        let mut groups: BTreeMap<String, FailureGroup> = BTreeMap::new();
        for test in self.tests.iter().filter(|test| test.outcome.is_bad()) {
            let message = test.last_message().unwrap_or(test.outcome.word());
            let line = message.lines().next().unwrap_or_default();
            let key: String = line.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            let group = groups.entry(key).or_insert_with(|| FailureGroup {
                message: line.to_owned(),
                tests: 0,
                example: test.id.clone(),
            });
            group.tests += 1;
        }
        let mut groups: Vec<FailureGroup> = groups.into_values().collect();
        groups.sort_by(|one, other| other.tests.cmp(&one.tests).then_with(|| one.message.cmp(&other.message)));
        groups.truncate(MOST_GROUPS);
        groups
    }
}

impl ReportedAttempt {
    /// An attempt of the run with the number `run`.
    pub(crate) fn of(run: u32, attempt: TestAttempt) -> ReportedAttempt {
        let TestAttempt { id: _, attempt, outcome, seconds, message, output, gpu, cause, quarantined } = attempt;
        ReportedAttempt { run, attempt, outcome, seconds, message, output, gpu, cause, quarantined }
    }

    fn counts_as_pass(&self) -> bool {
        self.outcome.is_pass() && !self.quarantined
    }
}

impl ReportedTest {
    /// `true` if it passed, and no list says that its pass does not count.
    fn counts_as_pass(&self) -> bool {
        self.outcome.is_pass() && self.attempts.iter().any(ReportedAttempt::counts_as_pass)
    }

    /// The reason of the outcome.
    pub fn last_message(&self) -> Option<&str> {
        self.attempts.iter().rev().find(|attempt| attempt.outcome == self.outcome)?.message.as_deref()
    }

    /// Duration of all tries in seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.attempts.iter().filter_map(|attempt| attempt.seconds).reduce(|sum, seconds| sum + seconds)
    }
}

/// Keeps the beginning and the end of a text that is too long.
pub(crate) fn shorten(text: &mut String, limit: usize) {
    if text.len() <= limit {
        return;
    }
    let begin = text.floor_char_boundary(limit / 2);
    let end = text.ceil_char_boundary(text.len() - limit / 2);
    let dropped = end - begin;
    *text = format!("{}\n[{dropped} bytes]\n{}", &text[..begin], &text[end..]);
}
