//! Input: the headers of METADATA or PKG-INFO, and an edit. Output: the edited headers, and a list
//! of the differences.

use std::cell::Cell;

use rocwheel_wheel::requirement::{Belongs, WrittenRequirement, belongs, followed, is_on, renamed};
use rocwheel_wheel::{Error, Headers, canonical_name, raise_metadata_version};

use crate::field_edit::FieldEdit;
use crate::identity::{Identity, Siblings};
use crate::plan::FieldChange;
use crate::requirement_edit::{ExtraEdit, RequirementEdit};
use crate::wheel_edit::WheelEdit;

/// Edits METADATA or PKG-INFO. Parts of the edit that have no effect are added to `notes`.
pub(crate) fn apply(
    headers: &mut Headers,
    edit: &WheelEdit,
    identity: &Identity,
    siblings: &Siblings,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let before = headers.clone();
    if identity.new_name != identity.name {
        headers.set("Name", &identity.new_name)?;
        headers.replace("Requires-Dist", |text| renamed(text, &identity.name, &identity.new_name))?;
    }
    if identity.new_version != identity.version {
        headers.set("Version", &identity.new_version)?;
    }
    headers
        .replace("Requires-Dist", |text| followed(text, |name, version| siblings.successor(identity, name, version)))?;
    for requirement in &edit.requirements {
        apply_requirement(headers, requirement, notes)?;
    }
    for extra in &edit.extras {
        apply_extra(headers, extra, notes)?;
    }
    edit.fields.iter().try_for_each(|field| field.apply(headers))?;
    if edit.fields.iter().any(FieldEdit::sets_metadata_version) {
        return Ok(());
    }
    let new = headers.iter().filter(|(name, value)| !before.all(name).contains(value));
    let new: Vec<String> = new.map(|(name, _)| name.to_owned()).collect();
    raise_metadata_version(headers, new.iter().map(String::as_str))
}

fn apply_requirement(headers: &mut Headers, edit: &RequirementEdit, notes: &mut Vec<String>) -> Result<(), Error> {
    const FIELD: &str = "Requires-Dist";
    match edit {
        RequirementEdit::Add(new) => {
            if !headers.all(FIELD).iter().any(|text| new.is(text)) {
                headers.push(FIELD, new.text())?;
            }
        }
        RequirementEdit::Remove(name) => {
            if headers.remove(FIELD, |text| is_on(text, &canonical_name(name))) == 0 {
                notes.push(format!("nothing to remove: it does not require `{name}`"));
            }
        }
        RequirementEdit::Replace(new) => {
            let name = new.name();
            if !headers.all(FIELD).iter().any(|text| is_on(text, &name)) {
                notes.push(format!("nothing to replace: it does not require `{name}`"));
                return Ok(());
            }
            if new.marker().is_none() {
                headers.replace(FIELD, |text| is_on(text, &name).then(|| new.in_place_of(text)))?;
                return Ok(());
            }
            // Replaces the first one and removes the others.
            let is_first = Cell::new(true);
            headers.replace(FIELD, |text| {
                (is_on(text, &name) && is_first.replace(false)).then(|| new.text().to_owned())
            })?;
            headers.remove(FIELD, |text| is_on(text, &name) && text != new.text());
        }
    }
    Ok(())
}

fn apply_extra(headers: &mut Headers, edit: &ExtraEdit, notes: &mut Vec<String>) -> Result<(), Error> {
    let (ExtraEdit::Add { name, .. } | ExtraEdit::Remove(name)) = edit;
    let is_there = headers.all("Provides-Extra").iter().any(|one| canonical_name(one) == *name);
    match edit {
        ExtraEdit::Add { name, requirement } => {
            if !is_there {
                headers.push("Provides-Extra", name)?;
            }
            if let Some(requirement) = requirement {
                let whole = WrittenRequirement::parse(&requirement.with_extra(name))?;
                if !headers.all("Requires-Dist").iter().any(|text| whole.is(text)) {
                    headers.push("Requires-Dist", whole.text())?;
                }
            }
        }
        ExtraEdit::Remove(name) => {
            if !is_there {
                notes.push(format!("nothing to remove: there is no extra `{name}`"));
            }
            headers.remove("Provides-Extra", |one| canonical_name(one) == *name);
            headers.remove("Requires-Dist", |text| belongs(text, name) == Belongs::Alone);
            for text in headers.all("Requires-Dist").iter().filter(|text| belongs(text, name) == Belongs::Mixed) {
                notes.push(format!("`{text}` stays: not only the extra `{name}` requires it"));
            }
        }
    }
    Ok(())
}

/// The differences, field by field in the order of the old file.
pub(crate) fn changes(file: &str, before: &Headers, after: &Headers) -> Vec<FieldChange> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in before.iter().chain(after.iter()) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name.to_owned());
        }
    }
    let mut changes = Vec::new();
    for name in names {
        changes.extend(differences(&format!("{file} {name}"), &before.all(&name), &after.all(&name)));
    }
    changes
}

/// The values that are in only one of the lists. If as many were removed as added, they are paired,
/// and each pair is one change.
pub(crate) fn differences(subject: &str, before: &[String], after: &[String]) -> Vec<FieldChange> {
    let gone: Vec<&String> = before.iter().filter(|value| !after.contains(value)).collect();
    let new: Vec<&String> = after.iter().filter(|value| !before.contains(value)).collect();
    if gone.len() == new.len() {
        return gone.into_iter().zip(new).map(|(old, new)| FieldChange::new(subject, Some(old), Some(new))).collect();
    }
    let gone = gone.into_iter().map(|value| FieldChange::new(subject, Some(value), None));
    gone.chain(new.into_iter().map(|value| FieldChange::new(subject, None, Some(value)))).collect()
}
