//! `rocwheel index check`: the faults of an index that installers would meet.

use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_index::{Fetch, address_hint, text_without_users};
use rocwheel_pages::{CheckOptions, CheckedIndex, FaultLevel, check};
use rocwheel_progress::{Exit, shell_path};
use rocwheel_store::FolderSite;
use serde::Serialize;
use url::Url;

/// Check a package index as pip and uv read it
///
/// Reads every page in both forms, asks for every file, and compares METADATA beside wheels with
/// the page. Reports missing hashes, files that are missing, replaced or cut off, names that
/// installers confuse, wrong types and headers, and a server that answers 403 for what is missing.
/// Exit code 1 if an installation can fail.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Address of an index, or folder that `rocwheel index build` made one of
    #[arg(value_name = "URL|DIR")]
    index: String,
    /// Check only this project; may be repeated
    #[arg(long, value_name = "NAME")]
    project: Vec<String>,
    /// Also read every file and compare its hash
    #[arg(long)]
    files: bool,
}

#[derive(Debug)]
pub struct Settings {
    roots: Vec<Url>,
    /// The command that makes the pages of a folder again.
    fix: Option<String>,
    options: CheckOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let projects = arguments.project.iter().map(|name| rocwheel_wheel::canonical_name(name)).collect();
        let options = CheckOptions { files: arguments.files, projects };
        let text = &arguments.index;
        let mut fix = None;
        let roots =
            if text.starts_with("http://") || text.starts_with("https://") {
                let text = if text.ends_with('/') { text.clone() } else { format!("{text}/") };
                vec![Url::parse(&text).map_err(|error| {
                    Usage::new(format!("`{}` is not an address: {error}", text_without_users(&text)))
                })?]
            } else {
                let folder = folder(text)?;
                fix = fix_of(&folder);
                roots(&folder)?
            };
        Ok(Self { roots, fix, options })
    }
}

/// A folder, also where its address is given, as `--index-url` of pip takes it.
fn folder(text: &str) -> Result<PathBuf> {
    if !text.starts_with("file:") {
        return Ok(PathBuf::from(text));
    }
    let path = Url::parse(text).ok().and_then(|address| address.to_file_path().ok());
    Ok(path
        .ok_or_else(|| Usage::new(format!("`{text}` is not the address of a folder")).hint("name the folder itself"))?)
}

/// The indexes of a folder: the one in its `simple/`, those in the `simple/` of each family, or the
/// folder itself.
fn roots(folder: &Path) -> Result<Vec<Url>> {
    if let Some(hint) = address_hint(folder) {
        return Err(Failure::message(format!("there is no `{}`", folder.display())).with_hint(hint));
    }
    if folder.is_file() {
        let failure = Failure::message(format!("`{}` is a file", folder.display()));
        return Err(failure.with_hint("name the folder or the address of an index"));
    }
    let mut found = vec![folder.join("simple")];
    if !is_index(&found[0]) {
        found = fs_err::read_dir(folder)?.map(|entry| Ok(entry?.path().join("simple"))).collect::<Result<_>>()?;
        found.retain(|folder| is_index(folder));
        found.sort();
        if found.is_empty() {
            if !is_index(folder) {
                let make = format!("make one of its wheels: `rocwheel index build {}`", shell_path(folder));
                return Err(Failure::message(format!("`{}` has no index", folder.display())).with_hint(make));
            }
            found.push(folder.to_owned());
        }
    }
    let addresses = found.into_iter().map(|path| {
        let path = rocwheel_system::canonicalize(path)?;
        Url::from_directory_path(&path).map_err(|()| Failure::message(format!("`{}` has no address", path.display())))
    });
    addresses.collect()
}

fn is_index(folder: &Path) -> bool {
    folder.join("index.html").is_file() || folder.join("index.v1_json").is_file()
}

/// What `rocwheel index build` remembers of a folder.
const RECORDS: &str = ".rocwheel/index";

/// The command that makes all pages again, for a folder that `rocwheel index build` wrote, or for
/// the folder of its pages. A page or file that was changed and kept its size is as the records say
/// it should be, so they go first.
fn fix_of(folder: &Path) -> Option<String> {
    let built = folder.ancestors().take(3).find(|folder| folder.join(RECORDS).is_dir())?;
    Some(format!("rm -r {} && rocwheel index build {}", shell_path(&built.join(RECORDS)), shell_path(built)))
}

#[derive(Serialize)]
struct Report<'a> {
    indexes: Vec<ReportedIndex<'a>>,
}

#[derive(Serialize)]
struct ReportedIndex<'a> {
    #[serde(flatten)]
    checked: &'a CheckedIndex,
    /// The command that fixes its errors, if one does.
    fix: Option<&'a str>,
}

/// Checks the indexes and prints their faults.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let mut all = Vec::new();
    for root in &settings.roots {
        let mut plain = root.clone();
        let site: Box<dyn Fetch> = if root.scheme() == "file" {
            Box::new(FolderSite)
        } else {
            let http = environment::http(root.scheme())?;
            // The report has the address.
            plain = http.remember(root);
            Box::new(http)
        };
        all.push(check(&*site, &plain, &settings.options, printer.reporter())?);
    }
    let exit = if all.iter().any(CheckedIndex::has_errors) { Exit::Failed } else { Exit::Done };
    if printer.format() == ResultFormat::Json {
        let fix = settings.fix.as_deref();
        let indexes =
            all.iter().map(|checked| ReportedIndex { checked, fix: fix.filter(|_| checked.is_mended_by_pages()) });
        printer.json(&Report { indexes: indexes.collect() })?;
        return Ok(exit);
    }
    for checked in &all {
        show(checked, printer)?;
    }
    if let Some(fix) = settings.fix.as_ref().filter(|_| all.iter().any(CheckedIndex::is_mended_by_pages)) {
        printer.line(format!("To fix: {fix}"))?;
    }
    Ok(exit)
}

fn show(checked: &CheckedIndex, printer: &Printer) -> Result<()> {
    for fault in &checked.faults {
        let word = match fault.level {
            FaultLevel::Error => "error",
            FaultLevel::Warning => "warning",
        };
        printer.line(format!("{word}: {}: {}", fault.at, fault.text))?;
        if let Some(hint) = &fault.hint {
            printer.line(format!("  hint: {hint}"))?;
        }
    }
    let errors = checked.faults.iter().filter(|fault| fault.level == FaultLevel::Error).count() as u64;
    let warnings = message::count(checked.faults.len() as u64 - errors, "warning", "warnings");
    let errors = message::count(errors, "error", "errors");
    let projects = message::count(checked.projects as u64, "project", "projects");
    let files = message::count(checked.files as u64, "file", "files");
    printer.note(format!("{}: {projects}, {files}: {errors}, {warnings}", checked.address));
    Ok(())
}
