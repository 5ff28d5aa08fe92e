//! Input: one unit of work, a run of small members or one chunk of a large one. Output: its bytes
//! in the form for the archive, with checksums. Each byte is read once: hash, checksum and
//! compression use the same window.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use libdeflater::Compressor;
use memchr::memmem;
use rocwheel_content::{Digest, Reader, Sha256, sha256};

use super::deflate::{self, CHUNK, Place};
use super::format::Method;
use super::{ZipSource, read_error};
use crate::Error;
use crate::level::Level;
use crate::reuse::{Found, KnownMember, PackedPiece, PackedSource, PieceKey};

/// Buffers and compressors for reuse: a fresh 4 MiB buffer costs a thousand page faults.
pub(super) struct Workshop {
    level: Level,
    reuse: PackedSource,
    buffers: Mutex<Vec<Vec<u8>>>,
    compressors: Mutex<BTreeMap<Level, Vec<Compressor>>>,
}

/// At [`Level::Small`] the bytes of a member after this position are packed at [`Level::Default`].
/// All of librocblas (450 MB) packed that way is as large as zlib makes it, in a tenth less time;
/// libLLVM (124 MB), packed that way in chunks, would be larger.
const FAR: u64 = 128 << 20;

impl Workshop {
    pub(super) fn new(level: Level, reuse: PackedSource) -> Workshop {
        Workshop { level, reuse, buffers: Mutex::default(), compressors: Mutex::default() }
    }

    fn buffer(&self) -> Vec<u8> {
        lock(&self.buffers).pop().unwrap_or_default()
    }

    /// The buffer keeps its length, so its bytes need not be cleared before they are overwritten.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        lock(&self.buffers).push(buffer);
    }

    /// The level for the bytes of a member from `start` on.
    fn level_at(&self, start: u64) -> Level {
        if self.level == Level::Small && start >= FAR { Level::Default } else { self.level }
    }

    /// Calls `use_it` with the compressor for the bytes of a member from `start` on; `None` if
    /// nothing is compressed.
    fn with_compressor<T>(&self, start: u64, use_it: impl FnOnce(&mut Compressor) -> T) -> Option<T> {
        let level = self.level_at(start);
        let pooled = lock(&self.compressors).entry(level).or_default().pop();
        let mut compressor = pooled.or_else(|| deflate::compressor(level))?;
        let result = use_it(&mut compressor);
        lock(&self.compressors).entry(level).or_default().push(compressor);
        Some(result)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code leaves the guarded data half-changed, so a panic of another thread does no harm.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) enum Unit<'a> {
    /// Members that together fit into one chunk, by index.
    Small(Range<usize>),
    /// A chunk of a member, with its number.
    Chunk(Arc<Large<'a>>, usize),
}

pub(super) enum Done<'a> {
    Small(Vec<Packed>),
    Chunk(Arc<Large<'a>>, Part),
}

/// A small member, ready to be written.
pub(super) struct Packed {
    pub(super) index: usize,
    pub(super) method: Method,
    pub(super) crc32: u32,
    pub(super) sha256: Digest,
    pub(super) data: Vec<u8>,
    /// `true` if it has the text that is searched for.
    pub(super) is_hit: bool,
    /// How it was packed, without its offset; `None` if it was not or is not recorded.
    pub(super) piece: Option<PackedPiece>,
}

/// A chunk of a large member, ready to be written.
pub(super) struct Part {
    /// The number of the chunk.
    pub(super) number: usize,
    pub(super) crc32: crc32fast::Hasher,
    pub(super) size: u64,
    data: PartData,
    /// `true` if the text that is searched for is in it, or between it and the part before.
    pub(super) is_hit: bool,
    /// How it was packed, without its offset; `None` if it was not or is not recorded.
    pub(super) piece: Option<PackedPiece>,
}

enum PartData {
    Deflated(Vec<u8>),
    Window(Arc<Vec<u8>>),
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.data {
            PartData::Deflated(bytes) => bytes,
            PartData::Window(bytes) => bytes,
        }
    }
}

impl Part {
    pub(super) fn give_back(self, workshop: &Workshop) {
        match self.data {
            PartData::Deflated(bytes) => workshop.give_back(bytes),
            PartData::Window(bytes) => workshop.take_back(bytes),
        }
    }
}

impl Workshop {
    /// Takes the window back if no other thread uses it any more.
    fn take_back(&self, window: Arc<Vec<u8>>) {
        if let Some(buffer) = Arc::into_inner(window) {
            self.give_back(buffer);
        }
    }
}

/// A member of more than one chunk. Its chunks are compressed in any order and hashed in theirs.
pub(super) struct Large<'a> {
    pub(super) index: usize,
    pub(super) method: Method,
    source: &'a ZipSource<'a>,
    reader: OnceLock<Reader>,
    opening: Mutex<()>,
    hash: Mutex<Hash>,
    /// Windows that have been read but not hashed.
    waiting: Mutex<BTreeMap<usize, Arc<Vec<u8>>>>,
    /// A member of an earlier wheel that may have the same bytes. Nothing is hashed then: if all
    /// chunks turn out to be equal, so is the hash.
    known: Option<Arc<KnownMember>>,
    /// `true` if a chunk differs from that of `known`.
    differs: AtomicBool,
}

struct Hash {
    context: Sha256,
    next: usize,
}

impl<'a> Large<'a> {
    pub(super) fn new(
        index: usize,
        source: &'a ZipSource<'a>,
        (method, known): (Method, Option<Arc<KnownMember>>),
    ) -> Large<'a> {
        Large {
            index,
            method,
            source,
            reader: OnceLock::new(),
            opening: Mutex::default(),
            hash: Mutex::new(Hash { context: Sha256::new(), next: 0 }),
            waiting: Mutex::default(),
            known,
            differs: AtomicBool::new(false),
        }
    }

    pub(super) fn chunks(size: u64) -> usize {
        size.div_ceil(CHUNK as u64) as usize
    }

    fn reader(&self) -> io::Result<&Reader> {
        let _guard = lock(&self.opening);
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = self.source.content.open()?;
        Ok(self.reader.get_or_init(|| reader))
    }

    /// Adds a window to be hashed. Then hashes all that are next, unless another thread does so
    /// already.
    fn hash(&self, workshop: &Workshop, number: usize, window: Arc<Vec<u8>>) {
        lock(&self.waiting).insert(number, window);
        loop {
            let Ok(mut hash) = self.hash.try_lock() else { return };
            self.hash_waiting(workshop, &mut hash);
            let next = hash.next;
            drop(hash);
            // Without this check, a window that another thread added after our last look, while the
            // hash was still locked, would never be hashed.
            if !lock(&self.waiting).contains_key(&next) {
                return;
            }
        }
    }

    fn hash_waiting(&self, workshop: &Workshop, hash: &mut Hash) {
        loop {
            let Some(window) = lock(&self.waiting).remove(&hash.next) else { return };
            hash.context.update(&window);
            hash.next += 1;
            workshop.take_back(window);
        }
    }

    /// The hash of the member. Call it when all chunks have been processed; `crc32` is the checksum
    /// of all of them.
    pub(super) fn digest(&self, workshop: &Workshop, crc32: u32) -> Result<Digest, Error> {
        match &self.known {
            None => {
                let mut hash = lock(&self.hash);
                self.hash_waiting(workshop, &mut hash);
                Ok(hash.context.clone().finish())
            }
            Some(known) if !self.differs.load(Ordering::Acquire) => Ok(known.sha256),
            Some(_) => self.hash_again(workshop, crc32),
        }
    }

    /// Reads the content once more, for a member that resembled an earlier one too much to be
    /// hashed at first.
    fn hash_again(&self, workshop: &Workshop, crc32: u32) -> Result<Digest, Error> {
        let (name, content) = (self.source.name, self.source.content);
        let (size, mut window) = (content.size(), workshop.buffer());
        let (mut sha256, mut again) = (Sha256::new(), crc32fast::Hasher::new());
        for start in (0..size).step_by(CHUNK) {
            window.resize((size - start).min(CHUNK as u64) as usize, 0);
            read(self.reader().map_err(read_error(name, content))?, self.source, start, &mut window)?;
            sha256.update(&window);
            again.update(&window);
        }
        workshop.give_back(window);
        if again.finalize() != crc32 {
            let source = io::Error::new(io::ErrorKind::InvalidData, "other bytes in a second reading");
            return Err(read_error(name, content)(source));
        }
        Ok(sha256.finish())
    }
}

pub(super) fn run<'a>(workshop: &Workshop, sources: &'a [ZipSource<'a>], unit: Unit<'a>) -> Result<Done<'a>, Error> {
    match unit {
        Unit::Small(range) => {
            range.map(|index| small(workshop, &sources[index], index)).collect::<Result<_, _>>().map(Done::Small)
        }
        Unit::Chunk(large, number) => {
            let part = chunk(workshop, &large, number)?;
            Ok(Done::Chunk(large, part))
        }
    }
}

fn small(workshop: &Workshop, source: &ZipSource<'_>, index: usize) -> Result<Packed, Error> {
    let size = source.content.size();
    let mut window = workshop.buffer();
    window.resize(size as usize, 0);
    let reader = source.content.open().map_err(read_error(source.name, source.content))?;
    read(&reader, source, 0, &mut window)?;
    drop(reader);
    let crc32 = crc32fast::hash(&window);
    let is_hit = workshop.is_hit(&window);
    let mut output = workshop.buffer();
    let key = if is_packed(source.name) { None } else { workshop.key(0, &window, Place::Last) };
    let found = key.and_then(|key| workshop.find(key, &window, &mut output)).filter(|_| output.len() < window.len());
    let digest = found.as_ref().and_then(|found| found.sha256).unwrap_or_else(|| sha256(&window));
    let deflated = if found.is_some() {
        Some(output.len())
    } else if key.is_none() {
        None
    } else {
        output.resize(window.len(), 0);
        let length = workshop.with_compressor(0, |compressor| compressor.deflate_compress(&window, &mut output).ok());
        length.flatten()
    };
    // Copies the bytes, so members that wait to be written hold no more memory than they need.
    let (method, data) = match deflated {
        Some(length) if length < window.len() => (Method::Deflated, output[..length].to_vec()),
        _ => (Method::Stored, window.as_slice().to_vec()),
    };
    workshop.give_back(window);
    workshop.give_back(output);
    let piece = key.filter(|_| method == Method::Deflated).and_then(|key| workshop.piece(key, found, &data));
    Ok(Packed { index, method, crc32, sha256: digest, data, is_hit, piece })
}

fn chunk(workshop: &Workshop, large: &Large<'_>, number: usize) -> Result<Part, Error> {
    let source = large.source;
    let size = source.content.size();
    let start = number as u64 * CHUNK as u64;
    let length = (size - start).min(CHUNK as u64) as usize;
    let mut window = workshop.buffer();
    window.resize(length, 0);
    let reader = large.reader().map_err(read_error(source.name, source.content))?;
    read(reader, source, start, &mut window)?;
    let mut crc32 = crc32fast::Hasher::new();
    crc32.update(&window);
    let is_hit = workshop.is_hit(&window) || workshop.is_across(reader, source, start, &window)?;
    let window = Arc::new(window);
    if large.known.is_none() {
        large.hash(workshop, number, Arc::clone(&window));
    }
    let mut output = workshop.buffer();
    let place = if start + length as u64 == size { Place::Last } else { Place::Inner };
    let key = (large.method == Method::Deflated).then(|| workshop.key(start, &window, place)).flatten();
    let Some(key) = key else {
        workshop.give_back(output);
        return Ok(Part { number, crc32, size: length as u64, data: PartData::Window(window), is_hit, piece: None });
    };
    let mut found = large.find(workshop, number, key, (&window, &mut output));
    if found.is_none() {
        found = workshop.find(key, &window, &mut output);
    }
    if found.is_none() {
        workshop.with_compressor(start, |compressor| deflate::part(compressor, &window, place, &mut output));
    }
    workshop.take_back(window);
    let piece = workshop.piece(key, found, &output);
    Ok(Part { number, crc32, size: length as u64, data: PartData::Deflated(output), is_hit, piece })
}

impl Workshop {
    /// The key of a piece that begins at `start`; `None` if nothing is compressed. It has no hash
    /// if nothing is recorded.
    fn key(&self, start: u64, window: &[u8], place: Place) -> Option<PieceKey> {
        let level = deflate::level_number(self.level_at(start))?;
        let content = if self.reuse.is_active() { *blake3::hash(window).as_bytes() } else { [0; 32] };
        Some(PieceKey { level, content, size: window.len(), place })
    }

    /// `true` if bytes have the text that is searched for.
    fn is_hit(&self, bytes: &[u8]) -> bool {
        self.reuse.sought().is_some_and(|text| memmem::find(bytes, text.as_bytes()).is_some())
    }

    /// `true` if the text begins in front of a window at `start`, and ends in it.
    fn is_across(&self, reader: &Reader, source: &ZipSource<'_>, start: u64, window: &[u8]) -> Result<bool, Error> {
        let overlap = self.reuse.sought().map_or(0, |text| text.len() - 1);
        if start == 0 || overlap == 0 {
            return Ok(false);
        }
        let mut edge = vec![0; overlap];
        reader.read_exact_at(start - overlap as u64, &mut edge).map_err(read_error(source.name, source.content))?;
        edge.extend_from_slice(&window[..overlap.min(window.len())]);
        Ok(self.is_hit(&edge))
    }

    /// Puts the packed form of `window` into `output` if an earlier wheel has it.
    fn find(&self, key: PieceKey, window: &[u8], output: &mut Vec<u8>) -> Option<Found> {
        if !self.reuse.is_active() {
            return None;
        }
        let mut scratch = self.buffer();
        let found = self.reuse.find(key, window, output, &mut scratch);
        self.give_back(scratch);
        found
    }

    /// The record of a piece; `None` if pieces are not recorded.
    fn piece(&self, key: PieceKey, found: Option<Found>, packed: &[u8]) -> Option<PackedPiece> {
        self.reuse.is_active().then(|| PackedPiece {
            level: key.level,
            content: key.content,
            offset: 0,
            length: packed.len() as u32,
            blake3: found.map_or_else(|| *blake3::hash(packed).as_bytes(), |found| found.blake3),
        })
    }
}

impl Large<'_> {
    /// Puts the packed form of a chunk into `output` if the known member has the same one there.
    fn find(
        &self,
        workshop: &Workshop,
        number: usize,
        key: PieceKey,
        (window, output): (&[u8], &mut Vec<u8>),
    ) -> Option<Found> {
        let known = self.known.as_deref()?;
        let mut scratch = workshop.buffer();
        let found = workshop.reuse.find_in((known, number), (key, window), output, &mut scratch);
        workshop.give_back(scratch);
        if found.is_none() {
            self.differs.store(true, Ordering::Release);
        }
        found
    }
}

/// The member of an earlier wheel with the name, size, first and last chunk of this one. Reads up
/// to 8 MiB.
pub(super) fn known_member(workshop: &Workshop, source: &ZipSource<'_>) -> Result<Option<Arc<KnownMember>>, Error> {
    let size = source.content.size();
    let mut members = workshop.reuse.members(source.name, size);
    if members.is_empty() {
        return Ok(None);
    }
    let reader = source.content.open().map_err(read_error(source.name, source.content))?;
    let mut window = workshop.buffer();
    for number in [0, Large::chunks(size) - 1] {
        let start = number as u64 * CHUNK as u64;
        window.resize((size - start).min(CHUNK as u64) as usize, 0);
        read(&reader, source, start, &mut window)?;
        let place = if start + window.len() as u64 == size { Place::Last } else { Place::Inner };
        let key = workshop.key(start, &window, place);
        members.retain(|member| key.is_some_and(|key| member.has(number, key)));
    }
    workshop.give_back(window);
    Ok(members.pop())
}

/// Reads a window. After the last one the content must end.
fn read(reader: &Reader, source: &ZipSource<'_>, start: u64, window: &mut [u8]) -> Result<(), Error> {
    reader.read_exact_at(start, window).map_err(read_error(source.name, source.content))?;
    let end = start + window.len() as u64;
    if end == source.content.size() {
        match reader.read_at(end, &mut [0]) {
            Ok(0) => {}
            Ok(_) => {
                let error = io::Error::new(io::ErrorKind::InvalidData, "more bytes than announced");
                return Err(read_error(source.name, source.content)(error));
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(read_error(source.name, source.content)(error)),
        }
    }
    Ok(())
}

/// Suffixes of files that are compressed already.
const PACKED: [&str; 11] = [".kpack", ".xz", ".zst", ".gz", ".tgz", ".bz2", ".zip", ".whl", ".png", ".jpg", ".lz4"];

/// `true` if the name indicates that deflate would save nothing.
pub(super) fn is_packed(name: &str) -> bool {
    PACKED.iter().any(|suffix| name.ends_with(suffix))
}

/// The number of windows that are compressed as a test, and their size in bytes.
const PROBES: u64 = 16;
const PROBE: usize = 16 << 10;

/// `true` if a large member is worth compressing: its name does not indicate that it is compressed,
/// and at least one of the tested windows, which are spread evenly, shrinks. Reads 256 KiB.
pub(super) fn shrinks(workshop: &Workshop, source: &ZipSource<'_>) -> Result<bool, Error> {
    if workshop.level == Level::None || is_packed(source.name) {
        return Ok(false);
    }
    let reader = source.content.open().map_err(read_error(source.name, source.content))?;
    let step = source.content.size() / PROBES;
    let (mut window, mut output) = (vec![0; PROBE], vec![0; PROBE]);
    for probe in 0..PROBES {
        reader.read_exact_at(probe * step, &mut window).map_err(read_error(source.name, source.content))?;
        let length = workshop.with_compressor(0, |compressor| compressor.deflate_compress(&window, &mut output).ok());
        // Huffman codes sometimes make noise a little smaller; a window that shrinks by 2 % is not
        // noise.
        if matches!(length, Some(Some(length)) if length < PROBE - PROBE / 50) {
            return Ok(true);
        }
    }
    Ok(false)
}
