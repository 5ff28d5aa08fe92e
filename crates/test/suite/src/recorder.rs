//! Input: what happens in a run. Output: its folder with `events.jsonl`, and the sum of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use rocwheel_report::cause::{cause_of, causes_in};
use rocwheel_report::outcome::{OutsideCause, TestAttempt, TestEvent, TestOutcome, TestRunFacts, WholeCollection};
use rocwheel_system::Lock;
use serde::Serialize;

use crate::lists::ListRemark;
use rocwheel_progress::{Exit, Failure};

pub const EVENTS: &str = "events.jsonl";

/// Ids in one line of collected tests.
const CHUNK: usize = 1000;

/// Bytes of lines that wait for one write.
const LONGEST_WRITE: usize = 1 << 16;

/// The name of a run, which sorts by time: `20261123T120500Z-pytorch-2of5`. `shard` is a part, from
/// 1, and the number of parts.
pub fn run_name(suite: &str, (shard, shards): (u32, u32), time: Timestamp) -> Result<String, Failure> {
    let is_plain = suite.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    if suite.is_empty() || suite.starts_with('.') || !is_plain {
        return Err(Failure::message(format!("`{suite}` is no name of a suite"))
            .with_hint("letters, digits, `-`, `_` and `.` are allowed")
            .with_exit(Exit::Usage));
    }
    let part = if shards > 1 { format!("-{shard}of{shards}") } else { String::new() };
    Ok(format!("{}-{suite}{part}", time.strftime("%Y%m%dT%H%M%SZ")))
}

/// Writes the events of a run. Lines are written whole, so a killed run is readable.
#[derive(Debug)]
pub struct RunRecorder {
    /// The folder of this run alone.
    pub folder: PathBuf,
    run: String,
    state: Mutex<State>,
    /// Held while the run is under way; a reader can see that it still runs.
    _lock: Lock,
}

#[derive(Debug)]
struct State {
    file: fs_err::File,
    /// Lines that [`RunRecorder::gather`] keeps for one write.
    lines: Vec<u8>,
    is_gathering: bool,
    collected: Vec<String>,
    /// Tests whose passes do not count.
    quarantine: BTreeSet<String>,
    last: BTreeMap<String, TestAttempt>,
    /// Tests with a failure that nothing outside of them explains.
    was_bad: BTreeSet<String>,
    causes: BTreeMap<OutsideCause, BTreeSet<String>>,
    problems: Vec<String>,
    /// The first write that failed: a full disk must not look like a good run.
    failed: Option<String>,
}

/// The sum of a run.
#[derive(Debug, Serialize)]
pub struct RunSummary {
    pub run: String,
    /// Folder with `events.jsonl`.
    pub folder: PathBuf,
    pub collected: usize,
    /// Number of tests by their last outcome.
    pub counts: BTreeMap<TestOutcome, usize>,
    /// Number of tests that passed, without those in quarantine.
    pub counted_passes: usize,
    /// Tests that failed in an attempt and passed in a later one.
    pub flaky: Vec<String>,
    /// Tests with an attempt that something outside of them made fail.
    pub outside_causes: BTreeMap<OutsideCause, BTreeSet<String>>,
    /// The last attempts of tests that did not do what they should.
    pub failures: Vec<TestAttempt>,
    /// Tests that passed although a list or a mark (`xfail`) says that they fail.
    pub unexpected_passes: Vec<String>,
    /// Problems that are not about a test.
    pub problems: Vec<String>,
    /// Rows of lists that should change.
    pub remarks: Vec<ListRemark>,
    /// Every collected test has an outcome.
    pub complete: bool,
}

impl RunSummary {
    pub fn count(&self, outcome: TestOutcome) -> usize {
        self.counts.get(&outcome).copied().unwrap_or_default()
    }

    /// `true` if something was tested, everything has an outcome, and nothing went wrong. Tests
    /// that were not run count as wrong.
    pub fn is_good(&self) -> bool {
        let is_bad = self.counts.keys().any(|outcome| outcome.is_bad() || *outcome == TestOutcome::NotRun);
        self.complete && !is_bad && self.problems.is_empty() && self.collected > 0 && self.has_tested()
    }

    /// `true` if a test passed and its pass counts. A suite whose tests all skip themselves, or are
    /// known to fail, has shown nothing.
    pub fn has_tested(&self) -> bool {
        self.counted_passes > 0
    }
}

impl RunRecorder {
    /// Makes the folder of a run in `output` and writes its first line. `facts.run` is changed if
    /// another run has the name.
    pub fn create(output: &Path, facts: &mut TestRunFacts) -> io::Result<Self> {
        fs_err::create_dir_all(output)?;
        let name = facts.run.clone();
        let mut number = 1;
        let folder = loop {
            let folder = output.join(&facts.run);
            match fs_err::create_dir(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    facts.run = format!("{name}-{number}");
                }
                Err(error) => return Err(error),
            }
        };
        let lock = Lock::at(&folder.join("lock"))?.ok_or_else(|| io::Error::other("the new folder is locked"))?;
        let file = fs_err::OpenOptions::new().append(true).create_new(true).open(folder.join(EVENTS))?;
        let state = State {
            file,
            lines: Vec::new(),
            is_gathering: false,
            collected: Vec::new(),
            quarantine: BTreeSet::new(),
            last: BTreeMap::new(),
            was_bad: BTreeSet::new(),
            causes: BTreeMap::new(),
            problems: Vec::new(),
            failed: None,
        };
        let recorder = Self { folder, run: facts.run.clone(), state: Mutex::new(state), _lock: lock };
        recorder.lock().write(&TestEvent::Run(facts.clone()));
        Ok(recorder)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the lines of events that are known at once, and writes them together when the guard
    /// is dropped: a write for each event costs as much as a small test.
    pub(crate) fn gather(&self) -> Gathering<'_> {
        self.lock().is_gathering = true;
        Gathering { recorder: self }
    }

    /// Notes the tests whose passes do not count.
    pub fn quarantine(&self, ids: impl IntoIterator<Item = String>) {
        self.lock().quarantine.extend(ids);
    }

    /// Notes the tests of this shard, and what all shards together have to have, if that is known.
    pub fn collected(&self, ids: &[String], whole: Option<WholeCollection>) {
        let mut state = self.lock();
        let (first, rest) = ids.split_at(ids.len().min(CHUNK));
        if !first.is_empty() || whole.is_some() {
            state.write(&TestEvent::Collected { ids: first.to_vec(), whole });
        }
        for chunk in rest.chunks(CHUNK) {
            state.write(&TestEvent::Collected { ids: chunk.to_vec(), whole: None });
        }
        state.collected.extend_from_slice(ids);
    }

    pub fn started(&self, id: &str, attempt: u32) {
        self.lock().write(&TestEvent::Started { id: id.to_owned(), attempt });
    }

    /// Notes how an attempt ended. An attempt that tried nothing does not undo an earlier failure.
    pub fn attempt(&self, mut attempt: TestAttempt) {
        if attempt.cause.is_none() {
            attempt.cause = cause_of(attempt.outcome, attempt.message.as_deref(), attempt.output.as_deref());
        }
        let mut state = self.lock();
        attempt.quarantined = state.quarantine.contains(&attempt.id);
        if attempt.outcome == TestOutcome::Passed {
            state.refute(&attempt.id, attempt.output.as_deref().unwrap_or_default());
        }
        let event = TestEvent::Attempt(attempt);
        state.write(&event);
        let TestEvent::Attempt(mut attempt) = event else { return };
        // Ten thousand failures would keep 640 MB of output, which is in the file.
        attempt.output = None;
        match attempt.cause {
            Some(cause) => {
                state.causes.entry(cause).or_default().insert(attempt.id.clone());
            }
            None if attempt.outcome.is_bad() => {
                state.was_bad.insert(attempt.id.clone());
            }
            None => {}
        }
        let was_bad = state.last.get(&attempt.id).is_some_and(|last| last.outcome.is_bad());
        if was_bad && attempt.outcome.tried_nothing() {
            return;
        }
        state.last.insert(attempt.id.clone(), attempt);
    }

    /// Notes something that is not about a test. It makes the run fail.
    pub fn problem(&self, message: impl Into<String>) {
        let message = message.into();
        let mut state = self.lock();
        state.write(&TestEvent::Problem { message: message.clone() });
        state.problems.push(message);
    }

    /// `true` if the last attempt of a test went wrong, as expected or not.
    pub fn is_bad(&self, id: &str) -> bool {
        let outcome = self.lock().last.get(id).map(|attempt| attempt.outcome);
        outcome.is_some_and(|outcome| outcome.is_bad() || outcome == TestOutcome::ExpectedFailure)
    }

    pub fn has_outcome(&self, id: &str) -> bool {
        self.lock().last.contains_key(id)
    }

    /// Writes the last line and sums up. Collected tests without an outcome become `not_run`.
    pub fn finish(self, finished: &str, remarks: Vec<ListRemark>) -> RunSummary {
        let open: Vec<String> = {
            let state = self.lock();
            state.collected.iter().filter(|id| !state.last.contains_key(*id)).cloned().collect()
        };
        for id in open {
            self.attempt(TestAttempt::not_run(&id, "it was never reached"));
        }
        let mut state = self.lock();
        let names: BTreeSet<&String> = state.collected.iter().collect();
        let complete = names.iter().all(|id| state.last.contains_key(*id))
            && names.iter().all(|id| state.last[*id].outcome != TestOutcome::NotRun)
            && !names.is_empty();
        let collected = names.len();
        state.write(&TestEvent::End { finished: finished.to_owned(), complete });
        let mut counts: BTreeMap<TestOutcome, usize> = BTreeMap::new();
        for attempt in state.last.values() {
            *counts.entry(attempt.outcome).or_default() += 1;
        }
        let last = state.last.values();
        let passed = last.clone().filter(|attempt| attempt.outcome == TestOutcome::Passed);
        let flaky = passed.filter(|attempt| state.was_bad.contains(&attempt.id));
        let unexpected = last.clone().filter(|attempt| attempt.outcome == TestOutcome::UnexpectedPass);
        let counted = last.clone().filter(|attempt| attempt.outcome.is_pass() && !attempt.quarantined);
        let counted_passes = counted.count();
        let mut problems = state.problems.clone();
        problems.extend(state.failed.clone());
        RunSummary {
            run: self.run.clone(),
            folder: self.folder.clone(),
            collected,
            counted_passes,
            flaky: flaky.map(|attempt| attempt.id.clone()).collect(),
            outside_causes: state.causes.clone(),
            unexpected_passes: unexpected.map(|attempt| attempt.id.clone()).collect(),
            failures: last
                .filter(|attempt| attempt.outcome.is_bad() || attempt.outcome == TestOutcome::NotRun)
                .cloned()
                .collect(),
            counts,
            problems,
            remarks,
            complete,
        }
    }
}

impl State {
    /// A test that passes and prints the words of a cause prints them itself, so that they explain
    /// no failure of it.
    fn refute(&mut self, id: &str, printed: &str) {
        for cause in causes_in(printed) {
            if self.causes.get_mut(&cause).is_some_and(|tests| tests.remove(id)) {
                self.was_bad.insert(id.to_owned());
            }
        }
        self.causes.retain(|_, tests| !tests.is_empty());
    }

    fn write(&mut self, event: &TestEvent) {
        let begin = self.lines.len();
        if serde_json::to_writer(&mut self.lines, event).is_err() {
            return self.lines.truncate(begin);
        }
        self.lines.push(b'\n');
        if !self.is_gathering || self.lines.len() > LONGEST_WRITE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if let Err(error) = self.file.write_all(&self.lines) {
            self.failed.get_or_insert_with(|| format!("the events cannot be written: {error}"));
        }
        self.lines.clear();
    }
}

/// Writes what was gathered at its end.
#[derive(Debug)]
pub(crate) struct Gathering<'a> {
    recorder: &'a RunRecorder,
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        // Another worker may gather as well; its lines are then written one by one.
        let mut state = self.recorder.lock();
        state.is_gathering = false;
        state.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> TestRunFacts {
        TestRunFacts { run: "a".into(), suite: "s".into(), shard: 1, shards: 1, ..TestRunFacts::default() }
    }

    fn passed(id: &str) -> TestAttempt {
        TestAttempt { outcome: TestOutcome::Passed, message: None, ..TestAttempt::not_run(id, "") }
    }

    #[test]
    fn two_runs_in_one_folder_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut other) = (facts(), facts());
        let first = RunRecorder::create(folder.path(), &mut one).unwrap();
        let second = RunRecorder::create(folder.path(), &mut other).unwrap();
        assert_eq!((one.run.as_str(), other.run.as_str()), ("a", "a-2"));
        assert_ne!(first.folder, second.folder);
        assert!(Lock::at(&first.folder.join("lock")).unwrap().is_none());
    }

    /// What a run says that collected these tests, has some in quarantine, and tried these; and
    /// its events.
    fn run(ids: &[&str], quarantine: &[&str], attempts: impl IntoIterator<Item = TestAttempt>) -> (RunSummary, String) {
        let folder = tempfile::tempdir().unwrap();
        let recorder = RunRecorder::create(folder.path(), &mut facts()).unwrap();
        recorder.quarantine(quarantine.iter().map(|&id| id.to_owned()));
        recorder.collected(&ids.iter().map(|&id| id.to_owned()).collect::<Vec<_>>(), None);
        attempts.into_iter().for_each(|attempt| recorder.attempt(attempt));
        let events = recorder.folder.join(EVENTS);
        (recorder.finish("now", Vec::new()), fs_err::read_to_string(events).unwrap())
    }

    /// A first attempt with this outcome and a second one that passed.
    fn twice(first: TestAttempt) -> [TestAttempt; 2] {
        [first, TestAttempt { attempt: 2, ..passed("a") }]
    }

    #[test]
    fn a_test_without_an_outcome_is_not_run_and_no_pass() {
        let (summary, text) = run(&["a", "b"], &[], [passed("a")]);
        assert!(!summary.complete && !summary.is_good());
        assert_eq!(summary.count(TestOutcome::NotRun), 1);
        let events: Vec<TestEvent> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(matches!(events.last(), Some(TestEvent::End { complete: false, .. })));
        assert!(!run(&[], &[], []).0.is_good(), "nothing was collected");
    }

    #[test]
    fn known_failures_and_passes_in_quarantine_alone_are_no_pass() {
        for (quarantine, outcome, is_good, is_marked) in [
            (&[][..], TestOutcome::ExpectedFailure, false, false),
            (&["a"], TestOutcome::Passed, false, true),
            (&["b"], TestOutcome::Passed, true, false),
            (&[], TestOutcome::UnexpectedPass, true, false),
        ] {
            let (summary, events) = run(&["a"], quarantine, [TestAttempt { outcome, ..passed("a") }]);
            let found = (summary.is_good(), events.contains("\"quarantined\":true"));
            assert_eq!(found, (is_good, is_marked), "{quarantine:?} {outcome:?}");
        }
    }

    #[test]
    fn the_last_attempt_decides_and_the_others_make_it_flaky() {
        let (summary, _) = run(&["a"], &[], twice(TestAttempt { outcome: TestOutcome::Crashed, ..passed("a") }));
        assert!(summary.is_good());
        assert_eq!(summary.flaky, ["a"]);
    }

    #[test]
    fn a_second_attempt_that_tries_nothing_is_no_evidence() {
        for outcome in [TestOutcome::Skipped, TestOutcome::NotRun] {
            let failed = TestAttempt { outcome: TestOutcome::Failed, ..passed("a") };
            let second = TestAttempt { attempt: 2, outcome, ..passed("a") };
            let (summary, _) = run(&["a", "b"], &[], [passed("b"), failed, second]);
            assert!(!summary.is_good());
            assert_eq!(summary.count(TestOutcome::Failed), 1);
        }
    }

    #[test]
    fn a_test_that_a_full_disk_made_fail_is_not_flaky() {
        let message = Some("OSError: [Errno 28] No space left on device: '/tmp/x'".to_owned());
        let failed = TestAttempt { outcome: TestOutcome::Failed, message, ..passed("a") };
        let (summary, _) = run(&["a"], &[], twice(failed));
        assert!(summary.is_good() && summary.flaky.is_empty());
        assert!(summary.outside_causes[&OutsideCause::DiskFull].contains("a"));
    }

    #[test]
    fn words_that_a_test_prints_when_it_passes_excuse_no_failure() {
        let output = Some("peer 1: No route to host\n".to_owned());
        let crashed = TestAttempt { outcome: TestOutcome::Crashed, output: output.clone(), ..passed("a") };
        let second = TestAttempt { attempt: 2, output, ..passed("a") };
        let (summary, _) = run(&["a"], &[], [crashed, second]);
        assert_eq!(summary.flaky, ["a"]);
        assert!(summary.outside_causes.is_empty());
    }
}
