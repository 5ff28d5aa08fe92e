//! Input: the definition of the command line. Output: its reference in Markdown, a page for each
//! command and `index.md`.

use std::fmt::Write;

use clap::{Arg, Command};

use crate::help;

/// The pages: file name and text. Commands of commands are on the page of their parent.
pub(super) fn pages(program: &Command) -> Vec<(String, String)> {
    let mut index = String::from("# Commands\n\n| command | |\n| --- | --- |\n");
    let mut pages = Vec::new();
    for command in visible(program) {
        let name = command.get_name();
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        row(&mut index, format_args!("| [`{name}`](rocwheel-{name}.md) | {} |", escaped(&about)));
        let mut page = String::new();
        section(&mut page, command, 1);
        pages.push((format!("rocwheel-{name}.md"), page));
    }
    index.push_str("\n## Options of every command\n\n");
    for argument in program.get_arguments().filter(|argument| argument.is_global_set()) {
        describe(&mut index, argument);
    }
    if let Some(after) = program.get_after_long_help() {
        row(&mut index, format_args!("```text\n{}\n```", after.to_string().trim()));
    }
    pages.insert(0, ("index.md".to_owned(), index));
    pages
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

/// A command, and below it those that belong to it. `level` is that of its heading, from 1.
fn section(page: &mut String, command: &Command, level: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    row(page, format_args!("{} {name}\n", "#".repeat(level)));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        row(page, format_args!("{}\n", escaped(&about.to_string())));
    }
    // A second form is below the first one, behind the word that is cut off here.
    let usage = command.clone().render_usage().to_string().replace("\n       ", "\n");
    row(page, format_args!("```text\n{}\n```\n", usage.trim_start_matches("Usage: ").trim()));
    let mut own: Vec<&Arg> = command.get_arguments().collect();
    own.retain(|argument| !argument.is_global_set() && !argument.is_hide_set() && argument.get_id() != "help");
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in &own {
        if !headings.contains(&argument.get_help_heading()) {
            headings.push(argument.get_help_heading());
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            row(page, format_args!("**{}**\n", escaped(heading)));
        }
        let of_heading = own.iter().filter(|argument| argument.get_help_heading() == heading);
        of_heading.for_each(|argument| describe(page, argument));
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        row(page, format_args!("{}\n", escaped(&after.to_string())));
    }
    let path = name.strip_prefix("rocwheel ").unwrap_or_default();
    for (variable, meaning) in help::variables(path) {
        row(page, format_args!("`{variable}`\n\n:   Variable: {}\n", escaped(meaning)));
    }
    let examples: Vec<String> =
        help::examples(path).iter().map(|(line, purpose)| format!("# {purpose}\n{line}\n")).collect();
    if !examples.is_empty() {
        row(page, format_args!("```text\n{}```\n", examples.concat()));
    }
    visible(command).for_each(|inner| section(page, inner, level + 1));
}

/// An argument as an entry of a list of definitions, which Material for `MkDocs` draws.
fn describe(page: &mut String, argument: &Arg) {
    let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    row(page, format_args!("`{short}{argument}`\n"));
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = escaped(&help);
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() && !argument.is_hide_default_value_set() {
        let _ = write!(text, "\n\nDefault: `{}`", defaults.join(" "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(text, "\n\nVariable: `{}`", variable.to_string_lossy());
    }
    let values = argument.get_possible_values();
    if argument.get_action().takes_values() && !argument.is_hide_possible_values_set() && !values.is_empty() {
        text.push_str("\n\n");
        for value in values.iter().filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(|help| format!(": {}", escaped(&help.to_string()))).unwrap_or_default();
            let _ = writeln!(text, "- `{}`{help}", value.get_name());
        }
    }
    let mut lines = text.trim_end().lines();
    row(page, format_args!(":   {}", lines.next().unwrap_or_default()));
    for line in lines {
        row(page, format_args!("{}{line}", if line.is_empty() { "" } else { "    " }));
    }
    page.push('\n');
}

fn row(page: &mut String, line: std::fmt::Arguments<'_>) {
    page.write_fmt(line).expect("a string takes everything");
    page.push('\n');
}

/// Text as Markdown: outside of backticks nothing in it is markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut in_code = false;
    for character in text.chars() {
        match character {
            '`' => in_code = !in_code,
            '<' if !in_code => {
                escaped.push_str("&lt;");
                continue;
            }
            '*' | '_' | '[' | ']' | '\\' | '|' if !in_code => escaped.push('\\'),
            _ => (),
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_no_markup() {
        assert_eq!(escaped("`a_b*` and <DIR> in wheel_*"), "`a_b*` and &lt;DIR> in wheel\\_\\*");
    }

    #[test]
    fn every_option_is_on_its_page() {
        let mut program = Command::new("tool").subcommand(
            Command::new("make")
                .about("Make things")
                .arg(Arg::new("to").long("to").value_name("DIR").help("Where").default_value("out"))
                .subcommand(Command::new("all").arg(Arg::new("what").required(true).help("The thing"))),
        );
        program.build();
        let pages = pages(&program);
        assert!(pages[0].1.contains("| [`make`](rocwheel-make.md) | Make things |"), "{}", pages[0].1);
        let (name, page) = &pages[1];
        assert_eq!(name, "rocwheel-make.md");
        for part in ["# tool make\n", "`--to <DIR>`\n\n:   Where\n\n    Default: `out`", "## tool make all", "`<what>`"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
