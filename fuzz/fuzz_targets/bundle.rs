//! Reads arbitrary bytes as a section of offload bundles, plain and compressed, visits the code
//! objects, and writes what was found: never a panic, never another content. See elf_edit.rs for
//! how to run it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rocwheel_kpack::bundle::{self, BundleForm, Checksum, Limits, Method, Part};
use rocwheel_kpack::{Bundle, Error};

/// Small, so that a run tests a limit and not the machine's patience. No input would ever fit a
/// checksum.
const LIMITS: Limits = Limits { uncompressed: 1 << 20, code_object: 1 << 18, checksum: Checksum::Skip };

const FORMS: [BundleForm; 4] = [
    BundleForm::Plain,
    BundleForm::Compressed { version: 1, method: Method::Zlib, level: 1 },
    BundleForm::Compressed { version: 2, method: Method::Zstd, level: 1 },
    BundleForm::Compressed { version: 3, method: Method::Zstd, level: 1 },
];

/// The bytes behind what a reader wants to see first, so that most inputs get past it.
fn section(mode: u8, rest: &[u8]) -> Vec<u8> {
    let plain = || [b"__CLANG_OFFLOAD_BUNDLE__".as_slice(), rest].concat();
    let compressed = |version: u16, method: u16, size: usize, payload: &[u8]| {
        let mut bytes = b"CCOB".to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(method.to_le_bytes());
        match version {
            1 => bytes.extend((size as u32).to_le_bytes()),
            2 => {
                bytes.extend((payload.len() as u32 + 24).to_le_bytes());
                bytes.extend((size as u32).to_le_bytes());
            }
            _ => {
                bytes.extend((payload.len() as u64 + 32).to_le_bytes());
                bytes.extend((size as u64).to_le_bytes());
            }
        }
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes
    };
    let version = u16::from(mode >> 4) % 3 + 1;
    match mode & 7 {
        0 => rest.to_vec(),
        1 => plain(),
        2 => {
            let content = plain();
            let payload = zstd::bulk::compress(&content, 1).expect("memory is enough");
            compressed(version, 1, content.len(), &payload)
        }
        3 => compressed(version, 0, rest.len() * 3, rest),
        4 => compressed(version, 1, rest.len() * 3, rest),
        _ => [b"CCOB".as_slice(), rest].concat(),
    }
}

fn visit(bundle: &Bundle, bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut found = Vec::new();
    bundle.visit_within(&bytes, 0..bytes.len() as u64, LIMITS, |entry, code| {
        assert_eq!(code.len() as u64, entry.size);
        let _ = entry.target();
        found.push((entry.id.clone(), code.to_vec()));
        Ok::<(), Error>(())
    })?;
    Ok(found)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    let bytes = section(*mode, rest);
    let Ok(bundles) = bundle::read(&bytes.as_slice(), 0..bytes.len() as u64) else { return };
    let mut end = 0;
    for bundle in &bundles {
        assert!(bundle.offset >= end && bundle.length > 0);
        end = bundle.offset + bundle.length;
        assert!(end <= bytes.len() as u64);
        let Ok(found) = visit(bundle, &bytes) else { continue };
        let parts: Vec<_> =
            found.iter().map(|(id, code)| Part { id, size: code.len() as u64, content: code }).collect();
        let mut written = Vec::new();
        // Refused are ids that are there twice, which a reader takes.
        if bundle::write(&parts, FORMS[usize::from(mode >> 6)], &mut written).is_err() {
            continue;
        }
        let again = bundle::read(&written.as_slice(), 0..written.len() as u64).expect("what is written can be read");
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].length, written.len() as u64);
        assert!(visit(&again[0], &written).expect("what is written can be visited") == found);
    }
});
