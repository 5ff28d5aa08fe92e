//! Input: the PT_NOTE segments of an [`Image`]. Output: the build ID and the x86 instruction set
//! level that is needed.

use object::elf;
use object::endian::{Endianness, U32};

use crate::Error;
use crate::image::Image;
use crate::source::{Source, cast};

/// Bytes of notes that are read. The relevant notes are small and come first; GPU code objects have
/// notes of megabytes.
const NOTE_LIMIT: u64 = 64 << 10;

/// The contents of the notes.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) build_id: Option<Vec<u8>>,
    pub(crate) isa_needed: Option<u32>,
}

/// Reads the notes. A note that does not parse ends its segment without an error: notes are only
/// informative.
pub(crate) fn read(image: &Image, source: Source<'_>) -> Result<Notes, Error> {
    let mut notes = Notes::default();
    for segment in image.segments.iter().filter(|segment| segment.kind == elf::PT_NOTE.0) {
        let bytes = source.bytes(segment.offset, segment.file_size.min(NOTE_LIMIT), "notes")?;
        let align = if segment.align == 8 { 8 } else { 4 };
        let mut rest = bytes.as_slice();
        while let Some((kind, name, value, length)) = split(rest, align, image.endian) {
            if name == b"GNU\0" && kind == elf::NT_GNU_BUILD_ID.0 {
                notes.build_id = Some(value.to_vec());
            } else if name == b"GNU\0" && kind == elf::NT_GNU_PROPERTY_TYPE_0.0 {
                notes.isa_needed = isa_needed(value, image).or(notes.isa_needed);
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
    Ok(notes)
}

/// Returns the type, name and value of one note, and the number of bytes to the next one.
fn split(bytes: &[u8], align: usize, endian: Endianness) -> Option<(u32, &[u8], &[u8], usize)> {
    let header: elf::NoteHeader64<Endianness> = cast(bytes, "notes").ok()?;
    let name_start = size_of::<elf::NoteHeader64<Endianness>>();
    let name_end = name_start.checked_add(header.n_namesz.get(endian) as usize)?;
    let value_start = name_end.checked_next_multiple_of(align)?;
    let value_end = value_start.checked_add(header.n_descsz.get(endian) as usize)?;
    let end = value_end.checked_next_multiple_of(align)?;
    let name = bytes.get(name_start..name_end)?;
    let value = bytes.get(value_start..value_end)?;
    Some((header.n_type.get(endian).0, name, value, end))
}

/// Returns the property `GNU_PROPERTY_X86_ISA_1_NEEDED` in an array of (type, size, value padded to
/// 8 or 4 bytes).
fn isa_needed(mut properties: &[u8], image: &Image) -> Option<u32> {
    if ![elf::EM_X86_64.0, elf::EM_386.0].contains(&image.machine) {
        return None;
    }
    let align = if image.is_64 { 8 } else { 4 };
    loop {
        let kind = number(properties.get(..4)?, image)?;
        let size = number(properties.get(4..8)?, image)? as usize;
        if kind == elf::GNU_PROPERTY_X86_ISA_1_NEEDED.0 {
            return number(properties.get(8..12)?, image);
        }
        properties = properties.get(8usize.checked_add(size)?.checked_next_multiple_of(align)?..)?;
    }
}

fn number(bytes: &[u8], image: &Image) -> Option<u32> {
    cast::<U32<Endianness>>(bytes, "notes").ok().map(|number| number.get(image.endian))
}
