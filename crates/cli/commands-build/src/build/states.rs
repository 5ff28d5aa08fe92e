//! The states of the cells of a plan, in words.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_builder::containers::PlannedContainer;
use rocwheel_builder::schedule::slurm::{Cancelled, Queue};
use rocwheel_builder::slurm::Queued;
use rocwheel_builder::source_choice::PlannedCheckout;
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_recipe::duration;
use rocwheel_recipe::plan::{Attempt, Ended, Plan, PlanFolder, PlannedCell, Seen, SkipReason, State};
use serde::Serialize;

use super::text;

const COLUMNS: [Column; 5] =
    [("Cell", Left), ("State", Left), ("Time", Right), ("Result or likely cause", Left), ("Log", Left)];
const PLANNED: [Column; 5] =
    [("Cell", Left), ("Number", Left), ("Plan", Left), ("Asked of a cluster", Left), ("Waits for", Left)];
/// Number of lines of a log that are shown.
const TAIL: usize = 15;

/// The state of a cell.
#[derive(Debug, Serialize)]
struct Row<'a> {
    cell: &'a str,
    id: &'a str,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'a str>,
    starts: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

fn row<'a>(seen: &'a Seen<'a>, queued: Option<&Queued>) -> Row<'a> {
    let last = seen.attempts.last();
    let end = last.and_then(|attempt| attempt.end.as_ref());
    let mut row = Row {
        cell: &seen.cell.title,
        id: &seen.cell.id,
        state: state(seen, queued),
        seconds: end.map(|end| end.seconds),
        host: last.map(|attempt| attempt.host.as_str()).filter(|host| !host.is_empty()),
        starts: seen.attempts.len(),
        files: end
            .map(|end| end.outputs.iter().map(|made| made.path.to_string_lossy().into_owned()).collect())
            .unwrap_or_default(),
        error: end.and_then(|end| end.error.clone()),
        cause: end.and_then(|end| end.cause.clone()),
        log: last.and_then(|attempt| attempt.log.as_ref()).map(|log| log.to_string_lossy().into_owned()),
    };
    match &seen.state {
        State::LeftOut(SkipReason::Exists(files)) => row.files.clone_from(files),
        State::LeftOut(SkipReason::Excluded(reason)) => row.error = Some(reason.clone()),
        State::Running => row.seconds = last.map(running_for),
        State::Lost => {
            let said = queued.filter(|queued| !queued.is_active()).map(|queued| format!("Slurm says {}", queued.state));
            row.error =
                Some(said.unwrap_or_else(|| "it was killed, or its machine failed; the next run continues".into()));
        }
        State::Waiting => {
            row.error =
                queued.filter(|queued| !queued.is_active()).map(|queued| format!("Slurm says {}", queued.state));
        }
        State::Ended(Ended::LeftOut) if end.is_none() => row.error = Some("what it waits for was not built".into()),
        State::Ended(_) => {}
    }
    row
}

#[allow(clippy::cast_precision_loss, reason = "seconds")]
fn running_for(attempt: &Attempt) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    now.saturating_sub(attempt.began) as f64
}

/// The state of a cell in a few words.
fn state(seen: &Seen<'_>, queued: Option<&Queued>) -> String {
    let last = seen.attempts.last();
    let queued = queued.filter(|queued| queued.is_active());
    match (&seen.state, queued) {
        (State::LeftOut(SkipReason::Excluded(_)), _) => "excluded".into(),
        (State::LeftOut(SkipReason::Exists(_)), _) => "exists".into(),
        (State::Running, _) => {
            let stage = last
                .and_then(|attempt| attempt.stage.as_deref())
                .map(|stage| format!(" ({stage})"))
                .unwrap_or_default();
            let host = last.map(|attempt| attempt.host.as_str()).filter(|host| !host.is_empty());
            format!("runs{stage}{}", host.map(|host| format!(" on {host}")).unwrap_or_default())
        }
        // The job was put back into the queue.
        (State::Lost | State::Waiting, Some(queued)) => waiting(queued),
        (State::Ended(ended), Some(queued)) if !ended.is_there() => waiting(queued),
        (State::Waiting, None) => "waiting".into(),
        (State::Lost, None) => "lost".into(),
        (State::Ended(ended), _) => ended.name().into(),
    }
}

fn waiting(queued: &Queued) -> String {
    match queued.reason.as_str() {
        "" => format!("with Slurm ({})", queued.state.to_lowercase()),
        reason => format!("with Slurm ({reason})"),
    }
}

/// Prints all cells and their states.
pub(super) fn table(folder: &PlanFolder, printer: &Printer, queue: Option<&Queue>) -> Result<()> {
    let seen = folder.look()?;
    let rows: Vec<Row<'_>> =
        seen.iter().map(|seen| row(seen, queue.and_then(|queue| queue.get(&seen.cell.id)))).collect();
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({
            "plan": folder.path(),
            "output": folder.plan.output,
            "cells": rows,
        }));
    }
    printer.table(
        &COLUMNS,
        rows.iter().map(|row| {
            let time = row.seconds.map(|seconds| duration::words(Duration::from_secs_f64(seconds))).unwrap_or_default();
            let is_good = row.error.is_none();
            let shown = row.files.iter().filter(|name| !name.ends_with(rocwheel_recipe::provenance::SUFFIX));
            let result = if is_good { shown.cloned().collect::<Vec<_>>().join(", ") } else { reason(row) };
            vec![
                row.cell.to_owned(),
                row.state.clone(),
                time,
                result,
                if is_good { String::new() } else { row.log.clone().unwrap_or_default() },
            ]
        }),
    )?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *counts.entry(row.state.split(" (").next().unwrap_or(&row.state)).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    printer.note(format!("{}: {}", message::count(rows.len() as u64, "cell", "cells"), counts.join(", ")));
    if rows.iter().any(|row| ["lost", "stopped", "interrupted"].contains(&row.state.as_str())) {
        printer.note("the same command continues");
    }
    Ok(())
}

/// The error of a cell and its likely cause.
fn reason(row: &Row<'_>) -> String {
    let error = row.error.as_deref().unwrap_or_default();
    match row.cause.as_deref() {
        Some(cause) => format!("{error}; {cause}"),
        None => error.to_owned(),
    }
}

/// Prints the tasks that were removed from Slurm.
pub(super) fn cancelled(folder: &PlanFolder, cancelled: &Cancelled, printer: &Printer) -> Result<Exit> {
    let Cancelled { cells, jobs } = cancelled;
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "plan": folder.path(), "cancelled": cells, "jobs": jobs }))?;
    } else if *cells == 0 {
        let running = folder.look()?.iter().filter(|seen| seen.state == State::Running).count();
        printer.note("no task of the plan is with Slurm");
        if running > 0 {
            let cells = message::count(running as u64, "cell runs", "cells run");
            printer.note(format!("{cells} without Slurm: stop that `rocwheel build` where it was started"));
        }
    } else {
        printer.note(format!("cancelled {}", message::count(*cells as u64, "cell", "cells")));
    }
    Ok(Exit::Done)
}

/// Prints the last lines of logs: of the named cells, otherwise of those that failed, are lost or
/// are running.
pub(super) fn logs(folder: &PlanFolder, named: &[String], printer: &Printer) -> Result<Exit> {
    let chosen = named.iter().map(|name| Ok(folder.plan.cell(name)?.id.clone())).collect::<Result<Vec<_>>>()?;
    let seen = folder.look()?;
    let shown = seen.iter().filter(|seen| match seen.state {
        _ if !chosen.is_empty() => chosen.contains(&seen.cell.id),
        State::Running | State::Lost => true,
        State::Ended(ended) => !ended.is_there(),
        State::Waiting | State::LeftOut(_) => false,
    });
    let rows: Vec<Row<'_>> = shown.map(|seen| row(seen, None)).collect();
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "plan": folder.path(), "cells": rows }))?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        printer.note("no cell has failed or runs; `--cell` names one whose logs are shown");
    }
    for (number, row) in rows.iter().enumerate() {
        if number > 0 {
            printer.line("")?;
        }
        printer.line(format!("{}: {}", row.cell, row.state))?;
        if row.error.is_some() {
            printer.line(format!("    {}", reason(row)))?;
        }
        let Some(log) = &row.log else { continue };
        printer.line(format!("    {log}"))?;
        // A missing log must not hide the others.
        let text = fs_err::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(TAIL)..] {
            printer.line(format!("    | {line}"))?;
        }
    }
    Ok(Exit::Done)
}

/// The steps before the cells of a plan are built.
#[derive(Debug, Default, Serialize)]
pub(super) struct Before {
    pub(super) checkouts: Vec<PlannedCheckout>,
    /// The containers that are started.
    pub(super) containers: BTreeSet<PlannedContainer>,
}

/// Prints a plan: cells to build, then existing ones, then (`with_excluded`) those that the table
/// excludes.
pub(super) fn planned(plan: &Plan, before: &Before, with_excluded: bool, printer: &Printer) -> Result<Exit> {
    let Before { checkouts, containers } = before;
    if printer.format() == ResultFormat::Json {
        let document = serde_json::json!({
            "output": plan.output,
            "checkouts": checkouts,
            "containers": containers,
            "cells": plan.cells,
        });
        printer.json_stream(&document)?;
        return Ok(Exit::Done);
    }
    text::checkouts(checkouts, printer);
    for container in containers {
        printer.note(container.describe());
    }
    let titles: BTreeMap<&str, &str> = plan.cells.iter().map(|cell| (cell.id.as_str(), cell.title.as_str())).collect();
    let mut cells: Vec<&PlannedCell> = plan.cells.iter().collect();
    cells.sort_by_key(|cell| match cell.left_out {
        None => 0,
        Some(SkipReason::Exists(_)) => 1,
        Some(SkipReason::Excluded(_)) => 2,
    });
    let excluded = cells.iter().filter(|cell| matches!(cell.left_out, Some(SkipReason::Excluded(_)))).count();
    if !with_excluded {
        cells.truncate(cells.len() - excluded);
    }
    printer.table(
        &PLANNED,
        cells.into_iter().map(|cell| {
            let requests = &cell.requests;
            let time = requests.minutes.map(|minutes| format!(", {minutes} min")).unwrap_or_default();
            let needs: Vec<&str> = cell.needs.iter().filter_map(|id| titles.get(id.as_str()).copied()).collect();
            let is_built = match &cell.left_out {
                None => "build".to_owned(),
                Some(SkipReason::Excluded(reason)) => format!("excluded: {reason}"),
                Some(SkipReason::Exists(files)) => format!("exists: {}", files.join(", ")),
            };
            vec![
                cell.title.clone(),
                cell.id.clone(),
                is_built,
                format!(
                    "{}, {}{time}",
                    message::count(u64::from(requests.cpus), "core", "cores"),
                    message::bytes(requests.memory << 20)
                ),
                needs.join(", "),
            ]
        }),
    )?;
    let rest = match excluded {
        0 => String::new(),
        count if with_excluded => format!("; {count} excluded"),
        count => format!("; {count} excluded (`--excluded` lists them)"),
    };
    let count = plan.to_build().count();
    let all = message::count(plan.cells.len() as u64, "cell", "cells");
    printer.note(format!("would build {count} of {all}{rest}"));
    Ok(Exit::Done)
}
