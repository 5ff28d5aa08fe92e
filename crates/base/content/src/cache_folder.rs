//! Input: bytes under a name. Output: the same bytes in a later run, or nothing at all.
//!
//! An entry is a file: the BLAKE3 hash of its name and its content in hexadecimal, a line break,
//! the content. An entry that was cut, changed or renamed is ignored. It appears when it is
//! complete, so several processes share a folder without a lock.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fs_err as fs;
use rocwheel_system::{FileMetadata as _, Timestamp};

use crate::read_small;

/// The share of its limit that a process writes into a folder before it looks at its size again.
/// Every look lists the folder.
const SHARE: u64 = 32;

/// A folder of entries, the oldest of which are removed when all of them become too large.
#[derive(Debug, Clone)]
pub struct CacheFolder {
    path: PathBuf,
    extension: &'static str,
    limit: u64,
    /// Bytes that were written since the last look; also those of clones.
    written: Arc<AtomicU64>,
}

/// An entry of a [`CacheFolder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The bytes that were written.
    pub content: Vec<u8>,
    /// Time at which they were written, by the clock of the file system.
    pub written: Timestamp,
}

impl CacheFolder {
    /// The entries below `path` with this extension. They may have `limit` bytes together, and a
    /// 32nd part more for each process that is writing. Nothing is created.
    pub fn new(path: impl Into<PathBuf>, extension: &'static str, limit: u64) -> CacheFolder {
        // The first entry makes it look.
        CacheFolder { path: path.into(), extension, limit, written: Arc::new(AtomicU64::new(limit)) }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The entry with this name; `None` if it does not exist, is not a regular file, is larger than
    /// all entries may be, or has another hash.
    pub fn read(&self, name: &str) -> Option<CacheEntry> {
        let path = self.path_of(name);
        let written = fs::metadata(&path).ok()?.modified_at();
        let bytes = read_small(&path, self.limit).ok()?;
        let (hash, content) = split(&bytes)?;
        (hash == hash_of(name, content)).then(|| CacheEntry { content: content.to_vec(), written })
    }

    /// Writes or replaces an entry, and removes the oldest ones if there are too many. They are
    /// counted at first, and when a share of the limit was written.
    ///
    /// # Errors
    /// A folder that cannot be created, and a file that cannot be written. Then no part of the
    /// entry is visible.
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        let bytes = joined(hash_of(name, content), content);
        rocwheel_system::replace(&self.path_of(name), &bytes, 0o600)?;
        let size = bytes.len() as u64;
        if self.written.fetch_add(size, Ordering::Relaxed).saturating_add(size) > self.limit / SHARE {
            self.written.store(0, Ordering::Relaxed);
            self.sweep();
        }
        Ok(())
    }

    /// The names of all entries, in any order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| self.is_entry(path));
        paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.{}", self.extension))
    }

    fn is_entry(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == self.extension)
    }

    /// Removes the oldest entries until the rest has at most the allowed size. Another process may
    /// do the same, so a missing entry is not an error.
    fn sweep(&self) {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            if self.is_entry(&path)
                && let Ok(metadata) = entry.metadata()
            {
                entries.push((metadata.modified_at(), metadata.len(), path));
            }
        }
        let mut bytes: u64 = entries.iter().map(|(_, size, _)| size).sum();
        if bytes <= self.limit {
            return;
        }
        entries.sort();
        for (_, size, path) in entries {
            if bytes <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= size;
        }
    }
}

fn hash_of(name: &str, content: &[u8]) -> blake3::Hash {
    blake3::Hasher::new().update(name.as_bytes()).update(b"\0").update(content).finalize()
}

/// The bytes of a file that checks itself, without regard to its name.
pub fn with_checksum(content: &[u8]) -> Vec<u8> {
    joined(blake3::hash(content), content)
}

/// The content of such a file; `None` if the check fails.
pub fn without_checksum(bytes: &[u8]) -> Option<&[u8]> {
    let (hash, content) = split(bytes)?;
    (blake3::hash(content) == hash).then_some(content)
}

fn joined(hash: blake3::Hash, content: &[u8]) -> Vec<u8> {
    let mut bytes = hash.to_hex().as_bytes().to_vec();
    bytes.push(b'\n');
    bytes.extend_from_slice(content);
    bytes
}

fn split(bytes: &[u8]) -> Option<(blake3::Hash, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((blake3::Hash::from_hex(&bytes[..end]).ok()?, &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn an_entry_that_was_cut_changed_or_renamed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFolder::new(folder.path().join("a/b"), "entry", 1 << 20);
        assert_eq!(cache.read("one"), None);
        cache.write("one", b"content").unwrap();
        assert_eq!(cache.read("one").unwrap().content, b"content");
        assert_eq!(cache.names(), ["one"]);
        let path = folder.path().join("a/b/one.entry");
        let bytes = fs::read(&path).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1;
            fs::write(&path, &damaged).unwrap();
            assert_eq!(cache.read("one"), None, "byte {place}");
            fs::write(&path, &bytes[..place]).unwrap();
            assert_eq!(cache.read("one"), None, "cut at {place}");
        }
        fs::write(folder.path().join("a/b/two.entry"), &bytes).unwrap();
        assert_eq!(cache.read("two"), None, "the entry of another name");
        fs::remove_file(folder.path().join("a/b/two.entry")).unwrap();
        cache.write("one", b"").unwrap();
        assert_eq!(cache.read("one").unwrap().content, b"");
    }

    #[cfg_attr(windows, ignore = "Windows has no pipes among its files, and Wine has no links")]
    #[test]
    fn pipes_and_endless_files_are_no_entries() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFolder::new(folder.path(), "entry", 1 << 20);
        let pipe = folder.path().join("pipe.entry");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        rocwheel_system::symlink("/dev/zero", folder.path().join("zeros.entry")).unwrap();
        assert_eq!((cache.read("pipe"), cache.read("zeros")), (None, None));
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let cache = CacheFolder::new(folder.path().join("file/below"), "entry", 1 << 20);
        assert!(cache.write("one", b"content").is_err());
        assert_eq!((cache.read("one"), cache.names().len()), (None, 0));
    }

    #[test]
    fn the_oldest_entries_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let size = with_checksum(b"x").len() as u64;
        let cache = CacheFolder::new(folder.path(), "entry", 2 * size);
        fs::write(folder.path().join("note.txt"), vec![0; 5000]).unwrap();
        for (age, name) in ["a", "b", "c"].into_iter().enumerate() {
            cache.write(name, b"x").unwrap();
            let time = SystemTime::now() - Duration::from_secs(1000 - age as u64);
            let path = folder.path().join(format!("{name}.entry"));
            fs::File::options().write(true).open(path).unwrap().file().set_modified(time).unwrap();
        }
        cache.write("d", b"x").unwrap();
        let mut names = cache.names();
        names.sort();
        assert_eq!(names, ["c", "d"]);
        assert!(folder.path().join("note.txt").exists());
    }

    /// Thousands of entries are written by a process, and each look lists all of them.
    #[test]
    fn the_folder_is_listed_when_a_share_of_its_limit_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CacheFolder::new(folder.path(), "entry", 1 << 20);
        cache.write("first", b"x").unwrap();
        let old = folder.path().join("old.entry");
        fs::write(&old, vec![0; 1 << 20]).unwrap();
        let time = SystemTime::now() - Duration::from_secs(1000);
        fs::File::options().write(true).open(&old).unwrap().file().set_modified(time).unwrap();
        cache.write("second", b"x").unwrap();
        assert!(old.exists(), "it did not look");
        cache.clone().write("third", &vec![0; 1 << 15]).unwrap();
        assert!(!old.exists());
        assert_eq!(cache.names().len(), 3);
        fs::write(&old, vec![0; 1 << 20]).unwrap();
        fs::File::options().write(true).open(&old).unwrap().file().set_modified(time).unwrap();
        CacheFolder::new(folder.path(), "entry", 1 << 20).write("first", b"x").unwrap();
        assert!(!old.exists(), "another process looks at its first entry");
    }
}
