//! Fat binaries with wrong fields give an error or a correct answer, never a crash.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::sync::{Arc, OnceLock};

use positioned_io::ReadAt;
use proptest::prelude::*;
use rocwheel_fixtures::gpu::{Gpu, Link, TranslationUnit};
use rocwheel_kpack::{FatBinary, Magic, NewWrapper, Points, Replacement};

/// Returns a library with two bundles and two wrappers, which is built once.
fn library() -> &'static Vec<u8> {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| build(&["-shared", "-Wl,-z,pack-relative-relocs"]))
}

fn build(link: &[&str]) -> Vec<u8> {
    let gpu = Gpu::new();
    let unit = |source| TranslationUnit { source, targets: &["gfx942", "gfx1100"] };
    let file = gpu.build(&Link { name: "fat.so", units: &[unit("first"), unit("second")], compile: &[], link });
    gpu.run("strip", &["fat.so"]);
    fs_err::read(file).unwrap()
}

fn read(bytes: &Vec<u8>) -> Result<Option<FatBinary>, rocwheel_kpack::Error> {
    FatBinary::read(bytes, bytes.len() as u64)
}

fn replacement(fat: &FatBinary, size: u64) -> Replacement {
    let wrapper = NewWrapper { magic: Magic::Kpacked, pointer: 0, index: 7 };
    let content = Arc::new(vec![0x5a_u8; size as usize]);
    Replacement { content, size, wrappers: vec![wrapper; fat.wrappers.len()] }
}

/// Returns the edited file.
fn replaced(bytes: &Vec<u8>, size: u64) -> Result<Vec<u8>, rocwheel_kpack::Error> {
    let fat = read(bytes)?.unwrap();
    let patch = fat.replace(bytes, replacement(&fat, size))?;
    let patched = rocwheel_elf::Patched::new(bytes, patch);
    let mut result = vec![0; patched.size() as usize];
    patched.read_exact_at(0, &mut result).unwrap();
    Ok(result)
}

/// Returns the whole text of an error.
fn text(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {}", text(source)))
}

/// Reads and edits a file with any content in every way.
fn survives(bytes: &Vec<u8>) {
    let Ok(Some(fat)) = read(bytes) else { return };
    for size in [1, 100, 5000, 200_000] {
        if let Ok(patch) = fat.replace(bytes, replacement(&fat, size)) {
            let patched = rocwheel_elf::Patched::new(bytes, patch);
            let mut result = vec![0; patched.size() as usize];
            patched.read_exact_at(0, &mut result).unwrap();
            let after = FatBinary::read(&result, result.len() as u64);
            if let Ok(Some(after)) = after {
                assert_eq!(after.wrappers.len(), fat.wrappers.len());
            }
        }
    }
}

fn section(bytes: &[u8], name: &str) -> (usize, rocwheel_elf::Section) {
    let number =
        |at: usize, width: usize| bytes[at..at + width].iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    let elf = rocwheel_elf::Elf::read(&bytes.to_vec()).unwrap().unwrap();
    let index = elf.sections.iter().position(|section| section.name == name).unwrap();
    // The list does not have the empty section 0.
    (number(0x28, 8) + (index + 1) * 64, elf.sections[index].clone())
}

/// Returns the library with eight bytes changed.
fn with(at: usize, value: u64) -> Vec<u8> {
    let mut bytes = library().clone();
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    bytes
}

const SIZE: usize = 32;
const OFFSET: usize = 24;

#[test]
fn sections_that_lie() {
    let (code, original) = section(library(), ".hip_fatbin");
    let (segment, wrappers) = section(library(), ".hipFatBinSegment");
    let said = |bytes: Vec<u8>| text(&replaced(&bytes, 100).unwrap_err());
    let cases = [
        (with(segment + SIZE, 47), "the section of wrappers has 47 bytes, which are no multiple of 24"),
        (with(segment + SIZE, 24 << 40), "the section `.hipFatBinSegment` reaches behind the end of the file"),
        (with(code + SIZE, u64::MAX), "the section `.hip_fatbin` reaches behind the end of the file"),
        (with(code + OFFSET, u64::MAX - 5), "the section `.hip_fatbin` reaches behind the end of the file"),
        (with(code + SIZE, original.size + 4096), "no offload bundle at offset"),
        (with(code + OFFSET, original.offset + 1), "no offload bundle at offset 0x0"),
        (with(wrappers.offset as usize, 0x1_0000_4948), "wrapper 0 at offset"),
        (with(wrappers.offset as usize + 24, 0x2_4849_5046), "its version is 2; the runtime takes 1 only"),
    ];
    for (bytes, expected) in cases {
        let error = said(bytes);
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}

#[test]
fn wrappers_that_point_nowhere() {
    let fat = read(library()).unwrap().unwrap();
    // The packed relocation uses the word itself.
    let pointer = fat.wrappers[1].offset as usize + 8;
    for (value, expected) in [
        (0, Points::Elsewhere(0)),
        (u64::MAX, Points::Elsewhere(u64::MAX)),
        (fat.address + 8, Points::Elsewhere(fat.address + 8)),
        (fat.address + fat.memory_size, Points::Elsewhere(fat.address + fat.memory_size)),
    ] {
        let bytes = with(pointer, value);
        let read = read(&bytes).unwrap().unwrap();
        assert_eq!(read.wrappers[0].points, Points::Bundle(0));
        assert_eq!(read.wrappers[1].points, expected);
        survives(&bytes);
    }
}

#[test]
fn what_else_points_into_the_code_is_not_cut_off() {
    let bytes = build(&["-shared"]);
    let fat = read(&bytes).unwrap().unwrap();
    let known: Vec<u64> = fat.wrappers.iter().map(|wrapper| wrapper.address + 8).collect();
    let mut record = None;
    rocwheel_elf::relocations(&bytes, &mut |relocation| {
        if let (rocwheel_elf::RelocatedValue::Relative(_), rocwheel_elf::RelocationRecord::Rela(place)) =
            (relocation.value, relocation.record)
            && !known.contains(&relocation.address)
        {
            record = Some((place as usize, relocation.address));
        }
        Ok(())
    })
    .unwrap();
    let (place, address) = record.unwrap();
    let mut bytes = bytes;
    bytes[place + 16..place + 24].copy_from_slice(&(fat.address + 5000).to_le_bytes());
    let error = text(&replaced(&bytes, 100).unwrap_err());
    let expected = format!("the word at {address:#x} points into it, to {:#x}", fat.address + 5000);
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn replacements_that_do_not_fit() {
    let fat = read(library()).unwrap().unwrap();
    let said = |with: Replacement| text(&fat.replace(library(), with).unwrap_err());
    let mut few = replacement(&fat, 10);
    few.wrappers.pop();
    assert!(said(few).contains("1 wrappers were to replace its 2"));
    let mut far = replacement(&fat, 10);
    far.wrappers[1].pointer = 10;
    assert!(said(far).contains("point at byte 10 of the 10 bytes"));
    assert!(said(replacement(&fat, 0)).contains("empty"));
}

#[test]
fn the_same_edit_gives_the_same_bytes() {
    assert_eq!(replaced(library(), 100).unwrap(), replaced(library(), 100).unwrap());
}

#[test]
fn code_without_wrappers_is_seen_and_left() {
    let (segment, _) = section(library(), ".hipFatBinSegment");
    let mut bytes = library().clone();
    // `.hipFatBinSegment` gets another name, that of the first section in the table.
    let first = section(library(), ".gnu.hash").0;
    bytes.copy_within(first..first + 4, segment);
    let fat = read(&bytes).unwrap().unwrap();
    assert_eq!((fat.wrappers.len(), fat.bundles.len()), (0, 2));
    let garbage = read(library()).unwrap().unwrap().section.start as usize;
    bytes[garbage] = b'?';
    let fat = read(&bytes).unwrap().unwrap();
    assert_eq!((fat.wrappers.len(), fat.bundles.len()), (0, 0));
}

#[test]
fn files_that_are_something_else() {
    assert_eq!(read(&Vec::new()).unwrap(), None);
    assert_eq!(read(&b"just text".to_vec()).unwrap(), None);
    let mut pe = vec![0; 0x200];
    pe[..2].copy_from_slice(b"MZ");
    pe[0x3c] = 0x80;
    pe[0x80..0x84].copy_from_slice(b"PE\0\0");
    assert_eq!(read(&pe).unwrap(), None);
    pe[0x98..0x9a].copy_from_slice(&0x20b_u16.to_le_bytes());
    assert!(text(&read(&pe).unwrap_err()).contains("alignments of 0 and 0 bytes"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn cut_anywhere(at in any::<prop::sample::Index>()) {
        let mut bytes = library().clone();
        bytes.truncate(at.index(bytes.len()));
        survives(&bytes);
    }

    #[test]
    fn headers_changed_anywhere(changes in prop::collection::vec((0..4_usize, any::<usize>(), any::<u64>(), 0..9_u32), 1..4)) {
        let mut bytes = library().clone();
        let number = |at: usize| usize::from_le_bytes(library()[at..at + 8].try_into().unwrap());
        let tables = number(0x28);
        let dynamic = section(library(), ".dynamic").1;
        for (area, place, value, shift) in changes {
            let (start, length) = match area {
                0 => (0, 64),
                1 => (64, 12 * 56),
                2 => (tables, library().len() - tables),
                _ => (dynamic.offset as usize, dynamic.size as usize),
            };
            let at = start + place % (length - 7) / 4 * 4;
            let value = value >> (shift * 7);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        survives(&bytes);
    }
}
