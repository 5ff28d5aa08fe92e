//! Input: an [`Image`] and its dynamic section as it should be ([`Wanted`]). Output: a [`Patch`].
//!
//! Strings are never edited in place, as others may share their tails: `.dynstr` is copied to a new segment, or
//! extended where it already is the last thing of the file, and new names are appended. The dynamic section is
//! written in place when it fits (lld leaves no spare entry), else moved likewise. The new segment needs one more
//! program header; `room` says which small sections have to leave the space behind the table for that.

use std::collections::{BTreeMap, BTreeSet};

use object::LittleEndian;
use object::elf::{self, Dyn64, ProgramHeader64};

use crate::edit::{Current, Value, Wanted};
use crate::image::{DynamicEntry, Image, Segment, Source};
use crate::patch::PatchBuilder;
use crate::room::{self, Block};
use crate::{Error, Patch};

const PAGE: u64 = 4096;
const HEADER_SIZE: u64 = size_of::<ProgramHeader64<LittleEndian>>() as u64;
const ENTRY_SIZE: u64 = size_of::<Dyn64<LittleEndian>>() as u64;
/// Everything in the new segment is aligned to this, unless it wants more.
const ALIGN: u64 = 16;
/// Entries left free in a dynamic section that moves, and headers in a table that moves, for the next edit.
const SPARE: u64 = 4;
/// A last segment up to this size is copied to the end of the file rather than followed by another one.
const COPY_LIMIT: u64 = 8 << 20;
/// The largest hole left in a file for a table that has to be at the same offset as its address.
const HOLE_LIMIT: u64 = 4 << 30;
/// User space ends here on x86-64.
const ADDRESS_LIMIT: u64 = 1 << 47;

/// Plans the bytes. `size` is the file's.
pub(crate) fn rewrite(
    image: Image,
    source: Source<'_>,
    size: u64,
    current: &Current,
    wanted: &Wanted,
) -> Result<Patch, Error> {
    check(&image, size)?;
    let names = Names::new(source, current, wanted)?;
    let entries = names.resolve(wanted)?;
    let mut rewriter = Rewriter {
        source,
        size,
        current,
        builder: PatchBuilder::new(size),
        moves: Vec::new(),
        moved_sections: BTreeSet::new(),
        old: image.clone(),
        image,
    };
    rewriter.run(&names, entries, wanted)?;
    Ok(rewriter.builder.finish())
}

/// Refuses files in which something lies behind the end, where the new segment goes, and layouts no loader takes.
fn check(image: &Image, size: u64) -> Result<(), Error> {
    const WHAT: &str = "program header table";
    for section in &image.sections {
        let (offset, length) = (section.offset, section.file_size());
        if section.kind != elf::SHT_NULL.0 && offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::Truncated { what: "section", offset, length });
        }
    }
    let loads: Vec<&Segment> = image.segments.iter().filter(|segment| segment.is_load()).collect();
    for load in &loads {
        if load.memory_size < load.file_size {
            return Err(Error::malformed(WHAT, "a segment is larger in the file than in memory"));
        }
        if load.address.checked_add(load.memory_size).is_none_or(|end| end > ADDRESS_LIMIT) {
            return Err(Error::malformed(WHAT, format!("a segment at {:#x} leaves the address space", load.address)));
        }
    }
    if loads.windows(2).any(|pair| pair[0].memory_end() > pair[1].address) {
        return Err(Error::malformed(WHAT, "segments overlap in memory or are not in order of their addresses"));
    }
    let dynamic = image.segment(elf::PT_DYNAMIC);
    if dynamic.is_some_and(|segment| image.offset_of(segment.address) != Some(segment.offset)) {
        return Err(Error::malformed(WHAT, "PT_DYNAMIC has another file offset than the segment that maps it"));
    }
    Ok(())
}

/// The names to append and where each name will be.
pub(crate) struct Names {
    index: BTreeMap<Vec<u8>, u64>,
    appended: Vec<u8>,
}

impl Names {
    fn new(source: Source<'_>, current: &Current, wanted: &Wanted) -> Result<Self, Error> {
        let mut names = Self { index: current.known.clone(), appended: Vec::new() };
        let table = current.strings;
        let last = table.size.checked_sub(1).map(|last| source.bytes(table.offset + last, 1, "dynamic string table"));
        let is_closed = last.transpose()?.is_some_and(|last| last == [0]);
        let texts = wanted.entries.iter().filter_map(|entry| match &entry.value {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        });
        for text in texts.chain(wanted.renamed.values()) {
            if names.index.contains_key(text) {
                continue;
            }
            if names.appended.is_empty() && !is_closed {
                names.appended.push(0);
            }
            names.index.insert(text.clone(), table.size + names.appended.len() as u64);
            names.appended.extend_from_slice(text);
            names.appended.push(0);
        }
        if table.size + names.appended.len() as u64 > u64::from(u32::MAX) {
            return Err(Error::malformed("dynamic string table", "it would grow beyond 4 GiB"));
        }
        Ok(names)
    }

    pub(crate) fn of(&self, text: &[u8]) -> Result<u64, Error> {
        let missing = || Error::malformed("dynamic string table", "a name was lost");
        self.index.get(text).copied().ok_or_else(missing)
    }

    fn resolve(&self, wanted: &Wanted) -> Result<Vec<DynamicEntry>, Error> {
        let entries = wanted.entries.iter().map(|entry| {
            let value = match &entry.value {
                Value::Number(number) => *number,
                Value::Text(text) => self.of(text)?,
            };
            Ok(DynamicEntry { tag: entry.tag.0, value })
        });
        entries.collect()
    }
}

/// A range that has moved, in the file and in memory.
pub(crate) struct Move {
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) to_offset: u64,
    pub(crate) to_address: u64,
}

/// Where the next appended bytes go; the difference of the two is constant.
#[derive(Clone, Copy)]
struct Cursor {
    offset: u64,
    address: u64,
}

impl Cursor {
    fn skip(&mut self, length: u64) {
        self.offset += length;
        self.address += length;
    }

    /// Advances to an address that is congruent to `like` modulo `align`.
    fn align(&mut self, like: u64, align: u64) {
        let align = align.clamp(1, PAGE).next_power_of_two();
        self.skip(like.wrapping_sub(self.address) & (align - 1));
    }
}

pub(crate) struct Rewriter<'a> {
    pub(crate) source: Source<'a>,
    size: u64,
    pub(crate) current: &'a Current,
    pub(crate) builder: PatchBuilder,
    pub(crate) moves: Vec<Move>,
    /// Sections whose address changes, by index.
    pub(crate) moved_sections: BTreeSet<usize>,
    /// As it is in the file.
    pub(crate) old: Image,
    /// As it will be.
    pub(crate) image: Image,
}

impl Rewriter<'_> {
    fn run(&mut self, names: &Names, mut entries: Vec<DynamicEntry>, wanted: &Wanted) -> Result<(), Error> {
        let mut dynamic =
            self.old.dynamic.clone().ok_or_else(|| Error::malformed("dynamic section", "it is missing"))?;
        let old_address = dynamic.address;
        let moves_dynamic = entries.len() >= dynamic.capacity;
        if moves_dynamic || !names.appended.is_empty() {
            let (segment, mut cursor) = self.open_segment()?;
            let strings_first = self.appends_strings_in_place(names, cursor);
            if strings_first {
                self.append_strings(names, &mut cursor);
            }
            if moves_dynamic {
                cursor.align(0, ALIGN);
                let length = (entries.len() as u64 + 1 + SPARE) * ENTRY_SIZE;
                let size = self.old.segment(elf::PT_DYNAMIC).map_or(0, |segment| segment.file_size);
                self.relocate(&Move {
                    offset: dynamic.offset,
                    address: dynamic.address,
                    length: size,
                    to_offset: cursor.offset,
                    to_address: cursor.address,
                });
                self.resize_dynamic(cursor.offset, length);
                dynamic.offset = cursor.offset;
                dynamic.address = cursor.address;
                dynamic.capacity = entries.len() + 1 + SPARE as usize;
                self.image.segments[segment].flags |= elf::PF_W.0;
                cursor.skip(length);
            } else {
                dynamic.offset = self.translate(dynamic.offset);
            }
            if !strings_first && !names.appended.is_empty() {
                self.copy_strings(names, &mut cursor);
            }
            let end = cursor.offset - self.image.segments[segment].offset;
            self.image.segments[segment].file_size = end;
            self.image.segments[segment].memory_size = end;
        }
        if !names.appended.is_empty() {
            set(&mut entries, elf::DT_STRSZ, self.current.strings.size + names.appended.len() as u64);
        }
        self.update_addresses(&mut entries);
        self.write_dynamic(&dynamic, &entries);
        self.write_versions(names, wanted)?;
        if moves_dynamic {
            self.write_table_reference(old_address, dynamic.address)?;
        }
        self.write_symbols()?;
        self.write_headers()
    }

    /// The segment that takes the new bytes and where they begin: the last one, extended, or a new one.
    fn open_segment(&mut self) -> Result<(usize, Cursor), Error> {
        let last = self.image.segments.iter().rposition(Segment::is_load);
        let last = last.ok_or_else(|| Error::malformed("program header table", "no PT_LOAD"))?;
        let load = self.image.segments[last];
        let table = self.old.program_header_offset;
        let holds_strings = load.holds_offset(self.current.strings.offset, self.current.strings.size);
        if load.offset > 0 && load.file_size == load.memory_size && holds_strings {
            if load.file_end() == self.size {
                return Ok((last, Cursor { offset: load.file_end(), address: load.memory_end() }));
            }
            let holds_table = load.holds_offset(table, 0);
            let inside = |segment: &Segment| load.holds_offset(segment.offset, segment.file_size);
            let pinned = [elf::PT_TLS.0, elf::PT_GNU_RELRO.0];
            let is_pinned = self.image.segments.iter().any(|segment| pinned.contains(&segment.kind) && inside(segment));
            if load.file_size <= COPY_LIMIT && load.align <= PAGE && !holds_table && !is_pinned {
                return Ok((last, self.copy_to_end(last)));
            }
        }
        self.new_segment(last)
    }

    /// Moves a segment to the end of the file; in memory it stays where it is.
    fn copy_to_end(&mut self, index: usize) -> Cursor {
        let load = self.image.segments[index];
        let offset = self.size + (load.address.wrapping_sub(self.size) & (PAGE - 1));
        self.builder.copy(offset, load.offset, load.file_size);
        self.relocate(&Move {
            offset: load.offset,
            address: load.address,
            length: load.file_size,
            to_offset: offset,
            to_address: load.address,
        });
        self.image.segments[index].offset = offset;
        Cursor { offset: offset + load.file_size, address: load.memory_end() }
    }

    fn new_segment(&mut self, last: usize) -> Result<(usize, Cursor), Error> {
        let table = self.old.program_header_offset;
        let old_count = self.old.segments.len() as u64;
        let used = self.old.segments.iter().filter(|segment| segment.kind != elf::PT_NULL.0).count() as u64;
        if used + 1 >= u64::from(elf::PN_XNUM) {
            return Err(Error::malformed("program header table", "it is full"));
        }
        let blocks = if used < old_count {
            Some(Vec::new())
        } else {
            room::make(&self.old, self.source, table + old_count * HEADER_SIZE, table + (old_count + 1) * HEADER_SIZE)?
        };
        let floor = self.image.segments[last].memory_end().next_multiple_of(PAGE);
        let offset = self.size.next_multiple_of(ALIGN);
        let mut cursor = Cursor { offset, address: floor + offset % PAGE };
        if blocks.is_none() && self.old.segment(elf::PT_INTERP).is_some() {
            // Kernels before 5.18 take the table to be at the first segment's address plus its file offset.
            let base = self.first_address()?;
            cursor.offset = cursor.offset.max(floor.saturating_sub(base));
            cursor.address = base + cursor.offset;
            if cursor.offset - self.size > HOLE_LIMIT {
                let why = format!("it has to move to offset {:#x}, far behind the end of the file", cursor.offset);
                return Err(Error::malformed("program header table", why));
            }
        }
        let place = self.image.segments[..=last].iter().filter(|segment| segment.kind != elf::PT_NULL.0).count();
        self.image.segments.retain(|segment| segment.kind != elf::PT_NULL.0);
        let segment = Segment {
            kind: elf::PT_LOAD.0,
            flags: elf::PF_R.0,
            offset: cursor.offset,
            address: cursor.address,
            physical: cursor.address,
            file_size: 0,
            memory_size: 0,
            align: PAGE,
        };
        self.image.segments.insert(place, segment);
        match blocks {
            Some(blocks) => blocks.iter().for_each(|block| self.move_block(block, &mut cursor)),
            None => self.move_table(&mut cursor),
        }
        let null = Segment {
            kind: elf::PT_NULL.0,
            flags: 0,
            offset: 0,
            address: 0,
            physical: 0,
            file_size: 0,
            memory_size: 0,
            align: 0,
        };
        while (self.image.segments.len() as u64) < old_count {
            self.image.segments.push(null);
        }
        Ok((place, cursor))
    }

    fn first_address(&self) -> Result<u64, Error> {
        let first = self.old.segments.iter().find(|segment| segment.is_load());
        let base = first.and_then(|first| first.address.checked_sub(first.offset));
        base.ok_or_else(|| Error::malformed("program header table", "the first segment lies below its file offset"))
    }

    fn move_block(&mut self, block: &Block, cursor: &mut Cursor) {
        let owner = self
            .old
            .segments
            .iter()
            .find(|segment| segment.is_load() && segment.holds_offset(block.offset, block.length));
        let Some(owner) = owner else { return };
        let address = owner.address + (block.offset - owner.offset);
        cursor.align(address, block.align.max(ALIGN));
        self.builder.copy(cursor.offset, block.offset, block.length);
        // The next edit takes zeros behind the table for free space.
        self.builder.zero(block.offset, block.length);
        self.relocate(&Move {
            offset: block.offset,
            address,
            length: block.length,
            to_offset: cursor.offset,
            to_address: cursor.address,
        });
        cursor.skip(block.length);
    }

    fn move_table(&mut self, cursor: &mut Cursor) {
        self.image.program_header_offset = cursor.offset;
        let address = cursor.address;
        for segment in self.image.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR.0) {
            segment.offset = cursor.offset;
            segment.address = address;
            segment.physical = address;
        }
        cursor.skip((self.image.segments.len() as u64 + SPARE) * HEADER_SIZE);
    }

    /// Whether the string table ends where the new bytes begin.
    fn appends_strings_in_place(&self, names: &Names, cursor: Cursor) -> bool {
        let table = self.current.strings;
        let moved = self
            .moves
            .iter()
            .any(|range| range.to_address != range.address && contains(range.offset, range.length, table.offset));
        !names.appended.is_empty() && !moved && self.translate(table.offset) + table.size == cursor.offset
    }

    fn append_strings(&mut self, names: &Names, cursor: &mut Cursor) {
        let start = cursor.offset - self.current.strings.size;
        self.builder.bytes(cursor.offset, &names.appended);
        self.resize_strings(start, names);
        cursor.skip(names.appended.len() as u64);
    }

    fn copy_strings(&mut self, names: &Names, cursor: &mut Cursor) {
        let table = self.current.strings;
        let offset = self.translate(table.offset);
        let address = self.translate_address(self.old_strings_address());
        cursor.align(0, ALIGN);
        self.builder.copy(cursor.offset, table.offset, table.size);
        self.relocate(&Move {
            offset,
            address,
            length: table.size,
            to_offset: cursor.offset,
            to_address: cursor.address,
        });
        self.resize_strings(cursor.offset, names);
        cursor.skip(table.size);
        self.builder.bytes(cursor.offset, &names.appended);
        cursor.skip(names.appended.len() as u64);
    }

    fn old_strings_address(&self) -> u64 {
        self.old.dynamic.as_ref().and_then(|dynamic| dynamic.value(elf::DT_STRTAB)).unwrap_or(0)
    }

    fn resize_strings(&mut self, offset: u64, names: &Names) {
        let size = self.current.strings.size + names.appended.len() as u64;
        let strings = self
            .image
            .sections
            .iter_mut()
            .filter(|section| section.kind == elf::SHT_STRTAB.0 && section.is_allocated());
        for section in strings.filter(|section| section.offset == offset) {
            section.size = size;
        }
    }

    fn resize_dynamic(&mut self, offset: u64, length: u64) {
        for section in self.image.sections.iter_mut().filter(|section| section.kind == elf::SHT_DYNAMIC.0) {
            if section.offset == offset {
                section.size = length;
            }
        }
        for segment in self.image.segments.iter_mut().filter(|segment| segment.kind == elf::PT_DYNAMIC.0) {
            segment.file_size = length;
            segment.memory_size = length;
        }
    }

    /// Carries the sections and segments in a range along with it.
    fn relocate(&mut self, range: &Move) {
        let end = range.offset + range.length;
        let inside = |offset: u64, length: u64| {
            length > 0 && offset >= range.offset && offset.checked_add(length).is_some_and(|last| last <= end)
        };
        for (index, section) in self.image.sections.iter_mut().enumerate() {
            if section.is_allocated() && inside(section.offset, section.file_size()) {
                section.offset = section.offset - range.offset + range.to_offset;
                section.address = section.address.wrapping_sub(range.address).wrapping_add(range.to_address);
                if range.address != range.to_address {
                    self.moved_sections.insert(index);
                }
            }
        }
        let pinned = [elf::PT_LOAD, elf::PT_PHDR, elf::PT_TLS, elf::PT_GNU_RELRO, elf::PT_GNU_STACK];
        for segment in
            self.image.segments.iter_mut().filter(|segment| !pinned.contains(&elf::ProgramType(segment.kind)))
        {
            if inside(segment.offset, segment.file_size) {
                segment.offset = segment.offset - range.offset + range.to_offset;
                segment.address = segment.address.wrapping_sub(range.address).wrapping_add(range.to_address);
                segment.physical = segment.address;
            }
        }
        let Move { offset, address, length, to_offset, to_address } = *range;
        self.moves.push(Move { offset, address, length, to_offset, to_address });
    }

    /// Where an original file offset has gone.
    pub(crate) fn translate(&self, offset: u64) -> u64 {
        self.moves.iter().fold(offset, |offset, range| {
            if contains(range.offset, range.length, offset) { offset - range.offset + range.to_offset } else { offset }
        })
    }

    pub(crate) fn translate_address(&self, address: u64) -> u64 {
        self.moves.iter().fold(address, |address, range| {
            if contains(range.address, range.length, address) {
                address - range.address + range.to_address
            } else {
                address
            }
        })
    }

    fn update_addresses(&self, entries: &mut [DynamicEntry]) {
        let tables = [
            elf::DT_STRTAB,
            elf::DT_SYMTAB,
            elf::DT_HASH,
            elf::DT_GNU_HASH,
            elf::DT_VERSYM,
            elf::DT_VERNEED,
            elf::DT_VERDEF,
        ];
        for entry in entries.iter_mut().filter(|entry| tables.contains(&elf::DynamicTag(entry.tag))) {
            entry.value = self.translate_address(entry.value);
        }
    }
}

fn contains(start: u64, length: u64, position: u64) -> bool {
    position >= start && position - start < length
}

fn set(entries: &mut [DynamicEntry], tag: elf::DynamicTag, value: u64) {
    for entry in entries.iter_mut().filter(|entry| entry.tag == tag.0) {
        entry.value = value;
    }
}
