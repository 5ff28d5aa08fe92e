//! Input: a large file. Output: an object made of parts that were uploaded at the same time, or no
//! trace of them.

use std::cell::Cell;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use positioned_io::ReadAt;
use quick_xml::escape::escape;
use rocwheel_content::{Sha256, hexadecimal, sha256};
use rocwheel_progress::Reporter;
use rusty_s3::Method;
use serde::Deserialize;

use super::bucket_upload::{BucketUpload, UploadState, changed_here, other_bytes};
use super::client::{Request, Stop, within};
use super::{BODY_SHA256, OBJECT_SHA256, S3Store, media};
use crate::bucket_fault::{BucketFault, CONFLICT};
use crate::error::Error;

/// Bytes of a part, and the largest file that is uploaded in one piece. S3 takes no smaller part
/// than 5 MiB.
pub(super) const PART: u64 = 8 << 20;
/// Parts that are in memory, and under way, at the same time.
const PARALLEL: usize = 4;
/// Parts that an upload may have.
const MOST: u64 = 10_000;
/// How long the removal of parts may take.
const TIDYING: Duration = Duration::from_secs(20);
/// An upload that another one disturbed is begun again this often.
const TRIES: usize = 3;

/// How the last request of an upload ended.
enum Completed {
    Done,
    /// There is an object of this name now.
    Exists,
    /// Another request disturbed this one: all parts are needed once more.
    Disturbed,
}

/// Uploads a file in parts.
pub(super) fn put(store: &S3Store, upload: &BucketUpload, reporter: &dyn Reporter) -> Result<(), Error> {
    for _ in 0..TRIES {
        match put_once(store, upload, reporter)? {
            Completed::Done => return Ok(()),
            Completed::Exists => {
                let head = store.head(&upload.key)?;
                let is_ours = head.is_some_and(|head| head.sha256 == Some(upload.sha256));
                return if is_ours { Ok(()) } else { Err(other_bytes(store, upload)) };
            }
            Completed::Disturbed => {}
        }
    }
    let attempted = format!("upload `{}`", store.shown(&upload.key));
    Err(Error::Bucket { attempted, source: BucketFault::Busy(CONFLICT.to_owned()) })
}

fn put_once(store: &S3Store, upload: &BucketUpload, reporter: &dyn Reporter) -> Result<Completed, Error> {
    reporter.check()?;
    store.check_lease()?;
    let path = store.path(&upload.key)?;
    let attempted = format!("upload `{}`", store.shown(&upload.key));
    let id = begin(store, upload, &path, reporter).map_err(|stop| stop.error(attempted))?;
    let parts = Parts { store, upload, path: &path, id: &id };
    let completed = parts.send(reporter).and_then(|receipts| parts.complete(&receipts));
    if let Err(Error::Bucket { .. }) = &completed
        && let Ok(Some(head)) = store.head(&upload.key)
        && head.sha256 == Some(upload.sha256)
    {
        // It was completed, the answer was lost, and the server has forgotten the upload.
        return Ok(Completed::Done);
    }
    if !matches!(completed, Ok(Completed::Done)) && !parts.remove() && completed.is_err() {
        warn_of_parts(store, upload, reporter);
    }
    completed
}

#[derive(Deserialize)]
struct BegunUpload {
    #[serde(rename = "UploadId")]
    id: String,
}

/// Begins an upload, and returns its number. An interruption does not end the wait at once: the
/// server may have begun it, and only its answer says what has to be removed.
fn begin(store: &S3Store, upload: &BucketUpload, path: &str, reporter: &dyn Reporter) -> Result<String, Stop> {
    let request = Request::new(Method::Post, path)
        .query("uploads", "")
        .headers(media::headers(&upload.key))
        .header("x-amz-checksum-algorithm", "SHA256")
        .header(OBJECT_SHA256, hexadecimal(&upload.sha256));
    let end: Cell<Option<Instant>> = Cell::new(None);
    let reply = store.client.send_while(request, &|| {
        let Err(stop) = store.client.check() else { return Ok(()) };
        let last = end.get().unwrap_or_else(|| Instant::now() + TIDYING);
        end.set(Some(last));
        within(last).map_err(|_| {
            warn_of_parts(store, upload, reporter);
            stop
        })
    })?;
    let begun: Result<BegunUpload, _> = quick_xml::de::from_reader(&*reply.body);
    Ok(begun.map_err(|_| BucketFault::Other("the server names no upload".to_owned()))?.id)
}

fn warn_of_parts(store: &S3Store, upload: &BucketUpload, reporter: &dyn Reporter) {
    reporter.warn(&format!("parts of `{}` may be left in the bucket", store.shown(&upload.key)));
}

struct PartReceipt {
    etag: String,
    /// SHA-256 in base64.
    sha256: String,
}

/// An upload that the server has begun.
struct Parts<'a> {
    store: &'a S3Store,
    upload: &'a BucketUpload,
    path: &'a str,
    /// Its number on the server.
    id: &'a str,
}

/// The part that is read next, with the hash of those before it.
struct NextPart {
    number: u64,
    hasher: Sha256,
    /// No more parts are sent.
    failure: Option<PartFailure>,
}

enum PartFailure {
    Read(io::Error),
    Send(Stop),
}

impl Parts<'_> {
    /// Sends the file. Parts are read and hashed in order, and sent in any order.
    fn send(&self, reporter: &dyn Reporter) -> Result<Vec<PartReceipt>, Error> {
        let upload = self.upload;
        let file = fs_err::File::open(&upload.path).map_err(Error::read(&upload.path))?;
        let length = PART.max(upload.size.div_ceil(MOST));
        let next = Mutex::new(NextPart { number: 0, hasher: Sha256::new(), failure: None });
        let receipts: Mutex<Vec<(u64, PartReceipt)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..PARALLEL {
                scope.spawn(|| {
                    loop {
                        // Others read while this part is sent.
                        let part = guard(&next).read(&file, upload.size, length);
                        let Some((number, bytes)) = part else { break };
                        let size = bytes.len() as u64;
                        match self.send_part(number, bytes) {
                            Ok(receipt) => guard(&receipts).push((number, receipt)),
                            Err(stop) => {
                                guard(&next).failure.get_or_insert(PartFailure::Send(stop));
                            }
                        }
                        reporter.advance(size);
                    }
                });
            }
        });
        let NextPart { hasher, failure, .. } = next.into_inner().unwrap_or_else(PoisonError::into_inner);
        match failure {
            Some(PartFailure::Read(source)) => return Err(Error::Read { path: upload.path.clone(), source }),
            Some(PartFailure::Send(stop)) => return Err(stop.error(self.attempted())),
            None => {}
        }
        if hasher.finish() != upload.sha256 {
            return Err(changed_here(upload));
        }
        let mut receipts = receipts.into_inner().unwrap_or_else(PoisonError::into_inner);
        receipts.sort_unstable_by_key(|(number, _)| *number);
        Ok(receipts.into_iter().map(|(_, receipt)| receipt).collect())
    }

    fn attempted(&self) -> String {
        format!("upload `{}`", self.store.shown(&self.upload.key))
    }

    fn send_part(&self, number: u64, bytes: Bytes) -> Result<PartReceipt, Stop> {
        let sha256 = STANDARD.encode(sha256(&bytes));
        let request = Request::new(Method::Put, self.path)
            .query("partNumber", number.to_string())
            .query("uploadId", self.id)
            .header(BODY_SHA256, &sha256)
            .body(bytes);
        let etag = self.store.client.send(request)?.etag();
        let etag = etag.ok_or_else(|| BucketFault::Other("the server has no ETag for a part".to_owned()))?;
        Ok(PartReceipt { etag, sha256 })
    }

    /// Makes the object of the parts.
    fn complete(&self, receipts: &[PartReceipt]) -> Result<Completed, Error> {
        let mut body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
        for (index, PartReceipt { etag, sha256 }) in receipts.iter().enumerate() {
            body += &format!(
                "<Part><PartNumber>{}</PartNumber><ETag>{}</ETag><ChecksumSHA256>{sha256}</ChecksumSHA256></Part>",
                index + 1,
                escape(etag)
            );
        }
        body += "</CompleteMultipartUpload>";
        let mut request = Request::new(Method::Post, self.path)
            .query("uploadId", self.id)
            .header("content-type", "application/xml")
            .body(body)
            .answered_by(&[StatusCode::PRECONDITION_FAILED, StatusCode::CONFLICT, StatusCode::NOT_FOUND]);
        if self.upload.state != UploadState::Replaced {
            request = request.header("if-none-match", "*");
        }
        Ok(match self.store.change(self.attempted(), request)?.status {
            StatusCode::CONFLICT => Completed::Disturbed,
            // No such upload: it was completed already, and the answer was lost.
            StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND => Completed::Exists,
            _ => Completed::Done,
        })
    }

    /// Removes what the server has of the upload, and returns `false` if some of it may be left. A
    /// bucket keeps parts, and its owner pays for them, until they are removed.
    fn remove(&self) -> bool {
        let request = Request::new(Method::Delete, self.path).query("uploadId", self.id);
        self.store.client.finish(TIDYING, request.answered_by(&[StatusCode::NOT_FOUND])).is_ok()
    }
}

impl NextPart {
    /// The number, from 1, and the bytes of the next part; `None` after the last one or a failure.
    fn read(&mut self, file: &fs_err::File, size: u64, length: u64) -> Option<(u64, Bytes)> {
        let start = self.number * length;
        if self.failure.is_some() || start >= size {
            return None;
        }
        let mut bytes = vec![0; length.min(size - start) as usize];
        if let Err(error) = ReadAt::read_exact_at(file.file(), start, &mut bytes) {
            self.failure = Some(PartFailure::Read(error));
            return None;
        }
        self.hasher.update(&bytes);
        self.number += 1;
        Some((self.number, bytes.into()))
    }
}

fn guard<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
