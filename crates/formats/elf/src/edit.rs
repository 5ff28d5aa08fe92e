//! Input: an [`Edit`], the desired changes, and a random-access file. Output: a [`Patch`].
//!
//! The edit is first applied to names ([`Wanted`]: the desired dynamic section); `rewrite` decides
//! where the bytes go. At the end the patched file is read back, and a difference is an error.

use std::collections::{BTreeMap, BTreeSet};

use object::elf;
use positioned_io::ReadAt;

use crate::image::{DynamicEntry, Image, Source, StringTable};
use crate::read::{ElfKind, kind};
use crate::version::{self, NeedRecord};
use crate::{EditOutcome, Elf, Error, Patch, Patched, rewrite, stack};

/// Changes to an executable or shared library, which are made in one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edit {
    /// The search path for needed libraries; `None` leaves both tags unchanged.
    pub search_path: Option<SearchPath>,
    /// The tag for the search path; the other tag is removed.
    pub search_path_tag: SearchPathTag,
    /// The new DT_SONAME. The name inside the base version definition stays, because nothing reads
    /// it.
    pub soname: Option<String>,
    /// Changes to DT_NEEDED, applied one after the other.
    pub needed: Vec<NeededEdit>,
    /// The executable-stack flag of PT_GNU_STACK.
    pub stack: StackFlag,
}

/// Treatment of the flag that requests an executable stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StackFlag {
    /// The flag stays unchanged.
    #[default]
    Keep,
    /// The flag is cleared in libraries without code that needs it ([`Elf::runs_code_on_stack`]).
    /// Libraries without a PT_GNU_STACK, which old linkers make and which means the same, stay
    /// unchanged.
    Clear,
}

/// A change of the search path. Entries may hold several paths joined with `:`; repeated and empty
/// ones are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchPath {
    /// Exactly these entries; an empty list removes the search path.
    Set(Vec<String>),
    /// The entries that the loader uses now, then these. Without entries it only converts between
    /// the two tags.
    Add(Vec<String>),
}

/// The tag that holds the search path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SearchPathTag {
    /// DT_RPATH: searched before `LD_LIBRARY_PATH`, also for the libraries that the needed ones
    /// need.
    #[default]
    Rpath,
    /// DT_RUNPATH: searched after `LD_LIBRARY_PATH`, for this file's needs only.
    Runpath,
}

/// A change of DT_NEEDED.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NeededEdit {
    /// Adds a library behind the others; no effect if it is needed already.
    Add(String),
    /// Removes a library with the versions needed from it: its symbols are then taken from any
    /// library, in any version. No effect if the library is not needed.
    Remove(String),
    /// Renames a library in its place, and in the table of needed versions (`.gnu.version_r`), for
    /// which glibc requires it.
    Replace {
        /// The current name; no effect if no library has it.
        from: String,
        /// The new name. If a library with this name is needed already, the two become one.
        to: String,
    },
}

impl Edit {
    /// Computes which bytes of the file change. The file is neither loaded nor written.
    ///
    /// Static programs and edits that change nothing give an empty patch; [`Patch::outcome`]
    /// distinguishes the two.
    ///
    /// # Errors
    /// [`Error::NotElf`], [`Error::Machine`], [`Error::NotLinked`] for files that cannot be edited,
    /// [`Error::Text`] for names that cannot be stored, and those of [`Elf::read`].
    pub fn plan(&self, reader: &dyn ReadAt) -> Result<Patch, Error> {
        self.check()?;
        let source = Source { reader };
        let image = Image::read(source)?.ok_or(Error::NotElf)?;
        let before = Elf::from_image(&image, source)?;
        let size = source.size()?;
        match kind(&image, before.interpreter.is_some(), before.soname.is_some()) {
            ElfKind::Executable | ElfKind::SharedLibrary => {}
            ElfKind::StaticExecutable => return Ok(Patch::empty(size, EditOutcome::NotDynamic)),
            ElfKind::DebugOnly => return Err(Error::NotLinked { kind: "a separate debug file" }),
            ElfKind::Relocatable => return Err(Error::NotLinked { kind: "an object file" }),
            ElfKind::Other => return Err(Error::NotLinked { kind: "a core dump or an unknown kind of ELF file" }),
        }
        check_machine(&image)?;
        if image.dynamic.is_none() {
            return Err(Error::malformed("program header table", "a dynamic executable or library without PT_DYNAMIC"));
        }
        let current = Current::read(&image, source)?;
        let wanted = self.wanted(&current);
        let patch = if wanted.changes_nothing(&current) {
            Patch::empty(size, EditOutcome::Unchanged)
        } else {
            let patch = rewrite::rewrite(image, source, size, &current, &wanted)?;
            let after = Elf::read(&Patched::new(reader, patch.clone()))?.ok_or(Error::NotElf)?;
            wanted.check(&before, &after)?;
            patch
        };
        self.without_stack_flag(&before, reader, patch)
    }

    /// Adds to `patch` that the stack flag is cleared, if that is wanted and no code needs it.
    fn without_stack_flag(&self, before: &Elf, reader: &dyn ReadAt, patch: Patch) -> Result<Patch, Error> {
        if self.stack == StackFlag::Keep || !before.has_needless_stack_flag(reader)? {
            return Ok(patch);
        }
        let patched = Patched::new(reader, patch.clone());
        let image = Image::read(Source { reader: &patched })?.ok_or(Error::NotElf)?;
        let Some(builder) = stack::clear(&image, patch.size) else { return Ok(patch) };
        let both = patch.then(&builder.finish());
        // Neither of the two moves bytes that the other one keeps.
        Ok(if patch.is_in_place() { both.in_place() } else { both })
    }

    fn check(&self) -> Result<(), Error> {
        let paths = self.search_path.iter().flat_map(|path| match path {
            SearchPath::Set(entries) | SearchPath::Add(entries) => entries,
        });
        let needed = self.needed.iter().flat_map(|edit| match edit {
            NeededEdit::Add(name) | NeededEdit::Remove(name) => vec![name],
            NeededEdit::Replace { from, to } => vec![from, to],
        });
        let names: Vec<&String> = needed.chain(&self.soname).collect();
        let refuse = |text: &str, why| Err(Error::Text { text: text.to_owned(), why });
        if let Some(text) = paths.chain(names.iter().copied()).find(|text| text.contains('\0')) {
            return refuse(text, "it holds a zero byte, which ends names there");
        }
        if names.iter().any(|name| name.is_empty()) {
            return refuse("", "a library's name cannot be empty");
        }
        Ok(())
    }

    fn wanted(&self, current: &Current) -> Wanted {
        let mut wanted =
            Wanted { entries: current.entries.clone(), renamed: BTreeMap::new(), removed: BTreeSet::new() };
        if let Some(path) = &self.search_path {
            wanted.set_search_path(path, self.search_path_tag);
        }
        if let Some(soname) = &self.soname {
            wanted.set_text(elf::DT_SONAME, soname.as_bytes());
        }
        for edit in &self.needed {
            match edit {
                NeededEdit::Add(name) => wanted.add_needed(name.as_bytes()),
                NeededEdit::Remove(name) => wanted.remove_needed(name.as_bytes()),
                NeededEdit::Replace { from, to } => wanted.replace_needed(from.as_bytes(), to.as_bytes()),
            }
        }
        wanted.close_versions(current);
        wanted
    }
}

pub(crate) fn check_machine(image: &Image) -> Result<(), Error> {
    let machine = elf::Machine(image.machine);
    let is_little = matches!(image.endian, object::Endianness::Little);
    if machine == elf::EM_X86_64 && image.is_64 && is_little {
        return Ok(());
    }
    let name = match machine {
        elf::EM_X86_64 => "x86-64 in 32-bit or big-endian form",
        elf::EM_AMDGPU => "AMD GPU code",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_386 => "32-bit x86",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "PowerPC 64",
        elf::EM_S390 => "S/390",
        elf::EM_ARM => "32-bit ARM",
        _ => "not one of the common ones",
    };
    Err(Error::Machine { machine: machine.0, name })
}

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
    fn read(image: &Image, source: Source<'_>) -> Result<Self, Error> {
        let missing = || Error::malformed("dynamic section", "it names no string table");
        let strings = image.dynamic_strings()?.ok_or_else(missing)?;
        let mut known = BTreeMap::new();
        let mut text = |index: u64| -> Result<Vec<u8>, Error> {
            let bytes = version::name(source, Some(strings), index)?;
            known.entry(bytes.clone()).or_insert(index);
            Ok(bytes)
        };
        let entries = image.dynamic.iter().flat_map(|dynamic| &dynamic.entries);
        let entries = entries
            .map(|&DynamicEntry { tag, value }| {
                let tag = elf::DynamicTag(tag);
                let is_name = [elf::DT_NEEDED, elf::DT_SONAME, elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag);
                Ok(Entry { tag, value: if is_name { Value::Text(text(value)?) } else { Value::Number(value) } })
            })
            .collect::<Result<_, Error>>()?;
        let needs = version::needs(image, source)?
            .into_iter()
            .map(|record| Ok((text(record.library)?, record)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { entries, needs, strings, known })
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
    fn changes_nothing(&self, current: &Current) -> bool {
        let touched = |library: &Vec<u8>| self.renamed.contains_key(library) || self.removed.contains(library);
        self.entries == current.entries && !current.needs.iter().any(|(library, _)| touched(library))
    }

    fn text(&self, tag: elf::DynamicTag) -> Option<&[u8]> {
        self.entries.iter().find_map(|entry| match &entry.value {
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
        let old = self.text(elf::DT_RUNPATH).or(self.text(elf::DT_RPATH)).unwrap_or_default().to_vec();
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
        let is_path = |entry: &Entry| entry.tag == elf::DT_RPATH || entry.tag == elf::DT_RUNPATH;
        let place = self.entries.iter().position(is_path).unwrap_or(self.entries.len());
        self.entries.retain(|entry| !is_path(entry));
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
        let in_chain = |library: &Vec<u8>| current.needs.iter().any(|(name, _)| name == library);
        // A library that is removed and added again is needed under its name, so its versions stay.
        let entries = &self.entries;
        self.removed
            .retain(|library| in_chain(library) && !entries.iter().any(|entry| Self::is_needed(entry, library)));
        self.renamed.retain(|library, to| library != to && in_chain(library));
        let kept = current.needs.iter().filter(|(library, _)| !self.removed.contains(library)).count();
        if kept == current.needs.len() {
            return;
        }
        if kept == 0 {
            // Without any version, glibc must not find the symbols' version numbers either.
            let defines = self.entries.iter().any(|entry| entry.tag == elf::DT_VERDEF);
            let left = |tag| tag == elf::DT_VERNEED || tag == elf::DT_VERNEEDNUM || (tag == elf::DT_VERSYM && !defines);
            self.entries.retain(|entry| !left(entry.tag));
        }
        for entry in self.entries.iter_mut().filter(|entry| entry.tag == elf::DT_VERNEEDNUM) {
            entry.value = Value::Number(kept as u64);
        }
    }

    /// Compares the file that was read back with the desired values, and everything else with the
    /// original.
    fn check(&self, before: &Elf, after: &Elf) -> Result<(), Error> {
        let lossy = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let texts = |tag| {
            let texts = self.entries.iter().filter_map(move |entry| match &entry.value {
                Value::Text(text) if entry.tag == tag => Some(lossy(text)),
                _ => None,
            });
            texts.collect::<Vec<_>>()
        };
        let same = |what, found: String, wanted: String| {
            if found == wanted { Ok(()) } else { Err(Error::ReadBack { what, found, wanted }) }
        };
        let shown = |text: &Option<String>| text.clone().unwrap_or_default();
        let first = |tag| texts(tag).first().cloned().unwrap_or_default();
        same("DT_RPATH", shown(&after.rpath), first(elf::DT_RPATH))?;
        same("DT_RUNPATH", shown(&after.runpath), first(elf::DT_RUNPATH))?;
        same("DT_SONAME", shown(&after.soname), first(elf::DT_SONAME))?;
        same("DT_NEEDED", after.needed.join(" "), texts(elf::DT_NEEDED).join(" "))?;
        let needs: Vec<_> = before
            .version_needs
            .iter()
            .filter(|need| !self.removed.contains(need.library.as_bytes()))
            .map(|need| {
                let renamed = self.renamed.get(need.library.as_bytes()).map(|to| lossy(to));
                (renamed.unwrap_or_else(|| need.library.clone()), need.versions.clone())
            })
            .collect();
        let found: Vec<_> =
            after.version_needs.iter().map(|need| (need.library.clone(), need.versions.clone())).collect();
        same("the table of needed versions", format!("{found:?}"), format!("{needs:?}"))?;
        same("the versions defined", after.version_definitions.join(" "), before.version_definitions.join(" "))?;
        same("PT_INTERP", shown(&after.interpreter), shown(&before.interpreter))?;
        same("the build ID", format!("{:?}", after.build_id), format!("{:?}", before.build_id))?;
        same("the kind of file", format!("{:?}", after.kind), format!("{:?}", before.kind))
    }
}
