//! `rocwheel artifact import`: Debian packages, an installed ROCm or a release tarball in,
//! artifacts out.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::import::{self, ImportOptions, ImportReport, ImportSource, Sonames};
use rocwheel_report::Exit;

use crate::commands::Mode;
use crate::environment;
use crate::failure::Result;
use crate::printer::{self, Column, Format, Printer};

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
pub(crate) struct Arguments {
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
pub(crate) struct Settings {
    source: ImportSource,
    options: ImportOptions,
    mode: Mode,
    scratch: PathBuf,
}

impl From<Arguments> for Settings {
    fn from(arguments: Arguments) -> Self {
        let source = match (arguments.prefix, arguments.tarball) {
            (Some(prefix), _) => ImportSource::Prefix(prefix),
            (None, Some(tarball)) => ImportSource::Tarball(tarball),
            (None, None) => ImportSource::Debs(arguments.deb),
        };
        let sonames = if arguments.keep_sonames { Sonames::Keep } else { Sonames::Rename };
        let options = ImportOptions {
            output: arguments.output,
            allow_unresolved: arguments.allow_unresolved,
            sonames,
            version: arguments.version,
        };
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        Self { source, options, mode: Mode::new(arguments.dry_run), scratch }
    }
}

impl Settings {
    /// The import of a release tarball, without options.
    pub(super) fn of_tarball(tarball: PathBuf, output: PathBuf) -> Self {
        let options = ImportOptions { output, allow_unresolved: Vec::new(), sonames: Sonames::Rename, version: None };
        Self { source: ImportSource::Tarball(tarball), options, mode: Mode::Execute, scratch: environment::scratch() }
    }
}

/// Imports, and prints the result.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let plan = import::plan(&settings.source, &settings.options, printer.reporter())?;
    let report = match settings.mode {
        Mode::Execute => import::execute(&plan, printer.reporter())?,
        Mode::DryRun => import::rehearse(&plan, &settings.scratch, printer.reporter())?,
    };
    if printer.format() == Format::Json {
        printer.json(&report)?;
    } else {
        show(&report, settings.mode, printer)?;
    }
    Ok(if report.unresolved.is_empty() { Exit::Done } else { Exit::Partial })
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

fn show(report: &ImportReport, mode: Mode, printer: &Printer) -> Result<()> {
    let rows = report.artifacts.iter().map(|artifact| {
        let (files, links) = (artifact.files.to_string(), artifact.links.to_string());
        vec![artifact.name.clone(), files, links, printer::bytes(artifact.bytes)]
    });
    printer.table(&COLUMNS, rows)?;
    for library in &report.system_libraries {
        let license = library.license.as_deref().unwrap_or("licence not in the table");
        printer.detail(format!("took in {} {} as `{}` ({license})", library.package, library.version, library.soname));
    }
    show_lost_links(report, printer);
    for skipped in report.skipped.iter().filter(|skipped| skipped.target.is_none()) {
        printer.detail(format!("skipped {} of {}: {}", skipped.path, skipped.source, skipped.reason));
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
    let bytes = report.artifacts.iter().map(|artifact| artifact.bytes).sum();
    let number = |length: usize, one, many| printer::count(length as u64, one, many);
    printer.note(format!(
        "ROCm {}{}: {} of {}, code for {}; {} included, {} of {} skipped",
        report.version,
        if mode == Mode::DryRun { " would become" } else { "" },
        number(report.artifacts.len(), "artifact", "artifacts"),
        printer::bytes(bytes),
        if report.targets.is_empty() { "no GPU".to_owned() } else { report.targets.join(", ") },
        number(report.system_libraries.len(), "system library", "system libraries"),
        number(report.skipped.len(), "file", "files"),
        report.input_entries
    ));
    Ok(())
}
