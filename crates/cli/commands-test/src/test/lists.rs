//! `rocwheel test lists`: shows lists of known failures, and writes them in the forms of others.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use comfy_table::CellAlignment::Left;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_progress::{Context as _, Exit};
use rocwheel_suite::lists::{ExportLoss, ExportedLists, ListKind, ListRow, export_disabled, export_therock, read_list};

const COLUMNS: [Column; 5] = [("List", Left), ("Test", Left), ("Kind", Left), ("Where", Left), ("Reason", Left)];

/// Show lists of known failures, and write them in the forms of PyTorch and TheRock
///
/// A form that cannot name the same tests is not written: rows that would skip more tests, and rows
/// that it has no place for, are named. `--lossy` writes the rest. Owner, expiry and other facts
/// that only our lists have are reported.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Lists: TOML files, TheRock's skip_tests folder or its files, PyTorch's JSON
    #[arg(value_name = "LIST", required = true, value_hint = ValueHint::AnyPath)]
    lists: Vec<String>,
    /// Version whose file is read of a folder, or `all`
    #[arg(long, value_name = "VERSION", default_value = "all")]
    list_version: String,
    /// Write PyTorch's JSON of disabled tests
    #[arg(long, value_name = "FILE")]
    disabled: Option<OutputOption>,
    /// Write TheRock's Python lists into this folder, which is made
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    skip_tests: Option<PathBuf>,
    /// Begin of the names of files for a version in `--skip-tests`
    #[arg(long, value_name = "NAME", default_value = "pytorch", requires = "skip_tests", value_parser = project)]
    project: String,
    /// Write although rows are missing or skip more tests there
    #[arg(long)]
    lossy: bool,
}

fn project(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_good.then(|| text.to_owned()).ok_or_else(|| "a word such as pytorch or jax is expected".to_owned())
}

/// The rows, and where they go.
#[derive(Debug)]
pub(crate) struct Settings {
    rows: Vec<ListRow>,
    /// Rows that have expired skip nothing, and would begin to in a form without expiry.
    expired: Vec<ListRow>,
    disabled: Option<OutputFile>,
    skip_tests: Option<PathBuf>,
    project: String,
    is_lossy: bool,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let inputs: Vec<PathBuf> = arguments.lists.iter().map(PathBuf::from).collect();
        let disabled = arguments.disabled.map(|file| file.check("--disabled", FileKind::DisabledTests, &inputs));
        let disabled = disabled.transpose()?;
        let mut rows: Vec<ListRow> = Vec::new();
        for list in &arguments.lists {
            rows.extend(read_list(list, Some(&arguments.list_version), false)?.rows);
        }
        let today = environment::today();
        let (expired, rows) = rows.into_iter().partition(|row| row.expires.is_some_and(|last| last < today));
        let (skip_tests, project) = (arguments.skip_tests, arguments.project);
        Ok(Self { rows, expired, disabled, skip_tests, project, is_lossy: arguments.lossy })
    }
}

/// Shows the rows, or writes them.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let disabled = settings.disabled.as_ref().map(|file| (file, export_disabled(&settings.rows)));
    let folder = settings.skip_tests.as_ref().map(|path| (path, export_therock(&settings.rows, &settings.project)));
    let exported = disabled.iter().map(|(_, lists)| lists).chain(folder.iter().map(|(_, lists)| lists));
    if printer.format() == ResultFormat::Json {
        let remarks: Vec<_> = exported.clone().flat_map(|lists| &lists.remarks).collect();
        printer.json(&serde_json::json!({ "rows": settings.rows, "expired": settings.expired, "remarks": remarks }))?;
    } else if disabled.is_none() && folder.is_none() {
        show(&settings.rows, printer)?;
    }
    for row in &settings.expired {
        let day = row.expires.map(|day| day.to_string()).unwrap_or_default();
        printer.warn(format!("{}: {} expired on {day} and does not count", row.place, row.pattern.words()));
    }
    let changed: Vec<&str> = exported.clone().flat_map(changes).collect();
    if !changed.is_empty() && !settings.is_lossy {
        for message in &changed {
            printer.warn(message);
        }
        let rows = message::count(changed.len() as u64, "row", "rows");
        let text = format!("nothing was written, since {rows} would mean something else; `--lossy` writes it");
        return Err(Failure::message(text));
    }
    for remark in exported.flat_map(|lists| &lists.remarks) {
        printer.warn(&remark.message);
    }
    let mut files: Vec<(OutputFile, String)> = Vec::new();
    if let Some((path, lists)) = &folder {
        files = checked_files(path, lists)?;
        fs_err::create_dir_all(path).context("cannot make the folder of lists")?;
    }
    if let Some((file, lists)) = &disabled {
        file.write(lists.files.values().map(String::as_str).collect::<String>().as_str())?;
    }
    files.iter().try_for_each(|(file, text)| file.write(text))?;
    Ok(if changed.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Rows that skip other tests in the new form.
fn changes(lists: &ExportedLists) -> impl Iterator<Item = &str> {
    lists.remarks.iter().filter(|remark| remark.loss != ExportLoss::Fact).map(|remark| remark.message.as_str())
}

/// The files of a folder, none of which is in the way of something else.
fn checked_files(path: &Path, lists: &ExportedLists) -> Result<Vec<(OutputFile, String)>> {
    if path.exists() && !path.is_dir() {
        let problem = format!("`--skip-tests` names `{}`, which is no folder", path.display());
        return Err(Usage::new(problem).hint("name a folder: `--skip-tests skip_tests`").into());
    }
    let files = lists.files.iter().map(|(name, text)| {
        let file = OutputOption::from(path.join(name).into_os_string());
        Ok((file.check("--skip-tests", FileKind::PythonList, &[])?, text.clone()))
    });
    files.collect()
}

fn show(rows: &[ListRow], printer: &Printer) -> Result<()> {
    let lines = rows.iter().map(|row| {
        let versions = row.versions.as_ref().map(ToString::to_string);
        let places: Vec<String> = row.targets.iter().chain(&row.platforms).cloned().chain(versions).collect();
        let kind = match row.kind {
            ListKind::Skip => "skip",
            ListKind::Xfail => "xfail",
            ListKind::Flaky => "flaky",
            ListKind::Quarantine => "quarantine",
        };
        vec![row.place.clone(), row.pattern.words(), kind.to_owned(), places.join(" "), row.reason.clone()]
    });
    printer.table(&COLUMNS, lines)
}
