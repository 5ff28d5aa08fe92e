//! Packed bytes of earlier wheels. Whatever happened to them and to the records, the result is
//! that of a run from nothing; Python's zipfile and our own reader judge it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocwheel_archive::{EarlierWheel, Level, PackedSource, WriteOptions, Written};
use rocwheel_content::{Content, Reader};
use rocwheel_fixtures::{Warnings, python};
use rocwheel_progress::Silent;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{
    EntryPoints, Error, Member, MemberOrder, Metadata, Rewrite, Tag, WheelContents, add_earlier_wheels, rewrite,
    write_wheel,
};

const CHUNK: usize = 4 << 20;

/// Bytes that compress like code.
fn code(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 62 {
            0 => bytes.extend_from_slice(&state.to_le_bytes()[4..]),
            _ => bytes.extend_from_slice(&[0x48, 0x89, 0xe5, 0, 0, 0, (state >> 58) as u8, 0]),
        }
    }
    bytes.truncate(length);
    bytes
}

/// A night's set: its version is in every wheel and in the name of a folder.
fn night(version: &str, library: Vec<u8>) -> WheelContents {
    let folder = format!("_rocm_{}", version.replace('.', "_"));
    WheelContents {
        name: "rocm-example".to_owned(),
        version: version.to_owned(),
        tags: vec![Tag::platform("manylinux_2_28_x86_64")],
        metadata: Metadata::default(),
        entry_points: EntryPoints::default(),
        licenses: vec![Member::new("LICENSE", b"do as you like\n".to_vec())],
        members: vec![
            Member::new(format!("{folder}/_version.py"), format!("VERSION = '{version}'\n").repeat(9).into_bytes()),
            Member::new(format!("{folder}/include/hip.h"), b"#pragma once\n".repeat(400)),
            Member::new(format!("{folder}/kernels.kpack"), code(CHUNK + 5, 77)),
            Member::executable(format!("{folder}/lib/libsame.so.1"), code(2 * CHUNK + 999, 5)),
            Member::executable(format!("{folder}/lib/libchanged.so.1"), library),
        ],
    }
}

fn write_with(contents: &WheelContents, folder: &Path, level: Level, reuse: &PackedSource) -> Written {
    let options = WriteOptions { level, reuse: reuse.clone(), ..WriteOptions::default() };
    write_wheel(contents, folder, &options, &Silent).expect("write")
}

/// A level at which the tests are quick.
const LEVEL: Level = Level::Fast;
/// Bytes of the first night's texts that are in the second one too: header, licence, WHEEL.
const TEXTS: usize = 13 * 400 + 104;

struct Night {
    folder: tempfile::TempDir,
    first: PathBuf,
    /// The second night, from nothing.
    expected: Vec<u8>,
    second: WheelContents,
}

/// The first night with records, made once: its wheel, the folder of records, and the second night
/// from nothing.
fn made() -> &'static (tempfile::TempDir, PathBuf, Vec<u8>) {
    static MADE: OnceLock<(tempfile::TempDir, PathBuf, Vec<u8>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("folder");
        let records = PackedSource::new(folder.path().join("records"));
        let first = write_with(&night("1.0", library()), folder.path(), LEVEL, &records);
        assert_eq!(records.reused(), 0);
        let expected = write_with(&second(), folder.path(), LEVEL, &PackedSource::default());
        let expected = fs_err::read(expected.path).expect("read");
        (folder, first.path, expected)
    })
}

fn library() -> Vec<u8> {
    code(2 * CHUNK + 50_000, 9)
}

/// In the second night, the middle one of three chunks of a library is another.
fn second() -> WheelContents {
    let mut changed = library();
    changed[CHUNK + 100..CHUNK + 200].fill(b'x');
    night("1.1", changed)
}

impl Night {
    /// Copies of the files, for a test to change.
    fn new() -> Night {
        let (made, first, expected) = made();
        let folder = tempfile::tempdir().expect("folder");
        for name in ["first", "records"] {
            fs_err::create_dir(folder.path().join(name)).expect("folder");
        }
        let copy = folder.path().join("first").join(first.file_name().expect("name"));
        fs_err::copy(first, &copy).expect("copy");
        for record in fs_err::read_dir(made.path().join("records")).expect("list") {
            let path = record.expect("entry").path();
            fs_err::copy(&path, folder.path().join("records").join(path.file_name().expect("name"))).expect("copy");
        }
        Night { folder, first: copy, expected: expected.clone(), second: second() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the second night with the wheels of `folder` at hand. Checks the result, and returns
    /// the number of bytes that were reused.
    fn reused(&self, folder: &str) -> u64 {
        let source = PackedSource::new(self.path("records"));
        add_earlier_wheels(&source, &self.path(folder)).expect("add");
        let output = tempfile::tempdir().expect("folder");
        let written = write_with(&self.second, output.path(), LEVEL, &source);
        assert!(fs_err::read(&written.path).expect("read") == self.expected, "the bytes of a run from nothing");
        source.reused()
    }
}

#[test]
fn unchanged_members_and_chunks_are_not_compressed_again() {
    let night = Night::new();
    assert_eq!(night.reused("first"), (2 * CHUNK + 999 + CHUNK + 50_000 + TEXTS) as u64);

    // Python reads the result, and compares every member with RECORD.
    let script = "import base64, csv, hashlib, io, sys, zipfile\n\
        wheel = zipfile.ZipFile(sys.argv[1])\n\
        assert wheel.testzip() is None\n\
        record = next(n for n in wheel.namelist() if n.endswith('/RECORD'))\n\
        rows = [r for r in csv.reader(io.StringIO(wheel.read(record).decode())) if r[1]]\n\
        for name, digest, size in rows:\n  \
          data = wheel.read(name)\n  \
          assert digest == 'sha256=' + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')\n  \
          assert int(size) == len(data)\n\
        print(len(rows))";
    let source = PackedSource::new(night.path("records"));
    add_earlier_wheels(&source, &night.path("first")).expect("add");
    let written = write_with(&night.second, night.folder.path(), LEVEL, &source);
    assert_eq!(python(script, [&written.path]).trim(), (written.files - 1).to_string());
    assert_eq!(Wheel::open(&written.path).expect("open").verify().expect("verify"), []);
}

#[test]
fn equal_content_is_compressed_once_in_a_run() {
    let folder = tempfile::tempdir().expect("folder");
    let source = PackedSource::new(folder.path().join("records"));
    let library = || code(CHUNK + 5000, 3);
    let alone = write_with(&night("1.0", library()), folder.path(), LEVEL, &source);
    // The wheel is moved to its place before the next one is written.
    fs_err::rename(&alone.path, folder.path().join("moved.whl")).expect("rename");
    assert_eq!(source.reused(), 0);
    write_with(&night("1.1", library()), folder.path(), LEVEL, &source);
    assert_eq!(source.reused(), (3 * CHUNK + 999 + 5000 + TEXTS) as u64);
}

#[test]
fn a_rewritten_wheel_reuses_too() {
    let night = Night::new();
    let wheel = Wheel::open(&night.first).expect("open");
    let name = "_rocm_1_0/lib/libchanged.so.1";
    let change = |bytes: Vec<u8>| Rewrite {
        replace: [(name.to_owned(), Box::new(bytes) as Box<dyn Content>)].into(),
        ..Rewrite::default()
    };
    let output = tempfile::tempdir().expect("folder");
    let mut bytes = wheel.bytes(name).expect("bytes");
    bytes[7] = 7;
    let source = PackedSource::new(night.path("records"));
    add_earlier_wheels(&source, &night.first).expect("add");
    let plain = WriteOptions { level: LEVEL, ..WriteOptions::default() };
    let options = WriteOptions { reuse: source.clone(), ..plain.clone() };
    let with = rewrite(&wheel, &change(bytes.clone()), output.path(), &options, &Silent).expect("rewrite");
    assert_eq!(source.reused(), (CHUNK + 50_000) as u64, "the first of three chunks is another");
    let without = tempfile::tempdir().expect("folder");
    let nothing = rewrite(&wheel, &change(bytes), without.path(), &plain, &Silent).expect("rewrite");
    assert_eq!(with.sha256, nothing.sha256);
}

#[test]
fn copied_members_keep_their_packing() {
    for order in [MemberOrder::Sorted, MemberOrder::Kept] {
        let night = Night::new();
        let wheel = Wheel::open(&night.first).expect("open");
        let source = PackedSource::new(night.path("records"));
        let options = WriteOptions { level: LEVEL, reuse: source.clone(), ..WriteOptions::default() };
        let change = Rewrite {
            rename: [("_rocm_1_0/lib/libsame.so.1".to_owned(), "_rocm_1_0/lib64/libsame.so.1".to_owned())].into(),
            drop: ["_rocm_1_0/kernels.kpack".to_owned()].into(),
            add: vec![Member::new("_rocm_1_0/a", b"first of all\n".repeat(99))],
            order,
            ..Rewrite::default()
        };
        let output = night.path("copied");
        fs_err::create_dir(&output).expect("folder");
        rewrite(&wheel, &change, &output, &options, &Silent).expect("rewrite");
        // The first wheel is gone, so everything comes from the copy.
        fs_err::remove_file(&night.first).expect("remove");
        assert_eq!(night.reused("copied"), (2 * CHUNK + 999 + CHUNK + 50_000 + TEXTS) as u64, "{order:?}");
    }
}

/// Changes the file `first` wheel of a night and returns what is reused then.
fn reused_after(damage: impl FnOnce(&Night)) -> u64 {
    let night = Night::new();
    damage(&night);
    night.reused("first")
}

#[test]
fn a_wheel_that_is_not_as_it_was_gives_nothing() {
    // Cut off.
    let cut = |night: &Night| {
        let bytes = fs_err::read(&night.first).expect("read");
        fs_err::write(&night.first, &bytes[..bytes.len() / 2]).expect("write");
    };
    assert_eq!(reused_after(cut), 0);
    // Another file of the same size.
    let other = |night: &Night| {
        let size = fs_err::metadata(&night.first).expect("size").len();
        fs_err::write(&night.first, code(size as usize, 1)).expect("write");
    };
    assert_eq!(reused_after(other), 0);
    // No record: the wheel of another tool, or of another machine.
    let unknown = |night: &Night| fs_err::remove_dir_all(night.path("records")).expect("remove");
    assert_eq!(reused_after(unknown), 0);
    // A record of half a write, as an old file system may leave it after a crash.
    let half = |night: &Night| {
        for record in fs_err::read_dir(night.path("records")).expect("list") {
            let path = record.expect("entry").path();
            let bytes = fs_err::read(&path).expect("read");
            fs_err::write(&path, &bytes[..bytes.len() / 2]).expect("write");
        }
    };
    assert_eq!(reused_after(half), 0);
}

#[test]
fn a_record_names_the_members_that_have_a_text() {
    let folder = tempfile::tempdir().expect("folder");
    let cache = folder.path().join("records");
    let source = PackedSource::new(cache.clone());
    source.search_for("1.0rc1");
    let mut contents = night("1.0rc1", code(2 * CHUNK + 999, 8));
    // Between two chunks of packed members, and of a stored one whose last chunk has five bytes.
    for (name, place) in [("a.so", CHUNK - 5), ("b.so", 2 * CHUNK - 1), ("c.kpack", CHUNK - 1)] {
        let mut bytes = code(if name == "c.kpack" { CHUNK + 5 } else { 2 * CHUNK + 5 }, 4);
        bytes[place..place + 6].copy_from_slice(b"1.0rc1");
        contents.members.push(Member::new(format!("x/{name}"), bytes));
    }
    let written = write_with(&contents, folder.path(), LEVEL, &source);
    let wheel = Wheel::open(&written.path).expect("open");
    let searched = wheel.searched(&PackedSource::new(cache.clone())).expect("record");
    let mut names: BTreeSet<String> = wheel.members().iter().map(|listed| listed.name.clone()).collect();
    names.retain(|name| wheel.bytes(name).expect("bytes").windows(6).any(|window| window == b"1.0rc1"));
    assert_eq!(searched.members, names);
    assert!(["a.so", "b.so", "c.kpack"].iter().all(|name| searched.members.contains(&format!("x/{name}"))));
    assert_eq!((Some(searched.sha256), searched.text.as_str()), (written.sha256, "1.0rc1"));
    // Copied members are not searched.
    let output = tempfile::tempdir().expect("folder");
    let options = WriteOptions { reuse: source, ..WriteOptions::default() };
    let copied = rewrite(&wheel, &Rewrite::default(), output.path(), &options, &Silent).expect("rewrite");
    let records = PackedSource::new(cache);
    assert!(records.record_of(&copied.path).is_some());
    assert_eq!(Wheel::open(&copied.path).expect("open").searched(&records), None);
}

/// A record with a change, and with the checksum of what it says then.
fn changed_record(record: &[u8], change: &dyn Fn(&mut serde_json::Value)) -> Vec<u8> {
    let text = std::str::from_utf8(record).expect("text");
    let mut record = serde_json::from_str(text.split_once('\n').expect("two lines").1).expect("JSON");
    change(&mut record);
    let record = record.to_string();
    format!("{}\n{record}", blake3::hash(record.as_bytes()).to_hex()).into_bytes()
}

#[test]
fn a_record_that_lies_is_found_out() {
    let night = Night::new();
    let own = PackedSource::new(night.path("records")).record_of(&night.first).expect("record");
    // The first chunks of two libraries, each with the packed bytes of the other.
    let lie = changed_record(&own, &|record| {
        let chunks = record["members"].as_array_mut().expect("members").iter_mut().map(|member| &mut member["pieces"]);
        let mut chunks = chunks.filter(|pieces| pieces.as_array().is_some_and(|pieces| pieces.len() == 3));
        let (one, other) = (chunks.next().expect("a library"), chunks.next().expect("another"));
        std::mem::swap(&mut one[0]["content"], &mut other[0]["content"]);
    });
    assert_eq!(written_with(&night, &lie, false), (false, "_rocm_1_1/lib/libchanged.so.1".to_owned()));
    assert_eq!(written_with(&night, &lie, true), (true, "None".to_owned()));
    // Whatever else a record says of a piece: a good wheel, or one that is found out.
    for (key, value) in [
        ("level", serde_json::json!(9)),
        ("offset", 40.into()),
        ("length", 1.into()),
        ("blake3", "A".repeat(43).into()),
        ("content", "A".repeat(43).into()),
    ] {
        let lie = changed_record(&own, &|record| {
            for member in record["members"].as_array_mut().expect("members") {
                member["pieces"][0][key] = value.clone();
            }
        });
        assert_eq!(written_with(&night, &lie, false), (true, "None".to_owned()), "{key}");
    }
}

/// Writes the second night with the record of another machine. `true` if the wheel has the bytes of
/// a run from nothing, and the first member that Python calls damaged.
fn written_with(night: &Night, record: &[u8], verifies: bool) -> (bool, String) {
    let source = PackedSource::new(night.path("none"));
    assert!(source.add_recorded(EarlierWheel::at(&night.first).expect("wheel"), record));
    if verifies {
        source.verify();
    }
    let output = tempfile::tempdir().expect("folder");
    let written = write_with(&night.second, output.path(), LEVEL, &source);
    let script = "import sys, zipfile; print(zipfile.ZipFile(sys.argv[1]).testzip())";
    let damaged = python(script, [&written.path]).trim().to_owned();
    // Our own reader, which `audit`, `release verify` and `index check` ask, says the same.
    let problems = Wheel::open(&written.path).expect("open").verify();
    assert_eq!(problems.is_ok_and(|problems| problems.is_empty()), damaged == "None");
    (fs_err::read(&written.path).expect("read") == night.expected, damaged)
}

#[test]
fn a_record_of_another_machine_is_trusted_for_what_the_packer_made() {
    let night = Night::new();
    let own = PackedSource::new(night.path("records")).record_of(&night.first).expect("record");
    let changed = |change: &dyn Fn(&mut serde_json::Value)| changed_record(&own, change);
    let each_member = |record: &mut serde_json::Value, change: &dyn Fn(&mut serde_json::Value)| {
        record["members"].as_array_mut().expect("members").iter_mut().for_each(change);
    };
    let reused = |record: &[u8]| {
        let source = PackedSource::new(night.path("none"));
        let is_added = source.add_recorded(EarlierWheel::at(&night.first).expect("wheel"), record);
        let output = tempfile::tempdir().expect("folder");
        let written = write_with(&night.second, output.path(), LEVEL, &source);
        assert!(fs_err::read(&written.path).expect("read") == night.expected, "the bytes of a run from nothing");
        (is_added, source.reused())
    };
    let all = (true, night.reused("first"));
    assert_eq!(reused(&own), all);
    // RECORD of the result has the right hashes, whatever the record says.
    let zeros = "A".repeat(43);
    let lie = |member: &mut serde_json::Value| member["sha256"] = zeros.clone().into();
    assert_eq!(reused(&changed(&|record| each_member(record, &lie))), all);
    // Positions and lengths outside of the wheel, and too few pieces.
    let far = |member: &mut serde_json::Value| member["pieces"][0]["offset"] = u64::MAX.into();
    assert!(reused(&changed(&|record| each_member(record, &far))).1 < all.1);
    let long = |member: &mut serde_json::Value| member["pieces"][0]["length"] = u32::MAX.into();
    assert!(reused(&changed(&|record| each_member(record, &long))).1 < all.1);
    let unknown = |member: &mut serde_json::Value| member["pieces"][0]["content"] = zeros.clone().into();
    assert!(reused(&changed(&|record| each_member(record, &unknown))).1 < all.1);
    let few = |member: &mut serde_json::Value| member["pieces"] = serde_json::json!([]);
    assert_eq!(reused(&changed(&|record| each_member(record, &few))), (true, 0));
    let other = changed(&|record| record["packer"] = "zlib 1.3, level 6".into());
    for unusable in [&other[..], &own[..own.len() - 1], b"", b"\n"] {
        assert_eq!(reused(unusable), (false, 0));
    }
    assert_eq!(PackedSource::new(night.path("none")).record_of(&night.first), None);
}

#[test]
fn damaged_packed_bytes_are_not_taken_over() {
    // A bit in every 100 KB, except in the end that identifies the wheel: some pieces are lost, and
    // the result is right.
    let damage = |night: &Night| {
        let mut bytes = fs_err::read(&night.first).expect("read");
        let end = bytes.len() - (64 << 10);
        bytes[..end].iter_mut().step_by(100_000).for_each(|byte| *byte ^= 0x10);
        fs_err::write(&night.first, bytes).expect("write");
    };
    assert!(reused_after(damage) < CHUNK as u64);
}

#[test]
fn a_wheel_that_lies_in_record_is_not_believed() {
    // Python writes another wheel with the same library in it, whose RECORD is wrong, under the
    // name and in the place of the first one.
    let lie = |night: &Night| {
        let script = "import sys, zipfile\n\
            old = zipfile.ZipFile(sys.argv[1]); members = [(i, old.read(i)) for i in old.infolist()]; old.close()\n\
            new = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)\n\
            for info, data in members:\n  \
              if info.filename.endswith('RECORD'): data = data.replace(b'sha256=', b'sha256=A', 1)\n  \
              new.writestr(info, data, zipfile.ZIP_DEFLATED)\n\
            new.close()";
        python(script, [&night.first]);
    };
    assert_eq!(reused_after(lie), 0);
}

#[test]
fn another_level_is_not_reused() {
    let night = Night::new();
    for level in [LEVEL, Level::Default, Level::None, Level::Small, Level::Best] {
        let [with, without] = [(); 2].map(|()| tempfile::tempdir().expect("folder"));
        let source = PackedSource::new(night.path("records"));
        add_earlier_wheels(&source, &night.path("first")).expect("add");
        let header = || Member::new("hip.h", b"#pragma once\n".repeat(400));
        let contents = || WheelContents { members: vec![header()], ..without_members() };
        let one = write_with(&contents(), with.path(), level, &source);
        let other = write_with(&contents(), without.path(), level, &PackedSource::default());
        let reused = if level == LEVEL { TEXTS } else { 0 };
        assert_eq!((one.sha256, source.reused()), (other.sha256, reused as u64), "{level:?}");
    }
}

fn without_members() -> WheelContents {
    WheelContents { members: Vec::new(), licenses: Vec::new(), ..night("1.0", Vec::new()) }
}

/// A reader whose bytes change after the first few reads, as those of an index do that is published
/// again.
struct Changing {
    bytes: Vec<u8>,
    reads: AtomicUsize,
    good: usize,
}

impl positioned_io::ReadAt for Changing {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.bytes.as_slice().read_at(position, buffer)?;
        match self.reads.fetch_add(1, Ordering::Relaxed) {
            number if number < self.good => {}
            number if number % 2 == 0 => buffer[..count].fill(0),
            _ => return Err(std::io::Error::other("404 Not Found")),
        }
        Ok(count)
    }
}

#[test]
fn a_remote_wheel_may_change_or_go_away() {
    let night = Night::new();
    let mut reused = Vec::new();
    for good in [0, 1, 2, 4, 99] {
        let bytes = fs_err::read(&night.first).expect("read");
        let (size, reads) = (bytes.len() as u64, AtomicUsize::new(0));
        let source = PackedSource::new(night.path("records"));
        source.add(EarlierWheel::remote(Box::new(Changing { bytes, reads, good }), size));
        let output = tempfile::tempdir().expect("folder");
        let written = write_with(&night.second, output.path(), LEVEL, &source);
        assert!(fs_err::read(written.path).expect("read") == night.expected, "{good} good reads");
        reused.push(source.reused());
    }
    assert_eq!(reused[..2], [0, 0]);
    assert!(reused.is_sorted() && reused[4] > 3 * CHUNK as u64, "{reused:?}");
}

#[test]
fn a_record_that_cannot_be_written_is_a_warning() {
    let folder = tempfile::tempdir().expect("folder");
    fs_err::write(folder.path().join("file"), "in the way").expect("write");
    let source = PackedSource::new(folder.path().join("file/records"));
    let warnings = Warnings::default();
    let options = WriteOptions { reuse: source, ..WriteOptions::default() };
    let contents = without_members();
    let contents = WheelContents { members: vec![Member::new("a.h", b"// a\n".repeat(300_000))], ..contents };
    let written = write_wheel(&contents, folder.path(), &options, &warnings).expect("write");
    assert_eq!(Wheel::open(&written.path).expect("open").verify().expect("verify"), []);
    let warnings = warnings.all();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("file/records") && warnings[0].contains("compress them again"), "{warnings:?}");
}

#[test]
fn runs_share_a_folder_of_records() {
    let night = Night::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(night.reused("first") > 3 * CHUNK as u64));
        }
    });
}

#[test]
fn a_content_that_changes_while_it_is_read_is_not_hashed_wrongly() {
    struct Flicker(Vec<u8>, AtomicUsize);
    impl positioned_io::ReadAt for Flicker {
        fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.0.as_slice().read_at(position, buffer)?;
            if position == CHUNK as u64 && count > 5 {
                buffer[5] ^= 1 + self.1.fetch_add(1, Ordering::Relaxed) as u8;
            }
            Ok(count)
        }
    }
    struct Unsteady(Vec<u8>);
    impl Content for Unsteady {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }
        fn open(&self) -> std::io::Result<Reader> {
            Ok(Box::new(Flicker(self.0.clone(), AtomicUsize::new(0))))
        }
    }
    let folder = tempfile::tempdir().expect("folder");
    let source = PackedSource::new(folder.path().join("records"));
    let bytes = code(2 * CHUNK + 10, 4);
    let contents = |member| WheelContents { members: vec![member], ..without_members() };
    write_with(&contents(Member::new("lib.so", bytes.clone())), folder.path(), LEVEL, &source);
    let options = WriteOptions { level: LEVEL, reuse: source, ..WriteOptions::default() };
    let error = write_wheel(&contents(Member::new("lib.so", Unsteady(bytes))), folder.path(), &options, &Silent);
    assert!(matches!(error, Err(Error::Archive(rocwheel_archive::Error::SizeChanged { .. }))), "{error:?}");
}
