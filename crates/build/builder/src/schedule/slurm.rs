//! Plans on Slurm: submits cells, waits for them and cancels them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_progress::{Exit, Failure, Reporter, Unit, with_causes};

use super::{Runner, States, worst};
use crate::execute::StageSelection;
use crate::slurm::{self, Alone, Client, Launch, Queued, Submitted};
use rocwheel_recipe::plan::{Ended, PlanFolder, Seen, State};
use rocwheel_recipe::surroundings::Surroundings;

/// Interval at which the records of the cells are read.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval at which Slurm is asked. Every query is work for the controller of the whole cluster.
const ASK_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub struct Cluster {
    /// Path of this program, valid on the nodes too.
    pub program: PathBuf,
    /// Options of `rocwheel build` for every task.
    pub options: Vec<String>,
    /// Options of sbatch; they override the requests of the recipes.
    pub sbatch: Vec<String>,
    /// `true` if the run waits until all cells have ended.
    pub wait: bool,
}

/// The queue of Slurm: cell → its task.
pub type Queue = BTreeMap<String, Queued>;

#[derive(Debug, Clone)]
pub struct Cancelled {
    /// Number of cells that the tasks were for.
    pub cells: usize,
    /// Slurm's job numbers, sorted.
    pub jobs: Vec<u64>,
}

/// Submits the cells that are neither built nor submitted already.
pub(super) fn hand_over(
    folder: &PlanFolder,
    named: &[String],
    cluster: &Cluster,
    runner: &Runner<'_>,
) -> Result<States, Failure> {
    let (executors, reporter) = (runner.executors, runner.listener.reporter());
    let client = Client { environment: &executors.place.surroundings, reporter };
    let alone = Alone::with(folder)?;
    let queue = slurm::queue(folder, &client)?;
    let wanted = cells_to_submit(folder, named, &queue)?;
    let (mut options, mut first) = (cluster.options.clone(), Vec::new());
    match &executors.selection {
        StageSelection::Rest => {}
        // A task that Slurm starts again continues where it was, but never beyond the selected
        // stage.
        StageSelection::Only(step) => options.extend(["--only".into(), step.clone()]),
        StageSelection::From(step) => first.extend(["--from".into(), step.clone()]),
    }
    let launch = Launch {
        program: cluster.program.clone(),
        options,
        first,
        sbatch: cluster.sbatch.clone(),
        limit: executors.time_limit.map(|limit| (limit.as_secs() / 60).max(1)),
    };
    let submitted = slurm::submit(folder, &wanted, &launch, &client)?;
    drop(alone);
    runner.listener.submitted(folder, &submitted, wanted.len());
    if cluster.wait {
        wait(folder, &client, runner)?;
    }
    Ok(States { submitted: Some(submitted), ..States::default() })
}

/// The cells of a plan, or the named ones of it, that have no result and no task.
fn cells_to_submit(folder: &PlanFolder, named: &[String], queue: &Queue) -> Result<Vec<String>, Failure> {
    let chosen =
        named.iter().map(|name| Ok(folder.plan.cell(name)?.id.clone())).collect::<Result<Vec<_>, Failure>>()?;
    let seen = folder.look()?;
    let wanted = seen.iter().filter(|seen| chosen.is_empty() || chosen.contains(&seen.cell.id));
    let open = wanted.filter(|seen| match seen.state {
        State::LeftOut(_) | State::Running => false,
        State::Ended(ended) => !ended.is_there(),
        State::Waiting | State::Lost => true,
    });
    let without_task = open.filter(|seen| !queue.get(&seen.cell.id).is_some_and(Queued::is_active));
    Ok(without_task.map(|seen| seen.cell.id.clone()).collect())
}

/// The state of a plan in Slurm. `None` if nothing of it was submitted, or if Slurm does not
/// answer, which is a warning.
pub fn ask(folder: &PlanFolder, surroundings: &Surroundings, reporter: &dyn Reporter) -> Option<Queue> {
    let client = Client { environment: surroundings, reporter };
    match Submitted::read(folder) {
        Ok(submitted) if submitted.arrays.is_empty() => return None,
        Ok(_) => {}
        Err(error) => {
            reporter.warn(&with_causes(&error));
            return None;
        }
    }
    match slurm::states(folder, &client) {
        Ok(queue) => Some(queue),
        Err(error) => {
            reporter.warn(&format!("{}; what follows is what the plan's folder says", with_causes(&error)));
            None
        }
    }
}

/// Waits until no cell runs or is in the queue. If the user stops waiting, the tasks continue.
fn wait(folder: &PlanFolder, client: &Client<'_>, runner: &Runner<'_>) -> Result<(), Failure> {
    let reporter = runner.listener.reporter();
    let stage = reporter.stage("Waiting for Slurm", Some(folder.plan.to_build().count() as u64), Unit::Items);
    let ended = watch_until_over(folder, client, reporter);
    drop(stage);
    if ended.as_ref().is_err_and(|failure| failure.exit() == Exit::Interrupted) {
        let shown = folder.path().display();
        runner.listener.note(&format!("the tasks continue; `rocwheel build cancel {shown}` ends them"));
    }
    ended
}

fn watch_until_over(folder: &PlanFolder, client: &Client<'_>, reporter: &dyn Reporter) -> Result<(), Failure> {
    let (mut asked, mut done, mut queue) = (None::<Instant>, 0, None::<Queue>);
    loop {
        reporter.check()?;
        if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
            queue = match slurm::queue(folder, client) {
                Ok(queue) => Some(queue),
                // The controller may be restarting. Nothing counts as ended until it has answered
                // once.
                Err(error) if error.exit() == Exit::TryAgain => {
                    if queue.is_none() && asked.is_none() {
                        reporter.warn(&format!("{}; it is asked again", with_causes(&error)));
                    }
                    queue
                }
                Err(error) => return Err(error),
            };
            asked = Some(Instant::now());
        }
        let seen = folder.look()?;
        let with_result = seen.iter().filter(|seen| matches!(seen.state, State::Ended(ended) if ended.is_there()));
        let over = with_result.count() as u64;
        reporter.advance(over.saturating_sub(done));
        done = done.max(over);
        let is_unfinished = seen.iter().any(|seen| !matches!(seen.state, State::Ended(_) | State::LeftOut(_)));
        let is_open = match &queue {
            Some(queue) => seen
                .iter()
                .any(|seen| seen.state == State::Running || queue.get(&seen.cell.id).is_some_and(Queued::is_active)),
            None => is_unfinished,
        };
        if !is_open {
            return Ok(());
        }
        if !is_unfinished {
            // The rest of the queue is Slurm's own book-keeping, or a task that continues after a
            // limit, so the next query comes soon.
            asked = asked.filter(|asked| asked.elapsed() < LOOK_EVERY);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Cancels the tasks of a plan.
pub fn cancel(folder: &PlanFolder, surroundings: &Surroundings, reporter: &dyn Reporter) -> Result<Cancelled, Failure> {
    let client = Client { environment: surroundings, reporter };
    let queue = slurm::queue(folder, &client)?;
    let active: Vec<&Queued> = queue.values().filter(|queued| queued.is_active()).collect();
    let mut jobs: Vec<u64> = active.iter().map(|queued| queued.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    client.cancel(&jobs)?;
    Ok(Cancelled { cells: active.len(), jobs })
}

/// The exit code of a plan: that of its worst cell, or [`Exit::Partial`] while cells are still to
/// come.
pub fn exit_of(seen: &[Seen<'_>], queue: Option<&Queue>) -> Exit {
    let exits = seen.iter().map(|seen| {
        let is_active = queue.and_then(|queue| queue.get(&seen.cell.id)).is_some_and(Queued::is_active);
        match seen.state {
            State::Ended(ended) if ended.is_there() => Exit::Done,
            State::Ended(Ended::Partly) | State::LeftOut(_) => Exit::Done,
            State::Ended(ended) if !is_active && ![Ended::Stopped, Ended::Interrupted].contains(&ended) => Exit::Failed,
            _ => Exit::Partial,
        }
    });
    worst(&exits.collect::<Vec<_>>())
}
