//! Generates docs/coming-from.md from the table. Only a test writes the page.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Word, words};

#[derive(Debug, Deserialize)]
struct Table {
    #[serde(rename = "document")]
    documents: Vec<Document>,
    #[serde(rename = "variable")]
    variables: Vec<Variable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: String,
    about: String,
    #[serde(rename = "command")]
    commands: Vec<Command>,
}

/// A command line of a document. Several lines are several commands, unless a line is continued.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Command {
    theirs: String,
    script: Option<String>,
    ours: Option<String>,
    #[serde(default)]
    unchanged: bool,
    /// What most people look for: it is at the top of the page, too.
    #[serde(default)]
    common: bool,
    #[serde(default)]
    note: String,
    /// The command that tests run; the page does not show it.
    #[serde(rename = "test")]
    _test: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    ours: String,
}

const HEAD: &str = "\
# Coming from other documents

<!-- Made from data/documents.toml: `INSTA_UPDATE=always cargo test --package rocwheel documents` writes this page. -->

Five documents describe how to build and package ROCm and its frameworks with scripts. This page has
each of their command lines beside rocwheel's. Tests run both, and compare what they plan or make.

The scripts' own names work too: `rocwheel compat` takes the name of a script with its options. It
prints rocwheel's command line and runs it; options of `rocwheel build` can be added behind `--`.
[deviations.md](deviations.md) lists the differences. If you type a word of these documents at another
command of rocwheel, the answer names ours: see [Words](#words).

";

const COMMON: &str = "\
## What most people look for

| the document | rocwheel |
| --- | --- |
";

/// The anchor of a heading, as GitHub and the site make it.
fn anchor(title: &str) -> String {
    let kept = title.to_lowercase().replace(' ', "-");
    kept.chars().filter(|one| one.is_alphanumeric() || "-_".contains(*one)).collect()
}

/// The text of the page.
fn page() -> String {
    let table: Table = toml::from_str(include_str!("../../../../../data/documents.toml")).unwrap();
    let mut text = HEAD.to_owned();
    for Document { title, .. } in &table.documents {
        writeln!(text, "* [{title}](#{})", anchor(title)).unwrap();
    }
    writeln!(text, "* [Variables](#variables)\n* [Words](#words)\n\n{COMMON}").unwrap();
    text.truncate(text.trim_end().len() + 1);
    let all = table.documents.iter().flat_map(|document| &document.commands);
    for command in all.filter(|command| command.common) {
        writeln!(text, "| {} | {} |", code(&command.theirs), answer(command)).unwrap();
    }
    text.push('\n');
    for document in &table.documents {
        let Document { title, about, .. } = document;
        write!(text, "## {title}\n\n{about}\n\n| the document | rocwheel | |\n| --- | --- | --- |\n").unwrap();
        for command in &document.commands {
            writeln!(text, "| {} | {} | {} |", code(&command.theirs), answer(command), command.note).unwrap();
        }
        text.push('\n');
    }
    text.push_str("## Variables\n\n| variable | in rocwheel |\n| --- | --- |\n");
    for Variable { name, ours } in &table.variables {
        writeln!(text, "| `{name}` | {ours} |").unwrap();
    }
    text.push_str(
        "\n## Words\n\nWhat rocwheel answers when these are typed.\n\n| at | typed | answer |\n| --- | --- | --- |\n",
    );
    for word in words() {
        let at = format!("rocwheel {}", word.at);
        writeln!(text, "| `{}` | {} | {} |", at.trim_end(), rocwheel_progress::in_backticks(&word.typed), said(word))
            .unwrap();
    }
    text
}

fn answer(command: &Command) -> String {
    let ours = command.ours.as_deref().map(code);
    let or = if ours.is_some() { "or<br>" } else { "" };
    let script = command.script.as_deref().map(|script| format!("{or}{}", code(script)));
    let same = command.unchanged.then(|| "the same".to_owned());
    let parts: Vec<String> = [ours, script, same].into_iter().flatten().collect();
    parts.join(if command.unchanged { "; " } else { "<br>" })
}

/// Formats command lines as a cell of a table. A line that begins with `#` is a sentence.
fn code(lines: &str) -> String {
    let joined = lines.trim().replace("\\\n", "").replace("^\n", "");
    let cells = joined.lines().map(|line| match line.strip_prefix("# ") {
        Some(sentence) => sentence.to_owned(),
        None => format!("`{}`", line.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")),
    });
    cells.collect::<Vec<_>>().join("<br>")
}

fn said(word: &Word) -> String {
    match &word.meant {
        Some(meant) => format!("`{meant}`. {}", word.why),
        None => word.why.clone(),
    }
}

#[test]
fn the_page_is_made_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/coming-from.md");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
        fs_err::write(path, page()).unwrap();
    }
    let written = fs_err::read_to_string(path).unwrap();
    assert!(written == page(), "docs/coming-from.md is old: run this test with INSTA_UPDATE=always");
}
