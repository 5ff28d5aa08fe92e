//! Input: a folder with repositories of native packages. Output: the same packages in the
//! repositories of a store, which may have others already.
//!
//! Packages are copied unchanged. The lists of packages (`Packages` of Debian, `primary`,
//! `filelists` and `other` of RPM) are merged with those of the store while it is locked, so two
//! runs never lose each other's entries (release spec 6.3, D15). Packages come first, then lists
//! under names that contain their hashes, and what installers read first (`Release`, `repomd.xml`)
//! last: an installer that looks in between finds the old lists or the new ones.

mod deb;
mod merge;
mod rpm;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rocwheel_content::archive_path::join;
use rocwheel_content::{hexadecimal, sha256_of};
use rocwheel_progress::{Reporter, Unit, Watched, WithoutProgress};
use rocwheel_store::{Error as StoreError, FileTransfer, NewFile, Store, collect_uploads, wait_for_lock};
use serde::Serialize;

use crate::Error;

/// The signatures of a file that installers read first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeSignature {
    /// The text with its signature around it (`InRelease`).
    pub around: Vec<u8>,
    /// The signature alone (`Release.gpg`, `repomd.xml.asc`).
    pub beside: Vec<u8>,
}

/// Signs a text with OpenPGP.
pub type NativeSigner<'s> = &'s dyn Fn(&[u8]) -> io::Result<NativeSignature>;

#[derive(Clone, Copy)]
pub struct NativeOptions<'o> {
    pub patience: Duration,
    /// The date of changed lists.
    pub now: Timestamp,
    /// `None` for repositories without signatures.
    pub signer: Option<NativeSigner<'o>>,
    /// `false` for a dry run.
    pub write: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NativeCopy {
    /// The packages, by their paths in the folder.
    pub files: Vec<String>,
    pub bytes: u64,
    /// How many were missing in the store.
    pub copied: usize,
    /// Lists that changed, or would.
    pub lists: Vec<String>,
}

/// The files of a repository by their paths in it.
type Members<'f> = BTreeMap<&'f str, &'f NewFile>;

/// What a repository's lists become.
#[derive(Debug, Default)]
struct MergedLists {
    /// Lists under names that contain their hashes, which are not read before `last` names them.
    first: Vec<(String, Vec<u8>)>,
    /// Files that installers read first, in the order in which they are written.
    last: Vec<(String, Vec<u8>)>,
    /// Files that neither the old nor the new lists need.
    stale: Vec<String>,
}

/// Publishes the repositories of a folder: each folder with `dists`, and each with `repodata`.
pub fn publish_native(
    folder: &Path,
    store: &dyn Store,
    options: &NativeOptions<'_>,
    reporter: &dyn Reporter,
) -> Result<NativeCopy, Error> {
    let files = examined(folder, reporter)?;
    let packages: Vec<NewFile> =
        files.iter().filter(|file| !deb::is_list(&file.key) && !rpm::is_list(&file.key)).cloned().collect();
    let mut copy = NativeCopy {
        files: packages.iter().map(|file| file.key.clone()).collect(),
        bytes: packages.iter().map(|file| file.size).sum(),
        copied: 0,
        lists: Vec::new(),
    };
    let _lock = options.write.then(|| wait_for_lock(store, options.patience, reporter)).transpose()?;
    let merged = merged_lists(&files, store, options)?;
    copy.lists = merged.iter().flat_map(|lists| &lists.last).map(|(key, _)| key.clone()).collect();
    if !options.write {
        return Ok(copy);
    }
    copy.copied = store.put_files(&packages, reporter)?;
    for lists in merged {
        for (key, bytes) in lists.first.iter().chain(&lists.last) {
            reporter.check()?;
            store.write(key, bytes)?;
        }
        lists.stale.iter().try_for_each(|key| store.remove(key))?;
    }
    Ok(copy)
}

/// The files of a folder with their hashes.
fn examined(folder: &Path, reporter: &dyn Reporter) -> Result<Vec<NewFile>, Error> {
    let found = collect_uploads(&[folder.to_owned()], &[])?;
    let mut files = Vec::with_capacity(found.len());
    let _stage = reporter.stage("Reading native packages", Some(found.len() as u64), Unit::Items);
    let quiet = WithoutProgress(reporter);
    for (path, key) in found {
        reporter.check()?;
        let size = fs_err::metadata(&path).map_err(StoreError::read(&path))?.len();
        let sha256 = fs_err::File::open(&path).and_then(|file| sha256_of(Watched::new(file, &quiet)));
        reporter.check()?;
        let sha256 = sha256.map_err(StoreError::read(&path))?;
        reporter.advance(1);
        files.push(NewFile { path, key, size, sha256, transfer: FileTransfer::Copy });
    }
    Ok(files)
}

fn merged_lists(files: &[NewFile], store: &dyn Store, options: &NativeOptions<'_>) -> Result<Vec<MergedLists>, Error> {
    let deb: BTreeSet<&str> = files.iter().filter_map(|file| deb::root(&file.key)).collect();
    let rpm: BTreeSet<&str> = files.iter().filter_map(|file| rpm::root(&file.key)).collect();
    let mut problems: Vec<String> = Vec::new();
    if deb.is_empty() && rpm.is_empty() {
        problems.push("there is no repository in it: no folder `dists` and no `repodata`".to_owned());
    }
    let mut merged = Vec::new();
    for (roots, merge) in [(deb, deb::merged as Merge), (rpm, rpm::merged as Merge)] {
        for root in roots {
            let inside = files.iter().filter(|file| root.is_empty() || file.key.starts_with(&format!("{root}/")));
            let members = inside.map(|file| (file.key[root.len()..].trim_start_matches('/'), file));
            let repository = Repository { root, members: members.collect(), store, options };
            match merge(&repository)? {
                Ok(lists) => merged.push(lists),
                Err(found) => problems.extend(found.into_iter().map(|problem| format!("`{}`: {problem}", shown(root)))),
            }
        }
    }
    if problems.is_empty() { Ok(merged) } else { Err(Error::Native { problems }) }
}

fn signed(signer: NativeSigner<'_>, text: &[u8]) -> Result<NativeSignature, Error> {
    signer(text).map_err(|error| Error::Native { problems: vec![format!("the lists cannot be signed: {error}")] })
}

/// Merges the lists of one kind of repository. The second error is about its contents.
type Merge = fn(&Repository<'_>) -> Result<Result<MergedLists, Vec<String>>, Error>;

fn shown(root: &str) -> &str {
    if root.is_empty() { "." } else { root }
}

/// A repository that is merged into a store.
struct Repository<'r> {
    /// The folder below the top, in both; empty for the top itself.
    root: &'r str,
    members: Members<'r>,
    store: &'r dyn Store,
    options: &'r NativeOptions<'r>,
}

impl Repository<'_> {
    fn key(&self, path: &str) -> String {
        join(self.root, path)
    }

    fn stored(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.read(&self.key(path))
    }

    fn new_file(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.members.get(path) else { return Ok(None) };
        fs_err::read(&file.path).map(Some).map_err(StoreError::read(&file.path))
    }

    /// What contradicts a line about a package: its path, SHA-256 and size in bytes.
    fn contradiction(&self, path: &str, sha256: &str, size: Option<u64>) -> Option<String> {
        let Some(file) = self.members.get(path) else {
            return Some(format!("the lists name `{path}`, which is missing"));
        };
        let is_same = hexadecimal(&file.sha256) == sha256 && size.is_none_or(|size| size == file.size);
        (!is_same).then(|| format!("`{path}` is not the file that the lists describe"))
    }

    /// Fails for a signed repository if there is no signer for the merged one.
    fn signature_problem(&self, files: &[&str]) -> Result<Option<String>, Error> {
        if self.options.signer.is_some() {
            return Ok(None);
        }
        for file in files {
            if self.members.contains_key(file) || self.stored(file)?.is_some() {
                return Ok(Some(format!(
                    "`{file}` is a signature, and the merged lists would have none: name the key with `--native-key`"
                )));
            }
        }
        Ok(None)
    }
}
