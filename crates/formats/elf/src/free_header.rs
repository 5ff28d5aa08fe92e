//! Input: an [`Image`] whose program header table is full, and bytes of the file that are about to
//! be free. Output: a [`Slot`], a free program header (PT_NULL), and the new positions of the
//! sections that had to move for it.
//!
//! A new segment at the end of the file, which edits of the dynamic section use, would need a
//! second header. So the sections move to an existing read-only segment: into the zeros behind one,
//! up to the end of its page, or into the free bytes.

use std::ops::Range;

use object::elf;

use crate::header_space::{self, Block};
use crate::image::{Image, PAGE, Segment};
use crate::layout::{ALIGN, Cursor, HEADER_SIZE, Layout, room_for_headers};
use crate::source::Source;
use crate::{Error, Patch};

/// A free program header.
pub(crate) struct Slot {
    /// The patch that makes it; `None` if the table had one already.
    pub(crate) patch: Option<Patch>,
    /// End of the used part of the free bytes, as file offset.
    pub(crate) taken: u64,
}

/// Bytes of a read-only segment that can be used.
struct Place {
    segment: usize,
    bytes: Range<u64>,
}

/// Makes a free header; `None` if there is no space for the sections that have to move. `free` is a
/// range of file bytes inside a segment.
pub(crate) fn make(image: &Image, source: Source<'_>, size: u64, free: Range<u64>) -> Result<Option<Slot>, Error> {
    if image.segments.iter().any(|segment| segment.kind == elf::PT_NULL.0) {
        return Ok(Some(Slot { patch: None, taken: free.start }));
    }
    let count = image.segments.len() as u64;
    if count + 1 >= u64::from(elf::PN_XNUM) {
        return Ok(None);
    }
    let start = image.program_header_offset.saturating_add(count * HEADER_SIZE);
    let one_header = start.saturating_add(HEADER_SIZE);
    let blocks = [room_for_headers(image, source)?, header_space::make(image, source, start, one_header)?];
    for place in places(image, source, size, &free)? {
        for blocks in &blocks {
            let Some(patch) = with(image, source, size, blocks.as_deref(), &place)? else { continue };
            let taken = if free.contains(&place.bytes.start) { patch.1.max(free.start) } else { free.start };
            return Ok(Some(Slot { patch: Some(patch.0), taken }));
        }
    }
    Ok(None)
}

fn places(image: &Image, source: Source<'_>, size: u64, free: &Range<u64>) -> Result<Vec<Place>, Error> {
    let mut places = Vec::new();
    for (segment, load) in image.segments.iter().enumerate() {
        if load.is_load()
            && load.flags == elf::PF_R.0
            && let Some(bytes) = slack(image, source, size, load)?
        {
            places.push(Place { segment, bytes });
        }
    }
    let owner = image.segments.iter().position(|load| load.is_load() && load.holds_offset(free.start, 1));
    if let Some(segment) = owner {
        if image.segments[segment].flags == elf::PF_R.0
            && let Some(bytes) = gap(image, source, segment, free.start)?
        {
            places.push(Place { segment, bytes });
        }
        places.push(Place { segment, bytes: free.clone() });
    }
    Ok(places)
}

/// Returns the zeros of alignment in front of the section that holds `inside`.
fn gap(image: &Image, source: Source<'_>, segment: usize, inside: u64) -> Result<Option<Range<u64>>, Error> {
    let sections = image.sections.iter().filter(|section| section.kind != elf::SHT_NULL.0 && section.file_size() > 0);
    let Some(end) = sections.map(|section| section.offset).filter(|&offset| offset <= inside).max() else {
        return Ok(None);
    };
    let load = &image.segments[segment];
    let others = claims(image).filter(|claim| claim.start < end && *claim != (load.offset..load.file_end()));
    let before = others.map(|claim| claim.end).max();
    let start = before.unwrap_or(load.offset).max(load.offset);
    let is_free = start < end
        && end - start <= PAGE
        && source.bytes(start, end - start, "gap in front of a section")?.iter().all(|&byte| byte == 0);
    Ok(is_free.then_some(start..end))
}

/// Returns the unused zeros behind a segment, up to the end of its last page.
fn slack(image: &Image, source: Source<'_>, size: u64, load: &Segment) -> Result<Option<Range<u64>>, Error> {
    let (start, address) = (load.file_end(), load.memory_end());
    let page_end = start.next_multiple_of(PAGE);
    let mut loads = image.segments.iter().filter(|other| other.is_load());
    let shared = loads.any(|other| {
        let first = other.address / PAGE * PAGE;
        other != load && first < address.next_multiple_of(PAGE) && other.memory_end() > address / PAGE * PAGE
    });
    if load.file_size != load.memory_size || load.file_size == 0 || shared {
        return Ok(None);
    }
    let end = claims(image)
        .fold(page_end.min(size), |end, claim| if claim.end <= start { end } else { end.min(claim.start.max(start)) });
    let is_free = end > start && source.bytes(start, end - start, "end of a segment")?.iter().all(|&byte| byte == 0);
    Ok(is_free.then_some(start..end))
}

/// Returns every range of the file that a header describes.
pub(crate) fn claims(image: &Image) -> impl Iterator<Item = Range<u64>> {
    let segments = image.segments.iter().map(|segment| segment.offset..segment.file_end());
    let sections = image.sections.iter().filter(|section| section.kind != elf::SHT_NULL.0);
    let sections = sections.map(|section| section.offset..section.offset.saturating_add(section.file_size()));
    segments.chain(sections).chain(tables(image)).filter(|claim| claim.start < claim.end)
}

/// Returns the ranges of the program header table and the section header table.
pub(crate) fn tables(image: &Image) -> [Range<u64>; 2] {
    let segments = (image.program_header_offset, image.segments.len() as u64 * HEADER_SIZE);
    let sections = (image.section_header_offset, image.sections.len() as u64 * 64);
    [segments, sections].map(|(offset, length)| offset..offset.saturating_add(length))
}

/// Returns the patch, and the end of the bytes of `place` that it uses; `None` if the place is too
/// small.
fn with(
    image: &Image,
    source: Source<'_>,
    size: u64,
    blocks: Option<&[Block]>,
    place: &Place,
) -> Result<Option<(Patch, u64)>, Error> {
    let load = image.segments[place.segment];
    let first = image.segments.iter().find(|segment| segment.is_load());
    let is_program = image.segment(elf::PT_INTERP).is_some();
    if blocks.is_none() && is_program && first.is_some_and(|first| first.distance() != load.distance()) {
        // Kernels before 5.18 assume that the table is at the first segment's address plus its file
        // offset.
        return Ok(None);
    }
    let mut cursor = Cursor { offset: place.bytes.start, address: load.address + (place.bytes.start - load.offset) };
    let mut layout = Layout::new(image.clone(), source, size);
    layout.image.segments.push(Segment::UNUSED);
    if let Some(blocks) = blocks {
        for block in blocks {
            layout.move_block(block, &mut cursor);
        }
    } else {
        cursor.align(0, ALIGN);
        layout.move_table(&mut cursor);
    }
    let end = cursor.offset;
    if end > place.bytes.end {
        return Ok(None);
    }
    if end > load.file_end() {
        let length = end - load.offset;
        let load = &mut layout.image.segments[place.segment];
        load.file_size = length;
        load.memory_size = length;
    }
    if let Some(dynamic) = layout.old.dynamic.clone()
        && !layout.moves.is_empty()
    {
        let mut entries = dynamic.entries.clone();
        layout.update_addresses(&mut entries);
        layout.write_dynamic(&dynamic, &entries);
    }
    layout.write_symbols()?;
    layout.write_headers()?;
    Ok(Some((layout.builder.finish(), end)))
}
