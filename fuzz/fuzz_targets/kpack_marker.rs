//! Reads arbitrary bytes as the marker of a split binary, as they are and behind the start of one,
//! and writes what was read: never a panic, never another content. See elf_edit.rs for how to run
//! it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocwheel_kpack::Marker;

fn check(bytes: &[u8]) {
    let Ok((marker, length)) = Marker::decode_prefix(bytes) else { return };
    assert!(length <= bytes.len());
    assert_eq!(Marker::decode(&bytes[..length]).expect("a marker ends where it says"), marker);
    assert!(!marker.kernel_name.is_empty() && !marker.search_paths.is_empty());
    if let Ok(written) = marker.encode() {
        assert_eq!(Marker::decode_prefix(&written).expect("what is written can be read"), (marker, written.len()));
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&[b"\x82\xb2kpack_search_paths", bytes].concat());
    check(&[b"\x83\xabkernel_name\xa1x\xb2kpack_search_paths\x91\xa1p", bytes].concat());
});
