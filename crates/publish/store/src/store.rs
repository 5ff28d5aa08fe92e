//! Input: keys. Output: the files that a store has under them.
//!
//! A key is the path of a file below the top of the store, with `/` between its parts on every
//! system, and not percent-encoded.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use positioned_io::{Cursor, ReadAt as _};
use rocwheel_content::{Content, Digest, archive_path};
use rocwheel_progress::{NamedWriter, Reporter, write_error};
use serde::Serialize;

use crate::attempts::in_threads;
use crate::error::Error;

/// How long a publisher sleeps before it tries again to lock a folder.
const NAP: Duration = Duration::from_millis(250);

/// A file of a store, as a listing has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFile {
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// A text that changes when the file does: its time of modification, or its ETag.
    pub stamp: String,
}

/// Where the bytes of a stored file are.
pub enum StoredBytes {
    /// In a file of this machine.
    Local(PathBuf),
    /// Elsewhere: each read at another place is a request, so no more is read than is needed.
    Remote(Box<dyn Content>),
}

impl StoredBytes {
    fn range(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        match self {
            StoredBytes::Local(path) => fs_err::File::open(path)?.file().read_exact_at(range.start, &mut bytes)?,
            StoredBytes::Remote(content) => content.open()?.read_exact_at(range.start, &mut bytes)?,
        }
        Ok(bytes)
    }

    /// Copies the bytes to a file of this machine.
    pub fn copy_to(&self, path: &Path) -> io::Result<()> {
        let content = match self {
            StoredBytes::Local(from) => return fs_err::copy(from, path).map(drop),
            StoredBytes::Remote(content) => content,
        };
        let file = fs_err::File::create(path).map_err(write_error(path))?;
        io::copy(&mut Cursor::new(content.open()?), &mut NamedWriter::new(file, path)).map(drop)
    }
}

/// A file of this machine, and where it goes in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile {
    pub path: PathBuf,
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the file when it was examined. One that has changed is not stored.
    pub sha256: Digest,
    pub transfer: FileTransfer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileTransfer {
    #[default]
    Copy,
    /// The same, or a folder on the same file system links the file, which was made for it and
    /// never changes: no second copy is written.
    Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PageChange {
    New,
    /// It has other bytes than before.
    Changed,
    /// Its project has no files any more.
    Removed,
}

/// Keeps other publishers away from a store until it is dropped.
pub type StoreLock = Box<dyn Send>;

/// A place for the files of an index. Many threads use it at once.
pub trait Store: Send + Sync {
    /// The store as messages name it.
    fn name(&self) -> String;

    /// How many requests at once are worth their threads; `None` where the processors are what
    /// takes the time.
    fn requests(&self) -> Option<usize> {
        None
    }

    /// All files below a folder (empty: the whole store), sorted by key, without those below
    /// further folders whose names begin with a dot. A folder that does not exist has no files.
    fn list(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<StoredFile>, Error>;

    /// Hands over the files of [`Store::list`] in batches that fit into memory. A batch has all
    /// files below one subfolder, or the files that are in no subfolder, sorted by key. Batches
    /// come in any order and from several threads. Files whose names `is_measured` denies may come
    /// without size and stamp: a folder has to be asked for these of each file.
    fn list_batches(
        &self,
        folder: &str,
        _is_measured: fn(&str) -> bool,
        take: &(dyn Fn(Vec<StoredFile>) + Sync),
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        let mut batches: BTreeMap<String, Vec<StoredFile>> = BTreeMap::new();
        for file in self.list(folder, reporter)? {
            let below = file.key.strip_prefix(folder).unwrap_or(&file.key).trim_start_matches('/');
            let subfolder = below.split_once('/').map_or_else(String::new, |(name, _)| name.to_owned());
            batches.entry(subfolder).or_default().push(file);
        }
        batches.into_values().for_each(take);
        Ok(())
    }

    /// The bytes of a stored file, at random access.
    fn bytes(&self, file: &StoredFile) -> Result<StoredBytes, Error>;

    /// A range of a stored file, and no more than that.
    fn range(&self, file: &StoredFile, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let read = self.bytes(file).map_err(io::Error::other).and_then(|bytes| bytes.range(range));
        read.map_err(|source| Error::Read { path: archive_path::join(&self.name(), &file.key).into(), source })
    }

    /// The SHA-256 that the store keeps of a file; `None` where only its bytes tell.
    fn sha256(&self, file: &StoredFile) -> Result<Option<Digest>, Error>;

    /// The absolute address of a file; `None` where pages reach it by a relative link.
    fn address(&self, _file: &StoredFile) -> Option<String> {
        None
    }

    /// When the store got a file; `None` where it does not know, or where copies change it.
    fn uploaded(&self, _file: &StoredFile) -> Option<Timestamp> {
        None
    }

    /// `true` if METADATA can be put beside a wheel.
    fn takes_metadata(&self) -> bool {
        true
    }

    /// The bytes of a page or another small file; `None` when there is none.
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error>;

    /// The first bytes of a page, at most `limit`; `None` when there is none.
    fn read_start(&self, key: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = self.read(key)?;
        if let Some(bytes) = &mut bytes {
            bytes.truncate(limit);
        }
        Ok(bytes)
    }

    /// Writes a page as a whole: a reader gets the old bytes or the new ones.
    fn write(&self, key: &str, bytes: &[u8]) -> Result<(), Error>;

    /// Writes a page of parts, which need not be in memory at the same time, where it differs from
    /// the one of before; `write` is `false` for a dry run. The answer has its change and its size
    /// in bytes.
    ///
    /// # Errors
    /// What cannot be read or written, and errors of the parts: the page is then as before.
    fn put_parts(
        &self,
        key: &str,
        parts: &mut dyn Iterator<Item = Result<String, Error>>,
        write: bool,
    ) -> Result<(Option<PageChange>, u64), Error> {
        let mut text = String::new();
        for part in parts {
            text.push_str(&part?);
        }
        let change = put(self, write, key, text.as_bytes())?;
        Ok((change, text.len() as u64))
    }

    /// Writes a small file only if the stored one has the bytes `before`, or is missing where
    /// `before` is `None`. The answer is `false` when it is another one.
    fn compare_and_swap(&self, key: &str, before: Option<&[u8]>, after: &[u8]) -> Result<bool, Error>;

    /// Stores files that are missing, several at once, and skips those that are stored with the
    /// same bytes. Needs no lock: a name has one content for ever. The answer is how many were
    /// missing.
    ///
    /// # Errors
    /// [`Error::OtherBytes`] for names with another content; what cannot be read or written; an
    /// interruption. No file is stored in part.
    fn put_files(&self, files: &[NewFile], reporter: &dyn Reporter) -> Result<usize, Error>;

    /// Removes a page; a missing one is not an error.
    fn remove(&self, key: &str) -> Result<(), Error>;

    /// Keeps other publishers away.
    fn lock(&self) -> Result<StoreLock, Error>;
}

/// Writes a page where it differs from the one of before; `write` is `false` for a dry run.
pub fn put<S: Store + ?Sized>(store: &S, write: bool, key: &str, bytes: &[u8]) -> Result<Option<PageChange>, Error> {
    let change = match store.read(key)? {
        Some(before) if before == bytes => return Ok(None),
        Some(_) => PageChange::Changed,
        None => PageChange::New,
    };
    if write {
        store.write(key, bytes)?;
    }
    Ok(Some(change))
}

/// Runs `work` with as many threads as the requests of a store deserve.
pub fn with_threads<T: Send>(store: &dyn Store, work: impl FnOnce() -> T + Send) -> T {
    match store.requests().filter(|requests| *requests > rayon::current_num_threads()) {
        Some(requests) => in_threads(requests, work),
        None => work(),
    }
}

/// Waits until no other publisher holds the lock of a store, and takes it.
pub fn wait_for_lock(store: &dyn Store, patience: Duration, reporter: &dyn Reporter) -> Result<StoreLock, Error> {
    let end = Instant::now() + patience;
    let mut is_reported = false;
    loop {
        match store.lock() {
            Err(busy @ (Error::Locked { .. } | Error::Leased { .. })) if Instant::now() < end => {
                if !is_reported {
                    reporter.warn(&format!("{busy}; waiting for it up to {} s", patience.as_secs()));
                }
                is_reported = true;
            }
            other => return other,
        }
        reporter.check()?;
        // A bucket is asked less often than a folder.
        std::thread::sleep(if store.requests().is_some() { NAP * 4 } else { NAP });
    }
}
