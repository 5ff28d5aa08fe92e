//! Input: a checkout of PyTorch. Output: the events of its own runner, `test/run_test.py`.
//!
//! The runner starts pytest for each file, up to three times. Our plugin is loaded into each of
//! them (`PYTEST_PLUGINS`), so a test in which a process dies has a name, our lists decide what is
//! skipped, and every attempt is seen. Reports in XML do not have what was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, Instant};

use rocwheel_progress::{Failure, Interrupted, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::{TestAttempt, TestOutcome, TestRunFacts, WholeCollection};
use rocwheel_system::kill_process;
use serde_json::json;

use crate::driver::Collection;
use crate::lists::{ListKind, ListRemark, ListRow, ListSetting, judge};
use crate::pytest::{EventFiles, MODULE, PluginEvent, STICKY, set_plugin};
use crate::recorder::{RunRecorder, RunSummary};
use crate::supervisor::process_table::process_start;
use crate::supervisor::{BoundedText, ProcessExcess, ProcessLimits, ProgramLine, SupervisedProgram};
use crate::worker::{SuiteLimits, TestWorker};

pub struct RunTest<'a> {
    /// `python test/run_test.py …` with all its options, and its environment.
    pub program: ProgramLine,
    /// What is written in the first line.
    pub facts: TestRunFacts,
    pub output: &'a Path,
    /// Known failures. Only rows that name tests exactly are used: the runner collects by itself.
    pub rows: &'a [ListRow],
    /// What decides which of them count.
    pub setting: &'a ListSetting,
    /// What pytest collects of the same files, for the lists and for shards; `None` if neither
    /// needs it.
    pub collection: Option<Collection>,
    /// The runner has options of the user, which may leave tests out: shards cannot be compared
    /// with the collection.
    pub has_options: bool,
    /// Time of one test.
    pub limits: SuiteLimits,
    /// The runner sees the GPUs of all of them.
    pub workers: &'a [TestWorker],
    pub scratch: &'a Path,
    /// The present time in RFC 3339.
    pub now: &'a dyn Fn() -> String,
}

/// One pytest process of the runner.
#[derive(Debug, Default)]
struct Child {
    number: i32,
    /// When it started, which is a part of its identity: numbers of processes are used again.
    begun: Option<u64>,
    /// The file that it imported last.
    importing: Option<String>,
    current: Option<(String, Instant)>,
    was_killed: bool,
    /// A test of it went wrong, or it died in one.
    has_bad: bool,
    /// The exit code that pytest announced.
    status: Option<i32>,
}

impl Child {
    fn is_alive(&self) -> bool {
        self.begun.is_some() && process_start(self.number) == self.begun
    }

    /// What went wrong in this process although none of its tests did.
    fn problem(&self) -> Option<String> {
        let file = self.importing.as_ref().map(|file| format!(" of `{file}`")).unwrap_or_default();
        match self.status {
            _ if self.has_bad => None,
            None => Some(format!("a pytest process{file} died outside of its tests")),
            Some(0 | NOTHING_COLLECTED) => None,
            Some(code) => Some(format!("a pytest process{file} exited with code {code}, and no test of it failed")),
        }
    }
}

/// Exit code of pytest for a process without tests: a shard of a file may have none.
const NOTHING_COLLECTED: i32 = 5;

struct Listener<'a> {
    recorder: &'a RunRecorder,
    kinds: BTreeMap<String, ListKind>,
    children: BTreeMap<OsString, Child>,
    attempts: BTreeMap<String, u32>,
    collected: BTreeSet<String>,
    timeout: Duration,
}

/// Runs PyTorch's runner.
pub fn run_with_run_test(run: RunTest<'_>, reporter: &dyn Reporter) -> Result<RunSummary, Failure> {
    let RunTest { mut program, mut facts, scratch, limits, .. } = run;
    let recorder = RunRecorder::create(run.output, &mut facts)?;
    let all = run.collection.as_ref().map(Collection::all_ids).unwrap_or_default();
    let verdict = judge(run.rows, &all, run.setting);
    if facts.shards > 1 && run.collection.is_some() && !run.has_options {
        recorder.collected(&[], Some(WholeCollection::of(&all, None)));
    }
    recorder.quarantine(verdict.quarantined());
    let skipped = verdict.tests.iter().filter(|(_, test)| test.kind == ListKind::Skip);
    let skip: BTreeMap<&String, &String> = skipped.map(|(id, test)| (id, &test.reason)).collect();
    set_plugin(&mut program, &json!({ "skip": skip, "sticky": STICKY }), scratch)?;
    program.set("PYTEST_PLUGINS", MODULE);
    let visible: Vec<&str> =
        run.workers.iter().filter_map(|worker| Some(worker.variables.get("HIP_VISIBLE_DEVICES")?.as_str())).collect();
    if !visible.is_empty() {
        program.set("HIP_VISIBLE_DEVICES", visible.join(","));
    }
    let kinds = verdict.tests.iter().map(|(id, test)| (id.clone(), test.kind)).collect();
    let mut listener = Listener {
        recorder: &recorder,
        kinds,
        children: BTreeMap::new(),
        attempts: BTreeMap::new(),
        collected: BTreeSet::new(),
        timeout: limits.timeout,
    };
    let mut running = SupervisedProgram::start(&program, &scratch.display().to_string())?;
    let (mut files, mut text) = (EventFiles::new(&scratch.join("events")), BoundedText::default());
    let _stage = reporter.stage("Testing with run_test.py", None, rocwheel_progress::Unit::Items);
    while running.end()?.is_none() {
        text.push(&running.read(Duration::from_millis(50)));
        // Asked before its lines are read, so that all lines of a dead process are known.
        let dead = listener.dead();
        listener.take(files.lines_by_file()?, reporter);
        for file in &dead {
            listener.died(file);
        }
        listener.end_hanging();
        if reporter.interrupted() {
            running.stop(Duration::from_secs(2));
            return Err(Interrupted.into());
        }
        if running.excess(ProcessLimits { memory: None, ..limits.process }) == Some(ProcessExcess::Processes) {
            let most = limits.process.processes;
            recorder.problem(format!("run_test.py had more than {most} processes and was ended"));
            running.stop(Duration::ZERO);
        }
    }
    let (end, rest, _) = running.finish()?;
    text.push(&rest);
    listener.take(files.lines_by_file()?, reporter);
    listener.close();
    let has_failed = listener.has_failed();
    if listener.collected.is_empty() {
        recorder.problem(format!("run_test.py {} and collected no test: {}", end.words(), last_lines(&text.take())));
    } else if end != ProgramEnd::Code(0) && !has_failed {
        let said = last_lines(&text.take());
        recorder.problem(format!("run_test.py {}, but every test that was seen is good: {said}", end.words()));
    }
    let remarks: Vec<ListRemark> = verdict.remarks;
    Ok(recorder.finish(&(run.now)(), remarks))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

impl Listener<'_> {
    fn take(&mut self, events: Vec<(OsString, PluginEvent)>, reporter: &dyn Reporter) {
        for (file, event) in events {
            self.one(&file, event, reporter);
        }
    }

    fn one(&mut self, file: &OsStr, event: PluginEvent, reporter: &dyn Reporter) {
        let child = self.children.entry(file.to_owned()).or_default();
        match event {
            PluginEvent::Process { number } => {
                child.number = number;
                child.begun = process_start(number);
            }
            PluginEvent::Collecting { id } => child.importing = Some(id),
            PluginEvent::Collected { ids } => self.note_collected(ids),
            PluginEvent::CollectFailed { id, message, output } => {
                child.has_bad = true;
                self.note_collected(vec![id.clone()]);
                let attempt = TestAttempt {
                    outcome: TestOutcome::Error,
                    output: Some(output),
                    ..TestAttempt::not_run(&id, &message)
                };
                self.attempt(attempt);
            }
            // Every process of a file says it again.
            PluginEvent::CollectSkipped { id, message } if !self.recorder.has_outcome(&id) => {
                self.note_collected(vec![id.clone()]);
                self.attempt(TestAttempt { outcome: TestOutcome::Skipped, ..TestAttempt::not_run(&id, &message) });
            }
            PluginEvent::Deselected { id, message } if !self.recorder.has_outcome(&id) => {
                self.attempt(TestAttempt { outcome: TestOutcome::Deselected, ..TestAttempt::not_run(&id, &message) });
            }
            PluginEvent::Started { id } => {
                let number = self.attempts.get(&id).copied().unwrap_or_default() + 1;
                self.recorder.started(&id, number);
                child.current = Some((id, Instant::now()));
            }
            PluginEvent::Attempt { id, outcome, seconds, message, output } => {
                child.current = None;
                child.has_bad |= outcome.is_bad();
                reporter.advance(1);
                self.attempt(TestAttempt { outcome, seconds, message, output, ..TestAttempt::not_run(&id, "") });
            }
            PluginEvent::Problem { message } => self.recorder.problem(message),
            PluginEvent::Finished { status } => {
                child.status = Some(status);
                self.died(file);
            }
            _ => {}
        }
    }

    fn note_collected(&mut self, ids: Vec<String>) {
        let new: Vec<String> = ids.into_iter().filter(|id| self.collected.insert(id.clone())).collect();
        if !new.is_empty() {
            self.recorder.collected(&new, None);
        }
    }

    fn attempt(&mut self, mut attempt: TestAttempt) {
        let number = self.attempts.entry(attempt.id.clone()).or_default();
        *number += 1;
        attempt.attempt = *number;
        attempt.gpu = None;
        match self.kinds.get(&attempt.id) {
            Some(ListKind::Xfail | ListKind::Quarantine) if attempt.outcome.is_bad() => {
                attempt.outcome = TestOutcome::ExpectedFailure;
            }
            Some(ListKind::Xfail) if attempt.outcome == TestOutcome::Passed => {
                attempt.outcome = TestOutcome::UnexpectedPass;
            }
            _ => {}
        }
        self.recorder.attempt(attempt);
    }

    /// Kills processes whose test takes too long; the runner then continues with the next test.
    fn end_hanging(&mut self) {
        let timeout = self.timeout;
        for child in self.children.values_mut() {
            let is_late = child.current.as_ref().is_some_and(|(_, begun)| begun.elapsed() > timeout);
            if is_late && !child.was_killed && child.is_alive() {
                child.was_killed = true;
                kill_process(child.number);
            }
        }
    }

    /// The files of processes that have ended in a test.
    fn dead(&self) -> Vec<OsString> {
        let testing = self.children.iter().filter(|(_, child)| child.current.is_some());
        testing.filter(|(_, child)| !child.is_alive()).map(|(file, _)| file.clone()).collect()
    }

    /// Blames the test that was running when a process ended.
    fn died(&mut self, file: &OsStr) {
        let Some(child) = self.children.get_mut(file) else { return };
        let Some((id, begun)) = child.current.take() else { return };
        child.has_bad = true;
        let seconds = self.timeout.as_secs();
        let (outcome, message) = if child.was_killed {
            (TestOutcome::TimedOut, format!("it did not end within {seconds} s"))
        } else {
            (TestOutcome::Crashed, "its process died".to_owned())
        };
        let took = Some(begun.elapsed().as_secs_f64());
        self.attempt(TestAttempt { outcome, seconds: took, ..TestAttempt::not_run(&id, &message) });
    }

    fn close(&mut self) {
        let files: Vec<OsString> = self.children.keys().cloned().collect();
        for file in &files {
            self.died(file);
        }
        for problem in self.children.values().filter_map(Child::problem) {
            self.recorder.problem(problem);
        }
    }

    fn has_failed(&self) -> bool {
        self.collected.iter().any(|id| self.recorder.is_bad(id))
    }
}
