//! Input: a file with expensive random access: a member of an archive that is unpacked from its
//! beginning. Output: the ranges that [`crate::Elf::read`] and [`crate::DynamicSymbols::read`] will
//! read.

use std::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::endian::Endianness;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use positioned_io::ReadAt;

use crate::Error;
use crate::image::Image;
use crate::source::{Source, cast};

/// Bytes at the beginning, which has the file header, the program headers and often the notes.
const HEAD: u64 = 64 << 10;
/// Bytes at the end, which has the section headers and their names, and appended data of editors:
/// strings and symbols.
const TAIL: u64 = 4 << 20;
/// Largest range at the end that is kept, in bytes, even if there are more section headers.
const LONGEST_TAIL: u64 = 16 << 20;
const LARGEST: u64 = 16 << 20;

/// Returns the ranges with the headers of a file of `size` bytes, which [`crate::Elf::read`] reads
/// first. Reads the first 64 KiB. Empty if it is not a 64-bit ELF file; a range may lie outside of
/// the file.
pub fn header_places(reader: &dyn ReadAt, size: u64) -> Result<Vec<Range<u64>>, Error> {
    const WHAT: &str = "file header";
    let source = Source { reader };
    let head = source.bytes(0, size.min(HEAD), WHAT)?;
    if head.len() < size_of::<FileHeader64<Endianness>>() || head[..4] != elf::ELFMAG || head[4] != 2 {
        return Ok(Vec::new());
    }
    let endian = if head[5] == 2 { Endianness::Big } else { Endianness::Little };
    let header: FileHeader64<Endianness> = cast(&head, WHAT)?;
    let sections: u64 = header.e_shoff(endian);
    let tail = size.saturating_sub(TAIL);
    let tail = if sections > 0 { tail.min(sections.saturating_sub(HEAD)) } else { tail };
    let mut places = vec![0..HEAD.min(size), tail.max(size.saturating_sub(LONGEST_TAIL))..size];
    let entry = size_of::<ProgramHeader64<Endianness>>();
    let table = usize::try_from(header.e_phoff(endian)).ok().and_then(|start| head.get(start..)).unwrap_or_default();
    for bytes in table.chunks_exact(entry).take(header.e_phnum(endian).into()) {
        let segment: ProgramHeader64<Endianness> = cast(bytes, WHAT)?;
        let (start, length) = (segment.p_offset(endian), segment.p_filesz(endian));
        let end = start.saturating_add(length).min(size);
        match segment.p_type(endian) {
            elf::PT_DYNAMIC | elf::PT_NOTE | elf::PT_INTERP => places.push(start..end.min(start.saturating_add(HEAD))),
            elf::PT_LOAD => places.push(end.saturating_sub(1)..end),
            _ => {}
        }
    }
    Ok(places)
}

/// Returns the ranges of the dynamic strings, symbols and versions, which are read after the
/// headers.
pub fn dynamic_places(reader: &dyn ReadAt) -> Result<Vec<Range<u64>>, Error> {
    let Some(image) = Image::read(Source { reader })? else { return Ok(Vec::new()) };
    let mut places = Vec::new();
    if let Ok(Some(strings)) = image.dynamic_strings() {
        places.push(strings.offset..strings.offset.saturating_add(strings.size.min(4 * LARGEST)));
    }
    let wanted = [
        elf::SHT_DYNSYM,
        elf::SHT_GNU_VERSYM,
        elf::SHT_GNU_VERNEED,
        elf::SHT_GNU_VERDEF,
        elf::SHT_GNU_HASH,
        elf::SHT_HASH,
        elf::SHT_NOTE,
    ];
    let sections = image.sections.iter().filter(|section| wanted.iter().any(|kind| kind.0 == section.kind));
    places.extend(sections.map(|section| section.offset..section.offset.saturating_add(section.size.min(LARGEST))));
    Ok(places)
}
