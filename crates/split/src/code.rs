//! Input: a bundle of a file. Output: its code objects, in pieces that threads share, one at a time
//! in memory.

use std::io;
use std::ops::Range;

use positioned_io::ReadAt;
use rocwheel_kpack::bundle::{Checksum, Limits};
use rocwheel_kpack::{Bundle, BundleEntry};

use crate::error::Error;

/// Uncompressed bytes of code objects in one piece of work, unless a single code object is larger.
const WORK: u64 = 8 << 20;

/// A part of a bundle that one thread processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
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

/// A file with GPU code.
pub(crate) struct Source<'a> {
    /// Path of the file, for errors.
    pub(crate) key: &'a str,
    pub(crate) reader: &'a dyn ReadAt,
    /// Range of its fat binary section in bytes.
    pub(crate) section: &'a Range<u64>,
    pub(crate) checksum: Checksum,
}

/// Calls `each` for the wanted entries of a piece, with their bytes.
pub(crate) fn visit<E: From<Error>>(
    source: &Source<'_>,
    (bundle, piece): (&Bundle, &Piece),
    wanted: impl Fn(&BundleEntry) -> bool,
    mut each: impl FnMut(&BundleEntry, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    match piece {
        Piece::Whole => {
            let limits = Limits { checksum: source.checksum, ..Limits::default() };
            let visited = bundle.visit_within(source.reader, source.section.clone(), limits, |entry, code| {
                if wanted(entry) { each(entry, code).map_err(Visited::Ours) } else { Ok(()) }
            });
            visited.map_err(|error| match error {
                Visited::Ours(error) => error,
                Visited::GpuCode(error) => Error::GpuCode { key: source.key.to_owned(), source: error }.into(),
            })
        }
        Piece::Entries(range) => {
            let mut code = Vec::new();
            for entry in bundle.entries[range.clone()].iter().filter(|entry| wanted(entry)) {
                if entry.size > Limits::default().code_object {
                    let error =
                        io::Error::new(io::ErrorKind::InvalidData, "it claims a code object beyond all measure");
                    return Err(Error::Read { key: source.key.to_owned(), source: error }.into());
                }
                let size = entry.size as usize;
                if code.len() < size {
                    code.resize(size, 0);
                }
                let offset = source.section.start + bundle.offset + entry.offset;
                let read = source.reader.read_exact_at(offset, &mut code[..size]);
                read.map_err(|error| Error::Read { key: source.key.to_owned(), source: error })?;
                each(entry, &code[..size])?;
            }
            Ok(())
        }
    }
}

/// The source of an error: the callback of [`visit`], or the reader of the bundle.
enum Visited<E> {
    Ours(E),
    GpuCode(rocwheel_kpack::Error),
}

impl<E> From<rocwheel_kpack::Error> for Visited<E> {
    fn from(error: rocwheel_kpack::Error) -> Self {
        Self::GpuCode(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle(sizes: &[u64]) -> Bundle {
        let entry = |size: &u64| BundleEntry { id: "x".into(), offset: 0, size: *size };
        Bundle { offset: 0, length: 0, compression: None, entries: sizes.iter().map(entry).collect() }
    }

    #[test]
    fn every_wanted_entry_is_in_one_piece() {
        let wanted = |entry: &BundleEntry| entry.size > 0;
        assert_eq!(pieces(&bundle(&[0, 0]), wanted), []);
        assert_eq!(pieces(&bundle(&[0, 5, 6]), wanted), [Piece::Entries(0..3)]);
        let big = WORK + 1;
        let cut = pieces(&bundle(&[0, big, 0, big, 1, WORK, 1]), wanted);
        assert_eq!(cut, [0..3, 3..4, 4..5, 5..6, 6..7].map(Piece::Entries));
    }
}
