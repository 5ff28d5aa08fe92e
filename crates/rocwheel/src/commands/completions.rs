//! `rocwheel completions SHELL`: the script with which a shell completes the command line.

use clap::CommandFactory;
use clap_complete::Shell;
use rocwheel_report::Exit;

use crate::arguments::Arguments;
use crate::failure::Result;
use crate::printer::Printer;

pub(crate) fn command(shell: Shell, printer: &Printer) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "rocwheel", &mut script);
    printer.raw(&script)?;
    Ok(Exit::Done)
}
