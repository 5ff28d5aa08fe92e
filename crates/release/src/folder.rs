//! Input: a folder. Output: the [`Store`] of its files.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rocwheel_content::Digest;
use rocwheel_report::Reporter;
use rocwheel_system::Lock;
use walkdir::WalkDir;

use crate::store::{Store, StoreLock, StoredBytes, StoredFile};
use crate::{Error, known};

/// Pages are for everybody who can read the folder.
const PAGE_MODE: u32 = 0o644;

/// How the names of files begin that will be pages.
const UNFINISHED: &str = "unfinished-";

/// A folder of this machine. Links in it are followed.
#[derive(Debug, Clone)]
pub struct FolderStore {
    root: PathBuf,
}

impl FolderStore {
    /// The store in an existing folder.
    ///
    /// # Errors
    /// [`Error::Folder`] when there is no such folder.
    pub fn open(root: &Path) -> Result<FolderStore, Error> {
        // Listing is the question that a file and a missing folder answer with an error.
        fs_err::read_dir(root).map_err(|source| Error::Folder { path: root.to_owned(), source })?;
        Ok(FolderStore { root: root.to_owned() })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    fn stored(&self, entry: &walkdir::DirEntry) -> Result<StoredFile, Error> {
        let below = entry.path().strip_prefix(&self.root).unwrap_or(entry.path());
        let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
        let key = parts.ok_or_else(|| Error::NotText { path: entry.path().to_owned() })?.join("/");
        let metadata = entry.metadata().map_err(|error| self.listing(error))?;
        let modified = metadata.modified().map_err(|source| Error::Read { path: entry.path().to_owned(), source })?;
        let stamp = known::stamp(modified);
        Ok(StoredFile { key, size: metadata.len(), stamp })
    }

    /// Removes pages that a killed run did not finish. Only the holder of the lock writes any.
    fn sweep(&self) {
        let Ok(entries) = fs_err::read_dir(self.path(known::TOP)) else { return };
        for entry in
            entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
        {
            // What stays is in nobody's way.
            let _ = fs_err::remove_file(entry.path());
        }
    }

    fn listing(&self, error: walkdir::Error) -> Error {
        let path = error.path().unwrap_or(&self.root).to_owned();
        Error::Read { path, source: error.into() }
    }
}

/// The lock on a folder. Dropping it removes its file, and the folder of that if nothing else is in
/// it.
struct FolderLock {
    path: PathBuf,
    lock: Option<Lock>,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // While it is locked, so that nobody locks a file that is about to go.
        let _ = fs_err::remove_file(&self.path);
        drop(self.lock.take());
        if let Some(folder) = self.path.parent() {
            let _ = fs_err::remove_dir(folder);
        }
    }
}

impl Store for FolderStore {
    fn name(&self) -> String {
        self.root.to_string_lossy().into_owned()
    }

    fn list(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<StoredFile>, Error> {
        let mut files = Vec::new();
        let top = self.path(folder);
        if !folder.is_empty() && !top.is_dir() {
            return Ok(files);
        }
        let is_shown =
            |entry: &walkdir::DirEntry| entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".");
        for entry in WalkDir::new(&top).follow_links(true).into_iter().filter_entry(is_shown) {
            reporter.check()?;
            let entry = entry.map_err(|error| self.listing(error))?;
            if entry.file_type().is_file() {
                files.push(self.stored(&entry)?);
            }
        }
        files.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(files)
    }

    fn bytes(&self, file: &StoredFile) -> Result<StoredBytes, Error> {
        Ok(StoredBytes::Local(self.path(&file.key)))
    }

    fn sha256(&self, _file: &StoredFile) -> Result<Option<Digest>, Error> {
        Ok(None)
    }

    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(key);
        match fs_err::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(key);
        let write = || {
            fs_err::create_dir_all(path.parent().unwrap_or(&self.root))?;
            let folder = self.path(known::TOP);
            fs_err::create_dir_all(&folder)?;
            let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder)?;
            file.write_all(bytes)?;
            file.as_file().set_permissions(rocwheel_system::permissions(PAGE_MODE))?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        };
        write().map_err(|source| Error::Write { path: path.clone(), source })
    }

    fn remove(&self, key: &str) -> Result<(), Error> {
        let path = self.path(key);
        match fs_err::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(Error::Write { path, source }),
            _ => {}
        }
        // The folders of a project that is gone; the first one with something in it ends this.
        let mut folder = path.parent();
        while let Some(path) = folder.filter(|path| *path != self.root && fs_err::remove_dir(path).is_ok()) {
            folder = path.parent();
        }
        Ok(())
    }

    fn lock(&self) -> Result<StoreLock, Error> {
        let path = self.path(known::LOCK);
        let try_lock = || {
            fs_err::create_dir_all(path.parent().unwrap_or(&self.root))?;
            Lock::at(&path)
        };
        // A run that ends removes the folder, perhaps between the two steps.
        let lock = || match try_lock() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => try_lock(),
            answer => answer,
        };
        let locked = lock();
        if let Ok(Some(_)) = &locked {
            self.sweep();
        }
        match locked.map_err(|source| Error::Write { path: path.clone(), source })? {
            Some(lock) => Ok(Box::new(FolderLock { path, lock: Some(lock) })),
            None => Err(Error::Locked { store: self.name() }),
        }
    }
}
