//! Input: an ELF file. Output: its fat binary, with the pointers that relocations supply.

use std::collections::HashMap;
use std::ops::Range;

use positioned_io::ReadAt;
use rocwheel_elf::{Elf, RelocatedValue, RelocationRecord, Section, Segment};

use super::{Area, FatBinary, Format, RawWrapper, WRAPPER_POINTER, assemble, read_wrappers};
use crate::error::Error;

/// Name of the section of device code.
pub(super) const CODE: &str = ".hip_fatbin";
/// Name of the section of wrappers.
pub(super) const WRAPPERS: &str = ".hipFatBinSegment";
const X86_64: u16 = 62;
const NOBITS: u32 = 8;
const LOAD: u32 = 1;

pub(super) fn read(reader: &dyn ReadAt, size: u64) -> Result<Option<FatBinary>, Error> {
    let Some(elf) = Elf::read(reader)? else { return Ok(None) };
    let Some(code) = section(&elf, CODE)? else { return Ok(None) };
    let area = Area { file: file_range(code, size)?, address: code.address, memory_size: code.size };
    let mut wrappers = Vec::new();
    if let Some(section) = section(&elf, WRAPPERS)? {
        let file = file_range(section, size)?;
        if section.address.checked_add(section.size).is_none() {
            return Err(Error::FatBinary { reason: "the section of wrappers leaves the address space".to_owned() });
        }
        wrappers = read_wrappers(reader, file, section.address)?;
    }
    if elf.machine == X86_64 && elf.is_64 {
        resolve(reader, &mut wrappers)?;
    }
    assemble(reader, Format::Elf, area, &wrappers, &|address| mapped(&elf.segments, address)).map(Some)
}

fn section<'a>(elf: &'a Elf, name: &str) -> Result<Option<&'a Section>, Error> {
    let mut named = elf.sections.iter().filter(|section| section.name == name);
    let first = named.next();
    if named.next().is_some() {
        return Err(Error::FatBinary { reason: format!("there are two sections `{name}`") });
    }
    Ok(first)
}

fn file_range(section: &Section, size: u64) -> Result<Range<u64>, Error> {
    let length = if section.kind == NOBITS { 0 } else { section.size };
    match section.offset.checked_add(length) {
        Some(end) if end <= size || length == 0 => Ok(section.offset..end),
        _ => {
            let reason = format!("the section `{}` reaches behind the end of the file", section.name);
            Err(Error::FatBinary { reason })
        }
    }
}

/// Sets every pointer that a relocation supplies; the others keep their values in the file.
fn resolve(reader: &dyn ReadAt, wrappers: &mut [RawWrapper]) -> Result<(), Error> {
    let places: HashMap<u64, usize> =
        wrappers.iter().enumerate().map(|(number, wrapper)| (wrapper.address + WRAPPER_POINTER, number)).collect();
    if places.is_empty() {
        return Ok(());
    }
    let mut symbols = Vec::new();
    rocwheel_elf::relocations(reader, &mut |relocation| {
        if let Some(&number) = places.get(&relocation.address) {
            match (relocation.value, relocation.record) {
                (RelocatedValue::Relative(value), RelocationRecord::Rela(_) | RelocationRecord::Packed) => {
                    wrappers[number].pointer = value;
                }
                (RelocatedValue::Symbol { index, addend }, _) => symbols.push((number, index, addend)),
                (RelocatedValue::Other, _) => wrappers[number].pointer = 0,
            }
        }
        Ok(())
    })?;
    for (number, index, addend) in symbols {
        let value = rocwheel_elf::dynamic_symbol(reader, index)?;
        wrappers[number].pointer = value.map_or(0, |value| value.wrapping_add_signed(addend));
    }
    Ok(())
}

/// Returns the file bytes from `address` to the end of the segment that maps it.
fn mapped(segments: &[Segment], address: u64) -> Option<Range<u64>> {
    let mut loads = segments.iter().filter(|segment| segment.kind == LOAD);
    let load = loads.find(|load| address >= load.address && address - load.address < load.file_size)?;
    let skip = address - load.address;
    Some(load.offset.checked_add(skip)?..load.offset.checked_add(load.file_size)?)
}
