//! `rocwheel completions SHELL`: the script with which a shell completes the command line.

mod values;

use std::fmt::Write as _;

use clap::{Command, ValueEnum};
use clap_complete::{Generator, Shell, generate};
use clap_complete_nushell::Nushell;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_progress::Exit;

/// The shells that completion scripts are written for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CompletionShell {
    /// GNU Bash
    Bash,
    /// Elvish
    Elvish,
    /// Fish
    Fish,
    /// Nushell
    Nushell,
    /// PowerShell
    #[value(name = "powershell")]
    PowerShell,
    /// Z shell
    Zsh,
}

pub(crate) fn command(program: Command, shell: CompletionShell, printer: &Printer) -> Result<Exit> {
    let program = values::with_values(program)?;
    let script = match shell {
        CompletionShell::Bash => script(Shell::Bash, program),
        CompletionShell::Elvish => script(Shell::Elvish, program),
        CompletionShell::Fish => {
            let arguments = fish_arguments(&program);
            [script(Shell::Fish, program), arguments.into_bytes()].concat()
        }
        CompletionShell::Nushell => script(Nushell, program),
        CompletionShell::PowerShell => script(Shell::PowerShell, program),
        CompletionShell::Zsh => script(Shell::Zsh, program),
    };
    printer.raw(&script)?;
    Ok(Exit::Done)
}

fn script(shell: impl Generator, mut program: Command) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut program, "rocwheel", &mut script);
    script
}

/// Lines that complete arguments without a dash, which `clap_complete` does not write for fish.
fn fish_arguments(program: &Command) -> String {
    let mut lines = String::new();
    for command in program.get_subcommands() {
        let condition = format!("__fish_rocwheel_using_subcommand {}", command.get_name());
        write_fish(&mut lines, command, &condition);
        for inner in command.get_subcommands() {
            let condition = format!("{condition}; and __fish_seen_subcommand_from {}", inner.get_name());
            write_fish(&mut lines, inner, &condition);
        }
    }
    lines
}

fn write_fish(lines: &mut String, command: &Command, condition: &str) {
    for argument in command.get_positionals() {
        let values: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if !values.is_empty() {
            let _ = writeln!(lines, "complete -c rocwheel -n \"{condition}\" -f -a \"{}\"", values.join(" "));
        }
    }
}
