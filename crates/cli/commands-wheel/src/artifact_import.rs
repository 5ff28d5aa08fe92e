//! `rocwheel artifact import`: Debian packages, an installed ROCm or a release tarball in,
//! artifacts out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{ArgGroup, Args};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::Catalog;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::{environment, message};
use rocwheel_import::{
    self as import, ArtifactSummary, ImportOptions, ImportPlan, ImportReport, ImportSource, Sonames,
};
use rocwheel_output::Mode;
use rocwheel_output::OutputTree;
use rocwheel_progress::Exit;
use rocwheel_split::tree::{self, DatabaseChoice, OldRuntime, Request, SplitArtifactsReport};
use rocwheel_split::verify::Verification;
use rocwheel_split::{Packing, TargetNames, TargetSelection};
use serde::Serialize;

use crate::split;

/// Number of broken links that are printed.
const LINKS_SHOWN: usize = 10;

const COLUMNS: [Column; 4] = [("Artifact", Left), ("Files", Right), ("Links", Right), ("Size", Right)];

/// Turn .deb packages, an installed ROCm or a release tarball into artifacts
///
/// Every input file goes into an artifact or is listed with the reason. Libraries that are neither
/// ROCm's nor on every Linux are included under new names, with their licences; a missing one is an
/// error.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["deb", "prefix", "tarball"]))]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Debian packages
    #[arg(long, value_name = "FILE", num_args = 1..)]
    deb: Vec<PathBuf>,
    /// An installed ROCm: /opt/rocm, or /usr of a Debian system
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// A therock-dist-*.tar.gz
    #[arg(long, value_name = "FILE")]
    tarball: Option<PathBuf>,
    /// Directory to make: missing, empty, or made by this command
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Version of the set [default: the HIP runtime's]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Library that may be missing, with `*` for anything; may be repeated, and is recorded
    #[arg(long, value_name = "LIB")]
    allow_unresolved: Vec<String>,
    /// Divide the artifacts by GPU target as `rocwheel split` does, and check the result
    #[arg(long, conflicts_with = "dry_run")]
    split: bool,
    /// Level of zstd for --split: 1 is quick, 19 is small
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=22), requires = "split")]
    level: i32,
    /// Split a set whose HIP runtime cannot read archives
    #[arg(long, requires = "split")]
    force: bool,
    /// Keep the names of system libraries; a library of the same name that is already loaded is
    /// then used instead
    #[arg(long)]
    keep_sonames: bool,
    /// Do everything in a temporary directory, print the result and keep nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory for the temporary files of --dry-run [default: the system's directory for
    /// temporary files]
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    scratch: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Settings {
    source: ImportSource,
    options: ImportOptions,
    pub mode: Mode,
    pub scratch: PathBuf,
    /// How the artifacts are divided; `None` if they are not.
    split: Option<Request>,
}

impl From<Arguments> for Settings {
    fn from(arguments: Arguments) -> Self {
        let source = match (arguments.prefix, arguments.tarball) {
            (Some(prefix), _) => ImportSource::Prefix(prefix),
            (None, Some(tarball)) => ImportSource::Tarball(tarball),
            (None, None) => ImportSource::Debs(arguments.deb),
        };
        let sonames = if arguments.keep_sonames { Sonames::Keep } else { Sonames::Rename };
        let split = arguments.split.then(|| Request {
            selection: TargetSelection::ALL,
            databases: DatabaseChoice::All,
            names: TargetNames::Base,
            packing: Packing { level: arguments.level, ..Packing::default() },
            unsupported: if arguments.force { OldRuntime::Allow } else { OldRuntime::Refuse },
            verification: Verification::Full,
            maker: import::MAKER,
        });
        let options = ImportOptions {
            output: arguments.output,
            allow_unresolved: arguments.allow_unresolved,
            sonames,
            version: arguments.version,
        };
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        Self { source, options, mode: Mode::new(arguments.dry_run), scratch, split }
    }
}

impl Settings {
    /// The import of a release tarball, without options.
    pub(super) fn of_tarball(tarball: PathBuf, output: PathBuf) -> Self {
        let options = ImportOptions { output, allow_unresolved: Vec::new(), sonames: Sonames::Rename, version: None };
        let scratch = environment::scratch();
        Self { source: ImportSource::Tarball(tarball), options, mode: Mode::Execute, scratch, split: None }
    }
}

/// Imports, and prints the result.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let plan = import::plan(&settings.source, &settings.options, printer.reporter())?;
    if let Some(request) = &settings.split {
        return import_split(plan, request, printer);
    }
    let report = match settings.mode {
        Mode::Execute => import::execute(&plan, printer.reporter())?,
        Mode::DryRun => import::rehearse(&plan, &settings.scratch, printer.reporter())?,
    };
    if printer.format() == ResultFormat::Json {
        printer.json(&report)?;
    } else {
        show(&report, settings.mode, printer)?;
    }
    Ok(exit_of(&report))
}

fn exit_of(report: &ImportReport) -> Exit {
    if report.unresolved.is_empty() { Exit::Done } else { Exit::Partial }
}

#[derive(Serialize)]
struct SplitDocument<'a> {
    #[serde(flatten)]
    report: &'a ImportReport,
    split: &'a SplitArtifactsReport,
}

/// Imports into a folder beside the output, divides the result into the output, and removes the
/// folder.
fn import_split(mut plan: ImportPlan, request: &Request, printer: &Printer) -> Result<Exit> {
    if plan.has_archive_reader == Some(false) && request.unsupported == OldRuntime::Refuse {
        // Now, and not after minutes of unpacking.
        return Err(tree::runtime_without_archives(Path::new("libamdhip64.so")));
    }
    let output = plan.options.output.clone();
    // An output that cannot be replaced is an error before the work.
    drop(OutputTree::new(&output, request.maker)?);
    let whole = environment::scratch_beside(None, Some(&output))?;
    plan.options.output = whole.path().join("artifacts");
    let mut report = import::execute(&plan, printer.reporter())?;
    let begin = Instant::now();
    let catalog = Catalog::open(&plan.options.output, whole.path(), printer.reporter())?;
    let divided = tree::plan(&catalog, request, printer.reporter())?;
    split::forecast(&divided, request.packing, printer)?;
    let outcome = tree::execute(&divided, &catalog, request, &output, printer.reporter())?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(catalog);
    whole.close()?;
    if printer.format() == ResultFormat::Json {
        report.artifacts = summaries(&outcome);
        report.output = output;
        printer.json(&SplitDocument { report: &report, split: &outcome })?;
    } else {
        show_remarks(&report, printer);
        show_total(&report, Mode::Execute, printer);
        split::show_split(&divided, &outcome, seconds, printer)?;
    }
    Ok(if outcome.is_good() { exit_of(&report) } else { Exit::Failed })
}

/// Warns of broken links. A maintainer script or a package that was not given may provide the
/// target, so they are not errors. They are in no artifact either, so each is reported.
fn show_lost_links(report: &ImportReport, printer: &Printer) {
    let lost = report.skipped.iter().filter_map(|skipped| Some((skipped, skipped.target.as_ref()?)));
    let (shown, total) = (if printer.has_details() { usize::MAX } else { LINKS_SHOWN }, lost.clone().count());
    for (skipped, target) in lost.take(shown) {
        let (path, source, reason) = (&skipped.path, &skipped.source, &skipped.reason);
        printer.warn(format!("skipped the link `{path}` of {source} to `{target}`: {reason}"));
    }
    if total > shown {
        printer.warn(format!("and {} more such links; `--json` lists all", total - shown));
    }
}

/// The artifacts of a split in the form of an import.
fn summaries(outcome: &SplitArtifactsReport) -> Vec<ArtifactSummary> {
    let summaries = outcome.artifacts.iter().map(|artifact| ArtifactSummary {
        name: artifact.name.to_string(),
        files: artifact.files - artifact.links,
        links: artifact.links,
        bytes: artifact.bytes,
    });
    summaries.collect()
}

fn show(report: &ImportReport, mode: Mode, printer: &Printer) -> Result<()> {
    let rows = report.artifacts.iter().map(|artifact| {
        let (files, links) = (artifact.files.to_string(), artifact.links.to_string());
        vec![artifact.name.clone(), files, links, message::bytes(artifact.bytes)]
    });
    printer.table(&COLUMNS, rows)?;
    show_remarks(report, printer);
    show_total(report, mode, printer);
    Ok(())
}

/// Prints what was taken from outside ROCm, skipped, changed and not explained.
fn show_remarks(report: &ImportReport, printer: &Printer) {
    for library in &report.system_libraries {
        let license = library.license.as_deref().unwrap_or("licence not in the table");
        printer.detail(format!("took in {} {} as `{}` ({license})", library.package, library.version, library.soname));
    }
    show_lost_links(report, printer);
    for displaced in &report.displaced {
        printer.warn(format!("skipped `{}` of `{}`: it is {}", displaced.path, displaced.source, displaced.reason));
    }
    let untold =
        report.skipped.iter().filter(|skipped| skipped.target.is_none() && !report.displaced.contains(skipped));
    for skipped in untold {
        printer.detail(format!("skipped {} of {}: {}", skipped.path, skipped.source, skipped.reason));
    }
    for path in &report.copies {
        printer.detail(format!("`{path}` is a copy of another name of the library: it is a link to that"));
    }
    if let Some(first) = report.copies.first() {
        let copies = message::count(report.copies.len() as u64, "library is a copy", "libraries are copies");
        printer.warn(format!(
            "{copies} under another name, such as `{first}`, and linked again: the input was copied with its links followed"
        ));
    }
    for path in &report.unknown {
        printer.warn(format!("no rule claims `{path}`: it is in the artifact `base`"));
    }
    for mention in &report.unlisted_loads {
        printer.warn(format!("`{}` may load `{}`, which no table explains", mention.path, mention.text));
    }
    for mention in &report.kept_names {
        printer.detail(format!("kept a copy named `{}`, which `{}` loads by that name", mention.text, mention.path));
    }
    for mention in &report.dropped_search_paths {
        printer.detail(format!("dropped the search path `{}` of `{}`", mention.text, mention.path));
    }
    for missing in &report.unresolved {
        let needed_by = missing.chain.first().map(String::as_str).unwrap_or_default();
        printer.warn(format!("`{}` is missing, needed by `{needed_by}`; this was allowed", missing.library));
    }
}

fn show_total(report: &ImportReport, mode: Mode, printer: &Printer) {
    let bytes = report.artifacts.iter().map(|artifact| artifact.bytes).sum();
    printer.note(format!(
        "ROCm {}{}: {} of {}, code for {}; {} included, {} of {} skipped",
        report.version,
        if mode == Mode::DryRun { " would become" } else { "" },
        message::count(report.artifacts.len() as u64, "artifact", "artifacts"),
        message::bytes(bytes),
        if report.targets.is_empty() { "no GPU".to_owned() } else { report.targets.join(", ") },
        message::count(report.system_libraries.len() as u64, "system library", "system libraries"),
        message::count(report.skipped.len() as u64, "file", "files"),
        report.input_entries
    ));
}
