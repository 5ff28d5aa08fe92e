//! Input: a random-access file. Output: its dynamic symbols with their versions
//! ([`visit_symbols`]), or the parts that the dynamic loader uses, in a form small enough to keep
//! for a whole set of libraries ([`DynamicSymbols`]).
//!
//! Only tables that the dynamic section refers to are read, so files without section headers make
//! no difference. Reading a table of 200,000 symbols takes 16 bytes of memory per symbol, whatever
//! the length of the names.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

use object::elf;
use object::endian::{Endianness, U16};
use object::pod::Pod;
use object::read::elf::Sym;
use positioned_io::ReadAt;
use serde::{Deserialize, Serialize};

use crate::image::Image;
use crate::source::{Source, StringTable, cast_all};
use crate::{Error, symbols, version};

const WHAT: &str = "dynamic symbol table";
const STRINGS: &str = "dynamic string table";
const VERSIONS: &str = "table of symbol versions";

/// Number of symbols in a window, 192 KiB; symbols are read in such windows.
const SYMBOL_WINDOW: u64 = 8192;
/// Bytes in a window of names.
const NAME_WINDOW: u64 = 1 << 20;
/// Longest name in bytes: expression templates make names of tens of kilobytes.
const NAME_LIMIT: u64 = 1 << 20;
/// Names may share their tails. If all names together have more bytes than this many times the
/// string table, the file was made to waste time.
const SHARING_LIMIT: u64 = 8;
/// Largest number of symbols; no linker makes libraries with more.
const SYMBOL_LIMIT: u64 = 1 << 26;
/// Smallest version number that is a version: 0 means local, 1 global.
const FIRST_VERSION: u16 = 2;
const HIDDEN: u16 = 0x8000;

/// A dynamic symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Index in the symbol table.
    pub index: u32,
    /// The name as in the file (mangled, without version), with replacement characters for bytes
    /// that are not UTF-8.
    pub name: Cow<'a, str>,
    /// The version it is defined with, or that is needed.
    pub version: Option<&'a str>,
    /// The library that should define a needed version, as in `DT_NEEDED`. The loader looks in all
    /// libraries.
    pub library: Option<&'a str>,
    /// `true` if a definition is used for references without version (`name@@VERSION` instead of
    /// `name@VERSION`).
    pub default_version: bool,
    /// `true` if the file defines the symbol, `false` if it needs it.
    pub defined: bool,
    /// The binding (`STB_*`).
    pub binding: Binding,
    /// The `STT_*` number: 1 data, 2 function, 6 thread-local, 10 indirect function.
    pub kind: u8,
    /// The `STV_*` number: 0 default, 1 internal, 2 hidden, 3 protected.
    pub visibility: u8,
    /// `true` if the loader uses this definition for references from other files.
    pub exported: bool,
}

/// The binding of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Not visible to other files.
    Local,
    /// A definition for other files, or a reference that must be resolved.
    Global,
    /// As a reference: zero if no file defines it. A weak definition counts like a global one.
    Weak,
    /// One definition for the whole process (`STB_GNU_UNIQUE`).
    Unique,
    /// A binding that is specific to an operating system or processor.
    Other,
}

/// A hash of a symbol's name. Hashes are compared instead of names, so that a set of libraries can
/// be kept without the names of millions of symbols. Two names have the same hash by accident once
/// in some 10^19 pairs. It has no random key, so it is the same in all runs of one program; another
/// program may be built with another hasher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NameHash(u64);

impl NameHash {
    /// Returns the hash of a name.
    pub fn of(name: &str) -> Self {
        Self::of_bytes(name.as_bytes())
    }

    fn of_bytes(name: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(name);
        Self(hasher.finish())
    }
}

/// The symbols that a file offers and needs, as the loader sees them: 16 bytes for each offered
/// symbol, and the names of the needed ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DynamicSymbols {
    /// The offered symbols, sorted.
    exports: Vec<Export>,
    /// The needed symbols, in the order of their names in the string table.
    imports: Vec<Import>,
    /// The names of `imports`, concatenated.
    names: String,
    versions: Versions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Export {
    name: NameHash,
    /// As in the file, including the hidden bit.
    version: u16,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Import {
    name: NameHash,
    end: u32,
    version: u16,
    weak: bool,
}

/// A symbol that a file needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undefined<'a> {
    /// The name, mangled, without version.
    pub name: &'a str,
    /// The hash of the name, for [`DynamicSymbols::find`].
    pub hash: NameHash,
    /// The version that is needed.
    pub version: Option<&'a str>,
    /// The library that should define the version, as in `DT_NEEDED`.
    pub library: Option<&'a str>,
    /// `true` if the loader continues without a definition.
    pub weak: bool,
}

/// The result of looking for a name and version in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// A definition that the loader accepts.
    Found,
    /// Definitions of the name, but only in versions that the loader does not accept.
    OtherVersion,
    /// No definition of the name.
    Missing,
}

impl DynamicSymbols {
    /// Reads the dynamic symbols of an ELF file of any class and byte order. A file without dynamic
    /// section has none.
    ///
    /// # Errors
    /// [`Error::NotElf`], and those of [`visit_symbols`].
    pub fn read(reader: &dyn ReadAt) -> Result<Self, Error> {
        let mut found = Self::default();
        let (exports, imports, names) = (&mut found.exports, &mut found.imports, &mut found.names);
        found.versions = visit(reader, &mut |raw, name, symbol| {
            if symbol.exported {
                exports.push(Export { name: NameHash::of_bytes(name), version: raw.version });
            } else if !symbol.defined && symbol.binding != Binding::Local && !name.is_empty() {
                names.push_str(&symbol.name);
                // The string table is shorter than 4 GiB, and names are copied once each.
                let end = u32::try_from(names.len()).map_err(|_| Error::malformed(STRINGS, "it is too long"))?;
                let weak = symbol.binding == Binding::Weak;
                imports.push(Import { name: NameHash::of_bytes(name), end, version: raw.version, weak });
            }
            Ok(())
        })?;
        found.exports.sort_unstable();
        found.exports.dedup();
        found.exports.shrink_to_fit();
        found.imports.shrink_to_fit();
        found.names.shrink_to_fit();
        Ok(found)
    }

    /// Returns the symbols that the file needs from others, including weak ones, in an order that
    /// only depends on the file.
    pub fn undefined(&self) -> impl Iterator<Item = Undefined<'_>> {
        let mut start = 0;
        self.imports.iter().map(move |import| {
            let end = import.end as usize;
            let name = &self.names[start..end];
            start = end;
            let (version, library) = self.versions.of(import.version);
            Undefined { name, hash: import.name, version, library, weak: import.weak }
        })
    }

    /// Returns the number of definitions that the file offers.
    pub fn defined(&self) -> usize {
        self.exports.len()
    }

    /// `true` if the file has a table of symbol versions, for its definitions or its references.
    /// The loader aborts (an assertion fails) if a symbol is needed in a version of a library
    /// without such a table.
    pub fn has_versions(&self) -> bool {
        self.versions.present
    }

    /// Looks for a name in this file as the loader does, in a version or in any, by the rules of
    /// glibc's `elf/dl-lookup.c`. A file without versions matches every version, and so does a
    /// definition without version in a file with versions. A reference without version matches the
    /// first version that the file defines, or the only default one.
    pub fn find(&self, name: NameHash, version: Option<&str>) -> Lookup {
        let start = self.exports.partition_point(|export| export.name < name);
        let found = self.exports[start..].iter().take_while(|export| export.name == name);
        let numbers = found.map(|export| export.version);
        let (mut any, mut defaults) = (false, 0);
        for number in numbers {
            any = true;
            let (plain, hidden) = (number & !HIDDEN, number & HIDDEN != 0);
            let taken = match version {
                _ if !self.versions.present => true,
                Some(wanted) => match self.versions.defined(plain) {
                    Some(defined) => defined == wanted,
                    None => !hidden,
                },
                None if plain <= FIRST_VERSION => true,
                None => {
                    defaults += usize::from(!hidden);
                    false
                }
            };
            if taken {
                return Lookup::Found;
            }
        }
        match (any, defaults) {
            (false, _) => Lookup::Missing,
            (true, 1) => Lookup::Found,
            (true, _) => Lookup::OtherVersion,
        }
    }
}

/// The versions that the numbers in `.gnu.version` refer to.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Versions {
    /// `true` if the file has `.gnu.version`.
    present: bool,
    names: Vec<Option<Version>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Version {
    name: String,
    /// The library, for a needed version.
    library: Option<String>,
}

impl Versions {
    fn read(image: &Image, source: Source<'_>, strings: StringTable) -> Result<Self, Error> {
        let mut found = Self { present: image.dynamic_value(elf::DT_VERSYM).is_some(), names: Vec::new() };
        for record in version::needs(image, source)? {
            let library = read_name(source, strings, record.library)?;
            for needed in record.versions {
                let name = read_name(source, strings, needed.name)?;
                found.set(needed.number, Version { name, library: Some(library.clone()) });
            }
        }
        for definition in version::definitions(image, source)? {
            if !definition.is_base {
                let name = read_name(source, strings, definition.name)?;
                found.set(definition.number, Version { name, library: None });
            }
        }
        Ok(found)
    }

    fn set(&mut self, number: u16, version: Version) {
        let index = usize::from(number & !HIDDEN);
        if self.names.len() <= index {
            self.names.resize(index + 1, None);
        }
        self.names[index] = Some(version);
    }

    fn get(&self, number: u16) -> Option<&Version> {
        self.names.get(usize::from(number & !HIDDEN))?.as_ref()
    }

    fn of(&self, number: u16) -> (Option<&str>, Option<&str>) {
        self.get(number).map_or((None, None), |version| (Some(version.name.as_str()), version.library.as_deref()))
    }

    /// Returns the version of a definition. Numbers of needed versions define nothing.
    fn defined(&self, number: u16) -> Option<&str> {
        self.get(number).filter(|version| version.library.is_none()).map(|version| version.name.as_str())
    }
}

/// Calls `each` for every dynamic symbol of an ELF file of any class and byte order, except the
/// empty first one. The order is that of the names in the string table, so that the table is read
/// once from start to end; [`Symbol::index`] gives the order of the symbol table. A file without
/// dynamic section has no symbols.
///
/// # Errors
/// [`Error::NotElf`], [`Error::Truncated`], [`Error::TooLarge`] or [`Error::Malformed`] for tables
/// that are cut or wrong; an error of `each` ends the walk.
pub fn visit_symbols(reader: &dyn ReadAt, each: &mut dyn FnMut(&Symbol<'_>) -> Result<(), Error>) -> Result<(), Error> {
    visit(reader, &mut |_, _, symbol| each(symbol)).map(drop)
}

/// A symbol without its name.
#[derive(Debug, Clone, Copy)]
struct Raw {
    name: u32,
    index: u32,
    version: u16,
    info: u8,
    other: u8,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Undefined,
    /// Defined, with a section and a value.
    Defined,
    /// In a section, with the value zero: the loader treats it as undefined unless it is
    /// thread-local.
    Zero,
}

type Each<'a> = dyn FnMut(&Raw, &[u8], &Symbol<'_>) -> Result<(), Error> + 'a;

fn visit(reader: &dyn ReadAt, each: &mut Each<'_>) -> Result<Versions, Error> {
    let source = Source { reader };
    let image = Image::read(source)?.ok_or(Error::NotElf)?;
    let (Some(table), Some(strings)) = (image.dynamic_value(elf::DT_SYMTAB), image.dynamic_strings()?) else {
        return Ok(Versions::default());
    };
    let versions = Versions::read(&image, source, strings)?;
    let tables = Tables { image: &image, source, table, strings };
    let mut raw =
        if image.is_64 { tables.read::<elf::Sym64<Endianness>>()? } else { tables.read::<elf::Sym32<Endianness>>()? };
    raw.sort_unstable_by_key(|raw| (raw.name, raw.index));
    let mut names = Names { source, strings, start: 0, bytes: Vec::new(), spent: 0 };
    for raw in &raw {
        let name = names.at(raw.name.into())?;
        let (version, library) = if versions.present { versions.of(raw.version) } else { (None, None) };
        let binding = binding(raw.info >> 4);
        let defined = raw.place != Place::Undefined;
        let symbol = Symbol {
            index: raw.index,
            name: String::from_utf8_lossy(name),
            version,
            library,
            default_version: defined && version.is_some() && raw.version & HIDDEN == 0,
            defined,
            binding,
            kind: raw.info & 15,
            visibility: raw.other & 3,
            exported: defined && !name.is_empty() && is_exported(raw, binding),
        };
        each(raw, name, &symbol)?;
    }
    Ok(versions)
}

/// `true` if glibc's `do_lookup_x` and `check_match` accept the symbol as a definition.
fn is_exported(raw: &Raw, binding: Binding) -> bool {
    let kind = elf::SymbolType(raw.info & 15);
    let kinds = [elf::STT_NOTYPE, elf::STT_OBJECT, elf::STT_FUNC, elf::STT_COMMON, elf::STT_TLS, elf::STT_GNU_IFUNC];
    let visible = matches!(elf::SymbolVisibility(raw.other & 3), elf::STV_DEFAULT | elf::STV_PROTECTED);
    let bound = matches!(binding, Binding::Global | Binding::Weak | Binding::Unique);
    bound && visible && kinds.contains(&kind) && (raw.place == Place::Defined || kind == elf::STT_TLS)
}

fn read_name(source: Source<'_>, strings: StringTable, index: u64) -> Result<String, Error> {
    version::name(source, Some(strings), index).map(crate::read::into_text)
}

fn binding(number: u8) -> Binding {
    match elf::SymbolBind(number) {
        elf::STB_LOCAL => Binding::Local,
        elf::STB_GLOBAL => Binding::Global,
        elf::STB_WEAK => Binding::Weak,
        elf::STB_GNU_UNIQUE => Binding::Unique,
        _ => Binding::Other,
    }
}

struct Tables<'a> {
    image: &'a Image,
    source: Source<'a>,
    /// Address in DT_SYMTAB.
    table: u64,
    strings: StringTable,
}

impl Tables<'_> {
    fn read<S: Pod + Sym<Endian = Endianness>>(&self) -> Result<Vec<Raw>, Error> {
        let endian = self.image.endian;
        let size = size_of::<S>() as u64;
        let offset = self.image.find_offset(self.table, WHAT)?;
        let room = self.image.mapped_after(self.table) / size;
        let (count, sure) = match symbols::dynamic_count(self.image, self.source, self.table)? {
            Some(count) => (count, true),
            // All symbols are needed ones, which the hash table does not count: they end where the
            // next table begins.
            None => (self.gap() / size, false),
        };
        if count > room || count > SYMBOL_LIMIT {
            return Err(Error::malformed(WHAT, format!("its {count} symbols do not fit into a segment")));
        }
        let mut all = Vec::with_capacity(count.min(SYMBOL_WINDOW) as usize);
        let mut first = 0;
        while first < count {
            let length = SYMBOL_WINDOW.min(count - first);
            let symbols = cast_all::<S>(&self.source.bytes(offset + first * size, length * size, WHAT)?, WHAT)?;
            let numbers = self.version_numbers(first, length)?;
            for (at, symbol) in symbols.iter().enumerate() {
                let name = symbol.st_name(endian);
                if !sure && u64::from(name) >= self.strings.size {
                    return Ok(all);
                }
                let (section, value): (_, u64) = (symbol.st_shndx(endian), symbol.st_value(endian).into());
                let place = match section {
                    elf::SHN_UNDEF => Place::Undefined,
                    elf::SHN_ABS => Place::Defined,
                    _ if value == 0 => Place::Zero,
                    _ => Place::Defined,
                };
                let index = first as u32 + at as u32;
                let version = numbers.get(at).copied().unwrap_or(0);
                if index > 0 {
                    let (info, other) = (symbol.st_info(), symbol.st_other());
                    all.push(Raw { name, index, version, info: info.0, other: other.0, place });
                }
            }
            first += length;
        }
        Ok(all)
    }

    fn version_numbers(&self, first: u64, count: u64) -> Result<Vec<u16>, Error> {
        let Some(table) = self.image.dynamic_value(elf::DT_VERSYM) else { return Ok(Vec::new()) };
        let address = table.saturating_add(first * 2);
        let offset = self.image.offset_of(address).filter(|_| self.image.mapped_after(address) >= count * 2);
        let offset = offset.ok_or_else(|| Error::malformed(VERSIONS, "it does not fit into a segment"))?;
        let numbers = cast_all::<U16<Endianness>>(&self.source.bytes(offset, count * 2, VERSIONS)?, VERSIONS)?;
        Ok(numbers.iter().map(|number| number.get(self.image.endian)).collect())
    }

    /// Returns the bytes from the symbol table to the next address in the dynamic section.
    fn gap(&self) -> u64 {
        const ADDRESSES: [elf::DynamicTag; 14] = [
            elf::DT_STRTAB,
            elf::DT_HASH,
            elf::DT_GNU_HASH,
            elf::DT_VERSYM,
            elf::DT_VERNEED,
            elf::DT_VERDEF,
            elf::DT_RELA,
            elf::DT_REL,
            elf::DT_RELR,
            elf::DT_JMPREL,
            elf::DT_INIT,
            elf::DT_FINI,
            elf::DT_INIT_ARRAY,
            elf::DT_PLTGOT,
        ];
        let behind = ADDRESSES.into_iter().filter_map(|tag| self.image.dynamic_value(tag));
        let next = behind.filter(|address| *address > self.table).min().map(|address| address - self.table);
        let mapped = self.image.mapped_after(self.table);
        next.map_or(mapped, |next| next.min(mapped))
    }
}

/// Reads strings of a table in ascending order: each byte is read once.
struct Names<'a> {
    source: Source<'a>,
    strings: StringTable,
    start: u64,
    bytes: Vec<u8>,
    /// Total bytes of the names that were returned.
    spent: u64,
}

impl Names<'_> {
    fn at(&mut self, index: u64) -> Result<&[u8], Error> {
        if index >= self.strings.size {
            return Err(Error::malformed(STRINGS, format!("string {index:#x} is not inside the string table")));
        }
        let mut window = NAME_WINDOW;
        loop {
            let inside = index.checked_sub(self.start).and_then(|at| self.bytes.get(at as usize..));
            if let Some(length) = inside.and_then(|bytes| bytes.iter().position(|&byte| byte == 0)) {
                self.spent += length as u64;
                if self.spent > self.strings.size.saturating_mul(SHARING_LIMIT) {
                    return Err(Error::malformed(STRINGS, "its strings overlap more than a linker makes them"));
                }
                let at = (index - self.start) as usize;
                return Ok(&self.bytes[at..at + length]);
            }
            let rest = self.strings.size - index;
            if inside.is_some_and(|bytes| bytes.len() as u64 == rest) {
                return Err(Error::malformed(STRINGS, "its last string does not end"));
            }
            if window > NAME_LIMIT * 2 {
                return Err(Error::TooLarge { what: "name of a symbol", length: window / 2, limit: NAME_LIMIT });
            }
            self.bytes = self.source.bytes(self.strings.offset + index, window.min(rest), STRINGS)?;
            self.start = index;
            window *= 2;
        }
    }
}
