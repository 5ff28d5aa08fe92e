//! The program: arguments → settings → command → exit code. Everything ROCm, ELF or wheel is in the libraries; here
//! are the command line, the environment, the terminal and the words.

mod arguments;
mod commands;
mod environment;
mod failure;
mod github;
mod interrupt;
mod misplaced;
mod printer;
mod progress;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use report::Exit;

use crate::arguments::Arguments;
use crate::printer::{Format, Printer};

fn main() -> ExitCode {
    printer::choose_color(arguments::color_of(std::env::args_os()));
    failure::install_panic_hook();
    let exit = failure::guard(|| match parse() {
        Ok(arguments) => run(arguments),
        Err(exit) => exit,
    });
    ExitCode::from(exit as u8)
}

/// Reads the command line; what is wrong with it, and `--help`, is printed here.
fn parse() -> Result<Arguments, Exit> {
    let command = Arguments::command();
    let matches = command.try_get_matches();
    if let Ok(matches) = &matches {
        github::begin(arguments::path_of(matches));
    }
    matches.and_then(|matches| Arguments::from_arg_matches(&matches)).map_err(|error| {
        let typed = || std::env::args_os().filter_map(|argument| argument.into_string().ok());
        let explained = misplaced::explain(&error).or_else(|| commands::compat::explain(&error, typed()));
        if let Some(misplaced) = explained {
            failure::print(&misplaced.into());
            return Exit::Usage;
        }
        failure::print_usage(&error);
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    })
}

fn run(arguments: Arguments) -> Exit {
    let printer = Printer::new(&arguments.global);
    let answer = environment::prepare(&arguments.global)
        .and_then(|()| interrupt::install(printer.progress()))
        .and_then(|()| commands::dispatch(arguments, &printer));
    printer.finish();
    let exit = answer.unwrap_or_else(|error| {
        let exit = failure::print(&error);
        if printer.format() == Format::Json {
            // Nobody is left to tell when stdout itself is what failed.
            let _ = printer.json(&failure::document(&error));
        }
        exit
    });
    printer.conclude(exit);
    exit
}
