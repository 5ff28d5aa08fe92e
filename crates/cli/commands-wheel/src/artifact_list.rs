//! `rocwheel artifact list`: the artifacts of a directory, one per line.

use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::Ignored;
use rocwheel_artifact::list::{self, ListedForm};
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::Exit;

const COLUMNS: [Column; 5] = [("Artifact", Left), ("Form", Left), ("Files", Right), ("Size", Right), ("Digest", Left)];

/// Show the artifacts in a directory
#[derive(Debug, Args)]
pub struct Arguments {
    /// Directory of artifacts, exploded or in archives
    directory: PathBuf,
}

#[derive(Debug)]
pub struct Settings {
    directory: PathBuf,
}

impl From<Arguments> for Settings {
    fn from(arguments: Arguments) -> Self {
        Self { directory: arguments.directory }
    }
}

/// Prints the listing. It includes artifacts with defects, which make the exit code 1.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let listing = list::list(&settings.directory, printer.reporter())?;
    if listing.artifacts.is_empty() && listing.problems.is_empty() {
        return Err(rocwheel_artifact::no_artifacts(&settings.directory));
    }
    match printer.format() {
        ResultFormat::Json => printer.json(&listing)?,
        ResultFormat::Text => {
            let rows = listing.artifacts.iter().map(|artifact| {
                let form = match artifact.form {
                    ListedForm::Directory => "directory",
                    ListedForm::Zstd => "zstd",
                    ListedForm::Xz => "xz",
                };
                let files = artifact.files.to_string();
                let size = message::bytes(artifact.bytes);
                vec![artifact.artifact.to_string(), form.to_owned(), files, size, artifact.digest.name().to_owned()]
            });
            printer.table(&COLUMNS, rows)?;
            let files = listing.artifacts.iter().map(|artifact| artifact.files).sum();
            let bytes = listing.artifacts.iter().map(|artifact| artifact.bytes).sum();
            printer.note(format!(
                "{}, {}, {}",
                message::count(listing.artifacts.len() as u64, "artifact", "artifacts"),
                message::count(files, "file", "files"),
                message::bytes(bytes)
            ));
        }
    }
    for warning in listing.ignored.iter().filter_map(Ignored::warning) {
        printer.warn(warning);
    }
    let defects = listing.artifacts.iter().filter_map(|artifact| artifact.problem.as_ref());
    let defects: Vec<&String> = defects.chain(&listing.problems).collect();
    for defect in &defects {
        printer.warn(defect);
    }
    Ok(if defects.is_empty() { Exit::Done } else { Exit::Failed })
}
