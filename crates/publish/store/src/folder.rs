//! Input: a folder. Output: the [`Store`] of its files.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::{Digest, Sha256, WINDOW, open_regular, read_small, sha256_of};
use rocwheel_progress::{NamedWriter, Reporter, Unit, Watched, write_error};
use rocwheel_system::Lock;
use tempfile::NamedTempFile;
use walkdir::WalkDir;

use crate::error::{Error, without_other_bytes};
use crate::store::{FileTransfer, NewFile, PageChange, Store, StoreLock, StoredBytes, StoredFile};
use crate::traces::{LOCK, TOP, time_stamp};

/// Pages are for everybody who can read the folder.
const PAGE_MODE: u32 = 0o644;

/// How the names of files begin that will be pages.
const UNFINISHED: &str = "unfinished-";

/// Limit in bytes for a page or another document. The page of a project with a million files has
/// less.
const LARGEST: u64 = 1 << 30;

/// A folder of this machine. Links in it are followed.
#[derive(Debug, Clone)]
pub struct FolderStore {
    root: PathBuf,
    /// SHA-256 of files that this run wrote, by key.
    hashes: BTreeMap<String, Digest>,
}

impl FolderStore {
    /// The store in an existing folder.
    pub fn open(root: &Path) -> Result<FolderStore, Error> {
        // Listing is the question that a file and a missing folder answer with an error.
        fs_err::read_dir(root).map_err(|source| Error::Folder { path: root.to_owned(), source })?;
        Ok(FolderStore { root: root.to_owned(), hashes: BTreeMap::new() })
    }

    /// The store with the SHA-256 of files that this run wrote, by key: they are not read again.
    #[must_use]
    pub fn with_hashes(self, hashes: BTreeMap<String, Digest>) -> FolderStore {
        FolderStore { hashes, ..self }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// The files below `top`, sorted by key. Those that vanish meanwhile are not listed.
    fn walk(
        &self,
        top: WalkDir,
        is_measured: impl Fn(&str) -> bool,
        reporter: &dyn Reporter,
    ) -> Result<(Vec<StoredFile>, Vec<PathBuf>), Error> {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for entry in top.follow_links(true).into_iter().filter_entry(is_shown) {
            reporter.check()?;
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if has_vanished(&error) => continue,
                Err(error) => return Err(self.listing(error)),
            };
            if entry.file_type().is_dir() {
                folders.push(entry.into_path());
            } else if entry.file_type().is_file() {
                files.extend(self.stored(&entry, &is_measured)?);
            }
        }
        files.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok((files, folders))
    }

    fn stored(
        &self,
        entry: &walkdir::DirEntry,
        is_measured: impl Fn(&str) -> bool,
    ) -> Result<Option<StoredFile>, Error> {
        let below = entry.path().to_str().and_then(|path| path.get(self.root.as_os_str().len()..));
        let below = below.ok_or_else(|| Error::NotText { path: entry.path().to_owned() })?;
        let key = below.replace(MAIN_SEPARATOR, "/").trim_start_matches('/').to_owned();
        if !is_measured(&key) {
            return Ok(Some(StoredFile { key, size: 0, stamp: String::new() }));
        }
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            Err(error) if has_vanished(&error) => return Ok(None),
            Err(error) => return Err(self.listing(error)),
        };
        let modified = metadata.modified().map_err(|source| Error::Read { path: entry.path().to_owned(), source })?;
        Ok(Some(StoredFile { key, size: metadata.len(), stamp: time_stamp(modified) }))
    }

    /// Copies a file, unless it is here. The answer is `None` when another one is.
    fn put_file(&self, new: &NewFile, reporter: &dyn Reporter) -> Result<Option<bool>, Error> {
        let target = self.path(&new.key);
        match fs_err::metadata(&target) {
            Ok(found) => {
                let is_same = found.len() == new.size && {
                    let file = fs_err::File::open(&target).map_err(Error::read(&target))?;
                    let read = sha256_of(Watched::new(file, reporter));
                    reporter.check()?;
                    read.map_err(Error::read(&target))? == new.sha256
                };
                return Ok(is_same.then_some(false));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Read { path: target, source }),
        }
        let folder = target.parent().unwrap_or(&self.root);
        fs_err::create_dir_all(folder).map_err(unwritten(&target))?;
        if new.transfer == FileTransfer::Link {
            rocwheel_system::set_mode(&new.path, PAGE_MODE).map_err(unwritten(&target))?;
            match fs_err::hard_link(&new.path, &target) {
                Ok(()) => {
                    reporter.advance(new.size);
                    return Ok(Some(true));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return self.put_file(new, reporter),
                // Another file system, or one without links.
                Err(_) => {}
            }
        }
        let Some(mut file) = rocwheel_system::nameless_file(folder, PAGE_MODE) else {
            let staging = self.path(TOP);
            fs_err::create_dir_all(&staging).map_err(unwritten(&target))?;
            let file = tempfile::Builder::new().prefix("incoming-").tempfile_in(staging);
            let mut file = file.map_err(unwritten(&target))?;
            copy_checked(new, &mut NamedWriter::new(&mut file, &target), reporter)?;
            rocwheel_system::set_open_mode(file.as_file(), PAGE_MODE).map_err(unwritten(&target))?;
            return match rocwheel_system::persist_new(file, &target) {
                Ok(()) => Ok(Some(true)),
                // Another publisher was quicker; it may have brought the same file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.put_file(new, reporter),
                Err(source) => Err(unwritten(&target)(source)),
            };
        };
        copy_checked(new, &mut NamedWriter::new(&mut file, &target), reporter)?;
        match rocwheel_system::link_nameless(&file, &target) {
            Ok(()) => Ok(Some(true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.put_file(new, reporter),
            Err(source) => Err(unwritten(&target)(source)),
        }
    }

    /// Another run that ends may remove the folder between the two steps: `NotFound`.
    fn try_lock(&self, path: &Path) -> io::Result<Option<Lock>> {
        fs_err::create_dir_all(path.parent().unwrap_or(&self.root))?;
        Lock::at(path)
    }

    fn unfinished(&self) -> io::Result<NamedTempFile> {
        let folder = self.path(TOP);
        let mut builder = tempfile::Builder::new();
        match builder.prefix(UNFINISHED).tempfile_in(&folder) {
            // Most folders exist, and an index has hundreds of thousands of small files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs_err::create_dir_all(&folder)?;
                builder.tempfile_in(&folder)
            }
            made => made,
        }
    }

    /// Gives a page its name.
    fn finish(&self, file: NamedTempFile, path: &Path) -> io::Result<()> {
        rocwheel_system::set_open_mode(file.as_file(), PAGE_MODE)?;
        let folder = path.parent().unwrap_or(&self.root);
        // Most folders exist, and looking costs less than the attempt to create one.
        if !folder.is_dir() {
            fs_err::create_dir_all(folder)?;
        }
        rocwheel_system::persist(file, path)
    }

    /// Removes pages that a killed run did not finish. Only the holder of the lock writes any.
    fn sweep(&self) {
        let Ok(entries) = fs_err::read_dir(self.path(TOP)) else { return };
        for entry in
            entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
        {
            // A file that stays does no harm.
            let _ = fs_err::remove_file(entry.path());
        }
    }

    fn listing(&self, error: walkdir::Error) -> Error {
        let path = error.path().unwrap_or(&self.root).to_owned();
        Error::Read { path, source: error.into() }
    }
}

/// `false` for files and folders below the top whose names begin with a dot.
pub fn is_shown(entry: &walkdir::DirEntry) -> bool {
    entry.depth() == 0 || !entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// `true` if a file or folder vanished since it was listed. A link without its file is an error
/// that the user has to look at.
fn has_vanished(error: &walkdir::Error) -> bool {
    let is_missing = error.io_error().is_some_and(|error| error.kind() == io::ErrorKind::NotFound);
    is_missing && error.depth() > 0 && error.path().is_some_and(|path| fs_err::symlink_metadata(path).is_err())
}

/// The error of a file that cannot be written, however its unfinished copy is called.
fn unwritten(path: &Path) -> impl Fn(io::Error) -> Error {
    |source| Error::Write { path: path.to_owned(), source: write_error(path)(source) }
}

/// Copies the bytes of a file, if they are those that were examined.
fn copy_checked(new: &NewFile, to: &mut impl io::Write, reporter: &dyn Reporter) -> Result<(), Error> {
    let copied = copy_hashed(&new.path, to, reporter);
    reporter.check()?;
    if copied.map_err(Error::read(&new.path))? != new.sha256 {
        return Err(Error::read(&new.path)(io::Error::other("it changed while it was copied")));
    }
    Ok(())
}

fn copy_hashed(path: &Path, to: &mut impl io::Write, reporter: &dyn Reporter) -> io::Result<Digest> {
    let mut from = Watched::new(fs_err::File::open(path)?, reporter);
    let (mut hasher, mut block) = (Sha256::new(), vec![0; WINDOW]);
    loop {
        let read = from.read(&mut block)?;
        if read == 0 {
            return Ok(hasher.finish());
        }
        hasher.update(&block[..read]);
        to.write_all(&block[..read])?;
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
        // While it is locked, so that no other publisher locks a file that is about to go.
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
        let top = self.path(folder);
        if !folder.is_empty() && !top.is_dir() {
            return Ok(Vec::new());
        }
        Ok(self.walk(WalkDir::new(&top), |_| true, reporter)?.0)
    }

    fn list_batches(
        &self,
        folder: &str,
        is_measured: fn(&str) -> bool,
        take: &(dyn Fn(Vec<StoredFile>) + Sync),
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        let top = self.path(folder);
        if !folder.is_empty() && !top.is_dir() {
            return Ok(());
        }
        let (files, folders) = self.walk(WalkDir::new(&top).min_depth(1).max_depth(1), is_measured, reporter)?;
        take(files);
        folders.par_iter().try_for_each(|path| {
            take(self.walk(WalkDir::new(path), is_measured, reporter)?.0);
            Ok(())
        })
    }

    fn bytes(&self, file: &StoredFile) -> Result<StoredBytes, Error> {
        Ok(StoredBytes::Local(self.path(&file.key)))
    }

    fn sha256(&self, file: &StoredFile) -> Result<Option<Digest>, Error> {
        Ok(self.hashes.get(&file.key).copied())
    }

    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(key);
        match read_small(&path, LARGEST) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn read_start(&self, key: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path(key);
        let mut start = Vec::new();
        match open_regular(&path).and_then(|file| file.take(limit as u64).read_to_end(&mut start)) {
            Ok(_) => Ok(Some(start)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(key);
        let written = self.unfinished().and_then(|mut file| {
            file.write_all(bytes)?;
            self.finish(file, &path)
        });
        written.map_err(unwritten(&path))
    }

    fn put_parts(
        &self,
        key: &str,
        parts: &mut dyn Iterator<Item = Result<String, Error>>,
        write: bool,
    ) -> Result<(Option<PageChange>, u64), Error> {
        let path = self.path(key);
        let mut before = match open_regular(&path) {
            Ok(file) => Some(BufReader::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(Error::Read { path: path.clone(), source }),
        };
        let change = if before.is_some() { PageChange::Changed } else { PageChange::New };
        let mut new = if write { Some(BufWriter::new(self.unfinished().map_err(unwritten(&path))?)) } else { None };
        let (mut size, mut stored) = (0, Vec::new());
        for part in parts {
            let part = part?;
            size += part.len() as u64;
            if let Some(file) = &mut before {
                stored.resize(part.len(), 0);
                if file.read_exact(&mut stored).is_err() || stored != part.as_bytes() {
                    before = None;
                }
            }
            if let Some(file) = &mut new {
                file.write_all(part.as_bytes()).map_err(unwritten(&path))?;
            }
        }
        // The old page is the same if it has nothing behind the last part.
        if before.is_some_and(|mut file| file.fill_buf().is_ok_and(<[u8]>::is_empty)) {
            return Ok((None, size));
        }
        if let Some(file) = new {
            let file = file.into_inner().map_err(|error| unwritten(&path)(error.into_error()))?;
            self.finish(file, &path).map_err(unwritten(&path))?;
        }
        Ok((Some(change), size))
    }

    fn compare_and_swap(&self, key: &str, before: Option<&[u8]>, after: &[u8]) -> Result<bool, Error> {
        // Every writer holds the lock of the folder, so nothing happens between the two.
        if self.read(key)?.as_deref() != before {
            return Ok(false);
        }
        self.write(key, after).map(|()| true)
    }

    fn put_files(&self, files: &[NewFile], reporter: &dyn Reporter) -> Result<usize, Error> {
        reporter.begin("Copying files", Some(files.iter().map(|file| file.size).sum()), Unit::Bytes);
        let done = files.par_iter().map(|file| {
            reporter.check()?;
            Ok(self.put_file(file, reporter)?.ok_or_else(|| format!("`{}`", self.path(&file.key).display())))
        });
        let done = done.collect::<Result<Vec<_>, Error>>();
        reporter.end();
        Ok(without_other_bytes(done?)?.into_iter().filter(|is_new| *is_new).count())
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
        let path = self.path(LOCK);
        let locked = match self.try_lock(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.try_lock(&path),
            answer => answer,
        };
        if let Ok(Some(_)) = &locked {
            self.sweep();
        }
        match locked.map_err(Error::write(&path))? {
            Some(lock) => Ok(Box::new(FolderLock { path, lock: Some(lock) })),
            None => Err(Error::Locked { store: self.name() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn pipes_and_endless_files_are_no_documents() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
        rocwheel_system::symlink("/dev/zero", folder.path().join("zeros")).unwrap();
        for (key, kind) in [("pipe", "named pipe"), ("zeros", "device")] {
            let page = &mut std::iter::once(Ok("page".to_owned()));
            let errors =
                [store.read(key).err(), store.read_start(key, 10).err(), store.put_parts(key, page, true).err()];
            for error in errors {
                let Some(Error::Read { path, source }) = error else { panic!("`{key}` was read") };
                assert_eq!(path, folder.path().join(key));
                assert!(source.to_string().contains(&format!("a {kind}, no regular file")), "{source}");
            }
        }
    }
}
