//! `rocwheel split`: artifacts with GPU code in; artifacts without it, and separate ones with the
//! code of each GPU target, out.

mod files;
pub mod wheel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::Catalog;
use rocwheel_console::arguments;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::run;
use rocwheel_kpack::archive::Scheme;
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_split::tree::{self, DatabaseChoice, OldRuntime, Request, SplitArtifactsReport, TreePlan};
use rocwheel_split::verify::{Checks, Holdings, Verification, VerificationReport};
use rocwheel_split::{ArchiveForecast, Packing, TargetNames, TargetSelection};
use rocwheel_tables::{RocmTables, TargetTable};
use rocwheel_wheel::WheelName;
use serde::Serialize;

use self::wheel::WheelArguments;
use crate::artifact_inputs::{self, Forms};

const ARTIFACTS: [Column; 3] = [("Artifact", Left), ("Files", Right), ("Size", Right)];
const CHECKED: [Column; 6] = [
    ("Checked", Left),
    ("Wrappers", Right),
    ("Bundles", Right),
    ("Code objects", Right),
    ("Size", Right),
    ("Differences", Right),
];
/// Number of differences that are printed.
const SHOWN: usize = 20;

/// Divide artifacts, wheels or libraries into a part for all GPUs and a part for each GPU target
///
/// Libraries keep their host code. Their GPU code goes into .kpack archives that the HIP runtime
/// reads, and kernel databases are divided too. The result is compared with the input, code object
/// by code object, before it is written. `--verify-only` only compares: two directories, two files,
/// two sets of artifacts, or a wheel and the directory of its parts.
///
/// A wheel becomes a host wheel of the same name and device wheels, which its extras
/// `device-<target>` require. A library or program becomes a file of the same name and the
/// directory `.kpack` beside it.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Artifacts (directories or archives), directories that hold artifacts; wheels; or libraries
    /// and programs
    #[arg(value_name = "PATH", required_unless_present = "verify_only")]
    pub(super) inputs: Vec<PathBuf>,
    /// Directory to write to: missing, empty, or made by this command; for wheels, any directory
    /// but theirs
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["verify_only", "dry_run"])]
    pub(super) output: Option<PathBuf>,
    /// Keep only the code for these targets or families [default: all]
    #[arg(long, value_name = "LIST")]
    pub(super) targets: Option<String>,
    /// Divide only these kernel databases: rocblas, miopen, … or none [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) split_databases: Option<Vec<String>>,
    /// How code objects are stored in archives
    #[arg(long, value_name = "KIND", default_value = "zstd")]
    pub(super) compression: CompressionArgument,
    /// Level of zstd: 1 is quick, 19 is small
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22))]
    pub(super) level: i32,
    /// Memory for GPU code in work, such as 512MiB; threads wait for it, and the result is the same
    /// [default: 256 MiB and 32 MiB for each thread]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    pub(super) memory: Option<u64>,
    /// Name archives after the whole target, as existing tools do: `…_gfx90a:xnack+.kpack`
    #[arg(long)]
    pub(super) verbatim_names: bool,
    /// Split a set whose HIP runtime cannot read archives, or a wheel that requires one
    #[arg(long)]
    pub(super) force: bool,
    /// Check the result before it is written; this is the default
    #[arg(long, overrides_with = "no_verify")]
    verify: bool,
    /// Do not check the result
    #[arg(long, overrides_with = "verify")]
    pub(super) no_verify: bool,
    /// Split nothing: check that AFTER has all GPU code of BEFORE, and nothing else has changed
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["inputs", "output", "dry_run"])]
    pub(super) verify_only: Option<Vec<PathBuf>>,
    /// Print the plan and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Directory to unpack archives in [default: beside the output, or the system's directory for
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub(super) scratch: Option<PathBuf>,
    #[command(flatten)]
    pub(super) wheel: WheelArguments,
}

impl Arguments {
    pub(super) fn packing(&self) -> Packing {
        let scheme = match self.compression {
            CompressionArgument::None => Scheme::None,
            CompressionArgument::Zstd => Scheme::ZstdPerKernel,
        };
        let memory = self.memory.unwrap_or_else(rocwheel_split::default_memory);
        Packing { scheme, level: self.level, memory }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum CompressionArgument {
    /// Store
    None,
    /// A zstd frame for each code object
    Zstd,
}

#[derive(Debug)]
pub struct Settings {
    work: Work,
    pub request: Request,
    pub scratch: Option<PathBuf>,
}

#[derive(Debug)]
enum Work {
    Split { inputs: Vec<PathBuf>, output: Option<PathBuf>, mode: Mode },
    Verify { before: PathBuf, after: PathBuf, targets: Option<String> },
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        arguments.wheel.refuse()?;
        let packing = arguments.packing();
        let databases = match arguments.split_databases {
            None => DatabaseChoice::All,
            Some(names) => DatabaseChoice::only(names.into_iter().filter(|name| name != "none"))?,
        };
        let selection = match &arguments.targets {
            Some(list) => TargetSelection::only(selected(list)?),
            None => TargetSelection::ALL,
        };
        let request = Request {
            selection,
            databases,
            names: if arguments.verbatim_names { TargetNames::Verbatim } else { TargetNames::Base },
            packing,
            unsupported: if arguments.force { OldRuntime::Allow } else { OldRuntime::Refuse },
            verification: if arguments.no_verify { Verification::Skip } else { Verification::Full },
            maker: tree::MAKER,
        };
        let work = match arguments.verify_only.as_deref() {
            Some([before, after]) => {
                Work::Verify { before: before.clone(), after: after.clone(), targets: arguments.targets.clone() }
            }
            _ => Work::Split { inputs: arguments.inputs, output: arguments.output, mode: Mode::new(arguments.dry_run) },
        };
        Ok(Self { work, request, scratch: arguments.scratch })
    }
}

/// Expands a list of targets and families. A name that looks like a target is accepted even if no
/// table has it: the input may have code for it.
pub(super) fn selected(list: &str) -> Result<Vec<String>> {
    let unknown: Vec<String> = list
        .split([',', ';'])
        .map(str::trim)
        .filter(|name| {
            name.parse::<rocwheel_tables::target::TargetId>().is_ok_and(|target| target.processor.starts_with("gfx"))
        })
        .filter(|name| name.bytes().skip(3).take(1).all(|byte| byte.is_ascii_digit()))
        .filter(|name| !name.contains(char::is_uppercase))
        .map(str::to_owned)
        .collect();
    let targets = TargetTable::embedded().expand_with(list, &unknown)?;
    if targets.is_empty() {
        return Err(Usage::new("`--targets` names no target").hint("remove it to keep all").into());
    }
    Ok(targets)
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    plan: &'a TreePlan,
    outcome: &'a SplitArtifactsReport,
    seconds: f64,
}

/// Runs the command for what its inputs are: wheels, single libraries and programs, or artifacts.
pub fn run(arguments: Arguments, printer: &Printer) -> Result<Exit> {
    if arguments.inputs.iter().any(WheelName::is_wheel) {
        run!(wheel, arguments, printer)
    } else if arguments.inputs.iter().any(|path| files::is_program(path)) {
        run!(files, arguments, printer)
    } else {
        let settings = Settings::try_from(arguments)?;
        printer.settings(&settings);
        command(&settings, printer)
    }
}

/// Splits or verifies, and prints the result.
fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    match &settings.work {
        Work::Split { inputs, output, mode } => split(settings, (inputs, output.as_deref(), *mode), printer),
        Work::Verify { before, after, targets } => verify(settings, (before, after, targets.as_deref()), printer),
    }
}

fn split(
    settings: &Settings,
    (inputs, output, mode): (&[PathBuf], Option<&Path>, Mode),
    printer: &Printer,
) -> Result<Exit> {
    let begin = Instant::now();
    if let Some(output) = output {
        rocwheel_artifact::separate(output, inputs)?;
    }
    let paths = artifact_inputs::expand(inputs, Forms::All, printer)?;
    let scratch = environment::scratch_beside(settings.scratch.as_deref(), output.filter(|_| mode == Mode::Execute))?;
    let catalog = Catalog::read(&paths, scratch.path(), printer.reporter())?;
    let plan = tree::plan(&catalog, &settings.request, printer.reporter())?;
    let forecasts = forecast(&plan, settings.request.packing, printer)?;
    let (Some(output), Mode::Execute) = (output, mode) else {
        return show_plan(&plan, &forecasts, printer);
    };
    let outcome = tree::execute(&plan, &catalog, &settings.request, output, printer.reporter())?;
    scratch.close()?;
    let seconds = begin.elapsed().as_secs_f64();
    let exit = if outcome.is_good() { Exit::Done } else { Exit::Failed };
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { plan: &plan, outcome: &outcome, seconds })?;
        return Ok(exit);
    }
    show_split(&plan, &outcome, seconds, printer)?;
    Ok(exit)
}

/// Prints what a split has done, or the differences because of which it has written nothing.
pub(super) fn show_split(
    plan: &TreePlan,
    outcome: &SplitArtifactsReport,
    seconds: f64,
    printer: &Printer,
) -> Result<()> {
    show_remarks(plan, printer);
    if let Some(report) = &outcome.verification {
        show_report(report, printer)?;
    }
    if !outcome.is_good() {
        printer.warn("nothing was written: the result would differ from the input");
        return Ok(());
    }
    let rows = outcome
        .artifacts
        .iter()
        .map(|artifact| vec![artifact.name.to_string(), artifact.files.to_string(), message::bytes(artifact.bytes)]);
    printer.table(&ARTIFACTS, rows)?;
    show_outcome(plan, outcome, seconds, printer);
    Ok(())
}

/// Estimates the archives of each group, and warns of those that will be larger than the code is
/// now.
pub(super) fn forecast(plan: &TreePlan, packing: Packing, printer: &Printer) -> Result<Vec<ArchiveForecast>> {
    let forecasts = plan.forecast(packing, printer.reporter())?;
    for (group, forecast) in plan.groups.iter().zip(&forecasts) {
        warn_of_growth(&group.group, forecast, printer);
    }
    Ok(forecasts)
}

/// Warns before code is packed if it will take more space than it does now.
pub(super) fn warn_of_growth(name: &str, forecast: &ArchiveForecast, printer: &Printer) {
    if forecast.grows() {
        printer.warn(format!(
            "the GPU code of `{name}` will take about {} in archives instead of {}, and one target needs at most about \
             {} of that: it is compressed for all targets together, and archives compress each code object by itself",
            message::bytes(forecast.after),
            message::bytes(forecast.before),
            message::bytes(forecast.largest)
        ));
    }
}

#[derive(Serialize)]
struct PlanDocument<'a> {
    #[serde(flatten)]
    plan: &'a TreePlan,
    /// In the order of the groups.
    forecasts: &'a [ArchiveForecast],
}

fn show_plan(plan: &TreePlan, forecasts: &[ArchiveForecast], printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        printer.json(&PlanDocument { plan, forecasts })?;
        return Ok(Exit::Done);
    }
    for group in &plan.groups {
        for set in group.plan.sets.iter().filter(|set| !set.targets.is_empty()) {
            let bundles = message::count(set.bundles, "bundle", "bundles");
            printer.line(format!("{}: {bundles} for {}", set.name, set.targets.join(", ")))?;
        }
        for archive in &group.plan.archives {
            let objects = message::count(archive.code_objects, "code object", "code objects");
            printer.line(format!("  {}: {objects} of {}", archive.name, message::bytes(archive.bytes)))?;
        }
    }
    let rows = plan.artifacts.iter().map(|artifact| {
        let files = artifact.files + artifact.archives.len() as u64;
        vec![artifact.name.to_string(), files.to_string(), message::bytes(artifact.bytes)]
    });
    printer.table(&ARTIFACTS, rows)?;
    show_remarks(plan, printer);
    let (code_objects, bytes) = code(plan);
    let archives = plan.groups.iter().map(|group| group.plan.archives.len() as u64).sum();
    printer.note(format!(
        "would write {} and move {} of {} into {}",
        message::count(plan.artifacts.len() as u64, "artifact", "artifacts"),
        message::count(code_objects, "code object", "code objects"),
        message::bytes(bytes),
        message::count(archives, "archive", "archives")
    ));
    Ok(Exit::Done)
}

fn code(plan: &TreePlan) -> (u64, u64) {
    let codes = plan.groups.iter().map(|group| group.plan.code());
    codes.fold((0, 0), |sum, code| (sum.0 + code.0, sum.1 + code.1))
}

/// Prints the files that stay unchanged and the code that is left out.
fn show_remarks(plan: &TreePlan, printer: &Printer) {
    for left in plan.groups.iter().flat_map(|group| &group.plan.left_alone) {
        printer.note(format!("`{}` is not changed: {}", left.key, left.reason));
    }
    for note in &plan.notes {
        printer.note(note);
    }
    note_unknown(plan.groups.iter().flat_map(|group| &group.plan.targets), printer);
    for dropped in &plan.dropped {
        printer.detail(format!("skipped `{dropped}`, which is for another target"));
    }
    if !plan.dropped.is_empty() {
        let files = message::count(plan.dropped.len() as u64, "file", "files");
        printer.note(format!("skipped {files} of kernel databases for other targets"));
    }
    if plan.groups.iter().all(|group| group.sources.is_empty()) {
        printer.note("there is no GPU code to take out: the artifacts are not changed");
    }
}

/// Notes the targets that no table has.
pub(super) fn note_unknown<'a>(targets: impl Iterator<Item = &'a String>, printer: &Printer) {
    let tables = RocmTables::in_use();
    let unknown = targets.filter(|target| !tables.has_target(rocwheel_tables::target::base_target(target)));
    for target in unknown.collect::<BTreeSet<_>>() {
        printer.note(format!("`{target}` is in no table of GPU targets; its code is kept under its own name"));
    }
}

fn show_outcome(plan: &TreePlan, outcome: &SplitArtifactsReport, seconds: f64, printer: &Printer) {
    let (code_objects, bytes) = code(plan);
    printer.note(format!(
        "moved {} of {} from {} in libraries to {} in archives, in {seconds:.1} s",
        message::count(code_objects, "code object", "code objects"),
        message::bytes(bytes),
        message::bytes(outcome.section_bytes),
        message::bytes(outcome.archive_bytes)
    ));
}

fn verify(
    settings: &Settings,
    (before, after, targets): (&Path, &Path, Option<&str>),
    printer: &Printer,
) -> Result<Exit> {
    let selection = &settings.request.selection;
    let reporter = printer.reporter();
    let report = if WheelName::is_wheel(before) && after.is_dir() {
        let scratch = environment::scratch_beside(settings.scratch.as_deref(), None)?;
        rocwheel_split::wheels::verify_parts(before, after, targets, scratch.path(), reporter)?
    } else if before.is_file() && after.is_file() {
        let (before, after) = tree::views_of_files(before, after)?;
        rocwheel_split::verify(
            &before,
            &after,
            &Checks { selection, archives: Holdings::Shared, ..Checks::default() },
            reporter,
        )?
    } else if is_artifacts(before) {
        let scratch = environment::scratch_beside(settings.scratch.as_deref(), None)?;
        let (before, after) = (catalog(before, scratch.path(), printer)?, catalog(after, scratch.path(), printer)?);
        tree::verify_catalogs(&before, &after, &Checks { selection, ..Checks::default() }, reporter)?
    } else {
        let (before, after) = (tree::view_of_directory(before)?, tree::view_of_directory(after)?);
        rocwheel_split::verify(&before, &after, &Checks { selection, ..Checks::default() }, reporter)?
    };
    if printer.format() == ResultFormat::Json {
        printer.json(&report)?;
    } else {
        show_report(&report, printer)?;
    }
    Ok(if report.is_clean() { Exit::Done } else { Exit::Failed })
}

fn catalog(path: &Path, scratch: &Path, printer: &Printer) -> Result<Catalog> {
    let paths = artifact_inputs::expand(&[path.to_owned()], Forms::All, printer)?;
    Ok(Catalog::read(&paths, scratch, printer.reporter())?)
}

/// `true` if a path is an artifact or a directory with artifacts.
pub(crate) fn is_artifacts(path: &Path) -> bool {
    is_artifact(path)
        || fs_err::read_dir(path).is_ok_and(|entries| entries.flatten().any(|entry| is_artifact(&entry.path())))
}

fn is_artifact(path: &Path) -> bool {
    path.join("artifact_manifest.txt").exists() || (path.is_file() && artifact_inputs::name_of(path).is_some())
}

/// Prints the table, then the differences, then one line.
pub(super) fn show_report(report: &VerificationReport, printer: &Printer) -> Result<()> {
    let rows = report.binaries.iter().map(|binary| {
        let numbers = [binary.wrappers, binary.bundles, binary.code_objects].map(|number| number.to_string());
        let differences = match binary.left_alone {
            Some(_) => "left alone".to_owned(),
            None => binary.differences.to_string(),
        };
        let mut row = vec![binary.path.clone()];
        row.extend(numbers);
        row.extend([message::bytes(binary.bytes), differences]);
        row
    });
    if !report.binaries.is_empty() {
        printer.table(&CHECKED, rows)?;
    }
    for difference in report.differences.iter().take(SHOWN) {
        printer.line(format!("difference: {difference}"))?;
    }
    if report.differences.len() > SHOWN {
        printer.line(format!("… and {} more, which `--json` lists", report.differences.len() - SHOWN))?;
    }
    for note in report.notes.iter().take(SHOWN) {
        printer.warn(note.to_string());
    }
    if report.notes.len() > SHOWN {
        printer.warn(format!("{} more of these, which `--json` lists", report.notes.len() - SHOWN));
    }
    let (code_objects, bytes) = report.code();
    printer.note(format!(
        "checked {} of {} in {}, {} and {}: {}",
        message::count(code_objects, "code object", "code objects"),
        message::bytes(bytes),
        message::count(report.binaries.len() as u64, "library or program", "libraries and programs"),
        message::count(report.archives, "archive", "archives"),
        message::count(report.others, "other file", "other files"),
        match report.differences.len() {
            0 => "nothing is different".to_owned(),
            some => message::count(some as u64, "difference", "differences"),
        }
    ));
    Ok(())
}
