//! Markers that are written and read back, in the described format, damaged, and too large.

#![allow(clippy::unwrap_used, reason = "a test file")]

use proptest::prelude::*;
use rocwheel_kpack::Marker;
use rocwheel_kpack::marker::MAX_SIZE;

fn marker() -> Marker {
    Marker { kernel_name: "lib/a.so".into(), search_paths: vec!["../.kpack/g_@GFXARCH@.kpack".into()] }
}

/// [`marker`] in the described format: a map of two, the paths first.
const BYTES: &[u8] = b"\x82\xb2kpack_search_paths\x91\xbb../.kpack/g_@GFXARCH@.kpack\xabkernel_name\xa8lib/a.so";

#[test]
fn a_marker_has_the_bytes_that_the_existing_tools_write() {
    assert_eq!(marker().encode().unwrap(), BYTES);
    assert_eq!(Marker::decode(BYTES).unwrap(), marker());
}

#[test]
fn a_marker_may_be_followed_by_anything_and_have_more_keys() {
    let page = [BYTES, &[0; 4096]].concat();
    assert_eq!(Marker::decode_prefix(&page).unwrap(), (marker(), BYTES.len()));
    let mut more = [b"\x83\xa5build\x92\x01\xc0", &BYTES[1..]].concat();
    assert_eq!(Marker::decode(&more).unwrap(), marker());
    more.truncate(more.len() - 1);
    assert!(Marker::decode(&more).is_err());
}

#[test]
fn what_the_loader_refuses_is_refused() {
    let text = |bytes: &[u8]| Marker::decode(bytes).unwrap_err().to_string();
    for (bytes, reason) in [
        (&b""[..], "it ends within the marker (byte 0)"),
        (b"\0", "the marker is not a map (byte 0)"),
        (b"\x80", "it has no `kernel_name`"),
        (b"\x81\xabkernel_name\xa1a", "it has no `kpack_search_paths`"),
        (b"\x82\xabkernel_name\xa1a\xabkernel_name\xa1b", "it has `kernel_name` twice"),
        (b"\x82\xabkernel_name\xa0\xb2kpack_search_paths\x91\xa1p", "its `kernel_name` is empty"),
        (b"\x82\xabkernel_name\xa1a\xb2kpack_search_paths\x90", "its `kpack_search_paths` is empty"),
        (b"\x82\xabkernel_name\xa1a\xb2kpack_search_paths\x91\xa0", "its `kpack_search_paths` has an empty path"),
        (b"\x82\xabkernel_name\xa1a\xb2kpack_search_paths\x91\x01", "a search path is not a text (byte 35)"),
        (b"\x82\xabkernel_name\xa1a\xb2kpack_search_paths\xa1p", "`kpack_search_paths` is not an array (byte 34)"),
        (b"\x82\xabkernel_name\x07\xb2kpack_search_paths\x91\xa1p", "`kernel_name` is not a text (byte 13)"),
        (b"\x81\x01\x02", "a key is not a text (byte 1)"),
    ] {
        assert_eq!(text(bytes), format!("malformed kpack marker: {reason}"));
    }
    for length in 0..BYTES.len() {
        assert!(Marker::decode(&BYTES[..length]).is_err(), "{length}");
    }
}

#[test]
fn what_the_loader_would_not_find_is_not_written() {
    let text = |change: &dyn Fn(&mut Marker)| {
        let mut marker = marker();
        change(&mut marker);
        marker.encode().unwrap_err().to_string()
    };
    assert!(text(&|marker| marker.kernel_name.clear()).contains("`kernel_name` is empty"));
    assert!(text(&|marker| marker.search_paths.clear()).contains("`kpack_search_paths` is empty"));
    assert!(text(&|marker| marker.search_paths.push(String::new())).contains("an empty path"));
    assert!(text(&|marker| marker.search_paths[0].push_str("@GFXARCH@")).contains("twice"));
    assert!(text(&|marker| marker.kernel_name.push('\0')).contains(r"`lib/a.so\0` has a zero byte"));
}

#[test]
fn a_marker_has_less_than_64_kib() {
    let mut largest = marker();
    largest.kernel_name.clear();
    // A long string has three bytes before it; an empty one would have one.
    let rest = BYTES.len() - "lib/a.so".len() + 2;
    largest.kernel_name = "x".repeat(MAX_SIZE - 1 - rest);
    let bytes = largest.encode().unwrap();
    assert_eq!(bytes.len(), MAX_SIZE - 1);
    assert_eq!(Marker::decode(&bytes).unwrap(), largest);
    largest.kernel_name.push('x');
    let error = largest.encode().unwrap_err().to_string();
    assert_eq!(error, "malformed kpack marker: it has 65536 bytes, and the loader reads less than 65536");
    let long = [&[0x82, 0xab][..], b"kernel_name", &[0xdb, 0, 1, 0, 0], &vec![b'x'; 1 << 17]].concat();
    assert!(Marker::decode(&long).unwrap_err().to_string().contains("it ends within `kernel_name`"));
}

proptest! {
    #[test]
    fn any_marker_comes_back(kernel_name in "[^\0]{1,300}", search_paths in proptest::collection::vec("[^\0@]{1,300}", 1..20)) {
        let marker = Marker { kernel_name, search_paths };
        prop_assert_eq!(Marker::decode(&marker.encode().unwrap()).unwrap(), marker);
    }

    #[test]
    fn damage_never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0_usize..80, value: u8) {
        let _ = Marker::decode(&bytes);
        bytes = BYTES.to_vec();
        bytes[at % BYTES.len()] = value;
        let _ = Marker::decode(&bytes);
    }
}
