//! Input: distributions of other servers, and a folder. Output: a [`Store`] of them whose pages go
//! into the folder and link the files by their absolute addresses.
//!
//! METADATA beside a wheel (PEP 658) has the address of the wheel and an ending, so it is on the
//! pages only where the other server has it.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rocwheel_content::{Content, Digest, Opening, Spool, archive_path};
use rocwheel_progress::Reporter;
use url::Url;

use crate::error::Error;
use crate::folder::FolderStore;
use crate::listing::{Identity, identity};
use crate::store::{NewFile, PageChange, Store, StoreLock, StoredBytes, StoredFile};

/// A file of another server.
pub struct LinkedFile {
    pub size: u64,
    /// As [`StoredFile::stamp`]; a file without is read in every run.
    pub stamp: String,
    /// `None` where only its bytes tell.
    pub sha256: Option<Digest>,
    pub uploaded: Option<Timestamp>,
    /// Where installers download it.
    pub address: Url,
    /// Its bytes; those of METADATA beside a wheel are never read.
    pub content: Option<Arc<dyn Content>>,
}

/// Distributions of other servers by their names, and a folder for their pages.
pub struct LinkedStore {
    pages: FolderStore,
    files: BTreeMap<String, LinkedFile>,
    /// Requests at once.
    requests: usize,
}

impl LinkedStore {
    /// The store of `files` by name; pages go into the existing folder `pages`. Files that are
    /// neither distributions nor METADATA of one are not listed.
    pub fn new(pages: &Path, files: BTreeMap<String, LinkedFile>, requests: usize) -> Result<LinkedStore, Error> {
        Ok(LinkedStore { pages: FolderStore::open(pages)?, files, requests })
    }

    fn no_upload(&self) -> Error {
        Error::Write {
            path: self.name().into(),
            source: io::Error::other("its files are on other servers, and an index of them only reads"),
        }
    }
}

/// `true` for names of distributions, also of those that an index refuses.
pub(crate) fn is_distribution(name: &str) -> bool {
    matches!(identity(name), Identity::Distribution(_) | Identity::Wrong(_))
}

impl Store for LinkedStore {
    fn name(&self) -> String {
        self.pages.name()
    }

    fn requests(&self) -> Option<usize> {
        Some(self.requests)
    }

    fn list(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<StoredFile>, Error> {
        let mut files = self.pages.list(folder, reporter)?;
        if folder.is_empty() {
            // A local wheel is not what people will download.
            files.retain(|file| !is_distribution(&file.key) && !file.key.ends_with(".metadata"));
            files.retain(|file| !self.files.contains_key(&file.key));
            let listed = self.files.iter().filter(|(name, _)| is_distribution(name.trim_end_matches(".metadata")));
            files.extend(listed.map(|(name, file)| StoredFile {
                key: name.clone(),
                size: file.size,
                stamp: file.stamp.clone(),
            }));
            files.sort_by(|one, other| one.key.cmp(&other.key));
        }
        Ok(files)
    }

    fn bytes(&self, file: &StoredFile) -> Result<StoredBytes, Error> {
        let Some(content) = self.files.get(&file.key).and_then(|file| file.content.clone()) else {
            let path = archive_path::join(&self.name(), &file.key).into();
            return Err(Error::Read { path, source: io::ErrorKind::NotFound.into() });
        };
        // A content that is downloaded is not downloaded for METADATA and again for its hash.
        let content = Spool::new(Path::new("")).hold(content, Opening::Elsewhere);
        Ok(StoredBytes::Remote(Box::new(content)))
    }

    fn sha256(&self, file: &StoredFile) -> Result<Option<Digest>, Error> {
        Ok(self.files.get(&file.key).and_then(|file| file.sha256))
    }

    fn address(&self, file: &StoredFile) -> Option<String> {
        let mut address = self.files.get(&file.key)?.address.clone();
        // S3 reads a plus in a path as a blank.
        address.set_path(&address.path().replace('+', "%2B"));
        Some(address.into())
    }

    fn uploaded(&self, file: &StoredFile) -> Option<Timestamp> {
        self.files.get(&file.key)?.uploaded
    }

    fn takes_metadata(&self) -> bool {
        false
    }

    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.pages.read(key)
    }

    fn read_start(&self, key: &str, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        self.pages.read_start(key, limit)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        self.pages.write(key, bytes)
    }

    fn put_parts(
        &self,
        key: &str,
        parts: &mut dyn Iterator<Item = Result<String, Error>>,
        write: bool,
    ) -> Result<(Option<PageChange>, u64), Error> {
        self.pages.put_parts(key, parts, write)
    }

    fn compare_and_swap(&self, key: &str, before: Option<&[u8]>, after: &[u8]) -> Result<bool, Error> {
        self.pages.compare_and_swap(key, before, after)
    }

    fn put_files(&self, _files: &[NewFile], _reporter: &dyn Reporter) -> Result<usize, Error> {
        Err(self.no_upload())
    }

    fn remove(&self, key: &str) -> Result<(), Error> {
        self.pages.remove(key)
    }

    fn lock(&self) -> Result<StoreLock, Error> {
        self.pages.lock()
    }
}
