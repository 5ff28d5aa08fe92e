//! `rocwheel artifact verify`: the defects of the artifacts in a directory.

use std::path::PathBuf;

use clap::Args;
use rocwheel_artifact::verify;
use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_progress::{Exit, Severity};
use rocwheel_tables::TargetTable;

/// Check names, manifests, digests, links, and that no path is in two places
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory of artifacts, exploded or in archives
    directory: PathBuf,
    /// Directory to unpack archives in; cleaned up afterwards [default: the system's directory for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Settings {
    directory: PathBuf,
    pub scratch: PathBuf,
}

impl From<Arguments> for Settings {
    fn from(arguments: Arguments) -> Self {
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        Self { directory: arguments.directory, scratch }
    }
}

/// Prints the findings; the exit code is 1 if one of them is an error.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let scratch = environment::scratch_below(&settings.scratch)?;
    let report = verify::verify(&settings.directory, scratch.path(), &TargetTable::embedded(), printer.reporter())?;
    let exit = if report.has_errors() { Exit::Failed } else { Exit::Done };
    if printer.format() == ResultFormat::Json {
        printer.json(&report)?;
        return Ok(exit);
    }
    for finding in &report.findings {
        let path = finding.path.as_ref().map(|path| format!(": `{path}`")).unwrap_or_default();
        let finding = format!("{}: {}{path}: {}", finding.severity.name(), finding.artifact, finding.message);
        printer.line(message::one_line(&finding))?;
    }
    printer.note(format!(
        "{}, {}: {}, {}, {}",
        message::count(report.artifacts, "artifact", "artifacts"),
        message::count(report.files, "file", "files"),
        message::count(report.count(Severity::Error) as u64, "error", "errors"),
        message::count(report.count(Severity::Warning) as u64, "warning", "warnings"),
        message::count(report.count(Severity::Note) as u64, "note", "notes")
    ));
    Ok(exit)
}
