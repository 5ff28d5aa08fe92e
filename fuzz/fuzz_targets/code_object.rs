//! Reads arbitrary bytes as an AMDGPU ELF file, as they are, as the notes of one and as the
//! metadata in its note: never a panic, never another answer the second time. See elf_edit.rs for
//! how to run it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocwheel_kpack::CodeObject;
use rocwheel_kpack::code_object::MetadataFormat;

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// The headers of a code object whose one segment is `notes`.
fn with_headers(notes: &[u8], flags: u32, abi: u8) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\x40".to_vec();
    bytes.push(abi);
    bytes.resize(16, 0);
    // A shared object for machine 224, and where its program header is.
    bytes.extend(3_u16.to_le_bytes());
    bytes.extend(224_u16.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend((HEADER as u64).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(flags.to_le_bytes());
    for value in [HEADER as u16, PROGRAM_HEADER as u16, 1, 64, 0, 0] {
        bytes.extend(value.to_le_bytes());
    }
    let offset = (HEADER + PROGRAM_HEADER) as u64;
    bytes.extend(4_u32.to_le_bytes());
    bytes.extend(4_u32.to_le_bytes());
    for value in [offset, offset, offset, notes.len() as u64, notes.len() as u64, 4] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(notes);
    bytes
}

/// One note with this content.
fn note(name: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((name.len() as u32).to_le_bytes());
    bytes.extend((content.len() as u32).to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend(name);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let flags = u32::from(*mode) | u32::from(rest.first().copied().unwrap_or_default()) << 8;
    let kernels = [b"\x81\xaeamdhsa.kernels".as_slice(), rest].concat();
    let bytes = match mode % 6 {
        0 => rest.to_vec(),
        1 => with_headers(rest, flags, 2),
        2 => with_headers(&note(b"AMDGPU\0", 32, rest), flags, 2),
        3 => with_headers(&note(b"AMDGPU\0", 32, &kernels), flags, 3),
        4 => with_headers(&note(b"AMD\0", 10, rest), flags, 0),
        _ => with_headers(&[note(b"AMD\0", 3, rest), note(b"AMD\0", 11, rest)].concat(), flags, 0),
    };
    let bytes = bytes.as_slice();
    let Ok(Some(object)) = CodeObject::read(&bytes) else { return };
    assert_eq!(CodeObject::read(&bytes).expect("it was read once").as_ref(), Some(&object));
    // Kernels come from the note only, and each of them takes some bytes there.
    assert!(object.kernels.len() <= bytes.len());
    assert!(object.kernels.is_empty() || object.metadata == MetadataFormat::MessagePack);
});
