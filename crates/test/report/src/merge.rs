//! Input: reports, one after the other. Output: every test once, with all tries at it.
//!
//! Identity and try are kept apart: a test is named by suite and id, and a try by its run and
//! number. The same file given twice counts once, and so does the same try of one run in two files.
//! Only tries of one job undo each other; of several jobs the worst outcome counts.

mod foreign;
mod reruns;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rocwheel_content::{hexadecimal, open_regular, sha256_of};
use rocwheel_progress::counted;

use crate::cause::{cause_of, causes_in};
use crate::discover::{NamedShard, ReportSource};
use crate::job::{TestJob, TriesOf};
use crate::judge::{JudgedRun, judge, rank};
use crate::junit_case::{CaseAttempt, JunitCase};
use crate::junit_dialect::{JunitDialect, dotted_folder};
use crate::model::{
    ReportForm, ReportProblem, ReportedAttempt, ReportedRun, ReportedTest, TestReport, runner_of, shorten,
};
use crate::outcome::{OutsideCause, TestAttempt, TestEvent, TestOutcome, TestRunFacts, WholeCollection};
use crate::shards::ShardTable;
use crate::time::moment;
use crate::{ReportError, ReportOptions, events, junit};

/// Tests of one report; more are not read.
const MOST_TESTS: usize = 3_000_000;
/// Problems of one kind that are kept of one file.
const MOST_PROBLEMS: usize = 20;
/// Bytes of outputs that are kept: of tests that failed, and of others.
const OUTPUT_OF_FAILURES: usize = 64 << 20;
const OUTPUT_OF_OTHERS: usize = 8 << 20;
/// Characters of a message, and bytes of an output.
const LONGEST_MESSAGE: usize = 2000;
const LONGEST_OUTPUT: usize = 64 << 10;

pub(crate) struct Merger {
    options: ReportOptions,
    suites: Vec<Arc<str>>,
    places: HashMap<(u32, String), usize>,
    tests: Vec<ReportedTest>,
    runs: Vec<ReportedRun>,
    /// When each run started, as far as that is known.
    times: Vec<Option<Timestamp>>,
    /// The job of each run.
    jobs: Vec<Option<TestJob>>,
    problems: Vec<ReportProblem>,
    digests: HashSet<String>,
    shards: ShardTable,
    /// Reports without a test, by their runs.
    empty: Vec<usize>,
    /// The suite of the current file, where its folder says it.
    shard_suite: Option<String>,
    own_suite: Option<String>,
    /// How often the current file has had an identity, if more than once.
    repeats: HashMap<usize, u32>,
    /// Test cases of the current file, without those that are clean-ups.
    placed: u64,
    /// Reports of Meson in XML, and the folders in which its log was read.
    meson_reports: Vec<PathBuf>,
    meson_logs: HashSet<PathBuf>,
    /// Words of causes that tests have printed in tries that passed.
    own_words: HashMap<usize, BTreeSet<OutsideCause>>,
    /// Bytes of outputs that may still be kept.
    room: (usize, usize),
    is_full: bool,
}

/// What a run of ours says of itself, while its file is read.
#[derive(Default)]
struct RunState {
    facts: Option<TestRunFacts>,
    finished: Option<String>,
    says_complete: bool,
    /// Tests that were collected, and whether they were begun.
    collected: HashMap<String, CollectedTest>,
    has_collected: bool,
    whole: Option<WholeCollection>,
    attempts: u64,
    extra: u64,
}

/// The test of a case, and the identity that the file has.
struct PlacedCase {
    index: usize,
    id: String,
}

/// What a report of another tool says of the job that wrote it.
#[derive(Default)]
struct ReportOrigin {
    host: Option<String>,
    /// Files and properties of its suites.
    facts: BTreeSet<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CollectedTest {
    Waiting,
    /// The try that has begun.
    Begun(u32),
    Ended,
}

impl Merger {
    pub(crate) fn new(options: ReportOptions, problems: Vec<ReportProblem>) -> Self {
        Self {
            options,
            suites: Vec::new(),
            places: HashMap::new(),
            tests: Vec::new(),
            runs: Vec::new(),
            times: Vec::new(),
            jobs: Vec::new(),
            problems,
            digests: HashSet::new(),
            shards: ShardTable::default(),
            empty: Vec::new(),
            shard_suite: None,
            own_suite: None,
            repeats: HashMap::new(),
            placed: 0,
            meson_reports: Vec::new(),
            meson_logs: HashSet::new(),
            own_words: HashMap::new(),
            room: (OUTPUT_OF_FAILURES, OUTPUT_OF_OTHERS),
            is_full: false,
        }
    }

    /// Something because of which results are missing.
    pub(crate) fn lost(&mut self, path: Option<&Path>, message: String) {
        self.problem(path, message, true);
    }

    fn problem(&mut self, path: Option<&Path>, message: String, loses_results: bool) {
        let path = path.map(Path::to_owned);
        self.problems.push(ReportProblem { path, message, loses_results });
    }

    pub(crate) fn read(&mut self, source: &ReportSource) -> Result<(), ReportError> {
        let path = source.path.as_path();
        let digest = match open_regular(path).and_then(sha256_of) {
            Ok(digest) => hexadecimal(&digest),
            Err(error) if source.is_named => return Err(read_error(path)(error)),
            Err(error) => {
                self.lost(Some(path), format!("`{}` cannot be read: {error}", path.display()));
                return Ok(());
            }
        };
        if !self.digests.insert(digest.clone()) {
            self.problem(Some(path), format!("`{}` is the same report again, and counts once", path.display()), false);
            return Ok(());
        }
        let file = open_regular(path).map_err(read_error(path))?;
        self.runs.push(ReportedRun {
            path: path.to_owned(),
            sha256: digest,
            form: source.form,
            facts: None,
            started: None,
            finished: None,
            complete: false,
            attempts: 0,
            cut: 0,
        });
        self.times.push(None);
        self.jobs.push(None);
        self.own_suite = None;
        self.repeats.clear();
        self.placed = 0;
        self.shard_suite = source.shard.as_ref().map(|shard| shard.suite.clone());
        let is_report = match source.form {
            ReportForm::Events => self.read_events(file, path).map_err(read_error(path))?,
            ReportForm::Junit | ReportForm::Xml => self.read_xml(file, source),
            ReportForm::Gtest | ReportForm::Json => self.read_json(file, source).map_err(read_error(path))?,
            ReportForm::Tap => self.read_tap(file, source).map_err(read_error(path))?,
        };
        if is_report {
            self.cover(source);
        } else {
            self.runs.pop();
            self.times.pop();
            self.jobs.pop();
        }
        Ok(())
    }

    /// Notes of a report of another tool which job it is of, and whether it has tests at all.
    fn close_report(&mut self, source: &ReportSource, origin: ReportOrigin, complete: bool) {
        let suite = self.own_suite.take().unwrap_or_default();
        let is_empty = self.run().attempts == 0;
        self.run().complete = complete && !is_empty;
        let ReportOrigin { host, facts } = origin;
        let tries = TriesOf::of(source, facts, self.options.retries_in_folder);
        if let Some(job) = self.jobs.last_mut() {
            *job = Some(TestJob::Report { tries, host, suite });
        }
        if is_empty && complete {
            self.empty.push(self.runs.len() - 1);
        }
    }

    /// Notes the shard that the folder of a report is named after.
    fn cover(&mut self, source: &ReportSource) {
        let Some(NamedShard { suite, shard, shards }) = &source.shard else { return };
        let is_complete = self.run().complete;
        let coverage = self.shards.entry(suite, &BTreeSet::new(), *shards);
        coverage.expected = coverage.expected.max(*shards);
        if is_complete {
            coverage.seen.insert(*shard);
        }
    }

    fn run(&mut self) -> &mut ReportedRun {
        self.runs.last_mut().expect("a run was begun")
    }

    fn run_number(&self) -> u32 {
        u32::try_from(self.runs.len() - 1).unwrap_or(u32::MAX)
    }

    fn read_junit(&mut self, file: fs_err::File, source: &ReportSource) -> bool {
        let path = source.path.as_path();
        let mut previous: Option<PlacedCase> = None;
        let end = junit::read(file, path, &source.program, &mut |case| {
            previous = self.junit_case(case, previous.take());
        });
        let mut end = match end {
            Ok(end) => end,
            Err(error) => {
                self.lost(Some(path), format!("`{}` cannot be read: {error}", path.display()));
                self.close_report(source, ReportOrigin::default(), false);
                return true;
            }
        };
        let last = if end.complete { None } else { end.problems.pop() };
        end.problems.truncate(MOST_PROBLEMS);
        for problem in &end.problems {
            self.problem(Some(path), format!("`{}`: {problem}", path.display()), false);
        }
        if let Some(last) = last {
            self.lost(Some(path), format!("`{}`: {last}", path.display()));
        }
        for lost in end.lost.iter().take(MOST_PROBLEMS) {
            self.lost(Some(path), format!("`{}`: {lost}", path.display()));
        }
        let mut is_whole = end.complete && end.lost.is_empty();
        match end.dialect {
            JunitDialect::Pytest => is_whole &= self.join_reruns_of_pytest(end.pytest_tests, path),
            JunitDialect::Go => self.join_reruns_of_go(),
            JunitDialect::Meson => self.meson_reports.push(path.to_owned()),
            _ => {}
        }
        self.started(end.started);
        self.run().finished = end.finished.map(|time| time.to_string());
        self.run().cut += end.cut;
        self.close_report(source, ReportOrigin { host: end.host, facts: end.origin }, is_whole);
        true
    }

    /// Adds a case, behind the previous one.
    fn junit_case(&mut self, case: JunitCase, previous: Option<PlacedCase>) -> Option<PlacedCase> {
        let run = self.run_number();
        self.own_suite.get_or_insert_with(|| case.suite.clone());
        let suite = self.options.suite.clone().or_else(|| self.shard_suite.clone()).unwrap_or(case.suite);
        // pytest writes a clean-up that failed as a second case behind that of the test.
        if case.may_be_clean_up
            && let Some(placed) = &previous
            && placed.id == case.id
            && let Some(test) = self.tests.get_mut(placed.index)
            && let Some(attempt) = test.attempts.last_mut()
            && attempt.run == run
            && attempt.outcome != TestOutcome::Error
        {
            let error = case.attempts.into_iter().next_back()?;
            attempt.outcome = TestOutcome::Error;
            attempt.message = error.message;
            attempt.output = error.output.or(attempt.output.take());
            return previous;
        }
        let index = self.place(&suite, &case.id)?;
        self.add_all(index, run, case.attempts);
        Some(PlacedCase { index, id: case.id })
    }

    fn add_all(&mut self, index: usize, run: u32, attempts: Vec<CaseAttempt>) {
        for (number, attempt) in (1..).zip(attempts) {
            let CaseAttempt { outcome, seconds, message, output } = attempt;
            let (gpu, cause, quarantined) = (None, None, false);
            let attempt = number;
            let attempt = ReportedAttempt { run, attempt, outcome, seconds, message, output, gpu, cause, quarantined };
            self.add(index, attempt);
        }
    }

    /// The test of an identity. An identity that a file has twice names two tests: absl repeats a
    /// name for each parameter.
    fn place(&mut self, suite: &str, id: &str) -> Option<usize> {
        let run = self.run_number();
        self.placed += 1;
        let first = self.index(suite, id)?;
        if self.tests[first].attempts.last().is_none_or(|attempt| attempt.run != run) {
            return Some(first);
        }
        let number = self.repeats.entry(first).or_insert(1);
        *number += 1;
        let name = format!("{id}#{number}");
        self.index(suite, &name)
    }

    fn index(&mut self, suite: &str, id: &str) -> Option<usize> {
        let known = self.suites.iter().position(|known| **known == *suite);
        let number = known.unwrap_or_else(|| {
            self.suites.push(Arc::from(suite));
            self.suites.len() - 1
        });
        match self.places.entry((number as u32, id.to_owned())) {
            Entry::Occupied(entry) => Some(*entry.get()),
            Entry::Vacant(_) if self.tests.len() >= MOST_TESTS => {
                if !std::mem::replace(&mut self.is_full, true) {
                    self.lost(None, format!("the reports have more than {MOST_TESTS} tests"));
                }
                None
            }
            Entry::Vacant(entry) => {
                entry.insert(self.tests.len());
                self.tests.push(ReportedTest {
                    suite: Arc::clone(&self.suites[number]),
                    id: id.to_owned(),
                    outcome: TestOutcome::NotRun,
                    flaky: false,
                    attempts: Vec::with_capacity(1),
                });
                Some(self.tests.len() - 1)
            }
        }
    }

    fn add(&mut self, index: usize, mut attempt: ReportedAttempt) {
        if attempt.cause.is_none() {
            attempt.cause = cause_of(attempt.outcome, attempt.message.as_deref(), attempt.output.as_deref());
        }
        if attempt.outcome == TestOutcome::Passed
            && let Some(output) = &attempt.output
        {
            let mut causes = causes_in(output).peekable();
            if causes.peek().is_some() {
                self.own_words.entry(index).or_default().extend(causes);
            }
        }
        if let Some(message) = &mut attempt.message {
            shorten(message, LONGEST_MESSAGE);
        }
        if let Some(output) = &mut attempt.output {
            shorten(output, LONGEST_OUTPUT);
            let room = if attempt.outcome.is_bad() { &mut self.room.0 } else { &mut self.room.1 };
            if let Some(rest) = room.checked_sub(output.len()) {
                *room = rest;
            } else {
                let size = output.len() as u64;
                attempt.output = None;
                self.run().cut += size;
            }
        }
        self.run().attempts += 1;
        self.tests[index].attempts.push(attempt);
    }

    fn started(&mut self, text: Option<String>) {
        if let Some(last) = self.times.last_mut() {
            *last = text.as_deref().and_then(moment);
        }
        self.run().started = text;
    }

    fn read_events(&mut self, file: fs_err::File, path: &Path) -> std::io::Result<bool> {
        let mut state = RunState::default();
        let end = events::read(file, &mut |event| self.event(event, &mut state, path))?;
        for problem in end.damaged {
            self.lost(Some(path), format!("`{}`: {problem}", path.display()));
        }
        if state.facts.is_none() {
            self.lost(Some(path), format!("`{}` has no run in its first line", path.display()));
        }
        self.close_run(state, end.is_cut, path);
        Ok(true)
    }

    fn event(&mut self, event: TestEvent, state: &mut RunState, path: &Path) {
        match event {
            TestEvent::Run(facts) => {
                if state.facts.is_some() {
                    return self.lost(Some(path), format!("`{}` has two runs", path.display()));
                }
                self.started(Some(facts.started.clone()));
                state.facts = Some(facts);
            }
            TestEvent::Collected { ids, whole } => {
                state.has_collected = true;
                state.whole = state.whole.take().or(whole);
                state.collected.extend(ids.into_iter().map(|id| (id, CollectedTest::Waiting)));
            }
            TestEvent::Started { id, attempt } => {
                state.collected.insert(id, CollectedTest::Begun(attempt));
            }
            TestEvent::Attempt(attempt) => self.attempt(attempt, state),
            TestEvent::Problem { message } => self.lost(Some(path), message),
            TestEvent::End { finished, complete } => {
                state.finished = Some(finished);
                state.says_complete = complete;
            }
        }
    }

    fn suite_of(&self, state: &RunState) -> String {
        let own = state.facts.as_ref().map(|facts| facts.suite.clone()).filter(|suite| !suite.is_empty());
        own.or_else(|| self.options.suite.clone()).unwrap_or_else(|| "tests".to_owned())
    }

    fn attempt(&mut self, attempt: TestAttempt, state: &mut RunState) {
        let was = state.collected.insert(attempt.id.clone(), CollectedTest::Ended);
        state.extra += u64::from(state.has_collected && was.is_none());
        state.attempts += 1;
        let suite = self.suite_of(state);
        let Some(index) = self.index(&suite, &attempt.id) else { return };
        let attempt = ReportedAttempt::of(self.run_number(), attempt);
        // Two machines may begin runs of one name in the same second; their facts differ.
        let known = self.tests[index].attempts.iter().position(|known| {
            let other = self.runs.get(known.run as usize).and_then(|run| run.facts.as_ref());
            known.attempt == attempt.attempt
                && (known.run == attempt.run || (other.is_some() && other == state.facts.as_ref()))
        });
        // A worse outcome of the same try is never lost.
        if let Some(known) = known {
            let known = &mut self.tests[index].attempts[known];
            if rank(attempt.outcome) > rank(known.outcome) {
                known.outcome = attempt.outcome;
                known.message = attempt.message;
            }
            return;
        }
        self.add(index, attempt);
    }

    /// Gives outcomes to tests without one, and notes which part of the suite this was.
    fn close_run(&mut self, state: RunState, is_cut: bool, path: &Path) {
        let suite = self.suite_of(&state);
        let run = self.run_number();
        if let (Some(facts), Some(job)) = (&state.facts, self.jobs.last_mut()) {
            *job = Some(TestJob::of_run(facts, state.whole.as_ref()));
        }
        let mut waiting: Vec<(&String, &CollectedTest)> =
            state.collected.iter().filter(|(_, test)| **test != CollectedTest::Ended).collect();
        waiting.sort_by_key(|(id, _)| id.as_str());
        let mut open = 0;
        for (id, test) in waiting {
            open += 1;
            let Some(index) = self.index(&suite, id) else { break };
            let (attempt, outcome, message) = match test {
                CollectedTest::Begun(attempt) => {
                    (*attempt, TestOutcome::Crashed, "it began, and its process ended without a result")
                }
                _ => (1, TestOutcome::NotRun, "it was collected and never began"),
            };
            let attempt = TestAttempt { attempt, outcome, ..TestAttempt::not_run(id, message) };
            self.add(index, ReportedAttempt::of(run, attempt));
        }
        if state.extra > 0 {
            let message =
                format!("`{}` has {} outside of what was collected", path.display(), counted(state.extra, "test"));
            self.problem(Some(path), message, false);
        }
        if state.attempts == 0 && state.collected.is_empty() {
            self.lost(Some(path), format!("`{}` collected no test", path.display()));
        }
        let is_complete = state.finished.is_some() && !is_cut && state.says_complete && open == 0;
        if let Some(facts) = &state.facts {
            let expected = facts.shards.max(1);
            let targets = facts.targets();
            let coverage = self.shards.entry(&suite, &targets, expected);
            if coverage.expected != expected {
                let message =
                    format!("`{}` is one of {expected} shards, others of {}", path.display(), coverage.expected);
                coverage.expected = coverage.expected.max(expected);
                self.lost(Some(path), message);
            } else if is_complete {
                coverage.seen.insert(facts.shard.max(1));
                if expected > 1 {
                    self.shards.note_whole(&suite, &targets, run, state.whole);
                }
            }
        }
        let run = self.run();
        run.complete = is_complete;
        run.facts = state.facts;
        run.finished = state.finished;
    }

    /// The whole.
    pub(crate) fn finish(mut self) -> TestReport {
        self.check_empty();
        self.check_meson();
        self.check_shards();
        let times = std::mem::take(&mut self.times);
        let jobs = std::mem::take(&mut self.jobs);
        for (index, causes) in &self.own_words {
            for attempt in &mut self.tests[*index].attempts {
                attempt.cause = attempt.cause.filter(|cause| !causes.contains(cause));
            }
        }
        // Tries that were joined with those of another test leave one without any.
        self.tests.retain(|test| !test.attempts.is_empty());
        let runs = JudgedRun::all(&times, &jobs, &self.runs);
        let (mut mixed, mut undone) = (0, 0);
        for test in &mut self.tests {
            let judged = judge(test, &runs);
            mixed += u64::from(judged.is_mixed);
            undone += u64::from(judged.passed_elsewhere);
        }
        if mixed > 0 {
            let what = "ended in different ways in reports without times; the worst outcome of each counts";
            self.problem(None, format!("{} {what}", counted(mixed, "test")), false);
        }
        if undone > 0 {
            let what = "failed in one job and passed in another, which is no second try: it had another machine, \
                        GPU target or commit, other wheels, or another report; the failure counts";
            self.problem(None, format!("{} {what}", counted(undone, "test")), false);
        }
        self.tests.sort_by(|one, other| (&one.suite, &one.id).cmp(&(&other.suite, &other.id)));
        let shards = self.shards.into_coverage();
        let runner = runner_of(&self.runs);
        TestReport { runs: self.runs, tests: self.tests, problems: self.problems, shards, runner }
    }

    /// A report without a test shows nothing. PyTorch's runner writes one for each process of a
    /// file, and a process that continues behind the last test has none.
    fn check_empty(&mut self) {
        let filled = self.runs.iter().filter(|run| run.attempts > 0);
        let filled: HashSet<Option<PathBuf>> = filled.map(|run| run.path.parent().map(Path::to_owned)).collect();
        for index in std::mem::take(&mut self.empty) {
            let path = self.runs[index].path.clone();
            let is_one_of_several =
                dotted_folder(&path).is_some() && filled.contains(&path.parent().map(Path::to_owned));
            self.problem(Some(&path), format!("`{}` has no test", path.display()), !is_one_of_several);
        }
    }

    fn check_shards(&mut self) {
        if let Some(expected) = self.options.shards
            && self.shards.is_empty()
        {
            let seen = self.runs.iter().filter(|run| run.complete).count();
            if (seen as u64) < u64::from(expected) {
                self.lost(None, format!("{expected} shards are expected, and there are {seen} complete reports"));
            }
        }
        let wanted = self.options.shards.unwrap_or_default();
        for lost in self.shards.check(wanted, &self.tests, &self.runs) {
            self.lost(None, lost);
        }
    }
}

fn read_error(path: &Path) -> impl FnOnce(std::io::Error) -> ReportError {
    move |source| ReportError::Read { path: path.to_owned(), source }
}
