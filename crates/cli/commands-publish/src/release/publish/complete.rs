//! Input: a set with Pythons and GPU targets of which something is missing. Output: the set without
//! them: packages, extras, requirements and lists.

use std::path::{Path, PathBuf};

use rocwheel_commands_wheel::reuse::own_records;
use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_console::printer::Printer;
use rocwheel_content::archive_path::file_name;
use rocwheel_promote::{PromotionRequest, VersionChange, find_set_version, plan_promotion, promote_into};
use rocwheel_release::{LocalSet, PublishOptions, carry_attestations, find_pythons, find_targets, read_promoted};
use rocwheel_stream::{Stream, StreamChange, StreamFault};
use rocwheel_wheel::WheelName;

use super::Settings;

const HINT: &str = "`--dry-run` without `--drop-incomplete` prints what is missing";

/// What a set lacks parts for.
pub(super) struct IncompleteSet<'a> {
    pub(super) stream: &'a Stream<'a>,
    pub(super) change: &'a StreamChange<'a>,
    pub(super) settings: &'a Settings,
    pub(super) scratch: &'a Path,
}

/// Leaves out incomplete Pythons and then incomplete targets, which `options` names then. A set
/// without any is unchanged.
pub(super) fn complete(
    local: LocalSet,
    options: &mut PublishOptions,
    work: &IncompleteSet<'_>,
    printer: &Printer,
) -> Result<LocalSet> {
    let local = complete_pythons(local, options, work, printer)?;
    let targets = find_targets(work.stream, &local, options, work.change)?;
    if targets.incomplete.is_empty() {
        return Ok(local);
    }
    let names: Vec<&str> = targets.incomplete.iter().map(String::as_str).collect();
    if targets.complete.is_empty() {
        let problems = vec![format!("something is missing for {}", names.join(", "))];
        let what = "no GPU target of the set is complete".to_owned();
        return Err(StreamFault::Refused { what, problems, hint: HINT.to_owned() }.into());
    }
    let files: Vec<PathBuf> = local.paths().map(|(_, path)| path.to_owned()).collect();
    let keep: Vec<String> = targets.complete.iter().cloned().collect();
    let published: Vec<String> = work.stream.manifest.files.keys().map(|key| file_name(key).to_owned()).collect();
    let mut request = PromotionRequest {
        files: Some(&files),
        keep: &keep,
        published: &published,
        ..PromotionRequest::new(&work.settings.dist)
    };
    let version = find_set_version(&request)?;
    let own = VersionChange::new(&version, &version)?;
    // Packages of others, such as a copy of numpy, are in the set as they are.
    let mut others: Vec<String> =
        files.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    others.retain(|name| {
        let version = name.parse::<WheelName>().ok().map(|wheel| wheel.version);
        let version = version.or_else(|| Some(name.strip_suffix(".tar.gz")?.rsplit_once('-')?.1.to_owned()));
        let version = version.and_then(|version| version.parse().ok());
        version.is_some_and(|version| own.of_file(&version).is_none())
    });
    request.copy = &others;
    let plan = plan_promotion(&request, &own_records(), printer.reporter())?;
    let folder = work.scratch.join("complete");
    fs_err::create_dir(&folder)?;
    let write = rocwheel_archive::WriteOptions { epoch: environment::epoch()?, ..Default::default() };
    let (promoted, _) = promote_into(&plan, &folder, &write, printer.reporter())?;
    carry_attestations(&promoted, &folder, |name| local.attestations(name))?;
    printer.warn(format!("dropped, because something is missing for them: {}", names.join(", ")));
    options.dropped = targets.incomplete;
    Ok(read_promoted(&folder, &promoted, printer.reporter())?)
}

/// Leaves out wheels that are only for Pythons of which something is missing.
fn complete_pythons(
    local: LocalSet,
    options: &mut PublishOptions,
    work: &IncompleteSet<'_>,
    printer: &Printer,
) -> Result<LocalSet> {
    let pythons = find_pythons(work.stream, &local, options, work.change)?;
    // Without any that is complete, the plan says what is missing.
    if pythons.incomplete.is_empty() || pythons.complete == 0 {
        return Ok(local);
    }
    let names: Vec<&str> = pythons.incomplete.keys().map(String::as_str).collect();
    printer.warn(format!("dropped, because something is missing for them: {}", names.join(", ")));
    options.dropped_pythons = pythons.incomplete.keys().cloned().collect();
    Ok(local.without(&pythons.incomplete.into_values().flatten().collect()))
}
