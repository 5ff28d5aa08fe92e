//! Input: two ELF files. Output: differences in the headers that the dynamic loader reads, in the
//! symbols that other files can use, and in code and data.

use std::collections::{BTreeMap, BTreeSet};

use positioned_io::ReadAt;
use rocwheel_elf::{Elf, Section};
use rocwheel_progress::Failure;

use crate::change::{Change, ChangeKind};
use crate::findings::{Context, Findings, Opened, bytes, same_bytes};
use crate::{error, gpu};

const NOBITS: u32 = 8;
const DYNAMIC: u32 = 6;
const DYNSYM: u32 = 11;
const LOAD: u32 = 1;
const GNU_RELRO: u32 = 0x6474_e552;
/// Position of the entry point in the header of a 64-bit file.
const ENTRY: std::ops::Range<usize> = 24..32;
/// Tags of the dynamic section that are compared by their meaning, or that hold positions in the
/// file: NULL, NEEDED, HASH, STRTAB, SYMTAB, STRSZ, SONAME, RPATH, DEBUG, RUNPATH, and the ranges
/// of GNU_HASH and of symbol versions.
const NAMED_TAGS: [u64; 10] = [0, 1, 4, 5, 6, 10, 14, 15, 21, 29];
const NAMED_TAG_RANGES: [u64; 6] = [0x6fff_fef5, 0x6fff_fff0, 0x6fff_fffc, 0x6fff_fffd, 0x6fff_fffe, 0x6fff_ffff];
const GNU_STACK: u32 = 0x6474_e551;
const EXECUTE: u32 = 1;
/// `e_machine` of AMD's GPUs.
const AMD_GPU: u16 = 224;
/// Sizes in bytes of an entry of a 64-bit symbol table and of its name index, with which it begins,
/// and the position of its section index.
const SYMBOL: usize = 24;
const SYMBOL_NAME: usize = 4;
const SYMBOL_SECTION: std::ops::Range<usize> = 6..8;
/// Section indices that are not sections: the symbol is not defined, or its value is not an
/// address.
const NO_SECTION: u16 = 0;
const RESERVED_SECTIONS: u16 = 0xff00;
/// The section with the device code.
const FAT_BINARY: &str = ".hip_fatbin";
/// Sections that headers refer to, whose content is compared by its meaning.
const SAID: [&str; 9] = [
    ".dynamic",
    ".dynstr",
    ".gnu.hash",
    ".hash",
    ".gnu.version",
    ".gnu.version_r",
    ".gnu.version_d",
    ".interp",
    ".shstrtab",
];
/// Sections that are not needed to run the code: information about the build, and for debuggers.
const ABOUT: [&str; 8] = [
    ".note.gnu.build-id",
    ".note.gnu.build.attributes",
    ".gnu.build.attributes",
    ".gnu_debuglink",
    ".gnu_debugaltlink",
    ".comment",
    ".symtab",
    ".strtab",
];

pub(crate) fn compare(opened: &Opened<'_>, context: &Context<'_>) -> Result<Findings, Failure> {
    let (old_reader, new_reader) = (opened.old.open()?, opened.new.open()?);
    let sides =
        Sides { old: read(&old_reader)?, new: read(&new_reader)?, old_reader: &old_reader, new_reader: &new_reader };
    if sides.old.machine == AMD_GPU && sides.new.machine == AMD_GPU {
        return gpu::compare(opened, context);
    }
    let mut findings = Findings { changes: headers(&sides.old, &sides.new), ..Findings::default() };
    let (old, new) = (names(&old_reader)?, names(&new_reader)?);
    findings.changes.extend(symbols(&old, &new));
    let sections = sections(&sides, old == new, context)?;
    if sections.has_other_gpu_code {
        let gpu = gpu::compare(opened, context)?;
        findings.changes.extend(gpu.changes);
        findings.notes.extend(gpu.notes);
        findings.targets = gpu.targets;
    }
    if !sections.content.is_empty() {
        findings.changes.push(code(&sections.content));
    }
    if findings.changes.is_empty() && findings.notes.is_empty() {
        findings.notes.push(if sections.about.is_empty() {
            "the same code, data and symbols at other places of the file".to_owned()
        } else {
            format!("the same code, data and symbols; other {}", sections.about.join(", "))
        });
    }
    findings.changes.sort();
    Ok(findings)
}

fn read(reader: &dyn ReadAt) -> Result<Elf, Failure> {
    Ok(Elf::read(reader)?.ok_or(rocwheel_elf::Error::NotElf)?)
}

struct Sides<'a> {
    old: Elf,
    new: Elf,
    old_reader: &'a dyn ReadAt,
    new_reader: &'a dyn ReadAt,
}

/// A dynamic symbol with its version.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    index: u32,
    name: String,
    exported: bool,
}

/// Returns the dynamic symbols in the order of their table.
fn names(reader: &dyn ReadAt) -> Result<Vec<Named>, Failure> {
    let mut names = Vec::new();
    rocwheel_elf::visit_symbols(reader, &mut |symbol| {
        let name = match symbol.version {
            Some(version) => format!("{}@{version}", symbol.name),
            None => symbol.name.to_string(),
        };
        names.push(Named { index: symbol.index, name, exported: symbol.exported });
        Ok(())
    })?;
    names.sort();
    Ok(names)
}

/// Compares the headers that the loader reads.
fn headers(old: &Elf, new: &Elf) -> Vec<Change> {
    let mut changes = Vec::new();
    for ((kind, old), (_, new)) in single_values(old).into_iter().zip(single_values(new)) {
        changes.extend(Change::of_value(kind, old.as_deref(), new.as_deref()));
    }
    let needed = Change::of_sets((ChangeKind::LostNeeded, ChangeKind::NewNeeded), &old.needed, &new.needed);
    if needed.is_empty() && old.needed != new.needed {
        changes.push(Change::new(ChangeKind::NeededOrder).values(old.needed.join(", "), new.needed.join(", ")));
    }
    changes.extend(needed);
    let kinds = (ChangeKind::LostVersionNeed, ChangeKind::NewVersionNeed);
    changes.extend(Change::of_sets(kinds, &version_needs(old), &version_needs(new)));
    changes
}

/// Returns the properties that have one value or none; the others are lists.
fn single_values(elf: &Elf) -> [(ChangeKind, Option<String>); 6] {
    let bits = if elf.is_64 { 64 } else { 32 };
    let stack = elf.segments.iter().find(|segment| segment.kind == GNU_STACK);
    let is_executable = stack.is_none_or(|stack| stack.flags & EXECUTE != 0);
    let stack = if is_executable { "executable" } else { "not executable" };
    [
        (ChangeKind::Machine, Some(format!("{:?} for machine {}, {bits} bits", elf.kind, elf.machine))),
        (ChangeKind::Soname, elf.soname.clone()),
        (ChangeKind::Interpreter, elf.interpreter.clone()),
        (ChangeKind::SearchPath, search_path(elf)),
        (ChangeKind::ExecutableStack, Some(stack.to_owned())),
        (ChangeKind::CpuLevel, elf.isa_needed.map(|bits| format!("{bits:#x}"))),
    ]
}

fn search_path(elf: &Elf) -> Option<String> {
    let tagged = [("RPATH", &elf.rpath), ("RUNPATH", &elf.runpath)].into_iter();
    let paths: Vec<String> = tagged.filter_map(|(tag, path)| Some(format!("{tag} {}", path.as_ref()?))).collect();
    (!paths.is_empty()).then(|| paths.join(", "))
}

fn version_needs(elf: &Elf) -> Vec<String> {
    let needs = elf.version_needs.iter();
    needs.flat_map(|need| need.versions.iter().map(|version| format!("{version} of {}", need.library))).collect()
}

/// Compares the symbols that other files can use. Thousands of them make one change.
fn symbols(old: &[Named], new: &[Named]) -> Vec<Change> {
    let [old, new] = [old, new].map(|symbols| -> BTreeSet<&str> {
        symbols.iter().filter(|symbol| symbol.exported).map(|symbol| symbol.name.as_str()).collect()
    });
    let changes = [(ChangeKind::LostSymbol, &old - &new), (ChangeKind::NewSymbol, &new - &old)].into_iter();
    changes
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| Change {
            count: Some(names.len() as u64),
            ..Change::of(kind, names.into_iter().collect::<Vec<_>>().join(", "))
        })
        .collect()
}

/// Returns the change of code and data, with the total size of all sections that differ, if it
/// changed.
fn code(sections: &[Part]) -> Change {
    let names: Vec<&str> = sections.iter().map(|part| part.name.as_str()).collect();
    let change = Change::of(ChangeKind::Code, names.join(", "));
    let old = sections.iter().map(|part| part.old).sum::<u64>();
    let new = sections.iter().map(|part| part.new).sum::<u64>();
    if old == new { change } else { change.values(bytes(old), bytes(new)) }
}

/// A section, or another part of the file, that differs.
struct Part {
    name: String,
    /// Size of the section in bytes; zero if it does not exist.
    old: u64,
    new: u64,
}

impl Part {
    fn named(name: &str) -> Part {
        Part { name: name.to_owned(), old: 0, new: 0 }
    }
}

#[derive(Default)]
struct Differing {
    /// Sections with code, data, relocations and symbols.
    content: Vec<Part>,
    /// Sections with information about the build, and those for debuggers.
    about: Vec<String>,
    has_other_gpu_code: bool,
}

fn sections(sides: &Sides<'_>, is_same_names: bool, context: &Context<'_>) -> Result<Differing, Failure> {
    let mut differing = Differing::default();
    if sides.old.sections.is_empty() || sides.new.sections.is_empty() {
        // Without section headers it is unknown which bytes may differ.
        differing.content.push(Part::named("no section headers"));
        return Ok(differing);
    }
    let (old, new) = (numbered(&sides.old), numbered(&sides.new));
    let names: BTreeSet<&(&str, usize)> = old.keys().chain(new.keys()).collect();
    for key in names {
        let name = key.0;
        if SAID.contains(&name) {
            continue;
        }
        let same = match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => is_same(sides, (old, new), is_same_names, context)?,
            _ => false,
        };
        if same {
            continue;
        }
        if name == FAT_BINARY {
            differing.has_other_gpu_code = true;
        } else if ABOUT.contains(&name) || name.starts_with(".debug") || name.starts_with(".zdebug") {
            differing.about.push(name.to_owned());
        } else {
            let [old, new] = [old.get(key), new.get(key)].map(|section| section.map_or(0, |section| section.size));
            differing.content.push(Part { name: name.to_owned(), old, new });
        }
    }
    if dynamic(&sides.old, sides.old_reader)? != dynamic(&sides.new, sides.new_reader)? {
        differing.content.push(Part::named(".dynamic"));
    }
    if entry(sides.old_reader)? != entry(sides.new_reader)? {
        differing.content.push(Part::named("entry point"));
    }
    if protected(&sides.old) != protected(&sides.new) {
        differing.content.push(Part::named("PT_GNU_RELRO"));
    }
    Ok(differing)
}

/// Returns the entries of the dynamic section without names and positions: tags and values, sorted.
fn dynamic(elf: &Elf, reader: &dyn ReadAt) -> Result<Vec<[u8; 16]>, Failure> {
    let Some(section) = elf.sections.iter().find(|section| section.kind == DYNAMIC) else { return Ok(Vec::new()) };
    let mut bytes = vec![0; usize::try_from(section.size).unwrap_or(usize::MAX)];
    reader.read_exact_at(section.offset, &mut bytes)?;
    let mut entries: Vec<[u8; 16]> = bytes.as_chunks().0.to_vec();
    if elf.is_64 {
        entries.retain(|entry| {
            let tag = u64::from_le_bytes(entry[..8].try_into().unwrap_or_default());
            !NAMED_TAGS.contains(&tag) && !NAMED_TAG_RANGES.contains(&tag)
        });
    }
    entries.sort_unstable();
    Ok(entries)
}

/// Returns the address of the entry point, as in the header.
fn entry(reader: &dyn ReadAt) -> Result<[u8; ENTRY.end - ENTRY.start], Failure> {
    let mut bytes = [0; ENTRY.end - ENTRY.start];
    reader.read_exact_at(ENTRY.start as u64, &mut bytes)?;
    Ok(bytes)
}

/// Returns the addresses and sizes of memory that is read-only after relocation.
fn protected(elf: &Elf) -> Vec<(u64, u64)> {
    let segments = elf.segments.iter().filter(|segment| segment.kind == GNU_RELRO);
    segments.map(|segment| (segment.address, segment.memory_size)).collect()
}

/// Returns the permissions of the memory that contains an address.
fn permissions(elf: &Elf, address: u64) -> Option<u32> {
    let mut loads = elf.segments.iter().filter(|segment| segment.kind == LOAD && address >= segment.address);
    loads.find(|segment| address - segment.address < segment.memory_size).map(|segment| segment.flags)
}

/// Returns the sections by name and by the number of earlier sections with that name.
fn numbered(elf: &Elf) -> BTreeMap<(&str, usize), &Section> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sections = BTreeMap::new();
    for section in &elf.sections {
        let count = counts.entry(&section.name).or_default();
        sections.insert((section.name.as_str(), *count), section);
        *count += 1;
    }
    sections
}

fn is_same(
    sides: &Sides<'_>,
    (old, new): (&Section, &Section),
    is_same_names: bool,
    context: &Context<'_>,
) -> Result<bool, Failure> {
    if (old.size, old.kind == NOBITS) != (new.size, new.kind == NOBITS) {
        return Ok(false);
    }
    if old.kind == DYNSYM && new.kind == DYNSYM {
        // The loader finds the table by the dynamic section, at any address. Names are indices into
        // another table.
        return Ok(is_same_names
            && symbol_values(&sides.old, sides.old_reader, old)? == symbol_values(&sides.new, sides.new_reader, new)?);
    }
    if old.address != new.address
        || (old.address != 0 && permissions(&sides.old, old.address) != permissions(&sides.new, new.address))
    {
        return Ok(false);
    }
    if old.kind == NOBITS {
        return Ok(true);
    }
    let (one, other) = (At(sides.old_reader, old.offset), At(sides.new_reader, new.offset));
    same_bytes(&one, &other, old.size, context.reporter).map_err(|error| error::read(error, context.reporter))
}

/// Returns the entries of a symbol table without the indices of their names and sections. Tools
/// that edit a file add sections in front of others; the loader only checks whether a symbol has a
/// section.
fn symbol_values(elf: &Elf, reader: &dyn ReadAt, section: &Section) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; usize::try_from(section.size).unwrap_or(usize::MAX)];
    reader.read_exact_at(section.offset, &mut bytes)?;
    if !elf.is_64 {
        return Ok(bytes);
    }
    for entry in bytes.chunks_exact_mut(SYMBOL) {
        entry[..SYMBOL_NAME].fill(0);
        let number = u16::from_le_bytes([entry[SYMBOL_SECTION.start], entry[SYMBOL_SECTION.start + 1]]);
        if number != NO_SECTION && number < RESERVED_SECTIONS {
            entry[SYMBOL_SECTION].fill(1);
        }
    }
    Ok(bytes)
}

/// A file from an offset on.
struct At<'a>(&'a dyn ReadAt, u64);

impl ReadAt for At<'_> {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(self.1.saturating_add(position), buffer)
    }
}
