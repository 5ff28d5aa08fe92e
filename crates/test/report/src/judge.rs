//! Input: all tries at a test. Output: its outcome.
//!
//! Of the tries of one job the last one counts. Several jobs do not undo each other: of their
//! outcomes the worst one counts.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::job::TestJob;
use crate::model::{ReportedAttempt, ReportedRun, ReportedTest};
use crate::outcome::{TestOutcome, TestRunFacts, plain_target};

/// The facts that decide about the tries of a run.
#[derive(Debug)]
pub(crate) struct JudgedRun<'a> {
    time: Option<Timestamp>,
    /// The number of its job.
    job: usize,
    /// Runs with one number stand for each other where a test did not run.
    reach: usize,
    /// The facts, if the GPUs of the run have several targets.
    mixed: Option<&'a TestRunFacts>,
}

impl<'a> JudgedRun<'a> {
    pub(crate) fn all(
        times: &[Option<Timestamp>],
        jobs: &[Option<TestJob>],
        runs: &'a [ReportedRun],
    ) -> Vec<JudgedRun<'a>> {
        let (mut numbers, mut reaches): (HashMap<&TestJob, usize>, HashMap<TestJob, usize>) = Default::default();
        let mut judged = Vec::with_capacity(runs.len());
        for (index, run) in runs.iter().enumerate() {
            let job = jobs[index].as_ref();
            judged.push(JudgedRun {
                time: times[index],
                job: job.map_or(index, |job| *numbers.entry(job).or_insert(index)),
                reach: job.map_or(index, |job| *reaches.entry(job.anywhere()).or_insert(index)),
                mixed: run.facts.as_ref().filter(|facts| facts.targets().len() > 1),
            });
        }
        judged
    }

    /// The job of a try, and its GPU target where one run has several.
    fn job_of(&self, attempt: &ReportedAttempt) -> (usize, Option<&'a str>) {
        let target = self.mixed.and_then(|facts| plain_target(facts.gpus.get(attempt.gpu.as_ref()?)?));
        (self.job, target)
    }
}

/// Remarks about a test beside its outcome.
#[derive(Debug, Default)]
pub(crate) struct JudgedTest {
    /// Its tries contradict each other and have no order.
    pub(crate) is_mixed: bool,
    /// It failed in one job, and passed in another.
    pub(crate) passed_elsewhere: bool,
}

/// How bad an outcome is. Outcomes that say that a test did not run come first.
pub(crate) fn rank(outcome: TestOutcome) -> u8 {
    match outcome {
        TestOutcome::NotRun => 0,
        TestOutcome::Deselected => 1,
        TestOutcome::Skipped => 2,
        TestOutcome::Passed => 3,
        TestOutcome::ExpectedFailure => 4,
        TestOutcome::UnexpectedPass => 5,
        TestOutcome::Unknown => 6,
        TestOutcome::Failed => 7,
        TestOutcome::Error => 8,
        TestOutcome::TimedOut => 9,
        TestOutcome::OutOfMemory => 10,
        TestOutcome::Crashed => 11,
    }
}

/// How bad an outcome is beside those of other jobs: a pass there is not a pass of a test that did
/// not run here.
fn rank_of_job(outcome: TestOutcome) -> (bool, bool, bool, u8) {
    let (is_unknown, is_not_run) = (outcome == TestOutcome::Unknown, outcome == TestOutcome::NotRun);
    (outcome.is_bad(), is_unknown, is_not_run, rank(outcome))
}

fn did_run(attempt: &ReportedAttempt) -> bool {
    rank(attempt.outcome) > 1
}

fn run_of<'r, 'a>(attempt: &ReportedAttempt, runs: &'r [JudgedRun<'a>]) -> &'r JudgedRun<'a> {
    &runs[attempt.run as usize]
}

pub(crate) fn judge(test: &mut ReportedTest, runs: &[JudgedRun<'_>]) -> JudgedTest {
    let mut judged = JudgedTest::default();
    let ran = test.attempts.iter().filter(|one| did_run(one));
    let mut reached: Vec<usize> = ran.map(|one| run_of(one, runs).reach).collect();
    reached.sort_unstable();
    reached.dedup();
    test.attempts.retain(|one| did_run(one) || reached.binary_search(&run_of(one, runs).reach).is_err());
    test.attempts.sort_by_key(|attempt| (run_of(attempt, runs).time, attempt.run, attempt.attempt));
    let mut jobs: Vec<(usize, Option<&str>)> = test.attempts.iter().map(|one| run_of(one, runs).job_of(one)).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let mut outcomes = Vec::with_capacity(jobs.len());
    for job in jobs {
        let tries: Vec<&ReportedAttempt> =
            test.attempts.iter().filter(|one| run_of(one, runs).job_of(one) == job).collect();
        let (outcome, is_mixed) = outcome_of_job(&tries, runs);
        judged.is_mixed |= is_mixed;
        outcomes.push(outcome);
    }
    let Some(worst) = outcomes.iter().copied().max_by_key(|outcome| rank_of_job(*outcome)) else { return judged };
    judged.passed_elsewhere = worst.is_bad() && outcomes.iter().any(|outcome| outcome.is_pass());
    test.outcome = worst;
    test.flaky = test.outcome == TestOutcome::Passed
        && test.attempts.iter().any(|attempt| attempt.outcome.is_bad() && attempt.cause.is_none());
    judged
}

fn says_something(outcome: TestOutcome) -> bool {
    !outcome.tried_nothing() && outcome != TestOutcome::Unknown
}

/// The outcome of the tries of one job, which are sorted by time; `true` if they contradict each
/// other and have no order.
fn outcome_of_job(tries: &[&ReportedAttempt], runs: &[JudgedRun<'_>]) -> (TestOutcome, bool) {
    // A try that skipped itself after a failure says nothing against that failure.
    let was_bad = tries.iter().any(|attempt| attempt.outcome.is_bad());
    let Some(last) = tries.iter().rfind(|attempt| !was_bad || says_something(attempt.outcome)) else {
        return (TestOutcome::NotRun, false);
    };
    let mut order: Vec<(u32, Option<Timestamp>)> =
        tries.iter().map(|one| (one.run, runs[one.run as usize].time)).collect();
    order.dedup_by_key(|(run, _)| *run);
    let has_order = order.len() < 2 || order.windows(2).all(|pair| pair[0].1.is_some() && pair[0].1 < pair[1].1);
    let is_mixed = !has_order && tries.iter().any(|attempt| attempt.outcome != last.outcome);
    let worst = tries.iter().map(|attempt| attempt.outcome).max_by_key(|outcome| rank(*outcome));
    (if is_mixed { worst.unwrap_or(last.outcome) } else { last.outcome }, is_mixed)
}
