//! `rocwheel release list`: the publications and sets of a stream.

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_release::{HistoryRow, Stream, history};
use rocwheel_report::Exit;

use super::stream::{StreamArguments, StreamPlace};
use crate::failure::{Result, Usage};
use crate::printer::{self, Column, Format, Printer};

const COLUMNS: [Column; 6] =
    [("Number", Right), ("Time", Left), ("Action", Left), ("Files", Right), ("Size", Right), ("Signed", Left)];

/// List the publications and sets of a stream
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    place: StreamPlace,
}

impl TryFrom<Arguments> for Settings {
    type Error = Usage;

    fn try_from(arguments: Arguments) -> Result<Self, Usage> {
        Ok(Self { place: arguments.stream.try_into()? })
    }
}

/// Prints the snapshots.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let rows = history(&*store, &settings.place.name, printer.reporter())?;
    let stream = Stream::existing(&*store, &settings.place.name)?;
    let sets: Vec<&String> = stream.manifest.sets.keys().collect();
    if printer.format() == Format::Json {
        printer.json(&serde_json::json!({ "snapshots": rows, "sets": sets }))?;
        return Ok(Exit::Done);
    }
    let row = |row: &HistoryRow| {
        let signed = if row.keys.is_empty() { "no" } else { "yes" };
        let (number, files) = (row.number.to_string(), row.files.to_string());
        vec![number, row.created.to_string(), row.action.clone(), files, printer::bytes(row.bytes), signed.to_owned()]
    };
    printer.table(&COLUMNS, rows.iter().map(row))?;
    let shown: Vec<&str> = sets.into_iter().map(String::as_str).collect();
    printer.note(format!("{}: {}", printer::count(shown.len() as u64, "set", "sets"), shown.join(", ")));
    Ok(Exit::Done)
}
