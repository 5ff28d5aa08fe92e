//! Input: a file's dynamic section, and changes of its names. Output: the desired dynamic section,
//! [`Wanted`], and the comparison with what was written.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;

use crate::edit::{Edit, NeededEdit, SearchPath, SearchPathTag};
use crate::image::{DynamicEntry, Image};
use crate::source::{Source, StringTable};
use crate::version::{self, NeedRecord};
use crate::{Elf, Error};

/// The value of a dynamic entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A number or address, unchanged.
    Number(u64),
    /// A name, without its final zero byte.
    Text(Vec<u8>),
}

/// A dynamic entry. Tags that edits can change have their name as the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) tag: elf::DynamicTag,
    pub(crate) value: Value,
}

/// The dynamic section with names, and the chain of needed versions.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) entries: Vec<Entry>,
    pub(crate) needs: Vec<(Vec<u8>, NeedRecord)>,
    pub(crate) strings: StringTable,
    /// Names in the string table that can be used again, with their indices.
    pub(crate) known: BTreeMap<Vec<u8>, u64>,
}

impl Current {
    pub(crate) fn read(image: &Image, source: Source<'_>) -> Result<Self, Error> {
        let strings = image.dynamic_strings()?;
        let strings = strings.ok_or_else(|| Error::malformed("dynamic section", "it names no string table"))?;
        let mut current = Self { entries: Vec::new(), needs: Vec::new(), strings, known: BTreeMap::new() };
        for &DynamicEntry { tag, value } in image.dynamic.iter().flat_map(|dynamic| &dynamic.entries) {
            let tag = elf::DynamicTag(tag);
            let is_name = [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag);
            let value = if is_name { Value::Text(current.read_name(source, value)?) } else { Value::Number(value) };
            current.entries.push(Entry { tag, value });
        }
        for record in version::needs(image, source)? {
            let library = current.read_name(source, record.library)?;
            current.needs.push((library, record));
        }
        Ok(current)
    }

    /// Reads a name of the string table, which is then known.
    fn read_name(&mut self, source: Source<'_>, index: u64) -> Result<Vec<u8>, Error> {
        let name = version::name(source, Some(self.strings), index)?;
        self.known.entry(name.clone()).or_insert(index);
        Ok(name)
    }

    fn needs_versions_of(&self, library: &[u8]) -> bool {
        self.needs.iter().any(|(name, _)| name == library)
    }
}

/// The desired dynamic section.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) entries: Vec<Entry>,
    /// Libraries renamed in the chain of needed versions: name in the file → new name.
    pub(crate) renamed: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Libraries removed from the chain of needed versions, by their name in the file.
    pub(crate) removed: BTreeSet<Vec<u8>>,
}

impl Wanted {
    /// The section after an edit.
    pub(crate) fn new(edit: &Edit, current: &Current) -> Wanted {
        let mut wanted =
            Wanted { entries: current.entries.clone(), renamed: BTreeMap::new(), removed: BTreeSet::new() };
        if let Some(path) = &edit.search_path {
            wanted.set_search_path(path, edit.search_path_tag);
        }
        if let Some(soname) = &edit.soname {
            wanted.set_text(elf::DT_SONAME, soname.as_bytes());
        }
        for needed in &edit.needed {
            match needed {
                NeededEdit::Add(name) => wanted.add_needed(name.as_bytes()),
                NeededEdit::Remove(name) => wanted.remove_needed(name.as_bytes()),
                NeededEdit::Replace { from, to } => wanted.replace_needed(from.as_bytes(), to.as_bytes()),
            }
        }
        wanted.close_versions(current);
        wanted
    }

    pub(crate) fn changes_nothing(&self, current: &Current) -> bool {
        let mut libraries = current.needs.iter().map(|(library, _)| library);
        self.entries == current.entries
            && !libraries.any(|library| self.renamed.contains_key(library) || self.removed.contains(library))
    }

    fn texts(&self, tag: elf::DynamicTag) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().filter_map(move |entry| match &entry.value {
            Value::Text(text) if entry.tag == tag => Some(text.as_slice()),
            _ => None,
        })
    }

    fn set_text(&mut self, tag: elf::DynamicTag, text: &[u8]) {
        let value = Value::Text(text.to_vec());
        match self.entries.iter_mut().find(|entry| entry.tag == tag) {
            Some(entry) => entry.value = value,
            None => self.entries.push(Entry { tag, value }),
        }
    }

    fn set_search_path(&mut self, path: &SearchPath, tag: SearchPathTag) {
        let old = self.texts(elf::DT_RUNPATH).chain(self.texts(elf::DT_RPATH)).next().unwrap_or_default().to_vec();
        let (old, entries) = match path {
            SearchPath::Set(entries) => (Vec::new(), entries),
            SearchPath::Add(entries) => (old, entries),
        };
        let mut seen = BTreeSet::new();
        let mut kept = Vec::new();
        let added = entries.iter().flat_map(|entry| entry.as_bytes().split(|&byte| byte == b':'));
        for entry in old.split(|&byte| byte == b':').chain(added) {
            if !entry.is_empty() && seen.insert(entry) {
                kept.push(entry);
            }
        }
        let joined = kept.join(&b':');
        let tag = match tag {
            SearchPathTag::Rpath => elf::DT_RPATH,
            SearchPathTag::Runpath => elf::DT_RUNPATH,
        };
        let tags = [elf::DT_RPATH, elf::DT_RUNPATH];
        let place = self.entries.iter().position(|entry| tags.contains(&entry.tag)).unwrap_or(self.entries.len());
        self.entries.retain(|entry| !tags.contains(&entry.tag));
        if !joined.is_empty() {
            self.entries.insert(place, Entry { tag, value: Value::Text(joined) });
        }
    }

    fn is_needed(entry: &Entry, name: &[u8]) -> bool {
        entry.tag == elf::DT_NEEDED && matches!(&entry.value, Value::Text(text) if text == name)
    }

    fn add_needed(&mut self, name: &[u8]) {
        if self.entries.iter().any(|entry| Self::is_needed(entry, name)) {
            return;
        }
        let place = self.entries.iter().rposition(|entry| entry.tag == elf::DT_NEEDED).map_or(0, |last| last + 1);
        self.entries.insert(place, Entry { tag: elf::DT_NEEDED, value: Value::Text(name.to_vec()) });
    }

    fn remove_needed(&mut self, name: &[u8]) {
        let before = self.entries.len();
        self.entries.retain(|entry| !Self::is_needed(entry, name));
        if self.entries.len() == before {
            return;
        }
        self.removed.insert(name.to_vec());
        let renamed_to_it: Vec<_> =
            self.renamed.iter().filter(|(_, to)| *to == name).map(|(from, _)| from.clone()).collect();
        for from in renamed_to_it {
            self.renamed.remove(&from);
            self.removed.insert(from);
        }
    }

    fn replace_needed(&mut self, from: &[u8], to: &[u8]) {
        if from == to || !self.entries.iter().any(|entry| Self::is_needed(entry, from)) {
            return;
        }
        let mut present = self.entries.iter().any(|entry| Self::is_needed(entry, to));
        self.entries.retain_mut(|entry| {
            if !Self::is_needed(entry, from) {
                return true;
            }
            entry.value = Value::Text(to.to_vec());
            !std::mem::replace(&mut present, true)
        });
        for target in self.renamed.values_mut().filter(|target| *target == from) {
            *target = to.to_vec();
        }
        self.renamed.entry(from.to_vec()).or_insert_with(|| to.to_vec());
    }

    /// Adjusts the tags of the chain of needed versions to the removals, and forgets changes of
    /// libraries that are not in the chain.
    fn close_versions(&mut self, current: &Current) {
        // A library that is removed and added again is needed under its name, so its versions stay.
        let entries = &self.entries;
        self.removed.retain(|library| {
            current.needs_versions_of(library) && !entries.iter().any(|entry| Self::is_needed(entry, library))
        });
        self.renamed.retain(|library, to| library != to && current.needs_versions_of(library));
        let kept = current.needs.iter().filter(|(library, _)| !self.removed.contains(library)).count();
        if kept == current.needs.len() {
            return;
        }
        if kept == 0 {
            // Without any version, glibc must not find the symbols' version numbers either.
            let defines = self.entries.iter().any(|entry| entry.tag == elf::DT_VERDEF);
            let chain = [elf::DT_VERNEED, elf::DT_VERNEEDNUM];
            self.entries.retain(|entry| !chain.contains(&entry.tag) && (defines || entry.tag != elf::DT_VERSYM));
        }
        for entry in self.entries.iter_mut().filter(|entry| entry.tag == elf::DT_VERNEEDNUM) {
            entry.value = Value::Number(kept as u64);
        }
    }

    /// Compares the file that was read back with the desired values, and everything else with the
    /// original.
    pub(crate) fn check(&self, before: &Elf, after: &Elf) -> Result<(), Error> {
        for (what, tag, found) in [
            ("DT_RPATH", elf::DT_RPATH, &after.rpath),
            ("DT_RUNPATH", elf::DT_RUNPATH, &after.runpath),
            ("DT_SONAME", elf::DT_SONAME, &after.soname),
        ] {
            let wanted = String::from_utf8_lossy(self.texts(tag).next().unwrap_or_default()).into_owned();
            check_same(what, found.clone().unwrap_or_default(), wanted)?;
        }
        let needed: Vec<_> = self.texts(elf::DT_NEEDED).map(String::from_utf8_lossy).collect();
        check_same("DT_NEEDED", after.needed.join(" "), needed.join(" "))?;
        let needs: Vec<_> = before
            .version_needs
            .iter()
            .filter(|need| !self.removed.contains(need.library.as_bytes()))
            .map(|need| {
                let renamed = self.renamed.get(need.library.as_bytes());
                let renamed = renamed.map(|to| String::from_utf8_lossy(to).into_owned());
                (renamed.unwrap_or_else(|| need.library.clone()), need.versions.clone())
            })
            .collect();
        let found: Vec<_> =
            after.version_needs.iter().map(|need| (need.library.clone(), need.versions.clone())).collect();
        check_same("the table of needed versions", format!("{found:?}"), format!("{needs:?}"))?;
        check_same("the versions defined", after.version_definitions.join(" "), before.version_definitions.join(" "))?;
        let (found, wanted) = (after.interpreter.clone(), before.interpreter.clone());
        check_same("PT_INTERP", found.unwrap_or_default(), wanted.unwrap_or_default())?;
        check_same("the build ID", format!("{:?}", after.build_id), format!("{:?}", before.build_id))?;
        check_same("the kind of file", format!("{:?}", after.kind), format!("{:?}", before.kind))
    }
}

fn check_same(what: &'static str, found: String, wanted: String) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(Error::ReadBack { what, found, wanted }) }
}
