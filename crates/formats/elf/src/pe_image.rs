//! Input: a PE file (a Windows program or library). Output: a [`Pe`] with its sections, and a
//! [`Patch`] that replaces the content of one of them.
//!
//! Addresses are relative to the image's base and never change. So a section cannot grow beyond the
//! start of the next one in memory, but there is no such limit in the file.

use std::ops::Range;

use object::LittleEndian as Little;
use object::pe::{
    IMAGE_DIRECTORY_ENTRY_DEBUG, IMAGE_DIRECTORY_ENTRY_SECURITY, IMAGE_FILE_DLL, IMAGE_NT_OPTIONAL_HDR64_MAGIC,
    ImageDataDirectory, ImageDebugDirectory, ImageDosHeader, ImageFileHeader, ImageOptionalHeader64,
    ImageSectionHeader,
};
use object::pod::Pod;
use positioned_io::ReadAt;
use serde::{Deserialize, Serialize};

use crate::patch::{External, PatchBuilder};
use crate::resize::overlap;
use crate::source::{Source, cast};
use crate::{Error, Patch};

/// A section of a PE file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeSection {
    /// Name of the section, at most eight characters: `.hip_fat`.
    pub name: String,
    /// Address, relative to the image's base.
    pub address: u64,
    /// Size in memory, in bytes.
    pub virtual_size: u64,
    /// Range of its bytes in the file, including padding.
    pub file: Range<u64>,
}

/// The headers of a 64-bit PE file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Pe {
    /// The machine number: 0x8664 is x86-64, 0xaa64 is ARM64.
    pub machine: u16,
    /// `true` for a library (DLL), `false` for a program.
    pub is_library: bool,
    /// The load address that pointers in the file assume.
    pub image_base: u64,
    /// The sections, in the order of the table.
    pub sections: Vec<PeSection>,
    file_alignment: u64,
    section_alignment: u64,
    /// File offsets of the headers.
    coff: u64,
    optional: u64,
    /// Addresses, relative to the base, and sizes of the tables that the optional header lists.
    pub(crate) directories: Vec<(u64, u64)>,
    table: u64,
}

const WHAT: &str = "PE header";
const SIGNATURE: u64 = 4;

fn get<T: Pod>(source: Source<'_>, offset: u64, what: &'static str) -> Result<T, Error> {
    cast(&source.bytes(offset, size_of::<T>() as u64, what)?, what)
}

impl Pe {
    /// Reads the headers; `None` for 32-bit images, which HIP does not support. Call
    /// [`crate::is_pe`] first.
    ///
    /// # Errors
    /// [`Error::Truncated`] and [`Error::Malformed`] for headers that are cut or wrong.
    pub fn read(reader: &dyn ReadAt) -> Result<Option<Self>, Error> {
        let source = Source { reader };
        let dos: ImageDosHeader = get(source, 0, "DOS header")?;
        let coff = u64::from(dos.e_lfanew.get(Little)) + SIGNATURE;
        let file: ImageFileHeader = get(source, coff, WHAT)?;
        let optional = coff + size_of::<ImageFileHeader>() as u64;
        let magic = source.bytes(optional, 2, WHAT)?;
        if magic != IMAGE_NT_OPTIONAL_HDR64_MAGIC.to_le_bytes() {
            return Ok(None);
        }
        let header: ImageOptionalHeader64 = get(source, optional, WHAT)?;
        let (file_alignment, section_alignment) =
            (u64::from(header.file_alignment.get(Little)), u64::from(header.section_alignment.get(Little)));
        let alignments = [file_alignment, section_alignment];
        let is_sane = alignments.iter().all(|value| value.is_power_of_two() && *value <= 1 << 20);
        if !is_sane || file_alignment > section_alignment {
            return Err(Error::malformed(
                WHAT,
                format!("alignments of {file_alignment} and {section_alignment} bytes"),
            ));
        }
        let first = optional + size_of::<ImageOptionalHeader64>() as u64;
        let mut directories = Vec::new();
        for index in 0..u64::from(header.number_of_rva_and_sizes.get(Little)).min(16) {
            let place = first + index * size_of::<ImageDataDirectory>() as u64;
            let directory: ImageDataDirectory = get(source, place, WHAT)?;
            directories.push((directory.virtual_address.get(Little).into(), directory.size.get(Little).into()));
        }
        let table = optional + u64::from(file.size_of_optional_header.get(Little));
        let mut pe = Self {
            machine: file.machine.get(Little).0,
            is_library: file.characteristics.get(Little).0 & IMAGE_FILE_DLL.0 != 0,
            image_base: header.image_base.get(Little),
            sections: Vec::new(),
            file_alignment,
            section_alignment,
            coff,
            optional,
            directories,
            table,
        };
        let end = source.size()?;
        for index in 0..u64::from(file.number_of_sections.get(Little)) {
            let raw: ImageSectionHeader = get(source, pe.header(index), "PE section table")?;
            pe.sections.push(section(&raw, end)?);
        }
        Ok(Some(pe))
    }

    /// Returns the section of this name.
    ///
    /// # Errors
    /// [`Error::Malformed`] if two sections have this name.
    pub fn section(&self, name: &str) -> Result<Option<&PeSection>, Error> {
        let mut named = self.sections.iter().filter(|section| section.name == name);
        let first = named.next();
        if named.next().is_some() {
            return Err(Error::malformed("PE section table", format!("it has two sections `{name}`")));
        }
        Ok(first)
    }

    /// Returns the range of file bytes from an address, relative to the base, to the end of its
    /// section.
    pub fn mapped(&self, address: u64) -> Option<Range<u64>> {
        self.sections.iter().find_map(|section| {
            let skip = address.checked_sub(section.address)?;
            let length = (section.file.end - section.file.start).min(section.virtual_size);
            (skip < length).then(|| section.file.start + skip..section.file.start + length)
        })
    }

    fn header(&self, index: u64) -> u64 {
        self.table + index * size_of::<ImageSectionHeader>() as u64
    }

    /// Replaces the content of the section `name` by the `size` bytes of `content`, and writes
    /// `words` at addresses relative to the base. In the file, everything behind the section moves;
    /// in memory everything keeps its address, and bytes that the content does not fill are zero.
    ///
    /// # Errors
    /// [`Error::Section`] if the section does not exist, if the content does not fit in front of
    /// the next section in memory, or if the file is signed; [`Error::Pointer`] if a word is not in
    /// the file.
    pub fn replace(
        &self,
        reader: &dyn ReadAt,
        name: &str,
        content: (External, u64),
        words: &[(u64, Vec<u8>)],
    ) -> Result<Patch, Error> {
        let source = Source { reader };
        let section = self.section(name)?.ok_or_else(|| Error::section(name, "there is none of this name"))?;
        let (content, new) = content;
        if self.directories.get(IMAGE_DIRECTORY_ENTRY_SECURITY).is_some_and(|&(_, size)| size > 0) {
            let why = "the file is signed, and the signature would not hold: remove it first";
            return Err(Error::section(name, why));
        }
        let later = self.sections.iter().map(|other| other.address).filter(|&address| address > section.address).min();
        let room = section.virtual_size.next_multiple_of(self.section_alignment);
        let room = later.map_or(room, |later| room.min(later - section.address));
        if new > room {
            let why = format!("its new content has {new} bytes, and there is room for {room} in memory");
            return Err(Error::section(name, why));
        }
        let mut others = self.sections.iter().filter(|other| !std::ptr::eq(*other, section));
        let old = section.file.clone();
        if others.any(|other| overlap(&old, &other.file)) {
            return Err(Error::section(name, "another section overlaps it in the file"));
        }
        let at = if old.is_empty() { source.size()?.next_multiple_of(self.file_alignment) } else { old.start };
        let (removed, inserted) = (old.end - old.start, new.next_multiple_of(self.file_alignment));
        let file_size = source.size()?;
        let shift =
            |offset: u64| if offset >= old.end && !old.is_empty() { offset - removed + inserted } else { offset };
        let mut builder = if old.is_empty() {
            PatchBuilder::new(file_size)
        } else {
            PatchBuilder::spliced(file_size, old.start, removed, inserted)
        };
        builder.zero(at, inserted);
        builder.external(at, content, new);
        self.write_headers(source, &mut builder, (section, at, new), &shift)?;
        for (address, bytes) in words {
            let unmapped = Error::Pointer { address: *address, why: "nothing of the file is mapped there" };
            let range = self.mapped(*address).filter(|range| range.end - range.start >= bytes.len() as u64);
            builder.bytes(shift(range.ok_or(unmapped)?.start), bytes);
        }
        Ok(builder.finish())
    }

    fn write_headers(
        &self,
        source: Source<'_>,
        builder: &mut PatchBuilder,
        (changed, at, new): (&PeSection, u64, u64),
        shift: &dyn Fn(u64) -> u64,
    ) -> Result<(), Error> {
        for (index, section) in self.sections.iter().enumerate() {
            let place = self.header(index as u64);
            if std::ptr::eq(section, changed) {
                let size = std::mem::offset_of!(ImageSectionHeader, size_of_raw_data) as u64;
                builder.bytes(place + size, &word(new.next_multiple_of(self.file_alignment))?);
                if new > section.virtual_size {
                    let size = std::mem::offset_of!(ImageSectionHeader, virtual_size) as u64;
                    builder.bytes(place + size, &word(new)?);
                }
            }
            let raw = if std::ptr::eq(section, changed) { at } else { shift(section.file.start) };
            if section.file.start > 0 || std::ptr::eq(section, changed) {
                let pointer = std::mem::offset_of!(ImageSectionHeader, pointer_to_raw_data) as u64;
                builder.bytes(place + pointer, &word(raw)?);
            }
        }
        let file: ImageFileHeader = get(source, self.coff, WHAT)?;
        let symbols = u64::from(file.pointer_to_symbol_table.get(Little));
        if symbols > 0 {
            let place = self.coff + std::mem::offset_of!(ImageFileHeader, pointer_to_symbol_table) as u64;
            builder.bytes(place, &word(shift(symbols))?);
        }
        // Zero means that there is no checksum. Windows only checks that of drivers.
        builder.bytes(self.optional + std::mem::offset_of!(ImageOptionalHeader64, check_sum) as u64, &[0; 4]);
        let Some(&(address, size)) = self.directories.get(IMAGE_DIRECTORY_ENTRY_DEBUG) else { return Ok(()) };
        let entry = size_of::<ImageDebugDirectory>() as u64;
        let Some(range) = self.mapped(address).filter(|range| range.end - range.start >= size) else { return Ok(()) };
        for index in 0..size / entry {
            let place = range.start + index * entry;
            let raw: ImageDebugDirectory = get(source, place, "PE debug directory")?;
            let pointer = u64::from(raw.pointer_to_raw_data.get(Little));
            let field = std::mem::offset_of!(ImageDebugDirectory, pointer_to_raw_data) as u64;
            builder.bytes(shift(place) + field, &word(shift(pointer))?);
        }
        Ok(())
    }
}

fn word(value: u64) -> Result<[u8; 4], Error> {
    let word = u32::try_from(value).map(u32::to_le_bytes);
    word.map_err(|_| Error::malformed(WHAT, "the file would grow beyond 4 GiB"))
}

fn section(raw: &ImageSectionHeader, end: u64) -> Result<PeSection, Error> {
    let length = raw.name.iter().position(|&byte| byte == 0).unwrap_or(raw.name.len());
    let name = String::from_utf8_lossy(&raw.name[..length]).into_owned();
    let (offset, size) = (u64::from(raw.pointer_to_raw_data.get(Little)), u64::from(raw.size_of_raw_data.get(Little)));
    if size > 0 && offset + size > end {
        return Err(Error::Truncated { what: "PE section", offset, length: size });
    }
    let virtual_size = u64::from(raw.virtual_size.get(Little));
    Ok(PeSection {
        name,
        address: raw.virtual_address.get(Little).into(),
        virtual_size: if virtual_size == 0 { size } else { virtual_size },
        file: offset..offset + size,
    })
}
