//! `rocwheel split WHEEL…`: finished wheels in, host wheels and device wheels out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_audit::written::{Programs, Verdict, WheelSet};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_output::Mode;
use rocwheel_output::{Staged, StagedFile};
use rocwheel_progress::Exit;
use rocwheel_split::tree::OldRuntime;
use rocwheel_split::verify::Verification;
use rocwheel_split::wheels::{self, Plan, Request, SizeGrowth, SplitWheel, SplitWheelKind, SplitWheelsReport};
use rocwheel_split::{ArchiveForecast, TargetNames};
use rocwheel_tables::RocmTables;
use rocwheel_wheel::WheelName;
use serde::Serialize;

use crate::last_look::{self, LastLook, LastLookArguments, Look};
use crate::reuse::{self, ReuseArguments};
use crate::split;

const PLANNED: [Column; 4] = [("Wheel", Left), ("Code objects", Right), ("Files", Right), ("Raw", Right)];
const WRITTEN: [Column; 4] = [("Wheel", Left), ("Files", Right), ("Raw", Right), ("Compressed", Right)];

/// Options that only wheels have.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for wheels")]
pub(crate) struct WheelArguments {
    /// Beginning of the names of device wheels, for example amd-torch-device [default: the wheel's
    /// name and -device]
    #[arg(long, value_name = "NAME")]
    pub(crate) device_prefix: Option<String>,
    /// A requirement of every device wheel; @GFXARCH@ stands for its target
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) requires: Vec<String>,
    /// A requirement that the host wheel gets
    #[arg(long, value_name = "REQUIREMENT")]
    pub(crate) host_requires: Vec<String>,
    /// Folder in site-packages that gets the archives [default: the package with most of the GPU
    /// code]
    #[arg(long, value_name = "DIR")]
    pub(crate) overlay_root: Option<String>,
    /// Divide only the kernel databases of this kind of wheel
    #[arg(long, value_name = "TYPE", conflicts_with = "split_databases")]
    pub(crate) wheel_type: Option<WheelType>,
    /// Also write the host wheel as a wheel variant with this label; experimental: PEP 825 and 850
    /// are drafts
    #[arg(long, value_name = "LABEL")]
    pub(crate) variant: Option<String>,
    #[command(flatten)]
    pub(crate) last_look: LastLookArguments,
    #[command(flatten)]
    pub(crate) reuse: ReuseArguments,
}

impl WheelArguments {
    /// Refuses options that would have no effect, rather than ignoring them.
    pub(super) fn refuse(&self) -> Result<(), Usage> {
        let given = [
            ("--device-prefix", self.device_prefix.is_some()),
            ("--requires", !self.requires.is_empty()),
            ("--host-requires", !self.host_requires.is_empty()),
            ("--overlay-root", self.overlay_root.is_some()),
            ("--wheel-type", self.wheel_type.is_some()),
            ("--variant", self.variant.is_some()),
            ("--no-audit", self.last_look.choice() == LastLook::Skip),
            ("--reuse", self.reuse.is_given()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(Usage::new(format!("`{flag}` is for wheels")).hint("remove it for artifacts")),
            None => Ok(()),
        }
    }
}

/// Kinds of wheels whose kernel databases are known.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum WheelType {
    /// PyTorch with ROCm's libraries inside
    TorchFat,
}

impl WheelType {
    pub fn databases(self) -> Vec<String> {
        match self {
            Self::TorchFat => RocmTables::in_use().databases_in_torch(),
        }
    }
}

#[derive(Debug)]
pub struct Settings {
    pub wheels: Vec<PathBuf>,
    pub output: PathBuf,
    pub request: Request,
    pub mode: Mode,
    pub last_look: LastLook,
    pub reuse: ReuseArguments,
}

impl TryFrom<split::Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: split::Arguments) -> Result<Self> {
        if let Some(other) = arguments.inputs.iter().find(|path| !WheelName::is_wheel(path)) {
            let message =
                format!("`{}` is not a wheel, and wheels and artifacts cannot be split together", other.display());
            return Err(Usage::new(message).hint("run the command twice").into());
        }
        let packing = arguments.packing();
        let mode = Mode::new(arguments.dry_run);
        let output = arguments.output.unwrap_or_else(|| PathBuf::from("."));
        let scratch =
            environment::scratch_near(arguments.scratch.as_deref(), (mode == Mode::Execute).then_some(&*output));
        let named = arguments.split_databases.map(|names| names.into_iter().filter(|name| name != "none").collect());
        let wheel = arguments.wheel;
        let (last_look, reuse) = (wheel.last_look.choice(), wheel.reuse);
        let request = Request {
            scratch,
            prefix: wheel.device_prefix,
            requires: wheel.requires,
            host_requires: wheel.host_requires,
            old_runtime: if arguments.force { OldRuntime::Allow } else { OldRuntime::Refuse },
            targets: arguments.targets,
            overlay_root: wheel.overlay_root,
            databases: named.or_else(|| wheel.wheel_type.map(WheelType::databases)),
            variant: wheel.variant,
            names: if arguments.verbatim_names { TargetNames::Verbatim } else { TargetNames::Base },
            packing,
            level: rocwheel_archive::Level::Default,
            epoch: environment::epoch()?,
            reuse: rocwheel_archive::PackedSource::default(),
            verification: if arguments.no_verify { Verification::Skip } else { Verification::Full },
        };
        Ok(Self { wheels: arguments.inputs, output, request, mode, last_look, reuse })
    }
}

#[derive(Serialize)]
struct Document<'a> {
    wheels: &'a [Split],
    seconds: f64,
}

/// A wheel that was split.
#[derive(Serialize)]
struct Split {
    plan: Plan,
    forecast: ArchiveForecast,
    outcome: Option<SplitWheelsReport>,
    audit: Option<Verdict>,
    seconds: f64,
}

/// Plans all wheels before it writes the first, so that an error in the last is found in time.
/// Moves no result to its place before all are written.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let begin = Instant::now();
    let mut splits = Vec::with_capacity(settings.wheels.len());
    for path in &settings.wheels {
        let begin = Instant::now();
        let plan = wheels::plan(path, &settings.request, printer.reporter())?;
        let forecast = plan.forecast(settings.request.packing, printer.reporter())?;
        split::warn_of_growth(&plan.host, &forecast, printer);
        let seconds = begin.elapsed().as_secs_f64();
        splits.push(Split { plan, forecast, outcome: None, audit: None, seconds });
    }
    check_names(&splits)?;
    if settings.mode == Mode::DryRun {
        return show_plans(&splits, begin.elapsed().as_secs_f64(), printer);
    }
    let reuse = settings.reuse.source(Some(&settings.output), printer)?;
    let request = Request { reuse, ..settings.request.clone() };
    let mut staged = Vec::with_capacity(splits.len());
    let mut looks = Vec::with_capacity(splits.len());
    for split in &mut splits {
        let begin = Instant::now();
        let one = wheels::prepare(&split.plan, &request, &settings.output, printer.reporter())?;
        looks.push(look(settings, &split.plan, one.files()));
        staged.push(one);
        split.seconds += begin.elapsed().as_secs_f64();
    }
    let (outcomes, verdicts) = last_look::finish(Staged::together(staged), settings.last_look, &looks, printer)?;
    for ((split, outcome), verdict) in splits.iter_mut().zip(outcomes).zip(verdicts) {
        (split.outcome, split.audit) = (Some(outcome), verdict);
    }
    let seconds = begin.elapsed().as_secs_f64();
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { wheels: &splits, seconds })?;
        return Ok(Exit::Done);
    }
    show_outcomes(&splits, printer)?;
    reuse::tell_reuse(&request.reuse, printer);
    for split in &splits {
        remarks(&split.plan, printer);
        if let Some(outcome) = &split.outcome {
            result(split, outcome, printer);
        }
        if let Some(verdict) = &split.audit {
            let parts = split.outcome.iter().flat_map(|outcome| &outcome.wheels);
            let parts: Vec<&Path> = parts.map(|wheel| wheel.path.as_path()).collect();
            last_look::show(verdict, &parts, printer);
        }
    }
    Ok(Exit::Done)
}

/// Audits the host wheel together with all device wheels.
fn look<'a>(settings: &'a Settings, plan: &Plan, wheels: &[StagedFile]) -> Look<'a> {
    let programs = match settings.request.verification {
        Verification::Full => Programs::Same,
        Verification::Skip => Programs::Unknown,
    };
    let set = WheelSet { wheels: wheels.to_vec(), before: vec![plan.input.clone()], programs, ..WheelSet::default() };
    Look { set, what: format!("the parts of `{}`", plan.host), scratch: &settings.request.scratch }
}

/// Refuses inputs with the same output name: the same wheel twice, or one distribution under two
/// names.
fn check_names(splits: &[Split]) -> Result<(), Usage> {
    let mut owners: BTreeMap<&str, &Path> = BTreeMap::new();
    for split in splits {
        for name in split.plan.file_names() {
            if let Some(first) = owners.insert(name, &split.plan.input) {
                let (first, second) = (first.display(), split.plan.input.display());
                let message = format!("`{first}` and `{second}` would both write `{name}`");
                return Err(Usage::new(message).hint("split them one by one into different folders"));
            }
        }
    }
    Ok(())
}

fn show_plans(splits: &[Split], seconds: f64, printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        printer.json(&Document { wheels: splits, seconds })?;
        return Ok(Exit::Done);
    }
    for split in splits {
        let plan = &split.plan;
        printer.line(format!("{} {}, archives in {}/.kpack\n", plan.distribution, plan.version, plan.root))?;
        let hosts = [Some(&plan.host), plan.variant.as_ref()].into_iter().flatten();
        let hosts = hosts.map(|name| vec![name.clone(), String::new(), String::new(), String::new()]);
        let devices = plan.devices.iter().map(|device| {
            let objects: u64 = device.files.iter().map(|file| file.code_objects).sum();
            let bytes = device.files.iter().map(|file| file.bytes).sum();
            vec![device.file_name.clone(), objects.to_string(), device.files.len().to_string(), message::bytes(bytes)]
        });
        printer.table(&PLANNED, hosts.chain(devices))?;
        printer.line("")?;
        for extra in &plan.extras {
            printer.line(format!(
                "  {}[{}] requires {}",
                plan.distribution,
                extra.name,
                extra.distributions.join(", ")
            ))?;
        }
        for device in &plan.devices {
            printer.line(format!("  {} requires {}", device.distribution, device.requires.join(", ")))?;
        }
        remarks(plan, printer);
    }
    let count = splits.iter().map(|split| split.plan.file_names().count() as u64).sum();
    let bytes = splits.iter().flat_map(|split| &split.plan.devices).flat_map(|device| &device.files);
    let bytes = bytes.map(|file| file.bytes).sum();
    let wheels = message::count(count, "wheel", "wheels");
    printer.note(format!("would write {wheels} with {} of GPU code and kernel databases", message::bytes(bytes)));
    Ok(Exit::Done)
}

fn show_outcomes(splits: &[Split], printer: &Printer) -> Result<()> {
    let outputs: Vec<&SplitWheel> =
        splits.iter().filter_map(|split| split.outcome.as_ref()).flat_map(|outcome| &outcome.wheels).collect();
    let rows = outputs.iter().map(|output| {
        let name = output.path.file_name().unwrap_or_default().to_string_lossy();
        row(&name, [output.files, output.raw, output.compressed])
    });
    let sums = outputs.iter().fold([0; 3], |[files, raw, compressed], output| {
        [files + output.files, raw + output.raw, compressed + output.compressed]
    });
    let wheels = message::count(outputs.len() as u64, "wheel", "wheels");
    printer.table(&WRITTEN, rows.chain([row(&wheels, sums)]))
}

fn row(name: &str, [files, raw, compressed]: [u64; 3]) -> Vec<String> {
    vec![name.to_owned(), files.to_string(), message::bytes(raw), message::bytes(compressed)]
}

/// Warns of GPU code that stays, and notes code that is dropped.
fn remarks(plan: &Plan, printer: &Printer) {
    for kept in &plan.kept {
        printer.warn(format!("`{}` keeps its GPU code: {}", kept.member, kept.reason));
    }
    if !plan.dropped.is_empty() {
        let names: Vec<&str> = plan.dropped.iter().map(|dropped| dropped.target.as_str()).collect();
        let files = plan.dropped.iter().map(|dropped| dropped.database_files).sum();
        let files = match files {
            0 => String::new(),
            files => format!(" and {} of kernel databases", message::count(files, "file", "files")),
        };
        printer.note(format!("removed from `{}`: code for {}{files}", plan.host, names.join(", ")));
    }
}

/// Prints the result for one wheel.
fn result(split: &Split, outcome: &SplitWheelsReport, printer: &Printer) {
    let plan = &split.plan;
    let hosts = outcome.wheels.iter().filter(|wheel| wheel.kind == SplitWheelKind::Host);
    let host: u64 = hosts.map(|wheel| wheel.compressed).sum();
    let devices = outcome.wheels.iter().filter(|wheel| wheel.kind == SplitWheelKind::Device);
    let largest = devices.map(|wheel| wheel.compressed).max().unwrap_or_default();
    printer.note(format!(
        "{}: {} became {} and at most {} for one package, in {:.1} s",
        plan.host,
        message::bytes(plan.size),
        message::bytes(host),
        message::bytes(largest),
        split.seconds
    ));
    if let Some(SizeGrowth { before, after, largest }) = outcome.growth {
        let tenths = (after.saturating_mul(10) + before / 2) / before.max(1);
        printer.warn(format!(
            "the GPU code of `{}` was compressed for all targets together: its {} became {}, {}.{} times as much, \
             of which one target needs at most {}",
            plan.host,
            message::bytes(before),
            message::bytes(after),
            tenths / 10,
            tenths % 10,
            message::bytes(largest)
        ));
    }
    if let Some(report) = &outcome.verification {
        let (objects, bytes) = report.code();
        printer.note(format!(
            "verified: {} ({}) found as before by {}, {} unchanged",
            message::count(objects, "code object", "code objects"),
            message::bytes(bytes),
            message::count(report.binaries.len() as u64, "library", "libraries"),
            message::count(report.others, "other file", "other files"),
        ));
    }
}
