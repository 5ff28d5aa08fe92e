//! Input: the output directory. Output: a staging tree beside it that takes its place at the very end.
//!
//! Until [`Staging::commit`] nothing at the output changes; a run that fails or is interrupted removes its staging tree
//! and leaves the rest as it was. A lock beside the output keeps two runs apart.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use super::error::Error;

/// The file that tells an output of an import from other directories.
const MARKER: &str = ".rocwheel-import";

/// A tree that is about to become the output.
pub(super) struct Staging {
    output: PathBuf,
    tree: TempDir,
    lock: Lock,
}

impl Staging {
    /// Locks `output` and makes the staging tree.
    ///
    /// # Errors
    /// [`Error::OutputNotOurs`] for a directory that is neither empty nor made by an import, [`Error::Locked`].
    pub(super) fn new(output: &Path) -> Result<Self, Error> {
        let output = std::path::absolute(output)?;
        let parent = output.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
        fs_err::create_dir_all(&parent)?;
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lock = Lock::take(&parent.join(format!(".{name}.rocwheel-lock")), &output)?;
        check_output(&output)?;
        let tree = tempfile::Builder::new().prefix(&format!(".{name}.rocwheel-")).tempdir_in(&parent)?;
        Ok(Self { output, tree, lock })
    }

    /// Checks that `needed` bytes fit on the disk.
    ///
    /// # Errors
    /// [`Error::Space`].
    pub(super) fn reserve(&self, needed: u64) -> Result<(), Error> {
        let disk = rustix::fs::statvfs(self.root()).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed > free {
            let path = self.output.parent().unwrap_or(&self.output).to_owned();
            return Err(Error::Space { path, needed, free });
        }
        Ok(())
    }

    /// Where to write.
    pub(super) fn root(&self) -> &Path {
        self.tree.path()
    }

    /// Puts the tree in the place of the output.
    pub(super) fn commit(self) -> Result<(), Error> {
        fs_err::write(self.tree.path().join(MARKER), "made by `rocwheel artifact import`; replaced as a whole\n")?;
        fs_err::set_permissions(self.tree.path(), std::fs::Permissions::from_mode(0o755))?;
        if self.output.exists() {
            // Both names change at once, so there is no moment without an output; the old one goes with the TempDir.
            renameat_with(CWD, self.tree.path(), CWD, &self.output, RenameFlags::EXCHANGE).map_err(io::Error::from)?;
            self.tree.close()?;
        } else {
            fs_err::rename(self.tree.path(), &self.output)?;
            let _ = self.tree.keep();
        }
        drop(self.lock);
        Ok(())
    }
}

fn check_output(output: &Path) -> Result<(), Error> {
    let metadata = match fs_err::symlink_metadata(output) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let ours = output.join(MARKER).is_file();
    if metadata.is_dir() && (ours || fs_err::read_dir(output)?.next().is_none()) {
        return Ok(());
    }
    Err(Error::OutputNotOurs { path: output.to_owned() })
}

/// A lock file that disappears with the lock.
struct Lock {
    path: PathBuf,
    _file: fs_err::File,
}

impl Lock {
    fn take(path: &Path, output: &Path) -> Result<Self, Error> {
        let locked = || Error::Locked { path: output.to_owned() };
        let file = fs_err::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.try_lock().map_err(|_| locked())?;
        // The run before may have removed the file between our open and lock.
        let same =
            fs_err::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|ours| there.ino() == ours.ino()));
        if !same {
            return Err(locked());
        }
        Ok(Self { path: path.to_owned(), _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs_err::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        let staging = Staging::new(&output).unwrap();
        fs_err::write(staging.root().join("x"), "x").unwrap();
        assert!(matches!(Staging::new(&output), Err(Error::Locked { .. })));
        drop(staging);
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_that_is_too_small_is_said_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let staging = Staging::new(&directory.path().join("out")).unwrap();
        staging.reserve(1).unwrap();
        let error = staging.reserve(u64::MAX).unwrap_err();
        assert!(error.to_string().contains("but the packages take 18446744073709551615"), "{error}");
    }

    #[test]
    fn an_output_of_ours_is_replaced_and_others_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        for content in ["first", "second"] {
            let staging = Staging::new(&output).unwrap();
            fs_err::write(staging.root().join(content), content).unwrap();
            staging.commit().unwrap();
        }
        assert!(output.join("second").exists() && !output.join("first").exists());
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
        let other = directory.path().join("other");
        fs_err::create_dir(&other).unwrap();
        fs_err::write(other.join("mine"), "").unwrap();
        assert!(matches!(Staging::new(&other), Err(Error::OutputNotOurs { .. })));
        assert!(matches!(Staging::new(&other.join("mine")), Err(Error::OutputNotOurs { .. })));
    }
}
