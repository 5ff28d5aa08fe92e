//! Runs the cells of a plan, here or as a task of a cluster, and writes down what becomes of each.

use std::cell::RefCell;
use std::path::Path;
use std::time::{Duration, Instant};

use rocwheel_recipe::Job;
use rocwheel_recipe::execute::{Listener, Outcome, Place};
use rocwheel_recipe::plan::{End, Ended, PlanFolder, PlannedCell, Taken};
use rocwheel_recipe::preflight::Estimated;
use rocwheel_report::{Exit, Hint as _};

use super::{Run, Settings, states, text};
use crate::failure;
use crate::printer::{self, Format, Printer};

/// How long a task waits for the one that had its cell before: a node that is lost holds its locks
/// until the file server notices.
const PATIENCE: Duration = Duration::from_mins(10);

/// Runs what is left of a plan, or the cells that are named, one after the other. What a cell comes
/// to does not stop the others.
pub(super) fn run(
    folder: &PlanFolder,
    named: &[String],
    settings: &Settings,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let cells: Vec<&PlannedCell> = if named.is_empty() {
        folder.plan.to_build().collect()
    } else {
        named.iter().map(|id| folder.plan.cell(id)).collect::<Result<_, _>>()?
    };
    let mut runner = Runner::new(folder, settings, printer);
    let mut exits = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        if runner.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            exits.push(Exit::Partial);
            break;
        }
        if cells.len() > 1 {
            printer.note(format!("{} of {}: {}", number + 1, cells.len(), cell.title));
        }
        match runner.cell(cell) {
            Ok(exit) => exits.push(exit),
            Err(error) => {
                let exit = failure::print(&error);
                if exit == Exit::Interrupted {
                    states::table(folder, printer, None)?;
                    return Ok(Exit::Interrupted);
                }
                exits.push(exit);
            }
        }
    }
    if named.len() != 1 || printer.format() == Format::Json {
        states::table(folder, printer, None)?;
    }
    Ok(super::worst(&exits))
}

struct Runner<'a> {
    folder: &'a PlanFolder,
    settings: &'a Settings,
    printer: &'a Printer,
    deadline: Option<Instant>,
    host: String,
    /// The task of the cluster that this is.
    task: Option<String>,
}

impl<'a> Runner<'a> {
    fn new(folder: &'a PlanFolder, settings: &'a Settings, printer: &'a Printer) -> Runner<'a> {
        let variable = |name: &str| settings.place.surroundings.get(name).filter(|value| !value.is_empty()).cloned();
        let task = match (variable("SLURM_ARRAY_JOB_ID"), variable("SLURM_ARRAY_TASK_ID")) {
            (Some(job), Some(task)) => Some(format!("{job}_{task}")),
            _ => None,
        };
        let host = variable("SLURMD_NODENAME").or_else(crate::environment::host).unwrap_or_default();
        let deadline = settings.time_limit.map(|limit| Instant::now() + limit);
        Runner { folder, settings, printer, deadline, host, task }
    }

    /// One cell. Errors of the build are its state; those that are given back are of the plan
    /// itself, and the user's wish to stop.
    fn cell(&mut self, cell: &PlannedCell) -> anyhow::Result<Exit> {
        let patience = if self.task.is_some() { PATIENCE } else { Duration::ZERO };
        let mut taken = self.folder.take(cell, patience, self.printer.reporter())?;
        let is_there = taken.last().is_some_and(|end| end.status.is_there());
        if !is_there {
            taken.begin(&self.host, self.task.clone())?;
        }
        let job = match self.folder.job(cell)? {
            Ok(job) => job,
            Err(before) => {
                let error = format!("{before} was not built");
                self.printer.warn(format!("{} is skipped: {error}", cell.title));
                taken.end(End { error: Some(error), ..end(Ended::LeftOut, Exit::Failed) })?;
                return Ok(Exit::Failed);
            }
        };
        let watch = Watch {
            talk: text::Talk { printer: self.printer },
            // A cell that is there is begun again only when something of it is gone.
            begun: RefCell::new(is_there.then(|| (self.host.clone(), self.task.clone()))),
            taken: RefCell::new(taken),
            failed: RefCell::new(None),
        };
        let outcome = self.build(&job, &cell.folder, &watch);
        let is_begun = watch.begun.borrow().is_none();
        if let Some(error) = watch.failed.into_inner() {
            self.printer.warn(rocwheel_report::with_causes(&error));
        }
        let mut taken = watch.taken.into_inner();
        // From inside a container nothing is heard of stages.
        let is_new = !is_begun && !matches!(outcome, Ok(Outcome::Unchanged { .. }));
        if is_new {
            taken.begin(&self.host, self.task.clone())?;
        }
        let (end, answer) = match outcome {
            Ok(outcome) => {
                let end = of_outcome(&outcome);
                let exit = if end.status == Ended::Stopped { Exit::Partial } else { Exit::Done };
                (end, Ok(exit))
            }
            Err(error) => {
                let exit = error
                    .chain()
                    .find_map(|error| error.downcast_ref::<rocwheel_recipe::Error>())
                    .map_or(Exit::Failed, rocwheel_report::Hint::exit);
                let known = error.chain().find_map(|error| error.downcast_ref::<rocwheel_recipe::Error>());
                // From inside a container nothing was heard of stages.
                if let Some(failure) = known.and_then(rocwheel_recipe::Error::failed_step) {
                    taken.stage(&failure.step, &failure.log)?;
                }
                (of_error(&error, exit), Err(error))
            }
        };
        // What was there and is there still is no attempt.
        if (is_begun || is_new)
            && let Err(error) = taken.end(end)
        {
            // What went wrong with the cell is worth more: a full disk is often the cause of both.
            if answer.is_ok() {
                return Err(error.into());
            }
            self.printer.warn(rocwheel_report::with_causes(&error));
        }
        answer
    }

    fn build(&self, job: &Job, folder: &str, watch: &Watch<'_>) -> anyhow::Result<Outcome> {
        let plan = &self.folder.plan;
        let place = Place { output: plan.output.join(folder), work: plan.work.clone(), ..self.settings.place.clone() };
        let run = Run { settings: self.settings, deadline: self.deadline, printer: self.printer, done: Vec::new() };
        let settled = run.settled(job)?;
        run.execute(&settled, &place, watch)
    }
}

/// Tells people, and writes down, how far a cell is.
struct Watch<'a> {
    talk: text::Talk<'a>,
    taken: RefCell<Taken>,
    /// Host and task of an attempt that is not written down yet.
    begun: RefCell<Option<(String, Option<String>)>>,
    /// What went wrong when it was.
    failed: RefCell<Option<rocwheel_recipe::Error>>,
}

impl Listener for Watch<'_> {
    fn begins(&self, title: &str, stage: &str, log: &Path) {
        self.talk.begins(title, stage, log);
        let mut taken = self.taken.borrow_mut();
        let begun = match self.begun.borrow_mut().take() {
            Some((host, task)) => taken.begin(&host, task),
            None => Ok(()),
        };
        if let Err(error) = begun.and_then(|()| taken.stage(stage, log)) {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    fn done(&self, title: &str, stage: &str, took: Duration) {
        self.talk.done(title, stage, took);
    }

    fn estimated(&self, title: &str, estimated: &Estimated) {
        self.talk.estimated(title, estimated);
    }

    fn remarks(&self, title: &str, count: usize) {
        self.talk.remarks(title, count);
    }
}

fn end(status: Ended, exit: Exit) -> End {
    End { status, seconds: 0.0, outputs: Vec::new(), error: None, cause: None, tail: Vec::new(), exit: exit as u8 }
}

fn of_outcome(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Built { outputs, .. } => End { outputs: outputs.clone(), ..end(Ended::Built, Exit::Done) },
        Outcome::Unchanged { outputs } => End { outputs: outputs.clone(), ..end(Ended::Unchanged, Exit::Done) },
        Outcome::Ready { .. } | Outcome::Partly { .. } => end(Ended::Partly, Exit::Done),
        Outcome::Stopped { .. } => end(Ended::Stopped, Exit::Partial),
    }
}

fn of_error(error: &anyhow::Error, exit: Exit) -> End {
    let known = error.chain().find_map(|error| error.downcast_ref::<rocwheel_recipe::Error>());
    if let Some(failure) = known.and_then(rocwheel_recipe::Error::failed_step) {
        return End {
            error: Some(format!("step `{}`: {}", failure.step, failure.reason)),
            cause: failure.cause.clone(),
            tail: failure.tail.clone(),
            ..end(Ended::Failed, exit)
        };
    }
    let status = if exit == Exit::Interrupted { Ended::Interrupted } else { Ended::Failed };
    let text = printer::one_line(&format!("{error:#}")).into_owned();
    End { error: Some(text), cause: known.and_then(rocwheel_recipe::Error::hint), ..end(status, exit) }
}
