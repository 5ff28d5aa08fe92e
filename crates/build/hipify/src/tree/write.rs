//! Input: a plan. Output: the converted tree, in place or as a copy. All results are complete and
//! beside their destinations before the first one is moved; until the last one is moved, everything
//! can be undone.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_output::Destination;
use rocwheel_progress::{Exit, Failure, Reporter, Unit};
use rocwheel_system::{FileMetadata as _, Lock};
use walkdir::WalkDir;

use super::Plan;
use super::interruption_point::step;
use super::journal::{Journal, Stamp};
use crate::error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct WrittenCounts {
    pub files: u64,
    pub bytes: u64,
}

impl Plan {
    /// After an error or an interruption the tree is unchanged.
    pub fn execute(&self, place: &Destination, reporter: &dyn Reporter) -> Result<WrittenCounts, Failure> {
        match place {
            Destination::InPlace if self.writes.is_empty() => {}
            Destination::InPlace => self.write(reporter).map_err(error::or_another_folder)?,
            Destination::Folder(folder) => self.copy(folder, reporter).map_err(error::or_another_folder)?,
        }
        let bytes = self.writes.iter().map(|write| write.bytes.len() as u64).sum();
        Ok(WrittenCounts { files: self.writes.len() as u64, bytes })
    }

    fn write(&self, reporter: &dyn Reporter) -> Result<(), Failure> {
        let mut journal = Journal::begin(&self.root, &self.writes)?;
        let staged = self.stage(&journal, reporter);
        match staged.and_then(|stamps| journal.put(stamps)) {
            Ok(()) => journal.forget(),
            Err(error) => {
                // If that fails too, the journal stays, and the next run undoes the changes.
                let _ = journal.take_back();
                Err(error)
            }
        }
    }

    fn stage(&self, journal: &Journal, reporter: &dyn Reporter) -> Result<Vec<Stamp>, Failure> {
        for folder in journal.folders() {
            step();
            fs_err::create_dir(folder)?;
        }
        let stage = reporter.stage("writing", Some(self.writes.len() as u64), Unit::Items);
        let stamps = self.writes.par_iter().enumerate().map(|(index, write)| {
            reporter.check()?;
            reporter.advance(1);
            step();
            let replaced = journal.replaced(index).map(fs_err::metadata).transpose()?;
            create(&journal.beside(index), &write.bytes, replaced.as_ref())
        });
        let stamps: Vec<Result<Stamp, Failure>> = stamps.collect();
        drop(stage);
        let stamps = stamps.into_iter().collect::<Result<_, _>>()?;
        reporter.check()?;
        Ok(stamps)
    }

    /// Writes a copy of the whole tree with the results in it. It gets its name when it is
    /// complete.
    fn copy(&self, folder: &Path, reporter: &dyn Reporter) -> Result<(), Failure> {
        let folder = std::path::absolute(folder)?;
        let parent = folder.parent().unwrap_or(Path::new("/"));
        if fs_err::symlink_metadata(&folder).is_ok() {
            let failure = Failure::message(format!("`{}` exists already", folder.display()));
            return Err(failure.with_hint("choose a new folder, or convert in place"));
        }
        fs_err::create_dir_all(parent)?;
        if rocwheel_system::canonicalize(parent)?.starts_with(&self.root) {
            let failure = Failure::message(format!("`{}` is in the tree that is to be copied", folder.display()));
            return Err(failure.with_hint("choose a folder beside it").with_exit(Exit::Usage));
        }
        let staging = Staging::open(&folder)?;
        let copy = staging.tree();
        copy_tree(&self.root, &copy, reporter)?;
        let stage = reporter.stage("writing", Some(self.writes.len() as u64), Unit::Items);
        let put = self.writes.par_iter().map(|write| {
            reporter.check()?;
            reporter.advance(1);
            let path = copy.join(&write.path);
            fs_err::create_dir_all(path.parent().unwrap_or(&copy))?;
            let replaced = fs_err::metadata(&path).ok();
            if replaced.is_some() {
                fs_err::remove_file(&path)?;
            }
            create(&path, &write.bytes, replaced.as_ref()).map(drop)
        });
        let put: Vec<Result<(), Failure>> = put.collect();
        drop(stage);
        put.into_iter().collect::<Result<(), _>>()?;
        Ok(rocwheel_system::rename(&copy, &folder)?)
    }
}

/// Writes a new file with the mode and owner of the file that it replaces.
fn create(path: &Path, bytes: &[u8], replaced: Option<&std::fs::Metadata>) -> Result<Stamp, Failure> {
    // The file has the mode of every new file, reduced by the umask.
    let mut file = fs_err::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    let own = file.metadata()?;
    if let Some(replaced) = replaced {
        if let Some(owner) = replaced.owner().filter(|owner| own.owner() != Some(*owner)) {
            // Only an administrator may do this. For one it matters, because the files of other
            // users must keep their owner.
            let _ = rocwheel_system::set_owner(&file, owner);
        }
        if own.permissions() != replaced.permissions() {
            file.set_permissions(replaced.permissions())?;
        }
    }
    Ok(Stamp::of(path, &own)?)
}

/// The folder in which a copy is made, beside its destination. Its name allows the next run to find
/// it.
struct Staging {
    path: PathBuf,
    /// `None` only while it is dropped.
    lock: Option<Lock>,
}

impl Staging {
    /// Locks the folder, and removes the files that a killed run has left in it.
    fn open(folder: &Path) -> Result<Self, Failure> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let path = folder.with_file_name(format!(".{name}.rocwheel-hipify"));
        loop {
            fs_err::create_dir_all(&path)?;
            let lock = match Lock::at(&path.join("lock")) {
                // The previous holder has removed the folder meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                lock => lock?.ok_or_else(|| error::locked(folder))?,
            };
            let staging = Self { path, lock: Some(lock) };
            if fs_err::symlink_metadata(staging.tree()).is_ok() {
                fs_err::remove_dir_all(staging.tree())?;
            }
            return Ok(staging);
        }
    }

    fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed by the next run.
        let _ = fs_err::remove_dir_all(&self.path);
        // Not every system removes a file that this process has open, or its folder.
        self.lock = None;
        let _ = fs_err::remove_dir(&self.path);
    }
}

fn copy_tree(from: &Path, to: &Path, reporter: &dyn Reporter) -> Result<(), Failure> {
    let mut files = Vec::new();
    for entry in WalkDir::new(from) {
        let entry = entry.map_err(io::Error::from)?;
        let path = entry.path().strip_prefix(from).unwrap_or(entry.path()).to_owned();
        if entry.file_type().is_dir() {
            fs_err::create_dir(to.join(&path))?;
        } else if entry.file_type().is_symlink() {
            let target = fs_err::read_link(entry.path())?;
            rocwheel_system::symlink(target, to.join(&path))?;
        } else if entry.file_type().is_file() {
            files.push(path);
        } else {
            return Err(error::not_a_file(path.display()));
        }
    }
    let _stage = reporter.stage("copying", Some(files.len() as u64), Unit::Items);
    files.par_iter().try_for_each(|path| -> Result<(), Failure> {
        reporter.check()?;
        reporter.advance(1);
        fs_err::copy(from.join(path), to.join(path))?;
        Ok(())
    })?;
    Ok(())
}
