//! `rocwheel release list`: the publications and sets of a stream.

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_progress::Exit;
use rocwheel_stream::{SnapshotManifest, Stream, history};

use super::stream::{StreamArguments, StreamPlace};

const COLUMNS: [Column; 6] =
    [("Number", Right), ("Time", Left), ("Action", Left), ("Files", Right), ("Size", Right), ("Signed", Left)];

const FILE_COLUMNS: [Column; 5] = [("File", Left), ("Project", Left), ("Size", Right), ("SHA-256", Left), ("", Left)];

/// List the publications and sets of a stream
#[derive(Debug, Args)]
pub struct Arguments {
    /// List the files of a snapshot instead; with `--json`, all that was signed
    #[arg(long, value_name = "NUMBER")]
    snapshot: Option<u64>,
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    snapshot: Option<u64>,
    place: StreamPlace,
}

impl TryFrom<Arguments> for Settings {
    type Error = Usage;

    fn try_from(arguments: Arguments) -> Result<Self, Usage> {
        Ok(Self { snapshot: arguments.snapshot, place: arguments.stream.try_into()? })
    }
}

/// Prints the snapshots.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    if let Some(number) = settings.snapshot {
        let manifest = Stream::existing(&*store, &settings.place.name)?.snapshot(number)?;
        return show(&manifest, printer);
    }
    let rows = history(&*store, &settings.place.name, printer.reporter())?;
    let stream = Stream::existing(&*store, &settings.place.name)?;
    let sets: Vec<&str> = stream.manifest.sets.keys().map(String::as_str).collect();
    if printer.format() == ResultFormat::Json {
        printer.json(&serde_json::json!({ "snapshots": rows, "sets": sets }))?;
        return Ok(Exit::Done);
    }
    let table = rows.iter().map(|row| {
        let signed = if row.keys.is_empty() { "no" } else { "yes" };
        let (number, files) = (row.number.to_string(), row.files.to_string());
        vec![number, row.created.to_string(), row.action.clone(), files, message::bytes(row.bytes), signed.to_owned()]
    });
    printer.table(&COLUMNS, table)?;
    printer.note(format!("{}: {}", message::count(sets.len() as u64, "set", "sets"), sets.join(", ")));
    Ok(Exit::Done)
}

/// Prints the files of a snapshot, or the whole of it as JSON.
fn show(manifest: &SnapshotManifest, printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        printer.json(manifest)?;
        return Ok(Exit::Done);
    }
    let rows = manifest.files.iter().map(|(key, file)| {
        let state = if file.yanked.is_some() { "withdrawn" } else { "" };
        let (project, size) = (parent(key).to_owned(), message::bytes(file.size));
        vec![file_name(key).to_owned(), project, size, file.sha256.clone(), state.to_owned()]
    });
    printer.table(&FILE_COLUMNS, rows)?;
    let (number, action) = (manifest.number, &manifest.action);
    printer.note(format!("snapshot {number} of {}: {action}", manifest.created));
    Ok(Exit::Done)
}
