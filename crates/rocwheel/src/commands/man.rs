//! `rocwheel man DIRECTORY`: a manual page for the program and one for each command, with the same
//! bytes every time.

use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;
use rocwheel_report::Context;
use rocwheel_report::Exit;

use crate::arguments::Arguments;
use crate::failure::Result;
use crate::printer::Printer;

/// Writes the pages and prints their paths.
pub(crate) fn command(directory: &Path, printer: &Printer) -> Result<Exit> {
    fs_err::create_dir_all(directory).context("cannot make the directory of the manual pages")?;
    let mut program = Arguments::command();
    program.build();
    write(&program, directory, printer)?;
    Ok(Exit::Done)
}

fn write(command: &clap::Command, directory: &Path, printer: &Printer) -> Result<()> {
    // No date: the page depends only on the command line.
    let manual = Man::new(command.clone()).manual("rocwheel");
    let path = directory.join(manual.get_filename());
    let mut page = Vec::new();
    manual.render(&mut page).context("cannot make a manual page")?;
    fs_err::write(&path, page).context("cannot write a manual page")?;
    printer.line(path.display().to_string())?;
    command.get_subcommands().try_for_each(|inner| write(inner, directory, printer))
}
