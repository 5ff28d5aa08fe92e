//! Input: the cells of a plan, to run here or as a task of a cluster. Output: the outcome of each,
//! recorded in the plan's folder.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use rocwheel_progress::{Exit, Failure, Reporter, one_line, with_causes};

use super::{JobResult, Queue, Runner, States, Turned};
use crate::error::failed_step;
use crate::execute::{JobOutcome, JobPlace, Listener};
use crate::preflight::Estimated;
use rocwheel_recipe::Job;
use rocwheel_recipe::plan::{End, Ended, PlanFolder, PlannedCell, Taken};

/// Time that a task waits for the previous holder of its cell. A lost node holds its locks until
/// the file server notices.
const PATIENCE: Duration = Duration::from_mins(10);

/// The cells of a plan that remain, or those that the user names.
pub(super) struct Cells<'a> {
    folder: &'a PlanFolder,
    cells: Vec<&'a PlannedCell>,
    begun: usize,
}

impl<'a> Cells<'a> {
    pub(super) fn new(folder: &'a PlanFolder, named: &[String]) -> Result<Cells<'a>, Failure> {
        let cells = if named.is_empty() {
            folder.plan.to_build().collect()
        } else {
            named.iter().map(|id| folder.plan.cell(id)).collect::<Result<_, _>>()?
        };
        Ok(Cells { folder, cells, begun: 0 })
    }
}

impl<'a> Queue for Cells<'a> {
    type Turn = &'a PlannedCell;

    fn next(&mut self, runner: &Runner<'_>, states: &mut States) -> Result<Option<&'a PlannedCell>, Failure> {
        let Some(&cell) = self.cells.get(self.begun) else { return Ok(None) };
        if runner.is_late() {
            states.exits.push(Exit::Partial);
            return Ok(None);
        }
        self.begun += 1;
        if self.cells.len() > 1 {
            runner.listener.note(&format!("{} of {}: {}", self.begun, self.cells.len(), cell.title));
        }
        Ok(Some(cell))
    }

    fn build(&mut self, cell: &&'a PlannedCell, runner: &Runner<'_>) -> Result<Turned, Failure> {
        let exit = CellRun::new(self.folder, runner).cell(cell)?;
        Ok(Turned { result: None, exit, is_last: false })
    }

    fn failed(&mut self, _: &&'a PlannedCell, error: Failure) -> Result<(Failure, Option<JobResult>), Failure> {
        Ok((error, None))
    }
}

struct CellRun<'a> {
    folder: &'a PlanFolder,
    runner: &'a Runner<'a>,
    host: String,
    /// The cluster task of this process, `123_4`; `None` outside a cluster.
    task: Option<String>,
}

impl<'a> CellRun<'a> {
    fn new(folder: &'a PlanFolder, runner: &'a Runner<'a>) -> CellRun<'a> {
        let surroundings = &runner.executors.place.surroundings;
        let [job, task, host] = ["SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURMD_NODENAME"]
            .map(|name| surroundings.get(name).filter(|value| !value.is_empty()));
        let task = job.zip(task).map(|(job, task)| format!("{job}_{task}"));
        let host = host.unwrap_or(&runner.executors.host).clone();
        CellRun { folder, runner, host, task }
    }

    /// Runs a cell and records how it ended.
    fn cell(&self, cell: &PlannedCell) -> Result<Exit, Failure> {
        let reporter = self.runner.listener.reporter();
        let patience = if self.task.is_some() { PATIENCE } else { Duration::ZERO };
        let mut taken = self.folder.take(cell, patience, reporter)?;
        let is_there = taken.last().is_some_and(|end| end.status.is_there());
        if !is_there {
            taken.begin(&self.host, self.task.clone())?;
        }
        let job = match self.folder.job(cell)? {
            Ok(job) => job,
            Err(before) => {
                let error = format!("{before} was not built");
                reporter.warn(&format!("{} is skipped: {error}", cell.title));
                taken.end(End { error: Some(error), ..end(Ended::LeftOut, Exit::Failed) })?;
                return Ok(Exit::Failed);
            }
        };
        // A cell whose result exists begins a new attempt only if part of the result is gone.
        let watch = Watch::new(self.runner.listener, taken, is_there.then(|| (self.host.clone(), self.task.clone())));
        let outcome = self.build(&job, &cell.folder, &watch);
        let (mut taken, is_begun) = watch.conclude();
        // A container does not report its stages.
        let is_new = !is_begun && !matches!(outcome, Ok(JobOutcome::Unchanged { .. }));
        if is_new {
            taken.begin(&self.host, self.task.clone())?;
        }
        if let Err(error) = &outcome
            && let Some(failure) = failed_step(error)
        {
            taken.stage(&failure.step, &failure.log)?;
        }
        let (end, answer) = match outcome {
            Ok(outcome) => (of_outcome(&outcome), Ok(outcome.exit())),
            Err(error) => (of_error(&error), Err(error)),
        };
        // A result that existed before and still exists is not an attempt.
        if (is_begun || is_new)
            && let Err(error) = taken.end(end)
        {
            // The failure of the cell is more important: a full disk is often the cause of both.
            if answer.is_ok() {
                return Err(error.into());
            }
            reporter.warn(&with_causes(&error));
        }
        answer
    }

    fn build(&self, job: &Job, folder: &str, watch: &Watch<'_>) -> Result<JobOutcome, Failure> {
        let (plan, place) = (&self.folder.plan, &self.runner.executors.place);
        let place = JobPlace { output: plan.output.join(folder), work: plan.work.clone(), ..place.clone() };
        let settled = self.runner.settled(job)?;
        self.runner.execute(&settled, &place, watch)
    }
}

/// Forwards events, and records the progress of a cell.
struct Watch<'a> {
    listener: &'a dyn Listener,
    taken: RefCell<Taken>,
    /// Host and task of an attempt that is recorded when its first stage begins.
    attempt: RefCell<Option<(String, Option<String>)>>,
    /// The first failure to write a record.
    failed: RefCell<Option<Failure>>,
}

impl<'a> Watch<'a> {
    fn new(listener: &'a dyn Listener, taken: Taken, attempt: Option<(String, Option<String>)>) -> Watch<'a> {
        Watch { listener, taken: RefCell::new(taken), attempt: RefCell::new(attempt), failed: RefCell::new(None) }
    }

    /// The cell, and `true` if its attempt is recorded.
    fn conclude(self) -> (Taken, bool) {
        if let Some(error) = self.failed.into_inner() {
            self.listener.reporter().warn(&with_causes(&error));
        }
        (self.taken.into_inner(), self.attempt.into_inner().is_none())
    }
}

impl Listener for Watch<'_> {
    fn reporter(&self) -> &dyn Reporter {
        self.listener.reporter()
    }

    fn note(&self, text: &str) {
        self.listener.note(text);
    }

    fn detail(&self, text: &str) {
        self.listener.detail(text);
    }

    fn begins(&self, title: &str, stage: &str, log: &Path) {
        self.listener.begins(title, stage, log);
        let mut taken = self.taken.borrow_mut();
        let begun = match self.attempt.borrow_mut().take() {
            Some((host, task)) => taken.begin(&host, task),
            None => Ok(()),
        };
        if let Err(error) = begun.and_then(|()| taken.stage(stage, log)) {
            self.failed.borrow_mut().get_or_insert(error.into());
        }
    }

    fn done(&self, title: &str, stage: &str, took: Duration) {
        self.listener.done(title, stage, took);
    }

    fn estimated(&self, title: &str, estimated: &Estimated) {
        self.listener.estimated(title, estimated);
    }

    fn remarks(&self, title: &str, count: usize) {
        self.listener.remarks(title, count);
    }
}

fn end(status: Ended, exit: Exit) -> End {
    End { status, seconds: 0.0, outputs: Vec::new(), error: None, cause: None, tail: Vec::new(), exit: exit as u8 }
}

fn of_outcome(outcome: &JobOutcome) -> End {
    match outcome {
        JobOutcome::Built { outputs, .. } => End { outputs: outputs.clone(), ..end(Ended::Built, Exit::Done) },
        JobOutcome::Unchanged { outputs } => End { outputs: outputs.clone(), ..end(Ended::Unchanged, Exit::Done) },
        JobOutcome::Ready { .. } | JobOutcome::Partly { .. } => end(Ended::Partly, Exit::Done),
        JobOutcome::Stopped { .. } => end(Ended::Stopped, Exit::Partial),
    }
}

fn of_error(error: &Failure) -> End {
    let exit = error.exit();
    if let Some(failure) = failed_step(error) {
        return End {
            error: Some(format!("step `{}`: {}", failure.step, failure.reason)),
            cause: failure.cause.clone(),
            tail: failure.tail.clone(),
            ..end(Ended::Failed, exit)
        };
    }
    let status = if exit == Exit::Interrupted { Ended::Interrupted } else { Ended::Failed };
    let text = one_line(&with_causes(error)).into_owned();
    End { error: Some(text), cause: error.hint().map(str::to_owned), ..end(status, exit) }
}
