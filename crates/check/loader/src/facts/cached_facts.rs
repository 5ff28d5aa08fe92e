//! Input: an environment and a cache. Output: the facts about its wheels that earlier runs wrote
//! into the cache, and those of this run in it.
//!
//! Facts are kept by member, because an environment decides the paths. Files that cannot be read,
//! in whole or in part, are not kept: messages about them may name a path, and a later run may be
//! able to read them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_elf::Elf;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_wheel::read::Wheel;
use serde::{Deserialize, Serialize};

use super::{Object, SMALLEST, SiteFacts, WindowsObject};
use crate::Error;
use crate::cache::FactsCache;
use crate::site::{Placed, Site};

/// Kinds of entries in the cache.
const HEADERS: &str = "headers";
const LOADS: &str = "loads";

/// What a member of a wheel is.
#[derive(Serialize, Deserialize)]
enum KeptFile<'a> {
    /// Neither an ELF nor a PE file.
    Data,
    Elf(Box<Cow<'a, Object>>),
    Windows(Option<Cow<'a, WindowsObject>>),
}

/// The members that were read, by name.
type KeptHeaders<'a> = BTreeMap<Cow<'a, str>, KeptFile<'a>>;
/// The members whose data was searched, by name.
type KeptLoads<'a> = BTreeMap<Cow<'a, str>, Cow<'a, BTreeSet<String>>>;

/// What the cache has about the headers of a site's files.
pub(super) struct Kept<'a> {
    pub(super) facts: SiteFacts,
    /// Paths of files that are neither ELF nor PE files.
    pub(super) data: BTreeSet<&'a str>,
    /// Number of members that the cache has of each distribution.
    pub(super) counts: Vec<usize>,
}

impl<'a> Kept<'a> {
    pub(super) fn read(site: &'a Site, cache: &FactsCache, reporter: &dyn Reporter) -> Result<Kept<'a>, Error> {
        let _stage = reporter.stage("Looking for facts of earlier runs", None, Unit::Items);
        let wheels: Vec<Option<&Wheel>> =
            site.distributions.iter().map(|distribution| distribution.wheel().map(|wheel| &**wheel)).collect();
        let members = wheels.into_par_iter().map(|wheel| {
            reporter.check()?;
            Ok(wheel.and_then(|wheel| cache.read(HEADERS, wheel)).unwrap_or_default())
        });
        let mut members: Vec<KeptHeaders<'static>> = members.collect::<Result<_, Error>>()?;
        let counts = members.iter().map(BTreeMap::len).collect();
        let mut kept = Kept { facts: SiteFacts::default(), data: BTreeSet::new(), counts };
        for (path, placed) in &site.files {
            match members[placed.wheel].remove(placed.member.as_str()) {
                None => {}
                Some(KeptFile::Data) => {
                    kept.data.insert(path);
                }
                Some(KeptFile::Elf(object)) => drop(kept.facts.objects.insert(path.clone(), object.into_owned())),
                Some(KeptFile::Windows(file)) => {
                    kept.facts.windows.insert(path.clone(), file.map(Cow::into_owned));
                }
            }
        }
        Ok(kept)
    }
}

/// What the cache has about a member of a wheel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownHeaders {
    /// It is neither an ELF nor a PE file.
    Data,
    /// It is an ELF file with these headers.
    Elf(Box<Elf>),
    /// It is a PE file.
    Windows,
}

/// The members of a wheel that the cache has, by name.
pub fn known_headers(cache: &FactsCache, wheel: &Wheel) -> BTreeMap<String, KnownHeaders> {
    let kept: KeptHeaders<'static> = cache.read(HEADERS, wheel).unwrap_or_default();
    let known = kept.into_iter().map(|(name, file)| match file {
        KeptFile::Data => (name.into_owned(), KnownHeaders::Data),
        KeptFile::Elf(object) => (name.into_owned(), KnownHeaders::Elf(Box::new(object.into_owned().elf))),
        KeptFile::Windows(_) => (name.into_owned(), KnownHeaders::Windows),
    });
    known.collect()
}

/// Keeps the headers of wheels of which the cache has fewer.
pub(super) fn write_headers(
    facts: &SiteFacts,
    site: &Site,
    (cache, counts): (&FactsCache, &[usize]),
    reporter: &dyn Reporter,
) {
    let mut members: Vec<KeptHeaders<'_>> = site.distributions.iter().map(|_| BTreeMap::new()).collect();
    for (path, placed) in site.files.iter().filter(|(_, placed)| placed.size >= SMALLEST) {
        let file = if let Some(object) = facts.objects.get(path) {
            object.symbols.is_ok().then_some(KeptFile::Elf(Box::new(Cow::Borrowed(object))))
        } else if let Some(file) = facts.windows.get(path) {
            let is_read = file.as_ref().is_none_or(|file| file.imports.is_ok());
            is_read.then(|| KeptFile::Windows(file.as_ref().map(Cow::Borrowed)))
        } else {
            (!facts.unreadable.contains_key(path) && !facts.unread.contains(path)).then_some(KeptFile::Data)
        };
        if let Some(file) = file {
            members[placed.wheel].insert(Cow::Borrowed(&placed.member), file);
        }
    }
    let new = site.distributions.iter().zip(&members).zip(counts);
    let new: Vec<_> = new.filter(|((_, members), count)| members.len() > **count).map(|(new, _)| new).collect();
    new.into_par_iter().for_each(|(distribution, members)| {
        if let Some(wheel) = distribution.wheel() {
            cache.write(HEADERS, wheel, members, reporter);
        }
    });
}

/// Adds the names of libraries that the cache has ([`Object::loads`]).
pub(super) fn read_loads(facts: &mut SiteFacts, site: &Site, cache: &FactsCache) {
    let mut loads: BTreeMap<usize, KeptLoads<'static>> = BTreeMap::new();
    for (path, object) in facts.objects.iter_mut().filter(|(_, object)| object.calls_dlopen()) {
        let Some((placed, wheel)) = member(site, path) else { continue };
        let kept = loads.entry(placed.wheel).or_insert_with(|| cache.read(LOADS, wheel).unwrap_or_default());
        object.loads = kept.remove(placed.member.as_str()).map(Cow::into_owned);
    }
}

/// Keeps the names of libraries in the data of these wheels' files.
pub(super) fn write_loads(
    facts: &SiteFacts,
    site: &Site,
    (cache, wheels): (&FactsCache, &BTreeSet<usize>),
    reporter: &dyn Reporter,
) {
    let mut loads: BTreeMap<usize, KeptLoads<'_>> = BTreeMap::new();
    for (path, object) in &facts.objects {
        if let Some(names) = &object.loads
            && let Some(placed) = site.files.get(path).filter(|placed| wheels.contains(&placed.wheel))
        {
            loads.entry(placed.wheel).or_default().insert(Cow::Borrowed(&placed.member), Cow::Borrowed(names));
        }
    }
    for (number, loads) in loads {
        if let Some(wheel) = site.distributions[number].wheel() {
            cache.write(LOADS, wheel, &loads, reporter);
        }
    }
}

fn member<'a>(site: &'a Site, path: &str) -> Option<(&'a Placed, &'a Wheel)> {
    let placed = site.files.get(path)?;
    let wheel: &Wheel = site.distributions[placed.wheel].wheel()?;
    Some((placed, wheel))
}
