//! Input: an object. Output: its bytes at random access, fetched in ranges.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use rocwheel_content::{Content, Reader};
use rusty_s3::Method;

use super::client::{Client, Request, Stop};
use crate::bucket_fault::BucketFault;
use crate::ranges::RangeReader;
use crate::store::StoredFile;

/// The bytes of an object, as it was when it was listed.
pub(super) struct S3Content {
    client: Arc<Client>,
    key: String,
    size: u64,
    etag: String,
}

impl S3Content {
    pub(super) fn new(client: Arc<Client>, key: String, file: &StoredFile) -> S3Content {
        S3Content { client, key, size: file.size, etag: file.stamp.clone() }
    }

    /// A range, and no more than that.
    pub(super) fn range(&self, range: Range<u64>) -> io::Result<Bytes> {
        fetch(&self.client, &self.key, &self.etag, range)
    }
}

impl Content for S3Content {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        let (client, key, etag) = (Arc::clone(&self.client), self.key.clone(), self.etag.clone());
        Ok(Box::new(RangeReader::new(self.size, move |range| fetch(&client, &key, &etag, range))))
    }
}

fn fetch(client: &Arc<Client>, key: &str, etag: &str, range: Range<u64>) -> io::Result<Bytes> {
    let bytes = format!("bytes={}-{}", range.start, range.end - 1);
    let mut request = Request::new(Method::Get, key).header("range", bytes);
    if super::is_etag(etag) {
        request = request.header("if-match", etag);
    }
    match client.send(request) {
        Ok(reply) if reply.status == StatusCode::PARTIAL_CONTENT => Ok(reply.body),
        Ok(_) => Err(io::Error::other(BucketFault::Other("the server sends no ranges".to_owned()))),
        // Not the kind `Interrupted`: that one means to try again.
        Err(Stop::Interrupted(interrupted)) => Err(io::Error::other(interrupted)),
        Err(Stop::Fault(fault @ BucketFault::Changed)) => Err(io::Error::new(io::ErrorKind::InvalidData, fault)),
        Err(Stop::Fault(fault)) => Err(io::Error::other(fault)),
        Err(Stop::Slow(slow)) => Err(slow),
    }
}
