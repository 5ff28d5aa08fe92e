//! A set moves from one stream of a store to another and gets the version of a release.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_attest::{STATEMENT_PAYLOAD, SignedEnvelope};
use rocwheel_audit::AuditScope;
use rocwheel_audit::written::WheelSet;
use rocwheel_commands_wheel::last_look::{self, Look};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::store::{BucketOptions, StorePlace};
use rocwheel_content::archive_path::file_name;
use rocwheel_index::address_without_user;
use rocwheel_output::Mode;
use rocwheel_output::{StagedFile, StagingFolder};
use rocwheel_progress::{Context as _, Exit};
use rocwheel_promote::{Promoted, PromotionPlan, PromotionRequest, VersionChange, plan_promotion, promote_into};
use rocwheel_release::{
    LocalSet, NativeCopy, PublicationPlan, PublishOptions, Published, StoredSet, carry_attestations, find_set,
    plan_promoted, plan_publication, planned_manifest, publish, read_promoted, stored_set,
};
use rocwheel_store::Store;
use rocwheel_stream::{Stream, write_dated_index};
use rocwheel_wheel::WheelName;
use url::Url;

use super::native::{self, NativeArguments, NativeSettings};
use crate::release::bisect::{install_command, run_command};
use crate::release::gate::{Gate, GateArguments, GateSettings};
use crate::release::publish::installation::InstallGate;
use crate::release::publish::{GapArgument, outside};
use crate::release::set_audit::StreamWheels;
use crate::release::stream::{ChangeSettings, SigningArguments, StreamPlace};

/// Options of a promotion between streams.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Between streams")]
pub(super) struct BetweenArguments {
    /// Folder, or s3://BUCKET/PREFIX, with both streams
    #[arg(long, value_name = "DIR|STORE", requires = "from")]
    store: Option<OsString>,
    /// The stream that has the set, such as `staging`
    #[arg(long, value_name = "STREAM", requires_all = ["store", "to"],
          conflicts_with_all = ["folder", "output", "force", "remove_old", "set_version"])]
    from: Option<String>,
    /// The stream that gets it, such as `release`
    #[arg(long, value_name = "STREAM", requires = "from")]
    to: Option<String>,
    /// The set [default: the only one with a candidate of VERSION]
    #[arg(long, value_name = "SET", requires = "from")]
    set: Option<String>,
    /// Add the files to a set that the second stream has
    #[arg(long, value_name = "SET", requires = "from")]
    join: Option<String>,
    /// Accept what `release publish` refuses otherwise
    #[arg(long, value_name = "KIND", num_args = 1.., requires = "from")]
    allow: Vec<GapArgument>,
    /// Projects that installers get from another index, such as `numpy`: names or patterns
    #[arg(long, value_name = "PATTERN", num_args = 1.., value_delimiter = ',', requires = "from")]
    outside: Vec<String>,
    /// Say for each suite and target why the set may go out or not, and change nothing
    #[arg(long, requires = "from")]
    explain: bool,
    #[command(flatten)]
    native: NativeArguments,
    /// Write a description of the pieces of each wheel beside it, for `release get`
    #[arg(long, requires = "from")]
    delta: bool,
    /// Public address of the second stream: afterwards, uv or pip installs the set from it in
    /// thought, with hashes required
    #[arg(long, value_name = "URL", requires = "from")]
    verify_url: Option<Url>,
    /// Directory for unpacked and downloaded files [default: the system's directory for temporary
    /// files]
    #[arg(long, value_name = "DIR", requires = "from")]
    scratch: Option<PathBuf>,
    /// Command that tries the promoted set before it is published, after `--`; PIP_INDEX_URL and
    /// UV_DEFAULT_INDEX have the address of the second stream with the set
    #[arg(last = true, value_name = "COMMAND", requires = "from")]
    command: Vec<OsString>,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    signing: SigningArguments,
    #[command(flatten)]
    bucket: BucketOptions,
}

/// What a promotion between streams works with.
#[derive(Debug)]
pub(super) struct Settings {
    store: StorePlace,
    from: StreamPlace,
    to: StreamPlace,
    set: Option<String>,
    join: Option<String>,
    allow: Vec<GapArgument>,
    outside: Vec<String>,
    explain: bool,
    native: Option<NativeSettings>,
    delta: bool,
    verify_url: Option<Url>,
    scratch: PathBuf,
    command: Vec<OsString>,
    gate: GateSettings,
    change: ChangeSettings,
}

impl BetweenArguments {
    /// `None` for a promotion of a folder.
    pub(super) fn settings(&self, mode: Mode) -> Result<Option<Settings>> {
        let arguments = self.clone();
        let (Some(from), Some(to), Some(store)) = (arguments.from, arguments.to, arguments.store) else {
            return Ok(None);
        };
        if from == to {
            return Err(Usage::new("`--from` and `--to` name the same stream").into());
        }
        let native = arguments.native.settings(arguments.bucket.place(store.clone())?, &to)?;
        let change = ChangeSettings::new(&arguments.signing, GapArgument::unsigned(&arguments.allow), mode)?;
        Ok(Some(Settings {
            from: StreamPlace::new(store.clone(), from, &arguments.bucket)?,
            to: StreamPlace::new(store.clone(), to, &arguments.bucket)?,
            store: arguments.bucket.place(store.clone())?,
            set: arguments.set,
            join: arguments.join,
            allow: arguments.allow,
            outside: arguments.outside,
            explain: arguments.explain,
            native,
            delta: arguments.delta,
            verify_url: arguments.verify_url,
            scratch: arguments.scratch.unwrap_or_else(environment::scratch),
            command: arguments.command,
            gate: arguments.gate.try_into()?,
            change,
        }))
    }
}

/// The state in which a promotion is planned.
struct Work<'a> {
    general: &'a super::Settings,
    settings: &'a Settings,
    target: &'a dyn Store,
    scratch: &'a Path,
    printer: &'a Printer,
}

/// Promotes the set, or prints what would change, or why it may not go out.
pub(super) fn command(general: &super::Settings, settings: &Settings, printer: &Printer) -> Result<Exit> {
    let scratch = environment::scratch_below(&settings.scratch)?;
    let source_store = settings.from.place.open(printer)?;
    let source = Stream::existing(&*source_store, &settings.from.name)?;
    let target = settings.to.place.open_or_empty(scratch.path(), printer)?;
    let set = find_set(&source, settings.set.as_deref(), general.arguments.version.as_ref())?;
    let target_stream = Stream::read(&*target, &settings.to.name)?;
    let gate = settings.gate.decide(&target_stream, &set, &settings.change)?;
    if settings.explain {
        if let Some(gate) = gate {
            return gate.explain(printer);
        }
        printer.note(format!("`{}` may go out: `{}` requires no tests", set.name, settings.to.name));
        return Ok(Exit::Done);
    }
    let is_dry = settings.change.mode == Mode::DryRun;
    if let (Some(gate), false) = (&gate, is_dry) {
        gate.refuse(printer)?;
    }
    let stored = stored_set(&*source_store, set, scratch.path(), printer.reporter())?;
    let work = Work { general, settings, target: &*target, scratch: scratch.path(), printer };
    let (plan, options) = work.plan(&stored, &target_stream)?;
    if is_dry {
        return work.dry_run(&stored, &plan, &options, gate.as_ref());
    }
    drop(target_stream);
    work.promote(&stored, &plan, options, gate)
}

impl Work<'_> {
    /// The plan of the promotion, which would be accepted as far as it is known before the files
    /// exist.
    fn plan(&self, stored: &StoredSet, target: &Stream<'_>) -> Result<(PromotionPlan, PublishOptions)> {
        let published: Vec<String> = target.manifest.files.keys().map(|key| file_name(key).to_owned()).collect();
        let shown = PathBuf::from(format!("{} of {}", stored.set.name, self.settings.from.name));
        let request = PromotionRequest {
            folder: &shown,
            files: Some(&stored.paths),
            old: None,
            published: &published,
            ..self.general.request()
        };
        let plan = plan_promotion(&request, &self.general.write.reuse, self.printer.reporter())?;
        let set = match (&self.settings.join, plan.from.parse(), plan.to.parse()) {
            (None, Ok(from), Ok(to)) => Some(VersionChange::new(&from, &to)?.replaced(&stored.set.name)),
            _ => None,
        };
        let options = PublishOptions {
            set,
            join: self.settings.join.clone(),
            outside: self.settings.outside.clone(),
            allowed: GapArgument::allowed(&self.settings.allow),
            ..PublishOptions::default()
        };
        let planned = plan_promoted(&plan, &stored.set, &target.manifest);
        let change = self.settings.change.change(&self.settings.to.name);
        plan_publication(target, &planned, &options, &change)?;
        Ok((plan, options))
    }

    fn dry_run(
        &self,
        stored: &StoredSet,
        plan: &PromotionPlan,
        options: &PublishOptions,
        gate: Option<&Gate>,
    ) -> Result<Exit> {
        let (settings, printer) = (self.settings, self.printer);
        let target = Stream::read(self.target, &settings.to.name)?;
        let planned = plan_promoted(plan, &stored.set, &target.manifest);
        let publication = plan_publication(&target, &planned, options, &settings.change.change(&settings.to.name))?;
        let native = self.native()?;
        if target.settings.install_check.is_some() {
            printer.note("`[install-check]` of the stream was not asked: it takes the files, which are not written");
        }
        if printer.format() == ResultFormat::Json {
            printer.json(&serde_json::json!({
                "published": false,
                "plan": plan,
                "set": publication.set,
                "snapshot": publication.number,
                "added": publication.new,
                "native": native,
                "gate": gate.map(|gate| &gate.decision),
            }))?;
        } else {
            super::show(plan, Mode::DryRun, printer)?;
            for key in &publication.new {
                printer.line(format!("added {key}"))?;
            }
            native::show(native.as_ref(), Mode::DryRun, printer);
            let (set, name, number) = (&publication.set, &settings.to.name, publication.number);
            printer.note(format!("`{set}` would be published in `{name}` as number {number}"));
        }
        match gate {
            Some(gate) => gate.refuse(printer).map(|()| Exit::Done),
            None => Ok(Exit::Done),
        }
    }

    /// Writes the files, tries them, and publishes them.
    fn promote(
        &self,
        stored: &StoredSet,
        plan: &PromotionPlan,
        mut options: PublishOptions,
        gate: Option<Gate>,
    ) -> Result<Exit> {
        let (settings, printer, reporter) = (self.settings, self.printer, self.printer.reporter());
        let staging = match &settings.store {
            // Beside the stream, so that its folder links the files and no second copy is written.
            StorePlace::Folder(path) => StagingFolder::new_in(path, ".rocwheel-"),
            StorePlace::Bucket(_) => StagingFolder::new_in(self.scratch, "promoted-"),
        };
        let staging = staging.with_context(|| "cannot make a folder for the promoted files".to_owned())?;
        let (promoted, statement) = promote_into(plan, staging.path(), &self.general.write, reporter)?;
        check_sources(stored, &promoted)?;
        let left = carry_attestations(&promoted, staging.path(), |name| stored.provenance.get(name).cloned())?;
        if left > 0 {
            let files = message::count(left as u64, "file", "files");
            printer.note(format!("attestations of {files} are about the bytes before and were left behind"));
        }
        let mut local = read_promoted(staging.path(), &promoted, reporter)?;
        let change = settings.change.change(&settings.to.name);
        let target = Stream::read(self.target, &settings.to.name)?;
        let publication = plan_publication(&target, &local, &options, &change)?;
        for text in &publication.accepted {
            printer.warn(format!("accepted: {text}"));
        }
        self.audit(stored, plan, &local, &publication)?;
        let installation = InstallGate {
            stream: &target,
            place: &settings.to.place,
            address: settings.verify_url.as_ref(),
            local: &local,
            set: &publication.set,
            asked: None,
            scratch: self.scratch,
        };
        installation.decide(printer)?;
        if !settings.command.is_empty() {
            self.try_out(&target, &publication, &local)?;
        }
        drop(target);
        let statement = SignedEnvelope::seal(STATEMENT_PAYLOAD, statement.as_bytes(), settings.change.keys()).bytes();
        options.statements = gate.into_iter().flat_map(|gate| gate.statements).chain([statement]).collect();
        settings.change.warn_unsigned(printer);
        let native = self.native()?;
        let store: Box<dyn Store> = match &settings.to.place {
            StorePlace::Folder(path) => {
                fs_err::create_dir_all(path)?;
                settings.to.place.open(printer)?
            }
            StorePlace::Bucket(_) => settings.to.place.open(printer)?,
        };
        if settings.delta {
            local.describe_pieces(reporter)?;
        }
        let published = publish(&*store, &local, &options, &change, reporter)?;
        let (set, number) = (&published.plan.set, published.plan.number.to_string());
        printer.outputs(&[("set", set), ("snapshot", &number)])?;
        if let Some(url) = &settings.verify_url {
            outside::resolve(url, &published.plan.document, settings.change.patience, self.scratch, printer)?;
        }
        self.show(plan, &promoted, &published, native.as_ref())?;
        Ok(Exit::Done)
    }

    /// Publishes the native packages, or looks what there is for a dry run.
    fn native(&self) -> Result<Option<NativeCopy>> {
        let Some(settings) = &self.settings.native else { return Ok(None) };
        native::publish(settings, &self.settings.change, self.scratch, self.printer).map(Some)
    }

    /// Audits names and RECORD of the wheels of each environment, because nothing else can have
    /// changed.
    fn audit(
        &self,
        stored: &StoredSet,
        plan: &PromotionPlan,
        local: &LocalSet,
        publication: &PublicationPlan,
    ) -> Result<()> {
        let paths: BTreeMap<&str, &Path> = local.paths().collect();
        let sources: BTreeMap<&str, &Path> =
            plan.files.iter().filter_map(|file| Some((file.new_name.as_deref()?, file.path()))).collect();
        let beside = StreamWheels { store: self.target, with: &self.general.arguments.beside, scratch: self.scratch };
        let mut audited = BTreeSet::new();
        for environment in &publication.environments {
            let (mut wheels, mut before, mut others) = (Vec::new(), Vec::new(), Vec::new());
            for key in environment.files.iter().filter(|key| WheelName::is_wheel(key)) {
                match paths.get(key.as_str()) {
                    Some(path) => {
                        wheels.push(StagedFile { staged: (*path).to_owned(), place: file_name(key).into() });
                        before.extend(sources.get(file_name(key)).map(|path| (*path).to_owned()));
                    }
                    None => others.push(beside.wheel(key, self.printer)?),
                }
            }
            for key in environment.beside.iter().filter(|key| WheelName::is_wheel(key)) {
                others.push(beside.wheel(key, self.printer)?);
            }
            audited.extend(wheels.iter().map(|wheel| wheel.place.clone()));
            let set = WheelSet { wheels, beside: others, before, scope: AuditScope::Names, ..WheelSet::default() };
            let what = format!("`{}` for Python {}", stored.set.name, environment.python);
            let look = Look { set, what, scratch: self.scratch };
            last_look::look_at(&look, self.general.last_look, self.printer)?;
        }
        let wheels = message::count(audited.len() as u64, "wheel", "wheels");
        self.printer.detail(format!("audited, names and RECORD: no new errors in {wheels}"));
        Ok(())
    }

    /// Runs the user's command with an index of the stream as it would be.
    fn try_out(&self, target: &Stream<'_>, publication: &PublicationPlan, local: &LocalSet) -> Result<()> {
        let settings = self.settings;
        let files = match (&settings.to.place, &settings.verify_url) {
            (StorePlace::Folder(path), _) if path.is_dir() => folder_address(path)?,
            // Pages have no passwords; the command's installer finds the user in a netrc file.
            (_, Some(url)) => address_without_user(url),
            (StorePlace::Bucket(_), None) => {
                let usage = Usage::new("installers cannot read a bucket");
                return Err(usage.hint("`--verify-url` is the public address of the stream").into());
            }
            (StorePlace::Folder(_), None) => folder_address(self.scratch)?,
        };
        local.write_metadata()?;
        let mut staged = BTreeMap::new();
        for (key, path) in local.paths() {
            let address = Url::from_file_path(rocwheel_system::canonicalize(path)?);
            let address = address.map_err(|()| Failure::message("the folder has no address"))?;
            staged.insert(key.to_owned(), address.to_string());
        }
        let change = settings.change.change(&settings.to.name);
        let manifest = planned_manifest(target, publication, local, &change);
        let folder = self.scratch.join("index");
        let address = files.to_string();
        let address = if address.ends_with('/') { address } else { format!("{address}/") };
        write_dated_index(&manifest, &address, &staged, &folder)?;
        let mut command = install_command(&settings.command, &folder_address(&folder)?)?;
        command.env("ROCWHEEL_SET", &publication.set);
        match run_command(command)? {
            0 => Ok(()),
            code => {
                let program = settings.command[0].to_string_lossy().into_owned();
                let message = format!("nothing was published: `{program}` failed with exit code {code}");
                Err(Failure::message(message))
            }
        }
    }

    fn show(
        &self,
        plan: &PromotionPlan,
        promoted: &[Promoted],
        published: &Published,
        native: Option<&NativeCopy>,
    ) -> Result<()> {
        let (printer, publication) = (self.printer, &published.plan);
        if printer.format() == ResultFormat::Json {
            return printer.json(&serde_json::json!({
                "published": true,
                "plan": plan,
                "promoted": promoted,
                "set": publication.set,
                "snapshot": publication.number,
                "added": publication.new,
                "pages": published.pages,
                "repaired": published.repaired,
                "signed": published.signed,
                "native": native,
            }));
        }
        super::show(plan, Mode::Execute, printer)?;
        native::show(native, Mode::Execute, printer);
        let (name, files) = (&self.settings.to.name, message::count(publication.new.len() as u64, "file", "files"));
        let bytes = message::bytes(publication.bytes);
        printer.note(if let Some(number) = published.signed {
            format!("`{}` is published already in `{name}`; snapshot {number} signs it", publication.set)
        } else if published.pages.is_empty() {
            format!("`{}` is published already in `{name}`", publication.set)
        } else {
            format!(
                "`{}` published in `{name}` as number {}: {files} ({bytes}), {} → {}",
                publication.set, publication.number, plan.from, plan.to
            )
        });
        Ok(())
    }
}

fn folder_address(folder: &Path) -> Result<Url> {
    let address = Url::from_directory_path(rocwheel_system::canonicalize(folder)?);
    address.map_err(|()| Failure::message("the folder has no address"))
}

/// The files that were read are those that were published.
fn check_sources(stored: &StoredSet, promoted: &[Promoted]) -> Result<()> {
    let sources = promoted.iter().filter_map(|file| file.source.as_ref());
    let read: BTreeMap<&str, &str> = sources.map(|file| (file.name.as_str(), file.sha256.as_str())).collect();
    Ok(stored.check(&read)?)
}
