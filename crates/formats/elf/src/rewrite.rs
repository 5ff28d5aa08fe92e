//! Input: an [`Image`] and the desired dynamic section ([`Wanted`]). Output: a [`Patch`].
//!
//! Strings are never edited in place, because others may share their tails: `.dynstr` is copied to
//! a new segment, or extended if it already is at the end of the file, and new names are appended.
//! The dynamic section is written in place if it fits (lld leaves no spare entry), else moved in
//! the same way. The new segment needs one more program header; `header_space` decides which small
//! sections have to leave the space behind the table for it.

use std::collections::BTreeMap;

use object::LittleEndian;
use object::elf::{self, Dyn64};

use crate::image::{DynamicEntry, Image, PAGE, Segment};
use crate::layout::{ALIGN, Cursor, Layout, Move, SPARE, contains};
use crate::named_entries::{Current, Value, Wanted};
use crate::source::Source;
use crate::{Error, Patch};

const ENTRY_SIZE: u64 = size_of::<Dyn64<LittleEndian>>() as u64;
/// Largest last segment, in bytes, that is copied to the end of the file so that no other one is
/// needed.
const COPY_LIMIT: u64 = 8 << 20;
/// End of the user address space on x86-64.
const ADDRESS_LIMIT: u64 = 1 << 47;

/// Plans the changed bytes. `size` is the size of the file.
pub(crate) fn rewrite(
    mut image: Image,
    source: Source<'_>,
    size: u64,
    current: &Current,
    wanted: &Wanted,
) -> Result<Patch, Error> {
    image.cover_tables();
    check(&image, size)?;
    let names = Names::new(source, current, wanted)?;
    let entries = names.resolve(wanted)?;
    let mut rewriter = Rewriter { layout: Layout::new(image, source, size), current };
    rewriter.run(&names, entries, wanted)?;
    Ok(rewriter.layout.builder.finish())
}

/// Refuses files with sections behind the end, where the new segment goes, and layouts that loaders
/// refuse.
pub(crate) fn check(image: &Image, size: u64) -> Result<(), Error> {
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

/// The names to append, and the indices of all names.
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
        let index = self.index.get(text).copied();
        index.ok_or_else(|| Error::malformed("dynamic string table", "a name was lost"))
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

pub(crate) struct Rewriter<'a> {
    pub(crate) layout: Layout<'a>,
    pub(crate) current: &'a Current,
}

impl Rewriter<'_> {
    fn run(&mut self, names: &Names, mut entries: Vec<DynamicEntry>, wanted: &Wanted) -> Result<(), Error> {
        let mut dynamic =
            self.layout.old.dynamic.clone().ok_or_else(|| Error::malformed("dynamic section", "it is missing"))?;
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
                let size = self.layout.old.segment(elf::PT_DYNAMIC).map_or(0, |segment| segment.file_size);
                self.layout.relocate(&Move {
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
                self.layout.image.segments[segment].flags |= elf::PF_W.0;
                cursor.skip(length);
            } else {
                dynamic.offset = self.layout.translate(dynamic.offset);
            }
            if !strings_first && !names.appended.is_empty() {
                self.copy_strings(names, &mut cursor);
            }
            let end = cursor.offset - self.layout.image.segments[segment].offset;
            self.layout.image.segments[segment].file_size = end;
            self.layout.image.segments[segment].memory_size = end;
        }
        if !names.appended.is_empty() {
            set(&mut entries, elf::DT_STRSZ, self.current.strings.size + names.appended.len() as u64);
        }
        self.layout.update_addresses(&mut entries);
        self.layout.write_dynamic(&dynamic, &entries);
        self.write_versions(names, wanted)?;
        if moves_dynamic {
            self.layout.write_table_reference(old_address, dynamic.address)?;
        }
        self.layout.write_symbols()?;
        self.layout.write_headers()
    }

    /// Returns the segment for the new bytes and their position in it: the last segment, extended,
    /// or a new one.
    fn open_segment(&mut self) -> Result<(usize, Cursor), Error> {
        let last = self.layout.image.segments.iter().rposition(Segment::is_load);
        let last = last.ok_or_else(|| Error::malformed("program header table", "no PT_LOAD"))?;
        let load = self.layout.image.segments[last];
        let table = self.layout.old.program_header_offset;
        let holds_strings = load.holds_offset(self.current.strings.offset, self.current.strings.size);
        if load.offset > 0 && load.file_size == load.memory_size && holds_strings {
            if load.file_end() == self.layout.size {
                return Ok((last, Cursor { offset: load.file_end(), address: load.memory_end() }));
            }
            let holds_table = load.holds_offset(table, 0);
            let pinned = [elf::PT_TLS.0, elf::PT_GNU_RELRO.0];
            let mut segments = self.layout.image.segments.iter().filter(|segment| pinned.contains(&segment.kind));
            let is_pinned = segments.any(|segment| load.holds_offset(segment.offset, segment.file_size));
            if load.file_size <= COPY_LIMIT && load.align <= PAGE && !holds_table && !is_pinned {
                return Ok((last, self.copy_to_end(last)));
            }
        }
        self.layout.new_segment(last)
    }

    /// Moves a segment to the end of the file; its addresses stay the same.
    fn copy_to_end(&mut self, index: usize) -> Cursor {
        let load = self.layout.image.segments[index];
        let offset = self.layout.size + (load.address.wrapping_sub(self.layout.size) & (PAGE - 1));
        self.layout.builder.copy(offset, load.offset, load.file_size);
        self.layout.relocate(&Move {
            offset: load.offset,
            address: load.address,
            length: load.file_size,
            to_offset: offset,
            to_address: load.address,
        });
        self.layout.image.segments[index].offset = offset;
        Cursor { offset: offset + load.file_size, address: load.memory_end() }
    }

    /// `true` if the string table ends where the new bytes begin.
    fn appends_strings_in_place(&self, names: &Names, cursor: Cursor) -> bool {
        let table = self.current.strings;
        let moved = self
            .layout
            .moves
            .iter()
            .any(|range| range.to_address != range.address && contains(range.offset, range.length, table.offset));
        !names.appended.is_empty() && !moved && self.layout.translate(table.offset) + table.size == cursor.offset
    }

    fn append_strings(&mut self, names: &Names, cursor: &mut Cursor) {
        let start = cursor.offset - self.current.strings.size;
        self.layout.builder.bytes(cursor.offset, &names.appended);
        self.resize_strings(start, names);
        cursor.skip(names.appended.len() as u64);
    }

    fn copy_strings(&mut self, names: &Names, cursor: &mut Cursor) {
        let table = self.current.strings;
        let offset = self.layout.translate(table.offset);
        let address = self.layout.translate_address(self.old_strings_address());
        cursor.align(0, ALIGN);
        self.layout.builder.copy(cursor.offset, table.offset, table.size);
        self.layout.relocate(&Move {
            offset,
            address,
            length: table.size,
            to_offset: cursor.offset,
            to_address: cursor.address,
        });
        self.resize_strings(cursor.offset, names);
        cursor.skip(table.size);
        self.layout.builder.bytes(cursor.offset, &names.appended);
        cursor.skip(names.appended.len() as u64);
    }

    fn old_strings_address(&self) -> u64 {
        self.layout.old.dynamic_value(elf::DT_STRTAB).unwrap_or(0)
    }

    fn resize_strings(&mut self, offset: u64, names: &Names) {
        let size = self.current.strings.size + names.appended.len() as u64;
        let strings = self
            .layout
            .image
            .sections
            .iter_mut()
            .filter(|section| section.kind == elf::SHT_STRTAB.0 && section.is_allocated());
        for section in strings.filter(|section| section.offset == offset) {
            section.size = size;
        }
    }

    fn resize_dynamic(&mut self, offset: u64, length: u64) {
        for section in self.layout.image.sections.iter_mut().filter(|section| section.kind == elf::SHT_DYNAMIC.0) {
            if section.offset == offset {
                section.size = length;
            }
        }
        for segment in self.layout.image.segments.iter_mut().filter(|segment| segment.kind == elf::PT_DYNAMIC.0) {
            segment.file_size = length;
            segment.memory_size = length;
        }
    }
}

fn set(entries: &mut [DynamicEntry], tag: elf::DynamicTag, value: u64) {
    for entry in entries.iter_mut().filter(|entry| entry.tag == tag.0) {
        entry.value = value;
    }
}
