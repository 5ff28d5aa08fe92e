//! Input: a plan. Output: the converted tree, in place or as a copy. All results are complete, beside where they belong, before the
//! first is moved into place.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use report::{Reporter, Unit};
use tempfile::TempPath;
use walkdir::WalkDir;

use super::{Plan, Write};
use crate::Error;

/// Where the converted tree goes.
#[derive(Debug, Clone)]
pub enum Place {
    /// Into the tree itself.
    InPlace,
    /// Into a new folder, with everything else of the tree.
    Folder(PathBuf),
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Done {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Plan {
    /// Writes the results.
    pub fn execute(&self, place: &Place, reporter: &dyn Reporter) -> Result<Done, Error> {
        match place {
            Place::InPlace => self.write(&self.root, reporter)?,
            Place::Folder(folder) => self.copy(folder, reporter)?,
        }
        let bytes = self.writes.iter().map(|write| write.bytes.len() as u64).sum();
        Ok(Done { files: self.writes.len() as u64, bytes })
    }

    fn write(&self, root: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
        let mut folders = Folders(Vec::new());
        for write in &self.writes {
            if let Some(folder) = root.join(&write.path).parent() {
                folders.create(folder)?;
            }
        }
        reporter.begin("writing", Some(self.writes.len() as u64), Unit::Items);
        let staged: Vec<Result<(TempPath, PathBuf), Error>> = self
            .writes
            .par_iter()
            .map(|write| {
                if reporter.interrupted() {
                    return Err(Error::Interrupted);
                }
                reporter.advance(1);
                stage(root, write)
            })
            .collect();
        let staged = staged.into_iter().collect::<Result<Vec<_>, Error>>()?;
        reporter.end();
        if reporter.interrupted() {
            return Err(Error::Interrupted);
        }
        // From here on nothing stops: each step is a rename within one folder.
        folders.0.clear();
        for (staged, path) in staged {
            staged.persist(&path).map_err(|failed| Error::Io(failed.error))?;
        }
        Ok(())
    }

    /// The whole tree with the results in it, complete before it gets its name.
    fn copy(&self, folder: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
        let folder = std::path::absolute(folder)?;
        let parent = folder.parent().unwrap_or(Path::new("/"));
        if fs_err::symlink_metadata(&folder).is_ok() {
            return Err(Error::OutputExists(folder.display().to_string()));
        }
        fs_err::create_dir_all(parent)?;
        if fs_err::canonicalize(parent)?.starts_with(&self.root) {
            return Err(Error::OutputInside(folder.display().to_string()));
        }
        let staging = tempfile::Builder::new().prefix(".hipify-").tempdir_in(parent)?;
        let copy = staging.path().join("tree");
        copy_tree(&self.root, &copy, reporter)?;
        self.write(&copy, reporter)?;
        fs_err::rename(&copy, &folder)?;
        Ok(())
    }
}

/// A result in a temporary file beside its place, with the mode and owner of what it replaces.
fn stage(root: &Path, write: &Write) -> Result<(TempPath, PathBuf), Error> {
    let path = root.join(&write.path);
    let folder = path.parent().unwrap_or(root);
    // The umask takes from this what it takes from every new file.
    let mode = std::fs::Permissions::from_mode(0o666);
    let staged = tempfile::Builder::new().prefix(".hipify-").permissions(mode).tempfile_in(folder)?;
    fs_err::write(staged.path(), &write.bytes)?;
    if let Ok(replaced) = fs_err::metadata(&path) {
        let own = staged.as_file().metadata()?;
        if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid()) {
            // Only an administrator may; then it matters that files do not change hands.
            let _ = std::os::unix::fs::fchown(staged.as_file(), Some(replaced.uid()), Some(replaced.gid()));
        }
        staged.as_file().set_permissions(replaced.permissions())?;
    }
    Ok((staged.into_temp_path(), path))
}

/// Folders that were made for results, and go when the results do not come.
struct Folders(Vec<PathBuf>);

impl Folders {
    fn create(&mut self, folder: &Path) -> Result<(), Error> {
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(parent) = folder.parent() {
            self.create(parent)?;
        }
        fs_err::create_dir(folder)?;
        self.0.push(folder.to_owned());
        Ok(())
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // One that is not empty belongs to somebody else by now.
            let _ = fs_err::remove_dir(folder);
        }
    }
}

fn copy_tree(from: &Path, to: &Path, reporter: &dyn Reporter) -> Result<(), Error> {
    let mut files = Vec::new();
    for entry in WalkDir::new(from) {
        let entry = entry.map_err(|error| Error::Io(error.into()))?;
        let path = entry.path().strip_prefix(from).unwrap_or(entry.path()).to_owned();
        if entry.file_type().is_dir() {
            fs_err::create_dir(to.join(&path))?;
        } else if entry.file_type().is_symlink() {
            let target = fs_err::read_link(entry.path())?;
            fs_err::os::unix::fs::symlink(target, to.join(&path))?;
        } else if entry.file_type().is_file() {
            files.push(path);
        } else {
            return Err(Error::NotAFile(path.display().to_string()));
        }
    }
    reporter.begin("copying", Some(files.len() as u64), Unit::Items);
    files.par_iter().try_for_each(|path| {
        if reporter.interrupted() {
            return Err(Error::Interrupted);
        }
        reporter.advance(1);
        fs_err::copy(from.join(path), to.join(path))?;
        Ok(())
    })?;
    reporter.end();
    Ok(())
}
