//! A member of more than 4 GiB. Slow (it is hashed and compressed), so only with the feature `real`.
#![cfg(feature = "real")]

use std::process::Command;

use positioned_io::ReadAt;
use report::Silent;
use wheel::read::Wheel;
use wheel::{
    Content, Distribution, EntryPoints, Level, Member, Metadata, Reader, Rewrite, Tag, WriteOptions, rewrite,
    write_wheel,
};

struct Zeros(u64);

impl Content for Zeros {
    fn size(&self) -> u64 {
        self.0
    }

    fn open(&self) -> std::io::Result<Reader> {
        Ok(Box::new(Zeros(self.0)))
    }
}

impl ReadAt for Zeros {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.0.saturating_sub(position).min(buffer.len() as u64) as usize;
        buffer[..length].fill(0);
        Ok(length)
    }
}

#[test]
fn a_member_of_more_than_32_bits() {
    let folder = tempfile::tempdir().expect("folder");
    let size = (1 << 32) + 12_345;
    let distribution = Distribution {
        name: "huge".to_owned(),
        version: "1.0".to_owned(),
        tags: vec![Tag::any()],
        metadata: Metadata::default(),
        entry_points: EntryPoints::default(),
        licenses: Vec::new(),
        members: vec![Member::new("huge.bin", Zeros(size)), Member::new("z/after", b"after".to_vec())],
    };
    let options = WriteOptions { level: Level::Fast, ..WriteOptions::default() };
    let written = write_wheel(&distribution, folder.path(), &options, &Silent).expect("write");
    let wheel = Wheel::open(&written.path).expect("open");
    assert_eq!(wheel.members()[0].size, size);
    assert_eq!(wheel.verify().expect("verify"), []);
    let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); i = z.getinfo('huge.bin')\n\
        print(i.file_size, z.testzip(), z.read('z/after').decode())";
    let output = Command::new("python3").args(["-c", script]).arg(&written.path).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{size} None after\n"));

    // Copied into another wheel, it keeps its bytes and 64-bit sizes.
    let other = tempfile::tempdir().expect("folder");
    let copied = rewrite(&wheel, &Rewrite::default(), other.path(), &options, &Silent).expect("rewrite");
    assert_eq!(copied.compressed, written.compressed);
    let output = Command::new("python3").args(["-c", script]).arg(&copied.path).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{size} None after\n"));
    let reader = wheel.reader("huge.bin", other.path()).expect("reader");
    assert_eq!(reader.read_at(size - 1, &mut [1, 1]).expect("read"), 1);
}
