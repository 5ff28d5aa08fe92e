//! `rocwheel edit`: changes version, tags, requirements and more of finished wheels and source
//! distributions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use rocwheel_archive::{FileDigest, WriteOptions};
use rocwheel_audit::AuditScope;
use rocwheel_audit::written::{Verdict, WheelSet};
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_console::{environment, message};
use rocwheel_edit::{
    self as edit, BuildEdit, EditPlacement, Edited, ExtraEdit, FieldEdit, Pins, Plan, RecordEdit, RequirementEdit,
    SearchPathEdit, TagEdit, VersionEdit, WheelEdit,
};
use rocwheel_output::Mode;
use rocwheel_output::{Destination, StagedFile, StagingFolder};
use rocwheel_progress::Exit;
use rocwheel_wheel::MemberPattern;
use rocwheel_wheel::requirement::WrittenRequirement;
use rocwheel_wheel::{Existing, TagPart, WheelName};
use serde::Serialize;

use crate::last_look::{self, LastLook, LastLookArguments, Look};

/// Number of places per file that text output shows with the old version.
const SHOWN: usize = 12;
/// Number of characters of a line that are shown: generated files have long ones.
const SHOWN_OF_LINE: usize = 120;

/// Change version, tags, requirements and more of finished wheels and source distributions
///
/// Everything else keeps its packed bytes, so an edit takes about as long as a copy of the file.
/// File name, .dist-info and .data folders, METADATA, WHEEL and RECORD stay consistent. Repeating
/// an edit changes nothing.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Wheels and source distributions (.tar.gz)
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Directory for the results
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["in_place", "dry_run"])]
    output: Option<PathBuf>,
    /// Replace each input when its result is complete; an input whose name changes is removed
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    /// Replace existing files with the name of a result
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    last_look: LastLookArguments,
    /// Print what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    version: VersionArguments,
    #[command(flatten)]
    tags: TagArguments,
    #[command(flatten)]
    metadata: MetadataArguments,
    #[command(flatten)]
    members: MemberArguments,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Name and version")]
struct VersionArguments {
    /// Set the version, in the canonical form of PEP 440
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["local_version", "no_local"])]
    version: Option<String>,
    /// Set the part of the version behind `+`
    #[arg(long, value_name = "LOCAL", conflicts_with = "no_local")]
    local_version: Option<String>,
    /// Remove the `+` of the version and what follows
    #[arg(long)]
    no_local: bool,
    /// Set the name of the distribution; the packages in it keep theirs
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    /// Also replace the old version in the members that match
    #[arg(long, value_name = "GLOB")]
    also_in: Vec<String>,
    /// Change requirements `==OLD` on distributions of the same release to `==NEW`
    #[arg(long)]
    pin_siblings: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Tags of wheels, as `wheel tags` takes them: A.B these, +A one more, -A one less")]
struct TagArguments {
    /// Interpreters: cp312, +cp313
    #[arg(long, value_name = "TAGS", allow_hyphen_values = true)]
    python_tag: Option<String>,
    /// ABIs: abi3, none
    #[arg(long, value_name = "TAGS", allow_hyphen_values = true)]
    abi_tag: Option<String>,
    /// Platforms: manylinux_2_28_x86_64
    #[arg(long, value_name = "TAGS", allow_hyphen_values = true)]
    platform_tag: Option<String>,
    /// Set the build tag, which begins with a digit; an empty one removes it
    #[arg(long, value_name = "BUILD")]
    build: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Requirements and metadata")]
struct MetadataArguments {
    /// Add a requirement (PEP 508)
    #[arg(long, value_name = "REQUIREMENT")]
    requires: Vec<String>,
    /// Remove the requirements on this distribution
    #[arg(long, value_name = "NAME")]
    remove_requires: Vec<String>,
    /// Replace the requirements on the same distribution; markers stay unless this has one
    #[arg(long, value_name = "REQUIREMENT")]
    replace_requires: Vec<String>,
    /// Add an extra, or a requirement to an extra
    #[arg(long, value_name = "NAME[:REQUIREMENT]")]
    add_extra: Vec<String>,
    /// Remove an extra, and what only it requires
    #[arg(long, value_name = "NAME")]
    remove_extra: Vec<String>,
    /// Set a field of METADATA; += adds one more value, and nothing behind the = removes the field
    #[arg(long, value_name = "FIELD=VALUE")]
    metadata: Vec<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Members; a GLOB without a slash means file names in any folder")]
struct MemberArguments {
    /// Set the search path of libraries and programs, with colons: '*.so=$ORIGIN:$ORIGIN/../lib'
    #[arg(long, value_name = "GLOB=PATHS")]
    rpath: Vec<String>,
    /// Remove the search path of these libraries and programs
    #[arg(long, value_name = "GLOB")]
    remove_rpath: Vec<String>,
    /// Remove absolute entries from the search paths of libraries and programs
    #[arg(long)]
    drop_absolute_rpath: bool,
    /// Remove members
    #[arg(long, value_name = "GLOB")]
    drop: Vec<String>,
    /// Rewrite RECORD if it lacks hashes or files; every other edit does that too
    #[arg(long)]
    record: bool,
    /// Directory for large temporary files; cleaned up afterwards [default: the output's]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Settings {
    files: Vec<PathBuf>,
    edit: WheelEdit,
    destination: Destination,
    existing: Existing,
    pub mode: Mode,
    pub last_look: LastLook,
    pub scratch: PathBuf,
    write: WriteOptions,
}

impl TryFrom<Arguments> for Settings {
    type Error = Failure;

    fn try_from(arguments: Arguments) -> Result<Self> {
        for file in &arguments.files {
            if !WheelName::is_wheel(file) && !file.to_string_lossy().ends_with(".tar.gz") {
                let message = format!("`{}` is neither a wheel nor a source distribution by its name", file.display());
                return Err(Usage::new(message).hint("wheels end in `.whl`, source distributions in `.tar.gz`").into());
            }
        }
        let mode = Mode::new(arguments.dry_run);
        let destination = match (arguments.output, mode) {
            (Some(folder), _) => Destination::Folder(folder),
            // A dry run writes nothing, so the destination does not matter.
            (None, _) => Destination::InPlace,
        };
        let beside = match (&destination, mode) {
            (Destination::Folder(folder), Mode::Execute) => Some(folder.as_path()),
            (Destination::InPlace, Mode::Execute) => Some(arguments.files[0].as_path()),
            (_, Mode::DryRun) => None,
        };
        let scratch = environment::scratch_near(arguments.members.scratch.as_deref(), beside);
        Ok(Self {
            files: arguments.files,
            edit: read_edit(&arguments.version, &arguments.tags, &arguments.metadata, &arguments.members)?,
            destination,
            existing: if arguments.force { Existing::Replace } else { Existing::Refuse },
            mode,
            last_look: arguments.last_look.choice(),
            scratch,
            // The hash of the whole file would take longer than everything else together.
            write: WriteOptions { epoch: environment::epoch()?, digest: FileDigest::Skip, ..WriteOptions::default() },
        })
    }
}

fn read_edit(
    version: &VersionArguments,
    tags: &TagArguments,
    metadata: &MetadataArguments,
    members: &MemberArguments,
) -> Result<WheelEdit, Usage> {
    fn all<T>(texts: &[String], read: impl Fn(&str) -> Result<T, rocwheel_wheel::Error>) -> Result<Vec<T>, Usage> {
        texts.iter().map(|text| read(text).map_err(|error| Usage::of(&error))).collect()
    }
    fn one<T>(
        text: Option<&String>,
        read: impl Fn(&str) -> Result<T, rocwheel_wheel::Error>,
    ) -> Result<Option<T>, Usage> {
        text.map(|text| read(text).map_err(|error| Usage::of(&error))).transpose()
    }
    let new_version = match (&version.version, &version.local_version, version.no_local) {
        (Some(version), _, _) => Some(VersionEdit::set(version).map_err(|error| Usage::of(&error))?),
        (None, Some(local), _) => Some(VersionEdit::local(local).map_err(|error| Usage::of(&error))?),
        (None, None, true) => Some(VersionEdit::NoLocal),
        (None, None, false) => None,
    };
    if new_version.is_none() && (version.pin_siblings || !version.also_in.is_empty()) {
        let flag = if version.pin_siblings { "--pin-siblings" } else { "--also-in" };
        return Err(Usage::new(format!("`{flag}` does nothing without another version"))
            .hint("add `--version`, `--local-version` or `--no-local`"));
    }
    // Removals come first, so that additions are kept.
    let mut requirements: Vec<RequirementEdit> = all(&metadata.remove_requires, |name| {
        rocwheel_wheel::check_name(name).map(|()| RequirementEdit::Remove(name.to_owned()))
    })?;
    let parse = WrittenRequirement::parse;
    requirements.extend(all(&metadata.replace_requires, |text| parse(text).map(RequirementEdit::Replace))?);
    requirements.extend(all(&metadata.requires, |text| parse(text).map(RequirementEdit::Add))?);
    let mut extras = all(&metadata.remove_extra, ExtraEdit::remove)?;
    extras.extend(all(&metadata.add_extra, ExtraEdit::add)?);
    // The last of several edits of one file wins, so edits of named files come after those of all
    // files.
    let mut search_paths = Vec::new();
    if members.drop_absolute_rpath {
        search_paths.push(SearchPathEdit::drop_absolute().map_err(|error| Usage::of(&error))?);
    }
    search_paths.extend(all(&members.remove_rpath, SearchPathEdit::remove)?);
    search_paths.extend(all(&members.rpath, SearchPathEdit::parse)?);
    Ok(WheelEdit {
        name: one(version.rename.as_ref(), |name| rocwheel_wheel::check_name(name).map(|()| name.to_owned()))?,
        version: new_version,
        python_tags: one(tags.python_tag.as_ref(), |text| TagEdit::parse(TagPart::Python, text))?,
        abi_tags: one(tags.abi_tag.as_ref(), |text| TagEdit::parse(TagPart::Abi, text))?,
        platform_tags: one(tags.platform_tag.as_ref(), |text| TagEdit::parse(TagPart::Platform, text))?,
        build: one(tags.build.as_ref(), BuildEdit::parse)?,
        requirements,
        extras,
        pins: if version.pin_siblings { Pins::Follow } else { Pins::Keep },
        fields: all(&metadata.metadata, FieldEdit::parse)?,
        search_paths,
        drop: all(&members.drop, MemberPattern::parse)?,
        also_in: all(&version.also_in, MemberPattern::parse)?,
        record: if members.record { RecordEdit::Renew } else { RecordEdit::Keep },
    })
}

#[derive(Serialize)]
struct Document<'a> {
    files: Vec<Row<'a>>,
    seconds: f64,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    plan: &'a Plan,
    /// Path of the result; null if nothing was written.
    written: Option<&'a PathBuf>,
    /// Size of the result in bytes.
    written_size: Option<u64>,
    /// The result of the audit; null if there was none.
    audit: Option<&'a Verdict>,
}

/// A file that was written, and the result of its audit.
type Done = Option<(Edited, Option<Verdict>)>;

/// Edits one file and prints only warnings of the audit. Returns the path of the result.
pub(super) fn apply(settings: &Settings, printer: &Printer) -> Result<PathBuf> {
    let (_, written) = carry_out(settings, printer)?;
    written
        .into_iter()
        .flatten()
        .next()
        .map(|(edited, _)| edited.path)
        .ok_or_else(|| Failure::message("an edit writes a file"))
}

/// Plans all files before it writes the first, so that an error in the last is found in time.
fn carry_out(settings: &Settings, printer: &Printer) -> Result<(Vec<Plan>, Vec<Done>)> {
    // Needed only to unpack libraries.
    let needs_scratch = !settings.edit.search_paths.is_empty();
    let scratch = needs_scratch.then(|| environment::scratch_below(&settings.scratch)).transpose()?;
    let scratch = scratch.as_ref().map_or(settings.scratch.as_path(), StagingFolder::path);
    let plans = edit::plan(&settings.files, &settings.edit, scratch, printer.reporter())?;
    check_names(&plans)?;
    let mut written: Vec<Done> = Vec::with_capacity(plans.len());
    for plan in &plans {
        let place = EditPlacement {
            destination: settings.destination.clone(),
            existing: settings.existing,
            scratch: scratch.to_owned(),
        };
        written.push(match settings.mode {
            Mode::DryRun => None,
            Mode::Execute => {
                let staged = edit::prepare(plan, &place, &settings.write, printer.reporter())?;
                let look = look(settings, plan, staged.files());
                let (edited, mut verdicts) = last_look::finish(staged, settings.last_look, look.as_slice(), printer)?;
                Some((edited, verdicts.pop().flatten()))
            }
        });
    }
    Ok((plans, written))
}

/// Edits the files and prints the changes.
pub fn command(settings: &Settings, printer: &Printer) -> Result<Exit> {
    let begin = Instant::now();
    let (plans, written) = carry_out(settings, printer)?;
    if printer.format() == ResultFormat::Json {
        let rows = plans.iter().zip(&written).map(|(plan, written)| Row {
            plan,
            written: written.as_ref().map(|(edited, _)| &edited.path),
            written_size: written.as_ref().map(|(edited, _)| edited.size),
            audit: written.as_ref().and_then(|(_, verdict)| verdict.as_ref()),
        });
        printer.json(&Document { files: rows.collect(), seconds: begin.elapsed().as_secs_f64() })?;
        return Ok(Exit::Done);
    }
    for (plan, written) in plans.iter().zip(&written) {
        show(plan, written.as_ref().map(|(edited, _)| edited), printer)?;
        if let Some((edited, Some(verdict))) = written {
            last_look::show(verdict, &[&edited.path], printer);
        }
    }
    if settings.mode == Mode::DryRun {
        let changed: Vec<&Plan> = plans.iter().filter(|plan| plan.changes_anything()).collect();
        let bytes = changed.iter().map(|plan| plan.size).sum();
        let files = message::count(changed.len() as u64, "file", "files");
        printer.note(format!("would write {files}, about {}", message::bytes(bytes)));
    }
    Ok(Exit::Done)
}

/// Audits a changed wheel alone: the files of one command line may be one distribution for several
/// Pythons.
fn look<'a>(settings: &'a Settings, plan: &Plan, wheels: &[StagedFile]) -> Option<Look<'a>> {
    if !plan.changes_anything() || !WheelName::is_wheel(&plan.input) {
        return None;
    }
    let set = WheelSet {
        wheels: wheels.to_vec(),
        before: vec![plan.input.clone()],
        scope: scope(&settings.edit, plan),
        ..WheelSet::default()
    };
    Some(Look { set, what: format!("`{}`", plan.output), scratch: &settings.scratch })
}

/// The part of the wheel that an edit may have changed for the audit. Reading the headers of packed
/// libraries takes far longer than changing a version.
fn scope(edit: &WheelEdit, plan: &Plan) -> AuditScope {
    let WheelEdit { name, version: _, python_tags, abi_tags, platform_tags, build: _, .. } = edit;
    // The fields that the audit reads have their own options.
    let WheelEdit { requirements, extras, pins: _, fields: _, search_paths, drop, also_in, .. } = edit;
    let [was_rocm, is_rocm] =
        [&plan.old_version, &plan.version].map(|version| version.to_ascii_lowercase().contains("rocm"));
    let is_of_names = name.is_none()
        && [python_tags, abi_tags, platform_tags].iter().all(|tags| tags.is_none())
        && (requirements.is_empty() && extras.is_empty())
        && (search_paths.is_empty() && drop.is_empty() && also_in.is_empty())
        && (was_rocm || !is_rocm);
    if is_of_names { AuditScope::Names } else { AuditScope::Files }
}

/// Refuses inputs with the same output name: the same wheel twice, or two versions that become one.
fn check_names(plans: &[Plan]) -> Result<(), Usage> {
    let mut owners = BTreeMap::new();
    for plan in plans {
        if let Some(first) = owners.insert(&plan.output, &plan.input) {
            let (first, second) = (first.display(), plan.input.display());
            let message = format!("`{first}` and `{second}` would both become `{}`", plan.output);
            return Err(Usage::new(message).hint("edit them one by one into different folders"));
        }
    }
    Ok(())
}

fn show(plan: &Plan, written: Option<&Edited>, printer: &Printer) -> Result<()> {
    let input = plan.input.display();
    match (plan.changes_anything(), written) {
        (true, Some(written)) if written.unchanged => {
            printer.line(format!("{input} -> {}: unchanged, it exists already", written.path.display()))?;
        }
        (true, Some(written)) => {
            printer.line(format!("{input} -> {}, {}", written.path.display(), message::bytes(written.size)))?;
        }
        (true, None) => printer.line(format!("{input} -> {} (not written)", plan.output))?,
        (false, Some(written)) if written.path != plan.input => {
            printer.line(format!("{input}: nothing to change, copied to {}", written.path.display()))?;
        }
        (false, _) => printer.line(format!("{input}: nothing to change"))?,
    }
    for change in &plan.changes {
        printer.line(match (&change.before, &change.after) {
            (Some(before), Some(after)) => format!("  {}: {before} -> {after}", change.subject),
            (Some(before), None) => format!("  {}: without {before}", change.subject),
            (None, after) => format!("  {}: {}", change.subject, after.as_deref().unwrap_or_default()),
        })?;
    }
    for note in &plan.notes {
        printer.note(format!("{input}: {note}"));
    }
    if !plan.leftovers.is_empty() {
        let lines = message::count(plan.leftovers.len() as u64, "line", "lines");
        printer.warn(format!(
            "{input}: {lines} still with `{}`; `--also-in GLOB` changes that where it should be changed",
            plan.old_version
        ));
        for left in plan.leftovers.iter().take(SHOWN) {
            let text: String = left.text.chars().take(SHOWN_OF_LINE).collect();
            printer.note(format!("  {}:{}: {text}", left.member, left.line));
        }
        if plan.leftovers.len() > SHOWN {
            printer.note(format!("  and {} more, which `--json` lists", plan.leftovers.len() - SHOWN));
        }
    }
    Ok(())
}
