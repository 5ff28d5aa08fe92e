//! `rocwheel test`: does what was built work?

pub(crate) mod bench;
mod container;
pub(crate) mod lists;
pub mod report;
mod result;
mod runner;
pub(crate) mod shards;
pub(crate) mod smoke;
pub mod suite;

use clap::Subcommand;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_console::run;
use rocwheel_progress::Exit;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub enum TestCommand {
    Smoke(smoke::Arguments),
    Suite(Box<suite::Arguments>),
    Report(Box<report::Arguments>),
    Shards(shards::Arguments),
    Lists(lists::Arguments),
    Bench(Box<bench::Arguments>),
}

/// Runs the command that the user typed.
pub fn run(command: TestCommand, printer: &Printer) -> Result<Exit> {
    match command {
        TestCommand::Smoke(arguments) => run!(smoke, arguments, printer),
        TestCommand::Suite(arguments) => run!(suite, *arguments, printer),
        TestCommand::Report(arguments) => run!(report, *arguments, printer),
        TestCommand::Shards(arguments) => run!(shards, arguments, printer),
        TestCommand::Lists(arguments) => run!(lists, arguments, printer),
        TestCommand::Bench(arguments) => run!(bench, *arguments, printer),
    }
}
