//! Input: a folder for a checkout. Output: the locked folder, with the state that the last run
//! left.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_progress::{Exit, Failure, Reporter};
use serde::{Deserialize, Serialize};

use crate::error;
use crate::folder_lock::FolderLock;
use crate::git::Git;
use crate::patch_files::Stage;
use crate::running_git::{self, Mark};

/// Our folder in a checkout's git folder.
const FOLDER: &str = "rocwheel";
const SCRATCH: &str = "run-";

/// A locked folder that has, or will have, a checkout.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    own: PathBuf,
    /// `true` if the folder did not exist or was empty before this run.
    pub(crate) is_new: bool,
    /// `true` if the last run was killed.
    pub(crate) was_killed: bool,
    lock: FolderLock,
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The run has ended, successfully or not. If this fails, the next run looks for a process
        // that does not exist, which is harmless.
        let _ = self.lock.file.set_len(0);
    }
}

/// The state that the last run left, a file in the git folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) schema: u32,
    pub(crate) project: String,
    /// Address of the origin, without a password; for an archive, its file name.
    pub(crate) origin: String,
    pub(crate) reference: String,
    /// The branch or tag of a commit that a manifest named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    pub(crate) commit: String,
    /// SHA-256 of the archive from which the commit was made.
    pub(crate) archive: Option<String>,
    /// Digest of everything that decides the result. If it is equal, there is nothing to do.
    pub(crate) fingerprint: String,
    pub(crate) phase: Phase,
    /// Patches that were not reached because an earlier one did not apply: stage and path of the
    /// repository.
    pub(crate) unreached: Vec<(Stage, String)>,
    /// State of the repositories by path relative to the checkout; the empty path is the checkout
    /// itself.
    pub(crate) repositories: BTreeMap<String, Left>,
}

/// The progress of the last run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// It succeeded, or changed nothing.
    #[default]
    Done,
    /// It was killed while it changed the tree, which may be incomplete.
    Moving,
    /// It failed or was interrupted before it was complete, and recorded what it left.
    Stopped,
}

/// The state in which a run left one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    pub(crate) head: String,
    /// The tree object of the working files if it differs from the commit: converted sources that
    /// were not committed.
    pub(crate) tree: Option<String>,
}

impl Folder {
    /// Locks the folder for this run, and makes it if it does not exist.
    ///
    /// # Errors
    /// The folder has something else in it, or another run works there.
    pub(crate) fn open(path: &Path, git: &Git, reporter: &dyn Reporter) -> Result<Folder, Failure> {
        let marker = path.join(".git");
        let is_new = match fs_err::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error.into()),
            Ok(_) if !path.is_dir() => return Err(error::not_git(path)),
            Ok(_) if marker.exists() => false,
            Ok(_) if fs_err::read_dir(path)?.next().is_some() => return Err(error::not_git(path)),
            Ok(_) => true,
        };
        let own = if is_new || marker.is_dir() {
            marker.join(FOLDER)
        } else {
            // In a work tree of another repository, `.git` is a file that names the git folder.
            let directory = git.at(path).args(["rev-parse", "--absolute-git-dir"]).answer(reporter)?;
            PathBuf::from(directory.ok_or_else(|| error::not_git(path))?).join(FOLDER)
        };
        fs_err::create_dir_all(&own)?;
        let Some(mut lock) = rocwheel_system::Lock::at(&own.join("lock"))? else {
            return Err(Failure::message(format!("another run works in `{}`", path.display()))
                .with_hint("wait until it has ended")
                .with_exit(Exit::TryAgain));
        };
        let mark = Mark::read(&mut lock)?;
        if let Some(mark) = mark {
            mark.end(&own);
            running_git::remove_remains(own.parent().unwrap_or(&own))?;
            remove_scratch(&own)?;
        }
        Mark::NOTHING.write(&lock)?;
        let lock = FolderLock { file: Arc::new(lock), own: own.clone() };
        Ok(Folder { path: path.to_owned(), own, is_new, was_killed: mark.is_some(), lock })
    }

    /// A git that records its processes in this folder's lock.
    pub(crate) fn git(&self, git: &Git) -> Git {
        git.leaving_word(self.lock.clone())
    }

    /// The state of the last run. If it cannot be read, everything in the tree counts as the user's
    /// work.
    pub(crate) fn state(&self) -> State {
        state_of(&self.own)
    }

    pub(crate) fn write(&self, state: &State) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(&State { schema: 1, ..state.clone() }).map_err(io::Error::from)?;
        Ok(rocwheel_system::replace(&self.own.join("state.json"), &text, 0o600)?)
    }

    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, Failure> {
        Ok(tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&self.own)?)
    }

    /// Removes what a first run made if it fetched nothing. The folder was empty or missing before.
    pub(crate) fn remove_if_new(&self) -> io::Result<()> {
        if self.is_new {
            fs_err::remove_dir_all(self.path.join(".git"))?;
            // An empty folder that existed before is removed too, which loses nothing. A folder
            // that is not empty stays.
            let _ = fs_err::remove_dir(&self.path);
        }
        Ok(())
    }
}

fn remove_scratch(own: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(own)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let name = name.to_string_lossy();
        if name.starts_with(SCRATCH) && path.is_dir() {
            fs_err::remove_dir_all(path)?;
        } else if name.starts_with(".tmp") {
            fs_err::remove_file(path)?;
        }
    }
    Ok(())
}

/// The result of the last run in a checkout, read without locking the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obtained {
    pub reference: String,
    /// `true` if the run was completed. Otherwise the tree may be incomplete until it is checked
    /// out again.
    pub is_complete: bool,
}

/// The result of the last run in a checkout; `None` if no run has worked in the folder.
pub fn obtained(checkout: &Path) -> Option<Obtained> {
    let own = checkout.join(".git").join(FOLDER);
    let is_at_work = fs_err::metadata(own.join("lock")).ok()?.len() > 0;
    let state = state_of(&own);
    let is_complete = !is_at_work && state.schema == 1 && state.phase == Phase::Done;
    Some(Obtained { reference: state.reference, is_complete })
}

/// The recorded state of a checkout, read without locking it.
pub(crate) fn read(checkout: &Path) -> State {
    state_of(&checkout.join(".git").join(FOLDER))
}

fn state_of(own: &Path) -> State {
    let text = fs_err::read(own.join("state.json")).unwrap_or_default();
    serde_json::from_slice::<State>(&text).ok().filter(|state| state.schema == 1).unwrap_or_default()
}
