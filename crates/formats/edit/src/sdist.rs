//! Input: a source distribution that has been read, and an edit. Output: its plan; executing it
//! writes another source distribution with the members in the same order, and with the owners,
//! modes and dates of [`rocwheel_wheel::write_sdist`].

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_archive::{TarGzWriter, WriteOptions, Written};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_wheel::{
    Headers, SdistMemberKind, canonical_name, file_name_part, for_each_sdist_member, is_static, same_version,
};

use crate::error::Error;
use crate::field_edit::FieldEdit;
use crate::identity::Identity;
use crate::plan::{DistributionFormat, FieldChange, Plan, SdistSteps, Steps};
use crate::request::{Request, unmatched};
use crate::sdist_file::SdistFile;
use crate::version::replaced;
use crate::wheel::changed_text;
use crate::{metadata, requires_txt, scan};

/// Number of bytes that are read at once.
const WINDOW: usize = 1 << 18;
/// Files that determine the requirements of a wheel that is built from the distribution.
const BUILD_FILES: [&str; 3] = ["pyproject.toml", "setup.cfg", "setup.py"];

/// The name and version of a file or folder, before and after.
struct Stem {
    old: String,
    new: String,
}

impl Stem {
    /// `None` if the text does not name this distribution and version.
    fn new(text: &str, identity: &Identity) -> Option<Stem> {
        let (name, version) = text.rsplit_once('-')?;
        if canonical_name(name) != canonical_name(&identity.name) || !same_version(version, &identity.version) {
            return None;
        }
        let is_renamed = canonical_name(&identity.name) != canonical_name(&identity.new_name);
        let new_name = if is_renamed { file_name_part(&identity.new_name) } else { name.to_owned() };
        let is_new = !same_version(&identity.version, &identity.new_version);
        let new_version = if is_new { identity.new_version.as_str() } else { version };
        Some(Stem { old: text.to_owned(), new: format!("{new_name}-{new_version}") })
    }
}

pub(crate) fn plan(
    sdist: &SdistFile,
    headers: &Headers,
    identity: &Identity,
    request: &Request<'_>,
) -> Result<Plan, Error> {
    check_options(sdist, request)?;
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    let file_name = sdist.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = file_name.strip_suffix(".tar.gz").unwrap_or_default();
    let [file, top] = [(file, "the file"), (&sdist.top, "the folder in it")].map(|(text, what)| {
        let reason =
            format!("its PKG-INFO is of `{}` `{}`, and {what} is called `{text}`", identity.name, identity.version);
        Stem::new(text, identity).ok_or_else(|| sdist.malformed(reason))
    });
    let (file, top) = (file?, top?);
    let output = format!("{}.tar.gz", file.new);
    if output != file_name {
        changes.push(FieldChange::new("file name", Some(&file_name), Some(&output)));
    }
    let mut folders = Vec::new();
    if top.new != top.old {
        changes.push(FieldChange::new("folder", Some(&top.old), Some(&top.new)));
    }
    for egg in egg_infos(sdist, identity) {
        let new = format!(
            "{}{}.egg-info/",
            &egg[..egg.rfind('/').map_or(0, |at| at + 1)],
            file_name_part(&identity.new_name)
        );
        if canonical_name(&identity.name) != canonical_name(&identity.new_name) {
            changes.push(FieldChange::new("folder", Some(&egg), Some(new.trim_end_matches('/'))));
            folders.push((format!("{}/{egg}/", top.old), format!("{}/{new}", top.new)));
        }
    }
    folders.push((format!("{}/", top.old), format!("{}/", top.new)));

    let mut texts = BTreeMap::new();
    let mut found = Found { changes: &mut changes, notes: &mut notes, texts: &mut texts };
    apply_metadata(sdist, headers, identity, request, &mut found)?;
    let drop = dropped(sdist, request, found.notes)?;
    found.changes.extend(drop.iter().map(|member| FieldChange::new("member", Some(member), None)));
    found.texts.retain(|member, _| !drop.contains(member));
    also_in(sdist, identity, request, &drop, &mut found);
    let is_about_needs = !request.edit.requirements.is_empty() || !request.edit.extras.is_empty();
    let sources: Vec<&str> = BUILD_FILES.into_iter().filter(|file| sdist.files.contains(*file)).collect();
    if is_about_needs && !sources.is_empty() {
        notes
            .push(format!("a wheel built from it requires what {} say, and these are not changed", sources.join(", ")));
    }
    let mut leftovers = Vec::new();
    if !same_version(&identity.version, &identity.new_version) {
        for (member, bytes) in sdist.texts.iter().filter(|(member, _)| !drop.contains(*member)) {
            let bytes = texts.get(member).unwrap_or(bytes);
            leftovers.extend(scan::leftovers(member, bytes, &identity.version));
        }
        if sdist.is_partial {
            notes.push("there are more texts than were searched for the old version".to_owned());
        }
    }
    let steps = SdistSteps {
        input: sdist.path.clone(),
        folders,
        drop: drop.into_iter().map(|member| format!("{}/{member}", sdist.top)).collect(),
        texts: texts.into_iter().map(|(member, text)| (format!("{}/{member}", sdist.top), text)).collect(),
    };
    Ok(Plan {
        input: sdist.path.clone(),
        form: DistributionFormat::Sdist,
        size: sdist.size,
        distribution: identity.new_name.clone(),
        old_version: identity.version.clone(),
        version: identity.new_version.clone(),
        output: if changes.is_empty() { file_name } else { output },
        changes,
        leftovers,
        notes,
        steps: Steps::Sdist(steps),
    })
}

/// Refuses an edit that only a wheel supports, instead of ignoring it.
fn check_options(sdist: &SdistFile, request: &Request<'_>) -> Result<(), Error> {
    let edit = request.edit;
    let has_tags = [&edit.python_tags, &edit.abi_tags, &edit.platform_tags].iter().any(|edit| edit.is_some());
    let what = if has_tags {
        "tags"
    } else if edit.build.is_some() {
        "a build tag"
    } else if !edit.search_paths.is_empty() {
        "libraries with a search path"
    } else {
        return Ok(());
    };
    Err(Error::NotAWheel { path: sdist.path.clone(), what })
}

/// Paths of the distribution's own `.egg-info` folders.
fn egg_infos(sdist: &SdistFile, identity: &Identity) -> BTreeSet<String> {
    let folders = sdist.files.iter().filter_map(|file| file.rsplit_once('/')).map(|(folder, _)| folder);
    let own = folders.filter(|folder| {
        let name = folder.rsplit('/').next().and_then(|name| name.strip_suffix(".egg-info"));
        name.is_some_and(|name| canonical_name(name) == canonical_name(&identity.name))
    });
    own.map(str::to_owned).collect()
}

struct Found<'a> {
    changes: &'a mut Vec<FieldChange>,
    notes: &'a mut Vec<String>,
    texts: &'a mut BTreeMap<String, Vec<u8>>,
}

/// Edits PKG-INFO at the top and the files of setuptools in `.egg-info`: promotion tools and old
/// installers read both.
fn apply_metadata(
    sdist: &SdistFile,
    headers: &Headers,
    identity: &Identity,
    request: &Request<'_>,
    found: &mut Found<'_>,
) -> Result<(), Error> {
    let mut new = headers.clone();
    metadata::apply(&mut new, request.edit, identity, &request.siblings, found.notes)?;
    let is_meant = request.edit.fields.iter().any(FieldEdit::sets_metadata_version);
    if is_static(&new) && !is_static(headers) && !is_meant {
        return Err(Error::StaticSdist { path: sdist.path.clone() });
    }
    if let Some(text) = changed_text("PKG-INFO", headers, &new, found.changes) {
        found.texts.insert("PKG-INFO".to_owned(), text.into_bytes());
    }
    for folder in egg_infos(sdist, identity) {
        let name = format!("{folder}/PKG-INFO");
        if sdist.texts.contains_key(&name) {
            let before = Headers::parse(&sdist.text(&name)?);
            let mut after = before.clone();
            // Parts without effect are reported once, for the file at the top.
            metadata::apply(&mut after, request.edit, identity, &request.siblings, &mut Vec::new())?;
            if let Some(text) = changed_text(&name, &before, &after, found.changes) {
                found.texts.insert(name, text.into_bytes());
            }
        }
        let name = format!("{folder}/requires.txt");
        if sdist.texts.contains_key(&name) {
            let before = sdist.text(&name)?;
            let after = requires_txt::apply(&before, request.edit, identity, &request.siblings);
            if after != before {
                let [old, new] = [&before, &after].map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
                let differences = metadata::differences(&name, &old, &new);
                if differences.is_empty() {
                    found.changes.push(FieldChange::new(&name, Some("as it was"), Some("written anew")));
                }
                found.changes.extend(differences);
                found.texts.insert(name, after.into_bytes());
            }
        }
        let name = format!("{folder}/SOURCES.txt");
        if sdist.texts.contains_key(&name) && canonical_name(&identity.name) != canonical_name(&identity.new_name) {
            let parent = &folder[..folder.rfind('/').map_or(0, |at| at + 1)];
            let new = format!("{parent}{}.egg-info/", file_name_part(&identity.new_name));
            let text = sdist.text(&name)?.replace(&format!("{folder}/"), &new);
            found.texts.insert(name, text.into_bytes());
        }
    }
    Ok(())
}

fn dropped(sdist: &SdistFile, request: &Request<'_>, notes: &mut Vec<String>) -> Result<BTreeSet<String>, Error> {
    let patterns = &request.edit.drop;
    let members: Vec<&str> = sdist.files.iter().map(String::as_str).collect();
    unmatched(patterns.iter(), &members, "drop", notes);
    let drop: BTreeSet<String> = members
        .into_iter()
        .filter(|member| patterns.iter().any(|pattern| pattern.matches(member)))
        .map(str::to_owned)
        .collect();
    if drop.contains("PKG-INFO") {
        let reason = "cannot be dropped: no source distribution is without it";
        let (path, member) = (sdist.path.clone(), "PKG-INFO".to_owned());
        return Err(rocwheel_wheel::Error::Member { path, member, reason }.into());
    }
    Ok(drop)
}

/// Replaces the old version in the members that the edit names.
fn also_in(
    sdist: &SdistFile,
    identity: &Identity,
    request: &Request<'_>,
    drop: &BTreeSet<String>,
    found: &mut Found<'_>,
) {
    let patterns = &request.edit.also_in;
    let members: Vec<&str> = sdist.files.iter().map(String::as_str).collect();
    unmatched(patterns.iter(), &members, "rewrite", found.notes);
    if identity.version == identity.new_version {
        return;
    }
    let meant = members.into_iter().filter(|member| patterns.iter().any(|pattern| pattern.matches(member)));
    for member in meant.filter(|member| !drop.contains(*member)) {
        // Metadata has been edited already, by its own rules.
        if found.texts.contains_key(member) {
            continue;
        }
        let Some(text) = sdist.texts.get(member).and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
            found.notes.push(format!("`{member}` is not changed: it is too large, or not UTF-8 text"));
            continue;
        };
        match replaced(text, &identity.version, &identity.new_version) {
            (_, 0) => found.notes.push(format!("`{member}` does not say `{}`", identity.version)),
            (text, count) => {
                let times = if count > 1 { format!(", {count} times") } else { String::new() };
                let subject = format!("`{member}`{times}");
                found.changes.push(FieldChange::new(&subject, Some(&identity.version), Some(&identity.new_version)));
                found.texts.insert(member.to_owned(), text.into_bytes());
            }
        }
    }
}

pub(crate) fn write(
    steps: &SdistSteps,
    path: &Path,
    options: &WriteOptions,
    reporter: &dyn Reporter,
) -> Result<Written, Error> {
    let mut archive = TarGzWriter::create(path, options)?;
    let mut window = vec![0; WINDOW];
    let stage =
        reporter.stage(&format!("writing {}", path.file_name().unwrap_or_default().display()), None, Unit::Bytes);
    for_each_sdist_member(&steps.input, reporter, |entry, content| {
        if steps.drop.contains(&entry.path) {
            return Ok(());
        }
        let name = renamed(steps, &entry.path);
        let (size, executable) = match &entry.kind {
            SdistMemberKind::File { size, executable } => (*size, *executable),
            SdistMemberKind::Directory => return Ok(archive.directory(&name)?),
            SdistMemberKind::Symlink(target) => return Ok(archive.symlink(&name, target)?),
            SdistMemberKind::HardLink(target) => return Ok(archive.hard_link(&name, &renamed(steps, target))?),
        };
        if let Some(text) = steps.texts.get(&entry.path) {
            return archive.file(&name, executable, text.len() as u64, |sink| Ok(sink(text)?));
        }
        archive.file(&name, executable, size, |sink| {
            let mut left = size;
            while left > 0 {
                reporter.check()?;
                let length = left.min(WINDOW as u64) as usize;
                content
                    .read_exact(&mut window[..length])
                    .map_err(|source| rocwheel_wheel::Error::OpenSdist { path: steps.input.clone(), source })?;
                sink(&window[..length])?;
                left -= length as u64;
                reporter.advance(length as u64);
            }
            Ok::<_, Error>(())
        })
    })?;
    drop(stage);
    Ok(archive.finish()?)
}

/// The new path of a member.
fn renamed(steps: &SdistSteps, name: &str) -> String {
    let slashed = format!("{name}/");
    let folder = steps.folders.iter().find(|(old, _)| name.starts_with(old.as_str()) || slashed == *old);
    match folder {
        Some((old, new)) if slashed == *old => new.trim_end_matches('/').to_owned(),
        Some((old, new)) => format!("{new}{}", &name[old.len()..]),
        None => name.to_owned(),
    }
}
