//! Input: the output directory. Output: a staging tree beside it that takes its place at the very
//! end.
//!
//! Until [`Staging::commit`] nothing at the output changes; a run that fails or is interrupted
//! removes its staging tree and leaves the rest as it was. A lock beside the output keeps two runs
//! apart.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::TempDir;

use rocwheel_report::{Exit, Hint};

use crate::input;

/// The command that makes an output, which replaces its own outputs and nobody else's.
#[derive(Debug, Clone, Copy)]
pub struct Maker {
    /// The file that tells an output of this command from other directories: `.rocwheel-import`.
    pub marker: &'static str,
    /// The command: `rocwheel artifact import`.
    pub command: &'static str,
}

/// Why an output cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The output holds something this command did not write.
    #[error("the output `{path}` is not empty and was not made by `{command}`")]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The command.
        command: &'static str,
    },
    /// The disk is too small.
    #[error("`{path}` has {free} bytes free, but the output takes {needed}")]
    Space {
        /// The directory that holds the output.
        path: PathBuf,
        /// Bytes that will be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The output is a link to nothing.
    #[error("the output `{path}` is a link to `{target}`, which does not exist")]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Its text.
        target: PathBuf,
    },
    /// Another run works on the same output.
    #[error("another run is writing to the output `{path}`")]
    Locked {
        /// The directory.
        path: PathBuf,
    },
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Io(source) => return crate::error::storage_hint(source),
            Self::Dangling { .. } => "make that directory, or choose another output",
            Self::Space { .. } => "make room on the disk, or choose another output",
            Self::NotOurs { .. } => "choose an empty directory, or remove this one",
            Self::Locked { .. } => "wait for it to end, or choose another output",
        };
        Some(text.to_owned())
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Locked { .. } => Exit::TryAgain,
            _ => Exit::Failed,
        }
    }
}

/// A tree that is about to become the output.
pub struct Staging {
    maker: Maker,
    output: PathBuf,
    tree: TempDir,
    lock: Lock,
}

impl Staging {
    /// Locks `output` and makes the staging tree.
    ///
    /// # Errors
    /// [`Error::NotOurs`] for a directory that is neither empty nor made by `maker`,
    /// [`Error::Locked`], [`Error::Dangling`].
    pub fn new(output: &Path, maker: Maker) -> Result<Self, Error> {
        let output = input::resolve(&std::path::absolute(output)?).map_err(|error| match error {
            crate::Error::Io(source) => Error::Io(source),
            crate::Error::DanglingOutput { path, target } => Error::Dangling { path, target },
            _ => Error::NotOurs { path: output.to_owned(), command: maker.command },
        })?;
        let parent = output.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned);
        fs_err::create_dir_all(&parent)?;
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lock = Lock::take(&parent.join(format!(".{name}.rocwheel-lock")), &output)?;
        check_output(&output, maker)?;
        let tree = tempfile::Builder::new().prefix(&format!(".{name}.rocwheel-")).tempdir_in(&parent)?;
        Ok(Self { maker, output, tree, lock })
    }

    /// Checks that `needed` bytes fit on the disk.
    ///
    /// # Errors
    /// [`Error::Space`].
    pub fn reserve(&self, needed: u64) -> Result<(), Error> {
        let disk = rustix::fs::statvfs(self.root()).map_err(io::Error::from)?;
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed > free {
            let path = self.output.parent().unwrap_or(&self.output).to_owned();
            return Err(Error::Space { path, needed, free });
        }
        Ok(())
    }

    /// Where to write.
    pub fn root(&self) -> &Path {
        self.tree.path()
    }

    /// Puts the tree in the place of the output.
    pub fn commit(self) -> Result<(), Error> {
        let text = format!("made by `{}`; replaced as a whole\n", self.maker.command);
        fs_err::write(self.tree.path().join(self.maker.marker), text)?;
        fs_err::set_permissions(self.tree.path(), std::fs::Permissions::from_mode(0o755))?;
        if self.output.exists() {
            // Both names change at once, so there is no moment without an output; the old one goes
            // with the TempDir.
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

fn check_output(output: &Path, maker: Maker) -> Result<(), Error> {
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

/// A lock file that disappears with the lock.
struct Lock {
    path: PathBuf,
    _file: rocwheel_lock::Lock,
}

impl Lock {
    fn take(path: &Path, output: &Path) -> Result<Self, Error> {
        let locked = || Error::Locked { path: output.to_owned() };
        let file = fs_err::OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        let file = rocwheel_lock::Lock::try_exclusive(file)?.ok_or_else(locked)?;
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

    const MAKER: Maker = Maker { marker: ".rocwheel-test", command: "rocwheel test" };

    #[test]
    fn nothing_is_left_when_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        let staging = Staging::new(&output, MAKER).unwrap();
        fs_err::write(staging.root().join("x"), "x").unwrap();
        assert!(matches!(Staging::new(&output, MAKER), Err(Error::Locked { .. })));
        drop(staging);
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_to_a_directory_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (link, real) = (directory.path().join("link"), directory.path().join("real"));
        std::os::unix::fs::symlink("real", &link).unwrap();
        let error = Staging::new(&link, MAKER).err().unwrap();
        assert!(error.to_string().ends_with("is a link to `real`, which does not exist"), "{error}");
        fs_err::create_dir(&real).unwrap();
        for _ in 0..2 {
            let staging = Staging::new(&link, MAKER).unwrap();
            fs_err::write(staging.root().join("x"), "x").unwrap();
            staging.commit().unwrap();
        }
        assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink() && real.join("x").exists());
    }

    #[test]
    fn a_disk_that_is_too_small_is_said_before_anything_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let staging = Staging::new(&directory.path().join("out"), MAKER).unwrap();
        staging.reserve(1).unwrap();
        let error = staging.reserve(u64::MAX).unwrap_err();
        assert!(error.to_string().contains("but the output takes 18446744073709551615"), "{error}");
    }

    #[test]
    fn an_output_of_ours_is_replaced_and_others_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        for content in ["first", "second"] {
            let staging = Staging::new(&output, MAKER).unwrap();
            fs_err::write(staging.root().join(content), content).unwrap();
            staging.commit().unwrap();
        }
        assert!(output.join("second").exists() && !output.join("first").exists());
        assert_eq!(fs_err::read_dir(directory.path()).unwrap().count(), 1);
        let other = directory.path().join("other");
        fs_err::create_dir(&other).unwrap();
        fs_err::write(other.join("mine"), "").unwrap();
        assert!(matches!(Staging::new(&other, MAKER), Err(Error::NotOurs { .. })));
        assert!(matches!(Staging::new(&other.join("mine"), MAKER), Err(Error::NotOurs { .. })));
    }
}
