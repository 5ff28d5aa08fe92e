//! Input: what the wheels of a set require. Output: which of them bring what, and requirements that nothing needs (RW013).

use std::collections::{BTreeMap, BTreeSet};

use super::Context;
use crate::Error;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::owners::{Owner, Owners};
use crate::site::InstalledWheel;

/// What one wheel requires, as canonical names.
#[derive(Debug, Default)]
pub(crate) struct Requirements {
    /// Always, with this Python on Linux.
    pub(crate) plain: BTreeSet<String>,
    /// With an extra: name of the extra → names.
    pub(crate) extras: BTreeMap<String, BTreeSet<String>>,
}

/// How a wheel comes by the libraries of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Brought {
    /// A requirement of it, or of what it requires, brings them.
    By(String),
    /// One that only this extra has.
    ByExtra(String),
    /// Not that anyone knows.
    No,
}

impl Requirements {
    pub(crate) fn read(wheel: &InstalledWheel) -> Requirements {
        let mut found = Requirements::default();
        for text in wheel.metadata.all("Requires-Dist") {
            let end = text.find(|character: char| !character.is_ascii_alphanumeric() && !"-_.".contains(character));
            let name = wheel::canonical_name(&text[..end.unwrap_or(text.len())]);
            let marker = text.split_once(';').map(|(_, marker)| marker.to_owned()).unwrap_or_default();
            if let Some((_, rest)) = marker.split_once("extra") {
                let extra = rest.split(['"', '\'']).nth(1).unwrap_or_default().to_owned();
                found.extras.entry(extra).or_default().insert(name);
            } else {
                found.plain.insert(name);
            }
        }
        found
    }

    /// Wheels of the set that this one requires, and what those require.
    pub(crate) fn closure(&self, context: &Context<'_>, own: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut open: Vec<usize> = self.plain.iter().filter_map(|name| context.named(name)).collect();
        // What is installed by an extra is in the set because somebody chose it.
        open.extend(self.extras.values().flatten().filter_map(|name| context.named(name)));
        while let Some(wheel) = open.pop() {
            if wheel != own && found.insert(wheel) {
                let requirements = &context.requirements[wheel];
                open.extend(requirements.plain.iter().filter_map(|name| context.named(name)));
            }
        }
        found
    }

    /// All names that are required, by this wheel and by what it requires in the set.
    fn names<'c>(&'c self, context: &'c Context<'_>) -> BTreeSet<&'c str> {
        let mut names: BTreeSet<&str> = self.plain.iter().map(String::as_str).collect();
        let mut open: Vec<usize> = names.iter().filter_map(|name| context.named(name)).collect();
        let mut seen = BTreeSet::new();
        while let Some(wheel) = open.pop() {
            if seen.insert(wheel) {
                let required = context.requirements[wheel].plain.iter().map(String::as_str);
                open.extend(required.clone().filter_map(|name| context.named(name)));
                names.extend(required);
            }
        }
        names
    }

    /// How the libraries of an owner come.
    pub(crate) fn brings(&self, context: &Context<'_>, owner: &Owner) -> Brought {
        if let Some(name) = self.names(context).into_iter().find(|name| owner.is_brought_by(name)) {
            return Brought::By(name.to_owned());
        }
        let extra = self.extras.iter().find(|(_, names)| names.iter().any(|name| owner.is_brought_by(name)));
        extra.map_or(Brought::No, |(extra, _)| Brought::ByExtra(extra.clone()))
    }

    /// Requirements that were not given and of which nobody knows what they bring.
    pub(crate) fn unknown(&self, context: &Context<'_>) -> Vec<String> {
        let names = self.names(context).into_iter();
        let unknown = names.filter(|name| context.named(name).is_none() && !Owners::embedded().is_plain(name));
        unknown.map(str::to_owned).collect()
    }
}

/// RW013. A requirement is needed when a file loads a library of it, and may be needed when a file names a module of it
/// or the other has no modules and libraries itself.
pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        let mut candidates: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
        for name in &context.requirements[wheel].plain {
            let Some(other) = context.named(name).filter(|other| *other != wheel) else { continue };
            let modules = modules(context, other);
            // Distributions that only require others are needed for those.
            let is_group = modules.is_empty() || !context.requirements[other].plain.is_empty();
            if !is_group && !loads_from(context, wheel, other) {
                candidates.insert(name.clone(), (other, modules));
            }
        }
        if candidates.is_empty() {
            continue;
        }
        let mut words: BTreeSet<String> = candidates.values().flat_map(|(_, modules)| modules.clone()).collect();
        for path in context.paths(wheel) {
            if words.is_empty() {
                break;
            }
            if context.reporter.interrupted() {
                return Err(Error::Interrupted);
            }
            if context.member(path).starts_with(installed.wheel.info()) {
                // METADATA names what it requires.
                continue;
            }
            let found = names_in(context, path, &words)?;
            words.retain(|word| !found.contains(word));
        }
        for (name, (_, modules)) in candidates {
            if modules.iter().all(|module| words.contains(module)) {
                let message = format!("requires `{name}`, and no file loads a library of it or names a module of it");
                let finding = Finding::new(Code::UnneededRequirement, name.clone(), message).of(installed.file_name());
                findings.push(finding.fixed_by(fix::unrequire(installed, &name)));
            }
        }
    }
    Ok(())
}

/// Top-level modules and packages of a wheel.
fn modules(context: &Context<'_>, wheel: usize) -> BTreeSet<String> {
    let info = context.site.wheels[wheel].wheel.info();
    let packages = context.site.packages();
    let inside = context.paths(wheel).iter().filter_map(|path| path.strip_prefix(packages.as_str())?.strip_prefix('/'));
    let tops = inside.filter_map(|path| match path.split_once('/') {
        Some((top, _)) if top != info && !top.contains('.') => Some(top.to_owned()),
        Some(_) => None,
        None => path.split('.').next().filter(|_| path.ends_with(".py") || path.ends_with(".so")).map(str::to_owned),
    });
    tops.collect()
}

/// Whether a file of one wheel loads a library of the other.
fn loads_from(context: &Context<'_>, wheel: usize, other: usize) -> bool {
    let rooted = context.rooted.iter().filter(|rooted| rooted.wheel == wheel);
    rooted.flat_map(|rooted| &rooted.trace.loaded).any(|loaded| match &loaded.place {
        crate::loader::Where::Site(path) => context.owner(path) == Some(other),
        crate::loader::Where::System(_) => false,
    })
}

/// Which of the words a file holds anywhere, compiled or not.
fn names_in(context: &Context<'_>, path: &str, words: &BTreeSet<String>) -> Result<BTreeSet<String>, Error> {
    const WINDOW: usize = 1 << 20;
    let reader = context.site.reader(path)?;
    let size = context.site.files.get(path).map_or(0, |placed| placed.size);
    let longest = words.iter().map(String::len).max().unwrap_or(0);
    let mut found = BTreeSet::new();
    let (mut start, mut window) = (0u64, vec![0; WINDOW + longest]);
    while start < size && found.len() < words.len() {
        let length = window.len().min(usize::try_from(size - start).unwrap_or(usize::MAX));
        if reader.read_exact_at(start, &mut window[..length]).is_err() {
            // RECORD's check says what is damaged; what cannot be read may name anything.
            return Ok(words.clone());
        }
        for word in words {
            if contains(&window[..length], word.as_bytes()) {
                found.insert(word.clone());
            }
        }
        start += WINDOW as u64;
    }
    Ok(found)
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(bytes, word).is_some()
}
