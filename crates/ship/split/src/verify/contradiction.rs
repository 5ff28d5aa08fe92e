//! Input: a host ELF file whose edit failed a check. Output: a contradiction between its section
//! headers and its segments or dynamic section, if there is one: then the input is damaged.
//!
//! The dynamic loader reads no section headers, so such a file may work. This check only runs after
//! an edit has failed.

use positioned_io::ReadAt;
use rocwheel_content::Content;
use rocwheel_elf::{Elf, Section};

const LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const RELA: u32 = 4;
const DYNAMIC: u32 = 6;
const NOBITS: u32 = 8;
const DYNSYM: u32 = 11;
const DT_PLTRELSZ: u64 = 2;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
/// Largest number of entries that are read from a dynamic section; real ones have a few dozen.
const MOST_ENTRIES: u64 = 4096;

/// Returns the contradiction in words; `None` if there is none, or the file is not ELF.
pub fn contradiction(content: &dyn Content) -> Option<String> {
    let reader = content.open().ok()?;
    let elf = match Elf::read(&reader) {
        Ok(elf) => elf?,
        Err(error) => return Some(rocwheel_progress::with_causes(&error)),
    };
    let wrong = elf.sections.iter().find(|section| !is_in_segment(&elf, section));
    let wrong = wrong.or_else(|| overlapping(&elf)).or_else(|| unlike_dynamic(&elf, &reader));
    wrong.map(|section| {
        format!(
            "the header of its section `{}` (type {}, {:#x} bytes at {:#x}) is not what its segments say",
            section.name, section.kind, section.size, section.address
        )
    })
}

/// `true` if a loaded section lies in a segment, at the same position in the file and in memory.
fn is_in_segment(elf: &Elf, section: &Section) -> bool {
    if section.address == 0 || section.kind == NOBITS || section.size == 0 {
        return true;
    }
    let Some(end) = section.address.checked_add(section.size) else { return false };
    elf.segments.iter().filter(|segment| segment.kind == LOAD).any(|load| {
        section.address >= load.address
            && end - load.address <= load.file_size
            && section.offset == load.offset.wrapping_add(section.address - load.address)
    })
}

fn overlapping(elf: &Elf) -> Option<&Section> {
    let sections = elf.sections.iter().filter(|section| section.address != 0 && section.kind != NOBITS);
    let mut loaded: Vec<&Section> = sections.filter(|section| section.size > 0).collect();
    loaded.sort_by_key(|section| section.address);
    loaded.windows(2).find(|pair| pair[0].address + pair[0].size > pair[1].address).map(|pair| pair[0])
}

/// Finds a section that the dynamic section refers to and that has another type or size.
fn unlike_dynamic<'a>(elf: &'a Elf, reader: &dyn ReadAt) -> Option<&'a Section> {
    let segment = elf.segments.iter().find(|segment| segment.kind == PT_DYNAMIC)?;
    let mut bytes = vec![0; 16 * (segment.file_size / 16).min(MOST_ENTRIES) as usize];
    reader.read_exact_at(segment.offset, &mut bytes).ok()?;
    let words = bytes.as_chunks::<8>().0.as_chunks::<2>().0;
    for (address, kind) in [(Some(segment.address), DYNAMIC), (dynamic_value(words, DT_SYMTAB), DYNSYM)] {
        if let Some(wrong) = section_at(elf, address).filter(|section| section.kind != kind) {
            return Some(wrong);
        }
    }
    let table = section_at(elf, dynamic_value(words, DT_RELA))?;
    // Some linkers count the relocations of the PLT as well.
    let of_plt = dynamic_value(words, DT_PLTRELSZ).unwrap_or(0);
    let is_whole =
        dynamic_value(words, DT_RELASZ).is_none_or(|size| [size, size.wrapping_sub(of_plt)].contains(&table.size));
    (table.kind != RELA || !is_whole).then_some(table)
}

fn section_at(elf: &Elf, address: Option<u64>) -> Option<&Section> {
    elf.sections.iter().find(|section| Some(section.address) == address)
}

/// Returns the first value of a tag in the words of a dynamic section.
fn dynamic_value(words: &[[[u8; 8]; 2]], tag: u64) -> Option<u64> {
    let entry = words.iter().find(|[key, _]| u64::from_le_bytes(*key) == tag);
    entry.map(|[_, value]| u64::from_le_bytes(*value))
}
