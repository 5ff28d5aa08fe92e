//! The bundle reader on sections made here: plain, compressed in each version, mixed, cut and
//! damaged.

#![allow(clippy::unwrap_used, reason = "a test file")]

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use md5::{Digest, Md5};
use positioned_io::ReadAt;
use proptest::prelude::*;
use rocwheel_kpack::bundle::{self, BundleForm, Checksum, Limits, Method, Part};
use rocwheel_kpack::{Bundle, Error};

const HOST: &str = "host-x86_64-unknown-linux--";

/// Creates a plain bundle with one code object of `size` bytes for each target.
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
    bytes.extend(&Md5::digest(content)[..8]);
    bytes.extend(payload);
    bytes
}

/// Lays out bundles like a linker, with other bytes before and behind the section.
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

/// The names that ROCm 4.0 gave the entries, as in the wheel cupy-rocm-4-0 10.6.0.
#[test]
fn entries_of_rocm_4_0_have_one_dash_before_the_target() {
    let targets = ["gfx801", "gfx803", "gfx908", "gfx1010"];
    let mut parts = vec![("host-x86_64-unknown-linux".to_owned(), vec![])];
    parts.extend(targets.map(|target| (format!("hip-amdgcn-amd-amdhsa-{target}"), vec![7; 100])));
    let file = written(&parts, BundleForm::Plain).unwrap();
    let found = bundle::targets(&file.as_slice(), 0..file.len() as u64).unwrap();
    assert_eq!(found, targets.map(str::to_owned).into());
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

/// Ids and code objects of one bundle.
type Parts = Vec<(String, Vec<u8>)>;

/// Returns the contents of a section's bundles: id and bytes of each entry that has any.
fn contents(bytes: &[u8], range: std::ops::Range<u64>) -> Result<Vec<Parts>, Error> {
    let bundles = bundle::read(&bytes, range.clone())?;
    let visit = |bundle: &Bundle| {
        let mut found = Vec::new();
        bundle.visit(&bytes, range.clone(), |entry, code| {
            found.push((entry.id.clone(), code.to_vec()));
            Ok::<(), Error>(())
        })?;
        Ok(found)
    };
    bundles.iter().map(visit).collect()
}

fn all(bundles: &[Vec<u8>]) -> Result<Vec<Parts>, Error> {
    let (file, range) = section(bundles);
    contents(&file, range)
}

const FORMS: [BundleForm; 7] = [
    BundleForm::Plain,
    BundleForm::Compressed { version: 1, method: Method::Zlib, level: 6 },
    BundleForm::Compressed { version: 1, method: Method::Zstd, level: 3 },
    BundleForm::Compressed { version: 2, method: Method::Zlib, level: 1 },
    BundleForm::Compressed { version: 2, method: Method::Zstd, level: 19 },
    BundleForm::Compressed { version: 3, method: Method::Zlib, level: 9 },
    BundleForm::Compressed { version: 3, method: Method::Zstd, level: -1 },
];

fn written(parts: &[(String, Vec<u8>)], form: BundleForm) -> Result<Vec<u8>, Error> {
    let parts: Vec<Part<'_>> =
        parts.iter().map(|(id, code)| Part { id, size: code.len() as u64, content: code }).collect();
    let mut out = Vec::new();
    let size = bundle::write(&parts, form, &mut out)?;
    assert_eq!(size, out.len() as u64);
    Ok(out)
}

#[test]
fn the_code_objects_of_all_forms_are_visited() {
    let content = plain(&["gfx90a:xnack+", "gfx90a:xnack-", "gfx1100"], 5000);
    let mut bundles = vec![content.clone()];
    for version in 1..=3 {
        for method in [Method::Zlib, Method::Zstd] {
            bundles.push(compressed(version, method, &content));
        }
    }
    let found = all(&bundles).unwrap();
    assert_eq!(found.len(), 7);
    for entries in &found {
        let ids: Vec<&str> = entries.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids[2], "hipv4-amdgcn-amd-amdhsa--gfx1100");
        assert_eq!(entries[1].1, vec![1 ^ 0x5a; 5000]);
        assert_eq!(ids.len(), 3);
    }
}

#[test]
fn the_caller_can_stop_a_visit() {
    let content = plain(&["gfx90a", "gfx1100"], 50);
    let (file, range) = section(&[content]);
    let bundle = &bundle::read(&file.as_slice(), range.clone()).unwrap()[0];
    let mut calls = 0;
    let stopped = bundle.visit(&file.as_slice(), range, |_, _| {
        calls += 1;
        Err(Error::NoBundle { reason: "stop".into() })
    });
    assert!(matches!(stopped, Err(Error::NoBundle { .. })));
    assert_eq!(calls, 1);
}

#[test]
fn bundles_need_no_boundary_between_them() {
    let one =
        written(&[(HOST.into(), vec![]), ("hip-amdgcn-amd-amdhsa--gfx906".into(), vec![7; 10])], FORMS[4]).unwrap();
    let file = [vec![0; 5], one.clone(), one.clone(), vec![0; 100_000], one].concat();
    let size = file.len() as u64;
    assert_eq!(contents(&file, 0..size).unwrap().len(), 3);
}

/// Counts the bytes that are read.
struct Counting {
    bytes: Vec<u8>,
    read: AtomicU64,
}

impl ReadAt for Counting {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.bytes.as_slice().read_at(position, buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The section has gaps between bundles, and a long tail of zeros. Other parsers take time that
/// grows with the square of them.
#[test]
fn every_byte_of_a_section_is_read_about_once() {
    let one = written(&[("hip-amdgcn-amd-amdhsa--gfx906".into(), vec![7; 300_000])], FORMS[0]).unwrap();
    let small = written(&[("hip-amdgcn-amd-amdhsa--gfx906".into(), vec![7; 3000])], FORMS[4]).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..40 {
        bytes.extend(&one);
        bytes.resize(bytes.len() + 200_000, 0);
        bytes.extend(&small);
        bytes.resize(bytes.len() + 200_000, 0);
    }
    bytes.resize(bytes.len() + (32 << 20), 0);
    let section = 0..bytes.len() as u64;
    let file = Counting { bytes, read: AtomicU64::new(0) };
    let bundles = bundle::read(&file, section.clone()).unwrap();
    assert_eq!(bundles.len(), 80);
    let read = file.read.load(Ordering::Relaxed);
    // For a gap, one window more than the gap is read; code objects are not read at all.
    assert!(read < 3 * section.end / 2, "{read} of {}", section.end);
    for bundle in &bundles {
        bundle.visit(&file, section.clone(), |_, _| Ok::<(), Error>(())).unwrap();
    }
    assert!(file.read.load(Ordering::Relaxed) - read < 3 * section.end / 2);
}

#[test]
fn a_magic_inside_of_a_code_object_is_code() {
    let mut code = vec![1; 3 * 4096];
    code[4096..4120].copy_from_slice(b"__CLANG_OFFLOAD_BUNDLE__");
    code[8192..8196].copy_from_slice(b"CCOB");
    let parts = [("hip-amdgcn-amd-amdhsa--gfx906".to_owned(), code)];
    for form in FORMS {
        let one = written(&parts, form).unwrap();
        assert_eq!(all(&[one.clone(), one]).unwrap(), [parts.to_vec(), parts.to_vec()], "{form:?}");
    }
}

#[test]
fn what_is_written_is_read() {
    let parts = [
        (HOST.to_owned(), vec![]),
        ("hipv4-amdgcn-amd-amdhsa--gfx1100".to_owned(), vec![1; 4096]),
        ("hipv4-amdgcn-amd-amdhsa--gfx1101".to_owned(), vec![]),
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+".to_owned(), (0..70_000_u32).map(|at| (at / 11) as u8).collect()),
    ];
    let full: Vec<_> = parts.iter().filter(|(_, code)| !code.is_empty()).cloned().collect();
    for form in FORMS {
        let bytes = written(&parts, form).unwrap();
        assert_eq!(bytes, written(&parts, form).unwrap());
        let (file, range) = section(std::slice::from_ref(&bytes));
        let bundle = bundle::read(&file.as_slice(), range).unwrap().remove(0);
        assert_eq!(bundle.length, bytes.len() as u64, "{form:?}");
        let ids: Vec<_> = bundle.entries.iter().map(|entry| entry.id.clone()).collect();
        assert_eq!(ids, parts.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>());
        assert_eq!(all(&[bytes]).unwrap(), std::slice::from_ref(&full), "{form:?}");
    }
}

#[test]
fn what_no_reader_would_take_is_not_written() {
    let text = |parts: &[(&str, u8)]| {
        let parts: Vec<_> = parts.iter().map(|(id, byte)| ((*id).to_owned(), vec![*byte])).collect();
        written(&parts, BundleForm::Plain).unwrap_err().to_string()
    };
    assert!(text(&[("a", 1), ("a", 2)]).contains("two entries are called `a`"));
    assert!(text(&[("", 1)]).contains("an id has 1 to 1024 bytes"));
    assert!(text(&[("x".repeat(1025).as_str(), 1)]).contains("has 1025"));
    let version = BundleForm::Compressed { version: 4, method: Method::Zstd, level: 3 };
    assert!(written(&[], version).unwrap_err().to_string().contains("no version 4"));
    let short = [Part { id: "a", size: 5, content: &[1_u8, 2].as_slice() }];
    let error = bundle::write(&short, BundleForm::Plain, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "could not write the entry `a` of an offload bundle");
}

#[test]
fn a_compressed_bundle_that_lies_is_an_error() {
    let content = plain(&["gfx906"], 10_000);
    let text = |bundle: Vec<u8>| all(&[bundle]).unwrap_err().to_string();
    for method in [Method::Zlib, Method::Zstd] {
        for version in 1..=3 {
            let good = compressed(version, method, &content);
            let header = [0, 20, 24, 32][usize::from(version)];
            let mut checksum = good.clone();
            checksum[header - 1] ^= 1;
            let (file, range) = section(std::slice::from_ref(&checksum));
            let bundle = &bundle::read(&file.as_slice(), range.clone()).unwrap()[0];
            let skip = Limits { checksum: Checksum::Skip, ..Limits::default() };
            bundle.visit_within(&file.as_slice(), range, skip, |_, _| Ok::<(), Error>(())).unwrap();
            assert!(text(checksum).contains("its header says"), "{version}");
            let mut small = good.clone();
            let at = [0, 8, 12, 16][usize::from(version)];
            small[at..at + 4].copy_from_slice(&(content.len() as u32 - 1).to_le_bytes());
            let message = text(small);
            assert!(message.contains("longer than") || message.contains("reaches beyond"), "{version}: {message}");
            let mut large = good.clone();
            large[at..at + 4].copy_from_slice(&(content.len() as u32 + 1).to_le_bytes());
            assert!(text(large).contains("shorter than"), "{version}");
            let mut cut = good.clone();
            cut.truncate(good.len() - 5);
            assert!(all(&[cut]).is_err());
        }
    }
}

#[test]
fn a_bomb_stops_at_what_its_header_says_and_at_the_limit() {
    let zeros = || std::io::Read::take(std::io::repeat(0), 1 << 28);
    let mut content = written(&[("hip-amdgcn-amd-amdhsa--gfx906".into(), vec![1; 100])], BundleForm::Plain).unwrap();
    let stated = content.len() as u64;
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.write_all(&content).unwrap();
    std::io::copy(&mut zeros(), &mut encoder).unwrap();
    let payload = encoder.finish().unwrap();
    for version in [1_u16, 3] {
        let mut bomb = b"CCOB".to_vec();
        bomb.extend(version.to_le_bytes());
        bomb.extend(1_u16.to_le_bytes());
        if version == 1 {
            bomb.extend((stated as u32).to_le_bytes());
        } else {
            bomb.extend((payload.len() as u64 + 32).to_le_bytes());
            bomb.extend(stated.to_le_bytes());
        }
        bomb.extend(&Md5::digest(&content)[..8]);
        bomb.extend(&payload);
        assert!(all(&[bomb]).unwrap_err().to_string().contains("longer than"), "{version}");
    }
    content.extend([0; 100]);
    let (file, range) = section(&[compressed(2, Method::Zstd, &content)]);
    let bundle = &bundle::read(&file.as_slice(), range.clone()).unwrap()[0];
    let visit = |limits| {
        bundle
            .visit_within(&file.as_slice(), range.clone(), limits, |_, _| Ok::<(), Error>(()))
            .map_err(|error| error.to_string())
    };
    let size = content.len() as u64;
    visit(Limits { uncompressed: size, code_object: 100, ..Limits::default() }).unwrap();
    assert!(
        visit(Limits { uncompressed: size - 1, ..Limits::default() }).unwrap_err().contains("a decompressed size of")
    );
    assert!(
        visit(Limits { code_object: 99, ..Limits::default() }).unwrap_err().contains("of 100 bytes; allowed are 99")
    );
}

#[test]
fn entries_in_the_table_or_in_each_other_are_refused_and_shared_ones_are_not() {
    let mut bundle = plain(&["gfx906", "gfx908"], 100);
    let first = 32 + 24 + HOST.len();
    let second = first + 24 + "hipv4-amdgcn-amd-amdhsa--gfx906".len();
    let with = |offset: u64| {
        let mut bundle = bundle.clone();
        bundle[second..second + 8].copy_from_slice(&offset.to_le_bytes());
        all(&[bundle])
    };
    assert!(with(8).unwrap_err().to_string().contains("overlaps the table of entries"));
    assert!(with(8200).unwrap_err().to_string().contains("overlap"));
    assert!(with(u64::MAX - 50).unwrap_err().to_string().contains("reaches beyond"));
    bundle.truncate(8192 + 100);
    let mut shared = bundle.clone();
    shared[second..second + 8].copy_from_slice(&8192_u64.to_le_bytes());
    let found = all(&[shared]).unwrap();
    assert_eq!(found[0].len(), 2);
    assert_eq!(found[0][0].1, found[0][1].1);
}

proptest! {
    #[test]
    fn any_bundle_comes_back(
        parts in proptest::collection::btree_map("[ -~é]{1,60}", proptest::collection::vec(any::<u8>(), 0..9000), 0..6),
        form in 0_usize..7,
    ) {
        let parts: Vec<_> = parts.into_iter().collect();
        let bytes = written(&parts, FORMS[form]).unwrap();
        let full: Vec<_> = parts.into_iter().filter(|(_, code)| !code.is_empty()).collect();
        prop_assert_eq!(all(&[bytes]).unwrap(), [full]);
    }

    #[test]
    fn damage_never_panics(at in 0_usize..8400, value: u8, version in 1_u16..4, cut in 0_usize..8400) {
        let bundle = plain(&["gfx906", "gfx90a:xnack+"], 100);
        for mut bytes in [bundle.clone(), compressed(version, Method::Zstd, &bundle)] {
            let length = bytes.len();
            bytes[at % length] = value;
            bytes.truncate(cut.max(1));
            let _ = all(&[bytes]);
        }
    }
}

#[test]
fn streams_may_be_read_in_part_and_their_errors_come_first() {
    let targets = ["gfx906", "gfx90a", "gfx942"];
    let content = plain(&targets, 5000);
    let mut cut = compressed(3, Method::Zstd, &content);
    for (number, bundle) in [content.clone(), compressed(2, Method::Zlib, &content)].into_iter().enumerate() {
        let (file, range) = section(&[bundle]);
        let bundle = &bundle::read(&file.as_slice(), range.clone()).unwrap()[0];
        let mut seen = Vec::new();
        let visited = bundle.visit_streams(&file.as_slice(), range, Limits::default(), |entries, code| {
            assert_eq!((entries.len(), code.size()), (1, 5000));
            let mut first = [0; 3];
            // Nothing of the first, the middle of the second, the end of the third.
            match seen.len() {
                0 => {}
                1 => {
                    code.skip(1000)?;
                    std::io::Read::read_exact(code, &mut first).unwrap();
                }
                _ => {
                    code.skip(4997)?;
                    std::io::Read::read_exact(code, &mut first).unwrap();
                    assert_eq!(std::io::Read::read(code, &mut first).unwrap(), 0, "behind the code object");
                    assert!(code.read_whole(&mut Vec::new())?.is_empty());
                }
            }
            seen.push((entries[0].target().unwrap().to_owned(), first));
            Ok::<(), Error>(())
        });
        visited.unwrap();
        let expected =
            [(0, 0), (1, 0x5b), (2, 0x58)].map(|(at, byte): (usize, u8)| (targets[at].to_owned(), [byte; 3]));
        assert_eq!(seen, expected, "{number}");
    }
    // The frame ends within the second code object; the callback has another opinion of that.
    let short = zstd::bulk::compress(&content[..17_000], 3).unwrap();
    cut.truncate(32);
    cut.extend(&short);
    let total = (cut.len() as u64).to_le_bytes();
    cut[8..16].copy_from_slice(&total);
    let (file, range) = section(&[cut]);
    let bundle = &bundle::read(&file.as_slice(), range.clone()).unwrap()[0];
    let opinion = || Error::WriteBundle(std::io::ErrorKind::StorageFull.into());
    for is_silent in [false, true] {
        let visited = bundle.visit_streams(&file.as_slice(), range.clone(), Limits::default(), |_, code| {
            match std::io::copy(code, &mut std::io::sink()) {
                Err(_) if !is_silent => Err(opinion()),
                _ => Ok(()),
            }
        });
        let error = visited.unwrap_err().to_string();
        assert!(error.contains("shorter than the"), "{error}");
    }
}

#[test]
fn entries_that_share_their_bytes_share_a_stream() {
    let mut content = plain(&["gfx906", "gfx90a"], 5000);
    // The offset of the second code object becomes that of the first.
    let (first, second) = (8192_u64.to_le_bytes(), 16_384_u64.to_le_bytes());
    let at = content.windows(8).position(|window| window == second).unwrap();
    content[at..at + 8].copy_from_slice(&first);
    content.truncate(8192 + 5000);
    let (file, range) = section(&[content]);
    let bundle = &bundle::read(&file.as_slice(), range.clone()).unwrap()[0];
    let mut seen = Vec::new();
    let visited = bundle.visit_streams(&file.as_slice(), range, Limits::default(), |entries, code| {
        seen.extend(entries.iter().map(|entry| entry.target().unwrap().to_owned()));
        assert_eq!(code.read_whole(&mut Vec::new())?, vec![0x5a; 5000]);
        Ok::<(), Error>(())
    });
    visited.unwrap();
    assert_eq!(seen, ["gfx906", "gfx90a"]);
}
