//! Comparison of archives inside of packages: tar archives and static libraries, member by member.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};

use positioned_io::Cursor;
use rocwheel_content::Content;
use rocwheel_progress::Failure;

use crate::change::{Change, ChangeKind};
use crate::compare::Compared;
use crate::findings::{Context, Findings, Opened};
use crate::side::Named;
use crate::{error, pair, tarball};

const WINDOW: usize = 1 << 18;

/// Compares the members of two tar archives, without their compression, their order and their time
/// stamps.
pub(crate) fn compare(opened: &Opened<'_>, context: &Context<'_>) -> Result<Findings, Failure> {
    let (old, new) = (unpack(opened, &*opened.old, context)?, unpack(opened, &*opened.new, context)?);
    let mut findings = Findings::default();
    for pair in pair::entries(&old, &new) {
        let (file, targets) = match (pair.old, pair.new) {
            (Some(old), Some(new)) => {
                let Compared { file, inside, targets } = context.entries(pair.key, old, new)?;
                findings.inside.extend(inside);
                (file, targets)
            }
            (Some(old), None) => (Some(old.alone(ChangeKind::LostFile)), Vec::new()),
            (None, Some(new)) => (Some(new.alone(ChangeKind::NewFile)), Vec::new()),
            (None, None) => continue,
        };
        findings.inside.extend(file);
        findings.targets.extend(targets);
    }
    for file in &mut findings.inside {
        file.path = format!("{}:{}", opened.key, file.path);
        file.old_path = file.old_path.take().map(|path| format!("{}:{path}", opened.key));
    }
    let note = if findings.inside.is_empty() {
        "the same members, packed in another way"
    } else {
        "compared member by member"
    };
    findings.notes.push(note.to_owned());
    Ok(findings)
}

/// Returns the members of a tar archive by their paths.
fn unpack(
    opened: &Opened<'_>,
    content: &dyn Content,
    context: &Context<'_>,
) -> Result<BTreeMap<String, Named>, Failure> {
    let entries = tarball::unpack(opened.key, content.open()?, context.scratch, context.reporter)?;
    Ok(entries.into_iter().map(|(path, entry)| (path.clone(), Named { path, entry })).collect())
}

/// Compares two static libraries. Time stamps and owners of their members are ignored.
pub(crate) fn compare_static(opened: &Opened<'_>) -> Result<Findings, Failure> {
    let (old, new) = (members(opened, &*opened.old)?, members(opened, &*opened.new)?);
    if old == new {
        return Ok(Findings::note("the same members with other time stamps or owners"));
    }
    let differing = old.iter().filter(|(name, hash)| new.get(*name).is_some_and(|other| other != *hash)).count();
    let [gained, lost] =
        [(&new, &old), (&old, &new)].map(|(one, other)| one.keys().filter(|name| !other.contains_key(*name)).count());
    let text = format!("{differing} members differ, {gained} new, {lost} lost");
    Ok(Findings::change(Change::of(ChangeKind::Content, text)))
}

/// Returns hashes of members by name and by the number of earlier members with that name: compilers
/// give several objects one name.
fn members(opened: &Opened<'_>, content: &dyn Content) -> Result<BTreeMap<(String, usize), blake3::Hash>, Failure> {
    let mut archive = ar::Archive::new(BufReader::with_capacity(WINDOW, Cursor::new(content.open()?)));
    let (mut members, mut counts) = (BTreeMap::new(), BTreeMap::new());
    let mut buffer = vec![0; WINDOW];
    while let Some(member) = archive.next_entry() {
        let mut member = member.map_err(error::unreadable(opened.key))?;
        let name = String::from_utf8_lossy(member.header().identifier()).into_owned();
        let mut hasher = blake3::Hasher::new();
        loop {
            let read = member.read(&mut buffer).map_err(error::unreadable(opened.key))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
        let count: &mut usize = counts.entry(name.clone()).or_default();
        members.insert((name, *count), hasher.finalize());
        *count += 1;
    }
    Ok(members)
}
