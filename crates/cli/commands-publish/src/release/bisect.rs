//! `rocwheel release bisect`: finds the publication that broke something.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use clap::Args;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::store::StorePlace;
use rocwheel_index::address_without_user;
use rocwheel_progress::{Context as _, Exit};
use rocwheel_store::Store;
use rocwheel_stream::{SnapshotChanges, SnapshotManifest, Stream, history, write_dated_index};
use url::Url;

use super::diff;
use super::stream::{StreamArguments, StreamPlace};

/// The exit code of a command that cannot tell, as in `git bisect run`.
const SKIP: i32 = 125;

/// Find the publication that broke something
///
/// Runs COMMAND with the index as it was after publications between GOOD and BAD. The command
/// installs and tests: 0 means good, 125 that it cannot tell, anything else bad. PIP_INDEX_URL and
/// UV_DEFAULT_INDEX have the address of the index, ROCWHEEL_SNAPSHOT the number, and
/// UV_EXCLUDE_NEWER the time. If the first bad publication may be one that could not be tested, all
/// of these are printed, and the exit code is 3.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Number of a snapshot that works
    #[arg(value_name = "GOOD")]
    good: u64,
    /// Number of a later one that does not
    #[arg(value_name = "BAD")]
    bad: u64,
    /// Public address of the stream, for one in a bucket
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// The command, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
    #[command(flatten)]
    stream: StreamArguments,
}

#[derive(Debug)]
pub(crate) struct Settings {
    good: u64,
    bad: u64,
    /// Ends in `/`.
    address: String,
    place: StreamPlace,
    command: Vec<OsString>,
    pub scratch: std::path::PathBuf,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        if arguments.good >= arguments.bad {
            return Err(Usage::new("GOOD is a lower number than BAD").into());
        }
        let place: StreamPlace = arguments.stream.try_into()?;
        let address = match (&arguments.url, &place.place) {
            (Some(url), _) if *url != address_without_user(url) => {
                let usage = Usage::new("`--url` has a user, and the pages of the command would have it too");
                return Err(usage.hint("name the user in a netrc file, which pip and uv read").into());
            }
            (Some(url), _) => url.to_string(),
            (None, StorePlace::Folder(path)) => {
                let path = rocwheel_system::canonicalize(path)?;
                let address = Url::from_directory_path(path).map_err(|()| Usage::new("the store has no address"))?;
                address.to_string()
            }
            (None, StorePlace::Bucket(_)) => {
                return Err(Usage::new("installers cannot read a bucket").hint("`--url` is its public address").into());
            }
        };
        let address = if address.ends_with('/') { address } else { format!("{address}/") };
        let (good, bad, command) = (arguments.good, arguments.bad, arguments.command);
        Ok(Self { good, bad, address, place, command, scratch: environment::scratch() })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
    Unknown,
}

/// Finds the first bad publication.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let store = settings.place.place.open(printer)?;
    let name = &settings.place.name;
    let rows = history(&*store, name, printer.reporter())?;
    let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
    for number in [settings.good, settings.bad] {
        if !numbers.contains(&number) {
            let usage = Usage::new(format!("`{name}` has no snapshot {number}"));
            return Err(usage.hint("`rocwheel release list` prints those that exist").into());
        }
    }
    let scratch = environment::scratch_below(&settings.scratch)?;
    let mut tried: BTreeMap<u64, Verdict> = BTreeMap::new();
    let (mut good, mut bad) = (settings.good, settings.bad);
    loop {
        let between = numbers.iter().filter(|number| (good + 1..bad).contains(*number));
        let open: Vec<u64> = between.filter(|number| !tried.contains_key(*number)).copied().collect();
        let Some(number) = open.get(open.len() / 2).copied() else { break };
        printer.reporter().check()?;
        let verdict = try_snapshot(settings, &*store, number, scratch.path(), printer)?;
        tried.insert(number, verdict);
        match verdict {
            Verdict::Good => good = number,
            Verdict::Bad => bad = number,
            Verdict::Unknown => {}
        }
    }
    let stream = Stream::existing(&*store, name)?;
    let changes = SnapshotChanges::between(&stream.snapshot(good)?, &stream.snapshot(bad)?);
    let action = rows.iter().find(|row| row.number == bad).map(|row| row.action.clone()).unwrap_or_default();
    // All that are left between the two were tried.
    let untested: Vec<u64> = numbers.iter().filter(|number| (good + 1..bad).contains(*number)).copied().collect();
    let exit = if untested.is_empty() { Exit::Done } else { Exit::Partial };
    if printer.format() == ResultFormat::Json {
        let document = serde_json::json!({
            "good": good, "bad": bad, "action": action, "untested": untested, "changes": changes,
        });
        printer.json(&document)?;
        return Ok(exit);
    }
    diff::show(&changes, printer)?;
    if untested.is_empty() {
        printer.note(format!("{good} is good, {bad} is bad: {action}"));
        return Ok(exit);
    }
    printer.note(format!("{good} is good, {bad} is bad, and nothing between them could be tested"));
    printer.line("the first bad publication is one of these:")?;
    for row in rows.iter().filter(|row| untested.contains(&row.number) || row.number == bad) {
        printer.line(format!("{} {}", row.number, row.action))?;
    }
    Ok(exit)
}

fn try_snapshot(
    settings: &Settings,
    store: &dyn Store,
    number: u64,
    scratch: &Path,
    printer: &Printer,
) -> Result<Verdict> {
    let manifest: SnapshotManifest = Stream::existing(store, &settings.place.name)?.snapshot(number)?;
    let folder = scratch.join(number.to_string());
    write_dated_index(&manifest, &settings.address, &BTreeMap::new(), &folder)?;
    let index = Url::from_directory_path(&folder).map_err(|()| Failure::message("the folder has no address"))?;
    let mut command = install_command(&settings.command, &index)?;
    command.env("ROCWHEEL_SNAPSHOT", number.to_string()).env("UV_EXCLUDE_NEWER", after(&manifest));
    let (verdict, word) = match run_command(command)? {
        0 => (Verdict::Good, "good"),
        SKIP => (Verdict::Unknown, "cannot tell"),
        _ => (Verdict::Bad, "bad"),
    };
    printer.note(format!("snapshot {number} of {}: {word}", manifest.created));
    Ok(verdict)
}

/// A command of the user that installs from an index.
pub(super) fn install_command(words: &[OsString], index: &Url) -> Result<Command> {
    let (program, words) = words.split_first().ok_or_else(|| Usage::new("there is no command"))?;
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    // The output of this command is data.
    command.stdout(Stdio::from(std::io::stderr()));
    command.env("PIP_INDEX_URL", index.as_str()).env("UV_DEFAULT_INDEX", index.as_str());
    Ok(command)
}

/// Runs it. The answer is its exit code.
pub(super) fn run_command(mut command: Command) -> Result<i32> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("cannot start `{program}`"))?;
    status.code().ok_or_else(|| Failure::message(format!("a signal ended `{program}`")))
}

/// The first second after a publication: uv leaves out what is not older than this.
fn after(manifest: &SnapshotManifest) -> String {
    manifest.created.checked_add(jiff::SignedDuration::from_secs(1)).unwrap_or(manifest.created).to_string()
}
