//! `rocwheel release rollback`: lists again what a snapshot listed.

use clap::Args;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::Printer;
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_stream::roll_back;

use super::diff;
use super::stream::{AllowArguments, ChangeArguments, ChangeSettings, StreamArguments, StreamPlace};

/// Bring a stream back to an earlier snapshot
///
/// The result is a new publication with a higher number, so that nobody takes it for an old copy.
/// What was published since is listed no more; its files stay until `rocwheel release prune`
/// deletes them. Files that were withdrawn since stay withdrawn.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of the snapshot
    #[arg(long, value_name = "NUMBER")]
    to: u64,
    #[command(flatten)]
    allow: AllowArguments,
    #[command(flatten)]
    change: ChangeArguments,
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    to: u64,
    place: StreamPlace,
    change: ChangeSettings,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        Ok(Self {
            to: arguments.to,
            place: arguments.stream.try_into()?,
            change: arguments.change.settings(arguments.allow.unsigned())?,
        })
    }
}

/// Rolls back, or prints what would change.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let change = settings.change.change(&settings.place.name);
    settings.change.warn_unsigned(printer);
    let changes = roll_back(&*store, settings.to, &change, printer.reporter())?;
    diff::show(&changes, printer)?;
    let did = if settings.change.mode == Mode::DryRun { "would list" } else { "lists" };
    printer.note(format!("`{}` {did} what snapshot {} did", settings.place.name, settings.to));
    Ok(Exit::Done)
}
