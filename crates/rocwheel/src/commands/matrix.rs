//! `rocwheel matrix`: what there is to build, what of it is there, what is missing, and what is not built and why.

use std::collections::BTreeMap;
use std::path::PathBuf;

use build::matrix::{self, Matrix, Row, Status, Table, Wanted};
use build::{Book, PythonVersion};
use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::Left;
use report::Exit;
use serde::Serialize;
use serde_json::{Value, json};

use crate::failure::Usage;
use crate::printer::{self, Column, Format as Output, Printer};

const COLUMNS: [Column; 8] = [
    ("Recipe", Left),
    ("Version", Left),
    ("Backend", Left),
    ("ROCm", Left),
    ("torch", Left),
    ("Python", Left),
    ("Status", Left),
    ("", Left),
];

/// Jobs that one matrix of GitHub Actions may have.
const MOST_JOBS: usize = 256;

/// Show what there is to build, what of it is there, and what is missing
///
/// The axes, what belongs together and what is not built are a table (data/frameworks.toml). With --wheels, the wheels in folders are
/// compared with it by their names, in every spelling that is in use; a name that can mean two versions of ROCm is said to.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Recipes [default: all of the table]
    #[arg(value_name = "RECIPE")]
    recipes: Vec<String>,
    /// Versions of the frameworks, separated by commas
    #[arg(long = "framework-version", value_name = "VERSIONS", value_delimiter = ',')]
    versions: Vec<String>,
    /// Backends, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    backend: Vec<String>,
    /// Versions of ROCm, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    rocm: Vec<String>,
    /// Versions of torch, separated by commas
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    torch: Vec<String>,
    /// Pythons, separated by commas; 3.13t is the free-threaded one
    #[arg(long, value_name = "VERSIONS", value_delimiter = ',')]
    python: Vec<PythonVersion>,
    /// Folder with wheels that are there; may be repeated
    #[arg(long, value_name = "DIR")]
    wheels: Vec<PathBuf>,
    /// Only what is missing
    #[arg(long)]
    missing_only: bool,
    /// What is not built too, with the reason
    #[arg(long, conflicts_with = "missing_only")]
    excluded: bool,
    /// In which form: a table, JSON as with --json, or the matrix of a GitHub workflow
    #[arg(long, value_enum, default_value = "table", value_name = "FORMAT")]
    format: Format,
    /// Another table, in the form of data/frameworks.toml
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Folder with recipes of your own
    #[arg(long, value_name = "DIR")]
    recipe_folder: Option<PathBuf>,
}

/// In which form the matrix is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs
    Json,
    /// `{"include": […]}` on one line, and as output `matrix` of the step
    Github,
}

/// What the command works with.
#[derive(Debug)]
pub(crate) struct Settings {
    table: Table,
    book: Book,
    wanted: Wanted,
    wheels: Vec<PathBuf>,
    missing_only: bool,
    excluded: bool,
    format: Format,
}

impl TryFrom<Arguments> for Settings {
    type Error = anyhow::Error;

    fn try_from(arguments: Arguments) -> anyhow::Result<Self> {
        let table = match &arguments.table {
            Some(path) => Table::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => Table::built_in()?,
        };
        let mut book = Book::built_in()?;
        if let Some(folder) = &arguments.recipe_folder {
            book.add_folder(folder)?;
        }
        Ok(Self {
            table,
            book,
            wanted: Wanted {
                recipes: arguments.recipes,
                versions: arguments.versions,
                backends: arguments.backend,
                rocm: arguments.rocm,
                torch: arguments.torch,
                python: arguments.python,
            },
            wheels: arguments.wheels,
            missing_only: arguments.missing_only,
            excluded: arguments.excluded,
            format: arguments.format,
        })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    exists: usize,
    missing: usize,
    excluded: usize,
    coverage: Option<f64>,
    rows: Vec<&'a Row>,
    unclear: &'a [matrix::Unclear],
}

/// Prints the matrix. The exit code is 0 whatever is missing: it is a question, not a check.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> anyhow::Result<Exit> {
    let mut wheels = Vec::new();
    for folder in &settings.wheels {
        wheels.extend(matrix::wheels_in(folder)?);
    }
    let matrix = matrix::make(&settings.table, &settings.book, &settings.wanted, &wheels)?;
    for unclear in &matrix.unclear {
        printer.warn(format!("`{}` counts for nothing: {}", unclear.file, unclear.reason));
    }
    let is_shown = |row: &&Row| match row.status {
        Status::Missing => true,
        Status::Exists => !settings.missing_only,
        Status::Excluded => settings.excluded,
    };
    let rows: Vec<&Row> = matrix.rows.iter().filter(is_shown).collect();
    match (settings.format, printer.format()) {
        (Format::Github, _) => github(&rows, printer)?,
        (Format::Json, _) | (Format::Table, Output::Json) => json(&matrix, rows, printer)?,
        (Format::Table, Output::Text) => table(&matrix, &rows, printer)?,
    }
    Ok(Exit::Done)
}

fn json(matrix: &Matrix, rows: Vec<&Row>, printer: &Printer) -> anyhow::Result<()> {
    let [exists, missing, excluded] = matrix.counts();
    let coverage = matrix.coverage();
    printer.json(&Document { exists, missing, excluded, coverage, rows, unclear: &matrix.unclear })
}

fn table(matrix: &Matrix, rows: &[&Row], printer: &Printer) -> anyhow::Result<()> {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
    printer.table(
        &COLUMNS,
        rows.iter().map(|row| {
            let point = &row.point;
            let status = match row.status {
                Status::Exists => "exists",
                Status::Missing => "missing",
                Status::Excluded => "excluded",
            };
            vec![
                point.recipe.clone(),
                point.version.clone(),
                point.backend.clone(),
                point.rocm.clone(),
                text(&point.torch),
                text(&point.python.map(|python| python.to_string())),
                status.to_owned(),
                row.reason.clone().unwrap_or_else(|| row.files.join(", ")),
            ]
        }),
    )?;
    let [exists, missing, excluded] = matrix.counts();
    let coverage = matrix.coverage().map(|percent| format!(", {percent:.0} % there")).unwrap_or_default();
    let cells = printer::count(matrix.rows.len() as u64, "cell", "cells");
    printer.note(format!("{cells}: {exists} exist, {missing} missing, {excluded} excluded{coverage}"));
    Ok(())
}

/// One line, since `$GITHUB_OUTPUT` takes one.
fn github(rows: &[&Row], printer: &Printer) -> anyhow::Result<()> {
    let rows: Vec<&&Row> = rows.iter().filter(|row| row.status == Status::Missing).collect();
    if rows.len() > MOST_JOBS {
        let usage =
            Usage::new(format!("{} cells are missing, and GitHub takes {MOST_JOBS} jobs in a matrix", rows.len()));
        return Err(usage.hint("choose fewer: by recipe, `--rocm`, `--torch` or `--python`").into());
    }
    let cell = |row: &&&Row| {
        let point = &row.point;
        let mut values: BTreeMap<&str, Value> = BTreeMap::from([
            ("recipe", json!(point.recipe)),
            ("version", json!(point.version)),
            ("backend", json!(point.backend)),
            ("rocm", json!(point.rocm)),
        ]);
        values.extend(point.torch.as_ref().map(|torch| ("torch", json!(torch))));
        values.extend(point.python.map(|python| ("python", json!(python.to_string()))));
        values
    };
    let text = json!({ "include": rows.iter().map(cell).collect::<Vec<_>>() }).to_string();
    printer.outputs(&[("matrix", &text), ("count", &rows.len().to_string())])?;
    printer.line(text)
}
