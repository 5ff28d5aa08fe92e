//! Archives of more than 4 GiB, in sparse files.

#![allow(clippy::disallowed_types, reason = "a file without a name has none that errors could say")]

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use rocwheel_kpack::{ArchiveWriter, Blob, Error, KpackArchive, Scheme};

const GIBIBYTE: usize = 1 << 30;

/// A sparse file: zeros take no space.
struct Sparse {
    file: File,
    position: u64,
    end: u64,
}

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(1 << 20);
        if bytes[..length].iter().any(|byte| *byte != 0) {
            self.file.seek(SeekFrom::Start(self.position))?;
            self.file.write_all(&bytes[..length])?;
        }
        self.position += length as u64;
        self.end = self.end.max(self.position);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.set_len(self.end)
    }
}

impl Seek for Sparse {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(position) = to else { panic!("{to:?}") };
        self.position = position;
        Ok(position)
    }
}

/// Creates a code object of 1 GiB that is zero except for its last bytes.
fn blob(number: u8, bytes: &mut Vec<u8>) -> Blob {
    let mut code = std::mem::take(bytes);
    code.resize(GIBIBYTE, 0);
    code[GIBIBYTE - 8..].fill(number);
    Blob { original_size: GIBIBYTE as u64, bytes: code }
}

#[test]
fn code_objects_behind_4_gib_are_found() {
    let file = tempfile::tempfile().unwrap();
    let out = Sparse { file: file.try_clone().unwrap(), position: 0, end: 0 };
    let targets = ["gfx942".to_owned()];
    let mut writer = ArchiveWriter::new(out, "group", "gfx942", &targets, Scheme::None).unwrap();
    let mut bytes = Vec::new();
    for number in 1..=5 {
        let blob = blob(number, &mut bytes);
        writer.add("lib/x.so", u32::from(number), "gfx942", &blob).unwrap();
        bytes = blob.bytes;
    }
    let small = Blob::pack(b"the last one", Scheme::None, 3).unwrap();
    writer.add("lib/x.so", 6, "gfx942", &small).unwrap();
    writer.finish().unwrap().flush().unwrap();
    let size = file.metadata().unwrap().len();
    assert!(size > 5 << 30);
    let archive = KpackArchive::open(&file, size).unwrap();
    let last = archive.find("lib/x.so", 6, "gfx942").unwrap();
    assert!(last.offset > 5 << 30);
    assert_eq!(archive.read(&file, &last).unwrap(), b"the last one");
    let fifth = archive.find("lib/x.so", 5, "gfx942").unwrap();
    assert!(fifth.offset > 4 << 30);
    assert_eq!(archive.read(&file, &fifth).unwrap()[GIBIBYTE - 9..], [0, 5, 5, 5, 5, 5, 5, 5, 5]);
    // An offset outside the file is refused, and so is a truncated file.
    assert!(matches!(
        KpackArchive::open(&file, size - (1 << 30)),
        Err(Error::Archive { .. } | Error::NotAnArchive { .. } | Error::ReadArchive { .. })
    ));
}

/// The loader keeps the compressed code objects of an archive in memory, and accepts up to 4 GiB of
/// them.
#[test]
fn more_than_the_loader_takes_is_refused() {
    let out = Sparse { file: tempfile::tempfile().unwrap(), position: 0, end: 0 };
    let mut writer = ArchiveWriter::new(out, "group", "gfx942", &["gfx942".to_owned()], Scheme::ZstdPerKernel).unwrap();
    let mut bytes = Vec::new();
    for number in 1..=3 {
        let blob = blob(number, &mut bytes);
        writer.add("lib/x.so", u32::from(number), "gfx942", &blob).unwrap();
        bytes = blob.bytes;
    }
    let error = writer.add("lib/x.so", 4, "gfx942", &blob(4, &mut bytes)).unwrap_err().to_string();
    assert!(
        error.ends_with("it would have more than 4 GiB of code objects, which the loader does not take"),
        "{error}"
    );
}
