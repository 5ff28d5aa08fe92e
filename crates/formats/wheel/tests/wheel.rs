//! Wheels as other programs read them: Python's zipfile, pip, the zip crate; and failures of
//! writing.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rocwheel_archive::{Level, WriteOptions, Written};
use rocwheel_content::{Content, FileContent, Reader};
use rocwheel_fixtures::{Impatient, python, tool};
use rocwheel_progress::Silent;
use rocwheel_wheel::read::{Wheel, WheelProblem};
use rocwheel_wheel::{EntryPoints, Error, Member, Metadata, Tag, WheelContents, write_wheel};

const CHUNK: usize = 4 << 20;

fn distribution(members: Vec<Member>) -> WheelContents {
    let mut entry_points = EntryPoints::default();
    entry_points.script("rocm-example", "example:main");
    WheelContents {
        name: "Rocm.Example-gfx94X".to_owned(),
        version: "6.4.0".to_owned(),
        tags: vec![Tag::platform("manylinux_2_17_x86_64"), Tag::platform("manylinux2014_x86_64")],
        metadata: Metadata {
            summary: Some("An example".to_owned()),
            license_expression: Some("MIT".to_owned()),
            requires_python: Some(">=3.10".to_owned()),
            ..Metadata::default()
        },
        entry_points,
        licenses: vec![Member::new("LICENSE", b"do as you like\n".to_vec())],
        members,
    }
}

fn write(members: Vec<Member>, folder: &Path, level: Level) -> Result<Written, Error> {
    let options = WriteOptions { level, ..WriteOptions::default() };
    write_wheel(&distribution(members), folder, &options, &Silent)
}

/// Bytes that compress like code: runs of a few values with noise between them.
fn code(length: usize) -> Vec<u8> {
    let mut state = length as u64 | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 {
            bytes.extend_from_slice(&state.to_le_bytes()[4..]);
        } else {
            bytes.extend_from_slice(&[0x48, 0x89, 0xe5, 0, 0, 0, 0, 0]);
        }
    }
    bytes.truncate(length);
    bytes
}

fn members() -> Vec<Member> {
    let mut members = vec![
        Member::new("example/__init__.py", b"def main():\n    print('main')\n".to_vec()),
        Member::executable("_example/bin/tool", b"#!/bin/sh\necho tool\n".to_vec()),
        Member::new("_example/lib/a, \"b\".txt", vec![b'x'; 1000]),
        Member::new("_example/empty", Vec::new()),
        Member::new("_example/noise.kpack", code(CHUNK + 1)),
    ];
    for length in [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 100] {
        members.push(Member::new(format!("_example/lib/{length}"), code(length)));
    }
    members
}

#[test]
fn python_and_pip_read_what_was_written() {
    let folder = tempfile::tempdir().expect("folder");
    let written = write(members(), folder.path(), Level::Fast).expect("write");
    let name = written.path.file_name().expect("name");
    assert_eq!(name, "rocm_example_gfx94x-6.4.0-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl");
    assert_eq!(written.compressed, written.path.metadata().expect("metadata").len());
    let script = "import sys, zipfile, hashlib; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None\n\
        print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())\n\
        for i in z.infolist(): print(i.filename, i.compress_type, oct(i.external_attr >> 16), i.flag_bits, i.date_time[0])";
    let listing = python(script, [&written.path]);
    let (sha256, listing) = listing.split_once('\n').expect("lines");
    assert_eq!(Some(sha256), written.sha256.as_deref());
    let expected = "_example/bin/tool 0 0o100755 2048 1980
_example/empty 0 0o100644 2048 1980
_example/lib/1 0 0o100644 2048 1980
_example/lib/4194303 8 0o100644 2048 1980
_example/lib/4194304 8 0o100644 2048 1980
_example/lib/4194305 8 0o100644 2048 1980
_example/lib/8388608 8 0o100644 2048 1980
_example/lib/8388708 8 0o100644 2048 1980
_example/lib/a, \"b\".txt 8 0o100644 2048 1980
_example/noise.kpack 0 0o100644 2048 1980
example/__init__.py 0 0o100644 2048 1980
rocm_example_gfx94x-6.4.0.dist-info/METADATA 8 0o100644 2048 1980
rocm_example_gfx94x-6.4.0.dist-info/WHEEL 8 0o100644 2048 1980
rocm_example_gfx94x-6.4.0.dist-info/entry_points.txt 0 0o100644 2048 1980
rocm_example_gfx94x-6.4.0.dist-info/licenses/LICENSE 0 0o100644 2048 1980
rocm_example_gfx94x-6.4.0.dist-info/top_level.txt 0 0o100644 2048 1980
rocm_example_gfx94x-6.4.0.dist-info/RECORD 8 0o100644 2048 1980";
    assert_eq!(listing, expected);
    assert_eq!(written.files, 17);

    let target = folder.path().join("target");
    let arguments = ["-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--no-compile", "--target"];
    let arguments = arguments.iter().map(OsStr::new).chain([target.as_os_str(), written.path.as_os_str()]);
    tool(folder.path(), "python3", arguments);
    for member in members() {
        let mut expected = vec![0; member.content.size() as usize];
        member.content.open().expect("open").read_exact_at(0, &mut expected).expect("read");
        assert!(fs_err::read(target.join(&member.name)).expect("installed") == expected, "{}", member.name);
    }
    assert!(target.join("bin/rocm-example").is_file());
}

#[test]
fn a_written_wheel_is_read_and_verified() {
    let folder = tempfile::tempdir().expect("folder");
    let written = write(members(), folder.path(), Level::Default).expect("write");
    let wheel = Wheel::open(&written.path).expect("open");
    assert_eq!(wheel.verify().expect("verify"), []);
    assert!(wheel.metadata().expect("METADATA").starts_with("Metadata-Version: 2.4\nName: Rocm.Example-gfx94X\n"));
    let expected = format!(
        "Wheel-Version: 1.0\nGenerator: rocwheel {}\nRoot-Is-Purelib: false\nTag: py3-none-manylinux2014_x86_64\n\
         Tag: py3-none-manylinux_2_17_x86_64\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(wheel.wheel().expect("WHEEL"), expected);
    let info = "rocm_example_gfx94x-6.4.0.dist-info";
    let entry_points = wheel.bytes(&format!("{info}/entry_points.txt")).expect("entry points");
    assert_eq!(entry_points, b"[console_scripts]\nrocm-example = example:main\n");
    assert_eq!(wheel.bytes(&format!("{info}/top_level.txt")).expect("top level"), b"_example\nexample\n");
    let record = wheel.record().expect("RECORD");
    assert_eq!(record.len() as u64, written.files);
    let last = record.last().expect("rows");
    assert_eq!((last.path.as_str(), last.hash.as_str(), last.size), (&*format!("{info}/RECORD"), "", None));
    let raw: u64 = wheel.members().iter().map(|member| member.size).sum();
    assert_eq!(raw, written.raw);
}

#[test]
fn the_start_of_a_member_is_read_alone_and_copies_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = |level| Wheel::open(&write(members(), &fresh(folder.path(), level), level).unwrap().path).unwrap();
    let [default, same, stored] = [Level::Default, Level::Default, Level::None].map(wheel);
    for member in default.members().iter().filter(|member| !member.name.ends_with("RECORD")) {
        let bytes = default.bytes(&member.name).unwrap();
        for length in [0, 4, 100_000] {
            assert_eq!(default.start(&member.name, length).unwrap(), bytes[..length.min(bytes.len())]);
            assert_eq!(stored.start(&member.name, length).unwrap(), bytes[..length.min(bytes.len())]);
        }
        assert!(default.is_copy(&member.name, &same, &member.name).unwrap(), "{}", member.name);
        if member.compressed < member.size {
            assert!(!default.is_copy(&member.name, &stored, &member.name).unwrap(), "{}", member.name);
        }
    }
    let info = format!("{}/WHEEL", default.info());
    assert!(!default.is_copy(&info, &same, &format!("{}/METADATA", same.info())).unwrap());
    assert!(default.start("missing", 4).is_err());
}

/// Creates a new folder in `parent`.
fn fresh(parent: &Path, level: Level) -> std::path::PathBuf {
    let path =
        tempfile::Builder::new().prefix(&format!("{level:?}")).tempdir_in(parent).expect("the folder takes another");
    path.keep()
}

#[test]
fn verification_finds_what_was_tampered_with() {
    let folder = tempfile::tempdir().expect("folder");
    let written = write(members(), folder.path(), Level::Fast).expect("write");
    let script = "import sys, zipfile; old = zipfile.ZipFile(sys.argv[1]); new = zipfile.ZipFile(sys.argv[2], 'w')\n\
        for i in old.infolist():\n  \
          d = old.read(i)\n  \
          if i.filename.endswith('tool'): d = d.replace(b'echo', b'evil')\n  \
          if i.filename.endswith('__init__.py'): d += b'x'\n  \
          if i.filename.endswith('RECORD'): d = d.replace(b'_example/lib/1,', b'_example/lib/one,')\n  \
          new.writestr(i.filename, d)\n\
        new.close()";
    let copy = folder.path().join("rocm_example_gfx94x-6.4.0-py3-none-any.whl");
    python(script, [&written.path, &copy]);
    let problems = Wheel::open(&copy).expect("open").verify().expect("verify");
    let expected = [
        WheelProblem::Missing("_example/lib/one".to_owned()),
        WheelProblem::Unrecorded("_example/lib/1".to_owned()),
        WheelProblem::Hash("_example/bin/tool".to_owned()),
        WheelProblem::Hash("example/__init__.py".to_owned()),
        WheelProblem::Size("example/__init__.py".to_owned()),
    ];
    assert_eq!(problems, expected);
    let wrong = folder.path().join("other-6.4.0-py3-none-any.whl");
    fs_err::rename(&copy, &wrong).expect("rename");
    let problems = Wheel::open(&wrong).expect("open").verify().expect("verify");
    assert_eq!(problems[0], WheelProblem::FileName("rocm_example_gfx94x-6.4.0.dist-info".to_owned()));
    assert_eq!(problems[1..], expected);
}

#[test]
fn threads_order_and_place_do_not_change_a_byte() {
    let mut hashes = Vec::new();
    for (threads, reverse) in [(1, false), (2, true), (7, false)] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        let folder = tempfile::tempdir().expect("folder");
        let mut members = members();
        if reverse {
            members.reverse();
        }
        hashes.push(pool.install(|| write(members, folder.path(), Level::Fast)).expect("write").sha256);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

#[test]
fn level_none_stores_and_better_levels_are_smaller() {
    let folder = tempfile::tempdir().expect("folder");
    let mut sizes = Vec::new();
    for level in [Level::None, Level::Fast, Level::Default, Level::Best] {
        let bytes = b"the quick brown fox jumps over the lazy dog; ".repeat(1000);
        let more: Vec<u8> =
            (0..200_000_u32).flat_map(|number| (number % 977 * (number / 977 % 31)).to_le_bytes()).collect();
        let members = vec![Member::new("a.txt", bytes), Member::new("b.bin", more)];
        sizes.push(write(members, folder.path(), level).expect("write").compressed);
    }
    assert!(
        sizes[0] > 845_000 && sizes[1] < sizes[0] * 6 / 10 && sizes[2] <= sizes[1] && sizes[3] <= sizes[2],
        "{sizes:?}"
    );
}

#[test]
fn more_members_than_16_bits_count() {
    let folder = tempfile::tempdir().expect("folder");
    let members = (0..70_000).map(|number| Member::new(format!("m/{number}"), Vec::new())).collect();
    let written = write(members, folder.path(), Level::Default).expect("write");
    assert_eq!(Wheel::open(&written.path).expect("open").members().len(), 70_006);
    let script = "import sys, zipfile; print(len(zipfile.ZipFile(sys.argv[1]).infolist()))";
    assert_eq!(python(script, [&written.path]), "70006");
}

/// Zeros; counts the maximum number of open readers.
struct Counted {
    size: u64,
    open: &'static AtomicU64,
    most: &'static AtomicU64,
}

struct CountedReader {
    size: u64,
    open: &'static AtomicU64,
}

impl Content for Counted {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> std::io::Result<Reader> {
        self.most.fetch_max(self.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Ok(Box::new(CountedReader { size: self.size, open: self.open }))
    }
}

impl positioned_io::ReadAt for CountedReader {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.size.saturating_sub(position).min(buffer.len() as u64) as usize;
        buffer[..length].fill(0);
        Ok(length)
    }
}

impl Drop for CountedReader {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn only_contents_that_are_being_read_are_open() {
    static OPEN: AtomicU64 = AtomicU64::new(0);
    static MOST: AtomicU64 = AtomicU64::new(0);
    let content = |size| Counted { size, open: &OPEN, most: &MOST };
    let mut members: Vec<Member> = (0..3000).map(|number| Member::new(format!("m/{number}"), content(100))).collect();
    members.extend((0..4).map(|number| Member::new(format!("large/{number}"), content(2 * CHUNK as u64 + 1))));
    let folder = tempfile::tempdir().expect("folder");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("pool");
    pool.install(|| write(members, folder.path(), Level::Fast)).expect("write");
    assert_eq!(OPEN.load(Ordering::SeqCst), 0);
    assert!((1..=8).contains(&MOST.load(Ordering::SeqCst)), "{MOST:?}");
}

fn assert_fails(members: Vec<Member>, words: &[&str]) {
    let folder = tempfile::tempdir().expect("folder");
    let error = write(members, folder.path(), Level::Fast).expect_err("it must not work");
    for word in words {
        assert!(error.to_string().contains(word), "`{error}` should say {word}");
    }
    assert_eq!(fs_err::read_dir(folder.path()).expect("list").count(), 0, "{error}");
}

#[test]
fn bad_members_are_named_and_leave_nothing() {
    let text = || b"x".to_vec();
    assert_fails(vec![Member::new("a", text()), Member::new("a", text())], &["`a`", "two members"]);
    assert_fails(vec![Member::new("a", text()), Member::new("a/b", text())], &["`a`", "folder"]);
    assert_fails(vec![Member::new("../a", text())], &["`../a`", ".."]);
    assert_fails(vec![Member::new("rocm_example_gfx94x-6.4.0.dist-info/RECORD", text())], &["RECORD"]);
    let folder = tempfile::tempdir().expect("folder");
    let gone = FileContent { path: folder.path().join("gone"), size: 3 };
    assert_fails(vec![Member::new("lib/gone", gone)], &["`lib/gone`", "/gone`"]);
    let path = folder.path().join("changing");
    for (announced, length) in [(9, 10), (11, 10), (2 * CHUNK as u64, CHUNK), (2 * CHUNK as u64, 3 * CHUNK)] {
        fs_err::write(&path, vec![1; length]).expect("write");
        let content = FileContent { path: path.clone(), size: announced };
        assert_fails(vec![Member::new("lib/changing", content)], &["`lib/changing`", "/changing`", "changed"]);
    }
}

/// A content that returns more bytes than it announces.
struct Liar(u64, Vec<u8>);

impl Content for Liar {
    fn size(&self) -> u64 {
        self.0
    }

    fn open(&self) -> std::io::Result<Reader> {
        Ok(Box::new(self.1.clone()))
    }
}

#[test]
fn contents_that_lie_are_found_out() {
    assert_fails(vec![Member::new("liar", Liar(5, vec![0; 4]))], &["`liar`", "5 bytes"]);
    assert_fails(vec![Member::new("liar", Liar(5, vec![0; 6]))], &["`liar`", "5 bytes"]);
    let size = CHUNK as u64 + 10;
    assert_fails(vec![Member::new("liar", Liar(size, vec![0; CHUNK + 11]))], &["`liar`"]);
    assert_fails(vec![Member::new("liar", Liar(size, vec![0; CHUNK + 9]))], &["`liar`"]);
}

#[test]
fn a_missing_output_folder_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let error = write(members(), &folder.path().join("none"), Level::Fast).expect_err("no folder");
    assert!(
        matches!(&error, Error::Archive(rocwheel_archive::Error::Create { directory, .. }) if directory.ends_with("none")),
        "{error}"
    );
}

#[test]
fn an_interruption_leaves_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let reporter = Impatient::after(5_000_000);
    let options = WriteOptions { level: Level::Fast, ..WriteOptions::default() };
    let error = write_wheel(&distribution(members()), folder.path(), &options, &reporter).expect_err("stopped");
    assert!(matches!(error, Error::Interrupted(_)), "{error}");
    assert_eq!(fs_err::read_dir(folder.path()).expect("list").count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_members_come_back(
        contents in proptest::collection::btree_map("[a-z]{1,8}/[a-zé ]{1,8}", proptest::collection::vec(any::<u8>(), 0..2000), 0..12),
    ) {
        let folder = tempfile::tempdir().expect("folder");
        let members = contents.iter().map(|(name, bytes)| Member::new(name.clone(), bytes.clone())).collect();
        let written = write(members, folder.path(), Level::Default).expect("write");
        let wheel = Wheel::open(&written.path).expect("open");
        prop_assert_eq!(wheel.verify().expect("verify"), []);
        for (name, bytes) in &contents {
            prop_assert_eq!(&wheel.bytes(name).expect("member"), bytes);
        }
    }
}
