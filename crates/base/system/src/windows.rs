//! Implementation for Windows. Where it means something else than on Unix, the documentation of the
//! function says what.

mod calls;
mod job;
mod link;
mod metadata;
mod moving;
mod visual_studio;

use std::io;
use std::os::windows::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::ERROR_MORE_DATA;
use windows_sys::Win32::Storage::FileSystem::{
    FILE_FLAG_BACKUP_SEMANTICS, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE,
};

use crate::metadata::FileOwner;

pub use calls::{free_space, is_own, kill_process};
pub(crate) use calls::{try_lock, unlock};
pub(crate) use job::Group;
pub use link::symlink;
pub use metadata::open_identity;
pub use moving::{exchange, persist, persist_new, remove_contents, remove_folder, rename};
/// The trait of types that lend the handle of an open file.
pub use std::os::windows::io::AsHandle as OpenFile;
pub use visual_studio::compiler_variables;

/// `true` if a folder can be removed while this process has files in it open.
pub const REMOVES_OPEN_FILES: bool = false;

/// Bits of a mode for writing.
const WRITING: u32 = 0o222;
/// Bits of a mode for others than the owner.
const OTHERS: u32 = 0o077;

/// The time since a fixed moment. It also passes while the machine sleeps and while the process is
/// stopped, and is not moved when the date is set.
pub fn steady_time() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGIN.elapsed()
}

#[expect(clippy::disallowed_types, reason = "both kinds of files have one inside")]
pub(crate) fn write_at(file: &std::fs::File, bytes: &[u8], position: u64) -> io::Result<usize> {
    file.seek_write(bytes, position)
}

/// The absolute path with all links resolved, in the usual form (`C:\folder`) where that is
/// possible, and else in the form without a limit (`\\?\C:\folder`). Wine cannot tell the real path
/// of a file whose path is longer than 260 characters; it is the absolute one then.
///
/// # Errors
/// A path that does not exist; the message names it.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    let path = path.as_ref();
    let real = match canonicalize_numbered(path) {
        Err(error) if error.raw_os_error() == Some(ERROR_MORE_DATA.cast_signed()) => std::path::absolute(path)?,
        Err(error) => {
            let text = format!("failed to canonicalize path `{}`: {error}", path.display());
            return Err(io::Error::new(error.kind(), text));
        }
        Ok(real) => real,
    };
    Ok(dunce::simplified(&real).to_owned())
}

#[expect(clippy::disallowed_methods, reason = "fs_err hides the number of the error")]
fn canonicalize_numbered(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

/// A word for a file type that is neither a file, a folder nor a link.
pub fn special_kind(_: std::fs::FileType) -> &'static str {
    "reparse point"
}

/// Makes a file "read only" if the mode has no bit for writing. A file that only its owner may read
/// (0600) is closed to others by its access list. Folders keep the rights that they inherit.
///
/// # Errors
/// A path that does not exist, or that the user may not change.
pub fn set_mode(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    let path = path.as_ref();
    let metadata = fs_err::metadata(path)?;
    if metadata.is_dir() {
        return Ok(());
    }
    if mode & OTHERS == 0 {
        calls::make_private(path)?;
    }
    let mut permissions = metadata.permissions();
    let is_readonly = mode & WRITING == 0;
    if permissions.readonly() == is_readonly {
        return Ok(());
    }
    permissions.set_readonly(is_readonly);
    fs_err::set_permissions(path, permissions)
}

/// [`set_mode`] for an open file.
///
/// # Errors
/// A file that the user may not change.
#[expect(clippy::disallowed_types, reason = "temporary files have one inside")]
pub fn set_open_mode(file: &std::fs::File, mode: u32) -> io::Result<()> {
    set_mode(calls::path_of(file)?, mode)
}

/// Returns the options unchanged: a new file has the rights of its folder. [`set_open_mode`] makes
/// it private.
pub fn create_mode(options: &mut fs_err::OpenOptions, _: u32) -> &mut fs_err::OpenOptions {
    options
}

/// Returns the builder unchanged: a temporary file has the rights of its folder.
pub fn temporary_mode<'a, 'b, 'c>(
    builder: &'a mut tempfile::Builder<'b, 'c>,
    _: u32,
) -> &'a mut tempfile::Builder<'b, 'c> {
    builder
}

/// An owner has no number on Windows.
///
/// # Errors
/// Always [`io::ErrorKind::Unsupported`].
pub fn set_owner(file: &fs_err::File, _: FileOwner) -> io::Result<()> {
    let text = format!("cannot change the owner of `{}`: owners have no numbers on Windows", file.path().display());
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// `None`: the user of a process has no number on Windows.
pub fn current_user() -> Option<FileOwner> {
    None
}

/// Appends a copy of `from` to `to`.
pub fn copy_content(mut from: impl OpenFile + io::Read, to: &mut (impl OpenFile + io::Write)) -> io::Result<()> {
    io::copy(&mut from, to).map(drop)
}

/// `None`: Windows copies whole files only.
pub fn copy_range(_: &impl OpenFile, _: u64, _: &impl OpenFile, _: u64) -> Option<u64> {
    None
}

/// `None`: Windows has no unnamed files.
pub fn nameless_file(_: &Path, _: u32) -> Option<fs_err::File> {
    None
}

/// Windows has no unnamed files.
///
/// # Errors
/// Always [`io::ErrorKind::Unsupported`].
pub fn link_nameless(_: &fs_err::File, name: &Path) -> io::Result<()> {
    let text = format!("cannot name `{}`: Windows has no unnamed files", name.display());
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Opens a file or folder for reading. The error keeps its number, which those of `fs_err` do not.
pub fn open_numbered(path: &Path) -> io::Result<fs_err::File> {
    open_with(path, fs_err::OpenOptions::new().read(true))
}

/// Opens a path for reading and writing and closes it again. The error keeps its number.
pub fn try_device(path: &Path) -> io::Result<()> {
    open_with(path, fs_err::OpenOptions::new().read(true).write(true)).map(drop)
}

fn open_with(path: &Path, options: &mut fs_err::OpenOptions) -> io::Result<fs_err::File> {
    let options = options.options_mut();
    options.share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE);
    let file = options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?;
    Ok(fs_err::File::from_parts(file, path))
}

/// The entries of a folder. The error keeps its number.
#[expect(clippy::disallowed_methods, reason = "fs_err hides the number of the error")]
pub fn folder_entries(path: &Path) -> io::Result<std::fs::ReadDir> {
    std::fs::read_dir(path)
}

/// `None`: Windows has no signals. A program that failed with an exception has its number as the
/// code.
pub fn ending_signal(_: ExitStatus) -> Option<i32> {
    None
}

/// `None`: linkers for Windows read their arguments from a file, because no program gets more than
/// 32,767 characters.
pub fn argument_limit() -> Option<u64> {
    None
}

/// `None`: there is no limit that a process could raise.
pub fn raise_argument_limit(_: u64) -> Option<u64> {
    None
}

/// Does nothing: the heap of Windows gets blocks of 1 MiB and more from the system, and returns
/// them when they are freed.
pub fn return_large_blocks() {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileMetadata as _;

    #[test]
    fn a_mode_without_bits_for_writing_makes_a_file_read_only_and_others_writable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs_err::write(&path, "x").unwrap();
        for (mode, expected) in [(0o444, 0o444), (0o644, 0o644), (0o600, 0o644)] {
            set_mode(&path, mode).unwrap();
            assert_eq!(fs_err::metadata(&path).unwrap().mode(&path) & 0o777, expected);
        }
        fs_err::write(&path, "the owner writes a private file").unwrap();
        set_open_mode(fs_err::File::open(&path).unwrap().file(), 0o444).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().mode(&path) & 0o777, 0o444);
        set_mode(&path, 0o644).unwrap();
        assert!(set_mode(folder.path().join("none"), 0o644).is_err());
    }

    #[test]
    fn a_real_path_is_one_that_every_program_takes() {
        let folder = tempfile::tempdir().unwrap();
        let real = canonicalize(folder.path()).unwrap();
        assert!(!real.to_string_lossy().starts_with(r"\\?\"), "{}", real.display());
        assert!(real.is_absolute() && real.is_dir());
        assert!(canonicalize(folder.path().join("none")).is_err());
        let long = folder.path().join("a".repeat(150)).join("b".repeat(150));
        fs_err::create_dir_all(&long).unwrap();
        let real = canonicalize(&long).unwrap();
        assert!(real.is_absolute() && real.ends_with(long.file_name().unwrap()), "{}", real.display());
    }
}
