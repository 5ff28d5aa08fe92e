//! Reads arbitrary bytes as a kpack archive, whole or as its table of contents or a part of that,
//! reads its code objects, and writes them again: never a panic, never another content. See
//! elf_edit.rs for how to run it.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use rocwheel_kpack::{ArchiveWriter, KpackArchive};

/// The table up to its code objects, and of a compressed archive's up to the list of targets.
const TABLE: &[u8] = b"\x87\xaagroup_name\xa1g\xafgfx_arch_family\xa1f\xb2compression_scheme\xafzstd-per-kernel\
    \xabzstd_offset\x40\xa9zstd_size\xcc";
const CODE_OBJECTS: &[u8] = b"\xaagfx_arches\x92\xa6gfx906\xadgfx90a:xnack+\xa3toc";
const LISTED: &[u8] = b"\x86\xaagroup_name\xa1g\xafgfx_arch_family\xa1f\xb2compression_scheme\xa4none\
    \xaagfx_arches\x92\xa6gfx906\xadgfx90a:xnack+\xa5blobs\x92\x82\xa6offset\x40\xa4size\x04\x82\xa6offset\x44\xa4size\x08\
    \xa3toc";

/// A header, three frames, and the bytes as the table or its end; or the bytes as they are.
fn archive(mode: u8, rest: &[u8]) -> Vec<u8> {
    if mode % 5 == 0 {
        return rest.to_vec();
    }
    let mut blobs = 3_u32.to_le_bytes().to_vec();
    for size in [0, 5, 300] {
        let frame = zstd::bulk::compress(&vec![7; size], 1).expect("memory is enough");
        blobs.extend((frame.len() as u32).to_le_bytes());
        blobs.extend(frame);
    }
    let mut bytes = b"KPAK".to_vec();
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend((64 + blobs.len() as u64).to_le_bytes());
    bytes.resize(64, 0);
    bytes.extend(&blobs);
    match mode % 5 {
        1 => {}
        2 => bytes.extend(LISTED),
        3 => bytes.extend([TABLE, &[blobs.len() as u8]].concat()),
        _ => bytes.extend([TABLE, &[blobs.len() as u8], CODE_OBJECTS].concat()),
    }
    bytes.extend(rest);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let bytes = archive(*mode, rest);
    let bytes = bytes.as_slice();
    let Ok(archive) = KpackArchive::open(&bytes, bytes.len() as u64) else { return };
    let out = Cursor::new(Vec::new());
    let mut writer = ArchiveWriter::new(out, &archive.group, &archive.family, &archive.targets, archive.scheme).ok();
    for located in archive.entries() {
        let found = archive.find(located.name, located.index, located.target);
        assert_eq!(found, Some(located));
        assert!(located.offset + located.size <= bytes.len() as u64);
        if let Ok(code) = archive.read(&bytes, &located) {
            assert_eq!(code.len() as u64, located.original_size);
        }
        let blob = archive.blob(&bytes, &located).expect("what is listed lies in the file");
        // Refused are targets that the archive does not name.
        writer = writer.and_then(|mut writer| {
            let added = writer.add(located.name, located.index, located.target, &blob);
            added.is_ok().then_some(writer)
        });
    }
    let Some(Ok(written)) = writer.map(ArchiveWriter::finish) else { return };
    let written = written.into_inner();
    let again = KpackArchive::open(&written.as_slice(), written.len() as u64).expect("what is written can be read");
    assert!(again.targets == archive.targets && again.group == archive.group);
    let list = |archive: &KpackArchive, bytes: &[u8]| -> Vec<_> {
        let kept = |located| archive.blob(&bytes, &located).expect("what is listed lies in the file");
        archive.entries().map(|each| (each.name.to_owned(), each.index, each.target.to_owned(), kept(each))).collect()
    };
    assert!(list(&again, &written) == list(&archive, bytes));
});
