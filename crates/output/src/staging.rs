//! Input: a folder. Output: a temporary folder in it, which goes with its owner; when the owner was
//! killed, the next one in the same folder removes it.
//!
//! What is removed has to be nobody's: a folder of the right name that belongs to the same user and
//! has a mark in it, on which no process holds a lock. The kernel gives up locks when a process
//! ends, however it ends.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_system::{FileMetadata as _, Lock, current_user};
use tempfile::TempDir;

/// The file that marks such a folder, and is locked while somebody uses it.
const MARK: &str = ".in-use";
/// Characters of a random name behind the prefix, as tempfile makes them.
const RANDOM: usize = 6;

/// A temporary folder. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct StagingFolder {
    // Goes before the lock does.
    folder: TempDir,
    _lock: Option<Lock>,
    // Go last, being around the folder.
    _around: MadeFolders,
}

/// Folders that were made for a result, those above first. Dropping this removes the ones in which
/// nothing is.
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
            // Fails where a result is in it, or anything else.
            let _ = fs_err::remove_dir(folder);
        }
    }
}

impl StagingFolder {
    /// Makes one in `parent`, with a name that begins with `prefix`, after those that killed
    /// processes have left there are removed.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<StagingFolder> {
        StagingFolder::sweep(parent, prefix);
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        // Where there are no locks nobody removes anything.
        let lock = mark(folder.path()).ok();
        Ok(StagingFolder { folder, _lock: lock, _around: MadeFolders::default() })
    }

    /// As [`StagingFolder::new_in`], in a folder for results, which is made where there is none.
    /// What was made for it goes again with the staging folder, unless there is a result in it by
    /// then.
    ///
    /// # Errors
    /// When the folders cannot be made.
    pub fn for_results(output: &Path, prefix: &str) -> io::Result<StagingFolder> {
        let around = MadeFolders::make(output)?;
        Ok(StagingFolder { _around: around, ..StagingFolder::new_in(output, prefix)? })
    }

    /// Removes what killed processes have left in `parent`, by folders of this prefix. What cannot
    /// be removed stays.
    pub fn sweep(parent: &Path, prefix: &str) {
        sweep(parent, prefix);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Removes it.
    ///
    /// # Errors
    /// When that fails, which dropping it does not say.
    pub fn close(self) -> io::Result<()> {
        self.folder.close()
    }
}

/// Puts the mark into a folder. It gets its name when it is locked already, so that nobody finds it
/// free.
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

/// Removes what killed processes have left. Whatever cannot be removed stays.
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

/// Whether a path is a folder, not a link to one, of the user that this process runs as.
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
        // What was there before stays, empty or not.
        fs_err::remove_file(output.join("result")).unwrap();
        drop(StagingFolder::for_results(&output, ".x-").unwrap());
        assert!(output.is_dir());
        // Where the folder cannot be had, nothing is left of the attempt.
        fs_err::write(root.path().join("file"), "").unwrap();
        assert!(StagingFolder::for_results(&root.path().join("file/output"), ".x-").is_err());
    }
}
