//! Input: metadata of a file and its path. Output: the same as on Unix, as far as Windows knows it.

use std::fs::Metadata;
use std::io::{self, Read as _};
use std::os::windows::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_READ_ATTRIBUTES,
};

use super::calls;
use crate::metadata::{FileIdentity, FileMetadata, FileOwner, Timestamp};

/// Hundreds of nanoseconds from 1601, where Windows begins to count, to 1970.
const EPOCH: i64 = 116_444_736_000_000_000;
/// Hundreds of nanoseconds in a second.
const SECOND: i64 = 10_000_000;

/// Types of `st_mode`.
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

impl FileMetadata for Metadata {
    fn mode(&self, path: &Path) -> u32 {
        if self.is_symlink() {
            return LINK | 0o777;
        }
        if self.is_dir() {
            return FOLDER | 0o755;
        }
        let mode = if is_program(path) { 0o755 } else { 0o644 };
        FILE | if self.permissions().readonly() { mode & !super::WRITING } else { mode }
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        identity(&winapi_util::file::information(open(self, path)?.file())?)
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        Ok(winapi_util::file::information(open(self, path)?.file())?.number_of_links())
    }

    fn modified_at(&self) -> Timestamp {
        timestamp(self.last_write_time().cast_signed())
    }

    fn changed_at(&self, path: &Path) -> io::Result<Timestamp> {
        Ok(timestamp(calls::change_time(open(self, path)?.file())?))
    }

    fn owner(&self) -> Option<FileOwner> {
        None
    }
}

/// Which file an open file is.
///
/// # Errors
/// A file system without numbers of files.
pub fn open_identity(file: &fs_err::File) -> io::Result<FileIdentity> {
    identity(&winapi_util::file::information(file.file())?)
}

#[expect(clippy::unnecessary_wraps, reason = "both callers return a result")]
fn identity(information: &winapi_util::file::Information) -> io::Result<FileIdentity> {
    Ok(FileIdentity { device: information.volume_serial_number(), inode: information.file_index() })
}

/// Opens a path for its attributes only, which Windows allows for files that others have locked.
fn open(metadata: &Metadata, path: &Path) -> io::Result<fs_err::File> {
    let link = if metadata.is_symlink() { FILE_FLAG_OPEN_REPARSE_POINT } else { 0 };
    let mut options = fs_err::OpenOptions::new();
    options.options_mut().access_mode(FILE_READ_ATTRIBUTES).custom_flags(FILE_FLAG_BACKUP_SEMANTICS | link);
    options.open(path)
}

fn timestamp(ticks: i64) -> Timestamp {
    let ticks = ticks - EPOCH;
    Timestamp { seconds: ticks.div_euclid(SECOND), nanoseconds: ticks.rem_euclid(SECOND) * 100 }
}

/// `true` for what a system executes: programs and libraries of Windows (`MZ`) and of Linux (ELF,
/// other than object files), and scripts with a `#!` line.
fn is_program(path: &Path) -> bool {
    /// `ET_EXEC` and `ET_DYN` in a file with little-endian numbers.
    const KINDS: [[u8; 2]; 2] = [[2, 0], [3, 0]];
    let mut head = Vec::new();
    let read = fs_err::File::open(path).and_then(|file| file.take(18).read_to_end(&mut head));
    read.is_ok()
        && (head.starts_with(b"#!")
            || head.starts_with(b"MZ")
            || head.starts_with(b"\x7fELF") && head.get(16..18).is_some_and(|kind| KINDS.iter().any(|one| one == kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_of_a_file_have_one_identity_and_two_links() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, other) = (folder.path().join("one"), folder.path().join("two"), folder.path().join("other"));
        fs_err::write(&one, "x").unwrap();
        fs_err::hard_link(&one, &two).unwrap();
        fs_err::write(&other, "x").unwrap();
        let identity = |path: &Path| fs_err::metadata(path).unwrap().identity(path).unwrap();
        assert_eq!(identity(&one), identity(&two));
        assert_ne!(identity(&one), identity(&other));
        assert_ne!(identity(&one), identity(folder.path()));
        assert_eq!(fs_err::metadata(&one).unwrap().link_count(&one).unwrap(), 2);
        assert_eq!(open_identity(&fs_err::File::open(&two).unwrap()).unwrap(), identity(&one));
        assert!(fs_err::metadata(&one).unwrap().identity(&folder.path().join("none")).is_err());
    }

    #[test]
    fn programs_of_either_system_and_scripts_are_executable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let shared = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0";
        let object = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0";
        for (bytes, mode) in [
            (&b"#!/bin/sh\n"[..], 0o755),
            (b"MZ\x90", 0o755),
            (shared, 0o755),
            (object, 0o644),
            (b"\x7fELF", 0o644),
            (b"", 0o644),
        ] {
            fs_err::write(&path, bytes).unwrap();
            assert_eq!(fs_err::metadata(&path).unwrap().mode(&path), FILE | mode, "{bytes:?}");
        }
        assert_eq!(fs_err::metadata(folder.path()).unwrap().mode(folder.path()), FOLDER | 0o755);
    }

    #[test]
    fn times_are_those_of_the_standard_library() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let metadata = fs_err::metadata(file.path()).unwrap();
        let since = metadata.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        let modified = metadata.modified_at();
        assert_eq!((modified.seconds, modified.nanoseconds), (since.as_secs() as i64, i64::from(since.subsec_nanos())));
        let changed = metadata.changed_at(file.path()).unwrap();
        assert!((changed.seconds - modified.seconds).abs() < 10, "{changed:?} {modified:?}");
    }
}
