//! `rocwheel man DIRECTORY`: a page for the program and for each command, with the same bytes every
//! time: manual pages, or Markdown for the documentation's site.

mod markdown;

use std::path::Path;

use clap::{Command, ValueEnum};
use clap_mangen::Man;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_progress::Context;
use rocwheel_progress::Exit;

use crate::help;

/// The form of the manual pages.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum ManualFormat {
    /// Manual pages for `man`
    #[default]
    Man,
    /// Markdown, a page for each command
    Markdown,
}

/// Writes the pages and prints their paths.
pub(crate) fn command(mut program: Command, directory: &Path, format: ManualFormat, printer: &Printer) -> Result<Exit> {
    fs_err::create_dir_all(directory).context("cannot make the directory of the manual pages")?;
    program.build();
    match format {
        ManualFormat::Man => roff(&program, directory, printer)?,
        ManualFormat::Markdown => {
            for (name, page) in markdown::pages(&program) {
                write(&directory.join(name), page.as_bytes(), printer)?;
            }
        }
    }
    Ok(Exit::Done)
}

fn roff(command: &Command, directory: &Path, printer: &Printer) -> Result<()> {
    // No date: the page depends only on the command line. Without quotes the source would be taken
    // for the date.
    let source = concat!("rocwheel ", env!("CARGO_PKG_VERSION"));
    let manual = Man::new(command.clone()).date("\"\"").source(source).manual("rocwheel");
    let mut page = Vec::new();
    manual.render(&mut page).context("cannot make a manual page")?;
    let mut page = with_usage(&String::from_utf8_lossy(&page), command).into_bytes();
    page.extend(environment(command).into_bytes());
    page.extend(examples(command).into_bytes());
    write(&directory.join(manual.get_filename()), &page, printer)?;
    command.get_subcommands().try_for_each(|inner| roff(inner, directory, printer))
}

/// A page whose synopsis is the usage that `--help` prints: that of clap_mangen names each option
/// without its value.
fn with_usage(page: &str, command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let lines: Vec<String> = usage.trim_start_matches("Usage: ").lines().map(|line| literal(line.trim())).collect();
    let (before, rest) = page.split_once(".SH SYNOPSIS\n").unwrap_or((page, ""));
    let after = rest.split_once(".SH ").map_or("", |(_, after)| after);
    format!("{before}.SH SYNOPSIS\n{}\n.SH {after}", lines.join("\n.br\n"))
}

/// The words of a command without the program's: `source hipify`.
fn path_of(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_default().strip_prefix("rocwheel ").unwrap_or_default()
}

/// Text in which groff prints dashes that shells understand.
fn literal(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// The section ENVIRONMENT of a page, empty for commands that read no variables of their own.
fn environment(command: &Command) -> String {
    let rows: String = help::variables(path_of(command))
        .into_iter()
        .map(|(name, meaning)| format!(".TP\n\\fB{}\\fR\n{}\n", literal(name), literal(meaning)))
        .collect();
    if rows.is_empty() { rows } else { format!(".SH ENVIRONMENT\n{rows}") }
}

/// The section EXAMPLES of a page, empty for commands without examples.
fn examples(command: &Command) -> String {
    let mut section = String::new();
    for (line, purpose) in help::examples(path_of(command)) {
        if section.is_empty() {
            section.push_str(".SH EXAMPLES\n");
        }
        section.push_str(&format!(".TP\n{purpose}\n.nf\n\\fB{}\\fR\n.fi\n", literal(&line)));
    }
    section
}

fn write(path: &Path, page: &[u8], printer: &Printer) -> Result<()> {
    fs_err::write(path, page).context("cannot write a manual page")?;
    printer.line(path.display().to_string())?;
    Ok(())
}
