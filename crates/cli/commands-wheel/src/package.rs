//! `rocwheel package`: artifacts in, wheels and the selector out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_artifact::Catalog;
use rocwheel_artifact::archive::Scratch;
use rocwheel_audit::finding::Code;
use rocwheel_audit::written::{self, Verdict};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_output::StagedFile;
use rocwheel_package::{
    AbsentLibrary, Incomplete, IncompleteSet, Incompletes, LeftOut, Logical, OutputFolder, PackagingReport, Plan,
    Prepared, Request, SelectorForm, Shape, Unclaimed, Unsupported,
};
use rocwheel_progress::Exit;
use rocwheel_wheel::Platform;
use serde::Serialize;

use crate::last_look::{self, LastLook, LastLookArguments, Look};
use crate::reuse::{self, ReuseArguments};

const PLANNED: [Column; 3] = [("Package", Left), ("Files", Right), ("Raw", Right)];
const WRITTEN: [Column; 5] =
    [("Package", Left), ("Files", Right), ("Raw", Right), ("Compressed", Right), ("Time", Right)];

/// Turn ROCm artifacts into Python packages: wheels and the selector
///
/// The packages appear in OUTPUT/dist together, when the last one is complete. A second run
/// rewrites only packages whose content changed.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct Arguments {
    /// Directory of artifacts, exploded or in archives
    #[arg(short, long, value_name = "DIR", required_unless_present = "windows_artifacts")]
    artifacts: Option<PathBuf>,
    /// Directory of artifacts for Windows: packages for both systems, with one selector
    /// (experimental)
    ///
    /// Without --artifacts, only packages for Windows are made. Their platform is win_amd64, and
    /// their files are not changed. They are made on Linux and have not been run on Windows.
    #[arg(long, value_name = "DIR")]
    windows_artifacts: Option<PathBuf>,
    /// Directory to write to: missing, empty, or made by this command
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// How GPU code is divided among wheels [default: the artifacts' manifest decides]
    #[arg(long)]
    shape: Option<ShapeArgument>,
    /// Version of the packages [default: the manifest's]
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Append this to the names of the import packages
    #[arg(long, value_name = "SUFFIX", default_value = "", hide_default_value = true)]
    version_suffix: String,
    /// GPU targets or families to package; each has to exist [default: all of the artifacts]
    #[arg(long, value_name = "LIST")]
    targets: Option<String>,
    /// `--targets` for Linux only, or what the selector offers there if another run packages it
    #[arg(long, value_name = "LIST", conflicts_with = "targets")]
    linux_amdgpu_families: Option<String>,
    /// `--targets` for Windows only, or what the selector offers there if another run packages it
    #[arg(long, value_name = "LIST")]
    windows_amdgpu_families: Option<String>,
    /// Write only these: core, libraries, device, devel, profiler, meta
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// How hard to compress the wheels
    #[arg(long, value_name = "LEVEL", default_value = "default")]
    compression: CompressionArgument,
    /// Platform tag of the wheels for its system [default: the lowest manylinux tag that the
    /// symbols allow; win_amd64]
    #[arg(long, value_name = "TAG")]
    platform_tag: Option<String>,
    /// Fail if there are artifacts or files that no rule claims
    #[arg(long)]
    strict: bool,
    /// Package device code that the HIP runtime of the set cannot load
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    last_look: LastLookArguments,
    #[command(flatten)]
    reuse: ReuseArguments,
    /// Skip packages with missing files, and every extra that refers to them; the exit code is then
    /// 3
    #[arg(long)]
    drop_incomplete: bool,
    /// Library that may be missing, with `*` for anything; may be repeated
    #[arg(long, value_name = "LIB")]
    allow_unresolved: Vec<String>,
    /// Form of the selector; `both` puts the wheel into OUTPUT/dist-wheel
    #[arg(long, value_name = "FORM", default_value = "sdist")]
    selector: SelectorArgument,
    /// Take the Python inside the packages from a folder of TheRock's templates, which are read and
    /// never run
    #[arg(long, value_name = "DIR")]
    python_templates: Option<PathBuf>,
    /// Remove packages of another version that an earlier run left in OUTPUT
    #[arg(long)]
    replace: bool,
    /// Print the plan and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory to unpack archives in for --dry-run [default: the system's directory for temporary
    /// files]
    #[arg(long, value_name = "DIR", requires = "dry_run")]
    scratch: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ShapeArgument {
    /// Libraries for all, and one device wheel for each GPU target
    Split,
    /// Libraries, devel and selector once for each GPU family
    PerFamily,
    /// One libraries wheel with the code of all targets
    Fat,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SelectorArgument {
    /// A source distribution, which detects the GPU while it is installed
    Sdist,
    /// A wheel, which detects nothing and has an extra for each GPU target
    Wheel,
    /// Both, in separate folders
    Both,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompressionArgument {
    /// Store
    None,
    /// Quick
    Fast,
    /// A good compromise
    Default,
    /// Small
    Best,
}

#[derive(Debug)]
pub struct Settings {
    pub request: Request,
    pub mode: Mode,
    pub last_look: LastLook,
    pub reuse: ReuseArguments,
    pub earlier: Earlier,
    pub scratch: PathBuf,
}

/// How a run treats packages of another version in the output folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// The run is refused, since they may be a release.
    Keep,
    /// They are removed.
    Replace,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let shape = arguments.shape.map(|shape| match shape {
            ShapeArgument::Split => Shape::Split,
            ShapeArgument::PerFamily => Shape::PerFamily,
            ShapeArgument::Fat => Shape::Fat,
        });
        let level = match arguments.compression {
            CompressionArgument::None => rocwheel_archive::Level::None,
            CompressionArgument::Fast => rocwheel_archive::Level::Fast,
            CompressionArgument::Default => rocwheel_archive::Level::Default,
            CompressionArgument::Best => rocwheel_archive::Level::Best,
        };
        let only = arguments.only.iter().map(|name| distribution(name)).collect::<Result<_, _>>()?;
        let selectors = match arguments.selector {
            SelectorArgument::Sdist => vec![SelectorForm::Sdist],
            SelectorArgument::Wheel => vec![SelectorForm::Wheel],
            SelectorArgument::Both => vec![SelectorForm::Sdist, SelectorForm::Wheel],
        };
        let windows = arguments.windows_artifacts;
        let (artifacts, windows_artifacts, system) = match (arguments.artifacts, windows) {
            (Some(artifacts), Some(windows)) => (artifacts, Some(windows), Some(Platform::Linux)),
            (Some(artifacts), None) => (artifacts, None, None),
            (None, Some(windows)) => (windows, None, Some(Platform::Windows)),
            (None, None) => return Err(Usage::new("there are no artifacts to package").into()),
        };
        let request = Request {
            artifacts,
            system,
            windows_artifacts,
            output: arguments.output,
            shape,
            largest_wheel: rocwheel_package::PYPI,
            incompletes: if arguments.drop_incomplete { Incompletes::Drop } else { Incompletes::Refuse },
            allow_unresolved: arguments.allow_unresolved,
            selectors,
            templates: arguments.python_templates,
            version: arguments.version,
            nonce: arguments.version_suffix,
            targets: arguments.targets.into_iter().collect(),
            linux_targets: arguments.linux_amdgpu_families.into_iter().collect(),
            windows_targets: arguments.windows_amdgpu_families.into_iter().collect(),
            only,
            platform_tag: arguments.platform_tag.map(known_platform).transpose()?,
            level,
            epoch: environment::epoch()?,
            reuse: rocwheel_archive::PackedSource::default(),
            unclaimed: if arguments.strict { Unclaimed::Refuse } else { Unclaimed::Report },
            unsupported: if arguments.force { Unsupported::Allow } else { Unsupported::Refuse },
        };
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        let last_look = arguments.last_look.choice();
        let earlier = if arguments.replace { Earlier::Replace } else { Earlier::Keep };
        let mode = Mode::new(arguments.dry_run);
        Ok(Self { request, mode, last_look, reuse: arguments.reuse, earlier, scratch })
    }
}

fn known_platform(tag: String) -> Result<String, Usage> {
    rocwheel_wheel::TagPart::Platform.check(&tag).map_err(|error| Usage::of(&error))?;
    Ok(tag)
}

fn distribution(name: &str) -> Result<Logical, Usage> {
    Logical::parse(name).ok_or_else(|| {
        let known = Logical::ALL.map(Logical::key).join(", ");
        Usage::new(format!("there is no package `{name}`")).hint(format!("the packages are {known}"))
    })
}

#[derive(Serialize)]
struct Document<'a> {
    version: &'a str,
    shape: Shape,
    targets: &'a [String],
    /// The packages of each system.
    systems: &'a BTreeMap<Platform, Vec<String>>,
    #[serde(flatten)]
    outcome: &'a PackagingReport,
    incomplete: &'a [Incomplete],
    unclaimed: &'a [LeftOut],
    unknown_libraries: &'a [AbsentLibrary],
    left_out: &'a [LeftOut],
    /// One verdict for each set of packages that are installed together; empty if nothing was
    /// written.
    audit: &'a [Verdict],
    /// Bytes before compression that were not compressed again.
    reused: u64,
    seconds: f64,
}

/// The artifacts of a run.
struct Artifacts {
    /// All artifacts, or those for Linux if there are others for Windows.
    first: Catalog,
    windows: Option<Catalog>,
}

impl Artifacts {
    fn open(request: &Request, scratch: &Scratch, printer: &Printer) -> Result<Artifacts, rocwheel_artifact::Error> {
        let windows = request.windows_artifacts.as_ref();
        let windows = windows.map(|folder| Catalog::open_over(folder, scratch, printer.reporter())).transpose()?;
        Ok(Artifacts { first: Catalog::open_over(&request.artifacts, scratch, printer.reporter())?, windows })
    }

    fn plan(&self, request: &Request, printer: &Printer) -> Result<Plan> {
        match &self.windows {
            Some(windows) => rocwheel_package::plan_both(request, [&self.first, windows], printer.reporter()),
            None => rocwheel_package::plan(request, &self.first, printer.reporter()),
        }
    }
}

/// Plans, writes, and prints the written packages.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let begin = Instant::now();
    let request = &settings.request;
    if settings.mode == Mode::DryRun {
        let scratch = environment::scratch_below(&settings.scratch)?;
        let artifacts = Artifacts::open(request, &Scratch::new(scratch.path()), printer)?;
        return match artifacts.plan(request, printer) {
            Err(failure) if failure.find::<IncompleteSet>().is_some() => {
                // The plan of the rest shows the consequences of the missing part.
                let rest = Request { incompletes: Incompletes::Drop, ..request.clone() };
                if let Ok(plan) = artifacts.plan(&rest, printer)
                    && printer.format() == ResultFormat::Text
                {
                    show_plan(&plan, request, printer)?;
                }
                Err(failure)
            }
            plan => show_plan(&plan?, request, printer),
        };
    }
    let mut inputs: Vec<PathBuf> =
        std::iter::once(&request.artifacts).chain(&request.windows_artifacts).cloned().collect();
    // An artifact may be a link to a folder elsewhere.
    for folder in inputs.clone() {
        inputs.extend(rocwheel_artifact::survey(&folder)?.places.into_iter().map(|(_, place)| place.path().to_owned()));
    }
    rocwheel_artifact::outside(&request.output, &inputs)?;
    let reuse = settings.reuse.source(Some(&request.output), printer)?;
    let request = &Request { reuse, ..request.clone() };
    let mut folder = OutputFolder::open(&request.output)?;
    let unpacking = settings.reuse.unpacking(folder.unpacking(settings.reuse.folders()));
    let artifacts = Artifacts::open(request, &unpacking, printer)?;
    let plan = artifacts.plan(request, printer)?;
    tell_sizes(&plan, printer);
    if settings.earlier == Earlier::Keep
        && let Some(there) = folder.versions().into_iter().find(|there| *there != plan.version)
    {
        let (path, version) = (request.output.display(), plan.version);
        let text = format!("`{path}` has packages of version {there}, which those of version {version} would replace");
        let hint = "name another folder with --output, or replace them with --replace";
        return Err(Failure::message(text).with_hint(hint));
    }
    let prepared = rocwheel_package::prepare(&plan, request, &mut folder, printer.reporter())?;
    let scratch = prepared.report().scratch().to_owned();
    let looks = looks(&plan, prepared.report(), settings, &folder, &scratch);
    let (prepared, verdicts) = last_look::finish(prepared, settings.last_look, &looks, printer)?;
    let verdicts: Vec<Verdict> = verdicts.into_iter().flatten().collect();
    let outcome = prepared.record(&mut folder, settings.last_look)?;
    let used: Vec<&Catalog> = std::iter::once(&artifacts.first).chain(&artifacts.windows).collect();
    folder.prune_scratch(&used)?;
    let seconds = begin.elapsed().as_secs_f64();
    tell_next_steps(&plan, &outcome, &request.output, printer)?;
    if printer.format() == ResultFormat::Json {
        printer.json(&Document {
            version: &plan.version,
            shape: plan.shape,
            targets: &plan.targets,
            systems: &plan.systems,
            outcome: &outcome,
            incomplete: &plan.incomplete,
            unclaimed: &plan.unclaimed,
            unknown_libraries: &plan.unknown_libraries,
            left_out: &plan.left_out,
            audit: &verdicts,
            reused: request.reuse.reused(),
            seconds,
        })?;
        return Ok(exit_of(&plan));
    }
    show_outcome(&outcome, seconds, printer)?;
    reuse::tell_reuse(&request.reuse, printer);
    printer.group("What is in no package", || show_remarks(&plan, request, printer));
    for path in &outcome.removed {
        printer.note(format!("removed `{path}`, which this set no longer has"));
    }
    for path in &outcome.strangers {
        printer.warn(format!("`{path}` is no package of this folder's runs and is left alone"));
    }
    let wheels: Vec<PathBuf> = outcome.packages.iter().map(|package| request.output.join(&package.path)).collect();
    for verdict in &verdicts {
        last_look::show(verdict, &wheels, printer);
    }
    Ok(exit_of(&plan))
}

/// A set that lacks a requested part does not count as done.
fn exit_of(plan: &Plan) -> Exit {
    if plan.incomplete.is_empty() { Exit::Done } else { Exit::Partial }
}

/// Sets outputs for the steps of a job that upload or install the packages.
fn tell_next_steps(plan: &Plan, outcome: &PackagingReport, output: &Path, printer: &Printer) -> Result<()> {
    let paths: Vec<String> =
        outcome.packages.iter().map(|package| output.join(&package.path).display().to_string()).collect();
    printer.outputs(&[
        ("version", &plan.version),
        ("dist", &output.join("dist").display().to_string()),
        ("packages", &paths.join("\n")),
        ("targets", &plan.targets.join(",")),
        ("kpack_split", if plan.shape == Shape::Split { "true" } else { "false" }),
    ])
}

/// Every set that contains new packages.
fn looks<'a>(
    plan: &Plan,
    prepared: &Prepared,
    settings: &Settings,
    folder: &OutputFolder,
    scratch: &'a Path,
) -> Vec<Look<'a>> {
    // The errors that `--force` accepts.
    let wanted = match settings.request.unsupported {
        Unsupported::Allow => BTreeSet::from([Code::KpackRuntime]),
        Unsupported::Refuse => BTreeSet::new(),
    };
    // Unknown libraries for Windows were reported as warnings: no table of Windows' libraries is
    // complete.
    let unknown = plan.unknown_libraries.iter().map(|missing| missing.library.clone());
    // Findings name a library without the version after `.so`.
    let allowed = settings.request.allow_unresolved.iter().flat_map(|library| {
        let stem = library.split_once(".so").map(|(stem, _)| format!("{stem}.so"));
        [Some(library.clone()), stem].into_iter().flatten()
    });
    let left_out: BTreeSet<String> = unknown.chain(allowed).collect();
    let looks = prepared.sets(folder).into_iter().map(|set| {
        let what = match set.system {
            Platform::Linux => "the set",
            Platform::Windows => "the set for Windows",
        };
        let wheels = set.wheels.into_iter().map(|(staged, place)| StagedFile { staged, place }).collect();
        let set = written::WheelSet {
            wheels,
            beside: set.beside,
            wanted: wanted.clone(),
            left_out: left_out.clone(),
            ..written::WheelSet::default()
        };
        Look { set, what: what.to_owned(), scratch }
    });
    looks.collect()
}

fn show_outcome(outcome: &PackagingReport, seconds: f64, printer: &Printer) -> Result<()> {
    let rows = outcome.packages.iter().map(|package| {
        let time = if package.written { format!("{:.1} s", package.seconds) } else { "up to date".to_owned() };
        row(&package.path, [package.files, package.raw, package.compressed], time)
    });
    let sums = outcome.packages.iter().fold([0; 3], |[files, raw, compressed], package| {
        [files + package.files, raw + package.raw, compressed + package.compressed]
    });
    let packages = message::count(outcome.packages.len() as u64, "package", "packages");
    printer.table(&WRITTEN, rows.chain([row(&packages, sums, format!("{seconds:.1} s"))]))
}

fn row(package: &str, [files, raw, compressed]: [u64; 3], time: String) -> Vec<String> {
    vec![package.to_owned(), files.to_string(), message::bytes(raw), message::bytes(compressed), time]
}

/// Prints what is known of sizes before the minutes of packing.
fn tell_sizes(plan: &Plan, printer: &Printer) {
    if let Some(reason) = &plan.shape_reason {
        printer.note(reason.to_string());
    }
    for large in &plan.too_large {
        printer.warn(format!(
            "`{}` will have about {}: PyPI takes no more than 1 GB and GitHub less than 2 GiB. `rocwheel prune` keeps the \
             code of fewer targets; `rocwheel split` takes it out of libraries, for a HIP that reads archives",
            large.file_name,
            message::bytes(large.bytes)
        ));
    }
}

fn show_plan(plan: &Plan, request: &Request, printer: &Printer) -> Result<Exit> {
    tell_sizes(plan, printer);
    if printer.format() == ResultFormat::Json {
        printer.json(plan)?;
        return Ok(exit_of(plan));
    }
    let systems = plan.systems.iter().map(|(system, targets)| format!("{} on {system}", listed(targets)));
    let targets = match plan.systems.len() {
        1 if plan.systems.contains_key(&Platform::Linux) => listed(&plan.targets),
        _ => systems.collect::<Vec<_>>().join("; "),
    };
    printer.line(format!("version {}, shape {}, GPU targets: {targets}\n", plan.version, plan.shape))?;
    let wheels = plan.wheels.iter().map(|wheel| {
        let path = in_folder(wheel.folder.as_ref(), &wheel.file_name);
        vec![path, wheel.file_count().to_string(), message::bytes(wheel.raw_size())]
    });
    let selectors = plan.selectors.iter().map(|selector| {
        let path = in_folder(selector.folder.as_ref(), &selector.file_name);
        vec![path, String::new(), String::new()]
    });
    printer.table(&PLANNED, wheels.chain(selectors))?;
    for wheel in &plan.wheels {
        printer.line(format!("\n{}", wheel.file_name))?;
        if let Some(reason) = &wheel.platform_reason {
            printer.line(format!("  platform  {}, because of {reason}", wheel.platform_tag))?;
        }
        for requirement in &wheel.requires {
            printer.line(format!("  requires  {requirement}"))?;
        }
        for (path, file) in &wheel.files {
            printer.line(format!("  {:>9}  {path}", message::bytes(file.size)))?;
        }
    }
    show_remarks(plan, request, printer);
    let files = plan.wheels.iter().map(|wheel| wheel.file_count() as u64).sum();
    let raw = plan.wheels.iter().map(rocwheel_package::PlannedWheel::raw_size).sum();
    printer.note(format!(
        "would write {} with {} of {}",
        message::count((plan.wheels.len() + plan.selectors.len()) as u64, "package", "packages"),
        message::count(files, "file", "files"),
        message::bytes(raw)
    ));
    Ok(exit_of(plan))
}

fn in_folder(folder: Option<&String>, file_name: &str) -> String {
    folder.map_or_else(|| file_name.to_owned(), |folder| format!("{folder}/{file_name}"))
}

/// Warns that the selectors of several GPU families are in separate folders, where pip does not
/// search, and prints how to install one of them.
fn show_families(plan: &Plan, request: &Request, printer: &Printer) {
    let families: Vec<&String> = plan.selectors.iter().filter_map(|selector| selector.folder.as_ref()).collect();
    let [first, _, ..] = families[..] else { return };
    let dist = request.output.join("dist");
    let [dist, of_family] = [&dist, &dist.join(first)].map(|path| rocwheel_progress::shell_path(path));
    let names = rocwheel_progress::in_backticks(families.iter());
    printer.warn(format!(
        "the folder {dist} alone has no package `rocm`: there is one for each GPU family, in {names} below it. For one of \
         them type `pip install 'rocm[libraries,devel]' --pre --find-links={of_family} --find-links={dist}`"
    ));
}

fn listed(targets: &[String]) -> String {
    if targets.is_empty() { "none".to_owned() } else { targets.join(", ") }
}

/// Prints the files that are in no package, the packages that are not made, and the changes to
/// packaged files.
fn show_remarks(plan: &Plan, request: &Request, printer: &Printer) {
    show_families(plan, request, printer);
    for incomplete in &plan.incomplete {
        printer.warn(format!("`{}` is not made: {}", incomplete.package, incomplete.reasons.join("; ")));
    }
    let is_known = plan.wheels.iter().any(|wheel| wheel.logical == Logical::Profiler)
        || plan.incomplete.iter().any(|incomplete| incomplete.package == "rocm-profiler");
    if plan.systems.contains_key(&Platform::Linux) && !is_known && request.only.is_empty() {
        printer.note("no artifact is for `rocm-profiler`: there is no such package, and no extra `profiler`");
    }
    if plan.systems.contains_key(&Platform::Windows) {
        printer.note("the packages for Windows are experimental: they have not been run on Windows");
    }
    for missing in &plan.unknown_libraries {
        let needed_by = missing.needed_by.first().map(String::as_str).unwrap_or_default();
        printer.warn(format!(
            "`{}` is in none of the packages, and not known to be on every Windows: `{needed_by}` needs it",
            missing.library
        ));
    }
    for left_out in &plan.unclaimed {
        let files = message::count(left_out.files as u64, "file", "files");
        printer.warn(format!("no rule claims `{}` ({files}): {}", left_out.what, left_out.reason));
    }
    for left_out in &plan.left_out {
        let files = message::count(left_out.files as u64, "file", "files");
        printer.note(format!("skipped `{}` ({files}): {}", left_out.what, left_out.reason));
    }
    for dropped in &plan.dropped_search_paths {
        printer.detail(format!("dropped the search path `{}` of `{}`", dropped.entry, dropped.file));
    }
    for note in &plan.notes {
        printer.detail(format!("{}: `{}` {}", note.distribution, note.path, note.message));
    }
}
