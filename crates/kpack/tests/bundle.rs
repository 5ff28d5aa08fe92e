//! The bundle reader on sections made here: plain, compressed in each version, mixed, cut and damaged.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::collections::BTreeSet;
use std::io::Write;

use kpack::bundle::{self, Method};
use kpack::{Bundle, Error};
use proptest::prelude::*;

const HOST: &str = "host-x86_64-unknown-linux--";

/// A plain bundle with one code object of `size` bytes for each target.
fn plain(targets: &[&str], size: u64) -> Vec<u8> {
    let ids: Vec<String> = targets.iter().map(|target| format!("hipv4-amdgcn-amd-amdhsa--{target}")).collect();
    let mut table = Vec::new();
    table.extend(b"__CLANG_OFFLOAD_BUNDLE__");
    table.extend((ids.len() as u64 + 1).to_le_bytes());
    let mut entry = |offset: u64, size: u64, id: &str| {
        for number in [offset, size, id.len() as u64] {
            table.extend(number.to_le_bytes());
        }
        table.extend(id.as_bytes());
    };
    entry(4096, 0, HOST);
    for (index, id) in ids.iter().enumerate() {
        entry(8192 * (index as u64 + 1), size, id);
    }
    let mut bytes = table;
    for index in 0..ids.len() {
        bytes.resize(8192 * (index + 1), 0);
        bytes.extend(std::iter::repeat_n(index as u8 ^ 0x5a, size as usize));
    }
    bytes
}

fn compressed(version: u16, method: Method, content: &[u8]) -> Vec<u8> {
    let (number, payload) = match method {
        Method::Zstd => (1_u16, zstd::bulk::compress(content, 3).unwrap()),
        Method::Zlib => {
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(content).unwrap();
            (0, encoder.finish().unwrap())
        }
    };
    let mut bytes = b"CCOB".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    let size = content.len() as u64;
    match version {
        1 => bytes.extend((size as u32).to_le_bytes()),
        2 => {
            bytes.extend((payload.len() as u32 + 24).to_le_bytes());
            bytes.extend((size as u32).to_le_bytes());
        }
        _ => {
            bytes.extend((payload.len() as u64 + 32).to_le_bytes());
            bytes.extend(size.to_le_bytes());
        }
    }
    bytes.extend([0; 8]); // The hash is not ours to check.
    bytes.extend(payload);
    bytes
}

/// Bundles as a linker lays them out, with something else before and behind the section.
fn section(bundles: &[Vec<u8>]) -> (Vec<u8>, std::ops::Range<u64>) {
    let mut file = vec![0xaa; 8192];
    for bundle in bundles {
        file.resize(file.len().next_multiple_of(4096), 0);
        file.extend(bundle);
    }
    let end = file.len() as u64;
    file.extend([0xbb; 100]);
    (file, 8192..end)
}

fn read(bundles: &[Vec<u8>]) -> Result<Vec<Bundle>, Error> {
    let (file, range) = section(bundles);
    bundle::read(&file.as_slice(), range)
}

#[test]
fn plain_and_compressed_bundles_stand_side_by_side() {
    let content = plain(&["gfx90a:xnack+", "gfx90a:xnack-", "gfx1100"], 5000);
    let mut bundles = vec![plain(&["gfx803"], 10)];
    for version in 1..=3 {
        for method in [Method::Zlib, Method::Zstd] {
            bundles.push(compressed(version, method, &content));
        }
    }
    bundles.push(plain(&["gfx942"], 4096));
    let found = read(&bundles).unwrap();
    assert_eq!(found.len(), 8);
    for bundle in &found[1..7] {
        assert_eq!(bundle.entries.len(), 4);
        assert_eq!(bundle.compression.unwrap().uncompressed, content.len() as u64);
        assert_eq!(bundle.entries[0].target(), None);
        assert_eq!(bundle.entries[3].target(), Some("gfx1100"));
        assert_eq!((bundle.entries[3].offset, bundle.entries[3].size), (3 * 8192, 5000));
    }
    let (file, range) = section(&bundles);
    let targets: Vec<String> = bundle::targets(&file.as_slice(), range).unwrap().into_iter().collect();
    assert_eq!(targets, ["gfx1100", "gfx803", "gfx90a:xnack+", "gfx90a:xnack-", "gfx942"]);
}

#[test]
fn an_empty_section_and_a_section_of_zeros_have_no_bundles() {
    assert_eq!(bundle::read(&[0_u8; 100].as_slice(), 0..0).unwrap(), []);
    assert_eq!(bundle::read(&[0_u8; 9000].as_slice(), 0..9000).unwrap(), []);
}

#[test]
fn an_entry_without_code_is_no_target() {
    let (file, range) = section(&[plain(&["gfx906"], 0)]);
    assert_eq!(bundle::targets(&file.as_slice(), range).unwrap(), BTreeSet::new());
}

#[test]
fn wrong_data_is_an_error_that_says_where() {
    let bundle = plain(&["gfx906"], 100);
    let text = |bundles: &[Vec<u8>]| read(bundles).unwrap_err().to_string();
    assert_eq!(text(&[b"HIPK".to_vec()]), "no offload bundle at offset 0x0 of the fat binary section");
    assert!(text(&[bundle.clone(), b"junk".to_vec()]).contains("offset 0x3000"));
    assert!(text(&[bundle[..40].to_vec()]).contains("ends within its entry table"));
    assert!(text(&[bundle[..8250].to_vec()]).contains("reaches beyond the bundle"));
    let mut many = bundle.clone();
    many[24..32].fill(0xff);
    assert!(text(&[many]).contains("claims 18446744073709551615 entries"));
    let mut long = bundle.clone();
    long[48..56].fill(0x7f);
    assert!(text(&[long]).contains("a name of"));
    let good = compressed(2, Method::Zstd, &bundle);
    let mut version = good.clone();
    version[4] = 9;
    assert!(matches!(read(&[version]), Err(Error::Unsupported { field: "version", value: 9, .. })));
    let mut method = good.clone();
    method[6] = 7;
    assert!(matches!(read(&[method]), Err(Error::Unsupported { field: "method", value: 7, .. })));
    let mut huge = good.clone();
    huge[8..12].fill(0xff);
    assert!(text(&[huge]).contains("does not fit the section"));
    let mut damaged = good;
    damaged[24..28].fill(0);
    assert!(matches!(read(&[damaged]), Err(Error::Read { .. })));
}

#[test]
fn a_range_beyond_the_file_is_an_error() {
    let bundle = plain(&["gfx906"], 100);
    assert!(bundle::read(&bundle.as_slice(), 0..1 << 40).is_err());
    assert!(bundle::read(&bundle.as_slice(), u64::MAX - 1..u64::MAX).is_err());
}

proptest! {
    #[test]
    fn damage_never_panics(at in 0_usize..8400, value: u8, version in 1_u16..4, cut in 0_usize..8400) {
        let bundle = plain(&["gfx906", "gfx90a:xnack+"], 100);
        for mut bytes in [bundle.clone(), compressed(version, Method::Zstd, &bundle)] {
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(cut.max(1));
            let _ = read(&[bytes]);
        }
    }
}
