//! `rocwheel index build`: the pages of a package index over a folder or bucket of wheels.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use jiff::Timestamp;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::{BucketOptions, StorePlace};
use rocwheel_content::archive_path::join;
use rocwheel_mirror::{FileOrigins, origin_lines};
use rocwheel_pages::{
    AggregateOptions, BuildOptions, Built, ChooserOptions, GpuChoice, IndexView, Layout, StatusTable, build,
};
use rocwheel_progress::{Context as _, Exit, few_in_backticks};
use rocwheel_store::PageChange;
use rocwheel_stream::refuse_stream;
use rocwheel_tables::{DevicePackages, TargetTable};
use serde::Serialize;
use url::Url;

use super::aggregate::{self, AggregateArguments};
use super::from_github::{GithubOptions, GithubSource};
use super::from_index::{IndexOptions, IndexSource, OpenedIndex};

const COLUMNS: [Column; 3] = [("Index", Left), ("Projects", Right), ("Files", Right)];

/// Make a package index of a folder or bucket of wheels
///
/// Writes pages for pip, uv and browsers beside the wheels, in HTML and JSON, with hashes, sizes,
/// upload times, Requires-Python and METADATA of each file. A second run reads only new files and
/// writes only pages that changed. Links are relative, so the folder can be moved, copied and
/// served by any web server. The table `index-status.toml` in the folder withdraws files and gives
/// projects a status. In a bucket (`s3://BUCKET/PREFIX`) no wheel is downloaded whose SHA-256 is
/// stored with it; credentials are those of the environment (AWS_ACCESS_KEY_ID and so on).
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder with wheels and source distributions, or s3://BUCKET/PREFIX
    #[arg(value_name = "DIR|STORE")]
    store: OsString,
    /// Where files and pages are [default: as the files are]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<LayoutArgument>,
    /// List only files whose names match one of these patterns, such as `*.whl`
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    filter: Vec<String>,
    /// Write the pages of this project only, in a structured index; files of others are not looked
    /// at
    #[arg(long, value_name = "NAME", conflicts_with_all = ["layout", "filter"])]
    project: Option<String>,
    /// Upload time of new files, such as `2026-11-20T01:02:03Z` [default: SOURCE_DATE_EPOCH, else
    /// the present]
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// Table of withdrawn files and of projects that are not active [default: index-status.toml in
    /// the folder]
    #[arg(long, value_name = "FILE")]
    status: Option<PathBuf>,
    /// Public address of the folder; pages need it to link attestations (`WHEEL.provenance`, PEP
    /// 740)
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// Also make smaller indexes over the same files, for each Python or GPU target; may be
    /// repeated
    #[arg(long, value_name = "KIND")]
    view: Vec<ViewArgument>,
    /// Also write JSON pages as `v1_json/PROJECT/index.html`, for storage that serves each file
    /// with a type of its own
    #[arg(long)]
    json_root: bool,
    /// Do not write `chooser.html`, on which people choose a GPU and a package and copy the lines
    /// that install it; remove the one of an earlier run
    #[arg(long)]
    no_chooser: bool,
    /// Replace pages that another program wrote
    #[arg(long)]
    replace_pages: bool,
    /// Print what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    github: GithubOptions,
    #[command(flatten)]
    index: IndexOptions,
    #[command(flatten)]
    aggregate: AggregateArguments,
    #[command(flatten)]
    bucket: BucketOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayoutArgument {
    /// All files in one folder, with pages below `simple/` and a page for `--find-links`
    Flat,
    /// A folder for each project with its files and its page, as TheRock's manage_structured.py
    /// makes it
    Structured,
    /// A folder for each GPU family, each a flat index of its files and of those above
    Families,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ViewArgument {
    /// `by_python/cp312/` and so on: what has tags for that CPython
    Python,
    /// `by_target/gfx942/` and so on: everything but packages for other GPU targets
    Target,
}

#[derive(Debug)]
pub struct Settings {
    place: StorePlace,
    /// The releases that have the files, if the place is for the pages only.
    github: Option<GithubSource>,
    /// The index that lists the files, if the place is for the pages only.
    index: Option<IndexSource>,
    /// One index over several, in place of an index over files.
    aggregate: Option<AggregateOptions>,
    options: BuildOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let status = match &arguments.status {
            None => None,
            Some(path) => Some((path.clone(), StatusTable::parse(&fs_err::read_to_string(path)?, path)?)),
        };
        let options = BuildOptions {
            layout: arguments.layout.map(|layout| match layout {
                LayoutArgument::Flat => Layout::Flat,
                LayoutArgument::Structured => Layout::Structured,
                LayoutArgument::Families => Layout::Families,
            }),
            filters: arguments.filter,
            project: arguments.project.map(|name| rocwheel_wheel::canonical_name(&name)),
            now: arguments.now.map_or_else(environment::present, Ok)?,
            status,
            address: arguments.url.map(public_address).transpose()?,
            uploaded: BTreeMap::new(),
            views: views(&arguments.view),
            json_root: arguments.json_root,
            chooser: (!arguments.no_chooser).then(chooser),
            replace_pages: arguments.replace_pages,
            write: !arguments.dry_run,
        };
        let place = arguments.bucket.place(arguments.store)?;
        let aggregate = arguments.aggregate.options(&options);
        let (github, index) = (arguments.github.source(&place)?, arguments.index.source(&place)?);
        Ok(Self { place, github, index, aggregate, options })
    }
}

/// Families in the order in which people look for their GPU: cards, processors, and then what is in
/// datacentres.
const OFFERED_FIRST: [&str; 2] = ["dgpu-all", "igpu-all"];

/// The GPUs of the tables by the names of their products, the newest of each kind first.
pub(crate) fn chooser() -> ChooserOptions {
    let packages = DevicePackages::embedded();
    let table = TargetTable::embedded();
    let mut targets: Vec<_> = table.targets().iter().rev().collect();
    targets.sort_by_key(|target| {
        let kind = OFFERED_FIRST.iter().position(|kind| target.families.iter().any(|family| family == kind));
        kind.unwrap_or(OFFERED_FIRST.len())
    });
    let gpus = targets.into_iter().map(|target| {
        let mut served_by = packages.chain(&packages.key(&target.name));
        served_by.extend(target.families.iter().cloned());
        let (target, product, cards) = (target.name.clone(), target.product.clone(), target.cards.clone());
        GpuChoice { target, product, cards, served_by }
    });
    ChooserOptions { gpus: gpus.collect(), changes: None }
}

/// Checks the address of `--url`. PEP 740 requires https, so that the address is protected in
/// transit.
fn public_address(url: Url) -> Result<String, Usage> {
    if url.scheme() != "https" || url.query().is_some() || url.fragment().is_some() {
        return Err(Usage::new(format!("`--url {url}` is not the https address of a folder")));
    }
    let text = String::from(url);
    Ok(if text.ends_with('/') { text } else { format!("{text}/") })
}

fn views(arguments: &[ViewArgument]) -> Vec<IndexView> {
    let all = [(ViewArgument::Python, IndexView::Python), (ViewArgument::Target, IndexView::Target)];
    all.into_iter().filter(|(argument, _)| arguments.contains(argument)).map(|(_, view)| view).collect()
}

#[derive(Serialize)]
struct BuildReport<'a> {
    #[serde(flatten)]
    built: &'a Built,
    /// With a foreign index: the source of each fact on the pages, by file name.
    #[serde(skip_serializing_if = "Option::is_none")]
    origins: Option<&'a BTreeMap<String, FileOrigins>>,
}

fn open(settings: &Settings, printer: &Printer) -> Result<OpenedIndex> {
    let options = settings.options.clone();
    if let Some(source) = &settings.index {
        return source.open(options, printer);
    }
    let store = match &settings.github {
        Some(source) => source.open(options.write, printer)?,
        None => settings.place.open(printer)?,
    };
    Ok(OpenedIndex { store, options, origins: BTreeMap::new() })
}

/// Builds the index, or prints what would change.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let OpenedIndex { store, options, origins } = open(settings, printer)?;
    if let Some(options) = &settings.aggregate {
        return aggregate::command(&*store, options, printer);
    }
    refuse_stream(&*store)?;
    let built = build(&*store, &options, printer.reporter())?;
    if printer.format() == ResultFormat::Json {
        printer.json(&BuildReport { built: &built, origins: settings.index.as_ref().map(|_| &origins) })?;
        return Ok(Exit::Done);
    }
    for page in &built.pages {
        let word = match page.change {
            PageChange::New => "new",
            PageChange::Changed => "changed",
            PageChange::Removed => "removed",
        };
        printer.detail(format!("{word}: {}", page.page));
    }
    let rows = built
        .indexes
        .iter()
        .map(|index| vec![join(&store.name(), &index.folder), index.projects.to_string(), index.files.to_string()]);
    printer.table(&COLUMNS, rows)?;
    if !built.ignored.is_empty() {
        let archives = message::count(built.ignored.len() as u64, "archive is", "archives are");
        let names = few_in_backticks(&built.ignored, 8);
        printer.note(format!("{archives} not listed, because pip does not install such files: {names}"));
    }
    printer.note(summary(&built, settings.options.write));
    for line in origin_lines(&origins) {
        printer.note(line);
    }
    if settings.options.write
        && let Some(first) = built.indexes.first()
        && let Some(address) = public_page(settings, &first.folder)?
    {
        printer.note(format!("install from it: pip install --index-url {address} NAME"));
    }
    Ok(Exit::Done)
}

fn summary(built: &Built, write: bool) -> String {
    let files = message::count(built.files_read as u64, "file", "files");
    let read = format!("{files} read ({})", message::bytes(built.bytes_read));
    let removed = built.pages.iter().filter(|page| page.change == PageChange::Removed).count() as u64;
    let written = message::count(built.pages.len() as u64 - removed, "page", "pages");
    let removed = if removed == 0 { String::new() } else { format!(", {removed} removed") };
    let verb = if write { "written" } else { "would be written" };
    format!("{read}, {written} {verb}{removed}")
}

/// The address of an index for installers. A bucket has none but that of the server before it.
fn public_page(settings: &Settings, folder: &str) -> Result<Option<String>> {
    match &settings.place {
        StorePlace::Folder(path) => local_address(&rocwheel_system::canonicalize(path.join(folder))?).map(Some),
        StorePlace::Bucket(_) => {
            let slash = if folder.is_empty() { "" } else { "/" };
            Ok(settings.options.address.as_ref().map(|address| format!("{address}{folder}{slash}")))
        }
    }
}

/// The address of a folder of this machine.
fn local_address(folder: &Path) -> Result<String> {
    let address = Url::from_directory_path(folder)
        .map_err(|()| Failure::message("the folder has no address"))
        .context("cannot print a command")?;
    Ok(address.to_string())
}
