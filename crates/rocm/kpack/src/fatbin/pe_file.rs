//! Input: a PE file. Output: its fat binary, and its edit. Section names in PE files are cut to
//! eight characters.

use positioned_io::ReadAt;
use rocwheel_elf::{External, Patch, Pe, PeSection};

use super::{Area, FatBinary, Format, assemble, read_wrappers};
use crate::error::Error;

const CODE: &str = ".hip_fat";
const WRAPPERS: &str = ".hipFatB";

pub(super) fn read(reader: &dyn ReadAt) -> Result<Option<FatBinary>, Error> {
    let Some(pe) = Pe::read(reader)? else { return Ok(None) };
    let Some(code) = pe.section(CODE)? else { return Ok(None) };
    let area = Area { file: content(code), address: code.address, memory_size: code.virtual_size };
    let mut wrappers = match pe.section(WRAPPERS)? {
        Some(section) => read_wrappers(reader, content(section), section.address)?,
        None => Vec::new(),
    };
    for wrapper in &mut wrappers {
        wrapper.pointer = wrapper.pointer.saturating_sub(pe.image_base);
    }
    assemble(reader, Format::Pe, area, &wrappers, &|address| pe.mapped(address)).map(Some)
}

/// Returns the bytes of a section, without the padding of the file.
fn content(section: &PeSection) -> std::ops::Range<u64> {
    let length = (section.file.end - section.file.start).min(section.virtual_size);
    section.file.start..section.file.start + length
}

/// Returns the edit. `pointers`: addresses of words and their new targets, in bytes from the
/// section's start; base relocations already cover these words.
pub(super) fn replace(
    reader: &dyn ReadAt,
    content: (External, u64),
    pointers: Vec<(u64, u64)>,
    mut bytes: Vec<(u64, Vec<u8>)>,
) -> Result<Patch, Error> {
    let pe = Pe::read(reader)?.ok_or_else(no_pe_file)?;
    let base = pe.image_base + pe.section(CODE)?.ok_or_else(no_pe_file)?.address;
    bytes.extend(pointers.into_iter().map(|(address, offset)| (address, (base + offset).to_le_bytes().to_vec())));
    Ok(pe.replace(reader, CODE, content, &bytes)?)
}

fn no_pe_file() -> Error {
    Error::FatBinary { reason: "it is no longer a PE file".to_owned() }
}
