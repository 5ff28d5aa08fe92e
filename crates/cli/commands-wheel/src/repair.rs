//! `rocwheel repair`: makes wheels load on every system that their tags name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_archive::{FileDigest, Level, WriteOptions};
use rocwheel_audit::written::{Verdict, WheelSet};
use rocwheel_console::arguments::size;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_loader::cache::FactsCache;
use rocwheel_output::Mode;
use rocwheel_output::StagedFile;
use rocwheel_progress::Exit;
use rocwheel_repair::{
    self as repair, NotCopiedReason, Plan, PlannedEdit, PreparedRepair, ReadingDepth, RepairMode as Way, RepairedWheel,
    Request, Resolve, RocmFrom, ValueChange,
};
use serde::Serialize;

use crate::last_look::{self, LastLook, LastLookArguments, Look};
use crate::reuse::{self, ReuseArguments};

/// Make wheels load on every system their tags promise
///
/// There are three modes. `graft` copies the libraries that a wheel needs from this machine into
/// it, under names with a hash. `rocm` does the same, but leaves ROCm and PyTorch in their own
/// wheels, to which search paths lead. `fat` puts a whole ROCm into the wheel. Libraries that the
/// manylinux policy promises, and those of drivers, are never copied. The tag is the lowest that
/// the symbols of all files allow. A bill of materials lists where the libraries come from.
/// Everything else is copied unchanged.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Wheels
    #[arg(required = true, value_name = "WHEEL")]
    wheels: Vec<PathBuf>,
    /// Directory for the results
    #[arg(short, long, value_name = "DIR", default_value = "wheelhouse")]
    output: PathBuf,
    /// The mode [default: rocm for wheels that need ROCm or PyTorch, else graft]
    #[arg(long, value_name = "WAY")]
    mode: Option<WayArgument>,
    /// How a wheel finds ROCm in other wheels, for the mode rocm
    #[arg(long, value_name = "HOW", default_value = "rpath")]
    resolve: ResolveArgument,
    /// Version of ROCm that the wheel was built for, 7.2.4 or 7.2.*; becomes a requirement, or the
    /// local version of a fat wheel
    #[arg(long, value_name = "VERSION")]
    rocm_version: Option<String>,
    /// ROCm for a fat wheel: an installed prefix, or flattened artifacts
    #[arg(long, value_name = "DIR", required_if_eq("mode", "fat"))]
    rocm: Option<PathBuf>,
    /// Package of the wheel that ROCm is copied into [default: the one with most of the binaries]
    #[arg(long, value_name = "NAME", requires = "rocm")]
    package: Option<String>,
    /// Directory to look for libraries in, before those of the system; may be repeated
    #[arg(long, value_name = "DIR")]
    lib_path: Vec<PathBuf>,
    /// A wheel, or a directory of wheels, that will be installed too: its libraries are not copied;
    /// may be repeated
    #[arg(long, value_name = "WHEEL")]
    with: Vec<PathBuf>,
    /// Libraries that are not copied, as globs of names: libfoo.so also means libfoo.so.1; may be
    /// repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Platform tag; a lower one is added if the files allow it [default: the lowest that is true]
    #[arg(long, value_name = "TAG")]
    plat: Option<String>,
    /// Add no lower tag than that of `--plat`
    #[arg(long, requires = "plat")]
    only_plat: bool,
    /// Remove symbol tables and debug sections with `strip` of binutils, on temporary copies
    #[arg(long)]
    strip: bool,
    /// Fail if a result is larger than this (500MB, 1.5GiB), and print a tree of what is large
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size_budget: Option<u64>,
    #[command(flatten)]
    last_look: LastLookArguments,
    #[command(flatten)]
    reuse: ReuseArguments,
    /// Print what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Directory for large temporary files; cleaned up afterwards [default: beside the output]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// The ways on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WayArgument {
    /// Copy the needed libraries into the wheel
    Graft,
    /// The same, but ROCm and PyTorch stay in their own wheels
    Rocm,
    /// Put a whole ROCm into the wheel
    Fat,
}

/// How ROCm is found, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ResolveArgument {
    /// By search paths
    Rpath,
    /// Loaded when the package is imported, by a generated `_rocm_init.py`
    Preload,
    /// Both
    Both,
}

#[derive(Debug)]
pub struct Settings {
    pub wheels: Vec<PathBuf>,
    pub output: PathBuf,
    pub request: Request,
    pub scratch: PathBuf,
    pub mode: Mode,
    pub last_look: LastLook,
    pub reuse: ReuseArguments,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if arguments.rocm.is_some() && arguments.mode != Some(WayArgument::Fat) {
            return Err(Usage::new("`--rocm` is for fat wheels").hint("add `--mode fat`").into());
        }
        if arguments.resolve != ResolveArgument::Rpath && !matches!(arguments.mode, None | Some(WayArgument::Rocm)) {
            return Err(Usage::new("`--resolve` is for the mode rocm").hint("remove it").into());
        }
        let is_range = arguments.rocm_version.as_ref().is_some_and(|version| version.ends_with(".*"));
        if is_range && (arguments.resolve != ResolveArgument::Rpath || arguments.mode == Some(WayArgument::Fat)) {
            return Err(Usage::new(
                "`--rocm-version` has to be one version for a wheel that compares it, or holds that ROCm",
            )
            .hint("name it in full, such as 7.2.4")
            .into());
        }
        let mode = Mode::new(arguments.dry_run);
        let output = (mode == Mode::Execute).then_some(&*arguments.output);
        let scratch = environment::scratch_near(arguments.scratch.as_deref(), output);
        let request = Request {
            mode: arguments.mode.map(|way| match way {
                WayArgument::Graft => Way::Graft,
                WayArgument::Rocm => Way::Rocm,
                WayArgument::Fat => Way::Fat,
            }),
            resolve: match arguments.resolve {
                ResolveArgument::Rpath => Resolve::Rpath,
                ResolveArgument::Preload => Resolve::Preload,
                ResolveArgument::Both => Resolve::Both,
            },
            library_path: arguments.lib_path,
            system: repair::system_directories(),
            beside: arguments.with,
            exclude: arguments.exclude,
            platform: arguments.plat,
            only_platform: arguments.only_plat,
            rocm_version: arguments.rocm_version,
            rocm_from: RocmFrom::Packages,
            tree: arguments.rocm,
            package: arguments.package,
            strip: arguments.strip.then(|| PathBuf::from("strip")),
            budget: arguments.size_budget,
            scratch: PathBuf::new(),
            write: WriteOptions {
                level: Level::Small,
                epoch: environment::epoch()?,
                digest: FileDigest::Skip,
                ..WriteOptions::default()
            },
            depth: ReadingDepth::Whole,
        };
        let last_look = arguments.last_look.choice();
        let (wheels, output, reuse) = (arguments.wheels, arguments.output, arguments.reuse);
        Ok(Self { wheels, output, request, scratch, mode, last_look, reuse })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    wheels: &'a [Repaired],
    seconds: f64,
}

#[derive(Serialize)]
struct Repaired {
    plan: Plan,
    outcome: Option<RepairedWheel>,
    /// The result of the audit; null if there was none.
    audit: Option<Verdict>,
}

impl Settings {
    /// The plan for one wheel, of which nothing but headers is read.
    pub(super) fn plan(
        &self,
        path: &Path,
        (scratch, facts): (&Path, Option<&FactsCache>),
        printer: &Printer,
    ) -> Result<Plan, repair::Error> {
        let depth = ReadingDepth::Headers(facts.cloned());
        let request = Request { scratch: scratch.to_owned(), depth, ..self.request.clone() };
        Ok(repair::plan(path, &request, printer.reporter())?.plan)
    }
}

/// Repairs one wheel without printing. Returns the path of the result.
pub(super) fn apply(settings: &Settings, printer: &Printer) -> Result<PathBuf> {
    let scratch = environment::scratch_below(&settings.scratch)?;
    let request = Request { scratch: scratch.path().to_owned(), ..settings.request.clone() };
    let prepared = repair::plan(&settings.wheels[0], &request, printer.reporter())?;
    let staged = prepared.write(&settings.output, &request, printer.reporter())?;
    let look = look(settings, &prepared.plan, staged.files());
    let (outcome, _) = last_look::finish(staged, settings.last_look, look.as_slice(), printer)?;
    Ok(outcome.path)
}

/// Repairs wheels one after the other.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let begin = Instant::now();
    let scratch = environment::scratch_below(&settings.scratch)?;
    let mut request = Request { scratch: scratch.path().to_owned(), ..settings.request.clone() };
    if settings.mode == Mode::Execute {
        request.write.reuse = settings.reuse.source(Some(&settings.output), printer)?;
    }
    let mut repaired: Vec<Repaired> = Vec::with_capacity(settings.wheels.len());
    for path in &settings.wheels {
        let prepared: PreparedRepair = repair::plan(path, &request, printer.reporter())?;
        if let Some(other) = repaired.iter().find(|other| other.plan.output == prepared.plan.output) {
            let (first, second) = (other.plan.input.display(), path.display());
            let message = format!("`{first}` and `{second}` would both be written to `{}`", prepared.plan.output);
            return Err(Usage::new(message).hint("repair them one by one into different directories").into());
        }
        let (outcome, audit) = match settings.mode {
            Mode::Execute => {
                let staged = prepared.write(&settings.output, &request, printer.reporter())?;
                let look = look(settings, &prepared.plan, staged.files());
                let (outcome, mut verdicts) = last_look::finish(staged, settings.last_look, look.as_slice(), printer)?;
                (Some(outcome), verdicts.pop().flatten())
            }
            Mode::DryRun => (None, None),
        };
        let done = Repaired { plan: prepared.plan, outcome, audit };
        if printer.format() == ResultFormat::Text {
            show(&done, printer)?;
            if let (Some(outcome), Some(verdict)) = (&done.outcome, &done.audit) {
                last_look::show(verdict, &[&outcome.path], printer);
            }
        }
        repaired.push(done);
    }
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { wheels: &repaired, seconds: begin.elapsed().as_secs_f64() })?;
    }
    reuse::tell_reuse(&request.write.reuse, printer);
    Ok(Exit::Done)
}

/// Audits a repaired wheel with those that will be installed beside it. Excluded libraries may be
/// missing.
fn look<'a>(settings: &'a Settings, plan: &Plan, wheels: &[StagedFile]) -> Option<Look<'a>> {
    if plan.is_empty() {
        return None;
    }
    let excluded = plan.kept_out.iter().filter(|left| matches!(left.reason, NotCopiedReason::Excluded));
    let set = WheelSet {
        wheels: wheels.to_vec(),
        beside: settings.request.beside.clone(),
        before: vec![plan.input.clone()],
        left_out: excluded.map(|left| left.library.clone()).collect(),
        ..WheelSet::default()
    };
    Some(Look { set, what: format!("`{}`", plan.output), scratch: &settings.scratch })
}

fn show(repaired: &Repaired, printer: &Printer) -> Result<()> {
    let Repaired { plan, outcome, .. } = repaired;
    if !plan.grafted.is_empty() {
        let rows = plan.grafted.iter().map(|graft| {
            let package = graft.package.as_ref().map_or("-".to_owned(), |package| package.name.clone());
            vec![graft.name.clone(), message::bytes(graft.size), package, graft.needed_by.join(", ")]
        });
        printer.table(&[("Library", Left), ("Size", Right), ("Package", Left), ("Needed by", Left)], rows)?;
    }
    if !plan.kept_out.is_empty() {
        let rows = plan.kept_out.iter().map(|left| {
            let from = match (&left.distribution, left.reason) {
                (Some(distribution), _) => distribution.clone(),
                (None, NotCopiedReason::Excluded) => "--exclude".to_owned(),
                (None, NotCopiedReason::Beside | NotCopiedReason::Family(_)) => "the driver".to_owned(),
            };
            vec![left.library.clone(), from, left.needed_by.join(", ")]
        });
        printer.table(&[("Left out", Left), ("Comes from", Left), ("Needed by", Left)], rows)?;
    }
    if let Some(tree) = &plan.tree {
        printer.line(format!(
            "{}: {} of ROCm, {}",
            tree.folder,
            message::count(tree.files.len() as u64, "file", "files"),
            message::bytes(tree.size)
        ))?;
        for (reason, paths) in &tree.left_out {
            printer.detail(format!("skipped, {reason}: {}", paths.join(", ")));
        }
    }
    for (entries, members) in edited(plan, |edit| Some(&edit.dropped)) {
        printer.line(format!("{}: search path without {}", whose(&members), entries.join(", ")))?;
    }
    // Otherwise the lines about added and excluded libraries show the search paths.
    if plan.tree.is_some() {
        for (entries, members) in edited(plan, |edit| edit.search_path.as_ref()) {
            printer.line(format!("{}: search path {}", whose(&members), entries.join(":")))?;
        }
    }
    let files = plan.edits.iter().map(|edit| (&edit.member, &edit.edit));
    let grafts = plan.grafted.iter().map(|graft| (&graft.member, &graft.edit));
    for (member, _) in files.chain(grafts).filter(|(_, edit)| edit.stack) {
        printer.line(format!("{member}: no longer asks for an executable stack, which nothing in it needs"))?;
    }
    for edit in &plan.edits {
        if let Some(moved) = &edit.moved_to {
            printer.line(format!("{} → {moved}", edit.member))?;
        }
    }
    for text in &plan.texts {
        printer.line(format!("{}: {}", text.member, text.purpose))?;
    }
    for requirement in &plan.requirements {
        printer.line(match (&requirement.before, &requirement.after) {
            (Some(before), Some(after)) => format!("requirement {before} → {after}"),
            (None, Some(after)) => format!("requirement {after}"),
            (before, None) => format!("requirement {} removed", before.as_deref().unwrap_or_default()),
        })?;
    }
    if let Some(ValueChange { before, after }) = &plan.version {
        printer.line(format!("version {before} → {after}"))?;
    }
    if plan.tags.before != plan.tags.after {
        printer.line(format!("tag {} → {}", plan.tags.before.join("."), plan.tags.after.join(".")))?;
    }
    for reason in plan.tags.reasons.iter().take(3) {
        printer.detail(reason);
    }
    for note in &plan.notes {
        printer.warn(note);
    }
    for member in outcome.iter().flat_map(|outcome| &outcome.unstripped) {
        printer.warn(format!("`{member}` keeps its symbols: `strip` would move its segments, and it would not load"));
    }
    match outcome {
        Some(outcome) if outcome.unchanged => printer.line(format!("{}: nothing to repair", outcome.path.display())),
        Some(outcome) => printer.line(format!("{}: {}", outcome.path.display(), message::bytes(outcome.size))),
        None if plan.is_empty() => printer.line(format!("{}: nothing to repair", plan.output)),
        None => printer.line(format!(
            "{}: {} would come in, {} would change (not written)",
            plan.output,
            message::count(plan.grafted.len() as u64, "library", "libraries"),
            message::count(plan.edits.len() as u64, "file", "files"),
        )),
    }
}

/// The entries of edited search paths, each with the files that have them: many files have the
/// same.
fn edited(plan: &Plan, entries: impl Fn(&PlannedEdit) -> Option<&Vec<String>>) -> BTreeMap<&[String], Vec<&str>> {
    let mut edited: BTreeMap<&[String], Vec<&str>> = BTreeMap::new();
    for edit in &plan.edits {
        if let Some(entries) = entries(&edit.edit).filter(|entries| !entries.is_empty()) {
            edited.entry(entries).or_default().push(&edit.member);
        }
    }
    edited
}

/// The names of some files, for one line.
fn whose(members: &[&str]) -> String {
    match members {
        [first, second] => format!("{first}, {second}"),
        [first, rest @ ..] if !rest.is_empty() => format!("{first} and {} others", rest.len()),
        _ => members.concat(),
    }
}
