//! `rocwheel release`: turns built files into a release that users can find and check.

pub(crate) mod bisect;
pub(crate) mod diff;
mod gate;
pub(crate) mod get;
pub(crate) mod github;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod mirror;
pub(crate) mod pages;
pub(crate) mod promote;
pub(crate) mod prune;
pub(crate) mod publish;
pub(crate) mod rollback;
mod set_audit;
pub(crate) mod stream;
pub(crate) mod upload;
pub(crate) mod verify;
pub(crate) mod yank;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_console::run;
use rocwheel_github::pages::{self as page, Asset};
use rocwheel_progress::{Exit, Reporter};
use rocwheel_recipe::matrix::FrameworkTable;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub enum ReleaseCommand {
    Pages(Box<pages::Arguments>),
    Github(github::Arguments),
    Promote(Box<promote::Arguments>),
    Upload(upload::Arguments),
    Mirror(mirror::Arguments),
    Publish(Box<publish::Arguments>),
    List(list::Arguments),
    Diff(diff::Arguments),
    Verify(verify::Arguments),
    Rollback(rollback::Arguments),
    Yank(yank::Arguments),
    Prune(prune::Arguments),
    Bisect(bisect::Arguments),
    Get(get::Arguments),
    /// Make keys that sign snapshots
    #[command(subcommand)]
    Key(key::KeyCommand),
}

/// Runs the command that the user typed.
pub fn run(command: ReleaseCommand, printer: &Printer) -> Result<Exit> {
    match command {
        ReleaseCommand::Pages(arguments) => run!(pages, *arguments, printer),
        ReleaseCommand::Github(arguments) => run!(github, arguments, printer),
        ReleaseCommand::Mirror(arguments) => run!(mirror, arguments, printer),
        ReleaseCommand::Promote(arguments) => run!(promote, *arguments, printer),
        ReleaseCommand::Upload(arguments) => run!(upload, arguments, printer),
        ReleaseCommand::Publish(arguments) => run!(publish, *arguments, printer),
        ReleaseCommand::List(arguments) => run!(list, arguments, printer),
        ReleaseCommand::Diff(arguments) => run!(diff, arguments, printer),
        ReleaseCommand::Verify(arguments) => run!(verify, arguments, printer),
        ReleaseCommand::Rollback(arguments) => run!(rollback, arguments, printer),
        ReleaseCommand::Yank(arguments) => run!(yank, arguments, printer),
        ReleaseCommand::Prune(arguments) => run!(prune, arguments, printer),
        ReleaseCommand::Bisect(arguments) => run!(bisect, arguments, printer),
        ReleaseCommand::Get(arguments) => run!(get, arguments, printer),
        ReleaseCommand::Key(key::KeyCommand::New(arguments)) => run!(key, arguments, printer),
    }
}

/// What is released.
#[derive(Debug, Clone, Args)]
pub(crate) struct Built {
    /// Folder with built files, such as the output of `rocwheel build`; may be repeated
    #[arg(long, value_name = "DIR", required = true)]
    wheels: Vec<PathBuf>,
    /// Another table of versions, in the form that `rocwheel matrix --print-table` prints
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

impl Built {
    fn table(&self) -> Result<FrameworkTable> {
        Ok(match &self.table {
            Some(path) => FrameworkTable::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => FrameworkTable::built_in()?,
        })
    }

    /// Reads the facts about all files.
    fn look(&self, table: &FrameworkTable, reporter: &dyn Reporter) -> Result<Vec<Asset>> {
        page::look(&self.wheels, &table.rocm_versions(), reporter)
    }
}
