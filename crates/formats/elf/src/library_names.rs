//! Input: an ELF file. Output: the names of libraries in its data, which it may load at run time.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use crate::{Elf, Section};
use positioned_io::ReadAt;
use regex::bytes::Regex;

/// `sh_type` of sections without bytes in the file.
const SHT_NOBITS: u32 = 8;
/// Bytes of data that are searched together; the overlap of two windows contains the names that
/// cross the border.
const WINDOW: u64 = 1 << 20;
const OVERLAP: u64 = 256;
/// Bytes of a vector register, which is also the alignment of its constants.
const VECTOR: usize = 16;

/// Returns the sections of a file that may contain such names.
pub fn data_sections(elf: &Elf) -> impl Iterator<Item = &Section> {
    elf.sections.iter().filter(|section| {
        let name = section.name.as_str();
        let has_bytes = section.kind != SHT_NOBITS && section.size > 0;
        has_bytes && (name.starts_with(".rodata") || name.starts_with(".data"))
    })
}

/// Returns texts in the data of a file that have the form `lib*.so*`, including its own name and
/// those it is linked to. Sections that cannot be read are skipped.
pub fn library_names(reader: &dyn ReadAt, elf: &Elf) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for section in data_sections(elf) {
        collect(reader, section, &mut names);
    }
    names
}

/// Returns the text that two adjacent vector constants were made from. Compilers copy a text of 17
/// to 31 bytes as its first and its last 16 bytes, which overlap: `libhsa-amd-aqlpr` and
/// `-aqlprofile64.so` are `libhsa-amd-aqlprofile64.so`.
fn whole_constant(address: u64, text: &str) -> Option<String> {
    if !address.is_multiple_of(VECTOR as u64) || text.len() != 2 * VECTOR {
        return None;
    }
    let (first, last) = text.split_at(VECTOR);
    let overlap = (1..VECTOR).rev().find(|length| first[VECTOR - length..] == last[..*length])?;
    Some(format!("{first}{}", &last[overlap..]))
}

fn collect(reader: &dyn ReadAt, section: &Section, names: &mut BTreeSet<String>) {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"lib[A-Za-z0-9_+-]+\.so(?:\.[0-9]+)*").expect("a constant expression"));
    let mut buffer = vec![0; WINDOW.min(section.size) as usize];
    let mut position = 0;
    while position < section.size {
        let length = WINDOW.min(section.size - position) as usize;
        // The loader does not read section headers, so one with a wrong size is not an error here.
        let Ok(()) = reader.read_exact_at(section.offset.saturating_add(position), &mut buffer[..length]) else {
            return;
        };
        for name in NAME.find_iter(&buffer[..length]) {
            let address = section.address.wrapping_add(position + name.start() as u64);
            let text = String::from_utf8_lossy(name.as_bytes());
            names.insert(whole_constant(address, &text).unwrap_or_else(|| text.into_owned()));
        }
        if length as u64 == section.size - position {
            break;
        }
        position += WINDOW - OVERLAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_constant_are_one_text() {
        let whole = |address, text| whole_constant(address, text);
        // The data of libhsa-runtime64 1.13.0 of Debian has this form.
        let profile = "libhsa-amd-aqlpr-aqlprofile64.so";
        assert_eq!(whole(0x13_d760, profile).unwrap(), "libhsa-amd-aqlprofile64.so");
        assert_eq!(whole(0x13_d8c0, "libhsa-ext-final-finalize64.so.1").unwrap(), "libhsa-ext-finalize64.so.1");
        assert_eq!(whole(0x13_d761, profile), None);
        assert_eq!(whole(0x13_d760, "libhsa-amd-aqlprofile64.so"), None);
        assert_eq!(whole(0x13_d760, "libhsa-amd-abcdexxxxxxxxxxxx.so."), None);
    }
}
