//! `rocwheel release diff`: what changed between two snapshots.

use clap::Args;
use rocwheel_release::{SnapshotChanges, Stream};
use rocwheel_report::Exit;

use super::stream::{StreamArguments, StreamPlace};
use crate::failure::{Result, Usage};
use crate::printer::{Format, Printer};

/// Compare two snapshots of a stream
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Number of the first snapshot
    #[arg(value_name = "A")]
    before: u64,
    /// Number of the second snapshot [default: the last one]
    #[arg(value_name = "B")]
    after: Option<u64>,
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    before: u64,
    after: Option<u64>,
    place: StreamPlace,
}

impl TryFrom<Arguments> for Settings {
    type Error = Usage;

    fn try_from(arguments: Arguments) -> Result<Self, Usage> {
        Ok(Self { before: arguments.before, after: arguments.after, place: arguments.stream.try_into()? })
    }
}

/// Prints the changes.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let stream = Stream::existing(&*store, &settings.place.name)?;
    let before = stream.snapshot(settings.before)?;
    let after = stream.snapshot(settings.after.unwrap_or(stream.manifest.number))?;
    show(&SnapshotChanges::between(&before, &after), printer)?;
    Ok(Exit::Done)
}

/// Prints the changes, a line each.
pub(super) fn show(changes: &SnapshotChanges, printer: &Printer) -> Result<()> {
    if printer.format() == Format::Json {
        return printer.json(changes);
    }
    let groups = [
        ("added", &changes.added),
        ("removed", &changes.removed),
        ("yanked", &changes.yanked),
        ("restored", &changes.restored),
        ("replaced", &changes.replaced),
    ];
    for (word, keys) in groups {
        for key in keys {
            printer.line(format!("{word} {key}"))?;
        }
    }
    if groups.iter().all(|(_, keys)| keys.is_empty()) {
        printer.note("no differences");
    }
    Ok(())
}
