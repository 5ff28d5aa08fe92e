//! Input: a random-access file. Output: an [`Image`], its headers as plain 64-bit numbers, whatever
//! the class and byte order of the file.
//!
//! Only headers are read, each through one bounded read: a 1.3 GB library costs some tens of
//! kilobytes.

use object::elf;
use object::endian::Endianness;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader as RawSectionHeader};
use positioned_io::ReadAt;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::source::{Source, StringTable, cast, cast_all};

/// Bytes of a page on x86-64.
pub(crate) const PAGE: u64 = 4096;

/// A program header ("segment"): a range of the file that the loader maps, or the position of data
/// for the loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// `p_type`, a `PT_*` constant.
    pub kind: u32,
    /// `p_flags`: 1 execute, 2 write, 4 read.
    pub flags: u32,
    /// File offset in bytes.
    pub offset: u64,
    /// Virtual address.
    pub address: u64,
    /// Physical address, which Linux ignores.
    pub physical: u64,
    /// Size in the file, in bytes.
    pub file_size: u64,
    /// Size in memory, in bytes; the bytes behind `file_size` are zero.
    pub memory_size: u64,
    /// Alignment in bytes.
    pub align: u64,
}

impl Segment {
    /// `PT_NULL`: an entry of the table that loaders skip.
    pub(crate) const UNUSED: Segment = Segment {
        kind: elf::PT_NULL.0,
        flags: 0,
        offset: 0,
        address: 0,
        physical: 0,
        file_size: 0,
        memory_size: 0,
        align: 0,
    };

    pub(crate) fn is_load(&self) -> bool {
        self.kind == elf::PT_LOAD.0
    }

    pub(crate) fn file_end(&self) -> u64 {
        self.offset.saturating_add(self.file_size)
    }

    pub(crate) fn memory_end(&self) -> u64 {
        self.address.saturating_add(self.memory_size)
    }

    /// Returns the difference between the address and the position in the file.
    pub(crate) fn distance(&self) -> u64 {
        self.address.wrapping_sub(self.offset)
    }

    /// `true` if the address and the position in the file are equal within a page.
    fn can_be_mapped(&self) -> bool {
        self.distance().is_multiple_of(PAGE)
    }

    /// `true` if the file bytes `offset..offset + length` lie in this segment.
    pub(crate) fn holds_offset(&self, offset: u64, length: u64) -> bool {
        offset >= self.offset && offset.checked_add(length).is_some_and(|end| end <= self.file_end())
    }
}

/// A section header as in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SectionHeader {
    pub(crate) name: u32,
    pub(crate) kind: u32,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) info: u32,
    pub(crate) align: u64,
}

impl SectionHeader {
    pub(crate) fn is_allocated(&self) -> bool {
        self.flags & elf::SHF_ALLOC.0 != 0
    }

    /// Returns the number of bytes that the section occupies in the file.
    pub(crate) fn file_size(&self) -> u64 {
        if self.kind == elf::SHT_NOBITS.0 { 0 } else { self.size }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DynamicEntry {
    pub(crate) tag: i64,
    pub(crate) value: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Dynamic {
    pub(crate) offset: u64,
    pub(crate) address: u64,
    /// Entries before the first `DT_NULL`.
    pub(crate) entries: Vec<DynamicEntry>,
    /// Number of entries, including the final `DT_NULL`, that can be written without overwriting
    /// anything else.
    pub(crate) capacity: usize,
}

/// Returns the number of program headers of a file. A number that does not fit into the 16 bits of
/// the file header is in section 0, and the file header has 65535 (`PN_XNUM`).
///
/// # Errors
/// [`Error::Malformed`] if the number should be in section 0 but is missing.
pub fn program_header_count<H: FileHeader>(reader: &dyn ReadAt, header: &H, endian: H::Endian) -> Result<u64, Error> {
    let count = header.e_phnum(endian);
    if count != elf::PN_XNUM {
        return Ok(count.into());
    }
    let sections: u64 = header.e_shoff(endian).into();
    if sections > 0 {
        const WHAT: &str = "section header table";
        let size = size_of::<H::SectionHeader>() as u64;
        let first: H::SectionHeader = cast(&Source { reader }.bytes(sections, size, WHAT)?, WHAT)?;
        if first.sh_info(endian) > 0 {
            return Ok(first.sh_info(endian).into());
        }
    }
    let reason = "it has no count of program headers: 65535 says that it is in section 0, which has none";
    Err(Error::malformed("file header", reason.to_owned()))
}

/// The headers of an ELF file.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) endian: Endianness,
    pub(crate) is_64: bool,
    pub(crate) file_type: u16,
    /// `EI_OSABI` and `EI_ABIVERSION`.
    pub(crate) os_abi: [u8; 2],
    pub(crate) machine: u16,
    pub(crate) program_header_offset: u64,
    pub(crate) section_header_offset: u64,
    pub(crate) segments: Vec<Segment>,
    pub(crate) sections: Vec<SectionHeader>,
    /// The names of the sections, in one buffer.
    pub(crate) section_names: Vec<u8>,
    pub(crate) dynamic: Option<Dynamic>,
}

impl Image {
    /// Reads the headers; `None` if the file does not begin with an ELF identification.
    pub(crate) fn read(source: Source<'_>) -> Result<Option<Self>, Error> {
        let mut ident = [0; 16];
        let found = source.read_some(&mut ident)?;
        if found < 4 || ident[..4] != elf::ELFMAG {
            return Ok(None);
        }
        if found < ident.len() {
            return Err(Error::Truncated { what: "identification", offset: 0, length: ident.len() as u64 });
        }
        let endian = match ident[5] {
            1 => Endianness::Little,
            2 => Endianness::Big,
            other => return Err(Error::malformed("identification", format!("byte order {other} does not exist"))),
        };
        match ident[4] {
            1 => Self::read_class::<elf::FileHeader32<Endianness>>(source, endian),
            2 => Self::read_class::<elf::FileHeader64<Endianness>>(source, endian),
            other => Err(Error::malformed("identification", format!("class {other} does not exist"))),
        }
        .map(Some)
    }

    fn read_class<H: FileHeader<Endian = Endianness>>(source: Source<'_>, endian: Endianness) -> Result<Self, Error> {
        let header: H = cast(&source.bytes(0, size_of::<H>() as u64, "file header")?, "file header")?;
        let mut image = Self {
            endian,
            is_64: header.is_type_64(),
            file_type: header.e_type(endian).0,
            os_abi: [header.e_ident().os_abi.0, header.e_ident().abi_version],
            machine: header.e_machine(endian).0,
            program_header_offset: header.e_phoff(endian).into(),
            section_header_offset: header.e_shoff(endian).into(),
            segments: Vec::new(),
            sections: Vec::new(),
            section_names: Vec::new(),
            dynamic: None,
        };
        let (segment_count, name_index) = image.read_sections(source, &header)?;
        image.read_segments(source, &header, segment_count)?;
        image.read_section_names(source, name_index)?;
        image.check_end(source)?;
        image.dynamic = image.read_dynamic::<H>(source)?;
        Ok(image)
    }

    /// Returns the number of program headers and the index of the section of names, which section 0
    /// may override.
    fn read_sections<H: FileHeader<Endian = Endianness>>(
        &mut self,
        source: Source<'_>,
        header: &H,
    ) -> Result<(u64, usize), Error> {
        const WHAT: &str = "section header table";
        let (endian, offset) = (self.endian, self.section_header_offset);
        let mut count = u64::from(header.e_shnum(endian));
        let segments = program_header_count(source.reader, header, endian)?;
        let mut names = u32::from(header.e_shstrndx(endian).0);
        let size = size_of::<H::SectionHeader>() as u64;
        if offset == 0 {
            return Ok((segments, 0));
        }
        if count == 0 || names == u32::from(elf::SHN_XINDEX.0) {
            let first: H::SectionHeader = cast(&source.bytes(offset, size, WHAT)?, WHAT)?;
            if count == 0 {
                count = first.sh_size(endian).into();
            }
            if names == u32::from(elf::SHN_XINDEX.0) {
                names = first.sh_link(endian);
            }
        }
        if count == 0 {
            return Ok((segments, 0));
        }
        if u64::from(header.e_shentsize(endian)) != size {
            return Err(Error::malformed(
                WHAT,
                format!("entries of {} bytes instead of {size}", header.e_shentsize(endian)),
            ));
        }
        let bytes = source.bytes(offset, count.saturating_mul(size), WHAT)?;
        self.sections = cast_all::<H::SectionHeader>(&bytes, WHAT)?
            .iter()
            .map(|raw| SectionHeader {
                name: raw.sh_name(endian),
                kind: raw.sh_type(endian).0,
                flags: raw.sh_flags(endian).0,
                address: raw.sh_addr(endian).into(),
                offset: raw.sh_offset(endian).into(),
                size: raw.sh_size(endian).into(),
                link: raw.sh_link(endian),
                info: raw.sh_info(endian),
                align: raw.sh_addralign(endian).into(),
            })
            .collect();
        Ok((segments, names as usize))
    }

    fn read_segments<H: FileHeader<Endian = Endianness>>(
        &mut self,
        source: Source<'_>,
        header: &H,
        count: u64,
    ) -> Result<(), Error> {
        const WHAT: &str = "program header table";
        let endian = self.endian;
        let size = size_of::<H::ProgramHeader>() as u64;
        if count == 0 {
            return Ok(());
        }
        if u64::from(header.e_phentsize(endian)) != size {
            return Err(Error::malformed(
                WHAT,
                format!("entries of {} bytes instead of {size}", header.e_phentsize(endian)),
            ));
        }
        let bytes = source.bytes(self.program_header_offset, count.saturating_mul(size), WHAT)?;
        self.segments = cast_all::<H::ProgramHeader>(&bytes, WHAT)?
            .iter()
            .map(|raw| Segment {
                kind: raw.p_type(endian).0,
                flags: raw.p_flags(endian).0,
                offset: raw.p_offset(endian).into(),
                address: raw.p_vaddr(endian).into(),
                physical: raw.p_paddr(endian).into(),
                file_size: raw.p_filesz(endian).into(),
                memory_size: raw.p_memsz(endian).into(),
                align: raw.p_align(endian).into(),
            })
            .collect();
        Ok(())
    }

    /// Checks that the file has all loaded bytes: otherwise the missing ones would only be noticed
    /// at run time.
    fn check_end(&self, source: Source<'_>) -> Result<(), Error> {
        let loads = self.segments.iter().filter(|segment| segment.is_load() && segment.file_size > 0);
        let Some(last) = loads.max_by_key(|segment| segment.file_end()).filter(|_| !self.has_no_content()) else {
            return Ok(());
        };
        let end = source.fill(last.file_end() - 1, &mut [0], "segment");
        end.map_err(|error| match error {
            Error::Truncated { what, .. } => Error::Truncated { what, offset: last.offset, length: last.file_size },
            other => other,
        })
    }

    fn read_section_names(&mut self, source: Source<'_>, index: usize) -> Result<(), Error> {
        if index == 0 || self.sections.is_empty() {
            return Ok(());
        }
        let Some(section) = self.sections.get(index) else {
            return Err(Error::malformed(
                "file header",
                format!("the section of names is number {index}, which does not exist"),
            ));
        };
        self.section_names = source.bytes(section.offset, section.file_size(), "table of section names")?;
        Ok(())
    }

    fn read_dynamic<H: FileHeader<Endian = Endianness>>(&self, source: Source<'_>) -> Result<Option<Dynamic>, Error> {
        const WHAT: &str = "dynamic section";
        let Some(segment) = self.segments.iter().find(|segment| segment.kind == elf::PT_DYNAMIC.0) else {
            return Ok(None);
        };
        if segment.file_size == 0 || self.has_no_content() {
            return Ok(None);
        }
        // The loader reads it in memory, by address; the header's file offset is for tools. In
        // correct files they agree. A segment that cannot be mapped has no bytes at an address.
        let is_mapped = self.segment_at(segment.address).is_some_and(Segment::can_be_mapped);
        let offset = self.offset_of(segment.address).filter(|_| is_mapped).unwrap_or(segment.offset);
        let bytes = source.bytes(offset, segment.file_size, WHAT)?;
        let all: Vec<DynamicEntry> = cast_all::<H::Dyn>(&bytes, WHAT)?
            .iter()
            .map(|raw| DynamicEntry { tag: raw.tag(self.endian).0, value: raw.val(self.endian) })
            .collect();
        let count = all.iter().position(|entry| entry.tag == elf::DT_NULL.0).unwrap_or(all.len());
        let spare = all[count..].iter().take_while(|entry| entry.tag == elf::DT_NULL.0).count();
        let entries = all[..count].to_vec();
        Ok(Some(Dynamic { offset, address: segment.address, entries, capacity: count + spare }))
    }

    /// `true` for separate debug files (`objcopy --only-keep-debug`): headers without the content
    /// they describe.
    pub(crate) fn has_no_content(&self) -> bool {
        let mut code = self
            .sections
            .iter()
            .filter(|section| section.is_allocated() && section.flags & elf::SHF_EXECINSTR.0 != 0)
            .peekable();
        let without_code = code.peek().is_some() && code.all(|section| section.kind == elf::SHT_NOBITS.0);
        without_code
            || self.sections.iter().any(|section| {
                section.kind == elf::SHT_NOBITS.0 && section.is_allocated() && self.section_name(section) == b".dynamic"
            })
    }

    pub(crate) fn section_name(&self, section: &SectionHeader) -> &[u8] {
        let tail = self.section_names.get(section.name as usize..).unwrap_or_default();
        tail.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Returns the segment that has file bytes for `address`, in its size or else in its last page.
    fn segment_at(&self, address: u64) -> Option<&Segment> {
        let mut loads = self.segments.iter().filter(|segment| segment.is_load() && address >= segment.address);
        let inside = loads.clone().find(|segment| address - segment.address < segment.file_size);
        inside.or_else(|| loads.find(|segment| address - segment.address < self.mapped_size(segment)))
    }

    /// Returns the file offset that is mapped at `address`.
    pub(crate) fn offset_of(&self, address: u64) -> Option<u64> {
        self.segment_at(address).and_then(|segment| segment.offset.checked_add(address - segment.address))
    }

    /// Returns the number of file bytes that are mapped from `address` to the end of its segment.
    pub(crate) fn mapped_after(&self, address: u64) -> u64 {
        self.segment_at(address).map_or(0, |segment| segment.file_size.saturating_sub(address - segment.address))
    }

    /// Returns the size of a loaded segment with the bytes of the file that are mapped behind its
    /// end. Whole pages are mapped, so a segment without zeroed memory also shows the bytes up to
    /// the end of its last page, unless another segment begins there. Older versions of patchelf
    /// wrote tables that end there.
    fn mapped_size(&self, segment: &Segment) -> u64 {
        let end = segment.memory_end();
        let Some(page_end) = end.checked_next_multiple_of(PAGE) else { return segment.file_size };
        let is_shared =
            self.segments.iter().any(|other| other.is_load() && other.address >= end && other.address < page_end);
        if segment.memory_size != segment.file_size || is_shared {
            return segment.file_size;
        }
        page_end - segment.address
    }

    /// Returns the number of file bytes that are mapped from `address` to the end of the last page
    /// of its segment.
    fn mapped_in_pages(&self, address: u64) -> u64 {
        self.segment_at(address).map_or(0, |segment| self.mapped_size(segment) - (address - segment.address))
    }

    /// Extends segments to the dynamic section and its strings, where these are mapped behind the
    /// end: an edit moves the contents of segments.
    pub(crate) fn cover_tables(&mut self) {
        let dynamic = self.segment(elf::PT_DYNAMIC).map(|segment| (segment.address, segment.file_size));
        let strings = self.dynamic_value(elf::DT_STRTAB).zip(self.dynamic_value(elf::DT_STRSZ));
        let mut sizes = Vec::new();
        for (index, segment) in self.segments.iter().enumerate().filter(|(_, segment)| segment.is_load()) {
            let mapped = segment.address.saturating_add(self.mapped_size(segment));
            let ends = [dynamic, strings].into_iter().flatten().filter_map(|(address, size)| {
                let end = address.checked_add(size)?;
                (address >= segment.address && end <= mapped).then(|| end - segment.address)
            });
            sizes.extend(ends.max().filter(|size| *size > segment.file_size).map(|size| (index, size)));
        }
        for (index, size) in sizes {
            self.segments[index].file_size = size;
            self.segments[index].memory_size = size;
        }
    }

    pub(crate) fn segment(&self, kind: elf::ProgramType) -> Option<&Segment> {
        self.segments.iter().find(|segment| segment.kind == kind.0)
    }

    /// Returns the value of the first entry with this tag in the dynamic section.
    pub(crate) fn dynamic_value(&self, tag: elf::DynamicTag) -> Option<u64> {
        self.dynamic.as_ref()?.entries.iter().find(|entry| entry.tag == tag.0).map(|entry| entry.value)
    }

    /// Returns the file offset of the table `what` at `address`; an error if it is not mapped.
    pub(crate) fn find_offset(&self, address: u64, what: &'static str) -> Result<u64, Error> {
        let offset = self.offset_of(address);
        offset.ok_or_else(|| Error::malformed(what, format!("no segment maps its address {address:#x}")))
    }

    /// Returns the string table of the dynamic section (DT_STRTAB and DT_STRSZ).
    pub(crate) fn dynamic_strings(&self) -> Result<Option<StringTable>, Error> {
        const WHAT: &str = "dynamic string table";
        let strings = self.dynamic_value(elf::DT_STRTAB).zip(self.dynamic_value(elf::DT_STRSZ));
        let Some((address, size)) = strings else { return Ok(None) };
        let offset = self.find_offset(address, WHAT)?;
        if size > self.mapped_in_pages(address) {
            return Err(Error::malformed(WHAT, format!("its {size} bytes do not fit into its segment")));
        }
        Ok(Some(StringTable { offset, size }))
    }

    /// Returns the size of a symbol in bytes.
    pub(crate) fn symbol_size(&self) -> u64 {
        if self.is_64 { size_of::<elf::Sym64<Endianness>>() as u64 } else { size_of::<elf::Sym32<Endianness>>() as u64 }
    }
}
