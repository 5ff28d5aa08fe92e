//! Comparison of files whose format has parts without meaning: METADATA, WHEEL, RECORD, entry
//! points, JSON, TOML, bytecode.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use pep508_rs::{Requirement, VerbatimUrl};
use rocwheel_progress::Failure;
use rocwheel_wheel::Headers;

use crate::change::{Change, ChangeKind};
use crate::findings::{Findings, Opened, has_ending, whole};
use crate::text;
use crate::version_change::VersionChanges;

/// Largest file that is compared this way, in bytes; only descriptions come near it.
const LARGEST: u64 = 16 << 20;
/// Bytes of magic number, flags, and time and size of the source (PEP 552).
const BYTECODE_HEADER: usize = 16;

/// Compares the files with a package's metadata; `None` for all others.
pub(crate) fn compare(opened: &Opened<'_>) -> Result<Option<Findings>, Failure> {
    let (folder, name) = opened.key.rsplit_once('/').unwrap_or(("", opened.key));
    let compare: fn(&str, &str, &VersionChanges) -> Findings = match name {
        "METADATA" if folder.ends_with(".dist-info") => metadata,
        "PKG-INFO" if folder.is_empty() || folder.ends_with(".egg-info") => metadata,
        "WHEEL" if folder.ends_with(".dist-info") => wheel_file,
        "entry_points.txt" if folder.ends_with(".dist-info") || folder.ends_with(".egg-info") => entry_points,
        "RECORD" if folder.ends_with(".dist-info") => |_, _, _| Findings::note("its rows follow the files"),
        _ => return Ok(None),
    };
    if opened.old.size().max(opened.new.size()) > LARGEST {
        return Ok(None);
    }
    let (old, new) = (whole(&*opened.old)?, whole(&*opened.new)?);
    let (Ok(old), Ok(new)) = (String::from_utf8(old), String::from_utf8(new)) else { return Ok(None) };
    let mut findings = compare(&old, &new, opened.versions);
    if findings.changes.is_empty() && findings.notes.is_empty() {
        findings.notes.push("the same fields, written in another way or order".to_owned());
    }
    Ok(Some(findings))
}

fn metadata(old: &str, new: &str, versions: &VersionChanges) -> Findings {
    const OWN: [&str; 6] =
        ["name", "version", "requires-dist", "provides-extra", "requires-python", "metadata-version"];
    let (old, new) = (Headers::parse(old), Headers::parse(new));
    let mut changes = Vec::new();
    let fields =
        [(ChangeKind::Name, "Name"), (ChangeKind::Version, "Version"), (ChangeKind::PythonRequires, "Requires-Python")];
    for (kind, field) in fields {
        changes.extend(Change::of_value(kind, old.get(field).as_deref(), new.get(field).as_deref()));
    }
    changes.extend(requirements(&old.all("Requires-Dist"), &new.all("Requires-Dist")));
    let [old_extras, new_extras] = [&old, &new].map(|headers| -> Vec<String> {
        headers.all("Provides-Extra").iter().map(|extra| rocwheel_wheel::canonical_name(extra)).collect()
    });
    changes.extend(Change::of_sets((ChangeKind::LostExtra, ChangeKind::NewExtra), &old_extras, &new_extras));
    changes.extend(other_fields(&old, &new, &OWN));
    for change in &mut changes {
        if let (ChangeKind::Requirement | ChangeKind::Metadata, Some(old), Some(new)) =
            (change.kind, &change.old, &change.new)
            && versions.explain_field(old, new)
        {
            change.kind = ChangeKind::VersionText;
        }
    }
    let (old_body, new_body) = (old.body().trim(), new.body().trim());
    if old_body != new_body {
        let is_version = versions.explain_text(old_body.as_bytes(), new_body.as_bytes());
        let kind = if is_version { ChangeKind::VersionText } else { ChangeKind::Metadata };
        changes.push(Change::of(kind, "description"));
    }
    let version = "Metadata-Version";
    let mut notes = Vec::new();
    if let (Some(old), Some(new)) = (old.get(version), new.get(version))
        && old != new
    {
        notes.push(format!("{version} {new} instead of {old}"));
    }
    Findings { changes, notes, ..Findings::default() }
}

/// Compares fields without a separate kind of change, each as a set of values.
fn other_fields(old: &Headers, new: &Headers, own: &[&str]) -> Vec<Change> {
    let (old, new) = (values_by_field(old, own), values_by_field(new, own));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let differing = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    differing
        .map(|name| {
            let [old, new] = [old.get(name), new.get(name)]
                .map(|values| values.map(|values| values.iter().cloned().collect::<Vec<_>>().join(", ")));
            Change { old, new, ..Change::of(ChangeKind::Metadata, name) }
        })
        .collect()
}

/// Returns the values of all fields but `own`, by the name of the field in lower case.
fn values_by_field(headers: &Headers, own: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in headers.iter() {
        let name = name.to_ascii_lowercase();
        if !own.contains(&name.as_str()) {
            fields.entry(name).or_default().insert(value);
        }
    }
    fields
}

/// Compares requirements by meaning: spaces, quotes and brackets are ignored. Two requirements with
/// the same name, extras and marker are one whose version changed.
fn requirements(old: &[String], new: &[String]) -> Vec<Change> {
    let (old, new) = (by_subject(old), by_subject(new));
    let subjects: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut changes = Vec::new();
    for subject in subjects {
        let none = BTreeSet::new();
        let (old, new) = (old.get(subject).unwrap_or(&none), new.get(subject).unwrap_or(&none));
        let lost: Vec<&String> = old.difference(new).collect();
        let gained: Vec<&String> = new.difference(old).collect();
        if let ([old], [new]) = (&lost[..], &gained[..]) {
            changes.push(Change::of(ChangeKind::Requirement, subject).values(*old, *new));
            continue;
        }
        changes.extend(lost.into_iter().map(|text| Change::of(ChangeKind::LostRequirement, text)));
        changes.extend(gained.into_iter().map(|text| Change::of(ChangeKind::NewRequirement, text)));
    }
    changes
}

/// Maps each requirement without its version to the complete requirements.
fn by_subject(requirements: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    let mut map: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for text in requirements {
        let parsed =
            rocwheel_wheel::check_requirement(text).ok().and_then(|()| Requirement::<VerbatimUrl>::from_str(text).ok());
        let (subject, whole) = match parsed {
            // A requirement that cannot be parsed is compared as text.
            None => (text.clone(), text.clone()),
            Some(parsed) => {
                let whole = parsed.to_string();
                (Requirement { version_or_url: None, ..parsed }.to_string(), whole)
            }
        };
        map.entry(subject).or_default().insert(whole);
    }
    map
}

fn wheel_file(old: &str, new: &str, _: &VersionChanges) -> Findings {
    const OWN: [&str; 3] = ["tag", "build", "generator"];
    let (old, new) = (Headers::parse(old), Headers::parse(new));
    let mut changes = Change::of_sets((ChangeKind::LostTag, ChangeKind::NewTag), &tags(&old), &tags(&new));
    changes.extend(Change::of_value(ChangeKind::Build, old.get("Build").as_deref(), new.get("Build").as_deref()));
    changes.extend(other_fields(&old, &new, &OWN));
    let mut notes = Vec::new();
    let [old, new] = [old, new].map(|file| file.get("Generator").unwrap_or_else(|| "an unknown tool".to_owned()));
    if old != new {
        notes.push(format!("made by {new} instead of {old}"));
    }
    Findings { changes, notes, ..Findings::default() }
}

/// Returns every tag; compressed tag sets are expanded.
fn tags(headers: &Headers) -> Vec<String> {
    let mut tags = Vec::new();
    for tag in headers.all("Tag") {
        let parts: Vec<Vec<&str>> = tag.split('-').map(|part| part.split('.').collect()).collect();
        let [pythons, abis, platforms] = &parts[..] else {
            tags.push(tag);
            continue;
        };
        for python in pythons {
            for abi in abis {
                tags.extend(platforms.iter().map(|platform| format!("{python}-{abi}-{platform}")));
            }
        }
    }
    tags
}

fn entry_points(old: &str, new: &str, _: &VersionChanges) -> Findings {
    let (old, new) = (objects_by_entry_point(old), objects_by_entry_point(new));
    let mut changes = Change::of_sets((ChangeKind::LostEntryPoint, ChangeKind::NewEntryPoint), old.keys(), new.keys());
    let both = old.iter().filter_map(|(name, old)| new.get(name).map(|new| (name, old, new)));
    changes.extend(
        both.filter(|(_, old, new)| old != new)
            .map(|(name, old, new)| Change::of(ChangeKind::EntryPoint, name).values(old, new)),
    );
    Findings { changes, ..Findings::default() }
}

/// Returns the object that each entry point calls, by section and name: `console_scripts: pip`.
fn objects_by_entry_point(text: &str) -> BTreeMap<String, String> {
    let sections = text::ini(text).into_iter();
    let points = sections.flat_map(|(section, points)| {
        points.into_iter().map(move |(name, value)| (format!("{section}: {name}"), value))
    });
    points.collect()
}

/// Returns a note if two documents of one format have the same content.
pub(crate) fn same_document(key: &str, old: &[u8], new: &[u8]) -> Option<&'static str> {
    let (old, new) = (std::str::from_utf8(old).ok()?, std::str::from_utf8(new).ok()?);
    if has_ending(key, "json") {
        let (old, new) = (serde_json::from_str(old).ok()?, serde_json::from_str(new).ok()?);
        return (sorted(old) == sorted(new)).then_some("the same JSON, written in another way");
    }
    if has_ending(key, "toml") {
        let (old, new): (toml::Table, toml::Table) = (toml::from_str(old).ok()?, toml::from_str(new).ok()?);
        return (old == new).then_some("the same TOML, written in another way");
    }
    None
}

/// Sorts the names of objects, so that their order in the file does not matter.
fn sorted(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> =
                fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// `true` if two files of bytecode differ only in the time or the hash of their source.
pub(crate) fn same_bytecode(old: &[u8], new: &[u8]) -> bool {
    let (Some((old_header, old)), Some((new_header, new))) =
        (old.split_at_checked(BYTECODE_HEADER), new.split_at_checked(BYTECODE_HEADER))
    else {
        return false;
    };
    old_header[..4] == new_header[..4] && old == new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(findings: &Findings) -> Vec<(&'static str, String)> {
        findings.changes.iter().map(|change| (change.kind.name(), change.to_string())).collect()
    }

    #[test]
    fn requirements_are_compared_by_meaning() {
        let head = "Metadata-Version: 2.1\nName: a\nVersion: 1\n";
        let old =
            format!("{head}Requires-Dist: b (>=1)\nRequires-Dist: c==1 ; extra == 'x'\nProvides-Extra: x\n\ntext\n");
        let same =
            format!("{head}Provides-Extra: X\nRequires-Dist: c == 1; extra == \"x\"\nRequires-Dist: b>=1\n\ntext");
        assert_eq!(kinds(&metadata(&old, &same, &VersionChanges::default())), []);
        let other = format!("{head}Requires-Dist: b>=2\nRequires-Dist: d\nProvides-Extra: y\nLicense: MIT\n\nother");
        assert_eq!(
            kinds(&metadata(&old, &other, &VersionChanges::default())),
            [
                ("requirement", "b: b>=1 → b>=2".to_owned()),
                ("lost-requirement", "c==1 ; extra == 'x'".to_owned()),
                ("new-requirement", "d".to_owned()),
                ("lost-extra", "x".to_owned()),
                ("new-extra", "y".to_owned()),
                ("metadata", "license: nothing → MIT".to_owned()),
                ("metadata", "description".to_owned()),
            ]
        );
    }

    #[test]
    fn tags_that_are_written_together_are_the_same() {
        let together = "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: false\nTag: py2.py3-none-any\n";
        let apart = "Wheel-Version: 1.0\nGenerator: b\nRoot-Is-Purelib: false\nTag: py3-none-any\nTag: py2-none-any\n";
        let findings = wheel_file(together, apart, &VersionChanges::default());
        assert_eq!((kinds(&findings), findings.notes), (vec![], vec!["made by b instead of a".to_owned()]));
    }

    #[test]
    fn documents_and_bytecode() {
        assert!(same_document("a.json", b"{\"a\": 1, \"b\": [1]}", b"{\"b\":[1],\"a\":1}").is_some());
        assert!(same_document("a.json", b"{\"a\": [1, 2]}", b"{\"a\": [2, 1]}").is_none());
        assert!(same_document("a.toml", b"a = 1\nb = 2", b"b=2\na=1").is_some());
        assert!(same_document("a.txt", b"a", b"a").is_none());
        let code =
            |time: u8, code: u8| [[1, 2, 3, 4, 0, 0, 0, 0, time, 0, 0, 0, 9, 0, 0, 0].as_slice(), &[code]].concat();
        assert!(same_bytecode(&code(1, 7), &code(2, 7)));
        assert!(!same_bytecode(&code(1, 7), &code(1, 8)));
    }
}
