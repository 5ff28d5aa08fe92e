//! Input: the address of a bucket, and credentials. Output: the [`Store`] of its files.

mod address;
mod bucket_upload;
mod client;
mod content;
mod credentials;
mod lease;
mod list;
mod media;
mod multipart;
mod times;
mod upload;

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use rocwheel_content::archive_path::{file_name, join};
use rocwheel_content::{Digest, hexadecimal};
use rocwheel_index::pages::encoded_segment;
use rocwheel_progress::Reporter;
use rusty_s3::Method;

use crate::bucket_fault::BucketFault;
use crate::error::Error;
use crate::store::{NewFile, Store, StoreLock, StoredBytes, StoredFile};
use crate::traces::time_stamp;
pub use address::S3Address;
pub use bucket_upload::{BucketUpload, UploadState};
use client::{Client, Head, Reply, Request};
use content::S3Content;
use lease::Lease;
pub use upload::{UploadOptions, collect_uploads, plan_uploads, uncompared_uploads, upload};

/// Requests at the same time. An answer takes some 30 ms, of which the processor works one.
const REQUESTS: usize = 16;
/// The header with the SHA-256 of a body in base64, which servers compare.
const BODY_SHA256: &str = "x-amz-checksum-sha256";
/// The header with the SHA-256 of an object, as PyTorch's and AMD's scripts read it.
const OBJECT_SHA256: &str = "x-amz-meta-checksum-sha256";
/// Variables with the region, the first one that has a value counts.
const REGION_VARIABLES: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
/// Variables with the address of the server, as AWS' own tools know them.
const ENDPOINT_VARIABLES: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// What keeps publishers from writing at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreLocking {
    /// An object that is written under conditions. A server that ignores conditions is refused.
    Conditional,
    /// The user's CI system or the like; nothing is locked here.
    External,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signing {
    /// Signed (SigV4) with `AWS_*` credentials.
    Credentials,
    /// Unsigned, for public buckets.
    Anonymous,
}

#[derive(Clone)]
pub struct S3Options {
    pub address: S3Address,
    /// The address of the server; `None`: the one of the environment, else AWS.
    pub endpoint: Option<String>,
    pub signing: Signing,
    pub locking: StoreLocking,
    /// The environment variables that begin with `AWS_`, with their values.
    pub variables: Vec<(String, String)>,
    /// The holder's name in the lock, for other publishers' messages.
    pub owner: String,
}

impl S3Options {
    /// In this region, unless the environment names one.
    #[must_use]
    pub fn in_region(mut self, region: &str) -> S3Options {
        if self.region().is_none() {
            self.variables.push((REGION_VARIABLES[0].to_owned(), region.to_owned()));
        }
        self
    }

    /// The region that the environment names.
    pub fn region(&self) -> Option<&str> {
        self.variable(&REGION_VARIABLES)
    }

    /// The server; `None`: AWS.
    pub(crate) fn server(&self) -> Option<&str> {
        self.endpoint.as_deref().or_else(|| self.variable(&ENDPOINT_VARIABLES))
    }

    /// The value of the first of these variables that has one.
    fn variable(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| {
            let found = self.variables.iter().find(|(known, value)| known == *name && !value.is_empty());
            found.map(|(_, value)| value.as_str())
        })
    }

    /// Where a browser finds an object, if the bucket is public.
    pub fn web_address(&self, key: &str) -> String {
        let S3Address { bucket, prefix } = &self.address;
        let path = join(prefix, key).split('/').map(encoded_segment).collect::<Vec<_>>().join("/");
        match self.server() {
            Some(server) => format!("{}/{bucket}/{path}", server.trim_end_matches('/')),
            None => format!("https://{bucket}.s3.amazonaws.com/{path}"),
        }
    }
}

/// Without the values of variables, which are secret.
impl std::fmt::Debug for S3Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("S3Options")
            .field("address", &self.address.to_string())
            .field("endpoint", &self.endpoint)
            .field("signing", &self.signing)
            .field("locking", &self.locking)
            .field("variables", &names)
            .field("owner", &self.owner)
            .finish()
    }
}

/// The files below a prefix of a bucket.
pub struct S3Store {
    client: Arc<Client>,
    address: S3Address,
    locking: StoreLocking,
    owner: String,
    /// The lock while it is held. Writing ends when another publisher has taken it over.
    lease: std::sync::Mutex<std::sync::Weak<Lease>>,
}

impl S3Store {
    /// Opens a bucket; nothing is asked of the server yet. Requests end when `reporter` is
    /// interrupted.
    pub fn open(options: &S3Options, reporter: Arc<dyn Reporter>) -> Result<S3Store, Error> {
        let client = Client::new(options, reporter)
            .map_err(|source| Error::Bucket { attempted: format!("open `{}`", options.address), source })?;
        Ok(S3Store {
            client: Arc::new(client),
            address: options.address.clone(),
            locking: options.locking,
            owner: options.owner.clone(),
            lease: std::sync::Mutex::default(),
        })
    }

    /// The key of a file in the bucket; empty for the whole bucket.
    fn path(&self, key: &str) -> Result<String, Error> {
        let path = join(&self.address.prefix, key);
        let path = path.strip_suffix('/').map(str::to_owned).unwrap_or(path);
        if path.is_empty() || address::is_path(&path) {
            return Ok(path);
        }
        let source = BucketFault::Other("a part of it is no name".to_owned());
        Err(Error::Bucket { attempted: format!("use the key `{path}`"), source })
    }

    fn shown(&self, key: &str) -> String {
        if key.is_empty() { self.name() } else { join(&self.name(), key) }
    }

    /// The bytes of a file and its ETag.
    fn read_tagged(&self, key: &str) -> Result<Option<TaggedBytes>, Error> {
        let request = Request::new(Method::Get, &self.path(key)?).answered_by(&[StatusCode::NOT_FOUND]);
        let reply = self.client.send(request).map_err(|stop| stop.error(format!("read `{}`", self.shown(key))))?;
        Ok((reply.status != StatusCode::NOT_FOUND).then(|| (reply.body.to_vec(), reply.etag())))
    }

    fn head(&self, key: &str) -> Result<Option<Head>, Error> {
        let head = self.client.head(&self.path(key)?);
        head.map_err(|stop| stop.error(format!("inspect `{}`", self.shown(key))))
    }

    /// The lock, while this store holds it.
    fn lease(&self) -> Option<Arc<Lease>> {
        self.lease.lock().unwrap_or_else(std::sync::PoisonError::into_inner).upgrade()
    }

    /// Errors after the lock was lost to another publisher, or may have been.
    fn check_lease(&self) -> Result<(), Error> {
        self.lease().map_or(Ok(()), |lease| lease.check_begin(self))
    }

    /// Sends a request that changes something. Under the lock it is begun, and repeated, only while
    /// the lock is surely held.
    fn change(&self, attempted: String, request: Request) -> Result<Reply, Error> {
        self.check_lease()?;
        let lease = self.lease();
        let sent = self.client.send_while(request, &|| {
            self.client.check()?;
            Ok(lease.as_ref().map_or(Ok(()), |lease| lease.check_step())?)
        });
        sent.map_err(|stop| stop.error(attempted))
    }

    /// Writes an object. With `digest`, the SHA-256 of the bytes, that is kept in its metadata.
    fn put(&self, key: &str, bytes: Bytes, condition: &Condition, digest: Option<&Digest>) -> Result<(), Error> {
        let own = digest.copied().unwrap_or_else(|| rocwheel_content::sha256(&bytes));
        let request = put_request(&self.path(key)?, key, bytes, &own, condition);
        let request = request.headers(digest.map(|digest| (OBJECT_SHA256, hexadecimal(digest))));
        self.change(format!("write `{}`", self.shown(key)), request).map(drop)
    }
}

/// When an object is written.
enum Condition {
    Always,
    /// If there is none.
    Absent,
    /// If it is the one with this ETag.
    Is(String),
}

/// Writes `bytes`, whose SHA-256 is `sha256`, with the headers that fit `key`.
fn put_request(path: &str, key: &str, bytes: Bytes, sha256: &Digest, condition: &Condition) -> Request {
    let request = Request::new(Method::Put, path).headers(media::headers(key));
    let request = request.header(BODY_SHA256, STANDARD.encode(sha256)).body(bytes);
    match condition {
        Condition::Always => request,
        Condition::Absent => request.header("if-none-match", "*"),
        Condition::Is(etag) => request.header("if-match", etag),
    }
}

/// A listed object as a file, unless a part of its name begins with a dot.
fn stored(folder: &str, object: list::ListedObject) -> Option<StoredFile> {
    if object.key.split('/').any(|part| part.starts_with('.')) {
        return None;
    }
    // A server without ETags: a time of change is enough for files that are not young.
    let stamp = object.e_tag.unwrap_or_else(|| time_stamp(object.modified));
    Some(StoredFile { key: join(folder, &object.key), size: object.size, stamp })
}

fn sorted(mut files: Vec<StoredFile>) -> Vec<StoredFile> {
    files.sort_unstable_by(|one, other| one.key.cmp(&other.key));
    files
}

impl Store for S3Store {
    fn name(&self) -> String {
        self.address.to_string()
    }

    fn requests(&self) -> Option<usize> {
        Some(REQUESTS)
    }

    fn list(&self, folder: &str, reporter: &dyn Reporter) -> Result<Vec<StoredFile>, Error> {
        let mut files = Vec::new();
        self.for_each_object(folder, reporter, &mut |object| files.extend(stored(folder, object)))?;
        Ok(sorted(files))
    }

    fn list_batches(
        &self,
        folder: &str,
        _is_measured: fn(&str) -> bool,
        take: &(dyn Fn(Vec<StoredFile>) + Sync),
        reporter: &dyn Reporter,
    ) -> Result<(), Error> {
        // Servers list keys in the order of their bytes, so a subfolder is over when the next one
        // begins; files that are in none may be in between.
        let (mut top, mut batch, mut present) = (Vec::new(), Vec::new(), String::new());
        let mut done: BTreeSet<String> = BTreeSet::new();
        let mut is_in_order = true;
        self.for_each_object(folder, reporter, &mut |object| {
            let Some((subfolder, _)) = object.key.split_once('/') else {
                top.extend(stored(folder, object));
                return;
            };
            if subfolder != present {
                let next = subfolder.to_owned();
                is_in_order &= !done.contains(&next);
                done.insert(std::mem::replace(&mut present, next));
                take(sorted(std::mem::take(&mut batch)));
            }
            batch.extend(stored(folder, object));
        })?;
        take(sorted(batch));
        take(sorted(top));
        if is_in_order {
            return Ok(());
        }
        let fault = BucketFault::Other("the server lists keys in no order, as S3 Express does".to_owned());
        Err(client::Stop::from(fault).error(format!("list `{}`", self.shown(folder))))
    }

    fn bytes(&self, file: &StoredFile) -> Result<StoredBytes, Error> {
        let content = S3Content::new(Arc::clone(&self.client), self.path(&file.key)?, file);
        Ok(StoredBytes::Remote(Box::new(content)))
    }

    fn range(&self, file: &StoredFile, range: Range<u64>) -> Result<Vec<u8>, Error> {
        let content = S3Content::new(Arc::clone(&self.client), self.path(&file.key)?, file);
        let wanted = range.end - range.start;
        let read = content.range(range).and_then(|bytes| match bytes.len() as u64 {
            length if length == wanted => Ok(bytes.to_vec()),
            length => Err(io::Error::other(format!("{length} of {wanted} bytes arrived"))),
        });
        read.map_err(|source| Error::Read { path: self.shown(&file.key).into(), source })
    }

    fn sha256(&self, file: &StoredFile) -> Result<Option<Digest>, Error> {
        let head = self.head(&file.key)?.filter(|head| {
            let is_other = head.etag.as_ref().is_some_and(|etag| is_etag(&file.stamp) && *etag != file.stamp);
            head.size == file.size && !is_other
        });
        let Some(head) = head else {
            let attempted = format!("read `{}`", self.shown(&file.key));
            return Err(Error::Bucket { attempted, source: BucketFault::Changed });
        };
        Ok(head.sha256)
    }

    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.read_tagged(key)?.map(|(bytes, _)| bytes))
    }

    fn write(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        // Small files that never change get their hash, as large ones do: other indexes read it.
        let digest = file_name(key).ends_with(".metadata").then(|| rocwheel_content::sha256(bytes));
        self.put(key, Bytes::copy_from_slice(bytes), &Condition::Always, digest.as_ref())
    }

    fn compare_and_swap(&self, key: &str, before: Option<&[u8]>, after: &[u8]) -> Result<bool, Error> {
        let found = self.read_tagged(key)?;
        if found.as_ref().map(|(bytes, _)| bytes.as_slice()) != before {
            return Ok(false);
        }
        let condition = match (self.locking, found) {
            // The server may know no conditions; the user keeps other publishers away.
            (StoreLocking::External, _) => Condition::Always,
            (StoreLocking::Conditional, None) => Condition::Absent,
            (StoreLocking::Conditional, Some((_, Some(etag)))) => Condition::Is(etag),
            (StoreLocking::Conditional, Some((_, None))) => {
                let attempted = format!("write `{}`", self.shown(key));
                return Err(Error::Bucket { attempted, source: BucketFault::NoConditions });
            }
        };
        let Err(error) = self.put(key, Bytes::copy_from_slice(after), &condition, None) else { return Ok(true) };
        let Error::Bucket { source, .. } = &error else { return Err(error) };
        // Another publisher was quicker, or it was this request, whose answer was lost.
        if source.is_race() {
            return Ok(self.read(key)?.as_deref() == Some(after));
        }
        let is_unsure = matches!(source, BucketFault::Busy(_) | BucketFault::Unreachable(_));
        let is_written = is_unsure && self.read(key).is_ok_and(|found| found.as_deref() == Some(after));
        if is_written { Ok(true) } else { Err(error) }
    }

    fn put_files(&self, files: &[NewFile], reporter: &dyn Reporter) -> Result<usize, Error> {
        upload::put_files(self, files, reporter)
    }

    fn remove(&self, key: &str) -> Result<(), Error> {
        let request = Request::new(Method::Delete, &self.path(key)?).answered_by(&[StatusCode::NOT_FOUND]);
        self.change(format!("remove `{}`", self.shown(key)), request).map(drop)
    }

    fn lock(&self) -> Result<StoreLock, Error> {
        if self.locking == StoreLocking::External {
            return Ok(Box::new(()));
        }
        lease::probe(self)?;
        let lease = Arc::new(Lease::take(self)?);
        *self.lease.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::downgrade(&lease);
        Ok(Box::new(lease))
    }
}

/// The bytes of a file, and its ETag if the server has ETags.
type TaggedBytes = (Vec<u8>, Option<String>);

/// `true` for a stamp that is not a time.
fn is_etag(stamp: &str) -> bool {
    stamp.starts_with(['"', 'W'])
}
