//! `rocwheel audit`: checks that wheels load on every system that their tags name.

mod annotations;
mod install_check;
mod remedies;
pub mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rocwheel_audit::finding::{Code, Severity};
use rocwheel_audit::report::{AuditReport, LoadAnswer, LoadVerdict, sarif};
use rocwheel_audit::{ExtraCheck, InstallFault, Options, RequirementSearch, SetLibraryPath};
use rocwheel_choose::InstallReport;
use rocwheel_console::any_index::AnyIndex;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_index::requirement::InstallTarget;
use rocwheel_index::{self as index, Fetch, Gathered, Request, Source, settings};
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::Root;
use rocwheel_loader::site::{PackageFolder, PythonEnvironment, RefusedWheel, Role, Site};
use rocwheel_progress::Exit;
use rocwheel_wheel::MemberPattern;
use rocwheel_wheel::manylinux::{DottedVersion, Policies};
use rocwheel_wheel::{Platform, PythonVersion, WheelName};
use serde::Serialize;

use self::install_check::InstallArguments;

/// The value that stands for the indexes of pip and uv. A folder of that name is `./index`.
const INDEX: &str = "index";

/// Check whether wheels will load on every system their tags promise
///
/// Lays the wheels out as pip would, without installing or running anything, and works out for
/// every program and library what the dynamic loader would find. It takes wheels of any project,
/// and needs neither configuration nor ROCm. Each finding has a code; `--explain` prints what it
/// means and what to do.
///
/// A virtual environment, or its site-packages folder, is checked as installed, by whatever tool.
///
/// The exit code is 1 if there is an error.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Wheels that are installed together, a folder of them, or one of installed packages; source
    /// distributions are skipped
    #[arg(required_unless_present = "explain", value_name = "WHEEL|DIR")]
    wheels: Vec<PathBuf>,
    /// Where to find the wheels that the others require: wheels, folders of wheels or of installed
    /// packages, or addresses of package indexes; `index` means the indexes that pip and uv use
    /// here, from their variables, pip.conf and uv.toml
    #[arg(long, value_name = "WHEEL|DIR|URL|index")]
    with: Vec<String>,
    /// Never contact an index
    #[arg(long)]
    offline: bool,
    /// Python of the environment, for example 3.12, 3.13t or cp312 [default: the newest that the
    /// tags of all wheels allow]
    #[arg(long, value_name = "VERSION")]
    python: Option<PythonVersion>,
    /// Report what changes if LD_LIBRARY_PATH has this folder, such as the libraries of an
    /// installed ROCm; may be repeated
    #[arg(long, value_name = "DIR")]
    library_path: Vec<PathBuf>,
    /// The oldest glibc that the wheels have to work with, for example 2.28 or manylinux_2_28
    /// [default: what their tags promise]
    #[arg(long, value_name = "VERSION", value_parser = release)]
    glibc: Option<DottedVersion>,
    /// Show which files need a library, as a tree, instead of findings
    #[arg(long, value_name = "LIBRARY", conflicts_with_all = ["sarif", "explain"])]
    why: Option<String>,
    /// Print what a code means and what to do about it: RW012, its name, or `all`
    #[arg(long, value_name = "CODE", conflicts_with_all = ["wheels", "sarif"])]
    explain: Option<String>,
    /// Findings to ignore, separated by commas: codes or names; RW003:lib*.so ignores a code only
    /// in files that match the pattern
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Write fixed wheels to the folder of `--output`, and report what is left; the input is not
    /// changed
    #[arg(long, requires = "output", conflicts_with_all = ["why", "explain"])]
    fix: bool,
    /// Folder for the wheels of `--fix`
    #[arg(short, long, value_name = "DIR", requires = "fix")]
    output: Option<PathBuf>,
    /// What makes the exit code 1, separated by commas; errors always do
    #[arg(long, value_enum, default_value = "error", value_name = "WHAT", value_delimiter = ',')]
    fail_on: Vec<FailOn>,
    #[command(flatten)]
    depth: Depth,
    #[command(flatten)]
    install: InstallArguments,
    /// Also write the findings to FILE (`-` for stdout), as a SARIF 2.1.0 log
    #[arg(long, value_name = "FILE")]
    sarif: Option<OutputOption>,
    /// Directory for unpacked files [default: the system's directory for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Read everything again, and keep no facts about wheels in ROCWHEEL_CACHE for later runs
    #[arg(long)]
    no_cache: bool,
}

/// How far the questions go.
#[derive(Debug, Args)]
struct Depth {
    /// Do not unpack everything: skip the hashes of RECORD, and names of libraries that are loaded
    /// at run time
    #[arg(long)]
    no_hashes: bool,
    /// Also read all GPU code, and check that it is for the GPUs it claims
    #[arg(long)]
    gpu_code: bool,
    /// Check the length of paths for Windows, also if no tag is for Windows
    #[arg(long)]
    windows_paths: bool,
}

/// Parses a version of glibc, which may be written as in a tag: `2.28`, `manylinux_2_28`,
/// `manylinux2014_x86_64`.
fn release(text: &str) -> Result<DottedVersion, String> {
    let policies = Policies::built_in();
    let alias = policies.policies().iter().find(|policy| {
        let alias = policy.alias.as_deref();
        alias.is_some_and(|alias| text == alias || text.strip_prefix(alias).is_some_and(|rest| rest.starts_with('_')))
    });
    if let Some(policy) = alias {
        return Ok(policy.glibc.clone());
    }
    let numbers = text.strip_prefix("manylinux_").map(|rest| rest.splitn(3, '_').take(2).collect::<Vec<_>>().join("."));
    let version = numbers.unwrap_or_else(|| text.strip_prefix("glibc").unwrap_or(text).to_owned());
    DottedVersion::try_from(version)
        .map_err(|_| format!("`{text}` is not a version of glibc; write it as 2.28 or manylinux_2_28"))
}

/// What makes the exit code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Errors only
    Error,
    /// Warnings and errors
    Warning,
    /// Errors, and a verdict that cannot tell whether the wheels load
    Unknown,
}

#[derive(Debug)]
pub enum Settings {
    /// Prints the meaning of codes.
    Explain(Vec<Code>),
    /// Audits wheels.
    Look(Box<AuditSettings>),
}

/// The options of an audit.
#[derive(Debug)]
pub struct AuditSettings {
    /// Wheels and folders of installed packages.
    wheels: Vec<PathBuf>,
    with: Vec<String>,
    offline: bool,
    python: Option<PythonVersion>,
    options: Options,
    why: Option<String>,
    fail_on: Vec<FailOn>,
    install: InstallArguments,
    sarif: Option<OutputFile>,
    /// The folder for fixed wheels, if `--fix` is given.
    fixed: Option<PathBuf>,
    pub scratch: PathBuf,
}

impl TryFrom<Arguments> for Settings {
    type Error = Usage;

    fn try_from(arguments: Arguments) -> Result<Self, Usage> {
        if let Some(text) = arguments.explain {
            let codes = if text.eq_ignore_ascii_case("all") { Code::ALL.to_vec() } else { vec![code(&text)?] };
            return Ok(Self::Explain(codes));
        }
        let (ignore, ignore_in) = ignored(&arguments.ignore)?;
        let extras = [
            (!arguments.depth.no_hashes, ExtraCheck::Hashes),
            (arguments.depth.gpu_code, ExtraCheck::GpuCode),
            (arguments.depth.windows_paths, ExtraCheck::WindowsPaths),
            (arguments.python.is_some(), ExtraCheck::Python),
        ];
        let extras = extras.into_iter().filter(|(wanted, _)| *wanted).map(|(_, extra)| extra).collect();
        let library_path = library_path(&arguments.library_path)?;
        let sarif =
            arguments.sarif.map(|file| file.check("--sarif", FileKind::SarifLog, &arguments.wheels)).transpose()?;
        Ok(Self::Look(Box::new(AuditSettings {
            wheels: arguments.wheels,
            with: arguments.with,
            offline: arguments.offline,
            python: arguments.python,
            options: Options {
                glibc: arguments.glibc,
                extras,
                ignore,
                ignore_in,
                library_path,
                cache: if arguments.no_cache { None } else { environment::facts() },
                ..Options::default()
            },
            why: arguments.why,
            fail_on: arguments.fail_on,
            install: arguments.install,
            sarif,
            fixed: arguments.output,
            scratch: arguments.scratch.unwrap_or_else(environment::scratch),
        })))
    }
}

/// Codes of findings, and codes with the files in which they count.
type IgnoredFindings = (BTreeSet<Code>, Vec<(Code, MemberPattern)>);

/// Findings to ignore, and those to ignore in some files, as `--ignore` names them.
pub fn ignored(texts: &[String]) -> Result<IgnoredFindings, Usage> {
    let (mut ignore, mut ignore_in) = (BTreeSet::new(), Vec::new());
    for text in texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()) {
        if let Some((name, pattern)) = text.split_once(':') {
            let pattern = MemberPattern::parse(pattern).map_err(|error| Usage::of(&error))?;
            ignore_in.push((code(name)?, pattern));
        } else {
            ignore.insert(code(text)?);
        }
    }
    Ok((ignore, ignore_in))
}

fn library_path(given: &[PathBuf]) -> Result<Option<SetLibraryPath>, Usage> {
    if given.is_empty() {
        return Ok(None);
    }
    let directories = given.iter().map(|path| match std::path::absolute(path) {
        Ok(absolute) if path.is_dir() => Ok(absolute.to_string_lossy().into_owned()),
        _ => {
            let shown = path.display();
            let message =
                if path.exists() { format!("`{shown}` is not a directory") } else { format!("there is no `{shown}`") };
            Err(Usage::new(message).hint(
                "`--library-path` names a folder with the libraries of a ROCm that is installed on this machine; \
                 without the option, wheels are checked as they load without LD_LIBRARY_PATH",
            ))
        }
    });
    let directories = directories.collect::<Result<_, _>>()?;
    let machine = Root::read(Path::new("/")).map_err(|error| Usage::new(error.to_string()))?;
    Ok(Some(SetLibraryPath { machine, directories }))
}

fn code(text: &str) -> Result<Code, Usage> {
    text.parse::<Code>().map_err(|error| {
        let last = Code::ALL.last().map_or("", |code| code.text());
        Usage::new(error.to_string())
            .hint(format!("the codes are RW001 to {last}; `rocwheel audit --explain all` prints them with their names"))
    })
}

/// Audits the wheels and prints the findings.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    match settings {
        Settings::Explain(codes) => explain(codes, printer),
        Settings::Look(look) => self::look(look, printer),
    }
}

fn explain(codes: &[Code], printer: &Printer) -> Result<Exit> {
    let explanations: Vec<_> = codes.iter().map(|code| code.explanation()).collect();
    match printer.format() {
        ResultFormat::Json => printer.json(&serde_json::json!({ "findings": explanations }))?,
        ResultFormat::Text => {
            for (index, explanation) in explanations.into_iter().enumerate() {
                if index > 0 {
                    printer.line("")?;
                }
                printer.line(text::explanation(explanation))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn look(look: &AuditSettings, printer: &Printer) -> Result<Exit> {
    let Some(output) = &look.fixed else { return report_on(look, &look.wheels, printer) };
    let scratch = environment::scratch_below(&look.scratch)?;
    let given = given(&look.wheels, printer)?;
    let mut before = examine(look, &given, &[], scratch.path(), printer)?;
    let remedies = remedies::find(&mut before, (scratch.path(), look.options.cache.as_ref()), printer)?;
    let fixed = remedies::apply(&remedies, output, printer)?;
    if fixed.is_empty() {
        printer.note("no wheel can be fixed here");
    }
    for (old, new) in &fixed {
        printer.note(format!("fixed `{}`: `{}`", old.display(), new.display()));
    }
    // An environment is one folder and is never rewritten. Beside wheels it is not audited again.
    let wheels: Vec<&PathBuf> = given.iter().filter(|path| !path.is_dir()).collect();
    let audited: Vec<&PathBuf> = if wheels.is_empty() { given.iter().collect() } else { wheels };
    let after = audited.into_iter().map(|path| fixed.iter().find(|(old, _)| old == path).map_or(path, |(_, new)| new));
    report_on(look, &after.cloned().collect::<Vec<_>>(), printer)
}

/// Audits wheels without printing; `install` is what installers do wrong with them.
fn examine(
    look: &AuditSettings,
    wheels: &[PathBuf],
    install: &[InstallFault],
    scratch: &Path,
    printer: &Printer,
) -> Result<AuditReport> {
    let (site, search) = open(look, wheels, scratch, printer)?;
    let options = Options { search, install: install.to_vec(), ..look.options.clone() };
    Ok(rocwheel_audit::audit(&site, &options, printer.reporter())?)
}

/// Audits wheels and prints the report.
fn report_on(look: &AuditSettings, wheels: &[PathBuf], printer: &Printer) -> Result<Exit> {
    let scratch = environment::scratch_below(&look.scratch)?;
    if let Some(library) = &look.why {
        let (site, _) = open(look, wheels, scratch.path(), printer)?;
        let facts = rocwheel_audit::read_facts(&site, &look.options, printer.reporter())?;
        return why(&site, &facts, library, printer);
    }
    let glibc = glibc(look);
    let mut install = look.install.check(&files(wheels)?, look.python, glibc, scratch.path(), printer)?;
    let faults = install.as_ref().map(install_check::faults).unwrap_or_default();
    let mut report = examine(look, wheels, &faults, scratch.path(), printer)?;
    if let Some(install) = install.as_mut().filter(|_| !look.with.is_empty()) {
        install_check::add_loads(install, &report);
    }
    let exit = match exit(&report, &look.fail_on) {
        Exit::Done if install.as_ref().is_some_and(|install| !install.is_certain()) => Exit::Partial,
        other => other,
    };
    let remedies = remedies::find(&mut report, (scratch.path(), look.options.cache.as_ref()), printer)?;
    annotations::annotate(&report, printer);
    if let Some(file) = &look.sarif {
        let log =
            serde_json::to_string_pretty(&sarif::log(&report, env!("CARGO_PKG_VERSION"))).map_err(Failure::other)?;
        if file.is_stdout() {
            printer.line(log)?;
            return Ok(exit);
        }
        file.write(&(log + "\n"))?;
    }
    match printer.format() {
        ResultFormat::Json => {
            printer.json(&Document { verdict: report.verdict(), report: &report, install_check: install.as_ref() })?;
        }
        ResultFormat::Text => {
            text::report(&report, &remedies, printer)?;
            install.iter().try_for_each(|install| install_check::print(install, printer))?;
        }
    }
    for note in &report.notes {
        printer.note(format!("note: {note}"));
    }
    Ok(exit)
}

/// The report for machines.
#[derive(Serialize)]
struct Document<'a> {
    verdict: LoadVerdict,
    #[serde(flatten)]
    report: &'a AuditReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    install_check: Option<&'a InstallReport>,
}

/// The glibc that the user names.
fn glibc(look: &AuditSettings) -> Option<(u16, u16)> {
    let text = look.options.glibc.as_ref()?.to_string();
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn exit(report: &AuditReport, fail_on: &[FailOn]) -> Exit {
    let fails = fail_on.iter().any(|what| match what {
        FailOn::Error => report.has(Severity::Error),
        FailOn::Warning => report.has(Severity::Warning),
        FailOn::Unknown => report.verdict().answer != LoadAnswer::Loads,
    });
    if fails { Exit::Failed } else { Exit::Done }
}

/// Opens the wheels, and those that they require as far as `--with` has them. The second value is
/// the search for these.
fn open(
    look: &AuditSettings,
    audited: &[PathBuf],
    scratch: &Path,
    printer: &Printer,
) -> Result<(Site, Option<RequirementSearch>)> {
    let mut given = given(audited, printer)?;
    let refused: Vec<RefusedWheel> = given.iter().filter_map(|path| RefusedWheel::find(path)).collect();
    given.retain(|path| !refused.iter().any(|refused| refused.path == *path));
    let mut wheels: Vec<(PathBuf, Role)> = given.iter().map(|path| (path.clone(), Role::Audited)).collect();
    let mut sources: Vec<String> = Vec::new();
    let mut offline = look.offline;
    let mut folder: Option<PackageFolder> = None;
    for path in given.iter().filter(|path| path.is_dir()) {
        let found =
            PackageFolder::find(path)?.ok_or_else(|| rocwheel_loader::Error::NotPackages { path: path.clone() })?;
        only(&mut folder, found)?;
    }
    for text in &look.with {
        if text == INDEX {
            let places = environment::indexes()?;
            offline |= places.offline;
            let shown: Vec<String> = places.all.iter().map(|place| settings::shown(place)).collect();
            printer.note(format!("looking in {} ({})", shown.join(", "), places.said_by));
            sources.extend(places.all);
            continue;
        }
        let path = PathBuf::from(text);
        let packages = if path.is_dir() { PackageFolder::find(&path)? } else { None };
        match packages {
            Some(found) => only(&mut folder, found)?,
            None if !is_wheel(text) => {
                sources.push(text.clone());
                continue;
            }
            None => {}
        }
        wheels.push((path, Role::Beside));
    }
    let python = python(look.python, &given, folder.as_ref())?;
    let mut search = None;
    if !sources.is_empty() && !given.is_empty() {
        let installed = folder.as_ref().map(PackageFolder::infos).unwrap_or_default();
        let files = given.iter().filter(|path| !path.is_dir()).cloned();
        let audited: Vec<PathBuf> = installed.into_iter().chain(files).collect();
        let known = Known { python, audited: &audited, offline };
        let Gathered { wheels: found, unmet } = gather(look, &known, &sources, scratch, printer)?;
        let has_index = sources.iter().any(|text| index::scheme_of(text).is_some());
        search = Some(RequirementSearch { has_index, unmet });
        let known: Vec<PathBuf> = wheels.iter().map(|(path, _)| path.clone()).collect();
        let new = found.into_iter().filter(|path| !known.iter().any(|known| same_distribution(known, path)));
        wheels.extend(new.map(|path| (path, Role::Beside)));
    }
    let place = folder.map_or_else(|| PythonEnvironment::new(python, "/environment"), |folder| folder.place(python));
    if given.is_empty() && !refused.is_empty() {
        return Ok((Site::of_refused(refused, &place), search));
    }
    let mut site = Site::open(&wheels, &place, scratch, printer.reporter())?;
    site.refused = refused;
    if site.distributions.iter().any(|distribution| distribution.installed().is_some()) {
        printer.detail("of what is installed, neither the names of wheels nor their sizes are known");
    }
    Ok((site, search))
}

/// The paths: a folder without installed packages stands for its wheels and source distributions.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut given = Vec::new();
    for path in paths {
        if path.is_dir() && PackageFolder::find(path)?.is_none() {
            let mut files: Vec<PathBuf> =
                fs_err::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
            files.sort();
            files.retain(|file| is_wheel(&file.to_string_lossy()) || is_sdist(file));
            if files.is_empty() {
                return Err(rocwheel_loader::Error::NotPackages { path: path.clone() }.into());
            }
            given.extend(files);
        } else {
            given.push(path.clone());
        }
    }
    Ok(given)
}

/// The paths to audit. Source distributions are skipped, since they contain nothing that the loader
/// reads.
fn given(paths: &[PathBuf], printer: &Printer) -> Result<Vec<PathBuf>> {
    let mut given = files(paths)?;
    given.retain(|path| {
        let is_sdist = is_sdist(path);
        if is_sdist {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            printer.note(format!("note: `{name}` is a source distribution and was skipped"));
        }
        !is_sdist
    });
    Ok(given)
}

fn is_sdist(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".tar.gz") && path.is_file()
}

/// Sets the folder of packages; an environment has only one.
fn only(folder: &mut Option<PackageFolder>, found: PackageFolder) -> Result<(), Usage> {
    if let Some(other) = folder.replace(found)
        && let Some(found) = folder
        && other != *found
    {
        let (first, second) = (other.path().display(), found.path().display());
        return Err(Usage::new(format!("`{first}` and `{second}` are the packages of two environments"))
            .hint("look at them one by one"));
    }
    Ok(())
}

/// The Python of the audit: the one that the user names, the one that the packages are installed
/// for, or the newest that all tags allow.
fn python(
    asked: Option<PythonVersion>,
    wheels: &[PathBuf],
    folder: Option<&PackageFolder>,
) -> Result<PythonVersion, Usage> {
    let found = folder.and_then(PackageFolder::python);
    match (asked, found) {
        (Some(python), Some(found)) if python != found && folder.is_some_and(PackageFolder::is_of_environment) => {
            let folder = folder.map(|folder| folder.path().display().to_string()).unwrap_or_default();
            Err(Usage::new(format!("`{folder}` is of Python {found}, and `--python` says {python}"))
                .hint("remove `--python`"))
        }
        (Some(python), _) | (None, Some(python)) => Ok(python),
        (None, None) => Ok(PythonVersion::newest_of(wheels)),
    }
}

fn is_wheel(text: &str) -> bool {
    WheelName::is_wheel(text) && !text.contains("://")
}

fn same_distribution(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| {
        let name = path.file_name()?.to_str()?.parse::<WheelName>().ok()?;
        Some(rocwheel_wheel::canonical_name(&name.distribution))
    });
    one.is_some() && one == other
}

/// The environment, as known before the search for wheels.
struct Known<'a> {
    python: PythonVersion,
    audited: &'a [PathBuf],
    offline: bool,
}

/// The wheels that the audited ones require, from folders and indexes.
fn gather(
    look: &AuditSettings,
    known: &Known<'_>,
    sources: &[String],
    scratch: &Path,
    printer: &Printer,
) -> Result<Gathered> {
    let sources: Vec<Source> = sources.iter().map(|text| Source::parse(text)).collect::<Result<_, _>>()?;
    let Known { python, audited, offline } = *known;
    let target = InstallTarget { python, platform: Platform::of_files(audited), glibc: glibc(look) };
    let cache = environment::cache().map_or_else(|| scratch.to_owned(), |cache| cache.join("audit"));
    let client = AnyIndex::new(offline)?;
    let has_file = sources.iter().any(|source| matches!(source, Source::Index(address) if address.scheme() == "file"));
    let fetch = (!offline || has_file).then_some(&client as &dyn Fetch);
    let request = Request { audited, sources: &sources, target: &target, cache: &cache, fetch };
    let gathered = index::gather(&request, printer.reporter())?;
    for unmet in &gathered.unmet {
        let index::Unmet { requirer, requirement, reason, .. } = unmet;
        printer.note(format!("note: `{requirer}` requires `{requirement}`, which was not found: {reason}"));
    }
    Ok(gathered)
}

/// Number of libraries that a hint names.
const SHOWN: usize = 8;

fn why(site: &Site, facts: &SiteFacts, library: &str, printer: &Printer) -> Result<Exit> {
    let Some(why) = rocwheel_audit::why::why(site, facts, library) else {
        let names = rocwheel_audit::why::names(facts);
        let usage = Usage::new(format!("no file of the wheels is `{library}` or needs it"));
        let begins = names.iter().copied().find(|name| name.starts_with(library));
        return Err(match begins.or_else(|| rocwheel_progress::nearest(library, names.iter().copied())) {
            Some(name) => usage.hint(format!("did you mean `{name}`?")).into(),
            None if names.is_empty() => usage.into(),
            None => {
                let names = rocwheel_progress::few_in_backticks(names, SHOWN);
                usage.hint(format!("files of the wheels are or need {names}")).into()
            }
        });
    };
    match printer.format() {
        ResultFormat::Json => printer.json(&why)?,
        ResultFormat::Text => printer.line(text::why(&why))?,
    }
    Ok(Exit::Done)
}
