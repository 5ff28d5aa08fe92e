//! Input: a member of which only a few ranges are needed, for example the headers of a library of a
//! gigabyte. Output: random access to it that unpacks as little as its stream allows.
//!
//! A stream that [`crate::ZipWriter`] made can be unpacked from each of its chunks. Other streams
//! are unpacked from the beginning; only once, up to the last needed range, if the ranges are
//! announced with [`Sparse::want`].

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufReader, Read as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::DeflateDecoder;
use positioned_io::{Cursor, ReadAt};
use rocwheel_content::{Reader, SharedFile};

use super::Listed;
use super::unpack::Packed;
use crate::Error;
use crate::fault::Fault;
use crate::write::CHUNK;

/// Members of other tools of up to this many bytes are unpacked in memory, which is twice as fast
/// as in windows.
const SMALL: u64 = 16 << 20;
/// Each read of a stream keeps the bytes around it, rounded to multiples of this size, for later
/// reads nearby.
const GRAIN: u64 = 1 << 16;
const WINDOW: usize = 1 << 18;
/// Maximum number of chunks that are kept unpacked.
const CHUNKS: usize = 6;
/// Limits for the number of times that a stream is unpacked again from its beginning, and for the
/// kept bytes of it, before it is unpacked into a file.
const RESTARTS: usize = 6;
const KEPT: u64 = 96 << 20;
/// Random access to a few ranges of a member. Its checksum is checked only if the whole member is
/// unpacked, which never happens for a stream of this crate.
pub struct Sparse {
    source: Source,
    form: Form,
    state: Mutex<State>,
}

/// The data for unpacking the member.
struct Source {
    path: PathBuf,
    file: SharedFile,
    listed: Listed,
    scratch: PathBuf,
}

enum Form {
    /// All bytes can be read.
    Whole(Reader),
    /// Parts are unpacked on request.
    Packed,
}

enum State {
    /// The positions of the chunks in the packed bytes followed by their end, and some unpacked
    /// chunks.
    Chunks {
        starts: Vec<u64>,
        unpacked: VecDeque<(usize, Arc<Vec<u8>>)>,
    },
    Stream(Stream),
    File(Reader),
}

#[derive(Default)]
struct Stream {
    decoder: Option<Box<dyn io::Read + Send>>,
    /// Number of bytes from the decoder so far, and their checksum.
    position: u64,
    crc32: crc32fast::Hasher,
    /// Disjoint ranges, by their start.
    wanted: BTreeMap<u64, u64>,
    /// Start → bytes.
    kept: BTreeMap<u64, Vec<u8>>,
    restarts: usize,
}

impl Packed<'_> {
    pub(super) fn sparse(&self, scratch: &Path) -> Result<Sparse, Error> {
        self.check_form()?;
        let listed = self.listed;
        let source = Source {
            path: self.path.to_owned(),
            file: self.file.clone(),
            listed: listed.clone(),
            scratch: scratch.to_owned(),
        };
        let (mut form, mut state) = (Form::Packed, State::Stream(Stream::default()));
        if listed.method == 0 {
            // For a stored member only the needed ranges are read.
            form = Form::Whole(Box::new(self.window()));
        } else if listed.size <= CHUNK as u64 {
            form = Form::Whole(self.reader(scratch)?);
        } else if let Some(starts) = self.chunks().unwrap_or_default() {
            // If a chunk of this stream cannot be read, the stream is unpacked from its beginning.
            state = State::Chunks { starts, unpacked: VecDeque::new() };
        } else if listed.size <= SMALL {
            form = Form::Whole(self.reader(scratch)?);
        }
        Ok(Sparse { source, form, state: Mutex::new(state) })
    }
}

impl Source {
    fn packed(&self) -> Packed<'_> {
        Packed { path: &self.path, file: &self.file, listed: &self.listed }
    }

    fn decoder(&self) -> Box<dyn io::Read + Send> {
        Box::new(DeflateDecoder::new(BufReader::with_capacity(WINDOW, Cursor::new(self.packed().window()))))
    }
}

impl Sparse {
    /// Size of the member in bytes.
    pub fn size(&self) -> u64 {
        self.source.listed.size
    }

    /// Announces the ranges that will be read, so that a stream that must be unpacked from its
    /// beginning keeps them on the way. Other ranges can be read too.
    pub fn want(&self, ranges: &[Range<u64>]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Stream(stream) = &mut *state {
            for range in ranges {
                stream.want(range.start..range.end.min(self.size()));
            }
        }
    }
}

impl ReadAt for Sparse {
    fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Form::Whole(reader) = &self.form {
            return reader.read_at(position, buffer);
        }
        if position >= self.size() || buffer.is_empty() {
            return Ok(0);
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut *state {
                State::Chunks { starts, unpacked } => {
                    let number = (position / CHUNK as u64) as usize;
                    if let Some(place) = unpacked.iter().position(|(known, _)| *known == number) {
                        let (_, bytes) = &unpacked[place];
                        return Ok(copy(&bytes[(position % CHUNK as u64) as usize..], buffer));
                    }
                    let Some(bytes) = self.source.packed().chunk(starts, number)? else {
                        *state = State::Stream(Stream::default());
                        continue;
                    };
                    if unpacked.len() == CHUNKS {
                        unpacked.pop_front();
                    }
                    unpacked.push_back((number, Arc::new(bytes)));
                }
                State::Stream(stream) => {
                    if let Some(count) = stream.read(&self.source, position, buffer)? {
                        return Ok(count);
                    }
                    let reader = self.source.packed().reader(&self.source.scratch).map_err(io::Error::other)?;
                    *state = State::File(reader);
                }
                State::File(reader) => return reader.read_at(position, buffer),
            }
        }
    }
}

fn copy(from: &[u8], to: &mut [u8]) -> usize {
    let length = from.len().min(to.len());
    to[..length].copy_from_slice(&from[..length]);
    length
}

impl Stream {
    fn want(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        // Merges ranges that touch.
        while let Some((&before, &until)) = self.wanted.range(..=end).next_back().filter(|(_, until)| **until >= start)
        {
            start = start.min(before);
            end = end.max(until);
            self.wanted.remove(&before);
        }
        self.wanted.insert(start, end);
    }

    /// Reads at a position; `None` if unpacking into a file is better.
    fn read(&mut self, source: &Source, position: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(count) = self.kept(position, buffer) {
            return Ok(Some(count));
        }
        let size = source.listed.size;
        let start = position - position % GRAIN;
        let end = (position + buffer.len() as u64).next_multiple_of(GRAIN).min(size);
        self.want(start..end);
        if self.position > start || self.decoder.is_none() {
            if self.restarts == RESTARTS || self.wanted.iter().map(|(start, end)| end - start).sum::<u64>() > KEPT {
                return Ok(None);
            }
            self.restarts += 1;
            self.position = 0;
            self.crc32 = crc32fast::Hasher::new();
            self.kept.clear();
            self.decoder = Some(source.decoder());
        }
        self.advance(end)?;
        if self.position == size && self.crc32.clone().finalize() != source.listed.crc32 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, Fault::Checksum));
        }
        // The stream may be shorter than the archive claims.
        Ok(Some(self.kept(position, buffer).unwrap_or(0)))
    }

    fn kept(&self, position: u64, buffer: &mut [u8]) -> Option<usize> {
        let (start, bytes) = self.kept.range(..=position).next_back()?;
        let rest = bytes.get((position - start) as usize..).filter(|rest| !rest.is_empty())?;
        Some(copy(rest, buffer))
    }

    /// Unpacks up to `end`, and keeps the wanted parts.
    fn advance(&mut self, end: u64) -> io::Result<()> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        let mut window = vec![0; WINDOW];
        while self.position < end {
            let room = (end - self.position).min(WINDOW as u64) as usize;
            let count = match decoder.read(&mut window[..room]) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (from, until) = (self.position, self.position + count as u64);
            for (&start, &stop) in self.wanted.range(..until).filter(|(_, stop)| **stop > from) {
                let part = start.max(from)..stop.min(until);
                let bytes = &window[(part.start - from) as usize..(part.end - from) as usize];
                keep(&mut self.kept, part.start, bytes);
            }
            self.crc32.update(&window[..count]);
            self.position = until;
        }
        Ok(())
    }
}

/// Adds bytes to the kept ones, at the end of the piece that they follow.
fn keep(kept: &mut BTreeMap<u64, Vec<u8>>, start: u64, bytes: &[u8]) {
    if let Some((begin, piece)) = kept.range_mut(..=start).next_back()
        && begin + piece.len() as u64 == start
    {
        piece.extend_from_slice(bytes);
    } else {
        kept.insert(start, bytes.to_vec());
    }
}
