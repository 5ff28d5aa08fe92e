//! Input: a folder. Output: a temporary folder in it, which is removed with its owner. If the owner
//! was killed, the next one in the same folder removes it.
//!
//! Only an abandoned folder is removed: one with a name of the right form that belongs to the same
//! user and contains a mark file on which no process holds a lock. The kernel frees locks when a
//! process ends, however it ends.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_system::{FileMetadata as _, Lock, current_user};
use tempfile::TempDir;

/// The file that marks such a folder. It is locked while the folder is in use.
const MARK: &str = ".in-use";
/// Length of the random part of a name, as tempfile makes it.
const RANDOM: usize = 6;

/// A temporary folder. Dropping it removes it with all its contents.
#[derive(Debug)]
pub struct StagingFolder {
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
    ///
    /// # Errors
    /// A folder that cannot be created.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<StagingFolder> {
        StagingFolder::sweep(parent, prefix);
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        // Without a lock no other process removes the folder.
        let lock = mark(folder.path()).ok();
        Ok(StagingFolder { folder, _lock: lock, _around: MadeFolders::default() })
    }

    /// Like [`StagingFolder::new_in`], in an output folder, which is created if it is missing. The
    /// created folders are removed together with the staging folder unless they contain a result by
    /// then.
    ///
    /// # Errors
    /// A folder that cannot be created.
    pub fn for_results(output: &Path, prefix: &str) -> io::Result<StagingFolder> {
        let around = MadeFolders::make(output)?;
        Ok(StagingFolder { _around: around, ..StagingFolder::new_in(output, prefix)? })
    }

    /// Removes folders with this prefix that killed processes have left in `parent`. Those that
    /// cannot be removed stay.
    pub fn sweep(parent: &Path, prefix: &str) {
        sweep(parent, prefix);
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// A folder that cannot be removed. Dropping it would hide that error.
    pub fn close(self) -> io::Result<()> {
        self.folder.close()
    }
}

/// Adds the mark to a folder. The mark gets its name after it is locked, so no other process finds
/// it unlocked.
fn mark(folder: &Path) -> io::Result<Lock> {
    let unlocked = folder.join(".unlocked");
    let locked = Lock::try_exclusive(fs_err::File::create_new(&unlocked)?);
    let Ok(Some(lock)) = locked else {
        fs_err::remove_file(&unlocked)?;
        return Err(locked.err().unwrap_or(io::ErrorKind::WouldBlock.into()));
    };
    fs_err::rename(&unlocked, folder.join(MARK))?;
    Ok(lock)
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
        let Ok(file) = fs_err::File::open(folder.join(MARK)) else { continue };
        if let Ok(Some(_lock)) = Lock::try_exclusive(file) {
            let _ = fs_err::remove_dir_all(&folder);
        }
    }
}

/// `true` for a folder, not a link to one, that belongs to the user of this process.
fn is_own(path: &Path) -> bool {
    let is_users = |metadata: &std::fs::Metadata| metadata.owner().user == current_user().user;
    fs_err::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir() && is_users(&metadata))
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
        make(".rocwheel-long-name", &[MARK]);
        make("rocwheel-Ab12Cd", &[MARK]);
        let used = StagingFolder::new_in(parent.path(), ".rocwheel-").unwrap();
        assert!(!parent.path().join(".rocwheel-Ab12Cd").exists());
        let other = StagingFolder::new_in(parent.path(), ".rocwheel-").unwrap();
        assert!(used.path().join(MARK).exists() && other.path().exists(), "a folder in use was removed");
        drop(used);
        other.close().unwrap();
        let kept = [".rocwheel-long-name", ".rocwheel-nomark", ".rocwheel-unmark", "rocwheel-Ab12Cd"];
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
