//! Input: two paths. Output: one moved to the other, as soon as no other program has it open.
//!
//! On Unix a file can be replaced while others read it. On Windows a virus scanner or an indexer
//! may have any new file open for a moment, so a refused move is tried again for a while.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;
use windows_sys::Win32::Foundation::{ERROR_ACCESS_DENIED, ERROR_LOCK_VIOLATION, ERROR_SHARING_VIOLATION};

use super::calls;

/// How long a move that another program prevents is tried.
const PATIENCE: Duration = Duration::from_secs(2);
/// First pause between two attempts; each one is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(5);

/// Renames a file or folder and replaces an existing file.
///
/// # Errors
/// The error after two seconds of attempts, if another program has one of the files open; any other
/// error at once. The message names both paths.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    repeat_refused(from, to, || move_once(from, to))
}

/// Calls a move again for two seconds, as long as another program has one of the files open.
fn repeat_refused(from: &Path, to: &Path, attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    repeat(|error| is_refused(error) && fs_err::symlink_metadata(from).is_ok(), attempt).map_err(|error| {
        let text = format!("failed to rename `{}` to `{}`: {error}", from.display(), to.display());
        io::Error::new(error.kind(), text)
    })
}

/// Calls something again for two seconds, as long as it fails with an error that may pass.
fn repeat(may_pass: impl Fn(&io::Error) -> bool, mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let (end, mut pause) = (Instant::now() + PATIENCE, PAUSE);
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && Instant::now() < end => {
                thread::sleep(pause);
                pause *= 2;
            }
            answer => return answer,
        }
    }
}

/// Removes a folder with all its contents. Another process may remove it at the same time.
///
/// # Errors
/// The error after two seconds of attempts, if another program has one of the files open; any other
/// error at once. The message names the path.
#[expect(clippy::disallowed_methods, reason = "the number of the error says whether another program has it open")]
pub fn remove_folder(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    repeat_removal(path, || std::fs::remove_dir_all(path))
}

/// Removes everything in a folder but the file with the name `kept`.
#[expect(clippy::disallowed_methods, reason = "the number of the error says whether another program has it open")]
pub fn remove_contents(folder: &Path, kept: &str) -> io::Result<()> {
    repeat_removal(folder, || {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                std::fs::remove_dir_all(entry.path())?;
            } else if entry.file_name() != kept {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    })
}

/// Removes something again for two seconds, as long as another program has a file in it open. A
/// missing path is not an error.
fn repeat_removal(path: &Path, attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    match repeat(|error| is_refused(error) || error.kind() == io::ErrorKind::DirectoryNotEmpty, attempt) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        answer => answer.map_err(|error| {
            io::Error::new(error.kind(), format!("failed to remove directory `{}`: {error}", path.display()))
        }),
    }
}

/// Moves a file or folder. As on Unix, an existing file is replaced even if it is read-only.
#[expect(clippy::disallowed_methods, reason = "the number of the error says whether another program has it open")]
fn move_once(from: &Path, to: &Path) -> io::Result<()> {
    let refused = match std::fs::rename(from, to) {
        Err(error) if is_refused(&error) => error,
        answer => return answer,
    };
    match fs_err::metadata(to) {
        Ok(metadata) if metadata.is_file() && metadata.permissions().readonly() => {
            crate::set_mode(to, 0o644)?;
            std::fs::rename(from, to).or_else(|error| crate::set_mode(to, 0o444).and(Err(error)))
        }
        _ => Err(refused),
    }
}

/// `true` if another program has one of the files open, or may have: Windows says "access denied"
/// for that as well.
fn is_refused(error: &io::Error) -> bool {
    const NUMBERS: [u32; 3] = [ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION, ERROR_ACCESS_DENIED];
    error.raw_os_error().is_some_and(|number| NUMBERS.contains(&number.cast_unsigned()))
}

/// Gives a temporary file its name and replaces an existing file, as [`rename`].
///
/// # Errors
/// Those of [`rename`]; then the temporary file is removed.
pub fn persist<F>(file: NamedTempFile<F>, path: impl AsRef<Path>) -> io::Result<()> {
    // Closed first: an indexer or scanner that waits for it is done sooner.
    let temporary = file.into_temp_path();
    calls::make_permanent(&temporary)?;
    rename(&temporary, path)?;
    // It has another name now, so dropping the temporary path removes nothing.
    drop(temporary);
    Ok(())
}

/// Gives a temporary file its name, unless that exists.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if the name exists, and those of [`rename`]; then the temporary
/// file is removed.
pub fn persist_new<F>(file: NamedTempFile<F>, path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let temporary = file.into_temp_path();
    calls::make_permanent(&temporary)?;
    repeat_refused(&temporary, path, || calls::move_to_new(&temporary, path))
}

/// Exchanges two paths. Windows cannot do this in one step: for a moment there is nothing at `one`,
/// and then at `other`. If a step fails, the steps before it are undone.
///
/// # Errors
/// A missing path, or a file that another program has open.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    let folder = one.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let between = tempfile::Builder::new().prefix(".rocwheel-exchange-").tempdir_in(folder)?;
    let aside = between.path().join("one");
    fs_err::symlink_metadata(other)?;
    rename(one, &aside)?;
    rename(other, one).or_else(|error| rename(&aside, one).and(Err(error)))?;
    rename(&aside, other).or_else(|error| rename(one, other).and_then(|()| rename(&aside, one)).and(Err(error)))
}

#[cfg(test)]
mod tests {
    use std::os::windows::fs::OpenOptionsExt as _;

    use super::*;

    /// Opens a file and shares it with no other program, as many programs do.
    fn open_alone(path: &Path) -> fs_err::File {
        let mut options = fs_err::OpenOptions::new();
        options.options_mut().read(true).share_mode(0);
        options.open(path).unwrap()
    }

    #[test]
    fn a_folder_with_an_open_file_goes_when_the_file_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, open) = (folder.path().join("tree"), folder.path().join("tree/below/open"));
        fs_err::create_dir_all(open.parent().unwrap()).unwrap();
        fs_err::write(&open, "x").unwrap();
        let held = open_alone(&open);
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(PATIENCE / 4);
                drop(held);
            });
            remove_folder(&tree).unwrap();
        });
        assert!(!tree.exists());
        // A missing path is not an error; a path that is not a folder is.
        remove_folder(&tree).unwrap();
        fs_err::write(&tree, "x").unwrap();
        assert!(remove_folder(&tree).unwrap_err().to_string().contains("tree`"));
    }

    #[test]
    fn a_read_only_file_is_replaced_unless_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs_err::write(&new, "new").unwrap();
        fs_err::write(&old, "old").unwrap();
        crate::set_mode(&old, 0o444).unwrap();
        let held = open_alone(&old);
        assert!(rename(&new, &old).is_err());
        drop(held);
        assert!(fs_err::metadata(&old).unwrap().permissions().readonly(), "its mode is restored");
        rename(&new, &old).unwrap();
        assert_eq!(fs_err::read_to_string(&old).unwrap(), "new");
    }

    #[test]
    fn two_folders_are_exchanged_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for path in [&one, &other] {
            fs_err::create_dir(path).unwrap();
            fs_err::write(path.join("name"), path.file_name().unwrap().to_str().unwrap()).unwrap();
        }
        exchange(&one, &other).unwrap();
        assert_eq!(fs_err::read_to_string(one.join("name")).unwrap(), "other");
        assert_eq!(fs_err::read_to_string(other.join("name")).unwrap(), "one");
        assert!(exchange(&one, &folder.path().join("none")).is_err());
        assert!(one.is_dir());
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_another_program_has_open_is_replaced_when_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs_err::write(&old, "old").unwrap();
        fs_err::write(&new, "new").unwrap();
        let held = open_alone(&old);
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(300));
                drop(held);
            });
            rename(&new, &old).unwrap();
        });
        assert_eq!(fs_err::read_to_string(&old).unwrap(), "new");
        fs_err::write(&new, "newer").unwrap();
        let held = open_alone(&old);
        let error = rename(&new, &old).unwrap_err();
        assert!(error.to_string().contains("old`"), "{error}");
        drop(held);
        assert_eq!(fs_err::read_to_string(&old).unwrap(), "new");
    }
}
