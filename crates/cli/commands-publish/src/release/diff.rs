//! `rocwheel release diff`: what changed between two snapshots.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_commands_wheel::diff::{self, Detail};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_diff::{ComparisonReport, FailOn, Request};
use rocwheel_progress::Exit;
use rocwheel_store::{Store, StoredBytes, StoredFile};
use rocwheel_stream::{SnapshotChanges, SnapshotManifest, Stream};
use serde::Serialize;

use super::stream::{StreamArguments, StreamPlace};

/// Compare two snapshots of a stream
///
/// With `--contents` each file that was added is also compared with the one that it follows: the
/// newest earlier version of the project for the same Python and platform. Packages that the
/// earlier set alone has are lost, and those without an earlier version are new.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of the first snapshot
    #[arg(value_name = "A")]
    before: u64,
    /// Number of the second snapshot [default: the last one]
    #[arg(value_name = "B")]
    after: Option<u64>,
    /// Compare what is in the files, as `rocwheel diff` does
    #[arg(long)]
    contents: bool,
    /// Changes that are failures, as of `rocwheel diff --fail-on`, such as `any-but-version`
    #[arg(long, value_name = "LIST", requires = "contents")]
    fail_on: Option<String>,
    /// Directory for large temporary files; cleaned up afterwards [default: the system's directory
    /// for temporary files]
    #[arg(long, value_name = "DIR", requires = "contents")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    before: u64,
    after: Option<u64>,
    contents: Option<Contents>,
    place: StreamPlace,
}

/// How the contents of files are compared.
#[derive(Debug)]
struct Contents {
    fail_on: FailOn,
    scratch: PathBuf,
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    changes: &'a SnapshotChanges,
    contents: &'a ComparisonReport,
    differs_only_in_version: bool,
    failures: usize,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let fail_on = arguments.fail_on.as_deref().map(FailOn::parse).transpose()?.unwrap_or_default();
        let scratch = arguments.scratch.unwrap_or_else(environment::scratch);
        Ok(Self {
            before: arguments.before,
            after: arguments.after,
            contents: arguments.contents.then_some(Contents { fail_on, scratch }),
            place: arguments.stream.try_into()?,
        })
    }
}

/// Prints the changes.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let stream = Stream::existing(&*store, &settings.place.name)?;
    let before = stream.snapshot(settings.before)?;
    let after = stream.snapshot(settings.after.unwrap_or(stream.manifest.number))?;
    let changes = SnapshotChanges::between(&before, &after);
    let Some(contents) = &settings.contents else {
        show(&changes, printer)?;
        return Ok(Exit::Done);
    };
    let scratch = environment::scratch_below(&contents.scratch)?;
    let sides = Sides::new(&before, &after, &changes.added);
    let mut report = compare(&*store, &sides, scratch.path(), printer)?;
    contents.fail_on.measure(&mut report);
    let failures = contents.fail_on.failures(&report);
    if printer.format() == ResultFormat::Json {
        let differs_only_in_version = report.differs_only_in_version();
        printer.json(&Document { changes: &changes, contents: &report, differs_only_in_version, failures })?;
    } else {
        show(&changes, printer)?;
        if report.packages.is_empty() {
            printer.note("no file was added: there are no contents to compare");
        } else {
            printer.line("")?;
            diff::print(&report, Detail::Grouped, printer)?;
        }
    }
    Ok(diff::exit(failures, printer))
}

/// The files that are compared, by key.
struct Sides<'a> {
    before: BTreeSet<&'a str>,
    after: BTreeSet<&'a str>,
}

impl<'a> Sides<'a> {
    /// The newest files that were added; and the files that they follow, with the rest of their
    /// sets, so that a package that is new or lost is a change, too.
    fn new(before: &'a SnapshotManifest, after: &'a SnapshotManifest, added: &'a [String]) -> Sides<'a> {
        // Of several nights between the snapshots the last one counts, also for what it lost.
        let followed: BTreeSet<&str> = added.iter().filter_map(|key| after.predecessor(key)).collect();
        let followers =
            added.iter().filter_map(|key| Some((set_of(after, key)?, set_of(after, after.predecessor(key)?)?)));
        let earlier: BTreeSet<&str> = followers.filter(|(own, other)| own != other).map(|(_, other)| other).collect();
        let newest: BTreeSet<&str> = added
            .iter()
            .map(String::as_str)
            .filter(|key| !followed.contains(key) && set_of(after, key).is_none_or(|set| !earlier.contains(set)))
            .collect();
        let predecessors = newest.iter().filter_map(|key| before.predecessor(key));
        let sets: BTreeSet<&str> = predecessors.clone().filter_map(|key| set_of(before, key)).collect();
        let older: BTreeSet<&str> = before.files.keys().filter_map(|key| before.predecessor(key)).collect();
        let rest = before.files.iter().filter(|(_, file)| sets.contains(file.set.as_str()));
        let rest = rest.map(|(key, _)| key.as_str()).filter(|key| !older.contains(key));
        Sides { before: predecessors.chain(rest).collect(), after: newest }
    }
}

fn set_of<'m>(manifest: &'m SnapshotManifest, key: &str) -> Option<&'m str> {
    manifest.files.get(key).map(|file| file.set.as_str())
}

/// Compares the files of the two sides.
fn compare(store: &dyn Store, sides: &Sides<'_>, scratch: &Path, printer: &Printer) -> Result<ComparisonReport> {
    let request = Request { old: scratch.join("old"), new: scratch.join("new"), scratch: scratch.to_owned() };
    if sides.after.is_empty() {
        return Ok(ComparisonReport { old: request.old, new: request.new, packages: Vec::new() });
    }
    for (folder, keys) in [(&request.old, &sides.before), (&request.new, &sides.after)] {
        fs_err::create_dir(folder)?;
        for key in keys {
            place(store, key, folder)?;
        }
    }
    rocwheel_diff::compare(&request, printer.reporter())
}

/// Makes a stored file one of a folder.
fn place(store: &dyn Store, key: &str, folder: &Path) -> Result<()> {
    let path = folder.join(key.rsplit('/').next().unwrap_or(key));
    // A copy over a link to the stored file would empty the stored file.
    if path.exists() {
        return Ok(());
    }
    let bytes = store.bytes(&StoredFile { key: key.to_owned(), size: 0, stamp: String::new() })?;
    if let StoredBytes::Local(from) = &bytes
        && fs_err::hard_link(from, &path).is_ok()
    {
        return Ok(());
    }
    Ok(bytes.copy_to(&path)?)
}

/// Prints the changes, a line each.
pub(super) fn show(changes: &SnapshotChanges, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(changes);
    }
    let groups = [
        ("added", &changes.added),
        ("removed", &changes.removed),
        ("yanked", &changes.yanked),
        ("restored", &changes.restored),
        ("replaced", &changes.replaced),
    ];
    for (word, keys) in groups {
        for key in keys {
            printer.line(format!("{word} {key}"))?;
        }
    }
    if groups.iter().all(|(_, keys)| keys.is_empty()) {
        printer.note("no differences");
    }
    Ok(())
}
