//! The program: arguments → settings → command → exit code. The libraries know ROCm, ELF and
//! wheels; the command line, the environment, the terminal and the messages are here.
//!
//! [`rocwheel_commands_publish`] begins with a wheel's life in twenty calls of the libraries. These
//! are they, in the order in which to read them; each uses only those before it.
//!
//! * Ground: `rocwheel_progress` is how a library talks to its caller, `rocwheel_system` how it
//!   talks to the operating system. `rocwheel_pipeline` makes results in parallel and in order.
//!   `rocwheel_content` is bytes at random access, `rocwheel_output` a result that appears
//!   whole or not at all, `rocwheel_python_literals` reads Python's literals.
//! * Formats: `rocwheel_elf` reads and edits ELF files, `rocwheel_kpack` GPU code, with the
//!   names of `rocwheel_tables`, the tables of what AMD ships. `rocwheel_wheel` reads and
//!   writes wheels. `rocwheel_survey` finds GPU code in any file.
//! * From a ROCm build to packages: `rocwheel_artifact` → `rocwheel_package`;
//!   `rocwheel_split` moves GPU code out of files, `rocwheel_reshape` back, or drops some.
//! * What a wheel needs: `rocwheel_loader` finds libraries as the system does,
//!   `rocwheel_audit` judges, `rocwheel_repair` fixes, `rocwheel_diff` compares.
//! * From sources to frameworks: `rocwheel_hipify` → `rocwheel_source` → `rocwheel_recipe` →
//!   `rocwheel_builder`.
//! * To users: `rocwheel_store` has files, `rocwheel_pages` makes an index over them,
//!   `rocwheel_stream` gives it a history, and `rocwheel_release` publishes sets into it, which
//!   `rocwheel_promote` may have given another version. `rocwheel_mirror` and
//!   `rocwheel_delta` bring packages to machines, `rocwheel_fetch` the artifacts of a CI.
//! * On their machines: `rocwheel_doctor` examines a machine, `rocwheel_suite` runs tests,
//!   `rocwheel_report` reads what tests leave.

mod arguments;
mod commands;
mod documents;
mod failure_document;
mod help;
mod misplaced;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches};
use rocwheel_console::configuration::{self, CommandLine, Used};
use rocwheel_console::failure::Result;
use rocwheel_console::failure_text;
use rocwheel_console::message;
use rocwheel_console::printer::{self, Printer, ResultFormat};
use rocwheel_console::{environment, github, interrupt};
use rocwheel_progress::Exit;

use crate::arguments::Arguments;

fn main() -> ExitCode {
    printer::choose_color(arguments::color_of(std::env::args_os()));
    failure_text::install_panic_hook(environment::wants_backtrace());
    let exit = failure_text::guard(|| match parse() {
        Ok(parsed) => run(parsed),
        Err(exit) => exit,
    });
    ExitCode::from(exit as u8)
}

/// The parsed command line.
struct Parsed {
    arguments: Arguments,
    /// The file that added options to it, or the error of that file.
    configuration: Result<Option<Used>>,
}

/// The command line for parsing.
fn command_line() -> clap::Command {
    environment::without_empty_variables(help::without_text(Arguments::command()))
}

/// Parses words whose answer is a help text, for that text.
fn with_help(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    environment::without_empty_variables(help::program(Arguments::command())).try_get_matches_from(words)
}

fn prints_help(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Parses the command line. Errors in it, and `--help`, are printed here.
fn parse() -> Result<Parsed, Exit> {
    let mut typed = commands::compat::without_folder(std::env::args_os().collect());
    // Never freed, which would take a fifth of the time of starting.
    let command = Box::leak(Box::new(command_line()));
    let mut matches = command.try_get_matches_from_mut(&typed);
    let applied = environment::directory()
        .and_then(|directory| Ok(configuration::apply(command_line, typed.clone(), &matches, &directory)?));
    let configuration = match applied {
        Ok(CommandLine { words, configuration }) => {
            if configuration.is_some() {
                matches = command_line().try_get_matches_from(words);
            }
            Ok(configuration)
        }
        Err(error) => Err(error),
    };
    let asked = matches.as_ref().ok().and_then(|matches| matches.subcommand_matches("help"));
    if let (Some(asked), Some(program)) = (asked, typed.first()) {
        let of: Vec<_> = asked.get_many("command").unwrap_or_default().cloned().collect();
        typed = help::words_for(program, &of);
        matches = with_help(&typed);
    } else if matches.as_ref().is_err_and(|error| prints_help(error.kind())) {
        matches = with_help(&typed);
    }
    if let Ok(matches) = &matches {
        github::begin(arguments::path_of(matches));
        if let Some(misplaced) = misplaced::explain_names(matches) {
            failure_text::print(&misplaced.into());
            return Err(Exit::Usage);
        }
    }
    let error = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => return Ok(Parsed { arguments, configuration }),
        Err(error) => error,
    };
    let typed: Vec<String> = typed.into_iter().filter_map(|argument| argument.into_string().ok()).collect();
    if let Some(misplaced) =
        misplaced::explain(&error, &typed).or_else(|| commands::compat::explain(&error, typed.into_iter()))
    {
        failure_text::print(&misplaced.into());
        return Err(Exit::Usage);
    }
    let is_wrong = error.use_stderr();
    let printed = failure_text::print_usage(error);
    if !is_wrong {
        return Err(printed.map_or_else(|error| failure_text::print(&error), |()| Exit::Done));
    }
    match configuration {
        Ok(Some(used)) => message::talk(&format!("{}\n", used.hint())),
        Ok(None) => {}
        // The error may come from the lack of options in the file.
        Err(error) => drop(failure_text::print(&error)),
    }
    Err(Exit::Usage)
}

fn run(Parsed { arguments, configuration }: Parsed) -> Exit {
    let (configuration, wrong) = match configuration {
        Ok(configuration) => (configuration, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let printer = Printer::new(&arguments.global, configuration);
    let answer = wrong
        .and_then(|()| arguments.global.prepare())
        .and_then(|()| interrupt::install(printer.progress()))
        .and_then(|()| commands::dispatch(arguments, &printer));
    printer.finish();
    let exit = answer.unwrap_or_else(|error| {
        let exit = failure_text::print(&error);
        if printer.format() == ResultFormat::Json {
            // If stdout itself failed, this error cannot be reported.
            let _ = printer.json(&failure_document::document(&error));
        }
        exit
    });
    printer.conclude(exit);
    exit
}
