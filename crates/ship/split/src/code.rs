//! Input: a bundle of a file. Output: its code objects, in pieces that threads share. One code
//! object is in memory at a time, or a window of a large one.

use std::io::Read;
use std::ops::Range;

use positioned_io::ReadAt;
use rocwheel_kpack::bundle::{Checksum, Limits};
use rocwheel_kpack::{Bundle, BundleEntry};
use rocwheel_progress::Failure;

use crate::error::gpu_code_error;

/// Uncompressed bytes of code objects in one piece of work, unless a single code object is larger.
const WORK: u64 = 8 << 20;

/// A part of a bundle that one thread processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The whole bundle: a compressed bundle can only be read from its start.
    Whole,
    /// These entries of a plain bundle.
    Entries(Range<usize>),
}

/// Divides a bundle into pieces; entries for which `wanted` is `false` do not count.
pub(crate) fn pieces(bundle: &Bundle, wanted: impl Fn(&BundleEntry) -> bool) -> Vec<Piece> {
    if !bundle.entries.iter().any(&wanted) {
        return Vec::new();
    }
    if bundle.compression.is_some() {
        return vec![Piece::Whole];
    }
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, entry) in bundle.entries.iter().enumerate().filter(|(_, entry)| wanted(entry)) {
        if bytes > 0 && bytes + entry.size > WORK {
            pieces.push(Piece::Entries(start..index));
            (start, bytes) = (index, 0);
        }
        bytes += entry.size;
    }
    pieces.push(Piece::Entries(start..bundle.entries.len()));
    pieces
}

pub struct CodeSource<'a> {
    /// Path of the file, for errors.
    pub key: &'a str,
    pub reader: &'a dyn ReadAt,
    /// Range of its fat binary section in bytes.
    pub section: &'a Range<u64>,
    pub checksum: Checksum,
}

/// Code objects of at least this many bytes are never in memory as a whole.
const STREAMED: u64 = 32 << 20;

pub(crate) enum Code<'a> {
    Whole(&'a [u8]),
    /// A stream of [`STREAMED`] bytes or more. If it fails, [`visit`] returns its error.
    Stream(&'a mut dyn Read),
}

/// Calls `each` for the wanted entries of a piece, in the order of their offsets, with their code.
pub(crate) fn visit(
    source: &CodeSource<'_>,
    (bundle, piece): (&Bundle, &Piece),
    wanted: impl Fn(&BundleEntry) -> bool,
    mut each: impl FnMut(&BundleEntry, Code<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let part;
    let bundle = match piece {
        Piece::Whole => bundle,
        Piece::Entries(range) => {
            let Bundle { offset, length, compression, .. } = *bundle;
            part = Bundle { offset, length, compression, entries: bundle.entries[range.clone()].to_vec() };
            &part
        }
    };
    let limits = Limits { checksum: source.checksum, ..Limits::default() };
    let mut buffer = Vec::new();
    let visited = bundle.visit_streams(source.reader, source.section.clone(), limits, |entries, stream| {
        if !entries.iter().any(|entry| wanted(entry)) {
            return Ok(());
        }
        if let [entry] = entries
            && is_streamed(entry)
        {
            return each(entry, Code::Stream(stream)).map_err(Visited::Ours);
        }
        let code = stream.read_whole(&mut buffer)?;
        let mut entries = entries.iter().filter(|entry| wanted(entry));
        entries.try_for_each(|entry| each(entry, Code::Whole(code)).map_err(Visited::Ours))
    });
    visited.map_err(|error| match error {
        Visited::Ours(error) => error,
        Visited::GpuCode(error) => gpu_code_error(source.key)(error),
    })
}

/// Like `visit`, with every code object in memory as a whole.
pub fn visit_whole(
    source: &CodeSource<'_>,
    part: (&Bundle, &Piece),
    wanted: impl Fn(&BundleEntry) -> bool,
    mut each: impl FnMut(&BundleEntry, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut buffer = Vec::new();
    visit(source, part, wanted, |entry, code| match code {
        Code::Whole(bytes) => each(entry, bytes),
        Code::Stream(stream) => {
            buffer.clear();
            stream.read_to_end(&mut buffer)?;
            each(entry, &buffer)
        }
    })
}

fn is_streamed(entry: &BundleEntry) -> bool {
    entry.size >= STREAMED
}

/// Largest window of zstd that a reader of streams takes by default, in bytes.
const LARGEST_WINDOW: u64 = 128 << 20;
/// Window of the frames of streamed code objects in archives, in bytes, and of the tables beside
/// it.
const ARCHIVE_WINDOW: u64 = 80 << 20;

/// Estimates the memory in bytes that [`visit`] and the compression or decompression of what it
/// finds need for one piece.
pub(crate) fn memory(bundle: &Bundle, piece: &Piece, wanted: impl Fn(&BundleEntry) -> bool) -> u64 {
    let entries = match piece {
        Piece::Whole => &bundle.entries[..],
        Piece::Entries(range) => &bundle.entries[range.clone()],
    };
    let (streamed, whole): (Vec<&BundleEntry>, Vec<_>) =
        entries.iter().filter(|entry| wanted(entry)).partition(|entry| is_streamed(entry));
    let decoder = bundle.compression.map_or(0, |header| header.uncompressed.min(LARGEST_WINDOW));
    // A code object, and its frame, which can be as large.
    let buffers = 2 * whole.iter().map(|entry| entry.size).max().unwrap_or(0);
    decoder + buffers.max(if streamed.is_empty() { 0 } else { ARCHIVE_WINDOW })
}

/// The source of an error: the callback of [`visit`], or the reader of the bundle.
enum Visited {
    Ours(Failure),
    GpuCode(rocwheel_kpack::Error),
}

impl From<rocwheel_kpack::Error> for Visited {
    fn from(error: rocwheel_kpack::Error) -> Self {
        Self::GpuCode(error)
    }
}

#[cfg(test)]
mod tests {
    use rocwheel_kpack::CompressionHeader;
    use rocwheel_kpack::bundle::Method;

    use super::*;

    fn bundle(sizes: &[u64]) -> Bundle {
        let entry = |size: &u64| BundleEntry { id: "x".into(), offset: 0, size: *size };
        Bundle { offset: 0, length: 0, compression: None, entries: sizes.iter().map(entry).collect() }
    }

    #[test]
    fn memory_does_not_grow_with_large_code_objects() {
        let wanted = BundleEntry::has_code;
        let plain = bundle(&[0, 100, 3 << 20]);
        assert_eq!(memory(&plain, &Piece::Entries(0..3), wanted), 6 << 20);
        assert_eq!(memory(&plain, &Piece::Entries(0..2), wanted), 200);
        let header = |uncompressed| CompressionHeader { version: 3, method: Method::Zstd, uncompressed, checksum: 0 };
        let large = |size: u64| Bundle { compression: Some(header(9 * size)), ..bundle(&[size; 9]) };
        assert_eq!(memory(&large(200 << 20), &Piece::Whole, wanted), memory(&large(900 << 20), &Piece::Whole, wanted));
        assert!(memory(&large(200 << 20), &Piece::Whole, wanted) < 220 << 20);
    }

    #[test]
    fn every_wanted_entry_is_in_one_piece() {
        let wanted = BundleEntry::has_code;
        assert_eq!(pieces(&bundle(&[0, 0]), wanted), []);
        assert_eq!(pieces(&bundle(&[0, 5, 6]), wanted), [Piece::Entries(0..3)]);
        let big = WORK + 1;
        let cut = pieces(&bundle(&[0, big, 0, big, 1, WORK, 1]), wanted);
        assert_eq!(cut, [0..3, 3..4, 4..5, 5..6, 6..7].map(Piece::Entries));
    }
}
