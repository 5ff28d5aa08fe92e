//! The messages about builds.

use std::path::Path;
use std::time::Duration;

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_builder::containers::PlannedContainer;
use rocwheel_builder::execute::{JobOutcome, JobPlace, Listener};
use rocwheel_builder::preflight::Estimated;
use rocwheel_builder::schedule::JobResult;
use rocwheel_builder::slurm::Submitted;
use rocwheel_builder::source_choice::PlannedCheckout;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::progress::Display;
use rocwheel_console::{failure_text, message};
use rocwheel_progress::{Exit, Reporter};
use rocwheel_recipe::plan::PlanFolder;
use rocwheel_recipe::{ChosenBy, Evaluated, duration, script};
use serde::Serialize;

const COLUMNS: [Column; 5] = [("Job", Left), ("Status", Left), ("Time", Right), ("Size", Right), ("Result", Left)];

/// Prints events while jobs run.
pub(super) struct Talk<'a> {
    pub(super) printer: &'a Printer,
}

impl Listener for Talk<'_> {
    fn reporter(&self) -> &dyn Reporter {
        self.printer.reporter()
    }

    fn note(&self, text: &str) {
        self.printer.note(text);
    }

    fn detail(&self, text: &str) {
        self.printer.detail(text);
    }

    // A program in a container writes to the same terminal and would break a progress bar.
    fn talk(&self) -> &'static [&'static str] {
        match (self.printer.has_details(), self.printer.display()) {
            (true, Display::Lines) => &["-v"],
            (false, Display::Lines) => &[],
            (true, _) => &["-v", "--no-progress"],
            (false, _) => &["--no-progress"],
        }
    }

    fn failed(&self, failure: Failure) {
        failure_text::print(&failure);
    }

    fn submitted(&self, folder: &PlanFolder, submitted: &Submitted, cells: usize) {
        if cells == 0 {
            self.printer.note("there is nothing to submit: every cell is built, or with Slurm already");
            return;
        }
        let jobs: Vec<String> = submitted.jobs().iter().map(u64::to_string).collect();
        self.printer.note(format!(
            "submitted {} as {}; `rocwheel build status {}` shows what becomes of them",
            message::count(cells as u64, "cell", "cells"),
            jobs.join(", "),
            folder.path().display()
        ));
    }

    fn begins(&self, title: &str, stage: &str, log: &Path) {
        self.printer.detail(format!("{title}: {stage} (log: {})", log.display()));
    }

    fn done(&self, _: &str, _: &str, _: Duration) {
        // The progress display already shows how long each stage took.
    }

    fn estimated(&self, title: &str, estimated: &Estimated) {
        let files = message::count(estimated.units, "file", "files");
        let time = estimated.time().map(|time| format!(", about {time} of compiling")).unwrap_or_default();
        self.printer.note(format!("{title}: {files}{time}; {} to link", message::bytes(estimated.link_bytes)));
    }

    fn remarks(&self, title: &str, count: usize) {
        let rest = match count {
            0 => String::new(),
            count => format!(", {} (`rocwheel audit` shows them)", message::count(count as u64, "remark", "remarks")),
        };
        self.printer.note(format!("{title}: audited: no errors{rest}"));
    }
}

/// A recipe that would be built, and its container.
#[derive(Debug, Serialize)]
pub(super) struct PlannedRecipe {
    #[serde(flatten)]
    pub(super) recipe: Evaluated,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<PlannedContainer>,
}

/// Prints what would be checked out and built.
pub(super) fn plan(recipes: &[PlannedRecipe], checkouts: &[PlannedCheckout], printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "checkouts": checkouts, "recipes": recipes }))?;
        return Ok(Exit::Done);
    }
    self::checkouts(checkouts, printer);
    for (index, PlannedRecipe { recipe, container }) in recipes.iter().enumerate() {
        if index > 0 {
            printer.line("")?;
        }
        if let Some(container) = container {
            printer.note(format!("{}: {}", recipe.title(), container.describe()));
            if recipe.targets.chosen_by != ChosenBy::User {
                printer.note("GPU targets are those of the image's PYTORCH_ROCM_ARCH, where it has that variable");
            }
        }
        printer.line(script::text(recipe).trim_end())?;
    }
    printer.note(format!("would build {}", message::count(recipes.len() as u64, "job", "jobs")));
    Ok(Exit::Done)
}

/// Prints the checkouts that would be made.
pub(super) fn checkouts(checkouts: &[PlannedCheckout], printer: &Printer) {
    for PlannedCheckout { project, reference, directory } in checkouts {
        printer.note(format!("would check out {project}: {reference} in {}", directory.display()));
    }
}

/// Prints the built results.
pub(super) fn conclude(ran: &[JobResult], place: &JobPlace, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "jobs": ran, "output": place.output }));
    }
    let rows = ran.iter().map(|ran| {
        let mut row = vec![ran.title.clone()];
        row.extend(match &ran.outcome {
            None => [String::from("failed"), String::new(), String::new(), String::new()],
            Some(JobOutcome::Built { outputs, seconds }) => {
                ["built".into(), duration::words(Duration::from_secs_f64(*seconds)), size(outputs), names(outputs)]
            }
            Some(JobOutcome::Unchanged { outputs }) => {
                ["unchanged".into(), String::new(), size(outputs), names(outputs)]
            }
            Some(JobOutcome::Ready { environment }) => {
                ["ready".into(), String::new(), String::new(), environment.to_string_lossy().into_owned()]
            }
            Some(JobOutcome::Partly { stage }) => {
                [format!("done up to {stage}"), String::new(), String::new(), String::new()]
            }
            Some(JobOutcome::Stopped { stage }) => {
                [format!("stopped in {stage}"), String::new(), String::new(), String::new()]
            }
        });
        row
    });
    printer.table(&COLUMNS, rows)?;
    if ran.iter().any(|ran| matches!(ran.outcome, Some(JobOutcome::Stopped { .. }))) {
        printer.note("stopped at the time limit; the same command continues");
    }
    Ok(())
}

fn size(outputs: &[rocwheel_recipe::BuiltFile]) -> String {
    message::bytes(outputs.iter().map(|made| made.size).sum())
}

fn names(outputs: &[rocwheel_recipe::BuiltFile]) -> String {
    let names = outputs.iter().map(|made| made.path.to_string_lossy().into_owned());
    // Each result has a file with its provenance beside it, which is not listed.
    names.filter(|name| !name.ends_with(rocwheel_recipe::provenance::SUFFIX)).collect::<Vec<_>>().join(", ")
}
