//! Printing: results go to stdout, everything else to stderr, and neither disturbs a progress bar.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::styling::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use rocwheel_progress::Context;
pub(crate) use rocwheel_progress::one_line;
use rocwheel_progress::{Exit, Reporter, escape_controls};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::{Color, GlobalArguments};
use crate::configuration::Used;
use crate::failure::{Failure, Result};
use crate::github::{self, Level};
use crate::progress::{Display, Progress};

const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Version of the JSON documents on stdout.
const SCHEMA: u32 = 1;

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For machines (`--json`).
    Json,
}

/// The amount of messages on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Talk {
    /// Only warnings and errors.
    Quiet,
    /// Also notes.
    Normal,
    /// Also the time of each stage.
    Verbose,
    /// Also the settings.
    Debug,
}

/// Prints for all commands.
pub(crate) struct Printer {
    format: Format,
    talk: Talk,
    progress: Arc<Progress>,
    display: Display,
    stdout_closed: AtomicBool,
    configuration: Option<Used>,
}

/// The name of a column and the alignment of its cells.
pub(crate) type Column = (&'static str, CellAlignment);

/// Sets the colour of all later output.
pub(crate) fn choose_color(color: Color) {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

impl Printer {
    /// `configuration` is the file that added options to the command line.
    pub(crate) fn new(global: &GlobalArguments, configuration: Option<Used>) -> Self {
        let talk = match (global.quiet, global.verbose) {
            (true, _) => Talk::Quiet,
            (false, 0) => Talk::Normal,
            (false, 1) => Talk::Verbose,
            (false, _) => Talk::Debug,
        };
        let display = if global.no_progress || global.quiet {
            Display::Nothing
        } else if io::stderr().is_terminal() {
            Display::Bar
        } else {
            Display::Lines
        };
        let format = if global.json { Format::Json } else { Format::Text };
        let progress = Progress::start(display, talk);
        let printer = Self { format, talk, progress, display, stdout_closed: AtomicBool::new(false), configuration };
        if let Some(Used { path, sha256, options, unused }) = &printer.configuration {
            printer.note(format!("`{}` (SHA-256 {sha256}) sets {}", path.display(), options.join(", ")));
            if let Some(project) = unused {
                printer
                    .warn(format!("`[tool.rocwheel]` of `{}` is not used: that file comes first", project.display()));
            }
        }
        printer
    }

    /// The form of the result.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// The reporter for the libraries.
    pub(crate) fn reporter(&self) -> &dyn Reporter {
        &*self.progress
    }

    /// The progress display, which also handles Ctrl-C.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Prints a line of the result, for people.
    pub(crate) fn line(&self, text: impl AsRef<str>) -> Result<()> {
        self.write(&format!("{}\n", harmless(text.as_ref())))
    }

    /// As [`Printer::line`], with colours, which are removed unless stdout shows them. The caller
    /// escapes names before.
    pub(crate) fn styled(&self, text: impl AsRef<str>) -> Result<()> {
        self.write(&format!("{}\n", text.as_ref()))
    }

    /// Prints the result for machines: the fields of `body` after the version of the schema.
    pub(crate) fn json(&self, body: &impl Serialize) -> Result<()> {
        let mut document = Map::from_iter([("schema".to_owned(), SCHEMA.into())]);
        if let Some(configuration) = &self.configuration {
            let configuration =
                serde_json::to_value(configuration).map_err(Failure::other).context("cannot write JSON")?;
            document.insert("configuration".to_owned(), configuration);
        }
        match serde_json::to_value(body).map_err(Failure::other).context("cannot write JSON")? {
            // A library's own schema version replaces ours.
            Value::Object(fields) => document.extend(fields),
            other => drop(document.insert("result".to_owned(), other)),
        }
        let text = serde_json::to_string_pretty(&document).map_err(Failure::other).context("cannot write JSON")?;
        self.write(&format!("{text}\n"))
    }

    /// As [`Printer::json`] for a result that may be large: it is printed while it is serialised.
    /// `body` must not have a schema version.
    pub(crate) fn json_stream(&self, body: &impl Serialize) -> Result<()> {
        let mut pages = Pages { printer: self, page: String::new(), failed: None };
        let written = serde_json::to_writer_pretty(&mut pages, &self.with_schema(body));
        if let Some(error) = pages.failed {
            return Err(error);
        }
        written.map_err(Failure::other).context("cannot write JSON")?;
        pages.page.push('\n');
        self.write(&pages.page)
    }

    fn with_schema<'a, T>(&'a self, body: &'a T) -> WithSchema<'a, T> {
        WithSchema { schema: SCHEMA, configuration: self.configuration.as_ref(), body }
    }

    /// Prints rows under a header. A row is one line whatever its length, so that paths can be
    /// copied.
    pub(crate) fn table(
        &self,
        columns: &[(impl AsRef<str>, CellAlignment)],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|(name, _)| name.as_ref()));
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|row| row.iter().map(|cell| one_line(cell).into_owned()).collect::<Vec<_>>())
            .collect();
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_ref()).collect();
        self.worry_about(github::step().summarise_table(&names, &rows));
        table.add_rows(rows);
        for (index, (_, alignment)) in columns.iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(*alignment);
                column.set_padding((0, 2));
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
        self.line(lines.join("\n"))
    }

    /// Prints bytes of the result unchanged, such as a completion script.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<()> {
        self.write(&String::from_utf8_lossy(bytes))
    }

    /// Prints a note that is not part of the result.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        if self.talk >= Talk::Normal {
            self.progress.say(&github::step().defused(&harmless(text.as_ref())));
        }
    }

    /// `true` if [`Printer::detail`] prints.
    pub(crate) fn has_details(&self) -> bool {
        self.talk >= Talk::Verbose
    }

    /// The way in which progress is shown.
    pub(crate) fn display(&self) -> Display {
        self.display
    }

    /// Prints a note for `-v`.
    pub(crate) fn detail(&self, text: impl AsRef<str>) {
        if self.has_details() {
            self.progress.say(&github::step().defused(&harmless(text.as_ref())));
        }
    }

    /// Prints a warning; `--quiet` does not silence it.
    pub(crate) fn warn(&self, text: impl AsRef<str>) {
        self.progress.say(&warning(text.as_ref()));
    }

    /// Prints an annotation of the workflow on GitHub, and nothing elsewhere: the result has the
    /// same text in another form.
    pub(crate) fn point_out(&self, level: Level, text: &str) {
        if let Some(line) = github::step().annotation(level, &one_line(text)) {
            self.progress.say(&line);
        }
    }

    /// Prints the settings of a command for `-vv`.
    pub(crate) fn settings(&self, settings: &impl std::fmt::Debug) {
        if self.talk >= Talk::Debug {
            self.progress.say(&format!("{settings:#?}"));
        }
    }

    /// Sets outputs of the GitHub step for later steps; does nothing elsewhere.
    pub(crate) fn outputs(&self, outputs: &[(&str, &str)]) -> Result<()> {
        for name in github::step().set_outputs(outputs)? {
            self.warn(format!("the output `{name}` is larger than the 1 MiB that GitHub takes, and is skipped"));
        }
        Ok(())
    }

    /// Adds a table of names and values to the summary of the GitHub step; the log shows them in
    /// another form.
    pub(crate) fn summarise(&self, columns: &[&str; 2], rows: &[(&str, &str)]) {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|(name, value)| vec![(*name).to_owned(), (*value).to_owned()]).collect();
        self.summarise_rows(columns, &rows);
    }

    /// Adds a table to the summary of the GitHub step; the log shows its contents in another form.
    pub(crate) fn summarise_rows(&self, columns: &[&str], rows: &[Vec<String>]) {
        self.worry_about(github::step().summarise_table(columns, rows));
    }

    /// Prints the output of `body` as a group of GitHub's log.
    pub(crate) fn group(&self, name: &str, body: impl FnOnce()) {
        if let Some(line) = github::step().group(name) {
            self.progress.suspended(|| talk(&line));
        }
        body();
        if let Some(line) = github::step().end_group() {
            self.progress.suspended(|| talk(line));
        }
    }

    /// Sets the exit code as an output of the GitHub step.
    pub(crate) fn conclude(&self, exit: Exit) {
        let step = github::step();
        if !step.is_running {
            return;
        }
        self.worry_about(step.set_outputs(&[("exit_code", &exit.to_string())]).map(drop));
        if exit != Exit::Done {
            self.worry_about(step.summarise_sentence(&format!("exit code {exit}: {}", in_words(exit))));
        }
    }

    /// Turns a failure to write to the summary into a warning, since it is only for people.
    fn worry_about(&self, answer: Result<()>) {
        if let Err(error) = answer {
            self.warn(format!("{error:#}"));
        }
    }

    /// Removes the progress bar from the terminal. To be called before the program ends.
    pub(crate) fn finish(&self) {
        self.progress.stop();
    }

    /// Writes to stdout. A reader that closes the pipe (`| head`) is not an error: the command
    /// continues and keeps its exit code.
    fn write(&self, text: &str) -> Result<()> {
        if self.stdout_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let answer = self.progress.suspended(|| {
            let mut stdout = anstream::stdout().lock();
            let text = github::step().defused(text);
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        });
        match answer {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.stdout_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            answer => answer.context("cannot write to stdout"),
        }
    }
}

/// A document that begins with the version of the schema.
#[derive(Serialize)]
struct WithSchema<'a, T> {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<&'a Used>,
    #[serde(flatten)]
    body: &'a T,
}

/// Collects output until a page is full.
struct Pages<'a> {
    printer: &'a Printer,
    page: String,
    failed: Option<Failure>,
}

impl Write for Pages<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const PAGE: usize = 1 << 16;
        // serde_json writes whole characters.
        self.page.push_str(std::str::from_utf8(bytes).map_err(io::Error::other)?);
        if self.page.len() >= PAGE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let printed = self.printer.write(&self.page);
        self.page.clear();
        printed.map_err(|error| {
            self.failed = Some(error);
            io::ErrorKind::Other.into()
        })
    }
}

/// Writes to stderr. A failure is ignored, since it cannot be reported.
pub(crate) fn talk(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// A warning in its printed form, on GitHub as an annotation.
pub(crate) fn warning(text: &str) -> String {
    if let Some(line) = github::step().annotation(Level::Warning, &one_line(text)) {
        return line;
    }
    format!("{WARNING}warning:{WARNING:#} {}", one_line(text))
}

fn in_words(exit: Exit) -> &'static str {
    match exit {
        Exit::Done => "done",
        Exit::Failed => "a check failed or the input is bad",
        Exit::Usage => "wrong usage",
        Exit::Partial => "done, with something missing that was allowed to be missing",
        Exit::TryAgain => "temporary trouble: try again",
        Exit::Bug => "a defect of rocwheel itself",
        Exit::Interrupted => "interrupted",
    }
}

/// Escapes control characters except line breaks: names come from archives and may contain anything
/// that would control a terminal.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    escape_controls(text, |character| character != '\n')
}

/// The same for messages: text between backticks is a name, so its line breaks are escaped.
pub(crate) fn harmless_names(text: &str) -> Cow<'_, str> {
    let mut parts = text.split('`').collect::<Vec<_>>();
    // With an odd number of backticks, names cannot be recognised.
    if parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).any(|name| name.contains('\n')) {
        let names: Vec<String> = parts.iter().map(|name| escape_controls(name, |_| true).into_owned()).collect();
        parts = parts
            .iter()
            .zip(&names)
            .enumerate()
            .map(|(at, (text, name))| if at % 2 == 1 { name } else { *text })
            .collect();
        return harmless(&parts.join("`")).into_owned().into();
    }
    harmless(text)
}

/// A size in decimal units, such as `190.0 MB`.
pub(crate) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if amount < 1000 {
        return format!("{amount} B");
    }
    let (mut unit, mut size) = (0, 1000_u128);
    loop {
        let tenths = (u128::from(amount) * 10 + size / 2) / size;
        if tenths < 10_000 || unit + 1 == UNITS.len() {
            return format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]);
        }
        (unit, size) = (unit + 1, size * 1000);
    }
}

/// A number with its noun.
pub(crate) fn count(amount: u64, one: &str, many: &str) -> String {
    format!("{amount} {}", if amount == 1 { one } else { many })
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word has its own
/// line.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_decimal_units() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (1_310_000_000, "1.3 GB"),
            (u64::MAX, "18446.7 PB"),
        ];
        for (amount, text) in cases {
            assert_eq!(bytes(amount), text);
        }
    }

    #[test]
    fn names_do_nothing_to_the_terminal() {
        assert_eq!(harmless("a\x1b[31mb\nc\td\u{9b}"), "a\\u{1b}[31mb\nc\\td\\u{9b}");
        assert_eq!(harmless_names("no `a\nb`:\n  c"), "no `a\\nb`:\n  c");
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(0, "file", "files"), "0 files");
    }

    #[test]
    fn words_are_wrapped_whole() {
        assert_eq!(wrapped("a bb ccc dddd", 5), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrapped("a waytoolong b", 5), ["a", "waytoolong", "b"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
