//! The lock of a checkout's folder, which records the git that is running.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::running_git::{self, Mark};

/// The lock of a folder. Its file also records the git process that is running, so that the next
/// run can end it if this one is killed.
#[derive(Debug, Clone)]
pub(crate) struct FolderLock {
    pub(crate) file: Arc<rocwheel_system::Lock>,
    /// The folder of the lock file, which the environment of each git names.
    pub(crate) own: PathBuf,
}

impl FolderLock {
    /// Records a started git, which leads a process group.
    pub(crate) fn has_begun(&self, group: u32) -> io::Result<()> {
        Mark::of(group).write(&self.file)
    }

    /// The variable by which the next run recognizes a git of this run, even one that was started
    /// just when this run was killed.
    pub(crate) fn variable(&self) -> (&'static str, &Path) {
        (running_git::VARIABLE, &self.own)
    }
}
