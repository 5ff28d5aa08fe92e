//! Input: a file that was just written. Output: what it is, if it is an ELF file: its headers, the GPU targets it has
//! code for and the names of libraries in its data.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use elf::{Elf, Section};
use kpack::{Entry, FatBinary};
use positioned_io::ReadAt;
use regex::bytes::Regex;

use super::error::Error;

/// ELF's section type for sections without bytes in the file.
const SHT_NOBITS: u32 = 8;
/// Bytes of data looked at together; a name that crosses the border is seen in the overlap.
const WINDOW: u64 = 1 << 20;
const OVERLAP: u64 = 256;
/// Bytes of a vector register, and alignment of its constants.
const VECTOR: usize = 16;

/// What was found in a file's data.
#[derive(Debug, Clone, Default)]
pub(super) struct Inspected {
    /// GPU targets with their features.
    pub(super) targets: BTreeSet<String>,
    /// Texts that look like `lib*.so*`.
    pub(super) mentions: BTreeSet<String>,
}

/// Looks at the file at `path`; `None` when it is no ELF file. `name` is its path in the flattened tree.
pub(super) fn inspect(path: &Path, name: &str) -> Result<Option<(Elf, Inspected)>, Error> {
    let file = fs_err::File::open(path)?;
    let reader = file.file();
    let mut magic = [0; 4];
    if reader.read_at(0, &mut magic)? < 4 || magic != *b"\x7fELF" {
        return Ok(None);
    }
    let elf = Elf::read(reader).map_err(|source| Error::Elf { action: "read", path: name.to_owned(), source })?;
    let Some(elf) = elf else { return Ok(None) };
    let size = file.metadata()?.len();
    let fat = FatBinary::read(reader, size).map_err(|source| Error::DeviceCode { path: name.to_owned(), source })?;
    let entries = fat.iter().flat_map(|fat| &fat.bundles).flat_map(|bundle| &bundle.entries);
    let targets = entries.filter(|entry| entry.size > 0).filter_map(Entry::target).map(str::to_owned).collect();
    let mut mentions = BTreeSet::new();
    for section in elf.sections.iter().filter(|section| is_data(section)) {
        collect_mentions(reader, section, &mut mentions);
    }
    Ok(Some((elf, Inspected { targets, mentions })))
}

fn has_bytes(section: &Section) -> bool {
    section.kind != SHT_NOBITS && section.size > 0
}

fn is_data(section: &Section) -> bool {
    let name = section.name.as_str();
    has_bytes(section) && (name.starts_with(".rodata") || name.starts_with(".data"))
}

/// The text of which two vector constants side by side are the halves. Compilers copy a text of 17 to 31 bytes as its
/// first and its last 16 bytes, which overlap: `libhsa-amd-aqlpr` and `-aqlprofile64.so` are `libhsa-amd-aqlprofile64.so`.
fn whole_constant(address: u64, text: &str) -> Option<String> {
    if !address.is_multiple_of(VECTOR as u64) || text.len() != 2 * VECTOR {
        return None;
    }
    let (first, last) = text.split_at(VECTOR);
    let overlap = (1..VECTOR).rev().find(|length| first[VECTOR - length..] == last[..*length])?;
    Some(format!("{first}{}", &last[overlap..]))
}

fn collect_mentions(reader: &dyn ReadAt, section: &Section, mentions: &mut BTreeSet<String>) {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"lib[A-Za-z0-9_+-]+\.so(?:\.[0-9]+)*").expect("a constant expression"));
    let mut buffer = vec![0; WINDOW.min(section.size) as usize];
    let mut position = 0;
    while position < section.size {
        let length = WINDOW.min(section.size - position) as usize;
        // A section header that lies about its size is the loader's business, not ours.
        let Ok(()) = reader.read_exact_at(section.offset.saturating_add(position), &mut buffer[..length]) else {
            return;
        };
        for name in NAME.find_iter(&buffer[..length]) {
            let address = section.address.wrapping_add(position + name.start() as u64);
            let text = String::from_utf8_lossy(name.as_bytes());
            mentions.insert(whole_constant(address, &text).unwrap_or_else(|| text.into_owned()));
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
        // As they lie in libhsa-runtime64 1.13.0 of Debian.
        let profile = "libhsa-amd-aqlpr-aqlprofile64.so";
        assert_eq!(whole(0x13_d760, profile).unwrap(), "libhsa-amd-aqlprofile64.so");
        assert_eq!(whole(0x13_d8c0, "libhsa-ext-final-finalize64.so.1").unwrap(), "libhsa-ext-finalize64.so.1");
        assert_eq!(whole(0x13_d761, profile), None);
        assert_eq!(whole(0x13_d760, "libhsa-amd-aqlprofile64.so"), None);
        assert_eq!(whole(0x13_d760, "libhsa-amd-abcdexxxxxxxxxxxx.so."), None);
    }
}
