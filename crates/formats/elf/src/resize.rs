//! Input: a [`SectionEdit`], a loaded section with its new content, and a random-access file.
//! Output: a [`Patch`].
//!
//! Only the section may change its address, so code and relocations stay unchanged. With a smaller
//! content, whole pages are removed from the file: everything behind them moves up by as many
//! pages, and the segment is split in two around the hole in memory. A larger content goes back
//! into such a hole, or else into a new segment.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use object::elf;
use positioned_io::ReadAt;

use crate::image::{Image, PAGE, SectionHeader, Segment};
use crate::layout::{ALIGN, Layout, Move, contains};
use crate::patch::{External, PatchBuilder};
use crate::relocation::{self, RelocatedValue, RelocationRecord};
use crate::source::Source;
use crate::{EditOutcome, Error, Patch, Patched, free_header, plan, rewrite, symbols};

/// A new content for a section that the loader maps, such as `.hip_fatbin`, and new values for the
/// words that point into it.
pub struct SectionEdit {
    /// Name of the section.
    pub section: String,
    /// The new content.
    pub content: External,
    /// Size of the new content in bytes.
    pub size: u64,
    /// Words of data that point into the section: their virtual address, and their new target in
    /// bytes from the section's start. Relocations are updated. No other word may be relocated to
    /// an address inside the section.
    pub pointers: Vec<(u64, u64)>,
    /// Other bytes to write, at virtual addresses.
    pub bytes: Vec<(u64, Vec<u8>)>,
}

impl SectionEdit {
    /// Computes the patch. The file is neither loaded nor written; [`Patch::is_in_place`] is
    /// `false` if parts of it move.
    ///
    /// # Errors
    /// [`Error::NotElf`], [`Error::Machine`] for files that cannot be edited; [`Error::Section`] if
    /// the section does not exist or others overlap it; [`Error::StillUsed`] if something else
    /// points into it; [`Error::Pointer`] for pointers that nothing relocates or maps; and those of
    /// [`crate::Elf::read`].
    pub fn plan(&self, reader: &dyn ReadAt) -> Result<Patch, Error> {
        let file = File::read(reader)?;
        plan::check_machine(&file.image)?;
        rewrite::check(&file.image, file.size)?;
        let index = self.find(&file.image)?;
        self.check_references(&file, index)?;
        let (old, new) = (file.image.sections[index].file_size(), self.size);
        let shaped = if new <= old { file.cut(index, new)? } else { file.grow(index, new)? };
        let patched = Patched::new(reader, shaped.clone());
        let resized = File { source: Source { reader: &patched }, ..File::read(&patched)? };
        let patch = shaped.then(&self.fill(&resized, index)?);
        let last = Patched::new(reader, patch.clone());
        let result = File::read(&last)?;
        rewrite::check(&result.image, result.size)?;
        Ok(if shaped.is_in_place() { patch.in_place() } else { patch })
    }

    fn find(&self, image: &Image) -> Result<usize, Error> {
        let mut names = image.sections.iter().map(|section| image.section_name(section));
        let Some(index) = names.position(|name| name == self.section.as_bytes()) else {
            return Err(Error::section(&self.section, "there is none of this name"));
        };
        let section = &image.sections[index];
        if !section.is_allocated() {
            return Err(Error::section(&self.section, "the loader does not map it"));
        }
        let range = section.offset..section.offset + section.file_size();
        let others = image.sections.iter().enumerate();
        let mut others = others.filter(|(number, other)| *number != index && other.kind != elf::SHT_NULL.0);
        let other = others.find(|(_, other)| overlap(&range, &(other.offset..other.offset + other.file_size())));
        if let Some((_, other)) = other {
            let name = String::from_utf8_lossy(image.section_name(other));
            return Err(Error::section(&self.section, format!("`{name}` overlaps it in the file")));
        }
        let segments = image.segments.iter().filter(|segment| overlap(&range, &(segment.offset..segment.file_end())));
        let (loads, others) = segments.partition::<Vec<&Segment>, _>(|segment| segment.is_load());
        if !others.is_empty() || free_header::tables(image).iter().any(|table| overlap(&range, table)) {
            return Err(Error::section(&self.section, "headers or another segment overlap it in the file"));
        }
        if loads.len() > 1 {
            return Err(Error::section(&self.section, "two segments map it"));
        }
        Ok(index)
    }

    /// Refuses to replace content that words unknown to this edit point to.
    fn check_references(&self, file: &File<'_>, index: usize) -> Result<(), Error> {
        let section = file.image.sections[index];
        let known: HashSet<u64> = self.pointers.iter().map(|&(address, _)| address).collect();
        let named = file.symbols_inside(&section)?;
        relocation::visit(&file.image, file.source, &mut |relocation| {
            let target = match relocation.value {
                RelocatedValue::Relative(target) => target,
                RelocatedValue::Symbol { index, .. } => match named.get(&index) {
                    Some(&target) => target,
                    None => return Ok(()),
                },
                RelocatedValue::Other => return Ok(()),
            };
            if contains(section.address, section.size, target) && !known.contains(&relocation.address) {
                let (address, section) = (relocation.address, self.section.clone());
                return Err(Error::StillUsed { section, address, target });
            }
            Ok(())
        })
    }

    /// Writes the content and the pointers to it into the file, which has been resized for them.
    fn fill(&self, file: &File<'_>, index: usize) -> Result<Patch, Error> {
        let section = file.image.sections[index];
        let mut builder = PatchBuilder::new(file.size);
        builder.external(section.offset, self.content.clone(), self.size);
        let mut pointers = BTreeMap::new();
        for &(address, offset) in &self.pointers {
            if offset >= self.size {
                return Err(Error::Pointer { address, why: "it would lead out of the section" });
            }
            pointers.insert(address, (section.address + offset, false));
        }
        let is_fixed = file.image.file_type == elf::ET_EXEC.0;
        relocation::visit(&file.image, file.source, &mut |relocation| {
            let Some((target, done)) = pointers.get_mut(&relocation.address) else { return Ok(()) };
            match (relocation.record, relocation.value) {
                (_, RelocatedValue::Other) => {
                    return Err(Error::Pointer {
                        address: relocation.address,
                        why: "its relocation is of another kind",
                    });
                }
                (RelocationRecord::Rela(record), RelocatedValue::Relative(_)) => {
                    builder.bytes(record + 16, &target.to_le_bytes());
                    *done = true;
                }
                (RelocationRecord::Rela(record), RelocatedValue::Symbol { .. }) => {
                    builder.bytes(record + 8, &u64::from(elf::R_X86_64_RELATIVE.0).to_le_bytes());
                    builder.bytes(record + 16, &target.to_le_bytes());
                    *done = true;
                }
                // The addend is the word itself, which is written below.
                (RelocationRecord::Packed, _) => {}
            }
            if matches!(relocation.record, RelocationRecord::Packed) {
                let place = file.place(relocation.address, 8)?;
                builder.bytes(place, &target.to_le_bytes());
                *done = true;
            }
            Ok(())
        })?;
        for (address, (target, done)) in pointers {
            if !done && !is_fixed {
                return Err(Error::Pointer { address, why: "no relocation sets it" });
            }
            if !done {
                builder.bytes(file.place(address, 8)?, &target.to_le_bytes());
            }
        }
        for (address, bytes) in &self.bytes {
            builder.bytes(file.place(*address, bytes.len() as u64)?, bytes);
        }
        Ok(builder.finish())
    }
}

/// A file and its headers.
struct File<'a> {
    source: Source<'a>,
    image: Image,
    size: u64,
}

impl<'a> File<'a> {
    fn read(reader: &'a dyn ReadAt) -> Result<Self, Error> {
        let source = Source { reader };
        let image = Image::read(source)?.ok_or(Error::NotElf)?;
        Ok(Self { source, image, size: source.size()? })
    }

    /// Returns the file offset of `length` bytes at `address`.
    fn place(&self, address: u64, length: u64) -> Result<u64, Error> {
        let place = self.image.offset_of(address).filter(|_| self.image.mapped_after(address) >= length);
        place.ok_or(Error::Pointer { address, why: "nothing of the file is mapped there" })
    }

    /// Returns the values of the dynamic symbols inside a section, by index.
    fn symbols_inside(&self, section: &SectionHeader) -> Result<BTreeMap<u32, u64>, Error> {
        const SIZE: u64 = 24;
        let mut found = BTreeMap::new();
        let table = self.image.dynamic_value(elf::DT_SYMTAB);
        let Some(offset) = table.and_then(|address| self.image.offset_of(address)) else { return Ok(found) };
        let size = symbols::count(&self.image, self.source)?.unwrap_or(0).saturating_mul(SIZE);
        let mut start = 0;
        while start < size {
            let bytes = self.source.bytes(offset + start, (SIZE << 11).min(size - start), "dynamic symbol table")?;
            for (index, symbol) in bytes.chunks_exact(SIZE as usize).enumerate() {
                let value = relocation::word(symbol, 8);
                if symbol[6..8] != [0, 0] && contains(section.address, section.size, value) {
                    found.insert((start / SIZE) as u32 + index as u32, value);
                }
            }
            start += bytes.len() as u64;
        }
        Ok(found)
    }

    /// Returns the index of the segment that maps a section.
    fn owner(&self, section: &SectionHeader) -> Result<usize, Error> {
        let owner = self.image.segments.iter().position(|load| {
            load.is_load()
                && load.holds_offset(section.offset, section.file_size())
                && load.address.wrapping_add(section.offset - load.offset) == section.address
        });
        owner.ok_or_else(|| Error::malformed("section header table", "a section is where no segment maps it"))
    }

    /// Makes a section smaller.
    fn cut(&self, index: usize, new: u64) -> Result<Patch, Error> {
        let section = self.image.sections[index];
        let (start, end) = (section.offset, section.offset + section.file_size());
        if start == end {
            return Ok(Patch::empty(self.size, EditOutcome::Unchanged));
        }
        let owner = self.image.segments[self.owner(&section)?];
        let has_tail = owner.file_end() > end || owner.memory_size > owner.file_size;
        let cut_end = if owner.file_end() > end { end } else { end - u64::from(has_tail) } / PAGE * PAGE;
        let free = (start + new).next_multiple_of(ALIGN);
        if free.next_multiple_of(PAGE) < cut_end {
            if !has_tail {
                return self.splice_out(index, new, start + new, cut_end, None);
            }
            let slot = free_header::make(&self.image, self.source, self.size, free..end)?;
            if let Some(slot) = slot
                && slot.taken.next_multiple_of(PAGE) < cut_end
            {
                let used = if slot.taken > free { slot.taken } else { start + new };
                let first = slot.patch.unwrap_or_else(|| Patch::empty(self.size, EditOutcome::Unchanged));
                let patched = Patched::new(self.source.reader, first.clone());
                let next = File::read(&patched)?;
                return Ok(first.then(&next.splice_out(index, new, used, cut_end, Some(free))?));
            }
        }
        let mut layout = Layout::new(self.image.clone(), self.source, self.size);
        layout.image.sections[index].size = new;
        layout.builder.zero(start + new, end - start - new);
        if !has_tail {
            resize(&mut layout.image.segments[self.owner(&section)?], start + new);
        }
        layout.write_headers()?;
        Ok(layout.builder.finish())
    }

    /// Removes the whole pages between `used` and `cut_end` from the file. With `tail`, something
    /// follows the section in its segment, which is split; the bytes from `tail` to `used` are in
    /// use.
    fn splice_out(&self, index: usize, new: u64, used: u64, cut_end: u64, tail: Option<u64>) -> Result<Patch, Error> {
        let section = self.image.sections[index];
        let end = section.offset + section.file_size();
        let cut_start = used.next_multiple_of(PAGE);
        let removed = cut_end - cut_start;
        let mut layout = Layout::new(self.image.clone(), self.source, self.size);
        layout.builder = PatchBuilder::spliced(self.size, cut_start, removed, 0);
        let content_end = section.offset + new;
        let moved = tail.filter(|&from| from < used).unwrap_or(used);
        layout.builder.zero(content_end, moved - content_end);
        layout.builder.zero(used, cut_start - used);
        layout.builder.zero(cut_start, end.saturating_sub(cut_end));
        let owner = self.owner(&section)?;
        let load = self.image.segments[owner];
        shift(&mut layout.image, |offset| if offset >= cut_end { offset - removed } else { offset.min(cut_start) });
        layout.image.sections[index].offset = section.offset;
        layout.image.sections[index].size = new;
        layout.image.segments[owner].offset = load.offset;
        resize(&mut layout.image.segments[owner], used);
        if tail.is_some() {
            let start = if load.file_end() > end { self.tail_start(&load, end) } else { cut_end };
            let address = load.address + (start - load.offset);
            let segment = Segment {
                offset: start - removed,
                address,
                physical: load.physical.wrapping_add(start - load.offset),
                file_size: load.file_end() - start,
                memory_size: load.memory_end() - address,
                ..load
            };
            let segments = &mut layout.image.segments;
            let spare = segments.iter().rposition(|segment| segment.kind == elf::PT_NULL.0);
            let spare = spare.ok_or_else(|| Error::malformed("program header table", "no header is free"))?;
            segments.remove(spare);
            segments.insert(owner + usize::from(spare > owner), segment);
        }
        align_pages(&mut layout.image);
        layout.write_headers()?;
        Ok(layout.builder.finish())
    }

    /// Returns the offset at which the segment behind a hole begins: at its first section, because
    /// GNU strip requires it.
    fn tail_start(&self, load: &Segment, end: u64) -> u64 {
        let sections = self.image.sections.iter().filter(|section| section.is_allocated() && section.file_size() > 0);
        let first =
            sections.map(|section| section.offset).filter(|offset| (end..load.file_end()).contains(offset)).min();
        first.filter(|first| first / PAGE == end / PAGE).unwrap_or(end)
    }

    /// Makes a section larger.
    fn grow(&self, index: usize, new: u64) -> Result<Patch, Error> {
        let section = self.image.sections[index];
        if section.kind != elf::SHT_NOBITS.0 {
            if let Some(patch) = self.grow_in_place(index, new)? {
                return Ok(patch);
            }
            if section.size > 2 * PAGE {
                let first = self.cut(index, ALIGN)?;
                let patched = Patched::new(self.source.reader, first.clone());
                return Ok(first.then(&File::read(&patched)?.move_out(index, new)?));
            }
        }
        self.move_out(index, new)
    }

    /// Grows into free bytes or into the hole in memory behind the section; `None` if neither is
    /// large enough.
    fn grow_in_place(&self, index: usize, new: u64) -> Result<Option<Patch>, Error> {
        let section = self.image.sections[index];
        let owner = self.owner(&section)?;
        let load = self.image.segments[owner];
        let (end, new_end) = (section.offset + section.size, section.offset + new);
        let next = free_header::claims(&self.image).map(|claim| claim.start).filter(|&start| start >= end).min();
        let next = next.unwrap_or(self.size);
        if new_end <= next && new_end <= load.file_end() && self.is_zero(end, new_end)? {
            let mut layout = Layout::new(self.image.clone(), self.source, self.size);
            layout.image.sections[index].size = new;
            layout.write_headers()?;
            return Ok(Some(layout.builder.finish()));
        }
        let later = self.image.segments.iter().filter(|other| other.is_load() && other.address > load.address);
        let later = later.min_by_key(|other| other.address);
        if load.file_end() > end || load.memory_size != load.file_size {
            return Ok(None);
        }
        let at = next.min(end.next_multiple_of(PAGE));
        let inserted = match later {
            Some(later) if (section.address + new).next_multiple_of(PAGE) > later.address => {
                // The content ends in the page in which the next segment begins, so the two become
                // one again.
                let hole = (later.address - load.address).checked_sub(later.offset.wrapping_sub(load.offset));
                let adjoins = next == later.offset && later.flags == load.flags;
                match hole.filter(|_| adjoins && section.address + new <= later.address) {
                    Some(hole) if hole.is_multiple_of(PAGE) => hole,
                    _ => return Ok(None),
                }
            }
            _ => new_end.saturating_sub(at).next_multiple_of(PAGE),
        };
        let mut layout = Layout::new(self.image.clone(), self.source, self.size);
        layout.builder = PatchBuilder::spliced(self.size, at, 0, inserted);
        shift(&mut layout.image, |offset| if offset >= at { offset.saturating_add(inserted) } else { offset });
        layout.image.sections[index].offset = section.offset;
        layout.image.sections[index].size = new;
        layout.image.segments[owner].offset = load.offset;
        resize(&mut layout.image.segments[owner], new_end);
        join(&mut layout.image.segments, owner);
        align_pages(&mut layout.image);
        layout.write_headers()?;
        Ok(Some(layout.builder.finish()))
    }

    fn is_zero(&self, start: u64, end: u64) -> Result<bool, Error> {
        let mut at = start;
        while at < end {
            let bytes = self.source.bytes(at, (end - at).min(1 << 20), "bytes behind a section")?;
            if bytes.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            at += bytes.len() as u64;
        }
        Ok(true)
    }

    /// Moves a section into a new segment behind all others.
    fn move_out(&self, index: usize, new: u64) -> Result<Patch, Error> {
        let section = self.image.sections[index];
        let last = self.image.segments.iter().rposition(Segment::is_load);
        let last = last.ok_or_else(|| Error::malformed("program header table", "no PT_LOAD"))?;
        let mut layout = Layout::new(self.image.clone(), self.source, self.size);
        layout.builder.zero(section.offset, section.file_size());
        let (segment, mut cursor) = layout.new_segment(last)?;
        cursor.align(0, PAGE);
        // Symbols follow the section. A section without bytes in the file has no range of offsets
        // that could be moved.
        let offset = if section.file_size() == 0 { u64::MAX } else { section.offset };
        layout.moves.push(Move {
            offset,
            address: section.address,
            length: section.size,
            to_offset: cursor.offset,
            to_address: cursor.address,
        });
        layout.moved_sections.insert(index);
        let header = &mut layout.image.sections[index];
        header.kind = elf::SHT_PROGBITS.0;
        header.offset = cursor.offset;
        header.address = cursor.address;
        header.size = new;
        layout.builder.zero(cursor.offset, new);
        cursor.skip(new);
        resize(&mut layout.image.segments[segment], cursor.offset);
        if let Some(dynamic) = layout.old.dynamic.clone() {
            let mut entries = dynamic.entries.clone();
            layout.update_addresses(&mut entries);
            layout.write_dynamic(&dynamic, &entries);
        }
        layout.write_symbols()?;
        layout.write_headers()?;
        Ok(layout.builder.finish())
    }
}

/// Makes a segment end at a file offset.
fn resize(segment: &mut Segment, end: u64) {
    segment.file_size = end - segment.offset;
    segment.memory_size = segment.file_size;
}

/// Moves everything in the file by `to`, which maps old offsets to new ones.
fn shift(image: &mut Image, to: impl Fn(u64) -> u64) {
    for section in image.sections.iter_mut().filter(|section| section.kind != elf::SHT_NULL.0) {
        section.offset = to(section.offset);
    }
    for segment in image.segments.iter_mut().filter(|segment| segment.kind != elf::PT_NULL.0) {
        segment.offset = to(segment.offset);
    }
    image.program_header_offset = to(image.program_header_offset);
    image.section_header_offset = to(image.section_header_offset);
}

/// Lowers the alignment of segments that moved by pages and are no longer congruent to it: the
/// loader checks that.
fn align_pages(image: &mut Image) {
    for load in image.segments.iter_mut().filter(|segment| segment.is_load() && segment.align > PAGE) {
        if !load.distance().is_multiple_of(load.align) {
            load.align = PAGE;
        }
    }
}

/// `true` if the ranges share bytes.
pub(crate) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    other.start < one.end && one.start < other.end
}

/// Joins two segments if the hole between them is filled.
fn join(segments: &mut Vec<Segment>, index: usize) {
    let load = segments[index];
    let Some(&next) = segments.get(index + 1).filter(|next| next.is_load()) else { return };
    let end = load.file_end();
    let adjoins = end <= next.offset && next.offset / PAGE <= end.div_ceil(PAGE);
    if load.flags != next.flags || load.distance() != next.distance() || !adjoins {
        return;
    }
    segments[index].file_size = next.file_end() - load.offset;
    segments[index].memory_size = next.memory_end() - load.address;
    segments.remove(index + 1);
    segments.push(Segment::UNUSED);
}
