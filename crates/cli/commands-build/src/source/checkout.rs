//! `rocwheel source checkout`: sources of frameworks, at commits that fit together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_hipify::{Defects, Launches};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_source::manifest::SourceManifest;
use rocwheel_source::{
    Checkout, CheckoutReport, CheckoutStatus, Hipify, Movement, PerProject, Plan, Project, Related, Request,
    SourceArchive, Submodules, Table, TreeConversion, TritonPin, WantedCheckout, local_origin,
};
use serde::Serialize;

use super::download;
use super::projects;

const COLUMNS: [Column; 7] = [
    ("Project", Left),
    ("Commit", Left),
    ("Submodules", Right),
    ("Converted", Right),
    ("Patches", Right),
    ("Status", Left),
    ("Directory", Left),
];

/// Check out the sources of frameworks at the commits that belong together
///
/// Each tree gets the tag THEROCK_UPSTREAM_DIFFBASE; converted sources are committed under
/// THEROCK_HIPIFY_DIFFBASE. If torch's tree pins another project, that commit is used. Your changes
/// in a tree are never overwritten, and an interrupted run is completed by the next one. git sees
/// only those settings of the machine that say how to reach repositories, and never asks anything.
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Debug, Args)]
pub struct Arguments {
    /// Projects of the table of sources, such as torch (`rocwheel matrix --print-table sources`)
    /// [default with --manifest: all that it has]
    #[arg(value_name = "PROJECT", required_unless_present = "manifest")]
    projects: Vec<String>,
    /// Version line: nightly or 2.7 to 2.15; decides torch's origin and branch, and what belongs to
    /// it
    #[arg(long, value_name = "LINE")]
    line: Option<String>,
    /// Folder of the trees
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Another folder for a project
    #[arg(long, value_name = "[PROJECT=]DIR")]
    directory: Vec<String>,
    /// Another branch, tag or commit (all 40 digits)
    #[arg(long = "ref", value_name = "[PROJECT=]REF", conflicts_with = "manifest")]
    reference: Vec<String>,
    /// Another repository: upstream, rocm, an address or a path
    #[arg(long, value_name = "[PROJECT=]ORIGIN", conflicts_with = "manifest")]
    origin: Vec<String>,
    /// Sources from an sdist or tarball: a file, an address (with --sha256), or the version of a
    /// release that is known
    #[arg(long, value_name = "[PROJECT=]ARCHIVE", conflicts_with = "manifest")]
    archive: Vec<String>,
    /// SHA-256 that the archive has to have
    #[arg(long, value_name = "[PROJECT=]HEX", requires = "archive")]
    sha256: Vec<String>,
    /// Take origins and commits from a manifest (schema 1)
    #[arg(long, value_name = "FILE", conflicts_with = "line")]
    manifest: Option<PathBuf>,
    /// The branch that the manifest has to name for torch
    #[arg(long, value_name = "REF", requires = "manifest")]
    expected_ref: Option<String>,
    /// Move nothing: accept only commits, and existing trees only at their commit
    #[arg(long)]
    locked: bool,
    /// Fetch only this many commits of history
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Skip submodules
    #[arg(long)]
    no_submodules: bool,
    /// Convert no CUDA sources, and write no build_env.json
    #[arg(long)]
    no_hipify: bool,
    /// Do not commit converted sources, so that versions name the upstream commit
    #[arg(long, conflicts_with = "no_hipify")]
    no_commit_hipify: bool,
    /// Convert correctly where the original hangs, crashes or loses launches
    #[arg(long, conflicts_with = "no_hipify")]
    fix_defects: bool,
    /// torch's tree, for pins [default: its folder below the root]
    #[arg(long, value_name = "DIR")]
    torch_directory: Option<PathBuf>,
    /// Refuse projects that torch's related_commits does not name
    #[arg(long)]
    require_related_commit: bool,
    /// triton: the release branch of the version that torch's tree names, not the commit
    #[arg(long)]
    triton_release: bool,
    /// triton: what build_env.json says [default: that of the line, else new]
    #[arg(long, value_name = "RULES")]
    triton_rules: Option<TritonRules>,
    /// Apply patches of this folder (PROJECT/SET/…)
    #[arg(long, value_name = "DIR")]
    patches: Option<PathBuf>,
    /// Name of the patch set [default: the branch or tag, and rocm-custom for commits]
    #[arg(long, value_name = "SET", requires = "patches")]
    patchset: Option<String>,
    /// Another table of projects, origins and lines, in the form that
    /// `rocwheel matrix --print-table sources` prints
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Print the steps in order and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Connections at a time, from the global option.
    #[arg(skip)]
    pub connections: Option<u16>,
}

/// The name of the wheel. It was renamed at the end of 2025, for all lines.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TritonRules {
    /// triton
    New,
    /// pytorch-triton-rocm, as with ROCm 7.0 and older
    Old,
}

#[derive(Debug)]
pub struct Settings {
    pub request: Request,
    table: Table,
    /// Archives to download: index in the request, and address.
    downloads: Vec<(usize, String)>,
    conversion: Hipify,
    /// Keys of the manifest that the table does not have.
    unknown: Vec<String>,
    pub mode: Mode,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let table = projects::table(arguments.table.as_deref())?;
        let manifest = arguments.manifest.as_deref().map(SourceManifest::read).transpose()?;
        let (chosen, unknown) = chosen(&arguments, manifest.as_ref(), &table)?;
        let mut downloads = Vec::new();
        let wanted = wanted(&arguments, manifest.as_ref(), &table, &chosen, &mut downloads)?;
        let conversion = match (arguments.no_hipify, arguments.no_commit_hipify) {
            (true, _) => TreeConversion::Skip,
            (false, true) => TreeConversion::Keep,
            (false, false) => TreeConversion::Commit,
        };
        let rules = arguments.triton_rules.map(|rules| match rules {
            TritonRules::New => "new".to_owned(),
            TritonRules::Old => "old".to_owned(),
        });
        if let Some(folder) = arguments.patches.as_deref().filter(|folder| !folder.is_dir()) {
            return Err(Usage::new(format!("there is no folder `{}` with patches", folder.display())).into());
        }
        let request = Request {
            root: projects::absolute(&arguments.root)?,
            projects: wanted,
            torch: arguments.torch_directory.as_deref().map(projects::absolute).transpose()?,
            depth: arguments.depth,
            jobs: arguments.connections,
            submodules: if arguments.no_submodules { Submodules::Leave } else { Submodules::Take },
            conversion,
            related: if arguments.require_related_commit { Related::Required } else { Related::WhereNamed },
            triton: if arguments.triton_release { TritonPin::Release } else { TritonPin::Commit },
            triton_rules: rules,
            patches: arguments.patches.as_deref().map(projects::absolute).transpose()?,
            patchset: arguments.patchset,
            movement: if arguments.locked { Movement::Locked } else { Movement::Allowed },
            line: arguments.line,
        };
        let conversion = Hipify {
            compiler: if environment::hip_compiler_is_clang() { Launches::Keep } else { Launches::Convert },
            defects: if arguments.fix_defects { Defects::Fix } else { Defects::Refuse },
        };
        Ok(Self { request, table, downloads, conversion, unknown, mode: Mode::new(arguments.dry_run) })
    }
}

/// The selected projects, and the keys of the manifest that the table does not have.
fn chosen<'a>(
    arguments: &Arguments,
    manifest: Option<&SourceManifest>,
    table: &'a Table,
) -> Result<(Vec<&'a Project>, Vec<String>)> {
    let mut chosen = Vec::new();
    for name in &arguments.projects {
        chosen.push(table.project(name)?);
    }
    let Some(manifest) = manifest else { return Ok((chosen, Vec::new())) };
    let path = arguments.manifest.as_deref().unwrap_or(Path::new("")).display();
    let projects = table.projects.iter().rev().filter_map(|project| Some((project.manifest.as_deref()?, project)));
    let by_key: BTreeMap<&str, &Project> = projects.collect();
    if chosen.is_empty() {
        chosen = manifest.entries.iter().filter_map(|entry| by_key.get(entry.key.as_str()).copied()).collect();
    }
    if chosen.is_empty() {
        return Err(Usage::new(format!("the manifest `{path}` has no project that is known here")).into());
    }
    if let Some(missing) = chosen.iter().find(|project| manifest.entry(project).is_none()) {
        let known: Vec<&str> = manifest.entries.iter().map(|entry| entry.key.as_str()).collect();
        let usage = Usage::new(format!("the manifest `{path}` does not have {}", missing.name));
        return Err(usage.hint(format!("it has {}", known.join(", "))).into());
    }
    if let Some(expected) = &arguments.expected_ref {
        let torch = manifest.entry(table.project("torch")?);
        let found = torch.and_then(|entry| entry.branch.as_deref());
        if found != Some(expected) {
            let found = found.map_or("no branch".to_owned(), |found| format!("`{found}`"));
            return Err(Failure::message(format!("the manifest `{path}` names {found} for torch, not `{expected}`")));
        }
    }
    let mut unknown: Vec<String> = manifest.entries.iter().map(|entry| entry.key.clone()).collect();
    unknown.retain(|key| key != "therock" && !by_key.contains_key(key.as_str()));
    Ok((chosen, unknown))
}

/// The source of each project.
fn wanted(
    arguments: &Arguments,
    manifest: Option<&SourceManifest>,
    table: &Table,
    chosen: &[&Project],
    downloads: &mut Vec<(usize, String)>,
) -> Result<Vec<WantedCheckout>> {
    let directories = PerProject::new("--directory", &arguments.directory, table);
    let references = PerProject::new("--ref", &arguments.reference, table);
    let origins = PerProject::new("--origin", &arguments.origin, table);
    let archives = PerProject::new("--archive", &arguments.archive, table);
    let digests = PerProject::new("--sha256", &arguments.sha256, table);
    for values in [&directories, &references, &origins, &archives, &digests] {
        values.check(chosen)?;
    }
    let working = environment::directory()?;
    let mut wanted = Vec::new();
    for project in chosen {
        let directory = directories.of(project).map(|path| projects::absolute(Path::new(path))).transpose()?;
        let origin = origins.of(project).map(|origin| local_origin(project, origin, &working));
        let archive =
            archives.of(project).map(|text| archive(text, digests.of(project), project, table)).transpose()?;
        if archive.is_none() && digests.of(project).is_some() {
            return Err(Usage::new(format!("`--sha256` is given for {}, and no `--archive`", project.name)).into());
        }
        if let Some((_, Some(address))) = &archive {
            downloads.push((wanted.len(), address.clone()));
        }
        wanted.push(WantedCheckout {
            project: project.name.clone(),
            directory,
            origin,
            reference: references.of(project).map(str::to_owned),
            archive: archive.map(|(archive, _)| archive),
            submodules: None,
            only_pins: false,
            manifest: manifest.and_then(|manifest| manifest.entry(project)).cloned(),
        });
    }
    Ok(wanted)
}

/// Reads the value of `--archive`: a file, an address to download, or a known release.
fn archive(
    text: &str,
    digest: Option<&str>,
    project: &Project,
    table: &Table,
) -> Result<(SourceArchive, Option<String>)> {
    let digest = digest.map(str::to_ascii_lowercase);
    if let Some(digest) = &digest
        && (digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        return Err(Usage::new(format!("`{digest}` is not a SHA-256 of 64 hexadecimal digits")).into());
    }
    if let Some(known) = table.archive(&project.name, text) {
        let archive =
            SourceArchive { path: PathBuf::from(&known.url), sha256: Some(digest.unwrap_or(known.sha256.clone())) };
        return Ok((archive, Some(known.url.clone())));
    }
    if text.starts_with("https://") || text.starts_with("http://") {
        let Some(digest) = digest else {
            let usage = Usage::new(format!("`{text}` is to be fetched, and its SHA-256 is not given"));
            return Err(usage.hint("give it with `--sha256`; an index page has it behind `#sha256=`").into());
        };
        return Ok((SourceArchive { path: PathBuf::from(text), sha256: Some(digest) }, Some(text.to_owned())));
    }
    let path = projects::absolute(Path::new(text))?;
    if !path.is_file() {
        let known: Vec<&str> = table
            .archives
            .iter()
            .filter(|known| known.project == project.name)
            .map(|known| known.version.as_str())
            .collect();
        let usage = Usage::new(format!("there is no archive `{text}`"));
        let hint = format!("of {} these releases are known: {}", project.name, known.join(", "));
        return Err(if known.is_empty() { usage } else { usage.hint(hint) }.into());
    }
    Ok((SourceArchive { path, sha256: digest }, None))
}

#[derive(Serialize)]
struct Planned<'a> {
    checkouts: Vec<PlannedCheckout<'a>>,
}

#[derive(Serialize)]
struct PlannedCheckout<'a> {
    #[serde(flatten)]
    checkout: &'a Checkout,
    commands: Vec<String>,
}

#[derive(Serialize)]
struct Done<'a> {
    checkouts: &'a [CheckoutReport],
}

/// Makes the checkouts, or prints their plan.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    for key in &settings.unknown {
        printer.warn(format!("the manifest's `{key}` is not known here and is skipped"));
    }
    let unknown = settings.request.line.as_ref().and_then(|line| settings.table.unknown_line(line));
    if let Some(text) = &unknown {
        printer.warn(text);
    }
    if settings.mode == Mode::DryRun {
        return show(&Plan::new(&settings.request, &settings.table)?, printer);
    }
    let mut request = settings.request.clone();
    for (at, address) in &settings.downloads {
        if let Some(archive) = &mut request.projects[*at].archive {
            let digest = archive.sha256.clone().unwrap_or_default();
            let cache = environment::cache();
            let cache =
                cache.ok_or_else(|| Usage::new("there is no folder for downloads").hint("set `ROCWHEEL_CACHE`"))?;
            archive.path = download::archive(address, &digest, &cache, printer.reporter())?;
        }
    }
    let plan = Plan::new(&request, &settings.table)?;
    let git = projects::git()?;
    let outcomes = plan.execute(&git, &settings.conversion, printer.reporter(), &mut |outcome| {
        printer.detail(format!("{}: {} of {}", outcome.project, outcome.commit, outcome.origin));
    })?;
    if printer.format() == ResultFormat::Json {
        printer.json(&Done { checkouts: &outcomes })?;
        return Ok(Exit::Done);
    }
    let rows = outcomes.iter().map(|outcome| {
        let status = match outcome.status {
            CheckoutStatus::New => "new",
            CheckoutStatus::Changed => "changed",
            CheckoutStatus::Unchanged => "unchanged",
        };
        vec![
            outcome.project.clone(),
            outcome.commit.chars().take(12).collect(),
            outcome.submodules.to_string(),
            outcome.converted.to_string(),
            outcome.patches.to_string(),
            status.to_owned(),
            outcome.directory.display().to_string(),
        ]
    });
    printer.table(&COLUMNS, rows)?;
    Ok(Exit::Done)
}

fn show(plan: &Plan, printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        let checkouts = plan.checkouts.iter();
        let planned = checkouts.map(|checkout| PlannedCheckout { checkout, commands: checkout.commands() });
        printer.json(&Planned { checkouts: planned.collect() })?;
        return Ok(Exit::Done);
    }
    for checkout in &plan.checkouts {
        if let Some(warning) = &checkout.warning {
            printer.warn(warning);
        }
        let (project, directory) = (&checkout.project, checkout.directory.display());
        printer.line(format!("{project}: {} in {directory}", checkout.reference.describe()))?;
        for command in checkout.commands() {
            printer.line(format!("    {command}"))?;
        }
    }
    printer.note(format!("would check out {}", message::count(plan.checkouts.len() as u64, "project", "projects")));
    Ok(Exit::Done)
}
