//! Input: a random-access file. Output: the description of an AMDGPU ELF file in its own headers:
//! the target of its code (from `e_flags`, so independent of the bundle it lies in) and its kernels
//! (from the metadata note).
//!
//! Code objects have up to tens of megabytes; only headers and the one note are read. The layout is
//! in LLVM's "User Guide for AMDGPU Backend", sections "ELF Code Object" and "Code Object
//! Metadata".

mod embedded;
mod metadata;

use object::LittleEndian;
use object::elf::{self, FileHeader64, NoteHeader64, ProgramHeader64, SectionHeader64};
use object::pod::{self, Pod};
use positioned_io::ReadAt;
use rocwheel_tables::target::{Feature, TargetId};

use crate::error::Error;

pub use embedded::{EmbeddedCode, embedded};
pub use metadata::{Kernel, MetadataFormat};

/// Largest metadata note that is read, in bytes; the largest known one (a composable kernel
/// library) has under 10 MB.
const NOTE_LIMIT: u64 = 64 << 20;
/// Number of notes that are read before the search ends; compilers write at most four.
const MOST_NOTES: usize = 1024;
/// Number of segments or sections that are searched for notes.
const MOST_RANGES: usize = 64;

/// `ELFOSABI_AMDGPU_HSA`: code for ROCm, not for graphics drivers.
const AMDHSA: u8 = 64;

/// `NT_AMD_HSA_ISA_VERSION`, `NT_AMD_HSA_METADATA`, `NT_AMD_HSA_ISA_NAME` (name `AMD`) and
/// `NT_AMDGPU_METADATA` (name `AMDGPU`).
const ISA_VERSION: u32 = 3;
const YAML_METADATA: u32 = 10;
const ISA_NAME: u32 = 11;
const METADATA: u32 = 32;

/// An AMDGPU ELF file: the code of some kernels for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeObject {
    /// The target in its own ELF header.
    pub target: TargetId,
    /// The low byte of `e_flags`, from which the processor is read.
    pub machine: u8,
    /// `true` if this program knows `machine`; otherwise the name of the processor is
    /// `unknown-0x…`.
    pub is_known: bool,
    /// `EI_ABIVERSION`: 0 to 4 for code object versions 2 to 6.
    pub abi_version: u8,
    /// The code object version, 2 to 6; `None` for a later ABI or an operating system other than
    /// `amdhsa`.
    pub code_object_version: Option<u8>,
    /// The format of the metadata note.
    pub metadata: MetadataFormat,
    /// The kernels in the order of the note.
    pub kernels: Vec<Kernel>,
}

impl CodeObject {
    /// Reads the headers and the metadata note. `None`: not an AMDGPU ELF file. Notes that cannot
    /// be parsed are not an error; [`CodeObject::metadata`] has the reason.
    pub fn read(reader: &dyn ReadAt) -> Result<Option<CodeObject>, Error> {
        let Some(header) = Image::open(reader)? else {
            return Ok(None);
        };
        header.code_object().map(Some)
    }
}

/// Returns the target of a code object by its own header, and `true` if this program knows the
/// processor. Like [`CodeObject::read`], but the notes are only read for version 2, in which one of
/// them has the target.
pub fn target(reader: &dyn ReadAt) -> Result<Option<(TargetId, bool)>, Error> {
    let Some(image) = Image::open(reader)? else { return Ok(None) };
    let notes = if image.version() == Some(2) { image.notes()? } else { Notes::default() };
    let object = image.with_notes(notes);
    Ok(Some((object.target, object.is_known)))
}

/// `true` if a declared target agrees with the code object's own header. `-strict` has no flag. Up
/// to version 3 the flags do not distinguish "off" from "any".
pub fn agrees(declared: &TargetId, read: &CodeObject) -> bool {
    let processor = declared.processor.strip_suffix("-strict").unwrap_or(&declared.processor);
    let is_old = read.code_object_version.is_none_or(|version| version <= 3) && read.abi_version <= 1;
    let features = [(declared.xnack, read.target.xnack), (declared.sramecc, read.target.sramecc)];
    let mut differing = features.into_iter().filter(|(declared, own)| declared != own);
    processor == read.target.processor
        && differing.all(|(declared, own)| is_old && declared != Feature::On && own != Feature::On)
}

/// `true` if a file begins like LLVM bitcode, bare or with a wrapper.
pub fn is_bitcode(start: &[u8]) -> bool {
    start.starts_with(b"BC\xc0\xde") || start.starts_with(&[0xde, 0xc0, 0x17, 0x0b])
}

/// `true` if a file begins like SPIR-V.
pub fn is_spirv(start: &[u8]) -> bool {
    start.starts_with(&[0x03, 0x02, 0x23, 0x07])
}

/// Returns the reason why bytes cannot be the code that a compiler made for `target`. `None`: there
/// is none, or they are LLVM bitcode, SPIR-V, or empty.
pub(crate) fn contradiction(target: &str, code: &dyn ReadAt) -> Option<String> {
    let read = match CodeObject::read(code) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    let Some(read) = read else {
        let mut start = [0; 4];
        let start = read_up_to(code, 0, &mut start).map(|count| start[..count].to_vec()).unwrap_or_default();
        return (!start.is_empty() && !is_bitcode(&start) && !is_spirv(&start))
            .then(|| format!("it starts with `{}`, as no code object does", start.escape_ascii()));
    };
    let declared: Option<TargetId> = target.parse().ok();
    if declared.is_some_and(|declared| read.is_known && !agrees(&declared, &read)) {
        return Some(format!("it is code for `{}` by its own ELF flags", read.target));
    }
    match &read.metadata {
        MetadataFormat::Malformed(reason) => Some(format!("its metadata cannot be understood: {reason}")),
        MetadataFormat::MessagePack | MetadataFormat::Absent | MetadataFormat::Yaml => None,
    }
}

/// `true` if the first bytes of a file are those of an AMDGPU ELF file. 20 bytes are enough.
pub fn is_code_object(start: &[u8]) -> bool {
    start.starts_with(&elf::ELFMAG)
        && start.get(4) == Some(&elf::ELFCLASS64.0)
        && start.get(5) == Some(&elf::ELFDATA2LSB.0)
        && start.get(18..20) == Some(&elf::EM_AMDGPU.0.to_le_bytes())
}

/// An AMDGPU ELF file whose header has been read.
struct Image<'a> {
    reader: &'a dyn ReadAt,
    header: FileHeader64<LittleEndian>,
}

/// The parts of the notes that are used.
#[derive(Clone, Default)]
struct Notes {
    metadata: MetadataFormat,
    kernels: Vec<Kernel>,
    isa_name: Option<String>,
    isa_version: Option<[u32; 3]>,
}

impl<'a> Image<'a> {
    fn open(reader: &'a dyn ReadAt) -> Result<Option<Self>, Error> {
        let mut bytes = [0; size_of::<FileHeader64<LittleEndian>>()];
        let count = read_up_to(reader, 0, &mut bytes)?;
        if !is_code_object(&bytes[..count]) {
            return Ok(None);
        }
        let header = cast(&bytes[..count], "ELF header")?;
        Ok(Some(Self { reader, header }))
    }

    fn code_object(&self) -> Result<CodeObject, Error> {
        Ok(self.with_notes(self.notes()?))
    }

    fn is_hsa(&self) -> bool {
        self.header.e_ident.os_abi.0 == AMDHSA
    }

    fn version(&self) -> Option<u8> {
        let abi_version = self.header.e_ident.abi_version;
        (self.is_hsa() && abi_version <= 4).then_some(abi_version + 2)
    }

    fn with_notes(&self, notes: Notes) -> CodeObject {
        let flags = self.header.e_flags.get(LittleEndian).0;
        let abi_version = self.header.e_ident.abi_version;
        let (is_hsa, code_object_version) = (self.is_hsa(), self.version());
        let machine = (flags & 0xff) as u8;
        let known = rocwheel_tables::machine::processor(machine);
        let processor = known.map_or_else(|| format!("unknown-{machine:#04x}"), str::to_owned);
        let mut target = TargetId { processor, xnack: Feature::Any, sramecc: Feature::Any };
        let mut is_known = known.is_some();
        if code_object_version == Some(2) {
            if let Some(older) = notes.older_target() {
                (target, is_known) = (older, true);
            }
        } else if abi_version <= 1 || !is_hsa {
            // PAL and Mesa use the flags of version 3.
            target.xnack = rocwheel_tables::machine::one_bit(flags & 0x100 != 0, "xnack", &target.processor);
            target.sramecc = rocwheel_tables::machine::one_bit(flags & 0x200 != 0, "sramecc", &target.processor);
        } else {
            target.xnack = two_bits(flags >> 8);
            target.sramecc = two_bits(flags >> 10);
        }
        let Notes { metadata, kernels, .. } = notes;
        CodeObject { target, machine, is_known, abi_version, code_object_version, metadata, kernels }
    }

    fn notes(&self) -> Result<Notes, Error> {
        let mut notes = Notes::default();
        let mut left = MOST_NOTES;
        for (offset, size, align) in self.note_ranges()? {
            let end = offset.checked_add(size).ok_or_else(|| malformed("a note segment leaves the file"))?;
            let (before, before_left) = (notes.clone(), left);
            self.notes_in((offset, end), align, (&mut notes, &mut left))?;
            // The finalizer of the HSA runtime aligned notes to 4 bytes in sections aligned to 8.
            if align == 8 && matches!(notes.metadata, MetadataFormat::Malformed(_)) {
                let (mut again, mut left_again) = (before, before_left);
                self.notes_in((offset, end), 4, (&mut again, &mut left_again))?;
                if !matches!(again.metadata, MetadataFormat::Malformed(_)) {
                    (notes, left) = (again, left_again);
                }
            }
        }
        Ok(notes)
    }

    /// Reads the notes from `position` to `end`, at most as many as are left.
    fn notes_in(
        &self,
        (mut position, end): (u64, u64),
        align: u64,
        (notes, left): (&mut Notes, &mut usize),
    ) -> Result<(), Error> {
        while *left > 0 && position < end {
            *left -= 1;
            let Some(next) = self.note(position, end, align, notes)? else { break };
            position = next;
        }
        Ok(())
    }

    /// Returns offset, size and alignment of the note segments, or of the note sections of a file
    /// that is not linked yet.
    fn note_ranges(&self) -> Result<Vec<(u64, u64, u64)>, Error> {
        let endian = LittleEndian;
        let segments = self.segments()?;
        let mut ranges: Vec<_> = segments
            .iter()
            .filter(|segment| segment.p_type.get(endian) == elf::PT_NOTE)
            .map(|segment| (segment.p_offset.get(endian), segment.p_filesz.get(endian), segment.p_align.get(endian)))
            .collect();
        if ranges.is_empty() {
            let sections = self.sections()?;
            let noted = sections.iter().filter(|section| section.sh_type.get(endian) == elf::SHT_NOTE);
            ranges.extend(noted.map(|section| {
                (section.sh_offset.get(endian), section.sh_size.get(endian), section.sh_addralign.get(endian))
            }));
        }
        ranges.truncate(MOST_RANGES);
        Ok(ranges)
    }

    fn segments(&self) -> Result<Vec<ProgramHeader64<LittleEndian>>, Error> {
        self.table(
            self.header.e_phoff.get(LittleEndian),
            rocwheel_elf::program_header_count(self.reader, &self.header, LittleEndian)?,
            self.header.e_phentsize.get(LittleEndian),
            "program header table",
        )
    }

    fn sections(&self) -> Result<Vec<SectionHeader64<LittleEndian>>, Error> {
        self.table(
            self.header.e_shoff.get(LittleEndian),
            self.header.e_shnum.get(LittleEndian).into(),
            self.header.e_shentsize.get(LittleEndian),
            "section header table",
        )
    }

    fn table<T: Pod>(&self, offset: u64, count: u64, entry_size: u16, what: &str) -> Result<Vec<T>, Error> {
        if count == 0 || offset == 0 {
            return Ok(Vec::new());
        }
        if usize::from(entry_size) != size_of::<T>() {
            return Err(malformed(format!("an entry of its {what} has {entry_size} bytes")));
        }
        let bytes = self.bytes(offset, count.saturating_mul(size_of::<T>() as u64), what)?;
        bytes.chunks_exact(size_of::<T>()).map(|entry| cast(entry, what)).collect()
    }

    /// Reads the note at `position`. Returns the position of the next one, or `None` if there is no
    /// note at `position`.
    fn note(&self, position: u64, end: u64, align: u64, notes: &mut Notes) -> Result<Option<u64>, Error> {
        let align = if align == 8 { 8 } else { 4 };
        let head = size_of::<NoteHeader64<LittleEndian>>() as u64;
        if end - position < head {
            return Ok(None);
        }
        let header: NoteHeader64<LittleEndian> = cast(&self.bytes(position, head, "notes")?, "notes")?;
        let name_size = u64::from(header.n_namesz.get(LittleEndian));
        let size = u64::from(header.n_descsz.get(LittleEndian));
        // Offsets come from files that were read, so they are far below the limits of u64; the
        // sizes have 32 bits.
        let value = (position + head + name_size).next_multiple_of(align);
        let next = (value + size).next_multiple_of(align);
        if value + size > end {
            notes.metadata.complain("a note leaves its segment");
            return Ok(None);
        }
        let kind = header.n_type.get(LittleEndian).0;
        let name = if name_size <= 16 { self.bytes(position + head, name_size, "notes")? } else { Vec::new() };
        let wanted = match (name.as_slice(), kind) {
            (b"AMDGPU\0", METADATA) => notes.kernels.is_empty(),
            (b"AMD\0", ISA_VERSION | ISA_NAME | YAML_METADATA) => true,
            _ => false,
        };
        if !wanted {
            return Ok(Some(next));
        }
        if kind == YAML_METADATA {
            notes.metadata = MetadataFormat::Yaml;
            return Ok(Some(next));
        }
        if size > NOTE_LIMIT {
            notes.metadata.complain(format!("the note has {size} bytes, more than {NOTE_LIMIT}"));
            return Ok(Some(next));
        }
        let value = self.bytes(value, size, "notes")?;
        match kind {
            METADATA => (notes.metadata, notes.kernels) = metadata::parse(&value),
            ISA_NAME => notes.isa_name = String::from_utf8(value).ok(),
            _ => notes.isa_version = isa_version(&value),
        }
        Ok(Some(next))
    }

    fn bytes(&self, offset: u64, size: u64, what: &str) -> Result<Vec<u8>, Error> {
        // The buffer grows as bytes arrive: a header may state more than the file has.
        const STEP: u64 = 1 << 20;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size {
            let start = bytes.len();
            let step = STEP.min(size - start as u64) as usize;
            bytes.resize(start + step, 0);
            let position =
                offset.checked_add(start as u64).ok_or_else(|| malformed(format!("its {what} leaves the file")))?;
            if read_up_to(self.reader, position, &mut bytes[start..])? < step {
                return Err(malformed(format!("its {what} leaves the file")));
            }
        }
        Ok(bytes)
    }
}

impl Notes {
    /// Returns the target of a code object of version 2: a name such as `amdgcn-amd-amdhsa--gfx803`
    /// or, in older ones, three numbers.
    fn older_target(&self) -> Option<TargetId> {
        if let Some(name) = &self.isa_name {
            let name = name.trim_end_matches('\0');
            let mut parts = name.rsplit_once("--").map_or(name, |(_, target)| target).split(['+', ':']);
            let processor = parts.next().filter(|processor| processor.starts_with("gfx"))?.to_owned();
            let mut target = TargetId { processor, xnack: Feature::Any, sramecc: Feature::Any };
            for feature in parts {
                match feature.trim_end_matches('+') {
                    "xnack" => target.xnack = Feature::On,
                    "sram-ecc" | "sramecc" => target.sramecc = Feature::On,
                    _ => {}
                }
            }
            return Some(target);
        }
        let [major, minor, stepping] = self.isa_version?;
        let processor = format!("gfx{major}{minor:x}{stepping:x}");
        Some(TargetId { processor, xnack: Feature::Any, sramecc: Feature::Any })
    }
}

/// Converts the two bits of code object version 4 and later: 0 not supported, 1 any, 2 off, 3 on.
fn two_bits(bits: u32) -> Feature {
    match bits & 3 {
        2 => Feature::Off,
        3 => Feature::On,
        _ => Feature::Any,
    }
}

/// Returns major, minor and stepping, which follow the sizes of two names, 2 bytes each.
fn isa_version(value: &[u8]) -> Option<[u32; 3]> {
    let words: [[u8; 4]; 3] = value.get(4..16)?.as_chunks::<4>().0.try_into().ok()?;
    Some(words.map(u32::from_le_bytes))
}

fn cast<T: Pod>(bytes: &[u8], what: &str) -> Result<T, Error> {
    pod::from_bytes::<T>(bytes).map(|(value, _)| *value).map_err(|()| malformed(format!("its {what} is cut off")))
}

/// Fills as much of `buffer` as the file has from `offset`.
fn read_up_to(reader: &dyn ReadAt, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        let position = offset.saturating_add(filled as u64);
        match reader.read_at(position, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::ReadCodeObject { offset: position, source }),
        }
    }
    Ok(filled)
}

fn malformed(reason: impl Into<String>) -> Error {
    Error::MalformedCodeObject { reason: reason.into() }
}
