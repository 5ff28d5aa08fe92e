//! One file a command: arguments → settings → `command`.

mod completions;
mod man;
pub(crate) mod rocm_version;

use report::Exit;

use crate::arguments::{Arguments, Command};
use crate::failure::Usage;
use crate::printer::{Format, Printer};

/// Runs the command that was asked for.
pub(crate) fn dispatch(arguments: Arguments, printer: &Printer) -> anyhow::Result<Exit> {
    match arguments.command {
        Command::RocmVersion(arguments) => {
            let settings = rocm_version::Settings::try_from(arguments)?;
            printer.settings(&settings);
            rocm_version::command(&settings, printer)
        }
        Command::Completions { shell } => {
            without_json("completions", printer)?;
            completions::command(shell, printer)
        }
        Command::Man { directory } => {
            without_json("man", printer)?;
            man::command(&directory, printer)
        }
    }
}

/// An option that would do nothing is refused rather than ignored.
fn without_json(command: &str, printer: &Printer) -> Result<(), Usage> {
    match printer.format() {
        Format::Text => Ok(()),
        Format::Json => Err(Usage::new(format!("`rocwheel {command}` has no JSON form")).hint("leave `--json` out")),
    }
}
