//! Input: files of this machine and their keys. Output: what a bucket has of them, and the rest of
//! them in it, complete and with their hashes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use positioned_io::Cursor;
use rayon::prelude::*;
use rocwheel_content::archive_path::file_name;
use rocwheel_content::{Digest, sha256, sha256_of};
use rocwheel_progress::{Reporter, Unit, Watched};
use rocwheel_wheel::WheelName;
use walkdir::WalkDir;

use super::bucket_upload::{BucketUpload, UploadState, changed_here, other_bytes};
use super::{Condition, S3Store, multipart};
use crate::bucket_fault::BucketFault;
use crate::error::{Error, without_other_bytes};
use crate::folder::is_shown;
use crate::listing::NameFilter;
use crate::store::{NewFile, Store as _, StoredBytes, StoredFile, with_threads};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadOptions {
    /// A file of the same name with other bytes is an error.
    Keep,
    /// Such a file is replaced, unless it is a wheel or source distribution: installers and lock
    /// files know those by their hashes.
    Replace,
}

/// Hashes files for a plan without the bucket.
pub fn uncompared_uploads(files: &[(PathBuf, String)], reporter: &dyn Reporter) -> Result<Vec<BucketUpload>, Error> {
    files.iter().map(|(path, key)| hashed(path, key, reporter)).collect()
}

fn hashed(path: &Path, key: &str, reporter: &dyn Reporter) -> Result<BucketUpload, Error> {
    let file = fs_err::File::open(path).map_err(Error::read(path))?;
    let size = file.metadata().map_err(Error::read(path))?.len();
    let sha256 = sha256_of(Watched::new(file, reporter)).map_err(Error::read(path))?;
    let (path, key) = (path.to_owned(), key.to_owned());
    Ok(BucketUpload { path, key, size, sha256, state: UploadState::Uncompared })
}

/// Hashes files, and compares them with what the bucket has under their keys.
///
/// # Errors
/// [`Error::OtherBytes`] for files that would replace others; what cannot be read or asked.
pub fn plan_uploads(
    store: &S3Store,
    files: &[(PathBuf, String)],
    options: UploadOptions,
    reporter: &dyn Reporter,
) -> Result<Vec<BucketUpload>, Error> {
    let sizes = files.iter().map(|(path, _)| fs_err::metadata(path).map(|file| file.len()).map_err(Error::read(path)));
    reporter.begin("Hashing files", Some(sizes.sum::<Result<u64, _>>()?), Unit::Bytes);
    let planned = files.par_iter().map(|(path, key)| {
        reporter.check()?;
        let file = hashed(path, key, reporter)?;
        let state = match (compare(store, key, (file.size, &file.sha256), reporter)?, options) {
            (None, _) => UploadState::New,
            (Some(true), _) => UploadState::Unchanged,
            (Some(false), UploadOptions::Replace) if !is_distribution(key) => UploadState::Replaced,
            (Some(false), _) => return Ok(Err(format!("`{}`", store.shown(key)))),
        };
        Ok(Ok(BucketUpload { state, ..file }))
    });
    let planned = with_threads(store, || planned.collect::<Result<Vec<_>, Error>>());
    reporter.end();
    without_other_bytes(planned?)
}

/// `true` if the bucket has these bytes, by size and SHA-256, under a key; `None` if it has nothing
/// there.
fn compare(
    store: &S3Store,
    key: &str,
    (size, sha256): (u64, &Digest),
    reporter: &dyn Reporter,
) -> Result<Option<bool>, Error> {
    let Some(head) = store.head(key)? else { return Ok(None) };
    let stored = StoredFile { key: key.to_owned(), size: head.size, stamp: head.etag.unwrap_or_default() };
    let is_same = head.size == size && {
        match head.sha256 {
            Some(stored) => stored == *sha256,
            None => download_digest(store, &stored, reporter)? == *sha256,
        }
    };
    Ok(Some(is_same))
}

/// Uploads files whose hashes are known, unless the bucket has them.
pub(super) fn put_files(store: &S3Store, files: &[NewFile], reporter: &dyn Reporter) -> Result<usize, Error> {
    let planned = files.par_iter().map(|file| {
        reporter.check()?;
        let NewFile { path, key, size, sha256, .. } = file.clone();
        Ok(match compare(store, &key, (size, &sha256), reporter)? {
            None => Ok(Some(BucketUpload { path, key, size, sha256, state: UploadState::New })),
            Some(true) => Ok(None),
            Some(false) => Err(format!("`{}`", store.shown(&key))),
        })
    });
    let planned = with_threads(store, || planned.collect::<Result<Vec<_>, Error>>())?;
    let uploads: Vec<BucketUpload> = without_other_bytes(planned)?.into_iter().flatten().collect();
    upload(store, &uploads, reporter)?;
    Ok(uploads.len())
}

/// The SHA-256 of an object whose uploader left none.
fn download_digest(store: &S3Store, file: &StoredFile, reporter: &dyn Reporter) -> Result<Digest, Error> {
    let address = store.shown(&file.key);
    reporter
        .warn(&format!("`{address}` has no SHA-256 in the store: {} bytes are downloaded to compare it", file.size));
    let StoredBytes::Remote(content) = store.bytes(file)? else {
        return Err(Error::Read { path: address.into(), source: std::io::ErrorKind::Unsupported.into() });
    };
    let digest = content.open().and_then(|reader| sha256_of(Cursor::new(reader)));
    reporter.check()?;
    digest.map_err(Error::read(Path::new(&address)))
}

/// Files that an index lists: their bytes are promised.
fn is_distribution(key: &str) -> bool {
    let key = key.strip_suffix(".metadata").unwrap_or(key);
    WheelName::is_wheel(key) || [".tar.gz", ".zip"].iter().any(|ending| key.ends_with(ending))
}

/// Uploads what the bucket does not have.
///
/// # Errors
/// [`Error::OtherBytes`] for a file that another publisher wrote meanwhile, or that changed here;
/// what cannot be read or written; an interruption, after which the bucket has no parts of a file.
pub fn upload(store: &S3Store, uploads: &[BucketUpload], reporter: &dyn Reporter) -> Result<(), Error> {
    let wanted: Vec<&BucketUpload> = uploads.iter().filter(|upload| upload.state != UploadState::Unchanged).collect();
    let total = wanted.iter().map(|upload| upload.size).sum();
    reporter.begin("Uploading", Some(total), Unit::Bytes);
    let (small, large): (Vec<&BucketUpload>, Vec<&BucketUpload>) =
        wanted.into_iter().partition(|upload| upload.size <= multipart::PART);
    let done = with_threads(store, || {
        small.par_iter().try_for_each(|upload| {
            reporter.check()?;
            put_small(store, upload)?;
            reporter.advance(upload.size);
            verify(store, upload)
        })
    });
    // Parts of one large file are uploaded at the same time, so one file after the other is enough.
    let done = done.and_then(|()| {
        large.iter().try_for_each(|upload| {
            multipart::put(store, upload, reporter)?;
            verify(store, upload)
        })
    });
    reporter.end();
    done
}

fn put_small(store: &S3Store, upload: &BucketUpload) -> Result<(), Error> {
    let bytes = fs_err::read(&upload.path).map_err(|source| Error::Read { path: upload.path.clone(), source })?;
    if sha256(&bytes) != upload.sha256 {
        return Err(changed_here(upload));
    }
    let (key, bytes, sha256) = (&upload.key, Bytes::from(bytes), Some(&upload.sha256));
    if upload.state == UploadState::Replaced {
        return store.put(key, bytes, &Condition::Always, sha256);
    }
    match store.put(key, bytes.clone(), &Condition::Absent, sha256) {
        Err(Error::Bucket { source: BucketFault::Changed | BucketFault::Busy(_), .. }) => {}
        other => return other,
    }
    // There is one now: of another publisher, or ours and the answer was lost. After a conflict of
    // two requests there may be none.
    match store.head(&upload.key)? {
        Some(head) if head.sha256 == Some(upload.sha256) => Ok(()),
        Some(_) => Err(other_bytes(store, upload)),
        None => store.put(key, bytes, &Condition::Absent, sha256),
    }
}

/// What the bucket has in the end is what the file has.
fn verify(store: &S3Store, upload: &BucketUpload) -> Result<(), Error> {
    let fault = match store.head(&upload.key)? {
        Some(head) if head.size == upload.size => match head.sha256 {
            Some(stored) if stored != upload.sha256 => "the server has another SHA-256 of it afterwards",
            _ => return Ok(()),
        },
        Some(_) => "the server has another number of bytes of it afterwards",
        None => "the server has no such file afterwards",
    };
    let attempted = format!("upload `{}`", store.shown(&upload.key));
    Err(Error::Bucket { attempted, source: BucketFault::Other(fault.to_owned()) })
}

/// The files that are meant by paths, with their keys: a file's name, and for those of a folder the
/// path below it. Files and folders in a folder that begin with a dot are skipped.
pub fn collect_uploads(paths: &[PathBuf], include: &[String]) -> Result<Vec<(PathBuf, String)>, Error> {
    let filters: Vec<NameFilter> =
        include.iter().map(|pattern| NameFilter::new(std::slice::from_ref(pattern))).collect::<Result<_, _>>()?;
    let mut used = vec![false; filters.len()];
    let mut files: BTreeMap<String, PathBuf> = BTreeMap::new();
    for top in paths {
        for entry in WalkDir::new(top).follow_links(true).into_iter().filter_entry(is_shown) {
            let entry = entry.map_err(|error| Error::Read { path: top.clone(), source: error.into() })?;
            if !entry.file_type().is_file() {
                continue;
            }
            let path = entry.path();
            let below =
                if entry.depth() == 0 { Path::new(entry.file_name()) } else { path.strip_prefix(top).unwrap_or(path) };
            let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
            let key = parts.ok_or_else(|| Error::NotText { path: path.to_owned() })?.join("/");
            let mut is_meant = filters.is_empty();
            for (filter, used) in filters.iter().zip(&mut used) {
                let fits = filter.accepts(file_name(&key));
                *used |= fits;
                is_meant |= fits;
            }
            if !is_meant {
                continue;
            }
            match files.insert(key.clone(), path.to_owned()) {
                Some(other) if other != path => {
                    let problems =
                        vec![format!("`{}` and `{}`: both would be `{key}`", other.display(), path.display())];
                    return Err(Error::Uploads { problems });
                }
                _ => {}
            }
        }
    }
    let unused = include.iter().zip(&used).filter(|(_, used)| !**used);
    let mut problems: Vec<String> = unused.map(|(pattern, _)| format!("no file is called like `{pattern}`")).collect();
    if files.is_empty() && problems.is_empty() {
        problems.push("the folders have no files".to_owned());
    }
    if problems.is_empty() {
        Ok(files.into_iter().map(|(key, path)| (path, key)).collect())
    } else {
        Err(Error::Uploads { problems })
    }
}
