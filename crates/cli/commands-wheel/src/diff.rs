//! `rocwheel diff`: the changes between two wheels, sets or folders, and whether they are expected.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::output_file::{FileKind, OutputFile, OutputOption};
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_diff::{
    Accepted, Change, ChangeKind, ComparisonReport, Described, Deviations, FailOn, FileReport, Kept, PackageReport,
    Request,
};
use rocwheel_progress::Exit;
use serde::Serialize;

const CHANGES: [Column; 3] = [("Change", Left), ("File", Left), ("What", Left)];
const TARGETS: [Column; 4] = [("GPU code", Left), ("Before", Right), ("Now", Right), ("Change", Right)];
/// From this number on, files with the same change are one row.
const ALIKE: usize = 3;
/// Number of characters of a symbol's name that are shown where there are many.
const SYMBOL_SHOWN: usize = 40;
/// Largest number of new, lost or moved files of a folder that are shown one by one.
const SHOWN: usize = 8;

/// Show what changed between two wheels, source distributions, archives or folders of them
///
/// Separates identical files, files that differ but mean the same (METADATA in another order, an
/// archive with other time stamps, a library with the same code, data and symbols), and real
/// changes: needed libraries, names, search paths, symbols, versions of glibc, code, GPU code by
/// target, requirements, tags, sizes.
///
/// The exit code is 1 if there is a change that `--fail-on` names and `--accept` does not.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Before: a wheel, a source distribution, an archive, any file, or a folder
    #[arg(value_name = "OLD", required_unless_present = "explain")]
    old: Option<PathBuf>,
    /// After: the same kind of thing
    #[arg(value_name = "NEW", required_unless_present = "explain")]
    new: Option<PathBuf>,
    /// File with accepted deviations and their reasons; every other change is a failure unless
    /// `--fail-on` names the failures
    #[arg(long, value_name = "FILE")]
    accept: Option<PathBuf>,
    /// Changes that are failures, separated by commas: names as `--explain` lists them, `any`,
    /// `any-but-version`, `growth=5%`, `growth=20MB`
    #[arg(long, value_name = "LIST")]
    fail_on: Option<String>,
    /// Write a new file of deviations for the changes that are not accepted yet; write the reasons
    /// into it before you use it
    #[arg(long, value_name = "FILE")]
    write_deviations: Option<OutputOption>,
    /// Show every file that is new, lost, moved or the same in meaning
    #[arg(long)]
    all: bool,
    /// List the kinds of changes and their meanings
    #[arg(long, conflicts_with_all = ["old", "new", "accept", "fail_on", "write_deviations", "all"])]
    explain: bool,
    /// Directory for large temporary files; cleaned up afterwards [default: the system's directory
    /// for temporary files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

#[derive(Debug)]
pub enum Settings {
    Explain,
    Compare(Box<ComparisonSettings>),
}

/// One comparison.
#[derive(Debug)]
pub struct ComparisonSettings {
    request: Request,
    accept: Option<Deviations>,
    fail_on: FailOn,
    write_deviations: Option<OutputFile>,
    detail: Detail,
}

/// The level of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    Grouped,
    All,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let (Some(old), Some(new)) = (arguments.old, arguments.new) else { return Ok(Self::Explain) };
        let fail_on = match &arguments.fail_on {
            Some(list) => FailOn::parse(list)?,
            None if arguments.accept.is_some() => FailOn::any(),
            None => FailOn::default(),
        };
        let write_deviations = arguments
            .write_deviations
            .map(|file| file.check("--write-deviations", FileKind::Deviations, &[old.clone(), new.clone()]))
            .transpose()?;
        let accept = arguments.accept.map(|path| Deviations::read(&path)).transpose()?;
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        Ok(Self::Compare(Box::new(ComparisonSettings {
            request: Request { old, new, scratch },
            accept,
            fail_on,
            write_deviations,
            detail: if arguments.all { Detail::All } else { Detail::Grouped },
        })))
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a ComparisonReport,
    /// The result for each accepted deviation.
    deviations: &'a [Accepted],
    /// Number of changes that are failures.
    failures: usize,
    /// `true` if nothing changed but versions and the texts that name them.
    differs_only_in_version: bool,
}

/// Compares and prints the changes.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let Settings::Compare(comparison) = settings else { return explain(printer) };
    let scratch = environment::scratch_below(&comparison.request.scratch)?;
    let request = Request { scratch: scratch.path().to_owned(), ..comparison.request.clone() };
    let mut report = rocwheel_diff::compare(&request, printer.reporter())?;
    comparison.fail_on.measure(&mut report);
    let deviations = comparison.accept.as_ref().map(|accept| accept.accept(&mut report)).unwrap_or_default();
    let failures = comparison.fail_on.failures(&report);
    if let Some(file) = &comparison.write_deviations {
        file.write(&report.as_deviations())?;
        printer.note(format!(
            "`{}` lists the changes that are not accepted yet: write the reasons into it",
            file.path().display()
        ));
    }
    if printer.format() == ResultFormat::Json {
        let differs_only_in_version = report.differs_only_in_version();
        printer.json(&Document { report: &report, deviations: &deviations, failures, differs_only_in_version })?;
    } else {
        print(&report, comparison.detail, printer)?;
    }
    for unused in deviations.iter().filter(|accepted| accepted.count == 0) {
        let Accepted { deviation, .. } = unused;
        printer.warn(format!(
            "there is no longer a `{}` in `{}` of `{}`: remove the deviation ({})",
            deviation.change, deviation.path, deviation.package, deviation.reason
        ));
    }
    Ok(exit(failures, printer))
}

/// The exit code for a number of changes that are failures.
pub fn exit(failures: usize, printer: &Printer) -> Exit {
    if failures > 0 {
        printer.warn(format!("{} that may not be", message::count(failures as u64, "change", "changes")));
        return Exit::Failed;
    }
    Exit::Done
}

fn explain(printer: &Printer) -> Result<Exit> {
    if printer.format() == ResultFormat::Json {
        let kinds = ChangeKind::ALL.iter().map(|kind| serde_json::json!({"change": kind, "meaning": kind.meaning()}));
        printer.json(&serde_json::json!({ "changes": kinds.collect::<Vec<_>>() }))?;
        return Ok(Exit::Done);
    }
    let rows = ChangeKind::ALL.iter().map(|kind| vec![kind.name().to_owned(), kind.meaning().to_owned()]);
    printer.table(&[("Change", Left), ("Meaning", Left)], rows)?;
    Ok(Exit::Done)
}

/// Prints the changes for people.
pub fn print(report: &ComparisonReport, detail: Detail, printer: &Printer) -> Result<()> {
    if report.differs_only_in_version() {
        printer.line(format!("nothing changed but {}\n", changed_versions(report)))?;
    }
    for package in &report.packages {
        printer.line(heading(package))?;
        if let (Some(old), Some(new)) = (&package.old, &package.new) {
            printer.line(format!("  {}", sizes(old, new)))?;
            printer.line(format!("  {}", counts(package)))?;
        }
        let rows = rows(package, detail);
        if !rows.is_empty() {
            printer.table(&CHANGES, rows)?;
        }
        targets(package, printer)?;
        printer.line("")?;
    }
    let all = report.changes().count();
    let accepted = all - report.unaccepted();
    let mut summary = match (all, report.packages.iter().any(|package| !package.files.is_empty())) {
        (0, false) => "the same bytes".to_owned(),
        (0, true) => "no change: what has other bytes means the same".to_owned(),
        (all, _) => message::count(all as u64, "change", "changes"),
    };
    if accepted > 0 {
        summary = format!("{summary}, {accepted} of them accepted");
    }
    printer.line(summary)
}

/// The heading of a package: `rocm-sdk-core  OLD FILE → NEW FILE`.
fn heading(package: &PackageReport) -> String {
    let [old, new] = [&package.old, &package.new].map(|side| match side {
        Some(side) if package.name.is_empty() => side.path.display().to_string(),
        Some(side) => side.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => "nothing".to_owned(),
    });
    let change = if old == new { old } else { format!("{old} → {new}") };
    if package.name.is_empty() { change } else { format!("{}  {change}", package.name) }
}

/// Describes versions that changed: `the version 7.1 → 7.2`.
fn changed_versions(report: &ComparisonReport) -> String {
    let changes = report.changes().filter(|(_, _, change)| change.kind == ChangeKind::Version);
    let changes: BTreeSet<String> = changes.map(|(_, _, change)| change.to_string()).collect();
    match changes.first() {
        Some(only) if changes.len() == 1 => format!("the version {only}"),
        _ => format!("the versions of {}", message::count(report.packages.len() as u64, "package", "packages")),
    }
}

/// Sizes and their growth: `120.3 MB → 125.1 MB (+4.0 %), unpacked 300.0 MB → 310.0 MB (+3.3 %)`.
fn sizes(old: &Described, new: &Described) -> String {
    let [packed, unpacked] =
        [(old.size, new.size), (old.unpacked, new.unpacked)].map(|(old, new)| match growth(old, new) {
            Some(growth) => format!("{} → {} ({growth})", message::bytes(old), message::bytes(new)),
            None => message::bytes(new),
        });
    let is_folder = (old.size, new.size) == (old.unpacked, new.unpacked);
    if is_folder { packed } else { format!("{packed}, unpacked {unpacked}") }
}

/// The growth in per cent, such as `+4.0 %`; `None` if the size is the same.
fn growth(old: u64, new: u64) -> Option<String> {
    if old == new {
        return None;
    }
    if old == 0 {
        return Some("new".to_owned());
    }
    let thousandths = (i128::from(new) - i128::from(old)) * 1000 / i128::from(old);
    let sign = if new > old { '+' } else { '-' };
    Some(format!("{sign}{}.{} %", thousandths.abs() / 10, thousandths.abs() % 10))
}

fn counts(package: &PackageReport) -> String {
    let parts = [
        (package.same as usize, "the same"),
        (count(package, |file| file.kept == Kept::Meaning), "the same in meaning"),
        (count(package, |file| file.kept == Kept::AllButVersion), "the same but for the version"),
        (count(package, |file| file.kept == Kept::Some), "different"),
        (count(package, |file| file.changes.iter().any(|change| change.kind == ChangeKind::NewFile)), "new"),
        (count(package, |file| file.changes.iter().any(|change| change.kind == ChangeKind::LostFile)), "lost"),
        (count(package, |file| file.kept == Kept::Moved), "moved"),
    ];
    let needed = package.files.iter().flat_map(|file| &file.changes);
    let needed: BTreeSet<&str> =
        needed.filter(|change| change.kind == ChangeKind::NewNeeded).map(|change| change.subject.as_str()).collect();
    let parts = parts.into_iter().chain([(needed.len(), "newly needed by some of them")]);
    let parts: Vec<String> =
        parts.filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if parts.is_empty() { "no files".to_owned() } else { format!("files: {}", parts.join(", ")) }
}

fn count(package: &PackageReport, is_wanted: impl Fn(&FileReport) -> bool) -> usize {
    package.files.iter().filter(|file| is_wanted(file)).count()
}

fn rows(package: &PackageReport, detail: Detail) -> Vec<Vec<String>> {
    // The same change in several files is one row.
    let mut alike: BTreeMap<(ChangeKind, String), Vec<String>> = BTreeMap::new();
    let mut rows: Vec<Vec<String>> = shown(&package.changes, detail)
        .map(|change| vec![change.kind.name().to_owned(), "-".to_owned(), in_words(change, detail)])
        .collect();
    // Folders with many new, lost or moved files.
    let mut groups: BTreeMap<(ChangeKind, &str), Vec<&FileReport>> = BTreeMap::new();
    for file in &package.files {
        for change in shown(&file.changes, detail) {
            let is_grouped = [ChangeKind::NewFile, ChangeKind::LostFile, ChangeKind::MovedFile].contains(&change.kind);
            if is_grouped && detail == Detail::Grouped {
                groups.entry((change.kind, folder(&file.path))).or_default().push(file);
            } else {
                let is_size = is_grouped && change.old.is_none();
                let what = if is_size { whole_size(file) } else { in_words(change, detail) };
                alike.entry((change.kind, what)).or_default().push(file.path.clone());
            }
        }
        if detail == Detail::All && file.kept == Kept::Meaning {
            rows.push(vec!["(same meaning)".to_owned(), file.path.clone(), file.notes.join("; ")]);
        }
    }
    for ((kind, what), paths) in alike {
        // Two texts with the same number of changed lines are not changed in the same way.
        let is_one_row = detail == Detail::Grouped && kind != ChangeKind::Content && paths.len() >= ALIKE;
        if let [first, rest @ ..] = &paths[..]
            && is_one_row
        {
            rows.push(vec![kind.name().to_owned(), format!("{first} and {} more", rest.len()), what]);
            continue;
        }
        rows.extend(paths.into_iter().map(|path| vec![kind.name().to_owned(), path, what.clone()]));
    }
    for ((kind, folder), files) in groups {
        if files.len() > SHOWN {
            let bytes = files.iter().filter_map(|file| file.sizes.new.or(file.sizes.old)).sum();
            let what = format!("{}, {}", message::count(files.len() as u64, "file", "files"), message::bytes(bytes));
            rows.push(vec![kind.name().to_owned(), format!("{folder}/…"), what]);
            continue;
        }
        rows.extend(files.into_iter().map(|file| {
            let what = match &file.old_path {
                Some(old) => format!("from {old}"),
                None => whole_size(file),
            };
            vec![kind.name().to_owned(), file.path.clone(), what]
        }));
    }
    rows
}

fn shown(changes: &[Change], detail: Detail) -> impl Iterator<Item = &Change> {
    changes.iter().filter(move |change| detail == Detail::All || change.accepted.is_none())
}

fn in_words(change: &Change, detail: Detail) -> String {
    let accepted = change.accepted.as_ref().map(|reason| format!(" (accepted: {reason})"));
    in_short(change, detail) + accepted.as_deref().unwrap_or_default()
}

/// The change in words; a long list of symbols is shortened to its count and first names.
fn in_short(change: &Change, detail: Detail) -> String {
    let Some(count) = change.count.filter(|count| *count > 1 && detail == Detail::Grouped) else {
        return change.to_string();
    };
    let first = change.subject.split(", ").next().unwrap_or_default();
    let shown: String = first.chars().take(SYMBOL_SHOWN).collect();
    let end = if shown.len() < first.len() { "…" } else { "" };
    format!("{count} symbols, such as {shown}{end}")
}

/// The first two levels of folders, which are enough to recognise the place.
fn folder(path: &str) -> &str {
    let end = path.match_indices('/').map(|(index, _)| index).take(2).last();
    end.map_or("", |end| &path[..end])
}

fn whole_size(file: &FileReport) -> String {
    match file.sizes.new.or(file.sizes.old) {
        Some(size) => message::bytes(size),
        None => file.notes.join("; "),
    }
}

fn targets(package: &PackageReport, printer: &Printer) -> Result<()> {
    let rows: Vec<Vec<String>> = package
        .targets
        .iter()
        .filter(|(_, sizes)| sizes.old != sizes.new)
        .map(|(target, sizes)| {
            let change = growth(sizes.old.unwrap_or(0), sizes.new.unwrap_or(0)).unwrap_or_default();
            let [old, new] = [sizes.old, sizes.new].map(|size| size.map_or_else(|| "-".to_owned(), message::bytes));
            vec![target.clone(), old, new, change]
        })
        .collect();
    if rows.is_empty() { Ok(()) } else { printer.table(&TARGETS, rows) }
}
