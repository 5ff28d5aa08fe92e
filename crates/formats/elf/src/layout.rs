//! Input: an [`Image`] and its file. Output: a [`Layout`], which updates headers when ranges of the
//! file move, and finds space for one more program header.

use std::collections::BTreeSet;

use object::LittleEndian;
use object::elf::{self, ProgramHeader64};

use crate::Error;
use crate::header_space::{self, Block};
use crate::image::{DynamicEntry, Image, PAGE, Segment};
use crate::patch::PatchBuilder;
use crate::source::Source;

pub(crate) const HEADER_SIZE: u64 = size_of::<ProgramHeader64<LittleEndian>>() as u64;
/// Minimum alignment of everything in the new segment, in bytes.
pub(crate) const ALIGN: u64 = 16;
/// Number of entries left free in a dynamic section that moves, and of headers in a table that
/// moves, for the next edit.
pub(crate) const SPARE: u64 = 4;
/// Blocks of up to this many bytes together count as small.
const SMALL: u64 = 2048;
/// Largest hole, in bytes, that may be left in a file for a table whose offset must equal its
/// address.
const HOLE_LIMIT: u64 = 4 << 30;

/// A range that moves in the file and in memory.
pub(crate) struct Move {
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) length: u64,
    pub(crate) to_offset: u64,
    pub(crate) to_address: u64,
}

impl Move {
    /// `true` if the range holds all bytes `offset..offset + length` of the file, at least one.
    fn holds(&self, offset: u64, length: u64) -> bool {
        let end = offset.checked_add(length);
        length > 0 && offset >= self.offset && end.is_some_and(|end| end <= self.offset + self.length)
    }
}

/// The position of the next appended bytes. The difference between offset and address is constant.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    pub(crate) offset: u64,
    pub(crate) address: u64,
}

impl Cursor {
    pub(crate) fn skip(&mut self, length: u64) {
        self.offset += length;
        self.address += length;
    }

    /// Advances to an address that is congruent to `like` modulo `align`.
    pub(crate) fn align(&mut self, like: u64, align: u64) {
        let align = align.clamp(1, PAGE).next_power_of_two();
        self.skip(like.wrapping_sub(self.address) & (align - 1));
    }
}

/// The headers of a file that is being changed, and the bytes that change.
pub(crate) struct Layout<'a> {
    pub(crate) source: Source<'a>,
    /// Size of the original file in bytes.
    pub(crate) size: u64,
    pub(crate) builder: PatchBuilder,
    pub(crate) moves: Vec<Move>,
    /// Indices of sections whose address changes.
    pub(crate) moved_sections: BTreeSet<usize>,
    /// The original headers.
    pub(crate) old: Image,
    /// The new headers.
    pub(crate) image: Image,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(image: Image, source: Source<'a>, size: u64) -> Self {
        Self {
            source,
            size,
            builder: PatchBuilder::new(size),
            moves: Vec::new(),
            moved_sections: BTreeSet::new(),
            old: image.clone(),
            image,
        }
    }

    pub(crate) fn new_segment(&mut self, last: usize) -> Result<(usize, Cursor), Error> {
        let old_count = self.old.segments.len() as u64;
        let used = self.old.segments.iter().filter(|segment| segment.kind != elf::PT_NULL.0).count() as u64;
        if used + 1 >= u64::from(elf::PN_XNUM) {
            return Err(Error::malformed("program header table", "it is full"));
        }
        let blocks = if used < old_count { Some(Vec::new()) } else { room_for_headers(&self.old, self.source)? };
        let floor = self.image.segments[last].memory_end().next_multiple_of(PAGE);
        let offset = self.size.next_multiple_of(ALIGN);
        let mut cursor = Cursor { offset, address: floor + offset % PAGE };
        if blocks.is_none() && self.old.segment(elf::PT_INTERP).is_some() {
            // Kernels before 5.18 assume that the table is at the first segment's address plus its
            // file offset.
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
        while (self.image.segments.len() as u64) < old_count {
            self.image.segments.push(Segment::UNUSED);
        }
        Ok((place, cursor))
    }

    fn first_address(&self) -> Result<u64, Error> {
        let first = self.old.segments.iter().find(|segment| segment.is_load());
        let base = first.and_then(|first| first.address.checked_sub(first.offset));
        base.ok_or_else(|| Error::malformed("program header table", "the first segment is below its file offset"))
    }

    pub(crate) fn move_block(&mut self, block: &Block, cursor: &mut Cursor) {
        let owner = self
            .old
            .segments
            .iter()
            .find(|segment| segment.is_load() && segment.holds_offset(block.offset, block.length));
        let Some(owner) = owner else { return };
        let address = owner.address + (block.offset - owner.offset);
        cursor.align(address, block.align.max(ALIGN));
        self.builder.copy(cursor.offset, block.offset, block.length);
        // The next edit treats zeros behind the table as free space.
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

    pub(crate) fn move_table(&mut self, cursor: &mut Cursor) {
        self.image.program_header_offset = cursor.offset;
        let address = cursor.address;
        for segment in self.image.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR.0) {
            segment.offset = cursor.offset;
            segment.address = address;
            segment.physical = address;
        }
        cursor.skip((self.image.segments.len() as u64 + SPARE) * HEADER_SIZE);
    }

    /// Moves the sections and segments in a range along with it.
    pub(crate) fn relocate(&mut self, range: &Move) {
        for (index, section) in self.image.sections.iter_mut().enumerate() {
            if section.is_allocated() && range.holds(section.offset, section.file_size()) {
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
            if range.holds(segment.offset, segment.file_size) {
                segment.offset = segment.offset - range.offset + range.to_offset;
                segment.address = segment.address.wrapping_sub(range.address).wrapping_add(range.to_address);
                segment.physical = segment.address;
            }
        }
        let Move { offset, address, length, to_offset, to_address } = *range;
        self.moves.push(Move { offset, address, length, to_offset, to_address });
    }

    /// Returns the new position of an original file offset.
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

    pub(crate) fn update_addresses(&self, entries: &mut [DynamicEntry]) {
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

/// Returns the blocks that have to move for one more header, and for a few more if those blocks are
/// small. patchelf does not check for space behind the table once the first section is elsewhere,
/// and overwrites the bytes behind it.
pub(crate) fn room_for_headers(image: &Image, source: Source<'_>) -> Result<Option<Vec<Block>>, Error> {
    let start = image.program_header_offset.saturating_add(image.segments.len() as u64 * HEADER_SIZE);
    for headers in (2..=1 + SPARE).rev() {
        let blocks = header_space::make(image, source, start, start.saturating_add(headers * HEADER_SIZE))?;
        if let Some(blocks) = blocks.filter(|blocks| blocks.iter().map(|block| block.length).sum::<u64>() <= SMALL) {
            return Ok(Some(blocks));
        }
    }
    header_space::make(image, source, start, start.saturating_add(HEADER_SIZE))
}

pub(crate) fn contains(start: u64, length: u64, position: u64) -> bool {
    position >= start && position - start < length
}
