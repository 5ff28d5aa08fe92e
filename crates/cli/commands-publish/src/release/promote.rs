//! `rocwheel release promote`: a set of packages gets another version without a build.

mod between;
mod native;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use pep440_rs::Version;
use rocwheel_archive::WriteOptions;
use rocwheel_audit::AuditScope;
use rocwheel_audit::written::{Verdict, WheelSet};
use rocwheel_output::StagedFile;
use rocwheel_progress::Exit;
use rocwheel_promote::{OldFiles, Promoted, PromotionPlan, PromotionRequest, STATEMENT, plan_promotion, promote};
use rocwheel_recipe::VersionLock;
use rocwheel_wheel::WheelName;
use serde::Serialize;

use rocwheel_commands_wheel::last_look::{self, LastLook, LastLookArguments, Look};
use rocwheel_commands_wheel::reuse;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_output::Mode;

const COLUMNS: [Column; 3] = [("File", Left), ("Becomes", Left), ("Texts", Right)];

/// Give a set of packages another version, such as 7.12.0 instead of 7.12.0rc1
///
/// Libraries, kernels and everything else that does not say the version keep their packed bytes.
/// File names, METADATA, pins, RECORD, `_dist_info.py`, manifests, source distributions and
/// tarballs get the new version; what would still say the old one is an error. Debian and RPM
/// packages are copied. Either all files are written, or none. promotion.intoto.json says which
/// file was made from which.
///
/// With `--from` and `--to`, a set moves from one stream of a store to another: its tests are
/// required as the rules of the second stream say, and it is published as `release publish` does
/// it. A command after `--` tries the set before that.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder with the packages of one set
    #[arg(value_name = "DIST", required_unless_present = "from")]
    folder: Option<PathBuf>,
    /// Folder for the promoted packages
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["dry_run", "from"])]
    output: Option<PathBuf>,
    /// The version that ROCm's packages get; frameworks name it as they did the old one [default:
    /// the old one, with `--keep-targets` and between streams]
    #[arg(long, value_name = "VERSION", required_unless_present_any = ["keep_targets", "explain", "from"])]
    version: Option<Version>,
    /// The version of the set [default: that of its ROCm packages]
    #[arg(long, value_name = "VERSION")]
    set_version: Option<Version>,
    /// Keep only these GPU targets; if the default target goes, the first of them replaces it
    #[arg(long, value_name = "TARGETS", value_delimiter = ',')]
    keep_targets: Vec<String>,
    /// Promote only files whose names match one of these patterns
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Leave files behind whose names match one of these patterns
    #[arg(long, value_name = "PATTERN")]
    ignore: Vec<String>,
    /// Take files along unchanged, whatever they are
    #[arg(long, value_name = "PATTERN")]
    copy: Vec<String>,
    /// Also give the members that match the new version
    #[arg(long, value_name = "PATTERN")]
    also_in: Vec<String>,
    /// Accept that the members that match keep the old version
    #[arg(long, value_name = "PATTERN")]
    accept: Vec<String>,
    /// Versions of ROCm's packages that promoted frameworks take: exact, or minor (all of the same
    /// first two numbers, such as 7.12.*), which needs a release
    #[arg(long, value_name = "LOCK", default_value = "exact")]
    rocm_lock: VersionLock,
    /// Folder with packages that the set requires and that were promoted before; may be repeated
    #[arg(long, value_name = "DIR")]
    beside: Vec<PathBuf>,
    /// Replace existing files with the names of results
    #[arg(long)]
    force: bool,
    /// Remove the old files from DIST after all new ones are written
    #[arg(long)]
    remove_old: bool,
    /// Print what would change, text by text, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    last_look: LastLookArguments,
    #[command(flatten)]
    between: between::BetweenArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    arguments: Arguments,
    folder: PathBuf,
    /// Present if a set moves from one stream to another.
    between: Option<Box<between::Settings>>,
    pub output: PathBuf,
    pub mode: Mode,
    pub last_look: LastLook,
    pub scratch: PathBuf,
    write: WriteOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let between = arguments.between.settings(Mode::new(arguments.dry_run))?.map(Box::new);
        let folder = arguments.folder.clone().unwrap_or_default();
        if between.is_none() && !folder.is_dir() {
            let message = format!("`{}` is not a folder", folder.display());
            return Err(Usage::new(message).hint("name the folder that has the packages of one set").into());
        }
        let output = arguments.output.clone().unwrap_or_else(|| folder.clone());
        Ok(Self {
            between,
            mode: Mode::new(arguments.dry_run),
            last_look: arguments.last_look.choice(),
            scratch: environment::scratch_near(None, Some(&output)),
            write: WriteOptions {
                epoch: environment::epoch()?,
                reuse: reuse::own_records(),
                ..WriteOptions::default()
            },
            output,
            folder,
            arguments,
        })
    }
}

impl Settings {
    fn request(&self) -> PromotionRequest<'_> {
        let arguments = &self.arguments;
        PromotionRequest {
            folder: &self.folder,
            files: None,
            old: arguments.set_version.clone(),
            new: arguments.version.clone(),
            keep: &arguments.keep_targets,
            include: &arguments.include,
            ignore: &arguments.ignore,
            copy: &arguments.copy,
            also_in: &arguments.also_in,
            accept: &arguments.accept,
            beside: &arguments.beside,
            is_floating: arguments.rocm_lock == VersionLock::Minor,
            published: &[],
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    plan: &'a PromotionPlan,
    /// The files that were written; null after a dry run.
    promoted: Option<&'a [Promoted]>,
    /// Path of the statement; null after a dry run.
    statement: Option<&'a Path>,
    audit: &'a [Verdict],
}

/// Promotes the set, or prints what would change.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    if let Some(between) = &settings.between {
        return between::command(settings, between, printer);
    }
    let plan = plan_promotion(&settings.request(), &settings.write.reuse, printer.reporter())?;
    if settings.mode == Mode::DryRun {
        if printer.format() == ResultFormat::Json {
            printer.json(&Document { plan: &plan, promoted: None, statement: None, audit: &[] })?;
        } else {
            show(&plan, settings.mode, printer)?;
        }
        return Ok(Exit::Done);
    }
    let old = OldFiles { replace: settings.arguments.force, remove: settings.arguments.remove_old };
    let staged = promote(&plan, &settings.output, old, &settings.write, printer.reporter())?;
    let scratch = environment::scratch_below(&settings.scratch)?;
    let sets = sets(&plan, staged.files(), &settings.arguments.beside);
    let looks: Vec<Look<'_>> =
        sets.into_iter().map(|(what, set)| Look { set, what, scratch: scratch.path() }).collect();
    let wheels: Vec<Vec<PathBuf>> =
        looks.iter().map(|look| look.set.wheels.iter().map(|wheel| wheel.place.clone()).collect()).collect();
    let (promoted, verdicts) = last_look::finish(staged, settings.last_look, &looks, printer)?;
    let statement = settings.output.join(STATEMENT);
    if printer.format() == ResultFormat::Json {
        let audit: Vec<Verdict> = verdicts.into_iter().flatten().collect();
        let (promoted, statement) = (Some(promoted.as_slice()), Some(statement.as_path()));
        printer.json(&Document { plan: &plan, promoted, statement, audit: &audit })?;
        return Ok(Exit::Done);
    }
    show(&plan, settings.mode, printer)?;
    for (verdict, wheels) in verdicts.iter().zip(&wheels) {
        if let Some(verdict) = verdict {
            last_look::show(verdict, wheels, printer);
        }
    }
    let bytes = promoted.iter().map(|file| file.size).sum();
    let files = message::count(promoted.len() as u64, "file", "files");
    printer.note(format!(
        "{files} ({}) in `{}`, {} → {}",
        message::bytes(bytes),
        settings.output.display(),
        plan.from,
        plan.to
    ));
    Ok(Exit::Done)
}

struct PlacedWheel<'s> {
    file: &'s StagedFile,
    /// `None` for all systems.
    windows: Option<bool>,
    /// `cp312-cp312`; `None` for every Python 3.
    python: Option<String>,
}

impl PlacedWheel<'_> {
    fn of(file: &StagedFile) -> Option<PlacedWheel<'_>> {
        let WheelName { platforms, pythons, abis, .. } = file.place.file_name()?.to_str()?.parse().ok()?;
        let has_system = platforms.iter().any(|platform| platform != "any");
        let windows = has_system.then(|| platforms.iter().any(|platform| platform.starts_with("win")));
        let is_for_all = pythons.iter().any(|python| python == "py3");
        let python = (!is_for_all).then(|| format!("{}-{}", pythons.join("."), abis.join(".")));
        Some(PlacedWheel { file, windows, python })
    }
}

/// Wheels that are installed together: those of one system and one Python, with those for all
/// Pythons. Only names and RECORD can have changed.
fn sets(plan: &PromotionPlan, staged: &[StagedFile], beside: &[PathBuf]) -> Vec<(String, WheelSet)> {
    let sources: BTreeMap<&str, &str> =
        plan.files.iter().filter_map(|file| Some((file.new_name.as_deref()?, file.name.as_str()))).collect();
    let placed: Vec<PlacedWheel<'_>> = staged.iter().filter_map(PlacedWheel::of).collect();
    let mut systems: BTreeSet<bool> = placed.iter().filter_map(|wheel| wheel.windows).collect();
    if systems.is_empty() {
        systems.insert(false);
    }
    let mut sets = Vec::new();
    for windows in systems {
        let here = placed.iter().filter(|wheel| wheel.windows.is_none_or(|own| own == windows));
        let mut pythons: BTreeSet<String> = here.clone().filter_map(|wheel| wheel.python.clone()).collect();
        if pythons.is_empty() {
            pythons.insert("py3-none".to_owned());
        }
        for tag in pythons {
            let fitting = here.clone().filter(|wheel| wheel.python.as_ref().is_none_or(|python| *python == tag));
            let wheels: Vec<StagedFile> = fitting.map(|wheel| wheel.file.clone()).collect();
            if wheels.is_empty() {
                continue;
            }
            let before = wheels.iter().filter_map(|file| sources.get(file.place.file_name()?.to_str()?));
            let set = WheelSet {
                before: before.map(|name| plan.folder.join(name)).collect(),
                wheels,
                beside: beside.to_vec(),
                scope: AuditScope::Names,
                ..WheelSet::default()
            };
            let system = if windows { " on Windows" } else { "" };
            sets.push((format!("the set for {tag}{system}"), set));
        }
    }
    sets
}

fn show(plan: &PromotionPlan, mode: Mode, printer: &Printer) -> Result<()> {
    let rows = plan.files.iter().map(|file| {
        let new = match &file.new_name {
            None => "left out",
            Some(new) if *new == file.name && file.texts.is_empty() => "unchanged",
            Some(new) => new,
        };
        vec![file.name.clone(), new.to_owned(), file.texts.len().to_string()]
    });
    printer.table(&COLUMNS, rows)?;
    for file in &plan.files {
        for (old, new) in &file.renamed {
            printer.detail(format!("{}: `{old}` becomes `{new}`", file.name));
        }
        if mode == Mode::DryRun {
            for text in &file.texts {
                printer.line(format!("\n{}: {}", file.name, text.member))?;
                printer.line(message::harmless(text.diff.trim_end()))?;
            }
        }
        file.notes.iter().for_each(|note| printer.note(format!("{}: {note}", file.name)));
    }
    plan.notes.iter().for_each(|note| printer.note(note));
    if mode == Mode::DryRun {
        let files = plan.files.iter().filter(|file| file.new_name.is_some());
        let files = message::count(files.count() as u64, "file", "files");
        printer.note(format!("would promote {files}, {} → {}", plan.from, plan.to));
    }
    Ok(())
}
