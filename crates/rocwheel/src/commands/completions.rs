//! `rocwheel completions SHELL`: the script with which a shell completes the command line.

use clap::CommandFactory;
use clap_complete::{Generator, Shell, generate};
use clap_complete_nushell::Nushell;
use rocwheel_report::Exit;

use crate::arguments::{Arguments, CompletionShell};
use crate::failure::Result;
use crate::printer::Printer;

pub(crate) fn command(shell: CompletionShell, printer: &Printer) -> Result<Exit> {
    let script = match shell {
        CompletionShell::Bash => script(Shell::Bash),
        CompletionShell::Elvish => script(Shell::Elvish),
        CompletionShell::Fish => script(Shell::Fish),
        CompletionShell::Nushell => script(Nushell),
        CompletionShell::PowerShell => script(Shell::PowerShell),
        CompletionShell::Zsh => script(Shell::Zsh),
    };
    printer.raw(&script)?;
    Ok(Exit::Done)
}

fn script(shell: impl Generator) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "rocwheel", &mut script);
    script
}
