//! What `--help` prints beyond clap's own text: the commands in groups, and two examples for each
//! command. Manual pages print the same examples.

#[cfg(test)]
mod documentation;
mod examples;
mod scripts;
mod variables;

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::Command;

use rocwheel_console::arguments::STYLES;
use rocwheel_console::message;

use examples::EXAMPLES;
use scripts::SCRIPTS;
pub(crate) use variables::variables;

/// A heading of the program's help, and the commands below it.
type Group = (&'static str, &'static [&'static str]);

const GROUPS: [Group; 5] = [
    ("Any wheel", &["audit", "repair", "edit", "diff"]),
    ("GPU code", &["kernels", "prune", "split", "fuse"]),
    ("ROCm as packages", &["artifact", "package", "rocm-version", "compat", "data"]),
    ("Build, test, publish", &["source", "build", "recipe", "matrix", "test", "index", "release"]),
    ("This machine and rocwheel", &["choose", "doctor", "config", "completions", "man", "help"]),
];

/// Columns of the help where no terminal says how many it has: clap's default.
const COLUMNS: usize = 100;

/// Columns that help uses at most (`max_term_width`).
const MOST_COLUMNS: usize = 120;

/// Columns before the description of a command.
const INDENT: usize = 16;

/// The command line with grouped commands and with examples.
pub(crate) fn program(plain: Command) -> Command {
    let columns = comfy_table::Table::new().width().map_or(COLUMNS, usize::from).min(MOST_COLUMNS);
    let groups = grouped(&plain, columns);
    // clap has one list of commands. Hidden commands are absent from it, and still parsed.
    without_text(explained(plain, "")).help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{all-args}}{{after-help}}"
    ))
}

/// The same command line for parsing, without what only help prints, which takes a third of the
/// time of starting.
pub(crate) fn without_text(plain: Command) -> Command {
    plain.mut_subcommands(|inner| inner.hide(true)).override_usage("rocwheel [OPTIONS] <COMMAND>")
}

/// The words that ask for the same help with `--help`: `rocwheel help source hipify`.
pub(crate) fn words_for(program: &OsString, command: &[OsString]) -> Vec<OsString> {
    let mut words = vec![program.clone()];
    // Of the word `help` itself the program's help is the explanation.
    words.extend(command.iter().filter(|word| *word != "help").cloned());
    words.push("--help".into());
    words
}

/// The examples of a command, each with its purpose. `path` is `source hipify`. A command of
/// commands has the first example of two of them.
pub(crate) fn examples(path: &str) -> Vec<(String, &'static str)> {
    if let Some(script) = path.strip_prefix("compat ") {
        let calls = SCRIPTS.iter().filter(|(call, _)| call.strip_prefix(script).is_some_and(is_word_end));
        return calls.map(|(call, purpose)| (format!("rocwheel compat {call}"), *purpose)).collect();
    }
    let own: Vec<_> = EXAMPLES.iter().filter(|(command, ..)| *command == path).collect();
    let mut chosen = own;
    if chosen.is_empty() {
        let mut all: Vec<_> = EXAMPLES.iter().collect();
        all.retain(|(command, ..)| command.strip_prefix(path).is_some_and(|rest| rest.starts_with(' ')));
        let mut firsts = all.clone();
        firsts.dedup_by_key(|example| example.0);
        chosen = if firsts.len() > 1 { firsts } else { all };
        chosen.truncate(2);
    }
    chosen.into_iter().map(|(_, line, purpose)| ((*line).to_owned(), *purpose)).collect()
}

/// `true` if a word ends where `rest` begins.
fn is_word_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(' ')
}

fn explained(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        explained(inner, path.trim_start())
    });
    let (header, literal) = (STYLES.get_header(), STYLES.get_placeholder());
    let mut sections: Vec<String> =
        command.get_after_long_help().map(|text| text.ansi().to_string()).into_iter().collect();
    let read = variables(path);
    let width = read.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let rows = read.iter().map(|(name, meaning)| format!("\n  {literal}{name:width$}{literal:#}  {meaning}"));
    let rows: String = rows.collect();
    if !rows.is_empty() {
        sections.push(format!("{header}Environment:{header:#}{rows}"));
    }
    let rows = examples(path).into_iter().map(|(line, why)| format!("\n  # {why}\n  {literal}{line}{literal:#}"));
    let rows: String = rows.collect();
    if !rows.is_empty() {
        sections.push(format!("{header}Examples:{header:#}{rows}"));
    }
    if sections.is_empty() { command } else { command.after_long_help(sections.join("\n\n")) }
}

fn grouped(program: &Command, columns: usize) -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let lines =
                message::wrapped(&about, columns.saturating_sub(INDENT).max(20)).join(&format!("\n{:INDENT$}", ""));
            let width = INDENT - 2;
            let _ = writeln!(text, "  {literal}{:width$}{literal:#}{lines}", command.get_name());
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::{Arguments, path_of};

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let program = Arguments::command();
        let mut known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn no_recipe_has_the_name_of_a_command_of_build() {
        let program = Arguments::command();
        let commands = program.find_subcommand("build").unwrap().get_subcommands();
        let mut names: Vec<&str> = commands.map(Command::get_name).collect();
        let mut reserved = rocwheel_recipe::recipe::PLAN_COMMANDS;
        names.sort_unstable();
        reserved.sort_unstable();
        assert_eq!(names, reserved);
    }

    #[test]
    fn every_example_is_accepted_and_runs_its_command() {
        for (path, line, _) in EXAMPLES {
            let matches = program(Arguments::command()).try_get_matches_from(line.split(' '));
            let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
            let typed = path_of(&matches);
            assert!(typed == *path || ["compat", ""].contains(path), "{line} runs {typed}");
        }
        for (call, _) in SCRIPTS {
            let matches = program(Arguments::command())
                .try_get_matches_from(["rocwheel", "compat"].into_iter().chain(call.split(' ')));
            let matches = matches.unwrap_or_else(|error| panic!("{call}: {error}"));
            let typed = path_of(&matches);
            assert!(format!("compat {call}").strip_prefix(&typed).is_some_and(is_word_end), "{call} runs {typed}");
        }
    }

    #[test]
    fn every_command_has_two_examples() {
        fn walk(command: &Command, path: &str, lacking: &mut Vec<String>) {
            // The examples of a script are for all of its commands together.
            let is_of_script = path.split(' ').count() > 2 && path.starts_with("compat ");
            if examples(path).len() != 2 && !is_of_script {
                lacking.push(format!("{path}: {}", examples(path).len()));
            }
            for inner in command.get_subcommands() {
                walk(inner, format!("{path} {}", inner.get_name()).trim_start(), lacking);
            }
        }
        let mut lacking = Vec::new();
        walk(&Arguments::command(), "", &mut lacking);
        assert_eq!(lacking, [] as [&str; 0]);
    }
}
