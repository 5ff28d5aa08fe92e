//! Input: a random-access file. Output: an [`Elf`], the parts of its headers that matter for
//! loading it.

use object::elf;
use positioned_io::ReadAt;
use serde::{Deserialize, Serialize};

use crate::image::{Image, Segment};
use crate::source::{Source, StringTable};
use crate::{Error, note, version};

/// Largest size of all names of needed libraries and versions together, in bytes; real files have
/// kilobytes.
const NAMES_LIMIT: u64 = 16 << 20;

/// The ELF headers of a file. Text that is not UTF-8 (never seen outside of tests) has replacement
/// characters; edits keep the original bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elf {
    /// `e_machine`: 62 is x86-64, 224 AMD GPU code, 183 AArch64.
    pub machine: u16,
    /// The purpose of the file.
    pub kind: ElfKind,
    /// `EI_OSABI`: 0 is System V, 3 GNU, 9 FreeBSD.
    pub os_abi: u8,
    /// `EI_ABIVERSION`, a version of `os_abi`.
    pub abi_version: u8,
    /// `true` for a 64-bit file.
    pub is_64: bool,
    /// PT_INTERP: path of the program's dynamic loader.
    pub interpreter: Option<String>,
    /// DT_SONAME.
    pub soname: Option<String>,
    /// DT_NEEDED, in the loader's order.
    pub needed: Vec<String>,
    /// DT_RPATH, entries joined with `:`.
    pub rpath: Option<String>,
    /// DT_RUNPATH, entries joined with `:`. If it is present, the loader ignores `rpath`.
    pub runpath: Option<String>,
    /// DT_FLAGS_1, the `DF_1_*` bits; zero if the file has no such entry.
    pub flags_1: u64,
    /// `true` if relocations are packed in a separate table (DT_RELR).
    pub has_packed_relocations: bool,
    /// Versions needed from each library, in file order.
    pub version_needs: Vec<VersionNeed>,
    /// Names of the versions defined, without the base version (the file's own name).
    pub version_definitions: Vec<String>,
    /// Section headers, without the empty section 0; none in files stripped of them.
    pub sections: Vec<Section>,
    /// Program headers.
    pub segments: Vec<Segment>,
    /// The build ID note, raw bytes.
    pub build_id: Option<Vec<u8>>,
    /// `GNU_PROPERTY_X86_ISA_1_NEEDED`: bit 0 baseline, 1 x86-64-v2, 2 v3, 3 v4.
    pub isa_needed: Option<u32>,
}

/// The purpose of an ELF file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ElfKind {
    /// A program that the dynamic loader starts, position independent or not.
    Executable,
    /// A program without dynamic loader (static, static-pie), so without a search path to edit.
    StaticExecutable,
    /// A shared library. GPU code objects have this kind too; [`Elf::machine`] distinguishes them.
    SharedLibrary,
    /// An object file.
    Relocatable,
    /// A separate debug file (`objcopy --only-keep-debug`): headers of a program or library,
    /// without its content.
    DebugOnly,
    /// A core dump or a type that is private to an operating system.
    Other,
}

/// The versions that a file needs from one library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionNeed {
    /// The library's file name, as in DT_NEEDED.
    pub library: String,
    /// Version names, such as `GLIBC_2.34`.
    pub versions: Vec<String>,
}

/// A section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Name of the section, such as `.hip_fatbin`.
    pub name: String,
    /// `sh_type`: 8 (NOBITS) occupies no bytes of the file.
    pub kind: u32,
    /// Virtual address; zero if the section is not loaded.
    pub address: u64,
    /// File offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Elf {
    /// Reads the headers of a file through bounded reads; `None` if it is not ELF.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::TooLarge`] or [`Error::Malformed`] name the structure that is
    /// cut or wrong; [`Error::Read`] if the reader fails.
    pub fn read(reader: &dyn ReadAt) -> Result<Option<Self>, Error> {
        let source = Source { reader };
        match Image::read(source)? {
            Some(image) => Self::from_image(&image, source).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn from_image(image: &Image, source: Source<'_>) -> Result<Self, Error> {
        let mut names = DynamicNames { source, strings: image.dynamic_strings()?, bytes_read: 0 };
        let interpreter = interpreter(image, source)?;
        let soname = image.dynamic_value(elf::DT_SONAME).map(|index| names.read(index)).transpose()?;
        let version_needs = version::needs(image, source)?
            .into_iter()
            .map(|record| {
                let versions = record.versions.iter().map(|version| names.read(version.name));
                let versions = versions.collect::<Result<_, _>>()?;
                Ok(VersionNeed { library: names.read(record.library)?, versions })
            })
            .collect::<Result<_, Error>>()?;
        let entries = image.dynamic.iter().flat_map(|dynamic| &dynamic.entries);
        let needed = entries.filter(|entry| entry.tag == elf::DT_NEEDED.0);
        let notes = note::read(image, source)
            .or_else(|error| if image.has_no_content() { Ok(note::Notes::default()) } else { Err(error) })?;
        Ok(Self {
            machine: image.machine,
            kind: kind(image, interpreter.is_some(), soname.is_some()),
            os_abi: image.os_abi[0],
            abi_version: image.os_abi[1],
            is_64: image.is_64,
            interpreter,
            soname,
            needed: needed.map(|entry| names.read(entry.value)).collect::<Result<_, _>>()?,
            rpath: image.dynamic_value(elf::DT_RPATH).map(|index| names.read(index)).transpose()?,
            runpath: image.dynamic_value(elf::DT_RUNPATH).map(|index| names.read(index)).transpose()?,
            flags_1: image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0),
            has_packed_relocations: image.dynamic_value(elf::DT_RELR).is_some(),
            version_needs,
            version_definitions: version::definitions(image, source)?
                .into_iter()
                .filter(|definition| !definition.is_base)
                .map(|definition| names.read(definition.name))
                .collect::<Result<_, _>>()?,
            sections: sections(image),
            segments: image.segments.clone(),
            build_id: notes.build_id,
            isa_needed: notes.isa_needed,
        })
    }

    /// Returns the search path that the loader uses: DT_RUNPATH, else DT_RPATH.
    pub fn search_path(&self) -> Option<&str> {
        self.runpath.as_deref().or(self.rpath.as_deref())
    }
}

/// Reads the names of the dynamic section. They may overlap in the table, so that a small file
/// could require any amount of memory for them.
struct DynamicNames<'a> {
    source: Source<'a>,
    strings: Option<StringTable>,
    bytes_read: u64,
}

impl DynamicNames<'_> {
    fn read(&mut self, index: u64) -> Result<String, Error> {
        let bytes = version::name(self.source, self.strings, index)?;
        self.bytes_read += bytes.len() as u64;
        if self.bytes_read > NAMES_LIMIT {
            let (what, length) = ("names of the dynamic section", self.bytes_read);
            return Err(Error::TooLarge { what, length, limit: NAMES_LIMIT });
        }
        Ok(into_text(bytes))
    }
}

pub(crate) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn interpreter(image: &Image, source: Source<'_>) -> Result<Option<String>, Error> {
    let Some(segment) = image.segment(elf::PT_INTERP) else { return Ok(None) };
    if image.has_no_content() {
        return Ok(None);
    }
    let mut bytes = source.bytes_up_to(segment.offset, segment.file_size, 4096, "interpreter")?;
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    Ok(Some(into_text(bytes)))
}

fn sections(image: &Image) -> Vec<Section> {
    let named = image.sections.iter().skip(1).map(|section| Section {
        name: String::from_utf8_lossy(image.section_name(section)).into_owned(),
        kind: section.kind,
        address: section.address,
        offset: section.offset,
        size: section.size,
    });
    named.collect()
}

/// Determines the kind of a file. ET_DYN can be a program or a library: a program has DF_1_PIE or,
/// from older linkers, an interpreter and no SONAME (libc.so.6 has both).
pub(crate) fn kind(image: &Image, has_interpreter: bool, has_soname: bool) -> ElfKind {
    let flags = image.dynamic_value(elf::DT_FLAGS_1).unwrap_or(0);
    let is_pie = flags & elf::DF_1_PIE.0 != 0;
    match elf::FileType(image.file_type) {
        elf::ET_REL => ElfKind::Relocatable,
        elf::ET_EXEC | elf::ET_DYN if image.has_no_content() => ElfKind::DebugOnly,
        elf::ET_EXEC if has_interpreter || image.dynamic.is_some() => ElfKind::Executable,
        elf::ET_EXEC => ElfKind::StaticExecutable,
        elf::ET_DYN if has_interpreter && (is_pie || !has_soname) => ElfKind::Executable,
        elf::ET_DYN if is_pie => ElfKind::StaticExecutable,
        elf::ET_DYN => ElfKind::SharedLibrary,
        _ => ElfKind::Other,
    }
}
