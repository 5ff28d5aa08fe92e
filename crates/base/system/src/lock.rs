//! Input: an open file. Output: a lock on it, which other processes and threads respect until it is
//! dropped.
//!
//! Others may still read and write the file.
//!
//! On Unix the kernel attaches such a lock to the open file description (flock(2)). A child process
//! shares the description between its fork and its exec, so closing the file does not free the lock
//! while another thread is starting a program. Unlocking frees it for every copy of the descriptor,
//! so a [`Lock`] unlocks when it is dropped. When a process is killed, the kernel frees its locks.

use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use crate::is_same_file;
use crate::system::{try_lock, unlock};

/// Whether other processes may hold the same lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Exclusive,
    Shared,
}

/// A locked file. Dropping it frees the lock, then closes the file.
#[derive(Debug)]
pub struct Lock(fs_err::File);

impl Lock {
    /// Takes an exclusive lock on the file at `path` and creates the file if it is missing; `None`
    /// if another holder has a lock.
    ///
    /// # Errors
    /// A file that cannot be created; a file system without locks.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = fs_err::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            match Self::try_exclusive(file)? {
                // The previous holder may have removed the file between our opening and locking it.
                // A lock on the removed file would exclude no one.
                Some(lock) if !is_same_file(&lock, path) => {}
                answer => return Ok(answer),
            }
        }
    }

    /// Takes an exclusive lock on a file; `None` if another holder has a lock.
    ///
    /// # Errors
    /// A file system without locks.
    pub fn try_exclusive(file: fs_err::File) -> io::Result<Option<Self>> {
        Ok(try_lock(&file, Sharing::Exclusive)?.then_some(Self(file)))
    }

    /// Takes a shared lock; `None` if another holder has an exclusive one.
    ///
    /// # Errors
    /// A file system without locks.
    pub fn try_shared(file: fs_err::File) -> io::Result<Option<Self>> {
        Ok(try_lock(&file, Sharing::Shared)?.then_some(Self(file)))
    }
}

impl Deref for Lock {
    type Target = fs_err::File;

    fn deref(&self) -> &fs_err::File {
        &self.0
    }
}

impl DerefMut for Lock {
    fn deref_mut(&mut self) -> &mut fs_err::File {
        &mut self.0
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails, closing the file frees the lock a little later.
        let _ = unlock(&self.0);
    }
}
