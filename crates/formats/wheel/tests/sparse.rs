//! Ranges of members that are read without the rest, compared with the whole members: streams of
//! this crate, of Python's zlib, and streams that look like ours but are not.

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use flate2::{Compress, Compression, FlushCompress};
use positioned_io::ReadAt;
use proptest::prelude::*;
use rocwheel_archive::Sparse;
use rocwheel_archive::{Level, WriteOptions};
use rocwheel_fixtures::python;
use rocwheel_progress::Silent;
use rocwheel_wheel::read::{Wheel, WheelProblem};
use rocwheel_wheel::{EntryPoints, Member, Metadata, Tag, WheelContents, write_wheel};

const CHUNK: usize = 4 << 20;

/// Bytes that compress like code and contain the marks of our streams.
fn code(length: usize) -> Vec<u8> {
    let mut state = length as u64 | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 62 {
            0 => bytes.extend_from_slice(&state.to_le_bytes()),
            1 => bytes.extend_from_slice(&[0, 0, 0xff, 0xff]),
            _ => bytes.extend_from_slice(&[0x48, 0x89, 0xe5, (state >> 40) as u8, 0, 0, 0, 0]),
        }
    }
    bytes.truncate(length);
    bytes
}

fn ours(folder: &Path, bytes: &[u8]) -> PathBuf {
    let distribution = WheelContents {
        name: "example".to_owned(),
        version: "1".to_owned(),
        tags: vec![Tag::any()],
        metadata: Metadata::default(),
        entry_points: EntryPoints::default(),
        licenses: Vec::new(),
        members: vec![Member::new("member", bytes.to_vec())],
    };
    let options = WriteOptions { level: Level::Fast, ..WriteOptions::default() };
    write_wheel(&distribution, folder, &options, &Silent).expect("write").path
}

/// A wheel with a member that another tool packed; the packed bytes are given.
fn foreign(folder: &Path, bytes: &[u8], packed: &[u8]) -> PathBuf {
    let script = "
import sys, zipfile, zlib
path, raw, packed = sys.argv[1:]
class Given:
    def __init__(self, data): self.data = data
    def compress(self, data): return b''
    def flush(self, *mode): return self.data
with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
    archive.writestr('example-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: example\\nVersion: 1\\n')
    archive.writestr('example-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nTag: py3-none-any\\n')
    given = Given(open(packed, 'rb').read())
    zipfile._get_compressor = lambda *arguments: given
    archive.writestr('member', open(raw, 'rb').read())
";
    let (raw, deflated) = (folder.join("raw"), folder.join("packed"));
    fs_err::File::create(&raw).and_then(|mut file| file.write_all(bytes)).expect("raw");
    fs_err::File::create(&deflated).and_then(|mut file| file.write_all(packed)).expect("packed");
    let wheel = folder.join("example-1-py3-none-any.whl");
    python(script, [&wheel, &raw, &deflated]);
    wheel
}

/// Parts that are flushed one by one. With `independent` they are like our streams, otherwise like
/// those of other parallel compressors.
fn flushed(bytes: &[u8], part: usize, independent: bool) -> Vec<u8> {
    let mut compress = Compress::new(Compression::fast(), false);
    let mut packed = Vec::with_capacity(bytes.len() + bytes.len() / 100 + 4096);
    let count = bytes.len().div_ceil(part);
    for (index, part) in bytes.chunks(part).enumerate() {
        let last = index + 1 == count;
        let flush = match (last, independent) {
            (true, _) => FlushCompress::Finish,
            (false, true) => FlushCompress::Full,
            (false, false) => FlushCompress::Sync,
        };
        compress.compress_vec(part, &mut packed, flush).expect("compress");
    }
    packed
}

fn sparse(path: &Path, folder: &Path) -> Sparse {
    Wheel::open(path).expect("open").sparse("member", folder).expect("sparse")
}

fn assert_reads(sparse: &Sparse, bytes: &[u8], range: Range<usize>) {
    let mut found = vec![0; range.len()];
    sparse.read_exact_at(range.start as u64, &mut found).expect("read");
    assert!(found == bytes[range.clone()], "{range:?}");
}

fn places(length: usize) -> Vec<Range<usize>> {
    let around = |middle: usize| middle.saturating_sub(100)..(middle + 5000).min(length);
    let mut places = vec![0..64, length - 10..length, around(CHUNK), around(length / 2), 0..1, around(length / 3)];
    places.push(around(length - 70_000));
    places
}

#[test]
fn places_of_any_stream_are_read() {
    let folder = tempfile::tempdir().expect("folder");
    // More bytes than are unpacked in memory.
    let bytes = code(5 * CHUNK + 12345);
    let wheels = [
        ("ours", ours(folder.path(), &bytes)),
        ("one stream", foreign(folder.path(), &bytes, &flushed(&bytes, bytes.len(), true))),
        ("parts of our length that look back", {
            let other = folder.path().join("other");
            fs_err::create_dir(&other).expect("folder");
            foreign(&other, &bytes, &flushed(&bytes, CHUNK, false))
        }),
        ("as many parts of another length", {
            let other = folder.path().join("length");
            fs_err::create_dir(&other).expect("folder");
            foreign(&other, &bytes, &flushed(&bytes, CHUNK - 4096, true))
        }),
        ("parts of our length", {
            let other = folder.path().join("same");
            fs_err::create_dir(&other).expect("folder");
            foreign(&other, &bytes, &flushed(&bytes, CHUNK, true))
        }),
    ];
    for (what, wheel) in wheels {
        for wanted in [false, true] {
            let sparse = sparse(&wheel, folder.path());
            assert_eq!(sparse.size(), bytes.len() as u64, "{what}");
            if wanted {
                let ranges: Vec<_> =
                    places(bytes.len()).into_iter().map(|place| place.start as u64..place.end as u64).collect();
                sparse.want(&ranges);
            }
            for place in places(bytes.len()) {
                assert_reads(&sparse, &bytes, place);
            }
            assert_eq!(sparse.read_at(bytes.len() as u64, &mut [0]).expect("read"), 0);
            assert_eq!(sparse.read_at(u64::MAX, &mut [0]).expect("read"), 0);
        }
    }
}

#[test]
fn a_stream_that_is_read_back_and_forth_is_unpacked_into_a_file() {
    let folder = tempfile::tempdir().expect("folder");
    let bytes = code(20 << 20);
    let wheel = foreign(folder.path(), &bytes, &flushed(&bytes, bytes.len(), true));
    let sparse = sparse(&wheel, folder.path());
    for index in 0..40 {
        let start = (40 - index) * 400_000;
        assert_reads(&sparse, &bytes, start..start + 1000);
    }
}

#[test]
fn damage_is_an_error_and_no_other_bytes() {
    let folder = tempfile::tempdir().expect("folder");
    let bytes = code(5 * CHUNK);
    for packed in [flushed(&bytes, CHUNK, true), flushed(&bytes, bytes.len(), true)] {
        let mut packed = packed;
        let middle = packed.len() / 2;
        packed[middle..middle + 64].fill(0x55);
        let wheel = foreign(folder.path(), &bytes, &packed);
        let sparse = sparse(&wheel, folder.path());
        assert_reads(&sparse, &bytes, 0..1000);
        let mut end = vec![0; 100];
        let read = sparse.read_exact_at(bytes.len() as u64 - 100, &mut end);
        assert!(read.is_err() || end == bytes[bytes.len() - 100..], "other bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn any_place_is_read(length in CHUNK - 2..3 * CHUNK, starts in proptest::collection::vec(any::<usize>(), 1..12)) {
        let folder = tempfile::tempdir().expect("folder");
        let bytes = code(length);
        let sparse = sparse(&ours(folder.path(), &bytes), folder.path());
        for start in starts {
            let start = start % length;
            assert_reads(&sparse, &bytes, start..(start + 300).min(length));
        }
    }
}

#[test]
fn large_members_of_ours_are_verified_by_all_threads() {
    let folder = tempfile::tempdir().expect("folder");
    let mut bytes = vec![b'x'; (64 << 20) + 99];
    let start = code(CHUNK + 1);
    bytes[..start.len()].copy_from_slice(&start);
    let path = ours(folder.path(), &bytes);
    assert_eq!(Wheel::open(&path).expect("open").verify().expect("verify"), []);
    let mut damaged = fs_err::read(&path).expect("read");
    damaged[1000] ^= 0x10;
    fs_err::write(&path, damaged).expect("write");
    let problems = Wheel::open(&path).expect("open").verify().expect("verify");
    assert_eq!(problems, [WheelProblem::Unreadable("member".to_owned())]);
}
