//! Printing: results go to stdout, everything else to stderr, and neither disturbs a progress bar.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use rocwheel_progress::Context;
use rocwheel_progress::{Exit, Reporter};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::arguments::{Color, GlobalArguments};
use crate::configuration::Used;
use crate::failure::{Failure, Result, Usage};
use crate::github::{self, AnnotationLevel};
use crate::message::{self, Talk};
use crate::progress::{Display, Progress};

/// Version of the JSON documents on stdout.
const SCHEMA: u32 = 1;

/// The form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultFormat {
    /// For people.
    Text,
    /// For machines (`--json`).
    Json,
}

/// Prints for all commands.
pub struct Printer {
    format: ResultFormat,
    talk: Talk,
    progress: Arc<Progress>,
    display: Display,
    stdout_closed: AtomicBool,
    configuration: Option<Used>,
}

/// The name of a column and the alignment of its cells.
pub type Column = (&'static str, CellAlignment);

/// Sets the colour of all later output.
pub fn choose_color(color: Color) {
    match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

impl Printer {
    /// `configuration` is the file that added options to the command line.
    pub fn new(global: &GlobalArguments, configuration: Option<Used>) -> Self {
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
        let format = if global.json { ResultFormat::Json } else { ResultFormat::Text };
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

    /// Refuses `--json` for a command without a JSON form, rather than ignoring it.
    pub fn refuse_json(&self, command: &str) -> Result<(), Usage> {
        match self.format() {
            ResultFormat::Text => Ok(()),
            ResultFormat::Json => {
                Err(Usage::new(format!("`rocwheel {command}` has no JSON form")).hint("remove `--json`"))
            }
        }
    }

    /// The form of the result.
    pub fn format(&self) -> ResultFormat {
        self.format
    }

    /// The reporter for the libraries.
    pub fn reporter(&self) -> &dyn Reporter {
        &*self.progress
    }

    /// The progress display, which also handles Ctrl-C.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Prints a line of the result, for people.
    pub fn line(&self, text: impl AsRef<str>) -> Result<()> {
        self.write(&format!("{}\n", message::harmless(text.as_ref())))
    }

    /// As [`Printer::line`], with colours, which are removed unless stdout shows them. The caller
    /// escapes names before.
    pub fn styled(&self, text: impl AsRef<str>) -> Result<()> {
        self.write(&format!("{}\n", text.as_ref()))
    }

    /// Prints the result for machines: the fields of `body` after the version of the schema.
    pub fn json(&self, body: &impl Serialize) -> Result<()> {
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
    pub fn json_stream(&self, body: &impl Serialize) -> Result<()> {
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
    pub fn table(
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
            .map(|row| row.iter().map(|cell| message::one_line(cell).into_owned()).collect::<Vec<_>>())
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
    pub fn raw(&self, bytes: &[u8]) -> Result<()> {
        self.write(&String::from_utf8_lossy(bytes))
    }

    /// Prints a note that is not part of the result.
    pub fn note(&self, text: impl AsRef<str>) {
        if self.talk >= Talk::Normal {
            self.progress.say(&github::step().defused(&message::harmless(text.as_ref())));
        }
    }

    /// `true` if [`Printer::detail`] prints.
    pub fn has_details(&self) -> bool {
        self.talk >= Talk::Verbose
    }

    /// The way in which progress is shown.
    pub fn display(&self) -> Display {
        self.display
    }

    /// Prints a note for `-v`.
    pub fn detail(&self, text: impl AsRef<str>) {
        if self.has_details() {
            self.progress.say(&github::step().defused(&message::harmless(text.as_ref())));
        }
    }

    /// Prints a warning; `--quiet` does not silence it.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.progress.say(&message::warning(text.as_ref()));
    }

    /// Prints an annotation of the workflow on GitHub, and nothing elsewhere: the result has the
    /// same text in another form.
    pub fn point_out(&self, level: AnnotationLevel, text: &str) {
        if let Some(line) = github::step().annotation(level, &message::one_line(text)) {
            self.progress.say(&line);
        }
    }

    /// Prints the settings of a command for `-vv`.
    pub fn settings(&self, settings: &impl std::fmt::Debug) {
        if self.talk >= Talk::Debug {
            self.progress.say(&format!("{settings:#?}"));
        }
    }

    /// Sets outputs of the GitHub step for later steps; does nothing elsewhere.
    pub fn outputs(&self, outputs: &[(&str, &str)]) -> Result<()> {
        for name in github::step().set_outputs(outputs)? {
            self.warn(format!("the output `{name}` is larger than the 1 MiB that GitHub takes, and is skipped"));
        }
        Ok(())
    }

    /// Adds a table of names and values to the summary of the GitHub step; the log shows them in
    /// another form.
    pub fn summarise(&self, columns: &[&str; 2], rows: &[(&str, &str)]) {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|(name, value)| vec![(*name).to_owned(), (*value).to_owned()]).collect();
        self.summarise_rows(columns, &rows);
    }

    /// Adds a table to the summary of the GitHub step; the log shows its contents in another form.
    pub fn summarise_rows(&self, columns: &[&str], rows: &[Vec<String>]) {
        self.worry_about(github::step().summarise_table(columns, rows));
    }

    /// Prints the output of `body` as a group of GitHub's log.
    pub fn group(&self, name: &str, body: impl FnOnce()) {
        if let Some(line) = github::step().group(name) {
            self.progress.suspended(|| message::talk(&line));
        }
        body();
        if let Some(line) = github::step().end_group() {
            self.progress.suspended(|| message::talk(line));
        }
    }

    /// Sets the exit code as an output of the GitHub step.
    pub fn conclude(&self, exit: Exit) {
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
    pub fn finish(&self) {
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
