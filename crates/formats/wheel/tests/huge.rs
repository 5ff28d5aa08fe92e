//! A member of more than 4 GiB. It is slow (the member is hashed and compressed), so it needs the
//! feature `real`.
#![cfg(feature = "real")]

use std::process::Command;

use positioned_io::ReadAt;
use rocwheel_archive::{FileDigest, Level, WriteOptions};
use rocwheel_content::{Content, Reader};
use rocwheel_edit::{self as edit, EditPlacement, VersionEdit, WheelEdit};
use rocwheel_output::Destination;
use rocwheel_progress::Silent;
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{EntryPoints, Existing, Member, Metadata, Rewrite, Tag, WheelContents, rewrite, write_wheel};

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
    let distribution = WheelContents {
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

    // A copy in another wheel keeps its bytes and 64-bit sizes.
    let other = tempfile::tempdir().expect("folder");
    let copied = rewrite(&wheel, &Rewrite::default(), other.path(), &options, &Silent).expect("rewrite");
    assert_eq!(copied.compressed, written.compressed);
    let output = Command::new("python3").args(["-c", script]).arg(&copied.path).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{size} None after\n"));
    // An edit copies it too, into a folder with another name.
    let edit = WheelEdit { version: Some(VersionEdit::set("2.0").expect("version")), ..WheelEdit::default() };
    let plans = edit::plan(&[copied.path], &edit, other.path(), &Silent).expect("plan");
    let place = EditPlacement {
        destination: Destination::InPlace,
        existing: Existing::Refuse,
        scratch: other.path().to_owned(),
    };
    let options = WriteOptions { digest: FileDigest::Skip, ..WriteOptions::default() };
    let edited = edit::execute(&plans[0], &place, &options, &Silent).expect("edit");
    let output = Command::new("python3").args(["-c", script]).arg(&edited.path).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{size} None after\n"));
    assert_eq!(Wheel::open(&edited.path).expect("open").verify().expect("verify"), []);
    let reader = wheel.reader("huge.bin", other.path()).expect("reader");
    assert_eq!(reader.read_at(size - 1, &mut [1, 1]).expect("read"), 1);
}

#[test]
fn a_wheel_of_more_than_32_bits_packed() {
    // Stored zeros that occupy no disk space: a member of five gigabytes, which moves the following
    // members and the directory beyond the range of 32 bits. Its hash in RECORD has the right form
    // but a wrong value, because copied members are not verified.
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("huge-1.0-py3-none-any.whl");
    let script = "import struct, sys\n\
        size = 5 << 30\n\
        info = 'huge-1.0.dist-info/'\n\
        record = 'zeros,sha256=' + 'A' * 43 + ',%d\\n' % size + info + 'RECORD,,\\n'\n\
        import zlib\n\
        texts = {info + 'METADATA': b'Metadata-Version: 2.1\\nName: huge\\nVersion: 1.0\\n',\n\
        info + 'WHEEL': b'Wheel-Version: 1.0\\nTag: py3-none-any\\n', info + 'RECORD': record.encode()}\n\
        file, central = open(sys.argv[1], 'wb'), b''\n\
        def put(name, data, length):\n  \
          global central\n  \
          name, at, large = name.encode(), file.tell(), data is None\n  \
          crc = 0x12345678 if large else zlib.crc32(data)\n  \
          small = 0xffffffff if large else length\n  \
          extra = struct.pack('<HHQQ', 1, 16, length, length) if large else b''\n  \
          file.write(struct.pack('<4s5H3I2H', b'PK\\3\\4', 45, 0x800, 0, 0, 33, crc, small, small, len(name), len(extra)) + name + extra)\n  \
          if large: file.seek(length, 1)\n  \
          else: file.write(data)\n  \
          far = at >= 0xffffffff\n  \
          extra = (struct.pack('<QQ', length, length) if large else b'') + (struct.pack('<Q', at) if far else b'')\n  \
          extra = struct.pack('<HH', 1, len(extra)) + extra if extra else b''\n  \
          central += struct.pack('<4s6H3I5H2I', b'PK\\1\\2', 0x32d, 45, 0x800, 0, 0, 33, crc, small, small, len(name), len(extra), 0, 0, 0, 0o100644 << 16, 0xffffffff if far else at) + name + extra\n\
        put('zeros', None, size)\n\
        for name, data in texts.items(): put(name, data, len(data))\n\
        start = file.tell()\n\
        file.write(central)\n\
        end = file.tell()\n\
        file.write(struct.pack('<4sQ2H2I4Q', b'PK\\6\\6', 44, 45, 45, 0, 0, 4, 4, len(central), start))\n\
        file.write(struct.pack('<4sIQI', b'PK\\6\\7', 0, end, 1))\n\
        file.write(struct.pack('<4s4H2IH', b'PK\\5\\6', 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0))\n";
    let made = Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let edit = WheelEdit { version: Some(VersionEdit::set("2.0").expect("version")), ..WheelEdit::default() };
    let plans = edit::plan(&[path], &edit, folder.path(), &Silent).expect("plan");
    let place = EditPlacement {
        destination: Destination::Folder(folder.path().join("out")),
        existing: Existing::Refuse,
        scratch: folder.path().to_owned(),
    };
    let options = WriteOptions { digest: FileDigest::Skip, ..WriteOptions::default() };
    let edited = edit::execute(&plans[0], &place, &options, &Silent).expect("edit");
    assert!(edited.size > 5 << 30);
    let script = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); i = z.getinfo('zeros')\n\
        print(i.file_size, i.CRC == 0x12345678, z.read('huge-2.0.dist-info/METADATA').decode().split()[-1])";
    let output = Command::new("python3").args(["-c", script]).arg(&edited.path).output().expect("python3");
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{} True 2.0\n", 5_u64 << 30));
}
