//! Input: a store. Output: the [`Stream`] in it: a package index that only publications change,
//! with a signed manifest of each.
//!
//! A stream has TheRock's structured layout, a folder for each project, and `.release/`:
//!
//! | key | contents |
//! | --- | --- |
//! | `.release/head.json` | the number of the last publication and its snapshot |
//! | `.release/snapshots/NUMBER.json` | everything that was listed after it, signed |
//! | `.release/sets/NAME.json` | what was published together, once all of it can be installed |
//! | `.release/documents/SHA256.json` | descriptions of sets that snapshots refer to |
//! | `.release/statements/SHA256.json` | signed statements that descriptions of sets refer to |
//! | `.release/stream.toml` | the rules of the stream, by its owner |
//! | `.release/pending.json` | a publication that is under way, which the next publisher finishes |
//! | `.release/chooser.json` | what the page for people has of each project |
//!
//! Pages are made from the manifest and not from a listing, so a file that a killed publisher left
//! is on no page.

mod chooser_page;
mod dated;
mod fault;
mod gate_policy;
mod history;
mod manifest;
mod packing;
mod pages;
mod prune;
mod repair;
mod sets;
mod settings;
mod transition;
mod verify;
mod yank;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rocwheel_content::archive_path::join;
use rocwheel_content::{hexadecimal, sha256};
use rocwheel_progress::Reporter;

use crate::error::Error;
pub use dated::write_dated_index;
pub use fault::StreamFault;
pub use gate_policy::{GateBypass, GatePolicy, UntestedRule};
pub use history::{HistoryRow, history, roll_back};
pub use manifest::{SnapshotChanges, SnapshotFile, SnapshotManifest, StreamHead, UnlistedFile};
pub use packing::{RecordedStream, StreamWheel, read_recorded};
pub use pages::dependencies_first;
pub use prune::{PrunePlan, prune_stream};
pub use repair::SetParts;
use rocwheel_attest::{PublicKey, SignedEnvelope, SigningKey};
use rocwheel_pages::ChooserOptions;
use rocwheel_store::site::HTML;
use rocwheel_store::{Store, StoreLock, wait_for_lock};
pub use sets::{ReleaseSet, SetFile, is_name};
pub use settings::{InstallRule, Retention, StreamNotice, StreamSettings, VersionKind, patterns_of};
pub use transition::Transition;
pub use verify::{VerifiedStream, VerifyOptions, verify_stream};
pub use yank::{YankRequest, YankedFiles, yank};

/// The folder of everything that is neither a page nor a distribution.
const FOLDER: &str = ".release";
/// The payload type of a snapshot in its envelope.
pub const SNAPSHOT_TYPE: &str = "application/vnd.rocwheel.snapshot+json";
const HEAD: &str = ".release/head.json";
const SETTINGS: &str = ".release/stream.toml";
const PENDING: &str = ".release/pending.json";
/// The record of the page for people, below the folder of the stream.
pub const CHOOSER: &str = ".release/chooser.json";

fn snapshot_key(number: u64) -> String {
    format!("{FOLDER}/snapshots/{number}.json")
}

/// The key of a description of a set that never changes; `sets/NAME.json` is a copy of the last.
fn document_key(sha256: &str) -> String {
    format!("{FOLDER}/documents/{sha256}.json")
}

pub fn statement_key(sha256: &str) -> String {
    format!("{FOLDER}/statements/{sha256}.json")
}

pub fn set_key(name: &str) -> String {
    format!("{FOLDER}/sets/{name}.json")
}

/// Errors for a name that cannot be that of a stream's folder.
pub fn check_stream_name(name: &str) -> Result<(), StreamFault> {
    if name.split('/').all(sets::is_name) {
        Ok(())
    } else {
        Err(StreamFault::Name { what: "stream", name: name.to_owned() })
    }
}

pub fn refuse_stream(store: &dyn Store) -> Result<(), Error> {
    if is_stream_folder(store, "")? {
        return Err(StreamFault::IsStream { store: store.name() }.into());
    }
    Ok(())
}

struct InnerStreams<'a> {
    store: &'a dyn Store,
    /// `true` for folders that are streams; only folders that were asked for.
    known: BTreeMap<String, bool>,
}

impl<'a> InnerStreams<'a> {
    /// Streams below the top of a store.
    fn new(store: &'a dyn Store) -> InnerStreams<'a> {
        InnerStreams { store, known: BTreeMap::new() }
    }

    /// `true` if a key is in the folder of such a stream. Each folder is asked for once.
    fn have(&mut self, key: &str) -> Result<bool, Error> {
        for (end, _) in key.match_indices('/') {
            let folder = &key[..end];
            let is_stream = match self.known.get(folder) {
                Some(known) => *known,
                None => is_stream_folder(self.store, folder)?,
            };
            self.known.insert(folder.to_owned(), is_stream);
            if is_stream {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `true` if a folder of a store is a stream.
fn is_stream_folder(store: &dyn Store, folder: &str) -> Result<bool, Error> {
    Ok(store.read(&join(folder, HEAD))?.is_some())
}

/// What happens to a change without a key of a stream whose last snapshot is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsignedChange {
    /// It is refused: users who verify signatures would refuse the stream afterwards.
    #[default]
    Refuse,
    /// It is made, because the user said so.
    Accept,
}

/// What changes to a stream have in common.
#[derive(Debug)]
pub struct StreamChange<'a> {
    pub stream: &'a str,
    /// The time of the change.
    pub now: Timestamp,
    pub keys: &'a [SigningKey],
    /// What to do where there are none and the snapshot before is signed.
    pub unsigned: UnsignedChange,
    /// How long to wait for other publishers.
    pub patience: Duration,
    /// What the page for people shows beside the stream; `None` leaves the page as it is.
    pub chooser: Option<&'a ChooserOptions>,
    /// `false` for a dry run.
    pub write: bool,
}

/// The present state of a stream.
pub struct Stream<'a> {
    pub store: &'a dyn Store,
    /// What its owner wrote.
    pub settings: StreamSettings,
    /// Its head with the bytes of it; `None` before the first publication.
    head: Option<(StreamHead, Vec<u8>)>,
    pub manifest: SnapshotManifest,
    signers: BTreeSet<String>,
    /// [`StreamChange::chooser`] of the run that changes it.
    chooser: Option<ChooserOptions>,
}

impl<'a> Stream<'a> {
    /// Reads the state of a stream. `name` is what a stream is called that has no snapshot yet.
    pub fn read(store: &'a dyn Store, name: &str) -> Result<Stream<'a>, Error> {
        let settings = match store.read(SETTINGS)? {
            Some(bytes) => StreamSettings::parse(&String::from_utf8_lossy(&bytes), &join(&store.name(), SETTINGS))?,
            None => StreamSettings::default(),
        };
        let Some(bytes) = store.read(HEAD)? else {
            if store.read(HTML)?.is_some() && store.read(PENDING)?.is_none() {
                return Err(StreamFault::OtherIndex { store: store.name() }.into());
            }
            let (manifest, signers) = (SnapshotManifest::empty(name), BTreeSet::new());
            return Ok(Stream { store, settings, head: None, manifest, signers, chooser: None });
        };
        let head = StreamHead::parse(&bytes, &join(&store.name(), HEAD))?;
        let (manifest, envelope) = read_snapshot(store, head.generation, Some(&head.sha256))?;
        let signers = signers_of(&envelope);
        Ok(Stream { store, settings, head: Some((head, bytes)), manifest, signers, chooser: None })
    }

    /// Reads the state of a stream that has at least one publication.
    pub fn existing(store: &'a dyn Store, name: &str) -> Result<Stream<'a>, Error> {
        let stream = Stream::read(store, name)?;
        match stream.head {
            Some(_) => Ok(stream),
            None => Err(StreamFault::NoStream { store: store.name() }.into()),
        }
    }

    /// Keeps other publishers away, reads the state, and finishes what a killed publisher left.
    pub fn lock(
        store: &'a dyn Store,
        change: &StreamChange<'_>,
        reporter: &dyn Reporter,
    ) -> Result<(StoreLock, Stream<'a>), Error> {
        let lock = wait_for_lock(store, change.patience, reporter)?;
        let mut stream = Stream::read(store, change.stream)?;
        stream.chooser = change.chooser.cloned();
        stream.recover(reporter)?;
        stream.check_signed(change)?;
        let is_known = change.keys.iter().any(|key| stream.signers.contains(&key.public().id()));
        if !stream.signers.is_empty() && !change.keys.is_empty() && !is_known {
            reporter.warn(&format!(
                "no key that signed snapshot {} signs this change: users who verify with such a key will refuse the \
                 stream; sign with the old key and the new one until they have the new one",
                stream.manifest.number
            ));
        }
        Ok((lock, stream))
    }

    /// changes nothing.
    pub fn check_signed(&self, change: &StreamChange<'_>) -> Result<(), StreamFault> {
        let is_signed = self.signers.is_empty() || !change.keys.is_empty();
        if is_signed || !change.write || change.unsigned == UnsignedChange::Accept {
            return Ok(());
        }
        Err(StreamFault::Unsigned { number: self.manifest.number })
    }

    /// Signs the present state with keys that did not sign its last snapshot, as a new publication
    /// that changes no page: a publication without its key is repeated with it. The answer is the
    /// number of the new snapshot. The caller holds the lock.
    pub fn sign_again(&mut self, change: &StreamChange<'_>, reporter: &dyn Reporter) -> Result<Option<u64>, Error> {
        if change.keys.iter().all(|key| self.signers.contains(&key.public().id())) {
            return Ok(None);
        }
        let manifest = self.next(change, format!("sign what snapshot {} lists", self.manifest.number));
        // The page for people keeps the changes of the publication that is signed.
        self.chooser = None;
        self.commit(Transition { manifest, sets: BTreeMap::new() }, change.keys, reporter)?;
        Ok(Some(self.manifest.number))
    }

    fn head_sha256(&self) -> Option<String> {
        self.head.as_ref().map(|(head, _)| head.sha256.clone())
    }

    /// A manifest that begins as the present one, for the next publication.
    pub fn next(&self, change: &StreamChange<'_>, action: String) -> SnapshotManifest {
        let days = self.settings.expires_days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
        SnapshotManifest {
            number: self.manifest.number + 1,
            previous: self.head_sha256(),
            created: change.now,
            expires: days.and_then(|days| change.now.checked_add(days).ok()),
            action,
            notice: self.settings.deprecated.clone(),
            address: self
                .settings
                .address
                .as_ref()
                .map(|address| format!("{}/", address.as_str().trim_end_matches('/'))),
            views: self.settings.views.clone(),
            ..self.manifest.clone()
        }
    }

    pub fn set(&self, name: &str) -> Result<ReleaseSet, Error> {
        let Some(expected) = self.manifest.sets.get(name) else {
            return Err(StreamFault::Nothing { what: format!("set `{name}`") }.into());
        };
        self.document(name, expected)
    }

    fn document(&self, name: &str, expected: &str) -> Result<ReleaseSet, Error> {
        let key = document_key(expected);
        let shown = join(&self.store.name(), &key);
        let bytes = self.store.read(&key)?.ok_or_else(|| StreamFault::Missing { name: shown.clone() })?;
        let set = ReleaseSet::parse(&bytes, &shown)?;
        if hexadecimal(&sha256(&bytes)) != expected || set.name != name {
            return Err(StreamFault::Altered { name: shown }.into());
        }
        Ok(set)
    }

    /// The manifest of an earlier publication.
    pub fn snapshot(&self, number: u64) -> Result<SnapshotManifest, Error> {
        if number == self.manifest.number {
            return Ok(self.manifest.clone());
        }
        if number == 0 || number > self.manifest.number || self.store.read(&snapshot_key(number))?.is_none() {
            return Err(StreamFault::Nothing { what: format!("snapshot {number}") }.into());
        }
        Ok(read_snapshot(self.store, number, None)?.0)
    }
}

fn signers_of(envelope: &SignedEnvelope) -> BTreeSet<String> {
    envelope.signatures().iter().map(|one| one.keyid.clone()).collect()
}

/// Reads a snapshot. Its file has the SHA-256 `expected`, where that is known.
fn read_snapshot(
    store: &dyn Store,
    number: u64,
    expected: Option<&str>,
) -> Result<(SnapshotManifest, SignedEnvelope), Error> {
    let key = snapshot_key(number);
    let name = join(&store.name(), &key);
    let bytes = store.read(&key)?.ok_or_else(|| StreamFault::Missing { name: name.clone() })?;
    if expected.is_some_and(|expected| hexadecimal(&sha256(&bytes)) != expected) {
        return Err(StreamFault::Altered { name }.into());
    }
    let (envelope, payload) = SignedEnvelope::parse(&bytes, &name, SNAPSHOT_TYPE).map_err(StreamFault::from)?;
    let manifest = SnapshotManifest::parse(&payload, &name)?;
    if manifest.number != number {
        return Err(StreamFault::Altered { name }.into());
    }
    Ok((manifest, envelope))
}
