//! `rocwheel index`: makes a package index from a folder of wheels, checks it, and helps to serve
//! it.

mod aggregate;
pub mod build;
pub mod check;
mod from_github;
mod from_index;
pub mod server;

use clap::Subcommand;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_console::run;
use rocwheel_progress::Exit;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    Build(Box<build::Arguments>),
    Check(check::Arguments),
    Server(server::Arguments),
}

/// Runs the command that the user typed.
pub fn run(command: IndexCommand, printer: &Printer) -> Result<Exit> {
    match command {
        IndexCommand::Build(arguments) => run!(build, *arguments, printer),
        IndexCommand::Check(arguments) => run!(check, arguments, printer),
        IndexCommand::Server(arguments) => {
            printer.refuse_json("index server")?;
            run!(server, arguments, printer)
        }
    }
}
