//! Input: a [`Site`]. Output: [`SiteFacts`], what the headers of every ELF and PE file in it say.
//! Each file is opened once, in parallel, and no more of it is unpacked than its headers need.

use std::collections::{BTreeMap, BTreeSet};

use positioned_io::ReadAt;
use rayon::prelude::*;
use rocwheel_elf::{DynamicSymbols, Elf, Imports, Kind, Pe};
use rocwheel_report::{Reporter, Unit, with_causes};

use crate::Error;
use crate::site::Site;

/// `e_machine` of x86-64.
pub const X86_64: u16 = 62;
/// `e_machine` of AMD's GPUs.
pub const AMD_GPU: u16 = 224;
/// `Machine` of x86-64 in a PE file.
pub const PE_X86_64: u16 = 0x8664;
/// `Machine` of ARM64 in a PE file.
pub const PE_ARM64: u16 = 0xaa64;
/// No ELF or PE file is smaller than the header of a 32-bit ELF file.
const SMALLEST: u64 = 52;

/// What the ELF and PE files of an environment say, by path.
#[derive(Debug, Default)]
pub struct SiteFacts {
    /// ELF files, whatever they are for.
    pub objects: BTreeMap<String, Object>,
    /// Programs and libraries for Windows; `None` for those of 32 bits, of which nothing is read.
    pub windows: BTreeMap<String, Option<WindowsObject>>,
    /// Files that begin as ELF or PE files do and cannot be read as such.
    pub unreadable: BTreeMap<String, UnreadableFile>,
}

/// An ELF file.
#[derive(Debug)]
pub struct Object {
    /// Its headers.
    pub elf: Elf,
    /// What it is for. Only [`Purpose::Native`] files are resolved.
    pub purpose: Purpose,
    /// What it offers and needs, for [`Purpose::Native`] files; for others nothing. Or why that
    /// cannot be read.
    pub symbols: Result<DynamicSymbols, String>,
    /// Bytes.
    pub size: u64,
    /// Names of libraries in the data of a file that calls `dlopen`, without those it is linked to
    /// and its own; `None` while nobody has looked ([`SiteFacts::find_loads`]).
    pub loads: Option<BTreeSet<String>>,
}

/// A program or library for 64-bit Windows.
#[derive(Debug)]
pub struct WindowsObject {
    /// Its headers.
    pub pe: Pe,
    /// The DLLs that it asks for, or why that cannot be read.
    pub imports: Result<Imports, String>,
    /// Bytes.
    pub size: u64,
}

impl WindowsObject {
    /// Whether Windows on x86-64 loads it.
    pub fn is_native(&self) -> bool {
        self.pe.machine == PE_X86_64
    }

    /// The DLLs without which it is not loaded.
    pub fn needed(&self) -> &[String] {
        self.imports.as_ref().map_or(&[], |imports| &imports.needed)
    }
}

/// What an ELF file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// A program or library that the dynamic loader of x86-64 Linux takes.
    Native,
    /// A program without dynamic loader.
    Static,
    /// Code for a GPU.
    GpuCode,
    /// A program or library for another machine, or for 32 bits.
    OtherMachine,
    /// An object file, for a linker.
    Relocatable,
    /// Debug information of another file.
    Debug,
    /// Something else, a core dump for example.
    Other,
}

/// Why a file that begins like an ELF or PE file is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableFile {
    /// What it looks like: "ELF" or "PE".
    pub format: &'static str,
    /// What is wrong with it, with all causes.
    pub reason: String,
}

impl Object {
    /// Reads an ELF file of `size` bytes; `None` when it is none.
    ///
    /// # Errors
    /// Those of [`Elf::read`]. Symbols that cannot be read are in [`Object::symbols`].
    pub fn read(reader: &dyn ReadAt, size: u64) -> Result<Option<Object>, rocwheel_elf::Error> {
        let Some(elf) = Elf::read(reader)? else { return Ok(None) };
        let purpose = Purpose::of(&elf);
        let symbols = match purpose {
            Purpose::Native => DynamicSymbols::read(reader).map_err(|error| with_causes(&error)),
            _ => Ok(DynamicSymbols::default()),
        };
        Ok(Some(Object { elf, purpose, symbols, size, loads: None }))
    }

    /// An ELF file of which the headers are known and nobody will ask for symbols.
    pub fn without_symbols(elf: Elf, size: u64) -> Object {
        Object { purpose: Purpose::of(&elf), elf, symbols: Ok(DynamicSymbols::default()), size, loads: None }
    }

    /// Whether it asks the loader for libraries at run time.
    pub fn calls_dlopen(&self) -> bool {
        let symbols = self.is_native().then_some(self.symbols.as_ref().ok()).flatten();
        symbols.is_some_and(|symbols| symbols.undefined().any(|needed| ["dlopen", "dlmopen"].contains(&needed.name)))
    }

    /// Whether the dynamic loader is asked for it: all others are data.
    pub fn is_native(&self) -> bool {
        self.purpose == Purpose::Native
    }

    /// Whether it is started as a program, rather than loaded by one.
    pub fn is_program(&self) -> bool {
        self.is_native() && self.elf.kind == Kind::Executable
    }
}

impl Purpose {
    fn of(elf: &Elf) -> Purpose {
        match elf.kind {
            Kind::DebugOnly => Purpose::Debug,
            _ if elf.machine == AMD_GPU => Purpose::GpuCode,
            Kind::Relocatable => Purpose::Relocatable,
            Kind::Executable | Kind::SharedLibrary if elf.machine == X86_64 && elf.is_64 => Purpose::Native,
            Kind::Executable | Kind::SharedLibrary | Kind::StaticExecutable if elf.machine != X86_64 || !elf.is_64 => {
                Purpose::OtherMachine
            }
            Kind::StaticExecutable => Purpose::Static,
            _ => Purpose::Other,
        }
    }
}

enum Found {
    Object(Box<Object>),
    Windows(Option<Box<WindowsObject>>),
    Unreadable(UnreadableFile),
    Data,
}

impl SiteFacts {
    /// Reads the headers of every file.
    ///
    /// # Errors
    /// [`Error::Interrupted`]. A file that cannot be read is in [`SiteFacts::unreadable`].
    pub fn read(site: &Site, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
        SiteFacts::default().of(site, reporter)
    }

    /// As [`SiteFacts::read`], where what the same paths say of another environment holds for this
    /// one too.
    ///
    /// # Errors
    /// As [`SiteFacts::read`].
    pub fn of(mut self, site: &Site, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
        self.objects.retain(|path, _| site.files.contains_key(path));
        self.windows.retain(|path, _| site.files.contains_key(path));
        self.unreadable.retain(|path, _| site.files.contains_key(path));
        let is_known = |path: &String| self.objects.contains_key(path) || self.windows.contains_key(path);
        let large = site.files.iter().filter(|(_, placed)| placed.size >= SMALLEST).map(|(path, _)| path);
        let mut paths: Vec<&String> = large.filter(|path| !is_known(path)).collect();
        reporter.begin("headers", Some(paths.len() as u64), Unit::Items);
        // The large ones first, so that no thread begins with one when the others are done.
        paths.sort_by_key(|path| std::cmp::Reverse(site.files[*path].size));
        let found: Result<Vec<(String, Found)>, Error> = paths
            .into_par_iter()
            .map(|path| {
                reporter.check()?;
                let found = look(site, path);
                reporter.advance(1);
                Ok((path.clone(), found))
            })
            .collect();
        reporter.end();
        for (path, found) in found? {
            match found {
                Found::Object(object) => drop(self.objects.insert(path, *object)),
                Found::Windows(file) => drop(self.windows.insert(path, file.map(|file| *file))),
                Found::Unreadable(why) => drop(self.unreadable.insert(path, why)),
                Found::Data => {}
            }
        }
        Ok(self)
    }

    /// Finds the names in the data of files that call `dlopen` ([`Object::loads`]), which means to
    /// unpack that data: of large libraries much more than their headers.
    ///
    /// # Errors
    /// [`Error::Interrupted`]. A file that cannot be read has no names.
    pub fn find_loads(&mut self, site: &Site, reporter: &dyn Reporter) -> Result<(), Error> {
        let mut callers: Vec<(&String, &mut Object)> =
            self.objects.iter_mut().filter(|(_, object)| object.calls_dlopen()).collect();
        reporter.begin("names of libraries", Some(callers.len() as u64), Unit::Items);
        callers.sort_by_key(|(_, object)| std::cmp::Reverse(object.size));
        let found = callers.into_par_iter().try_for_each(|(path, object)| {
            reporter.check()?;
            object.loads = Some(mentions(site, path, &object.elf).unwrap_or_default());
            reporter.advance(1);
            Ok(())
        });
        reporter.end();
        found
    }

    /// Programs and libraries for Windows on x86-64, by path.
    pub fn native_of_windows(&self) -> impl Iterator<Item = (&String, &WindowsObject)> {
        let files = self.windows.iter().filter_map(|(path, file)| Some((path, file.as_ref()?)));
        files.filter(|(_, file)| file.is_native())
    }

    /// Programs and libraries that the loader is asked for, by path.
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
        // What is no program is not this module's business, and RECORD's hash finds what is
        // damaged.
        _ => return Found::Data,
    };
    let read = || -> Result<Found, String> {
        let places = distribution.places(&placed.member, site.scratch()).map_err(|error| with_causes(&error))?;
        let reader = places.reader();
        if format == "ELF" {
            // Where nothing can be said beforehand, reading does what it has to, and knows what is
            // wrong.
            places.want(&rocwheel_elf::header_places(reader, placed.size).unwrap_or_default());
            places.want(&rocwheel_elf::dynamic_places(reader).unwrap_or_default());
            let object = Object::read(reader, placed.size).map_err(|error| with_causes(&error))?;
            return Ok(object.map_or(Found::Data, |object| Found::Object(Box::new(object))));
        }
        // Programs for DOS, and text that begins with these letters, are no programs for Windows.
        if !rocwheel_elf::is_pe(reader).map_err(|error| with_causes(&error))? {
            return Ok(Found::Data);
        }
        let Some(pe) = Pe::read(reader).map_err(|error| with_causes(&error))? else { return Ok(Found::Windows(None)) };
        places.want(&pe.import_places());
        let imports = pe.imports(reader).map_err(|error| with_causes(&error));
        Ok(Found::Windows(Some(Box::new(WindowsObject { pe, imports, size: placed.size }))))
    };
    read().unwrap_or_else(|reason| Found::Unreadable(UnreadableFile { format, reason }))
}

/// The names of libraries in the data of a file that are neither its own nor of those it is linked
/// to.
fn mentions(site: &Site, path: &str, elf: &Elf) -> Option<BTreeSet<String>> {
    let placed = site.files.get(path)?;
    let places = site.distributions[placed.wheel].places(&placed.member, site.scratch()).ok()?;
    let ends =
        |section: &rocwheel_elf::Section| section.offset..section.offset.saturating_add(section.size).min(placed.size);
    places.want(&rocwheel_elf::data_sections(elf).map(ends).collect::<Vec<_>>());
    let file = path.rsplit('/').next().unwrap_or(path);
    // A name without version in the data means the same library as one with it that the file is
    // linked to.
    let is_known = |name: &String| {
        file.starts_with(name.as_str())
            || elf.soname.iter().chain(&elf.needed).any(|known| known.starts_with(name.as_str()))
    };
    let mut names = rocwheel_elf::library_names(places.reader(), elf);
    names.retain(|name| !is_known(name));
    Some(names)
}
