//! Input: the folder of a run in a store. Output: the list of its files, and their bytes from any
//! position on.

use std::io::{self, Read};
use std::path::PathBuf;

use positioned_io::ReadAt;
use rocwheel_content::archive_path::{file_name, join};
use rocwheel_content::{Digest, Reader};
use rocwheel_progress::{Exit, Failure, Hint as _, Reporter, with_causes};
use rocwheel_store::{BucketFault, Store, StoredBytes, StoredFile};

use crate::DownloadFault;

/// A file of a run's folder, as the listing has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its name, without folders.
    pub name: String,
    /// Bytes; `None` if the listing does not tell.
    pub size: Option<u64>,
    /// Changes when the file does; empty if the listing does not tell.
    pub stamp: String,
}

/// A file's size, stamp and hash, before its bytes are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// Bytes; `None` if the server does not tell.
    pub size: Option<u64>,
    /// Changes when the file does; empty if the server does not tell.
    pub stamp: String,
    /// The SHA-256 that the store itself keeps.
    pub sha256: Option<Digest>,
}

/// The bytes of a file.
pub enum FileStream {
    /// In a file of this machine.
    Local(PathBuf),
    /// From the position that was asked for.
    Continued(Box<dyn Read + Send>),
    /// From the beginning: the server cannot do otherwise, or the file changed.
    FromStart(Box<dyn Read + Send>),
}

/// The folder of a run. Many threads use it at once.
pub trait ArtifactSource: Send + Sync {
    /// The address of the folder, without a password.
    fn name(&self) -> String;

    /// `true` if the files are on this machine, so that a copy in a cache would be a waste.
    fn is_local(&self) -> bool {
        false
    }

    /// The files directly in the folder, sorted by name; none if there is no such folder.
    fn list(&self, reporter: &dyn Reporter) -> Result<Vec<SourceFile>, Failure>;

    /// The bytes of a small file; `None` when there is none.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DownloadFault>;

    fn facts(&self, file: &SourceFile) -> Result<FileFacts, DownloadFault>;

    /// The bytes of a file from a position on.
    fn open(&self, file: &SourceFile, facts: &FileFacts, from: u64) -> Result<FileStream, DownloadFault>;
}

/// The folder of a run in a store.
pub struct StoreSource {
    store: Box<dyn Store>,
    folder: String,
}

impl StoreSource {
    /// The files directly in a folder of a store; empty for the whole store.
    pub fn new(store: Box<dyn Store>, folder: impl Into<String>) -> StoreSource {
        StoreSource { store, folder: folder.into() }
    }

    fn stored(&self, file: &SourceFile, facts: &FileFacts) -> StoredFile {
        let key = join(&self.folder, &file.name);
        StoredFile { key, size: facts.size.unwrap_or_default(), stamp: facts.stamp.clone() }
    }
}

/// What an error of a store means for one file.
fn fault(error: rocwheel_store::Error) -> DownloadFault {
    match error {
        rocwheel_store::Error::Interrupted(interrupted) => interrupted.into(),
        error if error.exit() == Exit::TryAgain => DownloadFault::Network(with_causes(&error)),
        error => DownloadFault::Refused { reason: with_causes(&error), hint: error.hint() },
    }
}

/// Converts an error of reading a file into the fault of the bucket that it contains. An error
/// without one is returned unchanged.
pub(crate) fn bucket_fault(
    source: &dyn ArtifactSource,
    name: &str,
    error: io::Error,
) -> Result<DownloadFault, io::Error> {
    let refusal = error.downcast::<BucketFault>()?;
    let attempted = format!("read `{}`", join(&source.name(), name));
    Ok(fault(rocwheel_store::Error::Bucket { attempted, source: refusal }))
}

impl ArtifactSource for StoreSource {
    fn name(&self) -> String {
        join(&self.store.name(), &self.folder).trim_end_matches('/').to_owned()
    }

    fn is_local(&self) -> bool {
        // Only a bucket has a limit of requests.
        self.store.requests().is_none()
    }

    fn list(&self, reporter: &dyn Reporter) -> Result<Vec<SourceFile>, Failure> {
        let mut files = Vec::new();
        for file in self.store.list(&self.folder, reporter)? {
            let name = file_name(&file.key);
            if join(&self.folder, name) == file.key {
                files.push(SourceFile { name: name.to_owned(), size: Some(file.size), stamp: file.stamp });
            }
        }
        Ok(files)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, DownloadFault> {
        self.store.read(&join(&self.folder, name)).map_err(fault)
    }

    fn facts(&self, file: &SourceFile) -> Result<FileFacts, DownloadFault> {
        let mut facts = FileFacts { size: file.size, stamp: file.stamp.clone(), sha256: None };
        facts.sha256 = self.store.sha256(&self.stored(file, &facts)).map_err(fault)?;
        Ok(facts)
    }

    fn open(&self, file: &SourceFile, facts: &FileFacts, from: u64) -> Result<FileStream, DownloadFault> {
        Ok(match self.store.bytes(&self.stored(file, facts)).map_err(fault)? {
            StoredBytes::Local(path) => FileStream::Local(path),
            StoredBytes::Remote(content) => {
                let reader = content.open().map_err(|error| DownloadFault::Network(error.to_string()))?;
                FileStream::Continued(Box::new(RestReader { reader, position: from }))
            }
        })
    }
}

/// Reads on from a position.
struct RestReader {
    reader: Reader,
    position: u64,
}

impl Read for RestReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read_at(self.position, buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_store::FolderStore;

    use super::*;

    #[test]
    fn a_bucket_that_refuses_while_a_file_is_read_is_not_asked_again() {
        let folder = tempfile::tempdir().unwrap();
        let source = StoreSource::new(Box::new(FolderStore::open(folder.path()).unwrap()), "run");
        let of = |error: io::Error| bucket_fault(&source, "a.tar.zst", error);
        let refused = of(io::Error::other(BucketFault::Credentials("ExpiredToken".to_owned()))).unwrap();
        assert!(matches!(refused, DownloadFault::Refused { .. }), "{refused}");
        assert!(refused.to_string().ends_with("(ExpiredToken)") && refused.to_string().contains("run/a.tar.zst"));
        assert_eq!(refused.exit(), Exit::Failed);
        assert!(refused.hint().unwrap().contains("renew them"));
        let busy = of(io::Error::other(BucketFault::Busy("SlowDown".to_owned()))).unwrap();
        assert_eq!(busy.exit(), Exit::TryAgain, "{busy}");
        assert!(of(io::ErrorKind::ConnectionReset.into()).is_err());
    }
}
