//! Input: the output directory. Output: a staging tree beside it that replaces it at the very end.
//!
//! The output does not change before [`OutputTree::commit`]. A run that fails or is interrupted
//! removes its staging tree and nothing else. A lock beside the output keeps two runs from writing
//! to it at the same time.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;

/// A command that makes output directories, and that replaces only those it has made itself.
#[derive(Debug, Clone, Copy)]
pub struct TreeMaker {
    /// Name of the file that identifies an output of this command: `.rocwheel-import`.
    pub marker: &'static str,
    /// The command as the user types it: `rocwheel artifact import`.
    pub command: &'static str,
}

/// A tree that will become the output.
pub struct OutputTree {
    maker: TreeMaker,
    output: PathBuf,
    tree: TempDir,
    lock: Lock,
}

impl OutputTree {
    /// Locks `output` and creates the staging tree.
    ///
    /// # Errors
    /// [`Error::NotOurs`] for a directory that is neither empty nor made by `maker`,
    /// [`Error::Locked`], [`Error::Dangling`].
    pub fn new(output: &Path, maker: TreeMaker) -> Result<Self, Error> {
        let output = resolve(&std::path::absolute(output)?, maker)?;
        let parent = output.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
        fs_err::create_dir_all(&parent)?;
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lock = Lock::take(&parent.join(format!(".{name}.rocwheel-lock")), &output)?;
        check_output(&output, maker)?;
        let tree = tempfile::Builder::new().prefix(&format!(".{name}.rocwheel-")).tempdir_in(&parent)?;
        Ok(Self { maker, output, tree, lock })
    }

    /// Checks that the disk has room for `needed` bytes.
    ///
    /// # Errors
    /// [`Error::Space`].
    pub fn reserve(&self, needed: u64) -> Result<(), Error> {
        let free = rocwheel_system::free_space(self.root())?;
        if needed > free {
            let path = self.output.parent().unwrap_or(&self.output).to_owned();
            return Err(Error::Space { path, needed, free });
        }
        Ok(())
    }

    /// The staging tree, to write into.
    pub fn root(&self) -> &Path {
        self.tree.path()
    }

    /// Replaces the output with the tree.
    pub fn commit(self) -> Result<(), Error> {
        let text = format!("made by `{}`; replaced as a whole\n", self.maker.command);
        fs_err::write(self.tree.path().join(self.maker.marker), text)?;
        rocwheel_system::set_mode(self.tree.path(), 0o755)?;
        if self.output.exists() {
            // Both names change at once, so the output exists at every moment. Then the old one has
            // the temporary name.
            rocwheel_system::exchange(self.tree.path(), &self.output)?;
            rocwheel_system::remove_folder(self.tree.path())?;
            let _ = self.tree.keep();
        } else {
            rocwheel_system::rename(self.tree.path(), &self.output)?;
            let _ = self.tree.keep();
        }
        drop(self.lock);
        Ok(())
    }
}

/// Resolves the links in the part of a path that exists; the rest stays unchanged.
fn resolve(path: &Path, maker: TreeMaker) -> Result<PathBuf, Error> {
    match rocwheel_system::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Ok(target) = fs_err::read_link(path) {
                return Err(Error::Dangling { path: path.to_owned(), target });
            }
            let not_ours = || Error::NotOurs { path: path.to_owned(), command: maker.command };
            let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(not_ours)?;
            Ok(resolve(parent, maker)?.join(name))
        }
        Err(error) => Err(error.into()),
    }
}

fn check_output(output: &Path, maker: TreeMaker) -> Result<(), Error> {
    let metadata = match fs_err::symlink_metadata(output) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let ours = output.join(maker.marker).is_file();
    if metadata.is_dir() && (ours || fs_err::read_dir(output)?.next().is_none()) {
        return Ok(());
    }
    Err(Error::NotOurs { path: output.to_owned(), command: maker.command })
}

/// A lock file that is removed with the lock.
struct Lock {
    path: PathBuf,
    _file: rocwheel_system::Lock,
}

impl Lock {
    fn take(path: &Path, output: &Path) -> Result<Self, Error> {
        let file = rocwheel_system::Lock::at(path)?.ok_or_else(|| Error::Locked { path: output.to_owned() })?;
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

    const MAKER: TreeMaker = TreeMaker { marker: ".rocwheel-test", command: "rocwheel test" };

    #[test]
    fn nothing_is_left_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        let staging = OutputTree::new(&output, MAKER).unwrap();
        fs_err::write(staging.root().join("x"), "x").unwrap();
        assert!(matches!(OutputTree::new(&output, MAKER), Err(Error::Locked { .. })));
        drop(staging);
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[cfg_attr(windows, ignore = "a link to nothing, which Windows makes in developer mode only")]
    #[test]
    fn a_link_to_a_directory_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (link, real) = (directory.path().join("link"), directory.path().join("real"));
        rocwheel_system::symlink("real", &link).unwrap();
        let error = OutputTree::new(&link, MAKER).err().unwrap();
        assert!(error.to_string().ends_with("is a link to `real`, which does not exist"), "{error}");
        fs_err::create_dir(&real).unwrap();
        for _ in 0..2 {
            let staging = OutputTree::new(&link, MAKER).unwrap();
            fs_err::write(staging.root().join("x"), "x").unwrap();
            staging.commit().unwrap();
        }
        assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink() && real.join("x").exists());
    }

    #[test]
    fn a_disk_that_is_too_small_is_said_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let staging = OutputTree::new(&directory.path().join("out"), MAKER).unwrap();
        staging.reserve(1).unwrap();
        let error = staging.reserve(u64::MAX).unwrap_err();
        assert!(error.to_string().contains("but the output takes 18446744073709551615"), "{error}");
    }

    #[test]
    fn an_output_of_ours_is_replaced_and_others_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        for content in ["first", "second"] {
            let staging = OutputTree::new(&output, MAKER).unwrap();
            fs_err::write(staging.root().join(content), content).unwrap();
            staging.commit().unwrap();
        }
        assert!(output.join("second").exists() && !output.join("first").exists());
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
        let other = directory.path().join("other");
        fs_err::create_dir(&other).unwrap();
        fs_err::write(other.join("mine"), "").unwrap();
        assert!(matches!(OutputTree::new(&other, MAKER), Err(Error::NotOurs { .. })));
        assert!(matches!(OutputTree::new(&other.join("mine"), MAKER), Err(Error::NotOurs { .. })));
    }
}
