//! Input: the tests of a shard and a driver. Output: an outcome for each of them.
//!
//! Each worker runs processes of many tests. When a process dies or hangs, the test that was
//! running gets the blame, and a fresh process continues with the next one. A test that loses the
//! GPU ends its process as well, since every later test of it would fail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_progress::{Failure, Interrupted, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::{OutsideCause, TestAttempt, TestOutcome};

use crate::driver::{StreamEvent, TestDriver, TestStream, WaitingProcess};
use crate::lists::{ListKind, ListedTest};
use crate::recorder::RunRecorder;
use crate::supervisor::process_table::memory_kills;
use crate::supervisor::{BoundedText, GRACE, ProcessExcess, ProgramLine, SupervisedProgram};
use crate::worker::{SuiteLimits, TestWorker};

/// How often a process is asked for news.
const TICK: Duration = Duration::from_millis(20);

/// How often a process is asked that has told nothing for a while: a test that takes minutes.
const LONGEST_TICK: Duration = Duration::from_millis(160);

/// Time to end after the last test. Threads of PyTorch's may never end.
const LEAVING: Duration = Duration::from_secs(10);

/// SIGKILL, with which the kernel ends processes for want of memory.
const KILLED: i32 = 9;

/// Parts of a suite for each worker, so that one does not idle while another has much left.
const PARTS: usize = 4;

/// What the workers share.
pub(crate) struct Engine<'a> {
    pub(crate) driver: &'a dyn TestDriver,
    pub(crate) recorder: &'a RunRecorder,
    pub(crate) listed: &'a BTreeMap<String, ListedTest>,
    pub(crate) limits: &'a SuiteLimits,
    pub(crate) scratch: &'a Path,
    pub(crate) reporter: &'a dyn Reporter,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    batches: VecDeque<Batch>,
    /// Batches that a worker runs now; they may add retries.
    running: usize,
    /// One of them has a test beside which no other may run.
    is_taken: bool,
    failed: Option<Failure>,
    processes: usize,
}

#[derive(Debug)]
struct Batch {
    ids: Vec<String>,
    attempt: u32,
}

/// The next step of a worker.
enum Next {
    Batch(Batch),
    Wait,
    End,
}

/// How one process ended.
#[derive(Debug, Default)]
struct ProcessReport {
    done: BTreeSet<String>,
    /// The tests that ran, in order.
    ran: Vec<String>,
    poisoned: Option<String>,
    /// Why nothing more came, for tests that it did not reach.
    reason: String,
    /// It ended by itself after it had told everything.
    is_finished: bool,
    /// Tests of which it told something else than that they passed or skipped themselves, before
    /// any list is asked.
    bad: BTreeSet<String>,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        driver: &'a dyn TestDriver,
        recorder: &'a RunRecorder,
        listed: &'a BTreeMap<String, ListedTest>,
        limits: &'a SuiteLimits,
        (scratch, reporter): (&'a Path, &'a dyn Reporter),
    ) -> Self {
        Self { driver, recorder, listed, limits, scratch, reporter, queue: Mutex::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the tests. The first worker begins with the process that is `waiting`.
    pub(crate) fn run(
        &self,
        ids: &[String],
        workers: &[TestWorker],
        mut waiting: Option<WaitingProcess>,
    ) -> Result<(), Failure> {
        self.queue().batches = self.batches(ids, workers.len());
        thread::scope(|scope| {
            for worker in workers {
                let waiting = waiting.take();
                scope.spawn(move || self.work(worker, waiting));
            }
        });
        match self.queue().failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// One batch for one worker, since a process that imports torch costs seconds; several for
    /// several, in whole files.
    fn batches(&self, ids: &[String], workers: usize) -> VecDeque<Batch> {
        if self.driver.is_single() {
            // Those that run alone come last, when they keep no other waiting.
            let (alone, beside): (Vec<&String>, Vec<&String>) = ids.iter().partition(|id| self.driver.runs_alone(id));
            let ids = beside.into_iter().chain(alone);
            return ids.map(|id| Batch { ids: vec![id.clone()], attempt: 1 }).collect();
        }
        let most = if workers == 1 { usize::MAX } else { ids.len().div_ceil(workers * PARTS).max(1) };
        let mut batches: VecDeque<Batch> = VecDeque::new();
        for file in ids.chunk_by(|one, other| self.driver.group_of(one) == self.driver.group_of(other)) {
            match batches.back_mut() {
                Some(batch) if self.driver.mixes_groups() && batch.ids.len().saturating_add(file.len()) <= most => {
                    batch.ids.extend_from_slice(file);
                }
                _ => batches.push_back(Batch { ids: file.to_vec(), attempt: 1 }),
            }
        }
        batches
    }

    fn work(&self, worker: &TestWorker, mut waiting: Option<WaitingProcess>) {
        loop {
            let batch = match self.next() {
                Next::Batch(batch) => batch,
                Next::Wait => {
                    thread::sleep(TICK);
                    continue;
                }
                Next::End => return,
            };
            let answer = self.run_batch(worker, &batch, waiting.take());
            let mut queue = self.queue();
            queue.running -= 1;
            queue.is_taken = false;
            if let Err(error) = answer {
                queue.failed.get_or_insert(error);
            }
        }
    }

    fn next(&self) -> Next {
        let mut queue = self.queue();
        if queue.failed.is_some() {
            return Next::End;
        }
        let Some(batch) = queue.batches.front() else {
            return if queue.running == 0 { Next::End } else { Next::Wait };
        };
        let is_alone = batch.ids.iter().any(|id| self.driver.runs_alone(id));
        if queue.is_taken || is_alone && queue.running > 0 {
            return Next::Wait;
        }
        queue.running += 1;
        queue.is_taken = is_alone;
        queue.batches.pop_front().map_or(Next::Wait, Next::Batch)
    }

    fn run_batch(
        &self,
        worker: &TestWorker,
        batch: &Batch,
        mut waiting: Option<WaitingProcess>,
    ) -> Result<(), Failure> {
        let mut left = batch.ids.clone();
        while !left.is_empty() {
            let process = match waiting.take() {
                Some(mut process) => {
                    process.stream.choose(&left)?;
                    process
                }
                None => self.start_process(worker, &left)?,
            };
            let report = self.run_process(worker, process, batch.attempt)?;
            if let Some(id) = &report.poisoned
                && report.ran.first() != Some(id)
                && batch.attempt == 1
                && self.retries_of(id) == 0
            {
                // An earlier test may have lost the GPU, so this one gets a fresh process.
                self.retry(id, batch.attempt);
            }
            let before = left.len();
            left.retain(|id| !report.done.contains(id));
            if !report.ran.is_empty() || left.is_empty() {
                // A process that ends well and leaves tests out was told to (`-x`, `--maxfail`).
                if report.is_finished && report.poisoned.is_none() {
                    self.give_up(&left, "the runner stopped before it");
                    return Ok(());
                }
                // The same process again would tell no more.
                if left.len() == before {
                    self.recorder.problem(format!("`{}` began, and nothing ended", report.ran.join("`, `")));
                    self.give_up(&left, &report.reason);
                    return Ok(());
                }
                continue;
            }
            let files: BTreeSet<&str> = left.iter().map(|id| self.driver.group_of(id)).collect();
            if files.len() > 1 {
                // One of the files keeps the others from running: each gets its own process.
                let parts = left.chunk_by(|one, other| self.driver.group_of(one) == self.driver.group_of(other));
                let parts: Vec<Batch> = parts.map(|ids| Batch { ids: ids.to_vec(), attempt: batch.attempt }).collect();
                self.queue().batches.extend(parts);
                return Ok(());
            }
            let file = files.first().copied().unwrap_or_default();
            self.recorder.problem(format!("no test of `{file}` began: {}", report.reason));
            self.give_up(&left, &report.reason);
            return Ok(());
        }
        Ok(())
    }

    fn give_up(&self, ids: &[String], message: &str) {
        for id in ids {
            self.recorder.attempt(TestAttempt::not_run(id, message));
        }
    }

    fn retry(&self, id: &str, attempt: u32) {
        self.queue().batches.push_back(Batch { ids: vec![id.to_owned()], attempt: attempt + 1 });
    }

    fn retries_of(&self, id: &str) -> u32 {
        let is_flaky = self.listed.get(id).is_some_and(|listed| listed.kind == ListKind::Flaky);
        self.limits.retries.max(u32::from(is_flaky))
    }

    /// Records an attempt as the lists see it, and asks for another one if it may have it.
    fn conclude(&self, mut attempt: TestAttempt, worker: &TestWorker, number: u32) {
        attempt.attempt = number;
        attempt.gpu = self.driver.gpu_of(&attempt.id).or_else(|| worker.gpu.clone());
        let kind = self.listed.get(&attempt.id).map(|listed| listed.kind);
        let is_bad = attempt.outcome.is_bad();
        match kind {
            Some(ListKind::Xfail | ListKind::Quarantine) if is_bad => attempt.outcome = TestOutcome::ExpectedFailure,
            Some(ListKind::Xfail) if attempt.outcome == TestOutcome::Passed => {
                attempt.outcome = TestOutcome::UnexpectedPass;
            }
            _ => {}
        }
        if attempt.outcome.is_bad() && number <= self.retries_of(&attempt.id) {
            self.retry(&attempt.id, number);
        }
        self.reporter.advance(u64::from(number == 1));
        self.recorder.attempt(attempt);
    }

    fn start_process(&self, worker: &TestWorker, ids: &[String]) -> Result<WaitingProcess, Failure> {
        let number = {
            let mut queue = self.queue();
            queue.processes += 1;
            queue.processes
        };
        let scratch = self.scratch.join(format!("process-{number}"));
        fs_err::create_dir_all(&scratch)?;
        let (mut program, stream) = self.driver.start(ids, &scratch)?;
        for (name, value) in &worker.variables {
            program.set(name, value);
        }
        let mark = format!("{}-{number}", scratch.display());
        let running = SupervisedProgram::start_limited(&program, &mark, self.limits.process)?;
        Ok(WaitingProcess { running, program, stream, scratch })
    }

    fn run_process(
        &self,
        worker: &TestWorker,
        process: WaitingProcess,
        attempt: u32,
    ) -> Result<ProcessReport, Failure> {
        let WaitingProcess { running, program, stream, scratch } = process;
        let mut watch = Watch {
            engine: self,
            worker,
            attempt,
            program: &program,
            stream,
            text: BoundedText::default(),
            current: None,
            since: Instant::now(),
            stopped: None,
            memory_kills: memory_kills(),
            report: ProcessReport::default(),
        };
        watch.listen(running)?;
        let report = watch.report;
        // It may be large: files of tests that were killed.
        let _ = fs_err::remove_dir_all(&scratch);
        Ok(report)
    }
}

/// Why the supervisor ended a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Time,
    Excess(ProcessExcess),
    /// It had told everything and did not end.
    Leaving,
}

struct Watch<'a, 'e> {
    engine: &'a Engine<'e>,
    worker: &'a TestWorker,
    attempt: u32,
    program: &'a ProgramLine,
    stream: Box<dyn TestStream>,
    text: BoundedText,
    /// The running test and its begin.
    current: Option<(String, Instant)>,
    /// The last news.
    since: Instant,
    stopped: Option<Stopped>,
    /// Processes that the kernel had ended for want of memory when this one began.
    memory_kills: u64,
    report: ProcessReport,
}

impl Watch<'_, '_> {
    fn listen(&mut self, mut running: SupervisedProgram) -> Result<(), Failure> {
        let mut tick = TICK;
        loop {
            let bytes = running.read(tick);
            let has_news = self.take(&bytes)? || !bytes.is_empty();
            tick = if has_news { TICK } else { (tick * 2).min(LONGEST_TICK) };
            if running.end()?.is_some() {
                break;
            }
            if self.engine.reporter.interrupted() {
                running.stop(Duration::from_secs(2));
                return Err(Interrupted.into());
            }
            self.stopped = self.reason_to_stop(&mut running);
            if let Some(reason) = self.stopped {
                if reason == Stopped::Time
                    && let Some(stacks) = running.stacks(self.program)
                {
                    self.text.push(stacks.as_bytes());
                }
                // Its output is read meanwhile: stacks come with SIGTERM.
                running.stop(if matches!(reason, Stopped::Excess(_)) { Duration::ZERO } else { GRACE / 2 });
                break;
            }
        }
        let excess = running.ran_out_of_memory(self.engine.limits.process);
        self.stopped = self.stopped.or(excess.map(Stopped::Excess));
        let (end, rest, left) = running.finish()?;
        self.take(&rest)?;
        if matches!(self.stopped, None | Some(Stopped::Leaving)) {
            for event in self.stream.close()? {
                self.event(event);
            }
        }
        if left > 0 {
            let what = self.report.ran.last().map_or_else(|| "it".to_owned(), |id| format!("`{id}`"));
            self.engine.reporter.warn(&format!("{left} processes were left after {what} and were ended"));
        }
        self.close(end);
        Ok(())
    }

    fn reason_to_stop(&self, running: &mut SupervisedProgram) -> Option<Stopped> {
        let limits = self.engine.limits;
        let limit = match (&self.current, self.report.is_finished, self.report.ran.is_empty()) {
            (None, true, _) => LEAVING,
            (None, false, true) => limits.collect_timeout,
            // Between tests, fixtures of modules are torn down.
            (Some(_), ..) | (None, false, false) => limits.timeout,
        };
        let since = self.current.as_ref().map_or(self.since, |(_, begun)| *begun);
        if since.elapsed() >= limit {
            return Some(if self.report.is_finished { Stopped::Leaving } else { Stopped::Time });
        }
        running.excess(limits.process).map(Stopped::Excess)
    }

    /// Takes what was printed, and the events that came; `true` if there were some.
    fn take(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let events = self.stream.read(bytes)?;
        let has_events = !events.is_empty();
        if !events.is_empty() {
            self.since = Instant::now();
            let _one_write = self.engine.recorder.gather();
            for event in events {
                self.event(event);
            }
        }
        // After the events: what came at the same time as the end of a test and the begin of the
        // next one is more likely of the next one, which may have died.
        self.text.push(bytes);
        Ok(has_events)
    }

    fn event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Started(id) => {
                self.engine.recorder.started(&id, self.attempt);
                self.report.ran.push(id.clone());
                self.current = Some((id, Instant::now()));
            }
            StreamEvent::Ended(attempt) => {
                self.current = None;
                self.finish_test(attempt);
            }
            StreamEvent::Missing(ids) => {
                for id in ids {
                    let message = "it was collected before, and this process does not have it";
                    let attempt = TestAttempt { outcome: TestOutcome::Error, ..TestAttempt::not_run(&id, message) };
                    self.report.ran.push(id);
                    self.finish_test(attempt);
                }
            }
            StreamEvent::Poisoned(id) => self.report.poisoned = Some(id),
            StreamEvent::Problem(message) => self.engine.recorder.problem(message),
            StreamEvent::Finished => self.report.is_finished = true,
        }
    }

    fn finish_test(&mut self, mut attempt: TestAttempt) {
        let is_bad = attempt.outcome.is_bad() || attempt.outcome == TestOutcome::NotRun;
        let was_told = self.report.done.contains(&attempt.id);
        // A test that one process repeats has its first failure: only a fresh process decides.
        if was_told && (!is_bad || self.report.bad.contains(&attempt.id)) {
            return;
        }
        if is_bad {
            self.report.bad.insert(attempt.id.clone());
        }
        let printed = self.text.take();
        // What a later attempt prints when it passes shows which words are the test's own.
        let is_kept = attempt.outcome.is_bad() || self.attempt > 1;
        if is_kept && attempt.output.is_none() && !printed.trim().is_empty() {
            attempt.output = Some(printed);
        }
        self.report.done.insert(attempt.id.clone());
        self.engine.conclude(attempt, self.worker, self.attempt);
    }

    /// Blames the running test for the end of its process.
    fn close(&mut self, end: ProgramEnd) {
        let seconds = self.engine.limits.timeout.as_secs_f64();
        self.report.reason = match self.stopped {
            Some(Stopped::Time) => format!("the process did not continue within {seconds} s"),
            Some(Stopped::Excess(ProcessExcess::Processes)) => {
                format!("it had more than {} processes", self.engine.limits.process.processes)
            }
            Some(Stopped::Excess(ProcessExcess::Memory { used })) => {
                let most = self.engine.limits.process.memory.unwrap_or_default();
                format!("its processes used {} MiB of memory, and may use {} MiB", used >> 20, most >> 20)
            }
            Some(Stopped::Leaving) | None => format!("the process {}", end.words()),
        };
        let was_killed = self.stopped.is_none() && end == ProgramEnd::Signal(KILLED);
        let by_kernel = was_killed && memory_kills() > self.memory_kills;
        let Some((id, begun)) = self.current.take() else {
            self.end_between_tests(end);
            if self.report.ran.is_empty() && !self.report.is_finished {
                let printed = self.text.take();
                let tail: Vec<&str> = printed.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                self.report.reason.push_str(&format!("; it printed `{}`", tail.join(" | ")));
            }
            return;
        };
        let judged = if self.stopped.is_none() { self.stream.judge(end) } else { None };
        let (outcome, message) = judged.unwrap_or_else(|| match self.stopped {
            Some(Stopped::Time) => (TestOutcome::TimedOut, Some(format!("it did not end within {seconds} s"))),
            Some(Stopped::Excess(ProcessExcess::Memory { .. })) => {
                (TestOutcome::OutOfMemory, Some(self.report.reason.clone()))
            }
            _ => (TestOutcome::Crashed, Some(self.report.reason.clone())),
        });
        let took = begun.elapsed().as_secs_f64();
        let cause = by_kernel.then_some(OutsideCause::MemoryKiller);
        let attempt = TestAttempt { outcome, message, cause, seconds: Some(took), ..TestAttempt::not_run(&id, "") };
        self.finish_test(attempt);
    }

    /// A program that fails or is ended while none of its tests runs: a clean-up that hangs, a
    /// crash at its end. No test has the blame, so the run has.
    fn end_between_tests(&self, end: ProgramEnd) {
        let (Some(first), Some(last)) = (self.report.ran.first(), self.report.ran.last()) else { return };
        let has_failed = !self.report.bad.is_empty();
        let is_expected = match (self.stopped, end) {
            (Some(stopped), _) => stopped == Stopped::Leaving,
            (None, ProgramEnd::Code(0)) => true,
            // What runners say of tests that failed, and pytest of a session that was stopped.
            (None, ProgramEnd::Code(1)) => has_failed,
            (None, ProgramEnd::Code(2)) => self.report.poisoned.is_some(),
            (None, _) => false,
        };
        if is_expected {
            return;
        }
        let group = self.engine.driver.group_of(first);
        let count = self.report.ran.len();
        self.engine.recorder.problem(match self.stopped {
            Some(_) => format!("the process of `{group}` was ended after `{last}`: {}", self.report.reason),
            None if has_failed => format!("the process of `{group}` {} after its tests ({count} ran)", end.words()),
            None => format!("the process of `{group}` {}, and no test of it failed ({count} ran)", end.words()),
        });
    }
}
