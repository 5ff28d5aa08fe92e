//! Input: complete files in a staging folder. Output: the same files at their destinations.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Error, StagingFolder};

/// A complete file or folder that is not at its destination yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedFile {
    /// Its current path; the file name is the final one.
    pub staged: PathBuf,
    /// Its destination. An existing file is replaced, and a missing folder is created.
    pub place: PathBuf,
}

/// Decides if a result is audited before it is moved to its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastLook {
    /// Audit it. Errors prevent the move.
    Audit,
    /// Move it without an audit.
    Skip,
}

/// An action of the commit. The actions run in the order in which they were added.
#[derive(Debug)]
enum Step {
    Move(StagedFile),
    /// Remove a path, and its parent folders that become empty, up to `below`, which stays.
    Remove {
        path: PathBuf,
        below: Option<PathBuf>,
    },
}

/// The complete result of a command that is not at its destination yet. Dropping it removes it.
///
/// `T` is the command's report; it describes the result as it will be after the commit.
#[derive(Debug)]
pub struct Staged<T> {
    report: T,
    files: Vec<StagedFile>,
    steps: Vec<Step>,
    folders: Vec<StagingFolder>,
}

impl<T> Staged<T> {
    /// A result that changes nothing.
    pub fn nothing(report: T) -> Staged<T> {
        Staged { report, files: Vec::new(), steps: Vec::new(), folders: Vec::new() }
    }

    /// A result in a staging folder, without anything to move yet.
    pub fn new(folder: StagingFolder, report: T) -> Staged<T> {
        Staged { folders: vec![folder], ..Staged::nothing(report) }
    }

    /// Adds a file that is checked and then moved to its destination.
    #[must_use]
    pub fn with_file(self, file: StagedFile) -> Staged<T> {
        self.with_shown(file.clone()).with_moved(file)
    }

    /// Adds a file that is checked. It is moved together with its folder, or not at all.
    #[must_use]
    pub fn with_shown(mut self, file: StagedFile) -> Staged<T> {
        self.files.push(file);
        self
    }

    /// Adds a file or folder that is moved to its destination without being checked.
    #[must_use]
    pub fn with_moved(mut self, file: StagedFile) -> Staged<T> {
        self.steps.push(Step::Move(file));
        self
    }

    /// Adds a file or folder that is removed after the steps that were added before. With `below`,
    /// folders inside it that become empty are removed too.
    #[must_use]
    pub fn with_removed(mut self, path: PathBuf, below: Option<PathBuf>) -> Staged<T> {
        self.steps.push(Step::Remove { path, below });
        self
    }

    /// Combines several results into one, which is committed as a whole: an error before the commit
    /// keeps all of them from being moved.
    pub fn together(all: Vec<Staged<T>>) -> Staged<Vec<T>> {
        let mut together = Staged::nothing(Vec::with_capacity(all.len()));
        for one in all {
            together.report.push(one.report);
            together.files.extend(one.files);
            together.steps.extend(one.steps);
            together.folders.extend(one.folders);
        }
        together
    }

    /// The files to check before they are moved.
    pub fn files(&self) -> &[StagedFile] {
        &self.files
    }

    pub fn report(&self) -> &T {
        &self.report
    }

    /// Moves everything to its destination, which needs no space, and removes what was added with
    /// [`Staged::with_removed`].
    ///
    /// # Errors
    /// Another process that changes the folder at the same time. Steps that are done stay done.
    pub fn commit(self) -> Result<T, Error> {
        for step in &self.steps {
            match step {
                Step::Move(file) => move_to_place(file)?,
                Step::Remove { path, below } => remove(path, below.as_deref()).map_err(|source| Error::Place {
                    action: "remove",
                    path: path.clone(),
                    source,
                })?,
            }
        }
        Ok(self.report)
    }
}

fn move_to_place(file: &StagedFile) -> Result<(), Error> {
    let failed = |source| Error::Place { action: "move the finished file to", path: file.place.clone(), source };
    file.place.parent().map_or(Ok(()), fs_err::create_dir_all).map_err(failed)?;
    rocwheel_system::rename(&file.staged, &file.place).map_err(failed)
}

fn remove(path: &Path, below: Option<&Path>) -> io::Result<()> {
    if fs_err::symlink_metadata(path)?.is_dir() {
        fs_err::remove_dir_all(path)?;
    } else {
        fs_err::remove_file(path)?;
    }
    let Some(below) = below else { return Ok(()) };
    let mut folder = path.parent();
    while let Some(empty) = folder.filter(|folder| *folder != below && folder.starts_with(below)) {
        if fs_err::read_dir(empty)?.next().is_some() {
            break;
        }
        fs_err::remove_dir(empty)?;
        folder = empty.parent();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(folder: &Path, name: &str) -> Staged<String> {
        let staging = StagingFolder::for_results(folder, ".rocwheel-").unwrap();
        let file = StagedFile { staged: staging.path().join(name), place: folder.join(name) };
        fs_err::write(&file.staged, "new").unwrap();
        Staged::new(staging, name.to_owned()).with_file(file)
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_dropped_was_never_there_and_what_is_committed_replaces() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("made/for/it");
        drop(stage(&folder, "a"));
        assert!(!root.path().join("made").exists());
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join("a"), "old").unwrap();
        drop(stage(&folder, "a"));
        assert_eq!(fs_err::read_to_string(folder.join("a")).unwrap(), "old");
        assert_eq!(stage(&folder, "a").commit().unwrap(), "a");
        assert_eq!(fs_err::read_to_string(folder.join("a")).unwrap(), "new");
        assert_eq!(names(&folder), ["a"]);
    }

    #[test]
    fn several_results_are_moved_together_and_what_is_to_go_goes_last() {
        let root = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(root.path().join("x/y")).unwrap();
        fs_err::write(root.path().join("x/y/old"), "").unwrap();
        let second = stage(root.path(), "b").with_removed(root.path().join("x/y/old"), Some(root.path().to_owned()));
        let together = Staged::together(vec![stage(root.path(), "a"), second]);
        assert_eq!(together.files().len(), 2);
        assert_eq!(together.commit().unwrap(), ["a", "b"]);
        assert_eq!(names(root.path()), ["a", "b"]);
    }

    #[test]
    fn a_place_that_is_taken_is_named() {
        let root = tempfile::tempdir().unwrap();
        let staged = stage(root.path(), "a");
        fs_err::create_dir(root.path().join("a")).unwrap();
        let error = staged.commit().unwrap_err();
        assert!(error.to_string().ends_with(&format!("`{}`", root.path().join("a").display())), "{error}");
        assert_eq!(names(root.path()), ["a"], "the staging folder went");
    }
}
