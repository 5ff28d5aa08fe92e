//! Input: an open file. Output: its SHA-256, without reading a file that is as an earlier run left
//! it.
//!
//! A file is as it was if its stamp is, and if it had settled when the hash was written down
//! ([`FileStamp`]).

use std::io;
use std::path::PathBuf;

use crate::{CacheFolder, Digest, FileStamp, SharedFile, hexadecimal, sha256_at};

/// Limit in bytes for all records, which have some 250 bytes each.
const ALL_RECORDS: u64 = 16 << 20;

/// The SHA-256 of files that were hashed before.
#[derive(Debug, Clone)]
pub struct DigestCache(CacheFolder);

impl DigestCache {
    /// The records in a folder, which is created with the first of them.
    pub fn new(folder: impl Into<PathBuf>) -> DigestCache {
        DigestCache(CacheFolder::new(folder, "digest", ALL_RECORDS))
    }

    /// The SHA-256 of an open file. A record that cannot be written is not an error.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn sha256(&self, file: &SharedFile) -> io::Result<Digest> {
        let before = FileStamp::of(file.file())?;
        let name = format!("{:x}-{:x}", before.identity.device, before.identity.inode);
        if let Some(digest) = self.recorded(&name, &before) {
            return Ok(digest);
        }
        let digest = sha256_at(file, before.size)?;
        // A file that changes meanwhile has no hash worth keeping.
        if FileStamp::of(file.file())? == before {
            let _ = self.0.write(&name, format!("{before} {}", hexadecimal(&digest)).as_bytes());
        }
        Ok(digest)
    }

    fn recorded(&self, name: &str, stamp: &FileStamp) -> Option<Digest> {
        let entry = self.0.read(name)?;
        let text = String::from_utf8(entry.content).ok().filter(|_| stamp.had_settled(entry.written))?;
        let digits = text.strip_prefix(&stamp.to_string())?.strip_prefix(' ')?;
        let mut digest = Digest::default();
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(digest)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::sha256;

    fn hash(cache: &DigestCache, path: &Path) -> Digest {
        cache.sha256(&SharedFile::new(fs_err::File::open(path).unwrap())).unwrap()
    }

    /// The one record in a folder.
    fn record(folder: &Path) -> PathBuf {
        let mut entries = fs_err::read_dir(folder).unwrap();
        let entry = entries.next().unwrap().unwrap().path();
        assert!(entries.next().is_none());
        entry
    }

    fn set_modified(path: &Path, time: SystemTime) {
        fs_err::File::options().write(true).open(path).unwrap().file().set_modified(time).unwrap();
    }

    #[test]
    fn a_record_counts_when_the_file_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let (path, records) = (folder.path().join("file"), folder.path().join("digests"));
        let cache = DigestCache::new(&records);
        fs_err::write(&path, "one").unwrap();
        assert_eq!(hash(&cache, &path), sha256(b"one"));
        // A record with another hash shows whether it is used.
        let stamp = FileStamp::at(&path).unwrap();
        let name = format!("{:x}-{:x}", stamp.identity.device, stamp.identity.inode);
        let other = format!("{stamp} {}", hexadecimal(&[7; 32]));
        cache.0.write(&name, other.as_bytes()).unwrap();
        assert_eq!(hash(&cache, &path), sha256(b"one"), "the file is as new as its record");
        cache.0.write(&name, other.as_bytes()).unwrap();
        set_modified(&record(&records), SystemTime::now() + Duration::from_secs(9));
        assert_eq!(hash(&cache, &path), [7; 32]);
        fs_err::write(record(&records), &fs_err::read(record(&records)).unwrap()[..99]).unwrap();
        set_modified(&record(&records), SystemTime::now() + Duration::from_secs(9));
        assert_eq!(hash(&cache, &path), sha256(b"one"), "the record was cut");
    }

    #[test]
    fn a_file_with_its_old_size_and_time_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, records) = (folder.path().join("file"), folder.path().join("digests"));
        let cache = DigestCache::new(&records);
        fs_err::write(&path, "one").unwrap();
        let time = fs_err::metadata(&path).unwrap().modified().unwrap();
        assert_eq!(hash(&cache, &path), sha256(b"one"));
        set_modified(&record(&records), SystemTime::now() + Duration::from_secs(9));
        // The clock of the file system has to tick once.
        std::thread::sleep(Duration::from_millis(20));
        fs_err::write(&path, "two").unwrap();
        set_modified(&path, time);
        assert_eq!(hash(&cache, &path), sha256(b"two"));
    }

    #[test]
    fn hashes_need_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs_err::write(&path, "one").unwrap();
        assert_eq!(hash(&DigestCache::new(path.join("below")), &path), sha256(b"one"));
    }
}
