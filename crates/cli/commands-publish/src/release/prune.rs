//! `rocwheel release prune`: takes old files from a stream.

use clap::Args;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_stream::prune_stream;

use super::stream::{AllowArguments, ChangeArguments, ChangeSettings, StreamArguments, StreamPlace};

/// Take old files from a stream, as its settings say
///
/// `.release/stream.toml` says how long files stay. What a file that stays requires also stays.
/// Files are first listed no more, and deleted when the grace period is over.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Also delete files that belong to no publication; no other run may be uploading
    #[arg(long)]
    orphans: bool,
    #[command(flatten)]
    allow: AllowArguments,
    #[command(flatten)]
    change: ChangeArguments,
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    orphans: bool,
    place: StreamPlace,
    change: ChangeSettings,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let (place, change) = (arguments.stream.try_into()?, arguments.change.settings(arguments.allow.unsigned())?);
        Ok(Self { orphans: arguments.orphans, place, change })
    }
}

/// Prunes, or prints what would be pruned.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let change = settings.change.change(&settings.place.name);
    settings.change.warn_unsigned(printer);
    let plan = prune_stream(&*store, settings.orphans, &change, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&plan)?;
        return Ok(Exit::Done);
    }
    for (word, keys) in [("unlisted", &plan.unlisted), ("deleted", &plan.deleted)] {
        for key in keys {
            printer.line(format!("{word} {key}"))?;
        }
    }
    for key in plan.orphans.iter().filter(|_| !settings.orphans) {
        printer.line(format!("orphan {key}"))?;
    }
    let would = if settings.change.mode == Mode::DryRun { "; nothing was changed" } else { "" };
    printer.note(format!(
        "{} listed no more, {} ({}) and {} deleted{would}",
        message::count(plan.unlisted.len() as u64, "file", "files"),
        message::count(plan.deleted.len() as u64, "file", "files"),
        message::bytes(plan.bytes),
        message::count(plan.snapshots.len() as u64, "snapshot", "snapshots"),
    ));
    if !plan.orphans.is_empty() {
        let files = message::count(plan.orphans.len() as u64, "file belongs", "files belong");
        printer.note(if settings.orphans {
            format!("of the deleted files, {files} to no publication")
        } else {
            format!("{files} to no publication: a killed run left them, or one is under way")
        });
    }
    Ok(Exit::Done)
}
