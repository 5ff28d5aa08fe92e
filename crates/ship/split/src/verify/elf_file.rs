//! Input: a host ELF file before its GPU code was removed, and after. Output: all other
//! differences.
//!
//! The comparison covers what the dynamic loader uses: the memory image, the dynamic section, the
//! segments. Sections that only debuggers read are compared as well.

use std::collections::BTreeMap;
use std::ops::Range;

use positioned_io::ReadAt as _;
use rocwheel_content::{Content, Reader};
use rocwheel_elf::{Elf, Section, Segment};
use rocwheel_kpack::fatbin::{FatBinary, WRAPPER_POINTER, WRAPPER_SIZE};
use rocwheel_progress::with_causes;

const LOAD: u32 = 1;
const DYNAMIC: u32 = 6;
const SYMTAB: u32 = 2;
const RELA: u32 = 4;
const NOBITS: u32 = 8;
const DYNSYM: u32 = 11;
/// PT_DYNAMIC, PT_TLS, PT_GNU_EH_FRAME, PT_GNU_STACK, PT_GNU_RELRO: these segments must keep their
/// addresses.
const FIXED_SEGMENTS: [u32; 5] = [2, 7, 0x6474_e550, 0x6474_e551, 0x6474_e552];
/// Sections that the loader finds through the dynamic section or a segment, so they may be moved.
const MOVABLE: [&str; 8] =
    [".interp", ".gnu.hash", ".hash", ".dynsym", ".dynstr", ".gnu.version", ".gnu.version_r", ".gnu.version_d"];
/// Types of symbol tables, for the loader and for debuggers.
const SYMBOLS: [u32; 2] = [SYMTAB, DYNSYM];
const PAGE: u64 = 4096;
/// Bytes of an entry of the program header table.
const PROGRAM_HEADER: u64 = 56;
/// Bytes of an entry of the section header table.
const SECTION_HEADER: u64 = 64;
/// Bytes compared at a time.
const WINDOW: u64 = 1 << 20;

struct Side<'a> {
    reader: Reader,
    elf: Elf,
    fat: &'a FatBinary,
    size: u64,
}

impl<'a> Side<'a> {
    fn new(content: &dyn Content, fat: &'a FatBinary) -> Result<Self, String> {
        let reader = content.open().map_err(|error| error.to_string())?;
        let elf = Elf::read(&reader).map_err(|error| with_causes(&error))?.ok_or("is no ELF file")?;
        Ok(Self { reader, elf, fat, size: content.size() })
    }

    /// Returns the address ranges of the program header table and the section header table, as far
    /// as they are mapped. patchelf 0.19 puts the section headers into a segment.
    fn tables(&self) -> impl Iterator<Item = Range<u64>> {
        let sections = match self.elf.sections.len() as u64 {
            0 => 0,
            // The table has a null entry as well.
            count => (count + 1) * SECTION_HEADER,
        };
        let segments = self.elf.segments.len() as u64 * PROGRAM_HEADER;
        // e_phoff and e_shoff.
        [self.table(32, segments), self.table(40, sections)].into_iter().flatten()
    }

    /// Returns the address range of the table of `size` bytes whose offset is in the file header at
    /// `field`; `None` if it is not mapped in one piece.
    fn table(&self, field: u64, size: u64) -> Option<Range<u64>> {
        let mut bytes = [0; 8];
        self.reader.read_exact_at(field, &mut bytes).ok()?;
        let offset = u64::from_le_bytes(bytes);
        let end = offset.checked_add(size)?;
        let owner = self.loads().find(|load| offset >= load.offset && end - load.offset <= load.file_size)?;
        let start = owner.address.checked_add(offset - owner.offset)?;
        Some(start..start.checked_add(size)?)
    }

    fn loads(&self) -> impl Iterator<Item = &Segment> {
        self.elf.segments.iter().filter(|segment| segment.kind == LOAD)
    }

    /// Returns the segment that contains `address` in memory.
    fn load(&self, address: u64) -> Option<&Segment> {
        self.loads().find(|load| address >= load.address && address - load.address < load.memory_size)
    }

    /// Fills `buffer` with the memory from `address` on as the loader would, inside of one segment.
    fn memory(&self, load: &Segment, address: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let skip = address - load.address;
        let in_file = load.file_size.saturating_sub(skip).min(buffer.len() as u64) as usize;
        buffer[in_file..].fill(0);
        self.reader.read_exact_at(load.offset + skip, &mut buffer[..in_file])
    }

    fn fields(&self) -> [(&'static str, String); 10] {
        let elf = &self.elf;
        [
            ("its machine", elf.machine.to_string()),
            ("its kind", format!("{:?}", elf.kind)),
            ("its interpreter", format!("{:?}", elf.interpreter)),
            ("its SONAME", format!("{:?}", elf.soname)),
            ("its list of needed libraries", format!("{:?}", elf.needed)),
            ("its RPATH", format!("{:?}", elf.rpath)),
            ("its RUNPATH", format!("{:?}", elf.runpath)),
            ("its list of needed versions", format!("{:?}", elf.version_needs)),
            ("its list of defined versions", format!("{:?}", elf.version_definitions)),
            ("its build ID", format!("{:?}", elf.build_id)),
        ]
    }

    fn bytes(&self, section: &Section) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; section.size as usize];
        let read = self.reader.read_exact_at(section.offset, &mut bytes);
        read.map_err(|error| format!("the section `{}` could not be read: {error}", section.name))?;
        Ok(bytes)
    }
}

/// Returns all differences, as sentences about the file.
pub(crate) fn compare(
    before: &dyn Content,
    before_fat: &FatBinary,
    after: &dyn Content,
    after_fat: &FatBinary,
) -> Result<Vec<String>, String> {
    let (before, after) = (Side::new(before, before_fat)?, Side::new(after, after_fat)?);
    let mut found = headers(&before, &after)?;
    found.extend(segments(&before, &after));
    let (moved, sections) = sections(&before, &after)?;
    found.extend(sections);
    found.extend(memory(&before, &after, &moved)?);
    Ok(found)
}

fn headers(before: &Side<'_>, after: &Side<'_>) -> Result<Vec<String>, String> {
    let fields = before.fields().into_iter().zip(after.fields()).filter(|((_, was), (_, is))| was != is);
    let mut found: Vec<String> = fields.map(|((what, was), (_, is))| format!("{what} is {is}, it was {was}")).collect();
    // e_type to e_entry, and e_flags: the fields of the header that the loader reads, except the
    // offsets of the tables.
    for (what, range) in [("the ELF header", 0..32_u64), ("the ELF header", 48..52)] {
        let mut bytes = [[0; 32]; 2];
        let length = (range.end - range.start) as usize;
        for (side, bytes) in [before, after].into_iter().zip(&mut bytes) {
            let read = side.reader.read_exact_at(range.start, &mut bytes[..length]);
            read.map_err(|error| format!("{what} could not be read: {error}"))?;
        }
        if bytes[0] != bytes[1] {
            found.push(format!("{what} differs between bytes {} and {}", range.start, range.end));
        }
    }
    Ok(found)
}

fn segments(before: &Side<'_>, after: &Side<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for kind in FIXED_SEGMENTS {
        let [was, is] = [before, after].map(|side| {
            let segments = side.elf.segments.iter().filter(|segment| segment.kind == kind);
            segments.map(|segment| (segment.address, segment.memory_size, segment.flags)).collect::<Vec<_>>()
        });
        if was != is {
            found.push(format!("its segments of type {kind:#x} are not where they were"));
        }
    }
    let mut end = 0;
    for load in after.loads() {
        if load.address % PAGE != load.offset % PAGE {
            found.push(format!("its segment at {:#x} cannot be mapped: its file offset does not fit", load.address));
        }
        if load.offset.checked_add(load.file_size).is_none_or(|end| end > after.size) {
            found.push(format!("its segment at {:#x} reaches behind the end of the file", load.address));
        }
        if load.address < end {
            found.push(format!("its segment at {:#x} is inside another, or they are not in order", load.address));
        }
        end = end.max(load.address.saturating_add(load.memory_size));
    }
    found
}

/// Old address of a moved section → new address and size.
type Moved = BTreeMap<u64, (u64, u64)>;

/// Pairs the sections by name; compares those that are not part of the memory image.
fn sections(before: &Side<'_>, after: &Side<'_>) -> Result<(Moved, Vec<String>), String> {
    let mut found = Vec::new();
    let mut moved = Moved::new();
    let mut remaining: Vec<&Section> = after.elf.sections.iter().collect();
    let mut pairs = Vec::new();
    for section in &before.elf.sections {
        match remaining.iter().position(|other| other.name == section.name) {
            Some(place) => pairs.push((section, remaining.remove(place))),
            None => found.push(format!("its section `{}` is gone", section.name)),
        }
    }
    // Existing tools give the marker a section.
    remaining.retain(|section| {
        section.name != ".rocm_kpack_ref" || after.fat.markers.iter().all(|(_, offset)| *offset != section.offset)
    });
    found.extend(remaining.iter().map(|section| format!("it has a section `{}`, which it had not", section.name)));
    for (was, is) in &pairs {
        let is_fat = was.address == before.fat.address && was.size == before.fat.memory_size && was.address != 0;
        if is_fat || was.name == ".shstrtab" {
            continue;
        }
        let movable = MOVABLE.contains(&was.name.as_str()) || was.name.starts_with(".note");
        if was.address != is.address && movable && was.size == is.size {
            moved.insert(was.address, (is.address, was.size));
        } else if (was.address, was.size) != (is.address, is.size) {
            found.push(format!(
                "its section `{}` has {} bytes at {:#x}, it had {} at {:#x}",
                was.name, is.size, is.address, was.size, was.address
            ));
            continue;
        }
        if was.kind != is.kind {
            found.push(format!("its section `{}` is of type {}, it was {}", was.name, is.kind, was.kind));
        }
        // These are compared as memory or entry by entry.
        let elsewhere = (was.address != 0 && was.address == is.address) || SYMBOLS.contains(&was.kind);
        if was.kind != NOBITS && is.kind != NOBITS && !elsewhere && !same_bytes(before, after, was, is)? {
            found.push(format!("its section `{}` differs", was.name));
        }
    }
    // GPU code that was put back may have got a separate segment, with the symbols of its section.
    let mut places = moved.clone();
    places.insert(before.fat.address, (after.fat.address, before.fat.memory_size));
    for (was, is) in pairs.iter().filter(|(was, is)| was.size == is.size) {
        match was.kind {
            kind if SYMBOLS.contains(&kind) => found.extend(symbols((before, was), (after, is), &places)?),
            _ if was.address != is.address => {}
            RELA => found.extend(relocations(before, was, after, is)?),
            DYNAMIC => found.extend(dynamic(before, was, after, is, &moved)?),
            _ => {}
        }
    }
    Ok((moved, found))
}

fn same_bytes(before: &Side<'_>, after: &Side<'_>, was: &Section, is: &Section) -> Result<bool, String> {
    let differs = super::differs(&before.reader, &after.reader, [was.offset, is.offset], was.size);
    Ok(differs.map_err(|error| format!("the section `{}` could not be read: {error}", was.name))?.is_none())
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Compares relocations: only those that supply a wrapper's pointer may differ.
fn relocations(before: &Side<'_>, was: &Section, after: &Side<'_>, is: &Section) -> Result<Vec<String>, String> {
    let (old, new) = (before.bytes(was)?, after.bytes(is)?);
    let entries = old.as_chunks::<24>().0.iter().zip(new.as_chunks::<24>().0);
    let changed = entries.filter(|(old, new)| old != new);
    let wrong = changed.filter(|(old, new)| {
        let place = word(&old[..8]);
        old[..8] != new[..8] || before.fat.wrappers.iter().all(|wrapper| wrapper.address + WRAPPER_POINTER != place)
    });
    Ok(wrong.map(|(old, _)| format!("the relocation of {:#x} in `{}` differs", word(&old[..8]), was.name)).collect())
}

/// Compares symbols: only those in a moved section may differ, in their address.
fn symbols(
    (before, was): (&Side<'_>, &Section),
    (after, is): (&Side<'_>, &Section),
    moved: &Moved,
) -> Result<Vec<String>, String> {
    const SYMBOL: u64 = 24;
    let mut buffers = [Vec::new(), Vec::new()];
    let mut position = 0;
    while position < was.size {
        let length = (was.size - position).min(WINDOW / SYMBOL * SYMBOL) as usize;
        for (buffer, (side, section)) in buffers.iter_mut().zip([(before, was), (after, is)]) {
            buffer.resize(length, 0);
            let read = side.reader.read_exact_at(section.offset + position, buffer);
            read.map_err(|error| format!("the section `{}` could not be read: {error}", was.name))?;
        }
        let [old, new] = &buffers;
        let mut pairs = old.as_chunks::<24>().0.iter().zip(new.as_chunks::<24>().0);
        let wrong = pairs.position(|(old, new)| {
            let same_rest = old[..8] == new[..8] && old[16..] == new[16..];
            old != new && !(same_rest && moved_address(moved, word(&old[8..16])) == Some(word(&new[8..16])))
        });
        if let Some(at) = wrong {
            return Ok(vec![format!("symbol {} of `{}` differs", position / SYMBOL + at as u64, was.name)]);
        }
        position += length as u64;
    }
    Ok(Vec::new())
}

/// Returns where an address in a moved section is now.
fn moved_address(moved: &Moved, address: u64) -> Option<u64> {
    let (start, (now, size)) = moved.range(..=address).next_back()?;
    (address - start <= *size).then(|| now + (address - start))
}

/// Compares the dynamic section: only entries with the address of a moved section may differ.
fn dynamic(
    before: &Side<'_>,
    was: &Section,
    after: &Side<'_>,
    is: &Section,
    moved: &Moved,
) -> Result<Vec<String>, String> {
    let (old, new) = (before.bytes(was)?, after.bytes(is)?);
    let entries = old.as_chunks::<16>().0.iter().zip(new.as_chunks::<16>().0);
    let wrong = entries.filter(|(old, new)| {
        let place = moved.get(&word(&old[8..])).map(|(address, _)| *address);
        old != new && (old[..8] != new[..8] || place != Some(word(&new[8..])))
    });
    Ok(wrong.map(|(old, _)| format!("the entry {:#x} of its dynamic section differs", word(&old[..8]))).collect())
}

/// Compares the memory that the loader maps, except the fat binary section and tables that are
/// compared entry by entry.
fn memory(before: &Side<'_>, after: &Side<'_>, moved: &Moved) -> Result<Vec<String>, String> {
    let ignored = ignored(before, after, moved);
    let mut found = Vec::new();
    for load in before.loads() {
        let mut position = load.address;
        let end = load.address.saturating_add(load.memory_size);
        while position < end {
            if let Some(skip) = ignored.iter().find(|range| range.contains(&position)) {
                position = skip.end;
                continue;
            }
            let next = ignored.iter().map(|range| range.start).filter(|start| *start > position).min();
            let Some(other) = after.load(position) else {
                let until = after.loads().map(|load| load.address).filter(|start| *start > position).min();
                let until = until.unwrap_or(end).min(end).min(next.unwrap_or(end));
                // Bytes between two sections are not compared.
                if let Some(section) = section_in(before, position..until) {
                    found.push(format!("nothing is mapped at {position:#x} any more, where `{section}` was"));
                }
                position = until;
                continue;
            };
            let other_end = other.address.saturating_add(other.memory_size);
            let until = end.min(next.unwrap_or(end)).min(other_end);
            if load.flags != other.flags {
                found.push(format!("the memory at {position:#x} has other permissions"));
            }
            if let Some(at) = same_memory(before, load, after, other, position..until)? {
                found.push(format!("its memory differs at {at:#x}{}", section_at(before, at)));
                break;
            }
            position = until;
        }
    }
    Ok(found)
}

/// Returns the memory that is not compared byte by byte, sorted.
fn ignored(before: &Side<'_>, after: &Side<'_>, moved: &Moved) -> Vec<Range<u64>> {
    let fat = before.fat;
    let mut ignored: Vec<Range<u64>> = Vec::new();
    // GPU code that was put back may have got a separate segment; its old section holds the
    // markers.
    ignored.extend([fat, after.fat].map(|fat| fat.address..fat.address.saturating_add(fat.memory_size)));
    ignored.extend(fat.wrappers.iter().map(|wrapper| wrapper.address..wrapper.address + WRAPPER_SIZE));
    ignored.extend(moved.iter().map(|(address, (_, size))| *address..address + size));
    // Some moved sections are now in bytes that were between sections, and so are tables of headers
    // that another tool has moved. Those that overlap a section that stays are compared. The loader
    // does not read section headers.
    let loaded = before.elf.sections.iter().filter(|section| section.address != 0);
    let staying: Vec<&Section> = loaded.clone().filter(|section| !moved.contains_key(&section.address)).collect();
    let now = moved.values().map(|(address, size)| *address..address + size);
    ignored.extend(now.chain([before, after].into_iter().flat_map(Side::tables)).filter(|range| {
        staying.iter().all(|section| section.address >= range.end || section.address + section.size <= range.start)
    }));
    let entry_wise =
        loaded.filter(|section| [RELA, DYNAMIC].contains(&section.kind) || SYMBOLS.contains(&section.kind));
    ignored.extend(entry_wise.map(|section| section.address..section.address + section.size));
    // The fields of the ELF header and the program headers were compared one by one. The table may
    // have grown into bytes between sections, or into those of a moved section.
    for load in before.loads().filter(|load| load.offset == 0) {
        let [was, is] = [before, after].map(|side| load.address + 64 + PROGRAM_HEADER * side.elf.segments.len() as u64);
        let first = staying.iter().map(|section| section.address).filter(|start| *start >= was);
        ignored.push(load.address..is.max(was).min(first.min().unwrap_or(was).max(was)));
    }
    for segment in before.elf.segments.iter().filter(|segment| segment.kind == 6) {
        ignored.push(segment.address..segment.address + segment.memory_size);
    }
    ignored.retain(|range| !range.is_empty());
    ignored.sort_by_key(|range| range.start);
    ignored
}

/// Returns the first address of `range` at which the two images differ.
fn same_memory(
    before: &Side<'_>,
    load: &Segment,
    after: &Side<'_>,
    other: &Segment,
    range: Range<u64>,
) -> Result<Option<u64>, String> {
    let mut buffers = [Vec::new(), Vec::new()];
    let mut position = range.start;
    // Behind the file bytes of both there are only zeros.
    let filled = (load.address + load.file_size).max(other.address + other.file_size);
    while position < range.end.min(filled) {
        let length = (range.end.min(filled) - position).min(WINDOW) as usize;
        for buffer in &mut buffers {
            buffer.resize(length, 0);
        }
        let [was, is] = &mut buffers;
        let read = before.memory(load, position, was).and_then(|()| after.memory(other, position, is));
        read.map_err(|error| format!("the memory at {position:#x} could not be read: {error}"))?;
        if buffers[0] != buffers[1]
            && let Some(at) = buffers[0].iter().zip(&buffers[1]).position(|(was, is)| was != is)
        {
            return Ok(Some(position + at as u64));
        }
        position += length as u64;
    }
    Ok(None)
}

/// Returns the name of a section that has bytes in `range`.
fn section_in<'a>(side: &'a Side<'_>, range: Range<u64>) -> Option<&'a str> {
    let mut sections = side.elf.sections.iter().filter(|section| section.address != 0);
    let found = sections.find(|section| section.address < range.end && section.address + section.size > range.start);
    found.map(|section| section.name.as_str())
}

fn section_at(side: &Side<'_>, address: u64) -> String {
    let mut sections = side.elf.sections.iter().filter(|section| section.address != 0);
    let found = sections.find(|section| (section.address..section.address + section.size).contains(&address));
    found.map_or_else(String::new, |section| format!(", in `{}`", section.name))
}
