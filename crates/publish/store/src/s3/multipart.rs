//! Input: a large file. Output: an object made of parts that were uploaded at the same time, or no
//! trace of them.

use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::header::ETAG;
use http::{Method, StatusCode};
use object_store::path::Path;
use object_store::{MultipartId, PutMultipartOptions, multipart::MultipartStore as _};
use positioned_io::ReadAt;
use rocwheel_content::{Sha256, hexadecimal, sha256};
use rocwheel_progress::Reporter;

use super::bucket_upload::{BucketUpload, UploadState, changed_here, other_bytes};
use super::client::{CHECKSUM, Stop};
use super::{S3Store, Special, media};
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
    let attempted = || format!("upload `{}`", store.shown(&upload.key));
    let (path, client) = (store.path(&upload.key)?, &store.client);
    let mut options = PutMultipartOptions { attributes: media::attributes(&upload.key), ..Default::default() };
    options.attributes.insert(CHECKSUM, hexadecimal(&upload.sha256).into());
    let mut begin = pin!(async { Ok::<_, BucketFault>(client.store.create_multipart_opts(&path, options).await?) });
    let id = match client.wait(begin.as_mut()) {
        Ok(id) => id,
        Err(stop) => {
            // The server may have begun it, and only its answer says what has to be removed.
            if let Stop::Interrupted(_) = stop {
                let is_gone = match client.finish(TIDYING, begin) {
                    Some(Ok(id)) => remove_parts(store, &path, &id),
                    Some(Err(_)) => true,
                    None => false,
                };
                if !is_gone {
                    warn_of_parts(store, upload, reporter);
                }
            }
            return Err(stop.error(attempted()));
        }
    };
    let completed = parts(store, upload, (&path, &id), reporter)
        .and_then(|parts| store.change(attempted(), complete(store, upload, (&path, &id), &parts)));
    if let Err(Error::Bucket { .. }) = &completed
        && let Ok(Some(head)) = store.head(&upload.key)
        && head.sha256 == Some(upload.sha256)
    {
        // It was completed, the answer was lost, and the server has forgotten the upload.
        return Ok(Completed::Done);
    }
    if !matches!(completed, Ok(Completed::Done)) && !remove_parts(store, &path, &id) && completed.is_err() {
        warn_of_parts(store, upload, reporter);
    }
    completed
}

/// Removes what the server has of an upload, and returns `false` if some of it may be left. A
/// bucket keeps parts, and its owner pays for them, until they are removed.
fn remove_parts(store: &S3Store, path: &Path, id: &MultipartId) -> bool {
    let client = &store.client;
    let removed = client.finish(TIDYING, client.store.abort_multipart(path, id));
    matches!(removed, Some(Ok(()) | Err(object_store::Error::NotFound { .. })))
}

fn warn_of_parts(store: &S3Store, upload: &BucketUpload, reporter: &dyn Reporter) {
    reporter.warn(&format!("parts of `{}` may be left in the bucket", store.shown(&upload.key)));
}

struct PartReceipt {
    etag: String,
    /// SHA-256 in base64.
    sha256: String,
}

fn parts(
    store: &S3Store,
    upload: &BucketUpload,
    (path, id): (&Path, &str),
    reporter: &dyn Reporter,
) -> Result<Vec<PartReceipt>, Error> {
    let unread = |source| Error::Read { path: upload.path.clone(), source };
    let file = fs_err::File::open(&upload.path).map_err(unread)?;
    let length = PART.max(upload.size.div_ceil(MOST));
    let mut hasher = Sha256::new();
    let read = |number: u64| {
        let start = number * length;
        let mut bytes = vec![0; length.min(upload.size - start) as usize];
        ReadAt::read_exact_at(file.file(), start, &mut bytes)?;
        hasher.update(&bytes);
        Ok((number + 1, Bytes::from(bytes)))
    };
    // Read and hashed in order, here; sent in any order.
    let mut failure = None;
    let windows = (0..upload.size.div_ceil(length)).map(read).map_while(|window| match window {
        Ok(window) => Some(window),
        Err(error) => {
            failure = Some(error);
            None
        }
    });
    let sent = stream::iter(windows).map(|(number, bytes)| async move {
        let size = bytes.len() as u64;
        let receipt = send_part(store, path, id, (number, bytes)).await?;
        reporter.advance(size);
        Ok(receipt)
    });
    let receipts = store.client.wait(sent.buffered(PARALLEL).try_collect::<Vec<_>>());
    if let Some(error) = failure {
        return Err(unread(error));
    }
    let receipts = receipts.map_err(|stop| stop.error(format!("upload `{}`", store.shown(&upload.key))))?;
    if hasher.finish() == upload.sha256 { Ok(receipts) } else { Err(changed_here(upload)) }
}

async fn send_part(
    store: &S3Store,
    path: &Path,
    id: &str,
    (number, bytes): (u64, Bytes),
) -> Result<PartReceipt, BucketFault> {
    let sha256 = STANDARD.encode(sha256(&bytes));
    let special = Special {
        method: Method::PUT,
        query: format!("partNumber={number}&{}", query(id)),
        headers: vec![("x-amz-checksum-sha256", sha256.clone())],
        body: bytes,
        answers: &[],
    };
    let (_, headers, _) = store.client.send(path, &special).await?;
    let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
    let etag = etag.ok_or_else(|| BucketFault::Other("the server has no ETag for a part".to_owned()))?;
    Ok(PartReceipt { etag, sha256 })
}

/// `object_store` completes an upload whatever the bucket has under its key.
async fn complete(
    store: &S3Store,
    upload: &BucketUpload,
    (path, id): (&Path, &str),
    parts: &[PartReceipt],
) -> Result<Completed, BucketFault> {
    let mut body = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">".to_owned();
    for (index, part) in parts.iter().enumerate() {
        let (etag, sha256) = (part.etag.replace('&', "&amp;").replace('<', "&lt;"), &part.sha256);
        body += &format!(
            "<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag><ChecksumSHA256>{sha256}</ChecksumSHA256></Part>",
            index + 1
        );
    }
    body += "</CompleteMultipartUpload>";
    let mut headers = vec![("content-type", "application/xml".to_owned())];
    if upload.state != UploadState::Replaced {
        headers.push(("if-none-match", "*".to_owned()));
    }
    let special = Special {
        method: Method::POST,
        query: query(id),
        headers,
        body: body.into(),
        answers: &[StatusCode::PRECONDITION_FAILED, StatusCode::CONFLICT, StatusCode::NOT_FOUND],
    };
    let (status, ..) = store.client.send(path, &special).await?;
    Ok(match status {
        StatusCode::CONFLICT => Completed::Disturbed,
        // No such upload: it was completed already, and the answer was lost.
        StatusCode::PRECONDITION_FAILED | StatusCode::NOT_FOUND => Completed::Exists,
        _ => Completed::Done,
    })
}

fn query(id: &str) -> String {
    format!("uploadId={}", percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC))
}
