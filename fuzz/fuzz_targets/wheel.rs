//! Opens arbitrary bytes as a wheel, as they are and as fields of a ZIP file that is otherwise
//! good, reads its members, and makes another wheel of it: never a panic, never a wheel that is not
//! true to its RECORD. See elf_edit.rs for how to run it.
#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rocwheel_archive::MemberKind;
use rocwheel_archive::{FileDigest, WriteOptions};
use rocwheel_progress::Silent;
use rocwheel_wheel::read::{Wheel, WheelProblem};
use rocwheel_wheel::{Existing, Headers, Rewrite, rewrite};
use tempfile::TempDir;

const NAME: &str = "pkg-1.0-py3-none-any.whl";
const METADATA: &[u8] = b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n";
const WHEEL: &[u8] = b"Wheel-Version: 1.0\nTag: py3-none-any\n";

/// Takes numbers from the input; zeros when it is over.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken.to_vec()
    }

    /// The number that is right, or one of the input.
    fn or(&mut self, right: u32) -> u32 {
        match self.byte() {
            0..=0xdf => right,
            0xe0..=0xef => right.wrapping_add(u32::from(self.byte())).wrapping_sub(128),
            _ => u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }
}

struct Member {
    name: Vec<u8>,
    /// Where its header is.
    offset: u32,
    /// Method, attributes, checksum, packed size, size.
    fields: [u32; 5],
}

/// A ZIP file of four members, some of whose fields are the input's.
fn archive(source: &mut Source<'_>) -> Vec<u8> {
    let length = usize::from(source.byte() % 12);
    let name = source.bytes(length);
    let length = usize::from(source.byte());
    let contents: [(Vec<u8>, Vec<u8>); 4] = [
        (name, source.bytes(length)),
        (b"pkg-1.0.dist-info/METADATA".to_vec(), METADATA.to_vec()),
        (b"pkg-1.0.dist-info/WHEEL".to_vec(), WHEEL.to_vec()),
        (b"pkg-1.0.dist-info/RECORD".to_vec(), source.bytes(usize::from(length > 200) * 40)),
    ];
    let mut bytes = Vec::new();
    let mut members = Vec::new();
    for (name, content) in contents {
        let size = content.len() as u32;
        let fields = [
            source.or(0),
            source.or(0o100_644 << 16),
            source.or(crc32fast::hash(&content)),
            source.or(size),
            source.or(size),
        ];
        let member = Member { offset: source.or(bytes.len() as u32), name, fields };
        let [method, _, crc, packed, size] = member.fields;
        bytes.extend(b"PK\x03\x04\x14\x00");
        bytes.extend((source.or(0) as u16).to_le_bytes());
        bytes.extend((method as u16).to_le_bytes());
        bytes.extend([0, 0, 0x21, 0]);
        for value in [crc, source.or(packed), source.or(size)] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend((source.or(member.name.len() as u32) as u16).to_le_bytes());
        bytes.extend((source.or(0) as u16).to_le_bytes());
        bytes.extend(&member.name);
        bytes.extend(content);
        members.push(member);
    }
    let start = bytes.len() as u32;
    for member in &members {
        let [method, attributes, crc, packed, size] = member.fields;
        bytes.extend(b"PK\x01\x02\x14\x03\x14\x00");
        bytes.extend((source.or(0) as u16).to_le_bytes());
        bytes.extend((method as u16).to_le_bytes());
        bytes.extend([0, 0, 0x21, 0]);
        for value in [crc, packed, size] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend((member.name.len() as u16).to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(attributes.to_le_bytes());
        bytes.extend(member.offset.to_le_bytes());
        bytes.extend(&member.name);
    }
    let size = bytes.len() as u32 - start;
    bytes.extend(b"PK\x05\x06\x00\x00\x00\x00\x04\x00");
    bytes.extend((source.or(4) as u16).to_le_bytes());
    bytes.extend(source.or(size).to_le_bytes());
    bytes.extend(source.or(start).to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

fn check(folder: &Path, bytes: &[u8]) {
    let input = folder.join(NAME);
    fs::write(&input, bytes).expect("the folder can be written");
    let Ok(wheel) = Wheel::open(&input) else { return };
    let mut announced = 0;
    for member in wheel.members() {
        announced += member.size;
        assert!(member.compressed <= bytes.len() as u64);
        assert!(!member.name.starts_with('/') && !member.name.split('/').any(|part| part == ".."));
        let start = wheel.start(&member.name, 16);
        // What is announced as huge is not unpacked here: each input is to take little time.
        if member.size > 1 << 20 {
            continue;
        }
        if let Ok(read) = wheel.bytes(&member.name) {
            assert_eq!(read.len() as u64, member.size);
            assert!(member.kind != MemberKind::Directory);
            assert!(read.starts_with(&start.expect("the whole can be read")));
        }
    }
    if announced > 4 << 20 {
        return;
    }
    let _ = wheel.verify();
    let Ok(metadata) = wheel.metadata() else { return };
    let mut headers = Headers::parse(&metadata);
    if headers.push("Summary", "fuzzed").is_err() {
        return;
    }
    let change = Rewrite { metadata: Some(headers.to_string()), existing: Existing::Refuse, ..Rewrite::default() };
    let output = folder.join("output");
    let options = WriteOptions { digest: FileDigest::Skip, ..WriteOptions::default() };
    let Ok(written) = rewrite(&wheel, &change, &output, &options, &Silent) else {
        assert_eq!(fs::read_dir(&output).expect("it is there").count(), 0, "something is left");
        return;
    };
    let result = Wheel::open(&written.path).expect("what is written can be opened");
    // What is copied is as true as it was: neither its bytes nor its hashes are looked at.
    let is_false = |problem: &WheelProblem| {
        matches!(problem, WheelProblem::Hash(_) | WheelProblem::Size(_) | WheelProblem::Unreadable(_))
    };
    let had = wheel.verify().map_or(true, |problems| problems.iter().any(is_false));
    assert!(had || result.verify().expect("what is written can be read").is_empty());
    assert_eq!(
        Headers::parse(&result.metadata().expect("it was written")).all("Summary").last().map(String::as_str),
        Some("fuzzed")
    );
    fs::remove_file(&written.path).expect("it was written");
}

thread_local! {
    static FOLDER: OnceCell<TempDir> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, rest)) = bytes.split_first() else { return };
    FOLDER.with(|folder| {
        let folder = folder.get_or_init(|| {
            let folder = tempfile::tempdir().expect("the system's folder for temporary files takes one more");
            fs::create_dir(folder.path().join("output")).expect("the folder is new");
            folder
        });
        if mode % 8 == 0 { check(folder.path(), rest) } else { check(folder.path(), &archive(&mut Source(rest))) }
    });
});
