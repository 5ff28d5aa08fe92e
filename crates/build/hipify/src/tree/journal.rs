//! Input: the files that will be written into a tree. Output: a file in the tree that describes how
//! to undo that, for as long as it may be needed.
//!
//! Results are first written beside their destination (`….new`). A file that a result replaces gets
//! a second name (`….old`) before the result is moved. So the tree can be restored byte for byte
//! until the journal says that everything is done. A killed run leaves the journal behind, and the
//! next run finds it. The process that works in the tree holds a lock on the journal, which the
//! kernel frees when the process dies. Nothing is flushed to the disk, so the journal does not
//! protect against a power failure.

use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_progress::Failure;
use rocwheel_system::{FileMetadata as _, Lock, is_same_file};
use serde::{Deserialize, Serialize};

use super::Write;
use super::interruption_point::step;
use crate::error;

/// Name of the journal, in the root of the tree, and prefix of the temporary names beside results.
const FILE: &str = ".rocwheel-hipify";
const SCHEMA: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Begun(Begun),
    /// All results have been written beside their destinations. The stamps identify them later.
    Staged(Vec<Stamp>),
    /// All results are at their destinations.
    Done,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Begun {
    schema: u32,
    /// Folders that must be created, outermost first.
    folders: Vec<PathBuf>,
    entries: Vec<Entry>,
}

/// A file that will be written; the path is relative to the tree.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    path: PathBuf,
    /// `true` if a file exists already.
    replaced: bool,
}

/// Distinguishes a file that this program wrote from one that was changed afterwards: inode, size,
/// time of the last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp(u64, u64, i64, i64);

impl Stamp {
    pub(super) fn of(path: &Path, metadata: &std::fs::Metadata) -> io::Result<Self> {
        let modified = metadata.modified_at();
        Ok(Self(metadata.identity(path)?.inode, metadata.len(), modified.seconds, modified.nanoseconds))
    }
}

/// The action that was necessary after an earlier, killed run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovered {
    /// Nothing: no run was killed.
    Nothing,
    /// The tree was restored to its state before that run.
    TakenBack,
    /// That run had written everything. The files it had kept for undoing were removed.
    Completed,
}

#[derive(Debug)]
pub(super) struct Journal {
    root: PathBuf,
    file: Lock,
    begun: Begun,
    staged: Vec<Stamp>,
}

/// Undoes the changes that a killed run has made in a tree. Files that it had not begun to write
/// stay untouched.
///
/// # Errors
/// Another run that works in the tree; files of that run that have been changed since. In that case
/// no file is changed.
pub fn recover(tree: &Path) -> Result<Recovered, Failure> {
    let root = super::convert::root(tree)?;
    let Some(file) = locked(&root, &Missing::Leave)? else { return Ok(Recovered::Nothing) };
    let (journal, is_done) = Journal::read(root, file)?;
    if is_done {
        journal.forget()?;
        return Ok(Recovered::Completed);
    }
    journal.take_back()?;
    Ok(Recovered::TakenBack)
}

/// Refuses a tree that a killed run has left half converted, and one in which another run works.
pub(super) fn check(root: &Path) -> Result<(), Failure> {
    match locked(root, &Missing::Leave)? {
        None => Ok(()),
        Some(_) => Err(unfinished(root)),
    }
}

/// A killed run has left the tree half converted.
fn unfinished(root: &Path) -> Failure {
    let text = format!("a conversion of `{}` was killed before it was complete", root.display());
    Failure::message(text).with_hint("`--recover` undoes it, and so does the next conversion in place")
}

/// A journal that cannot be understood.
fn damaged(path: &str, reason: &str) -> Failure {
    let text = format!("could not understand `{path}`, which a conversion that was killed left: {reason}");
    let hint = "take the tree from where it came, or remove the file if you know that the tree is complete";
    Failure::message(text).with_hint(hint)
}

enum Missing {
    Leave,
    Create,
}

fn locked(root: &Path, missing: &Missing) -> Result<Option<Lock>, Failure> {
    let path = root.join(FILE);
    loop {
        let mut options = fs_err::OpenOptions::new();
        options.read(true).write(true).create(matches!(missing, Missing::Create));
        let file = match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let Some(file) = Lock::try_exclusive(file)? else {
            return Err(error::locked(root));
        };
        // The previous holder may have removed it between opening and locking.
        if is_same_file(&file, &path) {
            return Ok(Some(file));
        }
    }
}

impl Journal {
    /// Records what will be written, before anything is written.
    pub(super) fn begin(root: &Path, writes: &[Write]) -> Result<Self, Failure> {
        let entries = writes.iter().map(|write| Entry {
            path: write.path.clone(),
            replaced: fs_err::symlink_metadata(root.join(&write.path)).is_ok(),
        });
        let entries = entries.collect();
        let begun = Begun { schema: SCHEMA, folders: missing_folders(root, writes), entries };
        step();
        let Some(file) = locked(root, &Missing::Create)? else {
            return Err(io::Error::new(io::ErrorKind::NotFound, root.join(FILE).display().to_string()).into());
        };
        if file.metadata()?.len() > 0 {
            return Err(unfinished(root));
        }
        let mut journal = Self { root: root.to_owned(), file, begun: Begun::default(), staged: Vec::new() };
        step();
        let line = Line::Begun(begun);
        let written = journal.append(&line);
        if let Line::Begun(begun) = line {
            journal.begun = begun;
        }
        match written {
            Ok(()) => Ok(journal),
            Err(error) => {
                // Nothing else has been done yet.
                let _ = fs_err::remove_file(root.join(FILE));
                Err(error)
            }
        }
    }

    /// Folders that must be created, outermost first.
    pub(super) fn folders(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.begun.folders.iter().map(|folder| self.root.join(folder))
    }

    /// The temporary path of a write's result.
    pub(super) fn beside(&self, index: usize) -> PathBuf {
        self.aside(index, "new")
    }

    /// The file that a write replaces; `None` if the file is new.
    pub(super) fn replaced(&self, index: usize) -> Option<PathBuf> {
        let entry = &self.begun.entries[index];
        entry.replaced.then(|| self.root.join(&entry.path))
    }

    /// Moves all results to their destinations. After an error, call [`Self::take_back`].
    pub(super) fn put(&mut self, stamps: Vec<Stamp>) -> Result<(), Failure> {
        step();
        let line = Line::Staged(stamps);
        self.append(&line)?;
        if let Line::Staged(stamps) = line {
            self.staged = stamps;
        }
        // No result depends on another one, so the order does not matter.
        self.begun.entries.par_iter().enumerate().try_for_each(|(index, entry)| {
            let path = self.root.join(&entry.path);
            if entry.replaced {
                step();
                keep(&path, &self.aside(index, "old"))?;
            }
            step();
            rocwheel_system::rename(self.aside(index, "new"), path)
        })?;
        step();
        self.append(&Line::Done)
    }

    /// Removes the files that were kept for undoing, and the journal.
    pub(super) fn forget(self) -> Result<(), Failure> {
        for (index, entry) in self.begun.entries.iter().enumerate() {
            if entry.replaced {
                step();
                remove(&self.aside(index, "old"))?;
            }
        }
        step();
        Ok(remove(&self.root.join(FILE))?)
    }

    /// Restores the tree. Repeating it, completely or partly, has the same result as doing it once.
    pub(super) fn take_back(self) -> Result<(), Failure> {
        let fates: Vec<Fate> = (0..self.begun.entries.len()).map(|index| self.fate(index)).collect();
        let entries = self.begun.entries.iter().zip(&fates);
        let changed = entries.filter(|(_, fate)| **fate == Fate::Foreign);
        let changed: Vec<String> = changed.map(|(entry, _)| entry.path.display().to_string()).collect();
        if !changed.is_empty() {
            let (tree, changed) = (self.root.display(), changed.join("`, `"));
            let text = format!("a conversion of `{tree}` was killed, and of what it wrote `{changed}` changed since");
            return Err(Failure::message(text).with_hint(
                "nothing was touched: keep what you need of these files, remove them, and take it back with `--recover`",
            ));
        }
        for (index, fate) in fates.into_iter().enumerate() {
            let entry = &self.begun.entries[index];
            if fate == Fate::Ours {
                step();
                let path = self.root.join(&entry.path);
                if entry.replaced {
                    rocwheel_system::rename(self.aside(index, "old"), path)?;
                } else {
                    remove(&path)?;
                }
            }
            for aside in ["new", "old"] {
                step();
                remove(&self.aside(index, aside))?;
            }
        }
        for folder in self.begun.folders.iter().rev() {
            step();
            // If the folder is not empty, other files have been added to it.
            let _ = fs_err::remove_dir(self.root.join(folder));
        }
        step();
        Ok(remove(&self.root.join(FILE))?)
    }

    fn fate(&self, index: usize) -> Fate {
        let entry = &self.begun.entries[index];
        let Some(stamp) = self.staged.get(index) else { return Fate::Untouched };
        if fs_err::symlink_metadata(self.aside(index, "new")).is_ok() {
            return Fate::Untouched;
        }
        let (path, old) = (self.root.join(&entry.path), self.aside(index, "old"));
        match (fs_err::symlink_metadata(&path).ok(), fs_err::symlink_metadata(&old).ok()) {
            // The second name exists until the file is back at its first name.
            (Some(there), kept) if Stamp::of(&path, &there).is_ok_and(|there| there == *stamp) => {
                if entry.replaced && kept.is_none() { Fate::Foreign } else { Fate::Ours }
            }
            (None, Some(_)) => Fate::Ours,
            (None, None) => Fate::Untouched,
            (Some(_), None) if entry.replaced => Fate::Untouched,
            (Some(there), Some(kept)) if there.identity(&path).ok() == kept.identity(&old).ok() => Fate::Untouched,
            (Some(_), _) => Fate::Foreign,
        }
    }

    /// A name beside a file, for its result or for the file that it replaces.
    fn aside(&self, index: usize, what: &str) -> PathBuf {
        let path = self.root.join(&self.begun.entries[index].path);
        path.with_file_name(format!("{FILE}-{index}.{what}"))
    }

    fn append(&mut self, line: &Line) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::from)?;
        text.push(b'\n');
        Ok(self.file.write_all(&text)?)
    }

    /// Reads a journal that a run has left behind. The second result is `true` if everything was
    /// done.
    fn read(root: PathBuf, mut file: Lock) -> Result<(Self, bool), Failure> {
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let shown = root.join(FILE).display().to_string();
        let mut journal = Self { root, file, begun: Begun::default(), staged: Vec::new() };
        let mut is_done = false;
        // A line without an end was still being written, so the action that it announces had not
        // begun.
        for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
            let line = serde_json::from_slice(line);
            match line.map_err(|error| damaged(&shown, &error.to_string()))? {
                Line::Begun(begun) if begun.schema != SCHEMA => {
                    let reason = format!("its schema is {}, and this program knows {SCHEMA}", begun.schema);
                    return Err(damaged(&shown, &reason));
                }
                Line::Begun(begun) => journal.begun = begun,
                Line::Staged(stamps) => journal.staged = stamps,
                Line::Done => is_done = true,
            }
        }
        for path in journal.begun.entries.iter().map(|entry| &entry.path).chain(&journal.begun.folders) {
            if !path.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
                let reason = format!("it names `{}`, which is not in the tree", path.display());
                return Err(damaged(&shown, &reason));
            }
        }
        Ok((journal, is_done))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Its result was not moved to its destination, or has been removed again.
    Untouched,
    /// It is the file that the killed run wrote.
    Ours,
    /// It has been changed since.
    Foreign,
}

/// The folders of results that do not exist, outermost first, relative to the tree.
fn missing_folders(root: &Path, writes: &[Write]) -> Vec<PathBuf> {
    let mut missing = std::collections::BTreeSet::new();
    let mut last: Option<&Path> = None;
    for folder in writes.iter().filter_map(|write| write.path.parent()) {
        // Writes are sorted, so those in one folder are adjacent.
        if last.replace(folder) == Some(folder) {
            continue;
        }
        let mut folder = folder;
        while !folder.as_os_str().is_empty() && !missing.contains(folder) && !root.join(folder).is_dir() {
            missing.insert(folder.to_owned());
            let Some(above) = folder.parent() else { break };
            folder = above;
        }
    }
    missing.into_iter().collect()
}

fn keep(path: &Path, kept: &Path) -> io::Result<()> {
    // An existing file of that name is not one of ours: without a journal its meaning would be
    // unknown. It could also be a link to the file itself, so it must not be copied into.
    remove(kept)?;
    if fs_err::hard_link(path, kept).is_err() {
        // Some file systems do not support hard links.
        fs_err::copy(path, kept)?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
