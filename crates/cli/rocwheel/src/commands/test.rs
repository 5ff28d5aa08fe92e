//! `rocwheel test`: does what was built work?

pub(crate) mod bench;
mod container;
pub(crate) mod lists;
pub(crate) mod report;
mod result;
mod runner;
pub(crate) mod shards;
pub(crate) mod smoke;
pub(crate) mod suite;

use clap::Subcommand;
use rocwheel_progress::Exit;

use crate::failure::Result;
use crate::printer::Printer;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum TestCommand {
    Smoke(smoke::Arguments),
    Suite(Box<suite::Arguments>),
    Report(Box<report::Arguments>),
    Shards(shards::Arguments),
    Lists(lists::Arguments),
    Bench(Box<bench::Arguments>),
}

/// Runs the command that the user typed.
pub(crate) fn run(command: TestCommand, printer: &Printer) -> Result<Exit> {
    /// Makes the settings, prints them with `-vv`, and hands them to the command.
    macro_rules! run {
        ($command:ident, $arguments:expr) => {{
            let settings = $command::Settings::try_from($arguments)?;
            printer.settings(&settings);
            $command::command(&settings, printer)
        }};
    }
    match command {
        TestCommand::Smoke(arguments) => run!(smoke, arguments),
        TestCommand::Suite(arguments) => run!(suite, *arguments),
        TestCommand::Report(arguments) => run!(report, *arguments),
        TestCommand::Shards(arguments) => run!(shards, arguments),
        TestCommand::Lists(arguments) => run!(lists, arguments),
        TestCommand::Bench(arguments) => run!(bench, *arguments),
    }
}
