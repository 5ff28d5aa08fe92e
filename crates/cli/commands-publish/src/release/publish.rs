//! `rocwheel release publish`: adds built files to a stream.

mod complete;
pub(super) mod installation;
pub(super) mod outside;
mod public_names;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use comfy_table::CellAlignment::{Left, Right};
use rocwheel_audit::{ExtraCheck, Options};
use rocwheel_choose::{InstallReport, PublicName};
use rocwheel_commands_wheel::audit::ignored;
use rocwheel_commands_wheel::reuse::own_records;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_console::message;
use rocwheel_console::printer::{Column, Printer, ResultFormat};
use rocwheel_console::store::{BucketOptions, StorePlace};
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_output::Mode;
use rocwheel_progress::Exit;
use rocwheel_release::{AllowedGap, PublicationPlan, PublishOptions, Published, plan_publication, publish, read_set};
use rocwheel_store::{FolderStore, Store};
use rocwheel_stream::{Stream, UnsignedChange, VersionKind};
use url::Url;

use self::complete::IncompleteSet;
use self::installation::InstallGate;
use super::gate::{GateArguments, GateSettings};
use super::set_audit::{SetAudit, StreamWheels};
use super::stream::{ChangeArguments, ChangeSettings, StreamPlace};

const COLUMNS: [Column; 4] = [("File", Left), ("Project", Left), ("Size", Right), ("Status", Left)];

/// Publish built files as a set, all or nothing
///
/// A stream is a package index in a folder of the store. The set has to be installable from the
/// set and the stream alone, with every extra, for every Python and system that it has files for;
/// it has to have what the version before has; and its wheels are audited. Then files are uploaded,
/// and pages change: packages that others require first, those that people ask for last. Each
/// publication has a number and a signed snapshot. A signed snapshot also says how rocwheel packed
/// the wheels, if this machine recorded it (`--reuse-key` of `rocwheel package`).
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder with wheels and source distributions
    #[arg(value_name = "DIST")]
    dist: PathBuf,
    /// Where the stream is
    #[arg(long, value_name = "DIR|STORE")]
    to: OsString,
    /// Name of the stream, which becomes a folder of the store, such as `nightly`
    #[arg(long, value_name = "NAME")]
    stream: String,
    /// Name of the set [default: that of its entry point and version, such as `rocm-7.2.0`]
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Add the files to a published set, such as PyTorch to ROCm
    #[arg(long, value_name = "SET", conflicts_with = "set")]
    join: Option<String>,
    /// Projects that installers get from another index, such as `numpy`: names or patterns
    #[arg(long, value_name = "PATTERN", num_args = 1.., value_delimiter = ',')]
    outside: Vec<String>,
    /// Accept what is refused otherwise
    #[arg(long, value_name = "KIND", num_args = 1..)]
    allow: Vec<GapArgument>,
    /// Leave out Pythons and GPU targets of which something is missing: their packages, extras and
    /// requirements; exit code 3 if there are any
    #[arg(long)]
    drop_incomplete: bool,
    /// Findings of the audit to ignore, separated by commas, as in `rocwheel audit`
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Folder with wheels that the set requires and the stream has, so that the audit does not
    /// download them; may be repeated
    #[arg(long, value_name = "DIR")]
    with: Vec<PathBuf>,
    /// Write a description of the pieces of each wheel beside it, with which `release get`
    /// downloads only what is new
    #[arg(long)]
    delta: bool,
    /// Public address of the stream: after publishing, uv or pip installs the set from it in
    /// thought, with hashes required
    #[arg(long, value_name = "URL")]
    verify_url: Option<Url>,
    /// Index that others can publish to, such as PyPI: warns of names of the set that are free
    /// there or that have files which installers with both indexes would take
    #[arg(long, value_name = "URL|DIR")]
    public_index: Option<OsString>,
    /// Directory for unpacked and downloaded files [default: the system's directory for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    change: ChangeArguments,
    #[command(flatten)]
    bucket: BucketOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GapArgument {
    /// Fewer extras, Pythons or systems than the version before
    Fewer,
    /// Pythons that some compiled packages have, and others have not
    Holes,
    /// Versions of an older line than the stream's newest
    Older,
    /// Versions that sort before the stream's newest of the same line
    Misordered,
    /// Final versions and pre-releases of one project
    Mixed,
    /// A change without a key of a stream that was signed until now
    Unsigned,
}

impl GapArgument {
    /// Gaps that the user accepts.
    pub(super) fn allowed(arguments: &[GapArgument]) -> BTreeSet<AllowedGap> {
        let allowed = arguments.iter().filter_map(|argument| match argument {
            GapArgument::Fewer => Some(AllowedGap::Fewer),
            GapArgument::Holes => Some(AllowedGap::Holes),
            GapArgument::Older => Some(AllowedGap::Older),
            GapArgument::Misordered => Some(AllowedGap::Misordered),
            GapArgument::Mixed => Some(AllowedGap::Mixed),
            GapArgument::Unsigned => None,
        });
        allowed.collect()
    }

    /// What the user accepts of the signature.
    pub(super) fn unsigned(arguments: &[GapArgument]) -> UnsignedChange {
        if arguments.contains(&GapArgument::Unsigned) { UnsignedChange::Accept } else { UnsignedChange::Refuse }
    }
}

#[derive(Debug)]
pub(crate) struct Settings {
    gate: GateSettings,
    drop_incomplete: bool,
    dist: PathBuf,
    place: StreamPlace,
    options: PublishOptions,
    audit: Options,
    with: Vec<PathBuf>,
    delta: bool,
    verify_url: Option<Url>,
    public_index: Option<OsString>,
    bucket: BucketOptions,
    change: ChangeSettings,
    pub scratch: PathBuf,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        let (ignore, ignore_in) = ignored(&arguments.ignore)?;
        let outside = arguments.outside;
        Ok(Self {
            dist: arguments.dist,
            place: StreamPlace::new(arguments.to, arguments.stream, &arguments.bucket)?,
            options: PublishOptions {
                set: arguments.set,
                join: arguments.join,
                outside,
                allowed: GapArgument::allowed(&arguments.allow),
                ..PublishOptions::default()
            },
            gate: arguments.gate.try_into()?,
            drop_incomplete: arguments.drop_incomplete,
            audit: Options {
                extras: BTreeSet::from([ExtraCheck::Hashes]),
                ignore,
                ignore_in,
                cache: environment::facts(),
                ..Options::default()
            },
            with: arguments.with,
            delta: arguments.delta,
            verify_url: arguments.verify_url,
            public_index: arguments.public_index,
            bucket: arguments.bucket,
            change: arguments.change.settings(GapArgument::unsigned(&arguments.allow))?,
            scratch: arguments.scratch.unwrap_or_else(environment::scratch),
        })
    }
}

/// Publishes, or prints what would be published.
pub(crate) fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let local = read_set(&settings.dist, printer.reporter())?;
    for archive in &local.ignored {
        printer.note(format!("`{archive}` is no Python package and is not published"));
    }
    let scratch = environment::scratch_below(&settings.scratch)?;
    let is_dry = settings.change.mode == Mode::DryRun;
    let missing = match &settings.place.place {
        StorePlace::Folder(path) if !path.exists() => Some(path),
        StorePlace::Folder(_) | StorePlace::Bucket(_) => None,
    };
    let store: Box<dyn Store> = match missing {
        // An empty folder answers as the missing one would, which is made when all is well.
        Some(_) => Box::new(FolderStore::open(scratch.path())?),
        None => settings.place.place.open(printer)?,
    };
    let change = settings.change.change(&settings.place.name);
    let stream = Stream::read(&*store, &settings.place.name)?;
    let mut options = settings.options.clone();
    let mut local = if settings.drop_incomplete {
        let work = IncompleteSet { stream: &stream, change: &change, settings, scratch: scratch.path() };
        complete::complete(local, &mut options, &work, printer)?
    } else {
        local
    };
    let is_whole = options.dropped.is_empty() && options.dropped_pythons.is_empty();
    let exit = if is_whole { Exit::Done } else { Exit::Partial };
    let plan = plan_publication(&stream, &local, &options, &change)?;
    if local.has_attestations() && stream.settings.address.is_none() {
        printer.warn("attestations (`*.provenance`) are not on the pages: `address` of stream.toml is missing");
    }
    for text in &plan.accepted {
        printer.warn(format!("accepted: {text}"));
    }
    if plan.number == 1 && stream.settings.kind.is_none() {
        tell_kind(&settings.place.name, &plan.document.kinds(), printer);
    }
    let audit = SetAudit {
        beside: StreamWheels { store: &*store, with: &settings.with, scratch: scratch.path() },
        local: &local,
        plan: &plan,
        options: &settings.audit,
    };
    audit.run(printer)?;
    let asked = match &settings.public_index {
        Some(index) => Some(public_names::guard(&plan.document, index, &settings.bucket, printer)?),
        None => None,
    };
    let installation = InstallGate {
        stream: &stream,
        place: &settings.place.place,
        address: settings.verify_url.as_ref(),
        local: &local,
        set: &plan.set,
        asked: asked.as_ref(),
        scratch: scratch.path(),
    };
    let installed = installation.decide(printer)?;
    let found = Found { names: asked.map(|asked| asked.names).unwrap_or_default(), installed };
    let gate = settings.gate.decide(&stream, &plan.document, &settings.change)?;
    if let Some(gate) = &gate {
        gate.refuse(printer)?;
    }
    if is_dry {
        show(&plan, None, &found, printer)?;
        return Ok(exit);
    }
    settings.change.warn_unsigned(printer);
    let store = match missing {
        Some(path) => {
            fs_err::create_dir_all(path)?;
            settings.place.place.open(printer)?
        }
        None => store,
    };
    // Without a signature, nobody would trust a record.
    if settings.change.is_signed() {
        let own = own_records();
        local.record_packing(|path| own.record_of(path));
    }
    if settings.delta {
        local.describe_pieces(printer.reporter())?;
    }
    options.statements = gate.map(|gate| gate.statements).unwrap_or_default();
    let published = publish(&*store, &local, &options, &change, printer.reporter())?;
    printer.outputs(&[("set", &published.plan.set), ("snapshot", &published.plan.number.to_string())])?;
    if let Some(url) = &settings.verify_url {
        outside::resolve(url, &published.plan.document, settings.change.patience, scratch.path(), printer)?;
    }
    show(&published.plan, Some(&published), &found, printer)?;
    Ok(exit)
}

/// Says of a first publication what the stream is for from now on, and warns where its name says
/// something else.
fn tell_kind(stream: &str, kinds: &BTreeSet<VersionKind>, printer: &Printer) {
    let Some(kind) = kinds.first().filter(|_| kinds.len() == 1).map(|kind| kind.word()) else { return };
    let named = VersionKind::ALL.map(VersionKind::word).into_iter().find(|word| stream.ends_with(word));
    match named.filter(|named| *named != kind) {
        Some(named) => printer.warn(format!(
            "the first versions of `{stream}` are of kind {kind}: those of kind {named} will be refused beside them. \
             `kind = \"{named}\"` in `{stream}/.release/stream.toml` refuses the others instead"
        )),
        None => printer.note(format!(
            "first publication of `{stream}`, of kind {kind}; `kind = \"{kind}\"` in `{stream}/.release/stream.toml` \
             keeps others out"
        )),
    }
}

/// The public index and the installers about the set.
struct Found {
    names: Vec<PublicName>,
    installed: Option<InstallReport>,
}

fn show(plan: &PublicationPlan, published: Option<&Published>, found: &Found, printer: &Printer) -> Result<()> {
    if printer.format() == ResultFormat::Json {
        return printer.json(&serde_json::json!({
            "published": published.is_some(),
            "uploaded": published.map_or(0, |published| published.uploaded),
            "pages": published.map(|published| &published.pages[..]).unwrap_or_default(),
            "deltas": published.map(|published| &published.deltas[..]).unwrap_or_default(),
            "recorded": published.map_or(0, |published| published.recorded),
            "repaired": published.map(|published| &published.repaired[..]).unwrap_or_default(),
            "signed": published.and_then(|published| published.signed),
            "public-names": found.names,
            "install-check": found.installed,
            "plan": plan,
        }));
    }
    let unchanged = plan.unchanged.iter().map(|key| (key, "there already"));
    let rows = plan.new.iter().map(|key| (key, "new")).chain(unchanged).map(|(key, word)| {
        let size = plan.document.files.get(key).map_or(0, |file| file.size);
        vec![file_name(key).to_owned(), parent(key).to_owned(), message::bytes(size), word.to_owned()]
    });
    printer.table(&COLUMNS, rows)?;
    let (files, size) = (message::count(plan.new.len() as u64, "file", "files"), message::bytes(plan.bytes));
    printer.note(match published {
        Some(Published { signed: Some(number), .. }) => {
            format!("`{}` is published already; snapshot {number} signs it", plan.set)
        }
        Some(published) if published.pages.is_empty() => format!("`{}` is published already", plan.set),
        Some(published) => {
            let pages = message::count(published.pages.len() as u64, "page", "pages");
            format!("`{}` published as number {}: {files} ({size}), {pages} written", plan.set, plan.number)
        }
        None => format!("`{}` would be published as number {}: {files} ({size})", plan.set, plan.number),
    });
    if let Some(deltas) = published.map(|published| published.deltas.len()).filter(|deltas| *deltas > 0) {
        let wheels = message::count(deltas as u64, "wheel", "wheels");
        printer.note(format!("{wheels} described for `rocwheel release get`"));
    }
    if let Some(recorded) = published.map(|published| published.recorded).filter(|recorded| *recorded > 0) {
        let wheels = message::count(recorded as u64, "wheel", "wheels");
        printer.note(format!("{wheels} recorded for `--reuse` on other machines"));
    }
    Ok(())
}
