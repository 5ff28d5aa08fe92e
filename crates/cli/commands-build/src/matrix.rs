//! `rocwheel matrix`: all combinations that can be built, which of them exist or are missing, and
//! which are excluded and why.

mod jobs;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::Left;
use rocwheel_console::arguments::CellAxes;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_github::workflow;
use rocwheel_progress::Exit;
use rocwheel_recipe::matrix::{self, CellStatus, FrameworkTable, Matrix, MatrixQuery, MatrixRow, Origin, Point};
use rocwheel_recipe::{Book, Platform, PythonVersion};
use serde::Serialize;

use self::jobs::{JobArguments, JobChoices};

const COLUMNS: [Column; 9] = [
    ("Platform", Left),
    ("Recipe", Left),
    ("Version", Left),
    ("Backend", Left),
    ("ROCm", Left),
    ("torch", Left),
    ("Python", Left),
    ("Status", Left),
    ("", Left),
];

/// Compare existing wheels with everything that could be built
///
/// A table has the axes, what belongs together and what is not built (`--print-table`). With
/// --wheels, the wheels in folders are compared with it by their names, in every spelling in use; a
/// name that can mean two versions of ROCm is reported.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Recipes [default: all of the table]
    #[arg(value_name = "RECIPE")]
    recipes: Vec<String>,
    #[command(flatten)]
    axes: CellAxes,
    /// Systems to build for, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "linux")]
    platform: Vec<Platform>,
    /// Folder with existing wheels; may be repeated
    #[arg(long, value_name = "DIR")]
    wheels: Vec<PathBuf>,
    /// Show only what is missing
    #[arg(long)]
    missing_only: bool,
    /// Also show what is not built, with the reason
    #[arg(long, conflicts_with = "missing_only")]
    excluded: bool,
    /// Output format [default: grid, and table with --missing-only or --excluded]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    jobs: JobArguments,
    /// Rows for the table, in the form of the one that --print-table prints; a file with
    /// `[torch-index]` replaces the table
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Print one of the built-in tables, to start yours from
    #[arg(long, value_enum, value_name = "TABLE", num_args = 0..=1, default_missing_value = "frameworks", conflicts_with = "format")]
    print_table: Option<TableName>,
    /// Folder with your recipes
    #[arg(long, value_name = "DIR")]
    recipe_folder: Option<PathBuf>,
}

/// In which form the matrix is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For each framework torch and ROCm downwards, Pythons across
    Grid,
    /// A line for each cell
    Table,
    /// For programs
    Json,
    /// `{"include": […]}` on one line, and as output `matrix` of the step
    Github,
    /// A reusable workflow for GitHub Actions that builds whatever it is asked for
    Workflow,
    /// A workflow that calls it when a tag is pushed, with the axes that are named here
    ReleaseWorkflow,
    /// A script for sbatch with a task for each cell that is missing; what follows it on the
    /// command line goes to every build
    Slurm,
}

/// The tables that options can replace.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TableName {
    /// Versions that belong together, for --table of this command, `build`, `recipe show` and
    /// `release`
    Frameworks,
    /// Projects, origins and lines, for --table of `source` and --source-table of `build`
    Sources,
    /// Images of containers, for --images of `build`
    Images,
}

impl TableName {
    fn text(self) -> &'static str {
        match self {
            TableName::Frameworks => FrameworkTable::BUILT_IN,
            TableName::Sources => rocwheel_source::Table::BUILT_IN,
            TableName::Images => rocwheel_recipe::Images::BUILT_IN,
        }
    }
}

#[derive(Debug)]
pub struct Settings {
    table: FrameworkTable,
    book: Book,
    wanted: MatrixQuery,
    pub wheels: Vec<PathBuf>,
    missing_only: bool,
    excluded: bool,
    format: Format,
    jobs: JobChoices,
    printed: Option<TableName>,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let mut book = Book::built_in()?;
        if let Some(folder) = &arguments.recipe_folder {
            book.add_folder(folder)?;
        }
        let table = match &arguments.table {
            Some(path) => FrameworkTable::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => FrameworkTable::built_in()?,
        }
        .with_recipes(&book)?;
        if arguments.format == Some(Format::Slurm) && arguments.platform.contains(&Platform::Windows) {
            let message = "the script for Slurm builds on Linux, for Linux";
            return Err(Usage::new(message).hint("remove `--platform`; `--format json` lists cells of both").into());
        }
        let jobs = JobChoices::new(arguments.jobs, &book)?;
        if jobs.are_given() && !matches!(arguments.format, Some(Format::Github | Format::ReleaseWorkflow)) {
            let usage = Usage::new("`--gpu-targets`, `--runner` and `--runners` are about jobs of GitHub Actions");
            return Err(usage.hint("add `--format github` or `--format release-workflow`").into());
        }
        Ok(Self {
            table,
            book,
            wanted: MatrixQuery {
                recipes: arguments.recipes,
                versions: arguments.axes.framework_version,
                backends: arguments.axes.backend,
                rocm: arguments.axes.rocm,
                torch: arguments.axes.torch,
                python: arguments.axes.python,
                platforms: arguments.platform,
            },
            wheels: arguments.wheels,
            missing_only: arguments.missing_only,
            excluded: arguments.excluded,
            format: match arguments.format {
                Some(format) => format,
                // A grid has no room for reasons.
                None if arguments.missing_only || arguments.excluded => Format::Table,
                None => Format::Grid,
            },
            printed: arguments.print_table,
            jobs,
        })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    exists: usize,
    missing: usize,
    excluded: usize,
    coverage: Option<f64>,
    rows: Vec<&'a MatrixRow>,
    unclear: &'a [matrix::UnclearWheel],
}

/// Prints the matrix. Missing wheels do not change the exit code: the command is a question, not a
/// check.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let file = match (settings.printed, settings.format) {
        (Some(_), _) => Some("matrix --print-table"),
        (None, Format::Workflow) => Some("matrix --format workflow"),
        (None, Format::ReleaseWorkflow) => Some("matrix --format release-workflow"),
        (None, Format::Slurm) => Some("matrix --format slurm"),
        (None, Format::Grid | Format::Table | Format::Json | Format::Github) => None,
    };
    file.map_or(Ok(()), |option| printer.refuse_json(option))?;
    if let Some(table) = settings.printed {
        printer.line(table.text().trim_end())?;
        return Ok(Exit::Done);
    }
    if settings.format == Format::Workflow {
        printer.line(workflow::workflow().trim_end())?;
        return Ok(Exit::Done);
    }
    if settings.format == Format::ReleaseWorkflow {
        if settings.wanted.recipes.is_empty() {
            let usage = Usage::new("`--format release-workflow` builds the recipes that are named, and none is");
            return Err(usage.hint("name some: `rocwheel matrix flash-attn --format release-workflow`").into());
        }
        // An unknown value is reported now, and not later by GitHub.
        let matrix = matrix::make(&settings.table, &settings.book, &settings.wanted, &[])?;
        matrix.unknown.iter().for_each(|text| printer.warn(text));
        printer.line(workflow::release_workflow(&settings.wanted, &settings.jobs.inputs()?).trim_end())?;
        return Ok(Exit::Done);
    }
    let mut wheels = Vec::new();
    for folder in &settings.wheels {
        wheels.extend(matrix::outputs_in(folder)?);
    }
    let matrix = matrix::make(&settings.table, &settings.book, &settings.wanted, &wheels)?;
    matrix.unknown.iter().for_each(|text| printer.warn(text));
    for name in &settings.wanted.recipes {
        if !matrix.rows.iter().any(|row| row.point.recipe == *name) {
            printer.note(format!("{name}: the table has no such cell of it"));
        }
    }
    for unclear in &matrix.unclear {
        printer.warn(format!("`{}` is not counted: {}", unclear.file, unclear.reason));
    }
    let rows = matrix.rows.iter().filter(|row| match row.status {
        CellStatus::Missing => true,
        CellStatus::Exists => !settings.missing_only,
        CellStatus::Excluded => settings.excluded,
    });
    let rows: Vec<&MatrixRow> = rows.collect();
    match (settings.format, printer.format()) {
        (Format::Github, _) => jobs::print(&missing(&rows, settings), &matrix, settings, printer)?,
        (Format::Slurm, _) => slurm(&rows, settings, printer)?,
        (Format::Workflow | Format::ReleaseWorkflow, _) => {}
        (Format::Json, _) | (Format::Table | Format::Grid, ResultFormat::Json) => json(&matrix, rows, printer)?,
        (Format::Table, ResultFormat::Text) => table(&matrix, &rows, settings, printer)?,
        (Format::Grid, ResultFormat::Text) => grids(&matrix, &rows, settings, printer)?,
    }
    Ok(Exit::Done)
}

fn json(matrix: &Matrix, rows: Vec<&MatrixRow>, printer: &Printer) -> Result<()> {
    let [exists, missing, excluded] = matrix.counts();
    let coverage = matrix.coverage();
    printer.json(&Document { exists, missing, excluded, coverage, rows, unclear: &matrix.unclear })
}

/// The sign in a cell of the grid.
fn sign(status: Option<CellStatus>, settings: &Settings) -> &'static str {
    match status {
        Some(CellStatus::Exists) => "✓",
        // Without `--wheels` it is unknown which are missing.
        Some(CellStatus::Missing) if settings.wheels.is_empty() => "•",
        Some(CellStatus::Missing) => "✗",
        Some(CellStatus::Excluded) | None => "–",
    }
}

/// The values that the rows of one grid share.
fn group(point: &Point) -> (Platform, &str, &str, &str) {
    (point.platform, &point.recipe, &point.version, &point.backend)
}

/// Prints a grid for each framework, version and backend; rows without a buildable cell are
/// skipped.
fn grids(matrix: &Matrix, rows: &[&MatrixRow], settings: &Settings, printer: &Printer) -> Result<()> {
    let mut groups: Vec<_> = rows.iter().map(|row| group(&row.point)).collect();
    groups.dedup();
    for of_group in groups {
        let rows: Vec<&&MatrixRow> = rows.iter().filter(|row| group(&row.point) == of_group).collect();
        let pythons: BTreeSet<Option<PythonVersion>> = rows.iter().map(|row| row.point.python).collect();
        let mut lines: Vec<(Option<String>, String)> = Vec::new();
        for row in &rows {
            let line = (row.point.torch.clone(), row.point.rocm.clone());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let names = pythons.iter().map(|python| python.map_or("any Python".into(), |python| python.to_string()));
        let names = ["torch".to_owned(), "ROCm".to_owned()].into_iter().chain(names);
        let columns: Vec<(String, _)> = names.map(|name| (name, Left)).collect();
        let mut cells = Vec::new();
        for (torch, rocm) in lines {
            let of_line = rows.iter().filter(|row| (&row.point.torch, &row.point.rocm) == (&torch, &rocm));
            let mut line = vec![torch.clone().unwrap_or_else(|| "–".to_owned()), rocm.clone()];
            line.extend(pythons.iter().map(|python| {
                let row = of_line.clone().find(|row| row.point.python == *python);
                sign(row.map(|row| row.status), settings).to_owned()
            }));
            cells.push(line);
        }
        let (platform, recipe, version, backend) = of_group;
        let system = if platform == Platform::Linux { String::new() } else { format!(", on {}", platform.name()) };
        printer.line(format!("{recipe} {version} ({backend}{system})"))?;
        printer.table(&columns, cells)?;
        printer.line("")?;
    }
    let signs = if settings.wheels.is_empty() {
        "• can be built, – cannot; `--wheels DIR` shows existing wheels"
    } else {
        "✓ exists, ✗ is missing, – cannot be built"
    };
    printer.note(signs);
    summary(matrix, settings, printer);
    Ok(())
}

fn table(matrix: &Matrix, rows: &[&MatrixRow], settings: &Settings, printer: &Printer) -> Result<()> {
    // Without wheels to compare with, every row is buildable and the status column is left out.
    let is_told = !settings.wheels.is_empty() || settings.excluded;
    printer.table(
        if is_told { &COLUMNS } else { &COLUMNS[..7] },
        rows.iter().map(|row| {
            let point = &row.point;
            let status = match row.status {
                CellStatus::Exists => "exists",
                CellStatus::Missing if settings.wheels.is_empty() => "can be built",
                CellStatus::Missing => "missing",
                CellStatus::Excluded => "excluded",
            };
            let mut cells = vec![
                point.platform.name().to_owned(),
                point.recipe.clone(),
                point.version.clone(),
                point.backend.clone(),
                point.rocm.clone(),
                point.torch.clone().unwrap_or_else(|| "–".to_owned()),
                point.python.map_or_else(|| "–".to_owned(), |python| python.to_string()),
            ];
            if is_told {
                cells.extend([status.to_owned(), row.reason.clone().unwrap_or_else(|| row.files.join(", "))]);
            }
            cells
        }),
    )?;
    summary(matrix, settings, printer);
    Ok(())
}

fn summary(matrix: &Matrix, settings: &Settings, printer: &Printer) {
    let [exists, missing, excluded] = matrix.counts();
    let cells = message::count(matrix.rows.len() as u64, "cell", "cells");
    if settings.wheels.is_empty() {
        let rest = if settings.excluded { "" } else { " (`--excluded` lists them)" };
        printer.note(format!("{cells}: {missing} can be built, {excluded} cannot{rest}"));
        return;
    }
    let coverage = matrix.coverage().map(|percent| format!(", {percent:.0} % there")).unwrap_or_default();
    printer.note(format!("{cells}: {exists} exist, {missing} missing, {excluded} excluded{coverage}"));
}

/// The missing rows, and the sources that they are built from.
fn missing<'a>(rows: &[&'a MatrixRow], settings: &Settings) -> Vec<(&'a MatrixRow, Option<Origin>)> {
    let sources = rocwheel_source::Table::built_in();
    let missing = rows.iter().copied().filter(|row| row.status == CellStatus::Missing);
    missing.map(|row| (row, Origin::of(&row.point, &settings.book, &sources))).collect()
}

fn slurm(rows: &[&MatrixRow], settings: &Settings, printer: &Printer) -> Result<()> {
    let rows = missing(rows, settings);
    if rows.is_empty() {
        printer.note("nothing is missing");
        return Ok(());
    }
    printer.line(rocwheel_builder::slurm::script(&rows).trim_end())
}
