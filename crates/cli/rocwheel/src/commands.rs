//! One file per command: arguments → settings → `command`.

pub(crate) mod compat;
pub mod completions;
pub(crate) mod config;
pub(crate) mod data;
pub mod man;

use rocwheel_commands_build::source::{checkout, hipify as source_hipify, manifest, patches};
use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _};
use rocwheel_commands_build::{build, matrix, recipe, rocm_version};
use rocwheel_commands_publish::{index, release};
use rocwheel_commands_test::{choose, doctor, test};
use rocwheel_commands_wheel::{
    artifact_archive, artifact_fetch, artifact_flatten, artifact_import, artifact_list, artifact_push, artifact_verify,
    audit, diff, edit, fuse, kernels, package, prune, repair, split,
};
use rocwheel_console::environment;
use rocwheel_console::failure::{Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_console::run;
use rocwheel_progress::Exit;

use crate::arguments::{Arguments, ArtifactCommand, Command, SourceCommand};

/// Runs the command that the user typed.
pub(crate) fn dispatch(arguments: Arguments, printer: &Printer) -> Result<Exit> {
    let jobs = arguments.global.jobs;
    let choice = arguments.global.configuration();
    let has_rows = !arguments.global.data_file.is_empty();
    match arguments.command {
        Command::Artifact(ArtifactCommand::Import(arguments)) => run!(artifact_import, arguments, printer),
        Command::Artifact(ArtifactCommand::Fetch(arguments)) => run!(artifact_fetch, *arguments, printer),
        Command::Artifact(ArtifactCommand::Push(arguments)) => run!(artifact_push, arguments, printer),
        Command::Artifact(ArtifactCommand::List(arguments)) => run!(artifact_list, arguments, printer),
        Command::Artifact(ArtifactCommand::Archive(arguments)) => run!(artifact_archive, arguments, printer),
        Command::Artifact(ArtifactCommand::Flatten(arguments)) => run!(artifact_flatten, arguments, printer),
        Command::Artifact(ArtifactCommand::Verify(arguments)) => run!(artifact_verify, arguments, printer),
        Command::Split(arguments) => split::run(*arguments, printer),
        Command::Compat(mut arguments) => {
            arguments.jobs = jobs;
            let settings = compat::Settings::try_from(*arguments)?;
            printer.settings(&settings);
            compat::command(&settings, run_words, printer)
        }
        Command::Fuse(arguments) => run!(fuse, *arguments, printer),
        Command::Audit(arguments) => run!(audit, *arguments, printer),
        Command::Edit(arguments) => run!(edit, *arguments, printer),
        Command::Diff(arguments) => run!(diff, arguments, printer),
        Command::Choose(arguments) => run!(choose, arguments, printer),
        Command::Doctor(arguments) => run!(doctor, arguments, printer),
        Command::Test(command) => test::run(command, printer),
        Command::Package(arguments) => run!(package, *arguments, printer),
        Command::Kernels(arguments) => run!(kernels, arguments, printer),
        Command::Prune(arguments) => run!(prune, arguments, printer),
        Command::Repair(arguments) => run!(repair, *arguments, printer),
        Command::Source(SourceCommand::Checkout(mut arguments)) => {
            arguments.connections = jobs;
            run!(checkout, *arguments, printer)
        }
        Command::Source(SourceCommand::Hipify(arguments)) => run!(source_hipify, *arguments, printer),
        Command::Source(SourceCommand::Manifest(arguments)) => run!(manifest, *arguments, printer),
        Command::Source(SourceCommand::Patches(arguments)) => run!(patches, arguments, printer),
        Command::Build(mut arguments) => {
            arguments.compilers = jobs;
            if has_rows {
                arguments.take_rows()?;
            }
            run!(build, *arguments, printer)
        }
        Command::Recipe(command) => run!(recipe, command, printer),
        Command::Matrix(arguments) => run!(matrix, arguments, printer),
        Command::Index(command) => index::run(command, printer),
        Command::Release(command) => release::run(command, printer),
        Command::RocmVersion(arguments) => run!(rocm_version, arguments, printer),
        Command::Data(arguments) => run!(data, arguments, printer),
        Command::Config(arguments) => {
            let settings = arguments.settings(choice)?;
            printer.settings(&settings);
            config::command(&settings, Arguments::command(), printer)
        }
        Command::Completions { shell } => {
            printer.refuse_json("completions")?;
            completions::command(Arguments::command(), shell, printer)
        }
        // `main` replaces it with `--help` before the command line is read.
        Command::Help { .. } => Err(Usage::new("`rocwheel help` takes the words of a command").into()),
        Command::Man { directory, format } => {
            printer.refuse_json("man")?;
            man::command(Arguments::command(), &directory, format, printer)
        }
    }
}

/// Runs the words of a command line without the name of the program.
fn run_words(words: &[OsString], jobs: Option<u16>, printer: &Printer) -> Result<Exit> {
    let words = [OsString::from("rocwheel")].into_iter().chain(words.iter().cloned());
    let matches = environment::without_variables(Arguments::command()).try_get_matches_from(words);
    let mut parsed = matches.and_then(|matches| Arguments::from_arg_matches(&matches)).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        Usage::new(first.strip_prefix("error: ").unwrap_or(first).to_owned())
    })?;
    parsed.global.jobs = jobs;
    dispatch(parsed, printer)
}
