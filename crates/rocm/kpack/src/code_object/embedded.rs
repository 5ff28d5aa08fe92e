//! Input: a host program or library. Output: the AMDGPU ELF files in its data.
//!
//! Compilers other than clang put code objects into constants of the program, which hands them to
//! the runtime itself (`hipModuleLoadData`). They have no bundle, no wrapper and no section.

use std::ops::Range;

use memchr::memmem::Finder;
use object::LittleEndian;
use object::elf::{ELFMAG, EV_CURRENT, FileHeader64};
use positioned_io::ReadAt;
use rocwheel_elf::{Elf, Segment};

use super::{Image, SectionHeader64, is_code_object, read_up_to};
use crate::error::Error;

/// `SHT_PROGBITS`, `SHT_NOBITS`, `PT_LOAD` and `PF_X`.
const PROGBITS: u32 = 1;
const NOBITS: u32 = 8;
const LOAD: u32 = 1;
const EXECUTABLE: u32 = 1;
/// Sections with device code, which is in bundles or for NVIDIA's GPUs.
const DEVICE_CODE: [&str; 2] = [".hip_fatbin", ".nv_fatbin"];
/// Number of bytes that are searched at once.
const WINDOW: usize = 1 << 20;
/// Size of the header of an ELF file in bytes.
const HEADER: usize = size_of::<FileHeader64<LittleEndian>>();

/// A code object in the data of a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedCode {
    /// Its bytes in the file, according to its headers.
    pub range: Range<u64>,
    /// `true` if its headers name more bytes than the data around it has.
    pub is_cut: bool,
}

/// Searches the data that a host ELF file of `size` bytes loads, in the order of the file. Sections
/// of device code are not searched, nor is the host's own code. The data is read once.
///
/// # Errors
/// [`Error::Elf`] for broken headers of the host file, [`Error::ReadCodeObject`] if the reader
/// fails.
pub fn embedded(reader: &dyn ReadAt, size: u64) -> Result<Vec<EmbeddedCode>, Error> {
    let Some(elf) = Elf::read(reader)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for range in data(&elf, size) {
        search(reader, range, &mut found)?;
    }
    Ok(found)
}

/// Returns the ranges of the file that are loaded as data.
fn data(elf: &Elf, size: u64) -> Vec<Range<u64>> {
    let loads = elf.segments.iter().filter(|segment| segment.kind == LOAD);
    let (code, data): (Vec<&Segment>, Vec<&Segment>) = loads.partition(|load| load.flags & EXECUTABLE != 0);
    let sections = elf.sections.iter().filter(|section| {
        section.kind == PROGBITS
            && section.address != 0
            && !DEVICE_CODE.contains(&section.name.as_str())
            && code
                .iter()
                .all(|load| section.address < load.address || section.address - load.address >= load.memory_size)
    });
    let mut ranges: Vec<(u64, u64)> = sections.map(|section| (section.offset, section.size)).collect();
    if elf.sections.is_empty() {
        ranges.extend(data.into_iter().map(|load| (load.offset, load.file_size)));
    }
    ranges.sort_unstable();
    // Headers may overlap; no byte is searched twice.
    let mut end = 0;
    let clipped = ranges.into_iter().map(|(offset, length)| {
        let range = offset.max(end)..offset.saturating_add(length).min(size);
        end = end.max(range.end);
        range
    });
    clipped.filter(|range| !range.is_empty()).collect()
}

fn search(reader: &dyn ReadAt, range: Range<u64>, found: &mut Vec<EmbeddedCode>) -> Result<(), Error> {
    let magic = Finder::new(&ELFMAG);
    let mut buffer = vec![0; WINDOW.min(usize::try_from(range.end - range.start).unwrap_or(WINDOW))];
    let mut position = range.start;
    while range.end - position >= HEADER as u64 {
        let length = buffer.len().min(usize::try_from(range.end - position).unwrap_or(usize::MAX));
        let count = read_up_to(reader, position, &mut buffer[..length])?;
        if count < HEADER {
            break;
        }
        let window = &buffer[..count];
        let hit = magic.find_iter(window).find(|start| window.get(*start..*start + HEADER).is_some_and(is_header));
        position = match hit {
            Some(start) => {
                let start = position + start as u64;
                let code = extent(reader, start, range.end);
                let next = if code.is_cut { start + HEADER as u64 } else { code.range.end };
                found.push(code);
                next
            }
            // A header may lie across the end of the window.
            None => position + (count - (HEADER - 1)) as u64,
        };
    }
    Ok(())
}

/// `true` if these are the 64 bytes of a header, and not a constant that begins like one.
fn is_header(bytes: &[u8]) -> bool {
    is_code_object(bytes) && bytes[20] == EV_CURRENT.0 && bytes[52..54] == (HEADER as u16).to_le_bytes()
}

/// Returns the code object at `start`. It ends where the last part that its headers name ends, at
/// most at `end`.
fn extent(reader: &dyn ReadAt, start: u64, end: u64) -> EmbeddedCode {
    let window = positioned_io::Slice::new(reader, start, Some(end - start));
    match length(&window) {
        Ok(Some(length)) if length <= end - start => EmbeddedCode { range: start..start + length, is_cut: false },
        _ => EmbeddedCode { range: start..end, is_cut: true },
    }
}

fn length(reader: &dyn ReadAt) -> Result<Option<u64>, Error> {
    let endian = LittleEndian;
    let Some(image) = Image::open(reader)? else { return Ok(None) };
    let header = &image.header;
    let segments = image.segments()?;
    let sections: Vec<SectionHeader64<LittleEndian>> = image.sections()?;
    let tables = [
        (header.e_phoff.get(endian), segments.len(), header.e_phentsize.get(endian)),
        (header.e_shoff.get(endian), sections.len(), header.e_shentsize.get(endian)),
    ];
    let tables = tables.map(|(offset, count, entry)| offset.saturating_add(count as u64 * u64::from(entry)));
    let loaded = segments.iter().map(|part| part.p_offset.get(endian).saturating_add(part.p_filesz.get(endian)));
    let stored = sections.iter().filter(|part| part.sh_type.get(endian).0 != NOBITS);
    let stored = stored.map(|part| part.sh_offset.get(endian).saturating_add(part.sh_size.get(endian)));
    Ok(tables.into_iter().chain(loaded).chain(stored).max())
}
