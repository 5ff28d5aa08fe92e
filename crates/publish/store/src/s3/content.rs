//! Input: an object. Output: its bytes at random access, fetched in ranges.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt as _;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _};
use rocwheel_content::{Content, Reader};
use rocwheel_index::Pace;

use super::client::{Client, Stop};
use crate::bucket_fault::BucketFault;
use crate::ranges::RangeReader;
use crate::store::StoredFile;

/// The bytes of an object, as it was when it was listed.
pub(super) struct S3Content {
    client: Arc<Client>,
    path: Path,
    size: u64,
    etag: String,
}

impl S3Content {
    pub(super) fn new(client: Arc<Client>, path: Path, file: &StoredFile) -> S3Content {
        S3Content { client, path, size: file.size, etag: file.stamp.clone() }
    }

    /// A range, and no more than that.
    pub(super) fn range(&self, range: Range<u64>) -> io::Result<Bytes> {
        fetch(&self.client, &self.path, &self.etag, range)
    }
}

impl Content for S3Content {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Reader> {
        let (client, path, etag) = (Arc::clone(&self.client), self.path.clone(), self.etag.clone());
        Ok(Box::new(RangeReader::new(self.size, move |range| fetch(&client, &path, &etag, range))))
    }
}

fn fetch(client: &Client, path: &Path, etag: &str, range: Range<u64>) -> io::Result<Bytes> {
    let if_match = super::is_etag(etag).then(|| etag.to_owned());
    let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), if_match, ..GetOptions::default() };
    let length = (range.end - range.start) as usize;
    let get = async {
        let mut parts = client.store.get_opts(path, options).await?.into_stream();
        let (mut bytes, mut pace) = (BytesMut::with_capacity(length), Pace::default());
        loop {
            let began = Instant::now();
            let Some(part) = parts.try_next().await? else { return Ok(Ok(bytes.freeze())) };
            if let Err(slow) = pace.note(began.elapsed(), part.len()) {
                return Ok(Err(slow));
            }
            bytes.extend_from_slice(&part);
        }
    };
    client.wait(get).map_err(|stop| match stop {
        // Not the kind `Interrupted`: that one means to try again.
        Stop::Interrupted(interrupted) => io::Error::other(interrupted),
        Stop::Fault(fault @ BucketFault::Changed) => io::Error::new(io::ErrorKind::InvalidData, fault),
        Stop::Fault(fault) => io::Error::other(fault),
    })?
}
