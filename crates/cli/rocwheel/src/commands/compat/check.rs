//! `rocwheel compat --check`: which commands of a workflow `rocwheel compat` takes.

mod judge;
mod shell;
mod workflow;

use std::path::{Path, PathBuf};

use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::{Context as _, Exit};
use serde::Serialize;
use walkdir::WalkDir;

use judge::{Judged, Verdict};
use shell::Call;

/// Endings of files that are read of a folder.
const ENDINGS: [&str; 6] = ["yml", "yaml", "sh", "ps1", "bat", "cmd"];

/// A command of a workflow.
#[derive(Debug, Serialize)]
struct Row {
    file: PathBuf,
    line: usize,
    command: String,
    verdict: Verdict,
    reasons: Vec<String>,
}

/// Prints the verdict about each command of the files, and of those in the folders.
pub(super) fn command(paths: &[PathBuf], printer: &Printer) -> Result<Exit> {
    let mut rows = Vec::new();
    let mut others = 0;
    let files = files(paths)?;
    for file in &files {
        let text = fs_err::read_to_string(file).context("cannot read the workflow")?;
        others += check(file, &text, &mut rows)?;
    }
    let places = rocwheel_progress::few_in_backticks(paths.iter().map(|path| path.display()), 3);
    if !rows.iter().any(|row: &Row| row.verdict != Verdict::Stays) {
        return Err(Failure::message(format!("no command in {places} is one that rocwheel could take")).with_hint(
            format!(
                "{} and {} were read; `rocwheel compat` lists the scripts that it takes",
                message::count(files.len() as u64, "file", "files"),
                message::count((others + rows.len()) as u64, "command", "commands")
            ),
        ));
    }
    let counts = Verdict::ALL.map(|verdict| (verdict, rows.iter().filter(|row| row.verdict == verdict).count()));
    let bad = rows.iter().filter(|row| !row.verdict.is_good()).count();
    if printer.format() == ResultFormat::Json {
        let summary: serde_json::Map<String, serde_json::Value> = counts
            .iter()
            .map(|(verdict, count)| {
                Ok((serde_json::to_value(verdict)?.as_str().unwrap_or_default().to_owned(), (*count).into()))
            })
            .collect::<serde_json::Result<_>>()
            .map_err(Failure::other)?;
        let files = files.len();
        printer.json(
            &serde_json::json!({ "files": files, "summary": summary, "other_commands": others, "commands": rows }),
        )?;
    } else {
        let all = message::count(rows.len() as u64, "command", "commands");
        let parts: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(verdict, count)| format!("{count} {}", verdict.name()))
            .collect();
        let verdict = if bad == 0 { "rocwheel takes the commands" } else { "rocwheel does not take all commands" };
        printer.line(format!("{verdict}: {all} of ROCm's scripts, {}", parts.join(", ")))?;
        for row in rows.iter().filter(|row| row.verdict != Verdict::Stays || printer.has_details()) {
            let reasons = row.reasons.iter().map(|reason| format!(": {reason}")).collect::<String>();
            printer.line(format!(
                "{}:{}: {}: {}{reasons}",
                row.file.display(),
                row.line,
                row.command,
                row.verdict.name()
            ))?;
        }
        printer.note(format!(
            "{} of other programs are not looked at",
            message::count(others as u64, "command", "commands")
        ));
    }
    Ok(if bad == 0 { Exit::Done } else { Exit::Failed })
}

/// The files, and those of the folders in the order of their names.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.map_err(Failure::other).context("cannot read the folder of workflows")?;
            let ending = entry.path().extension().unwrap_or_default().to_string_lossy().to_lowercase();
            if entry.file_type().is_file() && ENDINGS.contains(&ending.as_str()) {
                found.push(entry.into_path());
            }
        }
        if found.len() == before {
            return Err(Failure::message(format!("`{}` has no workflow", path.display()))
                .with_hint(format!("workflows and scripts end in .{}", ENDINGS.join(", ."))));
        }
    }
    Ok(found)
}

/// Adds the commands of a file that rocwheel could take; returns the number of the others.
fn check(file: &Path, text: &str, rows: &mut Vec<Row>) -> Result<usize> {
    let mut others = 0;
    let before = rows.len();
    for script in workflow::scripts(file, text)? {
        let mut read = Vec::new();
        for Call { line, last, words } in shell::calls(&script) {
            let judged = judge::judge(&words);
            if judged.is_some() || judge::is_reader(&words) {
                read.push(line..=last);
            }
            match judged {
                Some(Judged { command, verdict, reasons }) => {
                    rows.push(Row { file: file.to_owned(), line, command, verdict, reasons });
                }
                None => others += usize::from(!words.is_empty()),
            }
        }
        for (line, text) in (script.line..).zip(script.text.lines()) {
            if judge::names_script(code_of(text)) && !read.iter().any(|lines| lines.contains(&line)) {
                let reasons = vec!["it names a script, and how the script is called could not be read".to_owned()];
                let command = code_of(text).trim().to_owned();
                rows.push(Row { file: file.to_owned(), line, command, verdict: Verdict::Unknown, reasons });
            }
        }
    }
    rows[before..].sort_by_key(|row| row.line);
    Ok(others)
}

/// The line without its comment.
fn code_of(line: &str) -> &str {
    let begun = line.trim_start();
    let is_comment = begun.starts_with('#') || begun.starts_with("::") || begun.to_uppercase().starts_with("REM ");
    if is_comment { "" } else { line.split(" #").next().unwrap_or_default() }
}
