//! `rocwheel release mirror`: requirements and indexes in, a folder for sites without network out.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_choose::with_extras;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::{BucketOptions, StorePlace};
use rocwheel_mirror::{
    MirrorPlan, MirrorReport, MirrorRequest, MirrorVerdict, make_mirror, mirror_into, origin_lines, plan_mirror,
    verify_mirror, verify_stored_mirror,
};
use rocwheel_output::Mode;
use rocwheel_pages::BuildOptions;
use rocwheel_progress::Exit;
use rocwheel_store::FolderStore;
use rocwheel_stream::refuse_stream;
use rocwheel_tables::TargetTable;
use rocwheel_tables::target::base_target;
use url::Url;

const SETS: [Column; 3] = [("Python", Left), ("System", Left), ("Packages", Right)];
/// uv's name of the system that wheels of ROCm are for.
const LINUX: &str = "x86_64-manylinux_2_28";
/// uv's name of Windows.
const WINDOWS: &str = "x86_64-pc-windows-msvc";

/// Mirror everything that installing packages takes
///
/// uv resolves the packages for each Python and system, with what other projects they require and
/// what building their source distributions takes. Every file is compared with the hash of its
/// index. The folder gets an index (`simple/`), and a list of all files, with which --verify
/// compares it on arrival. A second run fetches what is new and removes what nothing needs.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Indexes: addresses, or folders made by `rocwheel index build`; a package is taken from the
    /// first one that has it
    #[arg(value_name = "INDEX", required_unless_present = "verify")]
    indexes: Vec<String>,
    /// Folder or bucket of the mirror
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX", required_unless_present = "verify")]
    to: Option<OsString>,
    /// A package as pip takes it: `rocm[libraries,devel]==7.12.0`; may be repeated
    #[arg(long, value_name = "REQUIREMENT", required_unless_present = "verify")]
    package: Vec<String>,
    /// GPU targets and families: adds the extra `device-TARGET` to the packages that have one
    #[arg(long, value_name = "LIST")]
    target: Option<String>,
    /// Versions of Python, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "3.12")]
    python: Vec<String>,
    /// Systems: linux, windows, or a name that uv knows, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "linux")]
    platform: Vec<String>,
    /// Allow pre-releases
    #[arg(long)]
    pre: bool,
    /// Compare this folder or bucket with its list of files
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX", conflicts_with_all = ["indexes", "to", "package", "target", "python", "platform", "pre", "dry_run"])]
    verify: Option<OsString>,
    /// Resolve, and fetch nothing but source distributions into a temporary folder
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    bucket: BucketOptions,
}

#[derive(Debug)]
pub(crate) enum Settings {
    Verify(StorePlace),
    Make { request: MirrorRequest, place: StorePlace, options: Box<BuildOptions>, mode: Mode },
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if let Some(place) = arguments.verify {
            return Ok(Self::Verify(arguments.bucket.place(place)?));
        }
        let uv = environment::program("uv").ok_or_else(|| {
            Usage::new("uv is not there, which chooses the versions")
                .hint("install it, for example by `pip install uv`")
        })?;
        let extras = match &arguments.target {
            Some(list) => TargetTable::embedded().expand(list)?,
            None => Vec::new(),
        };
        let extras: Vec<String> = extras.iter().map(|target| format!("device-{}", base_target(target))).collect();
        let platforms = arguments.platform.into_iter().map(|name| match name.as_str() {
            "linux" => LINUX.to_owned(),
            "windows" => WINDOWS.to_owned(),
            _ => name,
        });
        // The proxy is one for HTTPS.
        let is_plain = arguments.indexes.iter().any(|index| index.starts_with("http://"));
        let scheme = if is_plain { "http" } else { "https" };
        let request = MirrorRequest {
            uv,
            indexes: arguments.indexes.into_iter().map(index_address).collect::<Result<_>>()?,
            requirements: arguments.package.iter().map(|text| with_extras(text, &extras)).collect(),
            pythons: arguments.python,
            platforms: platforms.collect(),
            pre_releases: arguments.pre,
            http: Arc::new(environment::http(scheme)?),
        };
        let options = BuildOptions { now: environment::present()?, write: true, ..BuildOptions::default() };
        // clap asks for it unless there is `--verify`.
        let place = arguments.bucket.place(arguments.to.unwrap_or_default())?;
        Ok(Self::Make { request, place, options: Box::new(options), mode: Mode::new(arguments.dry_run) })
    }
}

/// The address of an index; a folder becomes a `file:` address.
fn index_address(text: String) -> Result<String> {
    if text.contains("://") {
        return Ok(text);
    }
    let url = rocwheel_system::canonicalize(&text).ok().and_then(|mut folder| {
        // A flat layout has a page for `--find-links` beside the files.
        if folder.join("simple/index.html").is_file() {
            folder.push("simple");
        }
        Url::from_directory_path(&folder).ok()
    });
    let missing = Usage::new(format!("there is no index `{text}`")).hint("give an address or a folder with pages");
    Ok(url.ok_or(missing)?.to_string())
}

/// Makes a mirror, or compares one with its list.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    match settings {
        Settings::Verify(place) => {
            let verdict = match place {
                StorePlace::Folder(folder) => verify_mirror(folder, printer.reporter())?,
                StorePlace::Bucket(_) => verify_stored_mirror(&*place.open(printer)?, printer.reporter())?,
            };
            show_verdict(&verdict, printer)?;
            Ok(if verdict.is_good() { Exit::Done } else { Exit::Failed })
        }
        Settings::Make { request, mode: Mode::DryRun, .. } => {
            let scratch = environment::scratch_below(&environment::scratch())?;
            let plan = plan_mirror(request, scratch.path(), printer.reporter())?;
            scratch.close()?;
            show_plan(&plan, printer)?;
            Ok(Exit::Done)
        }
        Settings::Make { request, place: StorePlace::Folder(folder), options, mode: Mode::Execute } => {
            if folder.is_dir() {
                refuse_stream(&FolderStore::open(folder)?)?;
            }
            let plan = plan_mirror(request, folder, printer.reporter())?;
            let report = make_mirror(&plan, folder, options, &request.http, printer.reporter())?;
            show(&plan, &report, Some(folder), printer)?;
            Ok(Exit::Done)
        }
        Settings::Make { request, place, options, mode: Mode::Execute } => {
            let store = place.open(printer)?;
            refuse_stream(&*store)?;
            let scratch = environment::scratch_below(&environment::scratch())?;
            let plan = plan_mirror(request, scratch.path(), printer.reporter())?;
            let places = (&*store, scratch.path());
            let report = mirror_into(&plan, places, options, &request.http, printer.reporter())?;
            show(&plan, &report, None, printer)?;
            Ok(Exit::Done)
        }
    }
}

fn show_plan(plan: &MirrorPlan, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(plan);
    }
    let rows =
        plan.sets.iter().map(|set| vec![set.python.clone(), set.platform.clone(), set.packages.len().to_string()]);
    printer.table(&SETS, rows)?;
    for (name, file) in &plan.files {
        printer.detail(format!("{name} {}", file.sha256.as_deref().unwrap_or("without SHA-256")));
    }
    printer.note(message::count(plan.files.len() as u64, "file", "files"));
    Ok(())
}

fn show(plan: &MirrorPlan, report: &MirrorReport, folder: Option<&Path>, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({ "sets": plan.sets, "report": report }));
    }
    show_plan(plan, printer)?;
    printer.note(format!(
        "{} fetched, {} kept, {} removed, {}",
        report.fetched.len(),
        report.kept,
        report.removed.len(),
        message::bytes(report.bytes)
    ));
    for line in origin_lines(&report.origins) {
        printer.note(line);
    }
    let Some(folder) = folder else { return Ok(()) };
    let index = rocwheel_system::canonicalize(folder.join(&report.index))?;
    if let Ok(address) = Url::from_directory_path(&index) {
        printer.note(format!("install from it: pip install --index-url {address} NAME"));
    }
    Ok(())
}

fn show_verdict(verdict: &MirrorVerdict, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(verdict);
    }
    for (files, what) in
        [(&verdict.missing, "is missing"), (&verdict.changed, "has other bytes"), (&verdict.unlisted, "is not listed")]
    {
        for file in files {
            printer.warn(format!("`{file}` {what}"));
        }
    }
    let word = if verdict.is_good() { "the mirror is as it was made" } else { "the mirror is not as it was made" };
    printer.line(format!("{word}: {}", message::count(verdict.good as u64, "file is good", "files are good")))
}
