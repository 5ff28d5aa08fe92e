//! Input: an open wheel and an edit. Output: its plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;
use rocwheel_archive::{Listed, MemberKind};
use rocwheel_elf::{EditOutcome, Elf, Patch, SearchPath, SearchPathTag};

use rocwheel_wheel::read::{Wheel, WheelProblem};
use rocwheel_wheel::{Headers, WheelName, canonical_name, file_name_part, new_info, same_version, signatures};

use crate::error::Error;
use crate::identity::Identity;
use crate::plan::{DistributionFormat, FieldChange, Leftover, Plan, Steps, WheelSteps};
use crate::request::{Request, unmatched};
use crate::version::{VersionEdit, replaced};
use crate::wheel_edit::{BuildEdit, Entries, RecordEdit, SearchPathEdit};
use crate::{metadata, scan};

pub(crate) fn plan(
    wheel: &Arc<Wheel>,
    headers: &Headers,
    identity: &Identity,
    request: &Request<'_>,
) -> Result<Plan, Error> {
    check_identity(wheel, identity, request)?;
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    let name = new_name(&wheel.name, identity, request)?;
    let output = name.to_string();
    let old_file_name = wheel.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name != wheel.name {
        changes.push(FieldChange::new("file name", Some(&old_file_name), Some(&output)));
    }
    if let Some(info) = new_info(wheel, &name) {
        changes.push(FieldChange::new("folder", Some(wheel.info()), Some(&info)));
    }

    let mut new_headers = headers.clone();
    metadata::apply(&mut new_headers, request.edit, identity, &request.siblings, &mut notes)?;
    let metadata = changed_text("METADATA", headers, &new_headers, &mut changes);
    let old_tags = Headers::parse(&wheel.wheel()?);
    let mut new_tags = old_tags.clone();
    apply_tags(&mut new_tags, &name, request)?;
    let tags = changed_text("WHEEL", &old_tags, &new_tags, &mut changes);

    let drop = dropped(wheel, request, &mut notes)?;
    changes.extend(drop.iter().map(|member| FieldChange::new("member", Some(member), None)));
    let texts = texts(wheel, identity, request, &drop, &mut notes)?;
    for (member, (count, _)) in &texts {
        let what = format!("`{member}`{}", if *count > 1 { format!(", {count} times") } else { String::new() });
        changes.push(FieldChange::new(&what, Some(&identity.version), Some(&identity.new_version)));
    }
    let texts: BTreeMap<String, Vec<u8>> = texts.into_iter().map(|(member, (_, bytes))| (member, bytes)).collect();
    let libraries = libraries(wheel, request, &drop, &mut changes, &mut notes)?;
    if changes.is_empty() && request.edit.record == RecordEdit::Renew {
        changes.extend(renewed(wheel)?);
    }
    if !changes.is_empty() {
        // A problem of RECORD is reported before anything is written.
        wheel.record()?;
        let signed = signatures(wheel);
        notes.extend(signed.iter().map(|member| format!("`{member}` is dropped: it signs the RECORD that was")));
    }
    let leftovers = leftovers(wheel, identity, &drop, &texts, request)?;
    Ok(Plan {
        input: wheel.path().to_owned(),
        form: DistributionFormat::Wheel,
        size: fs_err::metadata(wheel.path())
            .map_err(|source| rocwheel_archive::Error::Open { path: wheel.path().to_owned(), source })?
            .len(),
        distribution: identity.new_name.clone(),
        old_version: identity.version.clone(),
        version: identity.new_version.clone(),
        output: if changes.is_empty() { old_file_name } else { output },
        changes,
        leftovers,
        notes,
        steps: Steps::Wheel(WheelSteps { wheel: Arc::clone(wheel), name, metadata, tags, drop, texts, libraries }),
    })
}

/// Finds the problems in the rows of RECORD that rewriting it fixes.
fn renewed(wheel: &Wheel) -> Result<Option<FieldChange>, Error> {
    let problems = wheel.verify_rows()?;
    let unhashed = problems.iter().filter(|problem| matches!(problem, WheelProblem::NoHash(_)));
    let astray = problems.iter().filter(|problem| {
        matches!(problem, WheelProblem::Missing(_) | WheelProblem::Unrecorded(_) | WheelProblem::Repeated(_))
    });
    let before = match (unhashed.count(), astray.count()) {
        (0, 0) => return Ok(None),
        (unhashed, 0) => format!("no usable hash for {unhashed} of its files"),
        (_, astray) => format!("{astray} rows too many or too few"),
    };
    Ok(Some(FieldChange::new("RECORD", Some(&before), Some("a row with a hash for each file"))))
}

/// Refuses a wheel whose names contradict each other, unless the edit resolves that.
fn check_identity(wheel: &Wheel, identity: &Identity, request: &Request<'_>) -> Result<(), Error> {
    let is_renamed = request.edit.name.is_some();
    let has_version = matches!(request.edit.version, Some(VersionEdit::Set(_)));
    let same_name = canonical_name(&identity.name) == canonical_name(&wheel.name.distribution);
    if (same_name || is_renamed)
        && (same_version(&identity.version, &wheel.name.version.replace('_', "-")) || has_version)
    {
        return Ok(());
    }
    let reason = format!(
        "its METADATA is of `{}` `{}`, and its file name of `{}` `{}`",
        identity.name, identity.version, wheel.name.distribution, wheel.name.version
    );
    Err(rocwheel_archive::Error::Malformed { path: wheel.path().to_owned(), reason }.into())
}

fn new_name(old: &WheelName, identity: &Identity, request: &Request<'_>) -> Result<WheelName, Error> {
    let edit = request.edit;
    let mut name = old.clone();
    if canonical_name(&identity.new_name) != canonical_name(&old.distribution) {
        name.distribution = file_name_part(&identity.new_name);
    }
    if !same_version(&identity.new_version, &old.version.replace('_', "-")) {
        name.version.clone_from(&identity.new_version);
    }
    let mut is_retagged = false;
    let parts = [
        (&edit.python_tags, &mut name.pythons),
        (&edit.abi_tags, &mut name.abis),
        (&edit.platform_tags, &mut name.platforms),
    ];
    for (edit, part) in parts {
        if let Some(edit) = edit
            && let Some(tags) = edit.apply(part)?
        {
            *part = tags;
            is_retagged = true;
        }
    }
    if is_retagged {
        for part in [&mut name.pythons, &mut name.abis, &mut name.platforms] {
            part.sort();
        }
    }
    match &edit.build {
        Some(BuildEdit::Set(build)) => name.build = Some(build.clone()),
        Some(BuildEdit::Remove) => name.build = None,
        None => {}
    }
    Ok(name)
}

/// Writes the tags and the build tag of the file name into WHEEL, if the edit changes them.
fn apply_tags(headers: &mut Headers, name: &WheelName, request: &Request<'_>) -> Result<(), Error> {
    let edit = request.edit;
    if [&edit.python_tags, &edit.abi_tags, &edit.platform_tags].iter().any(|edit| edit.is_some()) {
        let tags: Vec<String> = name.tags().iter().map(ToString::to_string).collect();
        let said: BTreeSet<String> = headers.all("Tag").into_iter().collect();
        if said != tags.iter().cloned().collect() {
            for (index, tag) in tags.iter().enumerate() {
                if index == 0 { headers.set("Tag", tag)? } else { headers.push("Tag", tag)? }
            }
        }
    }
    match &edit.build {
        Some(BuildEdit::Set(build)) => headers.set("Build", build)?,
        Some(BuildEdit::Remove) => drop(headers.remove("Build", |_| true)),
        None => {}
    }
    Ok(())
}

/// The new text; `None` if it did not change.
pub(crate) fn changed_text(
    file: &str,
    before: &Headers,
    after: &Headers,
    changes: &mut Vec<FieldChange>,
) -> Option<String> {
    let text = after.to_string();
    if text == before.to_string() {
        return None;
    }
    let found = metadata::changes(file, before, after);
    if found.is_empty() {
        // The values are the same, but one is repeated less often or the order differs.
        changes.push(FieldChange::new(file, Some("as it was"), Some("written anew")));
    }
    changes.extend(found);
    Some(text)
}

fn files(wheel: &Wheel) -> impl Iterator<Item = &Listed> {
    wheel.members().iter().filter(|member| member.kind == MemberKind::File)
}

/// `true` for files of `.dist-info` that this module rewrites.
fn is_own(wheel: &Wheel, member: &str) -> bool {
    member
        .strip_prefix(wheel.info())
        .is_some_and(|rest| matches!(rest, "/METADATA" | "/WHEEL" | "/RECORD" | "/RECORD.jws" | "/RECORD.p7s"))
}

fn dropped(wheel: &Wheel, request: &Request<'_>, notes: &mut Vec<String>) -> Result<BTreeSet<String>, Error> {
    let patterns = &request.edit.drop;
    let members: Vec<&str> = wheel
        .members()
        .iter()
        .filter(|member| member.kind != MemberKind::Directory)
        .map(|member| member.name.as_str())
        .collect();
    unmatched(patterns.iter(), &members, "drop", notes);
    let mut drop = BTreeSet::new();
    for member in members.into_iter().filter(|member| patterns.iter().any(|pattern| pattern.matches(member))) {
        if is_own(wheel, member) {
            let reason = "cannot be dropped: no wheel is without it";
            let path = wheel.path().to_owned();
            return Err(rocwheel_wheel::Error::Member { path, member: member.to_owned(), reason }.into());
        }
        drop.insert(member.to_owned());
    }
    Ok(drop)
}

/// Members in which the new version replaces the old one, with the number of replacements.
fn texts(
    wheel: &Wheel,
    identity: &Identity,
    request: &Request<'_>,
    drop: &BTreeSet<String>,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, (usize, Vec<u8>)>, Error> {
    let patterns = &request.edit.also_in;
    let members: Vec<&str> = files(wheel).map(|member| member.name.as_str()).collect();
    unmatched(patterns.iter(), &members, "rewrite", notes);
    let mut texts = BTreeMap::new();
    if patterns.is_empty() || identity.version == identity.new_version {
        return Ok(texts);
    }
    for member in files(wheel).filter(|member| patterns.iter().any(|pattern| pattern.matches(&member.name))) {
        if is_own(wheel, &member.name) || drop.contains(&member.name) {
            continue;
        }
        if member.size > scan::LARGEST_REWRITTEN {
            notes.push(format!("`{}` is not changed: it is too large for a text", member.name));
            continue;
        }
        let Ok(text) = String::from_utf8(wheel.bytes(&member.name)?) else {
            notes.push(format!("`{}` is not changed: it is not UTF-8 text", member.name));
            continue;
        };
        match replaced(&text, &identity.version, &identity.new_version) {
            (_, 0) => notes.push(format!("`{}` does not say `{}`", member.name, identity.version)),
            (text, count) => {
                texts.insert(member.name.clone(), (count, text.into_bytes()));
            }
        }
    }
    Ok(texts)
}

/// The lines of members that still contain the old version, if there is a new one.
fn leftovers(
    wheel: &Wheel,
    identity: &Identity,
    drop: &BTreeSet<String>,
    texts: &BTreeMap<String, Vec<u8>>,
    request: &Request<'_>,
) -> Result<Vec<Leftover>, Error> {
    if same_version(&identity.version, &identity.new_version) {
        return Ok(Vec::new());
    }
    let candidates: Vec<&Listed> = files(wheel)
        .filter(|member| !is_own(wheel, &member.name) && !drop.contains(&member.name))
        .filter(|member| scan::is_candidate(&member.name, member.size))
        .collect();
    let found: Vec<Vec<Leftover>> = candidates
        .par_iter()
        .map(|member| {
            request.reporter.check()?;
            let read;
            let bytes = if let Some(bytes) = texts.get(&member.name) {
                bytes
            } else {
                read = wheel.bytes(&member.name)?;
                &read
            };
            Ok(scan::leftovers(&member.name, bytes, &identity.version))
        })
        .collect::<Result<_, Error>>()?;
    let mut found: Vec<Leftover> = found.into_iter().flatten().collect();
    found.sort();
    Ok(found)
}

/// The patches of libraries and programs whose search path changes.
fn libraries(
    wheel: &Wheel,
    request: &Request<'_>,
    drop: &BTreeSet<String>,
    changes: &mut Vec<FieldChange>,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, Patch>, Error> {
    let edits = &request.edit.search_paths;
    let members: Vec<&str> = files(wheel).map(|member| member.name.as_str()).collect();
    unmatched(edits.iter().map(|edit| &edit.files), &members, "give a search path", notes);
    let mut libraries = BTreeMap::new();
    for member in members.into_iter().filter(|member| !drop.contains(*member)) {
        let Some(edit) = edits.iter().rfind(|edit| edit.files.matches(member)) else { continue };
        if wheel.start(member, 4)? != *b"\x7fELF" {
            continue;
        }
        request.reporter.check()?;
        if let Some(found) = search_path(wheel, member, edit, request, notes)? {
            let SearchPathChange { patch, before, after } = found;
            let after = (!after.is_empty()).then_some(after.as_str());
            changes.push(FieldChange::new(&format!("search path of `{member}`"), before.as_deref(), after));
            libraries.insert(member.to_owned(), patch);
        }
    }
    Ok(libraries)
}

struct SearchPathChange {
    patch: Patch,
    before: Option<String>,
    after: String,
}

/// The change in one file; `None` if nothing changes, or if it cannot have a search path.
fn search_path(
    wheel: &Wheel,
    member: &str,
    edit: &SearchPathEdit,
    request: &Request<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<SearchPathChange>, Error> {
    let reader = wheel.reader(member, request.scratch)?;
    let Some(elf) = Elf::read(&reader).map_err(elf_error(wheel, member))? else { return Ok(None) };
    let entries = match &edit.entries {
        Entries::Set(entries) => entries.clone(),
        Entries::DropAbsolute => {
            let before: Vec<&str> = elf.search_path().unwrap_or_default().split(':').collect();
            if !before.iter().any(|entry| entry.starts_with('/')) {
                return Ok(None);
            }
            before.into_iter().filter(|entry| !entry.is_empty() && !entry.starts_with('/')).map(str::to_owned).collect()
        }
    };
    let after = entries.join(":");
    let change = rocwheel_elf::Edit {
        search_path: Some(SearchPath::Set(entries)),
        // This edit does not change if the loader reads the search path before or after
        // LD_LIBRARY_PATH.
        search_path_tag: if elf.runpath.is_some() { SearchPathTag::Runpath } else { SearchPathTag::Rpath },
        ..rocwheel_elf::Edit::default()
    };
    let patch = match change.plan(&reader) {
        Ok(patch) => patch,
        // A pattern may match GPU code, objects and debug files too; that is not a mistake.
        Err(error @ (rocwheel_elf::Error::Machine { .. } | rocwheel_elf::Error::NotLinked { .. })) => {
            notes.push(format!("`{member}` is not changed: {error}"));
            return Ok(None);
        }
        Err(error) => return Err(elf_error(wheel, member)(error)),
    };
    let is_changed = patch.outcome == EditOutcome::Changed;
    Ok(is_changed.then(|| SearchPathChange { patch, before: elf.runpath.or(elf.rpath), after }))
}

fn elf_error(wheel: &Wheel, member: &str) -> impl FnOnce(rocwheel_elf::Error) -> Error {
    |source| Error::Elf { path: wheel.path().to_owned(), member: member.to_owned(), source: Box::new(source) }
}
