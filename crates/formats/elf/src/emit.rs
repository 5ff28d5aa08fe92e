//! Input: a [`Layout`] with the positions of all changes. Output: the bytes, as extents of its
//! patch.

use std::collections::BTreeSet;

use object::LittleEndian as Little;
use object::elf::{self, Dyn64, FileHeader64, ProgramHeader64, SectionHeader64, Sym64, Verneed};
use object::endian::{I64, U16, U32, U64};
use object::pod::bytes_of;

use crate::image::{Dynamic, DynamicEntry, SectionHeader, Segment};
use crate::layout::Layout;
use crate::named_entries::Wanted;
use crate::rewrite::{Names, Rewriter};
use crate::source::cast;
use crate::version::NeedRecord;
use crate::{Error, symbols};

/// Bytes in a window, in which symbol tables and version numbers are read; a multiple of every
/// entry's size.
const WINDOW: u64 = 24 << 11;

impl Layout<'_> {
    /// Writes the dynamic section, filled with zeros (DT_NULL) to its end.
    pub(crate) fn write_dynamic(&mut self, dynamic: &Dynamic, entries: &[DynamicEntry]) {
        let mut bytes = Vec::new();
        for entry in entries {
            let raw = Dyn64::<Little> {
                d_tag: I64::new(Little, elf::DynamicTag(entry.tag)),
                d_val: U64::new(Little, entry.value),
            };
            bytes.extend_from_slice(bytes_of(&raw));
        }
        bytes.resize(dynamic.capacity * size_of::<Dyn64<Little>>(), 0);
        self.builder.bytes(dynamic.offset, &bytes);
    }

    /// Updates the first word of the global offset table, which is the address of the dynamic
    /// section.
    pub(crate) fn write_table_reference(&mut self, old: u64, new: u64) -> Result<(), Error> {
        let table = self.old.dynamic_value(elf::DT_PLTGOT);
        let Some(offset) = table.and_then(|address| self.old.offset_of(address)) else { return Ok(()) };
        let word = self.source.bytes(offset, 8, "global offset table")?;
        if word == old.to_le_bytes() {
            let place = self.translate(offset);
            self.builder.bytes(place, &new.to_le_bytes());
        }
        Ok(())
    }

    /// Updates symbols in sections that moved (`_DYNAMIC`, section symbols). In `.symtab` they are
    /// local, and locals come first.
    pub(crate) fn write_symbols(&mut self) -> Result<(), Error> {
        const WHAT: &str = "symbol table";
        let size = size_of::<Sym64<Little>>() as u64;
        let tables: Vec<SectionHeader> = self.old.sections.clone();
        for table in tables {
            let count = match elf::SectionType(table.kind) {
                elf::SHT_SYMTAB => u64::from(table.info).min(table.size / size),
                elf::SHT_DYNSYM => table.size / size,
                _ => continue,
            };
            let mut start = 0;
            while start < count * size && !self.moved_sections.is_empty() {
                let offset = table.offset.saturating_add(start);
                let bytes = self.source.bytes(offset, WINDOW.min(count * size - start), WHAT)?;
                for (index, chunk) in bytes.chunks_exact(size as usize).enumerate() {
                    let symbol: Sym64<Little> = cast(chunk, WHAT)?;
                    let section = usize::from(symbol.st_shndx.get(Little).0);
                    if self.moved_sections.contains(&section) {
                        let value = self.translate_address(symbol.st_value.get(Little));
                        let at = std::mem::offset_of!(Sym64<Little>, st_value) as u64;
                        let place = self.translate(offset + index as u64 * size) + at;
                        self.builder.bytes(place, &value.to_le_bytes());
                    }
                }
                start += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Writes the section headers that changed, the program header table and the file header.
    pub(crate) fn write_headers(&mut self) -> Result<(), Error> {
        self.write_section_headers()?;
        if self.image.segments == self.old.segments
            && self.image.program_header_offset == self.old.program_header_offset
            && self.image.section_header_offset == self.old.section_header_offset
        {
            return Ok(());
        }
        let count = self.image.segments.len();
        let table_size = (count * size_of::<ProgramHeader64<Little>>()) as u64;
        for segment in self.image.segments.iter_mut().filter(|segment| segment.kind == elf::PT_PHDR.0) {
            segment.file_size = table_size;
            segment.memory_size = table_size;
        }
        let mut bytes = Vec::new();
        for segment in &self.image.segments {
            bytes.extend_from_slice(bytes_of(&raw_segment(segment)));
        }
        self.builder.bytes(self.image.program_header_offset, &bytes);
        let size = size_of::<FileHeader64<Little>>() as u64;
        let mut header: FileHeader64<Little> = cast(&self.source.bytes(0, size, "file header")?, "file header")?;
        header.e_phoff = U64::new(Little, self.image.program_header_offset);
        header.e_shoff = U64::new(Little, self.image.section_header_offset);
        header.e_phnum = U16::new(Little, count as u16);
        self.builder.bytes(0, bytes_of(&header));
        Ok(())
    }

    fn write_section_headers(&mut self) -> Result<(), Error> {
        const WHAT: &str = "section header table";
        let size = size_of::<SectionHeader64<Little>>() as u64;
        for (index, (old, new)) in self.old.sections.iter().zip(&self.image.sections).enumerate() {
            if old == new {
                continue;
            }
            let place = index as u64 * size;
            let from = self.old.section_header_offset + place;
            let mut raw: SectionHeader64<Little> = cast(&self.source.bytes(from, size, WHAT)?, WHAT)?;
            raw.sh_type = U32::new(Little, elf::SectionType(new.kind));
            raw.sh_addr = U64::new(Little, new.address);
            raw.sh_offset = U64::new(Little, new.offset);
            raw.sh_size = U64::new(Little, new.size);
            raw.sh_link = U32::new(Little, new.link);
            raw.sh_info = U32::new(Little, new.info);
            self.builder.bytes(self.image.section_header_offset + place, bytes_of(&raw));
        }
        Ok(())
    }
}

impl Rewriter<'_> {
    /// Renames libraries in the chain of needed versions and removes others from it.
    pub(crate) fn write_versions(&mut self, names: &Names, wanted: &Wanted) -> Result<(), Error> {
        for (library, record) in &self.current.needs {
            if let Some(to) = wanted.renamed.get(library) {
                let index = U32::<Little>::new(Little, names.of(to)? as u32);
                let place =
                    self.layout.translate(record.offset) + std::mem::offset_of!(Verneed<Little>, vn_file) as u64;
                self.layout.builder.bytes(place, bytes_of(&index));
            }
        }
        if wanted.removed.is_empty() {
            return Ok(());
        }
        let removed = self.current.needs.iter().filter(|(library, _)| wanted.removed.contains(library));
        let numbers: BTreeSet<u16> =
            removed.flat_map(|(_, record)| &record.versions).map(|version| version.number).collect();
        let kept: Vec<_> = self.current.needs.iter().filter(|(library, _)| !wanted.removed.contains(library)).collect();
        self.relink(names, wanted, &kept)?;
        self.forget_versions(&numbers)?;
        let count = kept.len() as u32;
        let has_versions = wanted.entries.iter().any(|entry| entry.tag == elf::DT_VERSYM);
        for section in &mut self.layout.image.sections {
            let empty = match elf::SectionType(section.kind) {
                elf::SHT_GNU_VERNEED => count == 0,
                elf::SHT_GNU_VERSYM => !has_versions,
                _ => continue,
            };
            if section.kind == elf::SHT_GNU_VERNEED.0 {
                section.info = count;
            }
            if empty {
                // GNU strip treats an empty chain as an error, but accepts bytes that nothing
                // refers to.
                section.kind = elf::SHT_PROGBITS.0;
                section.link = 0;
            }
        }
        Ok(())
    }

    /// Links the kept records. The chain keeps its first offset, whichever record is the first one
    /// now.
    fn relink(&mut self, names: &Names, wanted: &Wanted, kept: &[&(Vec<u8>, NeedRecord)]) -> Result<(), Error> {
        let first = self.current.needs.first().map_or(0, |(_, record)| record.offset);
        for (index, (library, record)) in kept.iter().enumerate() {
            let slot = if index == 0 { first } else { record.offset };
            let name = match wanted.renamed.get(library) {
                Some(to) => names.of(to)?,
                None => record.library,
            };
            let raw = Verneed::<Little> {
                vn_version: U16::new(Little, elf::VER_NEED_CURRENT),
                vn_cnt: U16::new(Little, record.versions.len() as u16),
                vn_file: U32::new(Little, name as u32),
                vn_aux: chain_link(slot, record.first_version)?,
                vn_next: match kept.get(index + 1) {
                    Some((_, next)) => chain_link(slot, next.offset)?,
                    None => U32::new(Little, 0),
                },
            };
            let offset = self.layout.translate(slot);
            self.layout.builder.bytes(offset, bytes_of(&raw));
        }
        Ok(())
    }

    /// Makes the symbols of the versions `numbers` unversioned (1, VER_NDX_GLOBAL): the loader uses
    /// these numbers as indices.
    fn forget_versions(&mut self, numbers: &BTreeSet<u16>) -> Result<(), Error> {
        const WHAT: &str = "table of symbol versions";
        let address = self.layout.old.dynamic_value(elf::DT_VERSYM);
        let Some(offset) = address.and_then(|address| self.layout.old.offset_of(address)) else { return Ok(()) };
        let count = symbols::count(&self.layout.old, self.layout.source)?;
        let count = count.ok_or_else(|| Error::malformed(WHAT, "nothing tells how many symbols it covers"))?;
        let size = count.saturating_mul(2);
        let mut start = 0;
        while start < size {
            let mut bytes = self.layout.source.bytes(offset + start, WINDOW.min(size - start), WHAT)?;
            let mut changed = false;
            for pair in bytes.chunks_exact_mut(2) {
                let number = u16::from_le_bytes([pair[0], pair[1]]) & 0x7fff;
                if numbers.contains(&(number)) {
                    pair.copy_from_slice(&elf::VER_NDX_GLOBAL.0.to_le_bytes());
                    changed = true;
                }
            }
            if changed {
                let place = self.layout.translate(offset) + start;
                self.layout.builder.bytes(place, &bytes);
            }
            start += bytes.len() as u64;
        }
        Ok(())
    }
}

/// Returns the link of a record at `from` to another one at `to`.
fn chain_link(from: u64, to: u64) -> Result<U32<Little>, Error> {
    let distance = to.checked_sub(from).and_then(|distance| u32::try_from(distance).ok());
    let distance = distance.map(|distance| U32::new(Little, distance));
    distance.ok_or_else(|| Error::malformed("table of needed versions", "it is chained backwards"))
}

fn raw_segment(segment: &Segment) -> ProgramHeader64<Little> {
    ProgramHeader64 {
        p_type: U32::new(Little, elf::ProgramType(segment.kind)),
        p_flags: U32::new(Little, elf::ProgramFlags(segment.flags)),
        p_offset: U64::new(Little, segment.offset),
        p_vaddr: U64::new(Little, segment.address),
        p_paddr: U64::new(Little, segment.physical),
        p_filesz: U64::new(Little, segment.file_size),
        p_memsz: U64::new(Little, segment.memory_size),
        p_align: U64::new(Little, segment.align),
    }
}
