//! A correct split that is damaged in one place: the check must report the place.

use rocwheel_kpack::archive::{ArchiveWriter, Blob, KpackArchive, Scheme};
use rocwheel_kpack::fatbin::FatBinary;
use rocwheel_progress::Silent;
use rocwheel_split::verify::Checks;
use rocwheel_split::{Packing, TargetSelection};

use crate::fixture::{self, Settings, Split, split, view};

const TWIN: &str = "lib/twin.so";

fn twin(scheme: Scheme) -> Split {
    let packing = Packing { scheme, ..Packing::default() };
    let split = split(&[(TWIN, fixture::twin())], &Settings { packing, ..Settings::default() });
    assert_eq!(split.differences(), Vec::<String>::new());
    split
}

fn fat(bytes: &[u8]) -> FatBinary {
    FatBinary::read(&bytes.to_vec(), bytes.len() as u64).unwrap().unwrap()
}

/// Damages the host file and returns the differences that the check finds.
fn host(spoil: impl FnOnce(&mut Vec<u8>, &FatBinary)) -> Vec<String> {
    let mut split = twin(Scheme::ZstdPerKernel);
    let bytes = split.after.get_mut(TWIN).unwrap();
    let found = fat(bytes);
    spoil(bytes, &found);
    let differences = split.differences();
    assert!(!differences.is_empty(), "the check saw nothing");
    differences
}

/// Writes an archive again with other contents and returns the differences that the check finds.
fn archive(target: &str, change: impl Fn(&str, u32, Vec<u8>) -> Option<(u32, Vec<u8>)>) -> Vec<String> {
    let mut split = twin(Scheme::None);
    let path = format!(".kpack/test_lib_{target}.kpack");
    let bytes = split.after[&path].clone();
    let old = KpackArchive::open(&bytes, bytes.len() as u64).unwrap();
    let out = std::io::Cursor::new(Vec::new());
    let mut new = ArchiveWriter::new(out, &old.group, &old.family, &old.targets, Scheme::None).unwrap();
    for entry in old.entries() {
        let code = old.read(&bytes, &entry).unwrap();
        if let Some((index, code)) = change(entry.name, entry.index.unwrap(), code) {
            new.add(entry.name, index, entry.target, &Blob::pack(&code, Scheme::None, 3).unwrap()).unwrap();
        }
    }
    split.after.insert(path, new.finish().unwrap().into_inner());
    let differences = split.differences();
    assert!(!differences.is_empty(), "the check saw nothing");
    differences
}

fn find(bytes: &[u8], name: &str) -> rocwheel_elf::Section {
    let elf = rocwheel_elf::Elf::read(&bytes.to_vec()).unwrap().unwrap();
    elf.sections.into_iter().find(|section| section.name == name).unwrap()
}

fn section(bytes: &[u8], name: &str) -> usize {
    find(bytes, name).offset as usize
}

fn size(bytes: &[u8], name: &str) -> usize {
    find(bytes, name).size as usize
}

#[test]
fn two_indices_swapped() {
    let differences = host(|bytes, fat| {
        for (wrapper, index) in fat.wrappers.iter().zip([1_u64, 0]) {
            bytes[wrapper.offset as usize + 16..][..8].copy_from_slice(&index.to_le_bytes());
        }
    });
    let about = |wrapper: usize, target: &str| {
        let start = format!("`lib/twin.so`, wrapper {wrapper}, {target}: the code object in ");
        assert!(differences.iter().any(|said| said.starts_with(&start)), "{start} {differences:#?}");
    };
    for wrapper in [0, 1] {
        about(wrapper, "gfx942");
        about(wrapper, "gfx1100");
    }
    assert_eq!(differences.len(), 4, "{differences:#?}");
}

#[test]
fn a_symbol_elsewhere() {
    for table in [".symtab", ".dynsym"] {
        let differences = host(|bytes, _| {
            // This is the value of the last symbol.
            let end = section(bytes, table) + size(bytes, table);
            bytes[end - 16] ^= 1;
        });
        let said = |text: &String| text.contains(&format!(" of `{table}` differs"));
        assert!(differences.iter().any(said), "{differences:#?}");
    }
}

#[test]
fn indices_swapped_between_units_with_different_targets() {
    let mut split = split(&[("lib/uneven.so", fixture::uneven())], &Settings::default());
    let bytes = split.after.get_mut("lib/uneven.so").unwrap();
    for (wrapper, index) in fat(bytes).wrappers.iter().zip([1_u64, 0]) {
        bytes[wrapper.offset as usize + 16..][..8].copy_from_slice(&index.to_le_bytes());
    }
    let differences = split.differences();
    let said = "`lib/uneven.so`, wrapper 1, gfx942: the archive `.kpack/test_lib_set2_gfx942.kpack` lacks \
                `stage/lib/uneven.so#0` for gfx942";
    assert!(differences.iter().any(|difference| difference == said), "{differences:#?}");
}

#[test]
fn a_code_object_dropped() {
    let differences = archive("gfx942", |_, index, code| (index == 0).then_some((index, code)));
    assert_eq!(
        differences,
        [
            "`lib/twin.so`, wrapper 1, gfx942: the archive `.kpack/test_lib_gfx942.kpack` lacks `stage/lib/twin.so#1` for \
          gfx942"
        ]
    );
}

#[test]
fn a_code_object_that_nobody_asks_for() {
    let mut split = twin(Scheme::None);
    let path = ".kpack/test_lib_gfx942.kpack";
    let bytes = split.after[path].clone();
    let old = KpackArchive::open(&bytes, bytes.len() as u64).unwrap();
    let mut new =
        ArchiveWriter::new(std::io::Cursor::new(Vec::new()), "x", "gfx942", &old.targets, Scheme::None).unwrap();
    for entry in old.entries() {
        let blob = Blob::pack(&old.read(&bytes, &entry).unwrap(), Scheme::None, 3).unwrap();
        new.add(entry.name, entry.index, entry.target, &blob).unwrap();
        new.add("stage/lib/other.so", entry.index, entry.target, &blob).unwrap();
    }
    split.after.insert(path.into(), new.finish().unwrap().into_inner());
    assert_eq!(
        split.differences(),
        [0, 1].map(|index| format!(
            "`{path}`, gfx942: holds `stage/lib/other.so#{index}`, which no wrapper of the original asks for"
        ))
    );
}

#[test]
fn a_byte_flipped_in_an_archive() {
    let differences = archive("gfx1100", |_, index, mut code| {
        if index == 1 {
            code[1000] ^= 1;
        }
        Some((index, code))
    });
    let said =
        "`lib/twin.so`, wrapper 1, gfx1100: the code object in `.kpack/test_lib_gfx1100.kpack` differs at byte 1000";
    assert_eq!(differences, [said]);

    let mut split = twin(Scheme::ZstdPerKernel);
    let bytes = split.after.get_mut(".kpack/test_lib_gfx1100.kpack").unwrap();
    bytes[64 + 8 + 40] ^= 0x10;
    let differences = split.differences();
    assert_eq!(differences.len(), 1, "{differences:#?}");
    assert!(differences[0].starts_with("`lib/twin.so`, wrapper 0, gfx1100: "), "{differences:#?}");

    let mut split = twin(Scheme::ZstdPerKernel);
    split.after.get_mut(".kpack/test_lib_gfx1100.kpack").unwrap()[0] ^= 1;
    let differences = split.differences();
    assert!(differences.iter().any(|said| said.starts_with("`.kpack/test_lib_gfx1100.kpack`: ")), "{differences:#?}");
    let start = "`lib/twin.so`, wrapper 0, gfx1100: could not read the GPU code of `.kpack/test_lib_gfx1100.kpack`: ";
    assert!(differences.iter().any(|said| said.starts_with(start)), "{differences:#?}");
}

#[test]
fn a_marker_that_leads_elsewhere() {
    let differences = host(|bytes, fat| {
        let marker = &mut bytes[fat.markers[0].1 as usize..];
        let place = marker.windows(8).position(|window| window == b"test_lib").unwrap();
        marker[place] = b'x';
    });
    let said = "`lib/twin.so`, wrapper 0, gfx942: the runtime finds no archive for it: the marker says \
                `../.kpack/xest_lib_@GFXARCH@.kpack`";
    assert!(differences.iter().any(|difference| difference == said), "{differences:#?}");
    // Archives that no marker leads to are reported as well.
    assert!(differences.iter().any(|said| said.contains("which no wrapper")), "{differences:#?}");
}

#[test]
fn a_wrapper_that_stayed_fat() {
    let differences = host(|bytes, fat| {
        bytes[fat.wrappers[1].offset as usize..][..4].copy_from_slice(b"FPIH");
    });
    let said = "`lib/twin.so`, wrapper 1: still says that its code is in the file (HIPF)";
    assert!(differences.iter().any(|difference| difference == said), "{differences:#?}");
}

#[test]
fn a_host_file_that_was_not_split() {
    let mut split = twin(Scheme::ZstdPerKernel);
    split.after.insert(TWIN.into(), fixture::twin());
    let differences = split.differences();
    for said in [
        "`lib/twin.so`: bundle 0 is still in the file, with code for gfx1100, gfx942",
        "`lib/twin.so`, wrapper 0: still says that its code is in the file (HIPF)",
    ] {
        assert!(differences.iter().any(|difference| difference == said), "{differences:#?}");
    }
}

#[test]
fn host_bytes_changed() {
    for name in [".text", ".rodata", ".dynsym", ".dynstr", ".eh_frame", ".data.rel.ro", ".init_array", ".comment"] {
        let differences = host(|bytes, _| {
            let place = section(bytes, name) + 9;
            bytes[place] ^= 1;
        });
        assert!(
            differences[0].starts_with("`lib/twin.so`: ") && differences[0].contains(name),
            "{name}: {differences:?}"
        );
    }
}

#[test]
fn headers_changed() {
    // The cases are the tag of the first entry of the dynamic section, a relocation, and the entry
    // point.
    let differences = host(|bytes, _| {
        let place = section(bytes, ".rela.dyn") + 16;
        bytes[place] ^= 8;
    });
    assert!(differences[0].contains("the relocation of 0x"), "{differences:?}");
    let differences = host(|bytes, _| bytes[24] ^= 1);
    assert_eq!(differences, ["`lib/twin.so`: the ELF header differs between bytes 0 and 32"]);
    let differences = host(|bytes, _| {
        let place = section(bytes, ".symtab") + 24 * 5 + 8;
        bytes[place] ^= 1;
    });
    assert_eq!(differences, ["`lib/twin.so`: symbol 5 of `.symtab` differs"]);
}

#[test]
fn something_left_in_the_section() {
    let differences = host(|bytes, fat| {
        // The section's header claims a little more than the marker, and the additional bytes are
        // not zero.
        let marker = fat.markers[0].0.encode().unwrap().len() as u64;
        let end = fat.markers[0].1 + marker;
        let headers = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
        let size = |place: usize| headers + place * 64 + 32;
        let count = usize::from(u16::from_le_bytes(bytes[60..62].try_into().unwrap()));
        let length = fat.section.end - fat.section.start;
        let place = (0..count).find(|place| bytes[size(*place)..][..8] == length.to_le_bytes()).unwrap();
        bytes[size(place)..][..8].copy_from_slice(&(length + 8).to_le_bytes());
        bytes[end as usize] = 7;
    });
    let said = "something other than a marker is left at byte";
    assert!(differences.iter().any(|difference| difference.contains(said)), "{differences:#?}");
}

#[test]
fn files_that_are_gone_new_or_changed() {
    let files = [(TWIN, fixture::twin()), ("share/readme", b"text".to_vec()), ("share/other", b"text".to_vec())];
    let mut split = split(&files, &Settings::default());
    split.after.remove("share/readme");
    split.after.insert("share/other".into(), b"tent".to_vec());
    split.after.insert("share/new".into(), b"x".to_vec());
    assert_eq!(
        split.differences(),
        ["`share/new`: was not there before", "`share/other`: differs at byte 2", "`share/readme`: is gone"]
    );
    split.after.remove(TWIN);
    assert!(split.differences().contains(&"`lib/twin.so`: is gone".to_owned()));
}

#[test]
fn an_archive_that_lacks_one_of_its_targets_for_a_binary() {
    let mut split = split(&[("lib/uneven.so", fixture::uneven())], &Settings::default());
    // Wrapper 0 has no code for gfx942; now an archive that its marker leads to has some (pitfalls
    // 9).
    let other = split.after[".kpack/test_lib_set2_gfx942.kpack"].clone();
    split.after.insert(".kpack/test_lib_gfx942.kpack".into(), other);
    let differences = split.differences();
    let said = "`lib/uneven.so`, wrapper 0, gfx942: `.kpack/test_lib_gfx942.kpack` lacks `stage/lib/uneven.so#0`: the \
                runtime gives up on all GPUs there";
    assert!(differences.iter().any(|difference| difference == said), "{differences:#?}");
}

#[test]
fn unreadable_input_is_an_error_and_not_a_difference() {
    let mut bytes = fixture::twin();
    let place = fat(&bytes).section.start as usize;
    bytes[place] ^= 1;
    let before = view([("x.so".to_owned(), bytes)]);
    let checks = Checks { selection: &TargetSelection::ALL, ..Checks::default() };
    let error = rocwheel_split::verify(&before, &before, &checks, &Silent).unwrap_err();
    assert_eq!(error.to_string(), "could not read the GPU code of `x.so`");
}

/// Gives the file a section table with one more section, whose bytes begin at `offset`.
fn with_section(bytes: &mut Vec<u8>, name: &str, offset: u64, size: u64) {
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let short = |bytes: &[u8], at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
    let (start, count) = (word(bytes, 40) as usize, usize::from(short(bytes, 60)));
    let names = start + 64 * usize::from(short(bytes, 62));
    let (from, length) = (word(bytes, names + 24) as usize, word(bytes, names + 32) as usize);
    let mut texts = bytes[from..from + length].to_vec();
    texts.extend(name.bytes().chain([0]));
    let mut table = bytes[start..start + 64 * count].to_vec();
    let place = names - start;
    table[place + 24..place + 32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    table[place + 32..place + 40].copy_from_slice(&(texts.len() as u64).to_le_bytes());
    let mut header = [0; 64];
    header[..4].copy_from_slice(&(length as u32).to_le_bytes());
    header[4] = 1;
    header[24..32].copy_from_slice(&offset.to_le_bytes());
    header[32..40].copy_from_slice(&size.to_le_bytes());
    table.extend(header);
    bytes.extend(texts);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let start = bytes.len() as u64;
    bytes.extend(table);
    bytes[40..48].copy_from_slice(&start.to_le_bytes());
    bytes[60..62].copy_from_slice(&(count as u16 + 1).to_le_bytes());
}

/// Existing tools give the marker a section, which is not a difference; any other section is.
#[test]
fn a_section_of_the_marker() {
    let mut split = twin(Scheme::ZstdPerKernel);
    let offset = fat(&split.after[TWIN]).markers[0].1;
    with_section(split.after.get_mut(TWIN).unwrap(), ".rocm_kpack_ref", offset, 16);
    assert_eq!(split.differences(), Vec::<String>::new());
    let said = host(|bytes, _| with_section(bytes, ".rocm_kpack_ref", 64, 16));
    assert!(said[0].contains("it has a section `.rocm_kpack_ref`, which it had not"), "{said:?}");
    let said = host(|bytes, found| with_section(bytes, ".other", found.markers[0].1, 16));
    assert!(said[0].contains("it has a section `.other`, which it had not"), "{said:?}");
}
