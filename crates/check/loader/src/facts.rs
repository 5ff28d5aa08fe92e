//! Input: a [`Site`]. Output: [`SiteFacts`], the headers of every ELF and PE file in it. Files are
//! read in parallel; each is opened once, and only as much of it is unpacked as the headers
//! require.

mod cached_facts;

use std::collections::{BTreeMap, BTreeSet};

use positioned_io::ReadAt;
use rayon::prelude::*;
use rocwheel_elf::{DynamicSymbols, Elf, ElfKind, Imports, Pe};
use rocwheel_progress::{Reporter, Unit, with_causes};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::cache::FactsCache;
use crate::site::{Placed, Site};
use cached_facts::Kept;
pub use cached_facts::{KnownHeaders, known_headers};

/// `e_machine` of x86-64.
pub const X86_64: u16 = 62;
/// `e_machine` of AMD's GPUs.
pub const AMD_GPU: u16 = 224;
/// `Machine` of x86-64 in a PE file.
pub const PE_X86_64: u16 = 0x8664;
/// `Machine` of ARM64 in a PE file.
pub const PE_ARM64: u16 = 0xaa64;
/// The header of a 32-bit ELF file in bytes; no ELF or PE file is smaller.
const SMALLEST: u64 = 52;

/// The facts about the ELF and PE files of an environment, by path.
#[derive(Debug, Default)]
pub struct SiteFacts {
    /// ELF files for any purpose.
    pub objects: BTreeMap<String, Object>,
    /// Programs and libraries for Windows; `None` for 32-bit ones, which are not read.
    pub windows: BTreeMap<String, Option<WindowsObject>>,
    /// Files that begin like ELF or PE files but cannot be parsed.
    pub unreadable: BTreeMap<String, UnreadableFile>,
    /// Files whose first bytes cannot be read.
    unread: BTreeSet<String>,
}

/// An ELF file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Object {
    /// Its headers.
    pub elf: Elf,
    /// The purpose. Only [`Purpose::Native`] files are resolved.
    pub purpose: Purpose,
    /// The symbols that it defines and needs, for [`Purpose::Native`] files; empty for other files.
    /// The error is the reason why they cannot be read.
    pub symbols: Result<DynamicSymbols, String>,
    /// Size in bytes.
    pub size: u64,
    /// Names of libraries in the data of a file that calls `dlopen`, except its own and those of
    /// the libraries it is linked to; `None` before [`SiteFacts::find_loads`].
    #[serde(skip)]
    pub loads: Option<BTreeSet<String>>,
}

/// A program or library for 64-bit Windows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WindowsObject {
    /// Its headers.
    pub pe: Pe,
    /// The DLLs that it imports; the error is the reason why they cannot be read.
    pub imports: Result<Imports, String>,
    /// Size in bytes.
    pub size: u64,
}

impl WindowsObject {
    /// `true` if Windows on x86-64 can load it.
    pub fn is_native(&self) -> bool {
        self.pe.machine == PE_X86_64
    }

    /// The DLLs that it cannot be loaded without.
    pub fn needed(&self) -> &[String] {
        self.imports.as_ref().map_or(&[], |imports| &imports.needed)
    }
}

/// The purpose of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// A program or library for the dynamic loader of x86-64 Linux.
    Native,
    /// A program that is not linked dynamically.
    Static,
    /// Code for a GPU.
    GpuCode,
    /// A program or library for another machine, or a 32-bit one.
    OtherMachine,
    /// An object file, the input of a linker.
    Relocatable,
    /// Debug information of another file.
    Debug,
    /// Any other ELF file, for example a core dump.
    Other,
}

/// The reason why a file that begins like an ELF or PE file is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableFile {
    /// The format it begins like: "ELF" or "PE".
    pub format: &'static str,
    /// The error with all causes.
    pub reason: String,
}

impl Object {
    /// Reads an ELF file of `size` bytes; `None` if it is not one.
    ///
    /// # Errors
    /// The errors of [`Elf::read`]. An error of reading symbols is in [`Object::symbols`].
    pub fn read(reader: &dyn ReadAt, size: u64) -> Result<Option<Object>, rocwheel_elf::Error> {
        let Some(elf) = Elf::read(reader)? else { return Ok(None) };
        let purpose = Purpose::of(&elf);
        let symbols = match purpose {
            Purpose::Native => DynamicSymbols::read(reader).map_err(|error| with_causes(&error)),
            _ => Ok(DynamicSymbols::default()),
        };
        Ok(Some(Object { elf, purpose, symbols, size, loads: None }))
    }

    /// An ELF file whose headers are known and whose symbols are not needed.
    pub fn without_symbols(elf: Elf, size: u64) -> Object {
        Object { purpose: Purpose::of(&elf), elf, symbols: Ok(DynamicSymbols::default()), size, loads: None }
    }

    /// `true` if it opens libraries at run time.
    pub fn calls_dlopen(&self) -> bool {
        let symbols = self.is_native().then_some(self.symbols.as_ref().ok()).flatten();
        symbols.is_some_and(|symbols| symbols.undefined().any(|needed| ["dlopen", "dlmopen"].contains(&needed.name)))
    }

    /// `true` if the dynamic loader handles it. All other files are data.
    pub fn is_native(&self) -> bool {
        self.purpose == Purpose::Native
    }

    /// `true` if it is started as a program, not loaded by one.
    pub fn is_program(&self) -> bool {
        self.is_native() && self.elf.kind == ElfKind::Executable
    }
}

impl Purpose {
    fn of(elf: &Elf) -> Purpose {
        match elf.kind {
            ElfKind::DebugOnly => Purpose::Debug,
            _ if elf.machine == AMD_GPU => Purpose::GpuCode,
            ElfKind::Relocatable => Purpose::Relocatable,
            ElfKind::Executable | ElfKind::SharedLibrary if elf.machine == X86_64 && elf.is_64 => Purpose::Native,
            ElfKind::Executable | ElfKind::SharedLibrary | ElfKind::StaticExecutable
                if elf.machine != X86_64 || !elf.is_64 =>
            {
                Purpose::OtherMachine
            }
            ElfKind::StaticExecutable => Purpose::Static,
            _ => Purpose::Other,
        }
    }
}

enum Found {
    Object(Box<Object>),
    Windows(Option<Box<WindowsObject>>),
    Unreadable(UnreadableFile),
    Data,
    /// The first bytes cannot be read.
    Unread,
}

impl SiteFacts {
    /// Reads the headers of every file.
    ///
    /// # Errors
    /// [`Error::Interrupted`]. A file that cannot be read is added to [`SiteFacts::unreadable`].
    pub fn read(site: &Site, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
        SiteFacts::default().of(site, reporter)
    }

    /// Like [`SiteFacts::read`], without reading wheels of which the cache has everything. What is
    /// read is added to the cache.
    ///
    /// # Errors
    /// The errors of [`SiteFacts::read`].
    pub fn read_with(site: &Site, cache: &FactsCache, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
        let Kept { facts, data, counts } = Kept::read(site, cache, reporter)?;
        let facts = facts.complete(site, &data, reporter)?;
        cached_facts::write_headers(&facts, site, (cache, &counts), reporter);
        Ok(facts)
    }

    /// Like [`SiteFacts::read`], but reuses these facts of another environment for files with the
    /// same paths.
    ///
    /// # Errors
    /// The errors of [`SiteFacts::read`].
    pub fn of(mut self, site: &Site, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
        self.unread.clear();
        self.objects.retain(|path, _| site.files.contains_key(path));
        self.windows.retain(|path, _| site.files.contains_key(path));
        self.unreadable.retain(|path, _| site.files.contains_key(path));
        self.complete(site, &BTreeSet::new(), reporter)
    }

    /// Reads all files that are neither known nor `data`.
    fn complete(mut self, site: &Site, data: &BTreeSet<&str>, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
        let large = site.files.iter().filter(|(_, placed)| placed.size >= SMALLEST).map(|(path, _)| path);
        let unread = large.filter(|path| !self.objects.contains_key(*path) && !self.windows.contains_key(*path));
        let mut paths: Vec<&String> = unread.filter(|path| !data.contains(path.as_str())).collect();
        // The time goes into unpacking the few large files, so bytes tell more than their number.
        let total = paths.iter().map(|path| site.files[*path].size).sum();
        let stage = reporter.stage("Reading headers", Some(total), Unit::Bytes);
        // Starts with the large files, so that no thread begins one when the others are done.
        paths.sort_by_key(|path| std::cmp::Reverse(site.files[*path].size));
        let found: Result<Vec<(String, Found)>, Error> = paths
            .into_par_iter()
            .map(|path| {
                reporter.check()?;
                let found = look(site, path);
                reporter.advance(site.files[path].size);
                Ok((path.clone(), found))
            })
            .collect();
        drop(stage);
        for (path, found) in found? {
            match found {
                Found::Object(object) => drop(self.objects.insert(path, *object)),
                Found::Windows(file) => drop(self.windows.insert(path, file.map(|file| *file))),
                Found::Unreadable(why) => drop(self.unreadable.insert(path, why)),
                Found::Unread => {
                    self.unread.insert(path);
                }
                Found::Data => {}
            }
        }
        Ok(self)
    }

    /// Finds the names of libraries in the data of files that call `dlopen` ([`Object::loads`]).
    /// That data must be unpacked, and in large libraries it is much more than the headers; with a
    /// cache only that of new wheels.
    ///
    /// # Errors
    /// [`Error::Interrupted`]. For a file that cannot be read no names are found.
    pub fn find_loads(
        &mut self,
        site: &Site,
        cache: Option<&FactsCache>,
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        if let Some(cache) = cache {
            cached_facts::read_loads(self, site, cache);
        }
        let callers = self.objects.iter_mut().filter(|(_, object)| object.loads.is_none() && object.calls_dlopen());
        let mut callers: Vec<(&String, &mut Object)> = callers.collect();
        let mut new: BTreeSet<usize> =
            callers.iter().filter_map(|(path, _)| Some(site.files.get(*path)?.wheel)).collect();
        let total = callers.iter().map(|(_, object)| object.size).sum();
        let stage = reporter.stage("Reading names of libraries", Some(total), Unit::Bytes);
        callers.sort_by_key(|(_, object)| std::cmp::Reverse(object.size));
        let failed = callers.into_par_iter().map(|(path, object)| {
            reporter.check()?;
            let names = mentions(site, path, &object.elf);
            let placed = site.files.get(path).filter(|_| names.is_none());
            object.loads = Some(names.unwrap_or_default());
            reporter.advance(object.size);
            Ok(placed.map(|placed| placed.wheel))
        });
        let failed: Vec<Option<usize>> = failed.collect::<Result<_, Error>>()?;
        drop(stage);
        if let Some(cache) = cache {
            for wheel in failed.into_iter().flatten() {
                new.remove(&wheel);
            }
            cached_facts::write_loads(self, site, (cache, &new), reporter);
        }
        Ok(())
    }

    /// Programs and libraries for Windows on x86-64, by path.
    pub fn native_of_windows(&self) -> impl Iterator<Item = (&String, &WindowsObject)> {
        let files = self.windows.iter().filter_map(|(path, file)| Some((path, file.as_ref()?)));
        files.filter(|(_, file)| file.is_native())
    }

    /// Programs and libraries that the dynamic loader handles, by path.
    pub fn native(&self) -> impl Iterator<Item = (&String, &Object)> {
        self.objects.iter().filter(|(_, object)| object.is_native())
    }
}

fn look(site: &Site, path: &str) -> Found {
    let Ok(placed) = site.placed(path) else { return Found::Data };
    let distribution = &site.distributions[placed.wheel];
    let format = match distribution.start(&placed.member, 4) {
        Ok(start) if start == b"\x7fELF" => "ELF",
        Ok(start) if start.starts_with(b"MZ") => "PE",
        // Other files are ignored here. If they are damaged, their hashes in RECORD reveal it.
        Ok(_) => return Found::Data,
        Err(_) => return Found::Unread,
    };
    read(site, placed, format).unwrap_or_else(|reason| Found::Unreadable(UnreadableFile { format, reason }))
}

fn read(site: &Site, placed: &Placed, format: &str) -> Result<Found, String> {
    let distribution = &site.distributions[placed.wheel];
    let places = distribution.places(&placed.member, site.scratch()).map_err(|error| with_causes(&error))?;
    let reader = places.reader();
    if format == "ELF" {
        // If the ranges cannot be predicted, the read below finds them and reports the error.
        places.want(&rocwheel_elf::header_places(reader, placed.size).unwrap_or_default());
        places.want(&rocwheel_elf::dynamic_places(reader).unwrap_or_default());
        let object = Object::read(reader, placed.size).map_err(|error| with_causes(&error))?;
        return Ok(object.map_or(Found::Data, |object| Found::Object(Box::new(object))));
    }
    // Programs for DOS and texts that begin with these letters are not programs for Windows.
    if !rocwheel_elf::is_pe(reader).map_err(|error| with_causes(&error))? {
        return Ok(Found::Data);
    }
    let Some(pe) = Pe::read(reader).map_err(|error| with_causes(&error))? else { return Ok(Found::Windows(None)) };
    places.want(&pe.import_places());
    let imports = pe.imports(reader).map_err(|error| with_causes(&error));
    Ok(Found::Windows(Some(Box::new(WindowsObject { pe, imports, size: placed.size }))))
}

/// The names of libraries in the data of a file, except its own and those of the libraries it is
/// linked to.
fn mentions(site: &Site, path: &str, elf: &Elf) -> Option<BTreeSet<String>> {
    let placed = site.files.get(path)?;
    let places = site.distributions[placed.wheel].places(&placed.member, site.scratch()).ok()?;
    let sections = rocwheel_elf::data_sections(elf)
        .map(|section| section.offset..section.offset.saturating_add(section.size).min(placed.size));
    places.want(&sections.collect::<Vec<_>>());
    let file = path.rsplit('/').next().unwrap_or(path);
    // A name without a version in the data means the same library as the versioned name in
    // DT_NEEDED.
    let mut names = rocwheel_elf::library_names(places.reader(), elf);
    names.retain(|name| {
        !file.starts_with(name.as_str())
            && !elf.soname.iter().chain(&elf.needed).any(|known| known.starts_with(name.as_str()))
    });
    Some(names)
}
