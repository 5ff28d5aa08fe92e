//! Input: the address of a stream, and public keys of its publisher. Output: its newest wheels with
//! the records of how they were packed, for machines that have no records of their own.
//!
//! The record is `WHEEL.packing` beside the wheel, and the signed snapshot has its SHA-256. So the
//! publisher vouches for the packer, which the bytes of a wheel cannot tell. Everything else that a
//! record says is compared with the bytes when they are used ([`rocwheel_archive::PackedSource`]).
//! A snapshot that expired is not trusted, as in [`verify_stream`](crate::verify_stream).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use rayon::prelude::*;
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_delta::{Error as DeltaError, RemoteFile};
use rocwheel_index::companion::PACKING;
use rocwheel_index::pages::encoded_segment;
use rocwheel_index::{Fetch, address_without_user};
use rocwheel_progress::{Exit, Reporter};
use rocwheel_store::attempts::{TransferFault, with_connections};
use rocwheel_wheel::WheelNameParts;
use url::Url;

use super::manifest::{SnapshotFile, SnapshotManifest, StreamHead};
use super::{HEAD, PublicKey, SNAPSHOT_TYPE, SignedEnvelope, StreamFault, snapshot_key};
use crate::error::Error;

/// Limit in bytes for a snapshot or a record. A record has 150 bytes for each 4 MiB of a library.
const LIMIT: u64 = 256 << 20;

/// A stream whose last snapshot has a signature of a known key.
#[derive(Debug)]
pub struct RecordedStream {
    /// All its wheels, sorted by address.
    pub wheels: Vec<StreamWheel>,
    /// Why some records cannot be used, one text for each: they are missing or have other bytes.
    pub damaged: Vec<String>,
    /// Why no record counts, if the snapshot expired.
    pub expired: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamWheel {
    pub address: Url,
    /// Its size in bytes.
    pub size: u64,
    /// The record, as `rocwheel_archive::PackedSource::record_of` made it; only of the newest
    /// wheel of each project and tag, if that was published with a record.
    pub record: Option<Vec<u8>>,
}

/// Reads the stream at `root`, an address that ends in `/`. Returns `None` if no stream is there.
/// A snapshot that expired before `now` has wheels, and no records.
///
/// # Errors
/// [`rocwheel_delta::Error::Get`] for a snapshot that none of `keys` has signed, and for documents
/// that cannot be read; [`Error::Stream`] for those that are damaged or do not fit together.
pub fn read_recorded(
    (fetch, root): (&dyn Fetch, &Url),
    (keys, now): (&[PublicKey], Timestamp),
    reporter: &dyn Reporter,
) -> Result<Option<RecordedStream>, Error> {
    let site = StreamDocuments { fetch, root, reporter, is_given_up: AtomicBool::new(false) };
    let Some(head) = site.read(HEAD)? else { return Ok(None) };
    let head = StreamHead::parse(&head, &site.shown(HEAD))?;
    let key = snapshot_key(head.generation);
    let name = site.shown(&key);
    let bytes = site.read(&key)?.ok_or_else(|| StreamFault::Missing { name: name.clone() })?;
    if hexadecimal(&sha256(&bytes)) != head.sha256 {
        return Err(StreamFault::Altered { name }.into());
    }
    let (envelope, payload) = SignedEnvelope::parse(&bytes, &name, SNAPSHOT_TYPE).map_err(StreamFault::from)?;
    if envelope.signers(&payload, keys).is_empty() {
        return Err(DeltaError::Get {
            attempted: format!("trust `{name}`"),
            reason: match envelope.signatures().len() {
                0 => "it has no signature".to_owned(),
                _ => "none of its signatures is of a key that was given".to_owned(),
            },
            hint: "give the public key of the stream's publisher; without a key, only wheels that this machine packed are reused"
                .to_owned(),
            exit: Exit::Failed,
        }
        .into());
    }
    site.wheels(&SnapshotManifest::parse(&payload, &name)?, now).map(Some)
}

/// The documents of a stream, wherever it is.
struct StreamDocuments<'a> {
    fetch: &'a dyn Fetch,
    root: &'a Url,
    reporter: &'a dyn Reporter,
    /// `true` after a record could not be read: a server that stalls would cost a minute for each.
    is_given_up: AtomicBool,
}

impl StreamDocuments<'_> {
    /// A file of the stream, for messages.
    fn shown(&self, key: &str) -> String {
        format!("{}{key}", address_without_user(self.root))
    }

    fn address(&self, key: &str) -> Result<Url, Error> {
        let segments: Vec<String> = key.split('/').map(encoded_segment).collect();
        self.root.join(&segments.join("/")).map_err(|error| {
            let (name, reason) = (self.shown(key), error.to_string());
            StreamFault::Snapshot { name, reason }.into()
        })
    }

    /// Requests a file; `None` if there is none. The inner error is why it cannot be read.
    fn request(&self, key: &str) -> Result<Result<Option<Vec<u8>>, TransferFault>, Error> {
        let (address, transferred) = (self.address(key)?, AtomicU64::new(0));
        let (fetch, reporter) = (self.fetch, self.reporter);
        Ok(RemoteFile { fetch, address: &address, transferred: &transferred, reporter }.small(LIMIT)?)
    }

    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let read = self.request(key)?.map_err(|fault| DeltaError::Get {
            attempted: format!("read `{}` for earlier wheels", self.shown(key)),
            reason: fault.to_string(),
            hint: fault
                .hint()
                .unwrap_or("try again, or leave the stream out: everything is compressed then")
                .to_owned(),
            exit: fault.exit(),
        })?;
        Ok(read)
    }

    fn wheels(&self, manifest: &SnapshotManifest, now: Timestamp) -> Result<RecordedStream, Error> {
        let expired = manifest.expiry(now);
        let wheels: Vec<(&String, &SnapshotFile)> =
            manifest.files.iter().filter(|(key, _)| WheelNameParts::parse(file_name(key)).is_ok()).collect();
        let mut newest: BTreeMap<(&str, [&str; 3]), Timestamp> = BTreeMap::new();
        for (key, file) in &wheels {
            let time = newest.entry(kind(key)).or_insert(file.uploaded);
            *time = file.uploaded.max(*time);
        }
        let read = wheels.par_iter().map(|(key, file)| {
            self.reporter.check()?;
            let is_newest = newest.get(&kind(key)) == Some(&file.uploaded);
            let is_read = is_newest && expired.is_none() && !self.is_given_up.load(Ordering::Acquire);
            let record = match file.packing_sha256.as_ref().filter(|_| is_read) {
                Some(expected) => self.record(&format!("{key}{PACKING}"), expected)?.map(Some),
                None => Ok(None),
            };
            let (record, damage) = record.map_or_else(|reason| (None, Some(reason)), |record| (record, None));
            Ok((StreamWheel { address: self.address(key)?, size: file.size, record }, damage))
        });
        let all = with_connections(|| read.collect::<Result<Vec<_>, Error>>())?;
        let (wheels, damaged): (Vec<StreamWheel>, Vec<Option<String>>) = all.into_iter().unzip();
        Ok(RecordedStream { wheels, damaged: damaged.into_iter().flatten().collect(), expired })
    }

    /// A record; the inner error is why it cannot be used.
    fn record(&self, key: &str, expected: &str) -> Result<Result<Vec<u8>, String>, Error> {
        Ok(match self.request(key)? {
            Ok(Some(bytes)) if hexadecimal(&sha256(&bytes)) == expected => Ok(bytes),
            Ok(Some(_)) => Err(format!("`{key}` is not the record that the snapshot names")),
            Ok(None) => Err(format!("`{key}` is missing")),
            Err(fault) => {
                self.is_given_up.store(true, Ordering::Release);
                Err(format!("`{key}` cannot be read, and no other is requested: {fault}"))
            }
        })
    }
}

/// The project and the tags of a wheel. Wheels for other systems are published at other times.
fn kind(key: &str) -> (&str, [&str; 3]) {
    let tags = WheelNameParts::parse(file_name(key)).map_or_else(|_| Default::default(), |parts| parts.tags);
    (parent(key), tags)
}
