//! One file per command: arguments → settings → `command`.

pub(crate) mod artifact_archive;
pub(crate) mod artifact_fetch;
pub(crate) mod artifact_flatten;
pub(crate) mod artifact_import;
mod artifact_inputs;
pub(crate) mod artifact_list;
pub(crate) mod artifact_push;
pub(crate) mod artifact_verify;
pub(crate) mod audit;
pub(crate) mod build;
pub(crate) mod compat;
mod completions;
pub(crate) mod config;
pub(crate) mod data;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod edit;
pub(crate) mod fuse;
pub(crate) mod index;
pub(crate) mod kernels;
pub(crate) mod last_look;
mod man;
pub(crate) mod matrix;
pub(crate) mod package;
pub(crate) mod prune;
pub(crate) mod recipe;
pub(crate) mod release;
pub(crate) mod repair;
mod reuse;
pub(crate) mod rocm_version;
pub(crate) mod source;
pub(crate) mod split;
mod split_files;
mod split_wheel;
pub(crate) mod test;

pub(crate) use rocwheel_output::Mode;
use rocwheel_progress::Exit;

use crate::arguments::{Arguments, ArtifactCommand, Command, SourceCommand};
use crate::commands::index::{IndexCommand, build as index_build, check as index_check, server as index_server};
use crate::commands::source::{checkout, hipify as source_hipify, manifest, patches};
use crate::failure::{Result, Usage};
use crate::printer::{Format, Printer};

/// Runs the command that the user typed.
pub(crate) fn dispatch(arguments: Arguments, printer: &Printer) -> Result<Exit> {
    /// Makes the settings, prints them with `-vv`, and hands them to the command.
    macro_rules! run {
        ($command:ident, $arguments:expr) => {{
            let settings = $command::Settings::try_from($arguments)?;
            printer.settings(&settings);
            $command::command(&settings, printer)
        }};
    }
    let jobs = arguments.global.jobs;
    let choice = arguments.global.configuration();
    let has_rows = !arguments.global.data_file.is_empty();
    match arguments.command {
        Command::Artifact(ArtifactCommand::Import(arguments)) => run!(artifact_import, arguments),
        Command::Artifact(ArtifactCommand::Fetch(arguments)) => run!(artifact_fetch, *arguments),
        Command::Artifact(ArtifactCommand::Push(arguments)) => run!(artifact_push, arguments),
        Command::Artifact(ArtifactCommand::List(arguments)) => run!(artifact_list, arguments),
        Command::Artifact(ArtifactCommand::Archive(arguments)) => run!(artifact_archive, arguments),
        Command::Artifact(ArtifactCommand::Flatten(arguments)) => run!(artifact_flatten, arguments),
        Command::Artifact(ArtifactCommand::Verify(arguments)) => run!(artifact_verify, arguments),
        Command::Split(arguments) if arguments.is_of_wheels() => run!(split_wheel, *arguments),
        Command::Split(arguments) if arguments.is_of_files() => run!(split_files, *arguments),
        Command::Split(arguments) => run!(split, *arguments),
        Command::Compat(mut arguments) => {
            arguments.jobs = jobs;
            run!(compat, *arguments)
        }
        Command::Fuse(arguments) => run!(fuse, *arguments),
        Command::Audit(arguments) => run!(audit, *arguments),
        Command::Edit(arguments) => run!(edit, *arguments),
        Command::Diff(arguments) => run!(diff, arguments),
        Command::Doctor(arguments) => run!(doctor, arguments),
        Command::Test(command) => test::run(command, printer),
        Command::Package(arguments) => run!(package, *arguments),
        Command::Kernels(arguments) => run!(kernels, arguments),
        Command::Prune(arguments) => run!(prune, arguments),
        Command::Repair(arguments) => run!(repair, *arguments),
        Command::Source(SourceCommand::Checkout(mut arguments)) => {
            arguments.connections = jobs;
            run!(checkout, *arguments)
        }
        Command::Source(SourceCommand::Hipify(arguments)) => run!(source_hipify, *arguments),
        Command::Source(SourceCommand::Manifest(arguments)) => run!(manifest, *arguments),
        Command::Source(SourceCommand::Patches(arguments)) => run!(patches, arguments),
        Command::Build(mut arguments) => {
            arguments.compilers = jobs;
            if has_rows {
                arguments.take_rows()?;
            }
            run!(build, *arguments)
        }
        Command::Recipe(command) => run!(recipe, command),
        Command::Matrix(arguments) => run!(matrix, arguments),
        Command::Index(IndexCommand::Build(arguments)) => run!(index_build, *arguments),
        Command::Index(IndexCommand::Check(arguments)) => run!(index_check, arguments),
        Command::Index(IndexCommand::Server(arguments)) => {
            without_json("index server", printer)?;
            run!(index_server, arguments)
        }
        Command::Release(command) => release::run(command, printer),
        Command::RocmVersion(arguments) => run!(rocm_version, arguments),
        Command::Data(arguments) => run!(data, arguments),
        Command::Config(arguments) => {
            let settings = arguments.settings(choice)?;
            printer.settings(&settings);
            config::command(&settings, printer)
        }
        Command::Completions { shell } => {
            without_json("completions", printer)?;
            completions::command(shell, printer)
        }
        // `main` replaces it with `--help` before the command line is read.
        Command::Help { .. } => Err(Usage::new("`rocwheel help` takes the words of a command").into()),
        Command::Man { directory, format } => {
            without_json("man", printer)?;
            man::command(&directory, format, printer)
        }
    }
}

/// Refuses `--json` for commands without a JSON form, rather than ignoring it.
fn without_json(command: &str, printer: &Printer) -> Result<(), Usage> {
    match printer.format() {
        Format::Text => Ok(()),
        Format::Json => Err(Usage::new(format!("`rocwheel {command}` has no JSON form")).hint("remove `--json`")),
    }
}
