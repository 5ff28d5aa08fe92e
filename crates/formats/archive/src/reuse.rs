//! Input: wheels of earlier runs, and the records of how this program packed them. Output: the
//! packed form of a content that one of them has, so that it is not compressed again.
//!
//! A piece, that is a small member or a 4 MiB chunk of a large one, is found by the BLAKE3 hash of
//! its content. The record says what this packer made of that content: bytes with another BLAKE3
//! hash, which are compared with those in the wheel. So the result has the bytes of a run without
//! this source, whatever happened to the wheels, as long as the record is true; with
//! [`PackedSource::verify`] the packed bytes are unpacked as well, and compared with the content. A
//! wheel without a record is not used, because its packer is not known, and the record of another
//! machine only if the caller trusts it.

mod record;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use fs_err as fs;
use positioned_io::ReadAt;
use rocwheel_content::{Digest, Reader, SharedFile};
use rocwheel_progress::Reporter;

use crate::write::{CHUNK, Place, unpack_part};
use crate::written::Written;
pub use record::SearchedMembers;
pub(crate) use record::{PackedMember, PackedPiece, PackingRecord};
use record::{RecordFolder, WheelIdentity};

/// A wheel whose compressed members have fewer bytes in all, before compression, is not recorded:
/// it is compressed in less time than a record takes.
const WORTHWHILE: u64 = 1 << 20;
/// Packed bytes of earlier wheels. Clones share them. The default has none, and remembers nothing.
#[derive(Clone, Default)]
pub struct PackedSource(Option<Arc<Shared>>);

struct Shared {
    records: RecordFolder,
    /// Wheels that were not looked at yet: most runs write nothing and need none of them.
    waiting: Mutex<Vec<EarlierWheel>>,
    /// The same, with records of other machines.
    recorded: Mutex<Vec<(EarlierWheel, PackingRecord)>>,
    known: RwLock<Known>,
    reused: AtomicU64,
    /// The text that the writer looks for in new members; set once.
    sought: OnceLock<String>,
    /// `true` if packed bytes are unpacked and compared before they are used.
    verifies: AtomicBool,
    /// `true` after a record could not be written: one warning is enough.
    has_warned: AtomicBool,
}

pub struct EarlierWheel {
    /// Size of the wheel in bytes.
    pub size: u64,
    /// Its bytes; opened each time when they are on this machine, since there may be thousands.
    bytes: EarlierBytes,
}

enum EarlierBytes {
    File(PathBuf),
    Reader(Reader),
}

impl EarlierWheel {
    pub fn at(path: &Path) -> Option<EarlierWheel> {
        let metadata = fs::metadata(path).ok()?;
        let bytes = EarlierBytes::File(path.to_owned());
        metadata.is_file().then(|| EarlierWheel { size: metadata.len(), bytes })
    }

    /// A wheel of `size` bytes that is elsewhere.
    pub fn remote(reader: Reader, size: u64) -> EarlierWheel {
        EarlierWheel { size, bytes: EarlierBytes::Reader(reader) }
    }

    fn with_reader<T>(&self, read: impl FnOnce(&dyn ReadAt) -> std::io::Result<T>) -> std::io::Result<T> {
        match &self.bytes {
            EarlierBytes::File(path) => read(fs::File::open(path)?.file()),
            EarlierBytes::Reader(reader) => read(&**reader),
        }
    }
}

/// Where a record was made: only this machine's records are trusted for the SHA-256 of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordOrigin {
    /// On this machine: equal content is not hashed again.
    Own,
    /// On another machine: all content is hashed.
    Other,
}

#[derive(Default)]
struct Known {
    pieces: HashMap<PieceKey, Piece>,
    /// Large members by the last part of their name and their size.
    members: HashMap<(String, u64), Vec<Arc<KnownMember>>>,
}

/// All that the packed bytes of a piece depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PieceKey {
    /// The library's number of the compression level.
    pub(crate) level: u8,
    /// BLAKE3 hash of the bytes before compression.
    pub(crate) content: [u8; 32],
    /// Bytes before compression.
    pub(crate) size: usize,
    pub(crate) place: Place,
}

#[derive(Clone)]
struct Piece {
    wheel: Arc<EarlierWheel>,
    offset: u64,
    length: u32,
    blake3: [u8; 32],
    /// Hash of the member if the piece is all of it, and the record is our own.
    sha256: Option<Digest>,
}

/// A member of several chunks.
pub(crate) struct KnownMember {
    /// Hash of the bytes before compression.
    pub(crate) sha256: Digest,
    pieces: Vec<(PieceKey, Piece)>,
}

impl KnownMember {
    /// `true` if the chunk with this number has this key.
    pub(crate) fn has(&self, number: usize, key: PieceKey) -> bool {
        self.pieces.get(number).is_some_and(|(known, _)| *known == key)
    }
}

pub(crate) struct Found {
    /// Hash of the packed bytes.
    pub(crate) blake3: [u8; 32],
    /// Hash of the content if it is a whole member.
    pub(crate) sha256: Option<Digest>,
}

impl fmt::Debug for PackedSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PackedSource").field(&self.0.as_ref().map(|shared| &shared.records)).finish()
    }
}

impl PackedSource {
    /// A source that reads and writes records in the folder `records`, which need not exist.
    pub fn new(records: PathBuf) -> PackedSource {
        PackedSource(Some(Arc::new(Shared {
            records: RecordFolder::new(records),
            waiting: Mutex::default(),
            recorded: Mutex::default(),
            known: RwLock::default(),
            reused: AtomicU64::new(0),
            sought: OnceLock::new(),
            verifies: AtomicBool::new(false),
            has_warned: AtomicBool::new(false),
        })))
    }

    /// `true` if wheels are recorded and may be reused.
    pub(crate) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// Lets the writer search every new member for a text, so that the record of the wheel says
    /// which members have it. Only the first call counts.
    pub fn search_for(&self, text: &str) {
        if let Some(shared) = &self.0 {
            shared.sought.get_or_init(|| text.to_owned());
        }
    }

    /// The text that the writer looks for in new members.
    pub(crate) fn sought(&self) -> Option<&str> {
        Some(self.0.as_ref()?.sought.get()?.as_str()).filter(|text| !text.is_empty())
    }

    /// Which members of an open wheel have the text that the packer searched for, if this machine
    /// packed it. The wheel is the recorded one only if its SHA-256 is.
    pub fn searched(&self, wheel: &SharedFile) -> Option<SearchedMembers> {
        self.record(wheel)?.searched
    }

    /// Unpacks what is reused, and compares it with the content, as if records could lie.
    pub fn verify(&self) {
        if let Some(shared) = &self.0 {
            shared.verifies.store(true, Ordering::Relaxed);
        }
    }

    pub fn add(&self, wheel: EarlierWheel) {
        if let Some(shared) = &self.0 {
            shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(wheel);
        }
    }

    /// Number of bytes, before compression, that were not compressed because their packed form was
    /// known.
    pub fn reused(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.reused.load(Ordering::Relaxed))
    }

    /// The sizes in bytes of all recorded wheels; no other is worth a look.
    pub fn recorded_sizes(&self) -> HashSet<u64> {
        self.0.as_ref().map(|shared| shared.records.sizes()).unwrap_or_default()
    }

    /// Looks up the records of the wheels that were added since the last call. A wheel that cannot
    /// be read, or has no record, has nothing to reuse.
    pub(crate) fn look_up(&self) {
        let Some(shared) = &self.0 else { return };
        let waiting = std::mem::take(&mut *shared.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        // Most wheels of a large index were packed elsewhere, and need not even be opened.
        let sizes = if waiting.is_empty() { HashSet::new() } else { shared.records.sizes() };
        for wheel in waiting.into_iter().filter(|wheel| sizes.contains(&wheel.size)) {
            let name = wheel.with_reader(|reader| WheelIdentity::of(reader, wheel.size));
            if let Some(record) = name.ok().and_then(|name| shared.records.read(&name)) {
                shared.learn(&Arc::new(wheel), &record, RecordOrigin::Own);
            }
        }
        // Of equal pieces the first one counts: those of this machine need no transfer.
        let recorded = std::mem::take(&mut *shared.recorded.lock().unwrap_or_else(PoisonError::into_inner));
        for (wheel, record) in recorded {
            shared.learn(&Arc::new(wheel), &record, RecordOrigin::Other);
        }
    }

    /// Adds a wheel with a record of another machine, as [`PackedSource::record_of`] returned it.
    /// The caller trusts its author to say what the packer made of which content.
    ///
    /// Returns `false` for a record that is damaged, or of another packer; then nothing is added.
    pub fn add_recorded(&self, wheel: EarlierWheel, record: &[u8]) -> bool {
        let Some(record) = PackingRecord::from_bytes(record) else { return false };
        if let Some(shared) = &self.0 {
            shared.recorded.lock().unwrap_or_else(PoisonError::into_inner).push((wheel, record));
        }
        true
    }

    /// The record that this machine has of the wheel at `path`, for other machines; `None` if there
    /// is none.
    pub fn record_of(&self, path: &Path) -> Option<Vec<u8>> {
        let shared = self.0.as_ref()?;
        let wheel = EarlierWheel::at(path)?;
        let name = wheel.with_reader(|reader| WheelIdentity::of(reader, wheel.size)).ok()?;
        Some(shared.records.read(&name)?.to_bytes())
    }

    /// How the members of an open wheel were packed, as far as this machine knows.
    pub(crate) fn packing_of(&self, wheel: &SharedFile) -> Vec<PackedMember> {
        self.record(wheel).map(|record| record.members).unwrap_or_default()
    }

    fn record(&self, wheel: &SharedFile) -> Option<PackingRecord> {
        let shared = self.0.as_ref()?;
        let name = wheel.file().metadata().and_then(|metadata| WheelIdentity::of(wheel, metadata.len()));
        shared.records.read(&name.ok()?)
    }

    /// Records how a finished wheel was packed, for this run and later ones. A record that cannot
    /// be written is not an error: the wheel is complete without it.
    pub(crate) fn remember(
        &self,
        written: &Written,
        members: Vec<PackedMember>,
        searched: Option<SearchedMembers>,
        reporter: &dyn Reporter,
    ) {
        // Members that are stored are searched as well as packed ones.
        let size = if searched.is_some() { written.raw } else { members.iter().map(|member| member.size).sum() };
        let Some(shared) = self.0.as_ref().filter(|_| size >= WORTHWHILE) else { return };
        let record = PackingRecord::new(members, searched);
        // An open file is still the wheel when it has been moved to its destination.
        let opened = fs::File::open(&written.path).and_then(|file| {
            let size = file.metadata()?.len();
            Ok(EarlierWheel::remote(Box::new(file.into_parts().0), size))
        });
        let written = opened.and_then(|wheel| {
            let name = wheel.with_reader(|reader| WheelIdentity::of(reader, wheel.size))?;
            shared.learn(&Arc::new(wheel), &record, RecordOrigin::Own);
            shared.records.write(&name, &record)
        });
        if let Err(error) = written
            && !shared.has_warned.swap(true, Ordering::Relaxed)
        {
            reporter.warn(&format!(
                "cannot record in `{}` how wheels are packed, so later runs compress them again: {error}",
                shared.records.path().display()
            ));
        }
    }

    /// The members with this name and size, in any of the wheels.
    pub(crate) fn members(&self, name: &str, size: u64) -> Vec<Arc<KnownMember>> {
        let Some(shared) = &self.0 else { return Vec::new() };
        let known = shared.known.read().unwrap_or_else(PoisonError::into_inner);
        known.members.get(&(last_part(name).to_owned(), size)).cloned().unwrap_or_default()
    }

    /// Puts the packed form of `window` into `packed` if it is known. `scratch` is overwritten.
    pub(crate) fn find(
        &self,
        key: PieceKey,
        window: &[u8],
        packed: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Option<Found> {
        let shared = self.0.as_ref()?;
        let piece = shared.known.read().unwrap_or_else(PoisonError::into_inner).pieces.get(&key)?.clone();
        shared.read(&piece, (key.place, window), packed, scratch)
    }

    /// Like [`PackedSource::find`] for a chunk of a known member.
    pub(crate) fn find_in(
        &self,
        (member, number): (&KnownMember, usize),
        (key, window): (PieceKey, &[u8]),
        packed: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Option<Found> {
        let shared = self.0.as_ref()?;
        let (_, piece) = member.pieces.get(number).filter(|(known, _)| *known == key)?;
        shared.read(piece, (key.place, window), packed, scratch)
    }
}

impl Shared {
    /// Reads the packed bytes of a piece into `packed` if they are the recorded ones.
    fn read(
        &self,
        piece: &Piece,
        (place, window): (Place, &[u8]),
        packed: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
    ) -> Option<Found> {
        if !piece.read(packed) {
            return None;
        }
        if self.verifies.load(Ordering::Relaxed) {
            scratch.resize(window.len(), 0);
            if !unpack_part(packed, place, scratch) || scratch != window {
                return None;
            }
        }
        self.reused.fetch_add(window.len() as u64, Ordering::Relaxed);
        Some(Found { blake3: piece.blake3, sha256: piece.sha256 })
    }

    fn learn(&self, wheel: &Arc<EarlierWheel>, record: &PackingRecord, origin: RecordOrigin) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for member in &record.members {
            let count = member.size.div_ceil(CHUNK as u64) as usize;
            let is_large = member.size > CHUNK as u64;
            if member.pieces.len() != count {
                continue;
            }
            let mut pieces = Vec::new();
            for (number, piece) in member.pieces.iter().enumerate() {
                let start = number as u64 * CHUNK as u64;
                let size = (member.size - start).min(CHUNK as u64) as usize;
                let place = if number + 1 == count { Place::Last } else { Place::Inner };
                let key = PieceKey { level: piece.level, content: piece.content, size, place };
                let piece = Piece {
                    wheel: Arc::clone(wheel),
                    offset: piece.offset,
                    length: piece.length,
                    blake3: piece.blake3,
                    sha256: (!is_large && origin == RecordOrigin::Own).then_some(member.sha256),
                };
                // Equal files are in many wheels, and one of them is enough.
                known.pieces.entry(key).or_insert_with(|| piece.clone());
                pieces.push((key, piece));
            }
            if is_large && origin == RecordOrigin::Own {
                let name = (member.file_name.clone(), member.size);
                let same = known.members.entry(name).or_default();
                let is_known = same.iter().any(|known| {
                    known.sha256 == member.sha256 && pieces.first().is_some_and(|(key, _)| known.has(0, *key))
                });
                if !is_known {
                    same.push(Arc::new(KnownMember { sha256: member.sha256, pieces }));
                }
            }
        }
    }
}

impl Piece {
    /// Reads the packed bytes into `packed`. `true` if they are the recorded ones.
    fn read(&self, packed: &mut Vec<u8>) -> bool {
        let end = self.offset.checked_add(u64::from(self.length));
        if end.is_none_or(|end| end > self.wheel.size) || self.length as usize > CHUNK + CHUNK / 256 {
            return false;
        }
        packed.resize(self.length as usize, 0);
        let read = self.wheel.with_reader(|reader| reader.read_exact_at(self.offset, packed));
        read.is_ok() && *blake3::hash(packed).as_bytes() == self.blake3
    }
}

/// The last part of a member's name.
pub(crate) fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}
