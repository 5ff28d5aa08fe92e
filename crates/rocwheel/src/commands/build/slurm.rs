//! Plans on Slurm, and what became of plans wherever they run.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rocwheel_recipe::Error;
use rocwheel_recipe::execute::Selection;
use rocwheel_recipe::plan::{PlanFolder, Seen, State};
use rocwheel_recipe::slurm::{self, Alone, Client, Launch, Queued, Submitted};
use rocwheel_report::{Exit, Interrupted, Unit};

use super::plan::Asked;
use super::states::Before;
use super::{Settings, cells, states};
use crate::commands::Mode;
use crate::environment;
use crate::printer::{self, Format, Printer};

/// How often it is looked whether cells have ended.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often Slurm is asked: every question is work for the controller of the whole cluster.
const ASK_EVERY: Duration = Duration::from_secs(10);

/// Does what is asked of a plan that is there.
pub(super) fn asked(asked: &Asked, settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    match asked {
        Asked::Run(folder, named) => {
            let folder = PlanFolder::open(folder)?;
            if settings.mode == Mode::DryRun {
                return states::planned(&folder.plan, &Before::default(), settings.choices.excluded, printer);
            }
            if settings.is_for_slurm() {
                return submit(&folder, named, settings, printer);
            }
            cells::run(&folder, named, settings, printer)
        }
        Asked::Status(place) => {
            let folder = last(place, printer)?;
            let queue = ask(&folder, settings, printer);
            states::table(&folder, printer, queue.as_ref())?;
            let seen = folder.look()?;
            Ok(states::exit(&seen, queue.as_ref()))
        }
        Asked::Cancel(place) => cancel(&last(place, printer)?, settings, printer),
        Asked::Logs(place, named) => states::logs(&last(place, printer)?, named, printer),
    }
}

/// The plan of a folder; of several the one that was used last.
fn last(place: &Path, printer: &Printer) -> anyhow::Result<PlanFolder> {
    let all = PlanFolder::all_in(place)?;
    if all.len() > 1 {
        let others: Vec<String> = all[1..].iter().map(|path| path.display().to_string()).collect();
        printer.note(format!("there are other plans: {}", others.join(", ")));
    }
    Ok(PlanFolder::open(&all[0])?)
}

/// What Slurm has of a plan; nothing when none of it was given to Slurm, or it does not answer.
fn ask(folder: &PlanFolder, settings: &Settings, printer: &Printer) -> Option<BTreeMap<String, Queued>> {
    let client = Client { environment: &settings.place.surroundings, reporter: printer.reporter() };
    match Submitted::read(folder) {
        Ok(submitted) if submitted.arrays.is_empty() => return None,
        Ok(_) => {}
        Err(error) => {
            printer.warn(rocwheel_report::with_causes(&error));
            return None;
        }
    }
    match slurm::states(folder, &client) {
        Ok(queue) => Some(queue),
        Err(error) => {
            printer
                .warn(format!("{}; what follows is what the plan's folder says", rocwheel_report::with_causes(&error)));
            None
        }
    }
}

/// Gives a plan to Slurm, what of it is neither built nor with it already.
pub(super) fn submit(
    folder: &PlanFolder,
    named: &[String],
    settings: &Settings,
    printer: &Printer,
) -> anyhow::Result<Exit> {
    let client = Client { environment: &settings.place.surroundings, reporter: printer.reporter() };
    let alone = Alone::with(folder)?;
    let queue = slurm::queue(folder, &client)?;
    let chosen = named.iter().map(|name| Ok(folder.plan.cell(name)?.id.clone())).collect::<Result<Vec<_>, Error>>()?;
    let seen = folder.look()?;
    let is_wanted = |cell: &str| chosen.is_empty() || chosen.iter().any(|one| one == cell);
    let is_open = |state: &State| match state {
        State::LeftOut(_) | State::Running => false,
        State::Ended(ended) => !ended.is_there(),
        State::Waiting | State::Lost => true,
    };
    let wanted: Vec<String> = seen
        .iter()
        .filter(|seen| is_open(&seen.state) && is_wanted(&seen.cell.id))
        .filter(|seen| !queue.get(&seen.cell.id).is_some_and(Queued::is_active))
        .map(|seen| seen.cell.id.clone())
        .collect();
    let (mut options, mut first) = (settings.task_options.clone(), Vec::new());
    match &settings.selection {
        Selection::Rest => {}
        // A task that Slurm starts again goes on where it was, but never beyond what was asked for.
        Selection::Only(step) => options.extend(["--only".into(), step.clone()]),
        Selection::From(step) => first.extend(["--from".into(), step.clone()]),
    }
    let launch = Launch {
        program: environment::this_program()?,
        options,
        first,
        sbatch: settings.choices.sbatch.clone(),
        limit: settings.time_limit.map(|limit| (limit.as_secs() / 60).max(1)),
    };
    let submitted = slurm::submit(folder, &wanted, &launch, &client)?;
    drop(alone);
    let shown = folder.path().display();
    if wanted.is_empty() {
        printer.note("there is nothing to submit: every cell is built, or with Slurm already");
    } else {
        let jobs: Vec<String> = submitted.jobs().iter().map(u64::to_string).collect();
        let count = printer::count(wanted.len() as u64, "cell", "cells");
        printer.note(format!(
            "submitted {count} as {}; `rocwheel build status {shown}` shows what becomes of them",
            jobs.join(", ")
        ));
    }
    if settings.choices.wait {
        return wait(folder, settings, printer);
    }
    if printer.format() == Format::Json {
        printer.json(&serde_json::json!({ "plan": folder.path(), "submitted": submitted.arrays }))?;
    } else {
        printer.line(folder.path().to_string_lossy())?;
    }
    Ok(Exit::Done)
}

/// Waits until nobody is at any cell any more. When the user does not want to wait, the tasks go
/// on.
fn wait(folder: &PlanFolder, settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    let client = Client { environment: &settings.place.surroundings, reporter: printer.reporter() };
    let total = folder.plan.to_build().count() as u64;
    printer.reporter().begin("Waiting for Slurm", Some(total), Unit::Items);
    let (mut asked, mut done, mut queue) = (None::<Instant>, 0, None::<BTreeMap<String, Queued>>);
    let ended = loop {
        if printer.reporter().interrupted() {
            break Err(Error::Interrupted(Interrupted));
        }
        if asked.is_none_or(|asked| asked.elapsed() >= ASK_EVERY) {
            queue = match slurm::queue(folder, &client) {
                Ok(queue) => Some(queue),
                // The controller may be starting again. Until it has said anything, nothing is
                // over.
                Err(error @ Error::Slurm { is_temporary: true, .. }) => {
                    if queue.is_none() && asked.is_none() {
                        printer.warn(format!("{}; it is asked again", rocwheel_report::with_causes(&error)));
                    }
                    queue
                }
                Err(error) => break Err(error),
            };
            asked = Some(Instant::now());
        }
        let seen = folder.look()?;
        let over =
            seen.iter().filter(|seen| matches!(seen.state, State::Ended(ended) if ended.is_there())).count() as u64;
        printer.reporter().advance(over.saturating_sub(done));
        done = done.max(over);
        let is_over = |state: &State| matches!(state, State::Ended(_) | State::LeftOut(_));
        let is_open = |seen: &Seen<'_>| match &queue {
            Some(queue) => queue.get(&seen.cell.id).is_some_and(Queued::is_active),
            None => !is_over(&seen.state),
        };
        let is_running = seen.iter().any(|seen| seen.state == State::Running || is_open(seen));
        if !is_running {
            break Ok(());
        }
        if seen.iter().all(|seen| is_over(&seen.state)) {
            // What is left of the queue is its own book-keeping, or a task that goes on after a
            // limit: ask at once.
            asked = asked.filter(|asked| asked.elapsed() < LOOK_EVERY);
        }
        thread::sleep(LOOK_EVERY);
    };
    printer.reporter().end();
    if let Err(Error::Interrupted(_)) = ended {
        printer.note(format!("the tasks continue; `rocwheel build cancel {}` ends them", folder.path().display()));
    }
    ended?;
    let queue = ask(folder, settings, printer);
    states::table(folder, printer, queue.as_ref())?;
    Ok(states::exit(&folder.look()?, queue.as_ref()))
}

fn cancel(folder: &PlanFolder, settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    let client = Client { environment: &settings.place.surroundings, reporter: printer.reporter() };
    let queue = slurm::queue(folder, &client)?;
    let active: Vec<&Queued> = queue.values().filter(|queued| queued.is_active()).collect();
    let mut jobs: Vec<u64> = active.iter().map(|queued| queued.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    client.cancel(&jobs)?;
    let count = active.len();
    if printer.format() == Format::Json {
        printer.json(&serde_json::json!({ "plan": folder.path(), "cancelled": count, "jobs": jobs }))?;
    } else if count == 0 {
        let running = folder.look()?.iter().filter(|seen| seen.state == State::Running).count();
        printer.note("no task of the plan is with Slurm");
        if running > 0 {
            let cells = printer::count(running as u64, "cell runs", "cells run");
            printer.note(format!("{cells} without Slurm: stop that `rocwheel build` where it was started"));
        }
    } else {
        printer.note(format!("cancelled {}", printer::count(count as u64, "cell", "cells")));
    }
    Ok(Exit::Done)
}
