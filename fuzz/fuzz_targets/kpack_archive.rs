//! Reads arbitrary bytes as a kpack archive, whole or as the table of contents of one, reads its code objects, and writes
//! them again: never a panic, never another content. See elf_edit.rs for how to run it.
#![no_main]

use std::io::Cursor;

use kpack::{Archive, ArchiveWriter};
use libfuzzer_sys::fuzz_target;

/// A header, three frames, and the bytes as the table; or the bytes as they are.
fn archive(mode: u8, rest: &[u8]) -> Vec<u8> {
    if mode & 1 == 0 {
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
    bytes.extend(blobs);
    bytes.extend(rest);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let bytes = archive(*mode, rest);
    let bytes = bytes.as_slice();
    let Ok(archive) = Archive::open(&bytes, bytes.len() as u64) else { return };
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
    let again = Archive::open(&written.as_slice(), written.len() as u64).expect("what is written can be read");
    assert!(again.targets == archive.targets && again.group == archive.group);
    let list = |archive: &Archive, bytes: &[u8]| -> Vec<_> {
        let kept = |located| archive.blob(&bytes, &located).expect("what is listed lies in the file");
        archive.entries().map(|each| (each.name.to_owned(), each.index, each.target.to_owned(), kept(each))).collect()
    };
    assert!(list(&again, &written) == list(&archive, bytes));
});
