//! Input: a folder for a checkout. Output: the folder, locked, with what the last run there left.

mod killed;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_report::Reporter;
use serde::{Deserialize, Serialize};

use self::killed::Mark;
use crate::error::Error;
use crate::git::Git;
use crate::patches::Stage;

/// Where a checkout keeps what is its own, inside the folder of git.
const FOLDER: &str = "rocwheel";
/// How the names of folders for temporary files begin.
const SCRATCH: &str = "run-";

/// A folder with a checkout, or for one; nobody else works in it while this exists.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    own: PathBuf,
    /// Whether nothing was there before this run.
    pub(crate) is_new: bool,
    /// Whether the last run did not come to its end, good or bad.
    pub(crate) was_killed: bool,
    lock: Lock,
}

/// The lock of a folder. It also says which git is at work there, so that the next run can end it
/// should this one be killed.
#[derive(Debug, Clone)]
pub(crate) struct Lock {
    file: Arc<rocwheel_system::Lock>,
    /// The folder of the lock, which the environment of each git names.
    own: PathBuf,
}

impl Lock {
    /// Says that a git has begun its work, which leads a group of processes.
    pub(crate) fn has_begun(&self, group: u32) -> io::Result<()> {
        Mark::of(group).write(&self.file)
    }

    /// The variable by which the next run knows a git of this one, also one that was started in the
    /// moment in which this one was killed.
    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        (killed::VARIABLE, &self.own)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The run has ended by itself, whatever came of it. Where this fails, the next one looks
        // for what is not there.
        let _ = self.lock.file.set_len(0);
    }
}

/// What the last run left, written into the folder of git.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) schema: u32,
    /// Name of the project.
    pub(crate) project: String,
    /// Address it came from, without a password; the archive's name for one.
    pub(crate) origin: String,
    /// Branch, tag or commit that was asked for.
    pub(crate) reference: String,
    /// The branch or tag of a commit that a manifest named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) branch: Option<String>,
    /// The upstream commit.
    pub(crate) commit: String,
    /// SHA-256 of the archive that the commit was made of.
    pub(crate) archive: Option<String>,
    /// Everything that decides the result; equal means that there is nothing to do.
    pub(crate) fingerprint: String,
    pub(crate) phase: Phase,
    /// Patches that were not reached, because one before them did not apply: stage and path of the
    /// repository.
    pub(crate) unreached: Vec<(Stage, String)>,
    /// What it left, by path relative to the checkout; the empty path is the checkout itself.
    pub(crate) repositories: BTreeMap<String, Left>,
}

/// How far the last run came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// It ended well, or changed nothing.
    #[default]
    Done,
    /// It was killed while it changed the tree, which may be incomplete.
    Moving,
    /// It failed or was interrupted before it was complete, and wrote down what it left.
    Stopped,
}

/// What a run left in one repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Left {
    /// The commit that was checked out.
    pub(crate) head: String,
    /// The tree that the working files make, when they differ from it: converted sources that were
    /// not committed.
    pub(crate) tree: Option<String>,
}

impl Folder {
    /// Takes the folder for this run; makes it when there is none.
    ///
    /// # Errors
    /// A folder with something else in it, and one where another run works.
    pub(crate) fn open(path: &Path, git: &Git, reporter: &dyn Reporter) -> Result<Folder, Error> {
        let not_git = || Error::NotGit { path: path.to_owned() };
        let marker = path.join(".git");
        let is_new = match fs_err::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => return Err(error.into()),
            Ok(_) if !path.is_dir() => return Err(not_git()),
            Ok(_) if marker.exists() => false,
            Ok(_) if fs_err::read_dir(path)?.next().is_some() => return Err(not_git()),
            Ok(_) => true,
        };
        let own = if is_new || marker.is_dir() {
            marker.join(FOLDER)
        } else {
            // A work tree of another repository has a file there that says where.
            let directory =
                git.at(path).args(["rev-parse", "--absolute-git-dir"]).answer(reporter)?.ok_or_else(not_git)?;
            PathBuf::from(directory).join(FOLDER)
        };
        fs_err::create_dir_all(&own)?;
        let mut options = fs_err::OpenOptions::new();
        // What is in it is somebody else's until the lock is ours.
        let lock = options.read(true).write(true).create(true).truncate(false).open(own.join("lock"))?;
        let Some(mut lock) = rocwheel_system::Lock::try_exclusive(lock)? else {
            return Err(Error::Locked { path: path.to_owned() });
        };
        let mark = Mark::read(&mut lock)?;
        if let Some(mark) = mark {
            mark.end(&own);
            killed::remove_remains(own.parent().unwrap_or(&own))?;
            remove_scratch(&own)?;
        }
        Mark::NOTHING.write(&lock)?;
        let lock = Lock { file: Arc::new(lock), own: own.clone() };
        Ok(Folder { path: path.to_owned(), own, is_new, was_killed: mark.is_some(), lock })
    }

    /// git that leaves word of itself here.
    pub(crate) fn git(&self, git: &Git) -> Git {
        git.leaving_word(self.lock.clone())
    }

    /// What the last run left. A state that cannot be read says nothing: then everything in the
    /// tree is somebody's work.
    pub(crate) fn state(&self) -> State {
        state_of(&self.own)
    }

    /// Replaces it.
    pub(crate) fn write(&self, state: &State) -> Result<(), Error> {
        let mut file = tempfile::NamedTempFile::new_in(&self.own)?;
        serde_json::to_writer_pretty(&mut file, &State { schema: 1, ..state.clone() }).map_err(io::Error::from)?;
        file.persist(self.own.join("state.json")).map_err(|error| error.error)?;
        Ok(())
    }

    /// A path for a temporary file of this run.
    pub(crate) fn scratch(&self) -> Result<tempfile::TempDir, Error> {
        Ok(tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&self.own)?)
    }

    /// Takes away what a first run made that got nothing; the folder was empty or not there before.
    pub(crate) fn remove_if_new(&self) -> io::Result<()> {
        if self.is_new {
            fs_err::remove_dir_all(self.path.join(".git"))?;
            // An empty folder that was there before goes too, which nobody misses; one that is not
            // empty stays.
            let _ = fs_err::remove_dir(&self.path);
        }
        Ok(())
    }
}

/// Removes the temporary files of a run that was killed.
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

/// What the last run in a checkout came to, looked at without taking the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obtained {
    /// Branch, tag or commit that was asked for.
    pub reference: String,
    /// Whether it came to its end: else what is there may be half of something, until it is checked
    /// out again.
    pub is_complete: bool,
}

/// What the last run in a checkout came to; `None` for a folder in which none was.
pub fn obtained(checkout: &Path) -> Option<Obtained> {
    let own = checkout.join(".git").join(FOLDER);
    let is_at_work = fs_err::metadata(own.join("lock")).ok()?.len() > 0;
    let state = state_of(&own);
    let is_complete = !is_at_work && state.schema == 1 && state.phase == Phase::Done;
    Some(Obtained { reference: state.reference, is_complete })
}

/// What the last run left in a checkout that is only looked at.
pub(crate) fn read(checkout: &Path) -> State {
    state_of(&checkout.join(".git").join(FOLDER))
}

fn state_of(own: &Path) -> State {
    let text = fs_err::read(own.join("state.json")).unwrap_or_default();
    serde_json::from_slice::<State>(&text).ok().filter(|state| state.schema == 1).unwrap_or_default()
}
