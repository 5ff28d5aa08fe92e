//! Prints the sum of a run, and decides the exit code.

use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message::{count, one_line};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::Exit;
use rocwheel_report::outcome::TestOutcome;
use rocwheel_suite::{EVENTS, RunSummary, SuitePreview};

/// Rows of failures that are printed; all of them are in the events.
const MOST: usize = 30;

/// Prints the sum. `may_not_run` allows tests that did not run for want of a GPU.
pub(super) fn print(summary: &RunSummary, may_not_run: bool, printer: &Printer) -> Result<Exit> {
    let exit = judge(summary, may_not_run);
    let verdict = verdict(summary, exit);
    if printer.format() == ResultFormat::Json {
        let mut document = serde_json::to_value(summary).map_err(Failure::other)?;
        document["verdict"] = verdict.into();
        document["events"] = summary.folder.join(EVENTS).display().to_string().into();
        printer.json(&document)?;
        return Ok(exit);
    }
    printer.line(&verdict)?;
    let rows: Vec<Vec<String>> = summary
        .counts
        .iter()
        .map(|(outcome, number)| vec![outcome.word().replace('_', " "), number.to_string()])
        .collect();
    if !rows.is_empty() {
        printer.line("")?;
        printer.table(&[("Outcome", Left), ("Tests", Right)], rows)?;
    }
    if !summary.failures.is_empty() {
        printer.line("")?;
        let rows = summary.failures.iter().take(MOST).map(|attempt| {
            let message = attempt.message.as_deref().unwrap_or_default();
            let message: String = one_line(message).chars().take(160).collect();
            vec![attempt.outcome.word().replace('_', " "), attempt.id.clone(), message]
        });
        printer.table(&[("Not good", Left), ("Test", Left), ("Why", Left)], rows)?;
        if summary.failures.len() > MOST {
            printer.line(format!("… and {} more", summary.failures.len() - MOST))?;
        }
    }
    for (cause, tests) in &summary.outside_causes {
        let tests: Vec<String> = tests.iter().cloned().collect();
        list(printer, &format!("Failed while {}, which is not about the test:", cause.words()), &tests)?;
    }
    list(printer, "Passed only after a failure:", &summary.flaky)?;
    list(printer, "Passed although a list or a mark says that they fail; remove it:", &summary.unexpected_passes)?;
    list(printer, "Problems:", &summary.problems)?;
    let remarks: Vec<String> = summary.remarks.iter().map(|remark| remark.message.clone()).collect();
    list(printer, "Rows of lists to change:", &remarks)?;
    printer.line("")?;
    printer.line(format!("events: {}", summary.folder.join(EVENTS).display()))?;
    Ok(exit)
}

/// Prints what a run would do.
pub(super) fn print_preview(preview: &SuitePreview, printer: &Printer) -> Result<Exit> {
    let exit = if preview.run.is_empty() { Exit::Failed } else { Exit::Done };
    if printer.format() == ResultFormat::Json {
        printer.json(preview)?;
        return Ok(exit);
    }
    preview.run.iter().try_for_each(|id| printer.line(one_line(id)))?;
    for (title, reasons) in [("Skipped by a list:", &preview.deselected), ("Cannot run:", &preview.unusable)] {
        let lines: Vec<String> = reasons.iter().map(|(id, reason)| format!("{id}: {reason}")).collect();
        list(printer, title, &lines)?;
    }
    let remarks: Vec<String> = preview.remarks.iter().map(|remark| remark.message.clone()).collect();
    list(printer, "Rows of lists to change:", &remarks)?;
    printer.line("")?;
    printer.line(format!("{} would run; nothing was tested", count(preview.run.len() as u64, "test", "tests")))?;
    Ok(exit)
}

fn list(printer: &Printer, title: &str, rows: &[String]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    printer.line("")?;
    printer.line(title)?;
    for row in rows.iter().take(MOST) {
        printer.line(format!("  {}", one_line(row)))?;
    }
    if rows.len() > MOST {
        printer.line(format!("  … and {} more", rows.len() - MOST))?;
    }
    Ok(())
}

fn judge(summary: &RunSummary, may_not_run: bool) -> Exit {
    if summary.is_good() {
        return Exit::Done;
    }
    let is_bad = summary.counts.keys().any(|outcome| outcome.is_bad());
    if may_not_run && !is_bad && summary.problems.is_empty() && summary.has_tested() {
        return Exit::Partial;
    }
    Exit::Failed
}

fn verdict(summary: &RunSummary, exit: Exit) -> String {
    let tests = count(summary.collected as u64, "test", "tests");
    let bad: usize = summary.counts.iter().filter(|(outcome, _)| outcome.is_bad()).map(|(_, number)| number).sum();
    let left_out = summary.count(TestOutcome::NotRun);
    let mut parts = Vec::new();
    if bad > 0 {
        parts.push(format!("{bad} of {tests} went wrong"));
    }
    if left_out > 0 {
        parts.push(format!("{left_out} of {tests} did not run"));
    }
    if summary.collected == 0 {
        parts.push("nothing was tested".to_owned());
    } else if !summary.has_tested() && bad + left_out == 0 {
        let did_run = summary.counts.keys().any(|outcome| !outcome.tried_nothing());
        parts.push(if did_run {
            "no test passed whose pass counts".to_owned()
        } else {
            format!("none of {tests} ran")
        });
    }
    if parts.is_empty() && !summary.problems.is_empty() {
        parts.push(count(summary.problems.len() as u64, "problem", "problems"));
    }
    match exit {
        Exit::Done => format!("passed: {tests}"),
        Exit::Partial => format!("incomplete, as allowed: {}", parts.join(", ")),
        _ => format!("failed: {}", parts.join(", ")),
    }
}
