//! Input: a folder. Output: a temporary folder in it, which is removed with its owner. If the owner
//! was killed, the next one in the same folder removes it.
//!
//! Only an abandoned folder is removed: one with a name of the right form that belongs to the same
//! user and contains a mark file on which no process holds a lock, or nothing at all. The kernel
//! frees locks when a process ends, however it ends.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_system::Lock;
use tempfile::TempDir;

/// The file that marks such a folder. It is locked while the folder is in use.
const MARK: &str = ".in-use";
/// Its name before it is locked. One in a folder with nothing else is of a process that was killed
/// at that moment.
const UNLOCKED: &str = ".unlocked";
/// How often to make the folder again if another process takes it for abandoned. Even once is rare.
const TRIES: usize = 16;
/// Length of the random part of a name, as tempfile makes it.
const RANDOM: usize = 6;

/// A temporary folder. Dropping it removes it with all its contents.
#[derive(Debug)]
pub struct StagingFolder {
    // The lock, on systems that do not remove a folder with an open file in it. Another process may
    // remove the folder at the same moment.
    closed_first: Option<Lock>,
    // Declared before the lock, so it is dropped first.
    folder: TempDir,
    _lock: Option<Lock>,
    // Dropped last, because they contain the folder.
    _around: MadeFolders,
}

/// Folders that were created for a result, outermost first. Dropping this removes those that are
/// empty.
#[derive(Debug, Default)]
struct MadeFolders(Vec<PathBuf>);

impl MadeFolders {
    fn make(folder: &Path) -> io::Result<Self> {
        let missing: Vec<PathBuf> = folder
            .ancestors()
            .filter(|path| !path.as_os_str().is_empty())
            .take_while(|path| !path.exists())
            .map(Path::to_owned)
            .collect();
        let made = Self(missing.into_iter().rev().collect());
        fs_err::create_dir_all(folder)?;
        Ok(made)
    }
}

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // Fails if the folder contains a result or anything else.
            let _ = fs_err::remove_dir(folder);
        }
    }
}

impl StagingFolder {
    /// Creates a folder in `parent` with a name that begins with `prefix`. First it removes those
    /// that killed processes have left there.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<StagingFolder> {
        StagingFolder::sweep(parent, prefix);
        for _ in 0..TRIES {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
            let lock = match mark(folder.path()) {
                Mark::Locked(lock) => Some(lock),
                Mark::Unlocked => None,
                Mark::Lost => continue,
            };
            let (first, last) = if rocwheel_system::REMOVES_OPEN_FILES { (None, lock) } else { (lock, None) };
            return Ok(StagingFolder { closed_first: first, folder, _lock: last, _around: MadeFolders::default() });
        }
        Err(io::Error::other("other processes remove each folder that is made"))
    }

    /// Like [`StagingFolder::new_in`], in an output folder, which is created if it is missing. The
    /// created folders are removed together with the staging folder unless they contain a result by
    /// then.
    pub fn for_results(output: &Path, prefix: &str) -> io::Result<StagingFolder> {
        let around = MadeFolders::make(output)?;
        Ok(StagingFolder { _around: around, ..StagingFolder::new_in(output, prefix)? })
    }

    /// Removes folders with this prefix that killed processes have left in `parent`. Those that
    /// cannot be removed stay.
    pub fn sweep(parent: &Path, prefix: &str) {
        sweep(parent, prefix);
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// A folder that cannot be removed. Dropping it would hide that error. The next process in the
    /// same place tries again.
    pub fn close(self) -> io::Result<()> {
        let folder = self.folder.keep();
        // The mark goes last: a folder in which something stays is recognised as abandoned.
        rocwheel_system::remove_contents(&folder, MARK)?;
        drop(self.closed_first);
        rocwheel_system::remove_folder(&folder)
    }
}

/// How a new folder is marked as in use.
enum Mark {
    Locked(Lock),
    /// The file system has no locks. So no other process locks the file, or removes the folder.
    Unlocked,
    /// Another process has taken the folder for abandoned.
    Lost,
}

/// Adds the mark to a folder. It gets its name after it is locked, so no other process finds it
/// unlocked.
fn mark(folder: &Path) -> Mark {
    let unlocked = folder.join(UNLOCKED);
    let file = match fs_err::File::create_new(&unlocked) {
        Ok(file) => file,
        Err(_) if !folder.is_dir() => return Mark::Lost,
        Err(_) => return Mark::Unlocked,
    };
    match Lock::try_exclusive(file) {
        Ok(Some(lock)) => match rocwheel_system::rename(&unlocked, folder.join(MARK)) {
            Err(_) if fs_err::symlink_metadata(&unlocked).is_err() => Mark::Lost,
            _ => Mark::Locked(lock),
        },
        Ok(None) => Mark::Lost,
        Err(_) => Mark::Unlocked,
    }
}

/// Removes the folders that killed processes have left. Those that cannot be removed stay.
fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = fs_err::read_dir(parent) else { return };
    let stale: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let random = name.to_str().and_then(|name| name.strip_prefix(prefix));
            random
                .is_some_and(|random| random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        })
        .map(|entry| entry.path())
        .filter(|path| is_own(path))
        .collect();
    for folder in stale {
        if let Ok(file) = fs_err::File::open(folder.join(MARK)) {
            let Ok(Some(lock)) = Lock::try_exclusive(file) else { continue };
            if rocwheel_system::remove_contents(&folder, MARK).is_ok() {
                // Not every system removes a file that this process has open.
                drop(lock);
                let _ = fs_err::remove_dir_all(&folder);
            }
            continue;
        }
        // Its process was killed before it had a mark, so nothing else is in it.
        let unlocked = folder.join(UNLOCKED);
        if let Ok(file) = fs_err::File::open(&unlocked)
            && has_only(&folder, UNLOCKED)
            && let Ok(Some(_lock)) = Lock::try_exclusive(file)
        {
            let _ = fs_err::remove_file(&unlocked);
        }
        // Fails if anything is in it.
        let _ = fs_err::remove_dir(&folder);
    }
}

fn has_only(folder: &Path, name: &str) -> bool {
    fs_err::read_dir(folder)
        .is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|entry| entry.file_name().to_str() == Some(name))))
}

/// `true` for a folder, not a link to one, that belongs to the user of this process.
fn is_own(path: &Path) -> bool {
    fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && rocwheel_system::is_own(path, &metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_killed_processes_goes_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, files: &[&str]| {
            fs_err::create_dir(parent.path().join(name)).unwrap();
            for file in files {
                fs_err::write(parent.path().join(name).join(file), "x").unwrap();
            }
        };
        make(".rocwheel-Ab12Cd", &[MARK, "large.whl"]);
        make(".rocwheel-unmark", &["precious.txt"]);
        make(".rocwheel-nomark", &[]);
        make(".rocwheel-killed", &[UNLOCKED]);
        make(".rocwheel-Mine00", &[UNLOCKED, "precious.txt"]);
        make(".rocwheel-long-name", &[MARK]);
        make("rocwheel-Ab12Cd", &[MARK]);
        let used = StagingFolder::new_in(parent.path(), ".rocwheel-").unwrap();
        assert!(!parent.path().join(".rocwheel-Ab12Cd").exists());
        let other = StagingFolder::new_in(parent.path(), ".rocwheel-").unwrap();
        assert!(used.path().join(MARK).exists() && other.path().exists(), "a folder in use was removed");
        drop(used);
        other.close().unwrap();
        let kept = [".rocwheel-Mine00", ".rocwheel-long-name", ".rocwheel-unmark", "rocwheel-Ab12Cd"];
        let mut names: Vec<String> = fs_err::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, kept);
        // A link is not followed.
        let outside = tempfile::tempdir().unwrap();
        fs_err::write(outside.path().join(MARK), "").unwrap();
        rocwheel_system::symlink(outside.path(), parent.path().join(".rocwheel-linked")).unwrap();
        drop(StagingFolder::new_in(parent.path(), ".rocwheel-").unwrap());
        assert!(outside.path().join(MARK).exists());
    }

    /// Processes that begin at the same time sweep up each other's folders before these are marked.
    #[test]
    fn a_folder_that_others_take_for_abandoned_is_made_again() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let folder = StagingFolder::new_in(parent.path(), ".rocwheel-").unwrap();
                        fs_err::write(folder.path().join("file"), "x").unwrap();
                        assert!(folder.path().join(MARK).exists());
                        folder.close().unwrap();
                    }
                });
            }
        });
        assert_eq!(fs_err::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn folders_without_a_result_go_and_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let (above, output) = (root.path().join("above"), root.path().join("above/output"));
        drop(StagingFolder::for_results(&output, ".x-").unwrap());
        assert!(!above.exists());
        let staging = StagingFolder::for_results(&output, ".x-").unwrap();
        fs_err::write(output.join("result"), "").unwrap();
        drop(staging);
        assert_eq!(fs_err::read_dir(&output).unwrap().count(), 1);
        // A folder that existed before stays, empty or not.
        fs_err::remove_file(output.join("result")).unwrap();
        drop(StagingFolder::for_results(&output, ".x-").unwrap());
        assert!(output.is_dir());
        // If the folder cannot be created, the attempt leaves nothing behind.
        fs_err::write(root.path().join("file"), "").unwrap();
        assert!(StagingFolder::for_results(&root.path().join("file/output"), ".x-").is_err());
    }
}
