//! Input: a folder with a repository of native packages. Output: the same files in a store.
//!
//! Packages come first, then the lists of packages, and what installers read first (`Release`,
//! `repomd.xml`) last, so an installer that looks in between finds the old list or a whole one. The
//! store is locked meanwhile: two runs never mix their lists (release spec 6.3, D15).

use std::path::Path;
use std::time::Duration;

use rocwheel_content::archive_path::file_name;
use rocwheel_content::sha256_of;
use rocwheel_report::{Reporter, Unit, Watched, WithoutProgress};
use serde::Serialize;

use crate::Error;
use crate::s3::collect_uploads;
use crate::store::{FileTransfer, NewFile, Store};
use crate::stream::wait_for_lock;

/// Files that say which lists there are.
const FIRST_READ: [&str; 4] = ["Release", "Release.gpg", "InRelease", "repomd.xml"];

/// The copied files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NativeCopy {
    /// All files, by their paths in the folder.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// How many were missing in the store.
    pub copied: usize,
}

/// Copies a folder of native packages as it is. `write` is `false` for a dry run.
///
/// # Errors
/// [`Error::OtherBytes`] for files that the store has with other bytes; an empty folder; what
/// cannot be read or written; [`Error::Locked`] when the patience is at its end.
pub fn copy_native(
    folder: &Path,
    store: &dyn Store,
    (patience, write): (Duration, bool),
    reporter: &dyn Reporter,
) -> Result<NativeCopy, Error> {
    let found = collect_uploads(&[folder.to_owned()], &[])?;
    let mut files = Vec::new();
    let stage = reporter.stage("Reading native packages", Some(found.len() as u64), Unit::Items);
    let quiet = WithoutProgress(reporter);
    for (path, key) in found {
        reporter.check()?;
        let failed = |source| Error::Read { path: path.clone(), source };
        let size = fs_err::metadata(&path).map_err(failed)?.len();
        let sha256 = fs_err::File::open(&path).and_then(|file| sha256_of(Watched::new(file, &quiet)));
        reporter.check()?;
        let sha256 = sha256.map_err(failed)?;
        reporter.advance(1);
        files.push(NewFile { path, key, size, sha256, transfer: FileTransfer::Copy });
    }
    drop(stage);
    files.sort_by_key(|file| (rank(&file.key), file.key.clone()));
    let mut copy = NativeCopy {
        files: files.iter().map(|file| file.key.clone()).collect(),
        bytes: files.iter().map(|file| file.size).sum(),
        copied: 0,
    };
    if !write {
        return Ok(copy);
    }
    let _lock = wait_for_lock(store, patience, reporter)?;
    for rank_of_files in 0..=LAST {
        let now: Vec<NewFile> = files.iter().filter(|file| rank(&file.key) == rank_of_files).cloned().collect();
        if !now.is_empty() {
            copy.copied += store.put_files(&now, reporter)?;
        }
    }
    Ok(copy)
}

const LAST: u8 = 2;

/// The order in which a file is copied.
fn rank(key: &str) -> u8 {
    let name = file_name(key);
    if [".deb", ".rpm"].iter().any(|ending| name.ends_with(ending)) {
        0
    } else if FIRST_READ.iter().any(|first| name.starts_with(first)) {
        LAST
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_report::Silent;

    use super::*;
    use crate::FolderStore;

    #[test]
    fn a_repository_is_copied_as_it_is_and_never_replaced() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (name, text) in [
            ("deb/pool/main/rocm_7.12.0_amd64.deb", "package"),
            ("deb/dists/stable/Release", "first"),
            ("deb/dists/stable/main/binary-amd64/Packages", "list"),
        ] {
            let path = from.path().join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        let store = FolderStore::open(to.path()).unwrap();
        let copy = |write| copy_native(from.path(), &store, (Duration::ZERO, write), &Silent);
        let planned = copy(false).unwrap();
        assert_eq!((planned.files.len(), planned.copied, to.path().join("deb").exists()), (3, 0, false));
        assert!(planned.files[2].ends_with("Release"), "{planned:?}");
        assert_eq!(copy(true).unwrap().copied, 3);
        assert_eq!(copy(true).unwrap().copied, 0);
        fs_err::write(from.path().join("deb/dists/stable/Release"), "other").unwrap();
        assert!(matches!(copy(true), Err(Error::OtherBytes { .. })));
        assert_eq!(fs_err::read_to_string(to.path().join("deb/dists/stable/Release")).unwrap(), "first");
        let _held = store.lock().unwrap();
        assert!(matches!(copy(true), Err(Error::Locked { .. })));
    }
}
