//! Input: a wheel. Output: its bytes, cut into pieces that another build of the wheel has too.
//!
//! The content decides where a piece ends (content-defined chunking), so an insertion moves the
//! pieces behind it and leaves them equal. Pieces end at three kinds of places:
//!
//! * Before and after the header of a member of 4 KiB or more, and after the member. A member that
//!   moves, or that only has another time, keeps its pieces. Smaller members share a piece until
//!   the checksum of one ends it.
//! * Where `FastCDC` cuts the bytes of a large member.
//! * After a flush of the compressor: rocwheel packs a large member in chunks that do not refer to
//!   each other, with a flush after each.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use fastcdc::v2020::FastCDC;
use memchr::memmem::Finder;
use positioned_io::ReadAt;
use rayon::prelude::*;
use rocwheel_archive::ZipLayout;
use rocwheel_content::sha256;
use rocwheel_progress::{Interrupted, Reporter};
use rocwheel_store::Error as StoreError;

use crate::error::Error;

/// Identifies the chunking parameters. Pieces are comparable only between descriptions with the
/// same value.
pub(crate) const WAY: &str = "members of 4096, FastCDC 2020 of 16384 65536 262144, flushes after 1024";

/// A packed member of fewer bytes is in one piece with others.
const LARGE: u64 = 4096;
/// Smallest, usual and largest piece of a large member in bytes.
const SIZES: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
/// Bytes of the largest piece of any wheel.
pub(crate) const LARGEST: u32 = SIZES[2] as u32;
/// Bytes of small members after which the checksum of one may end their piece, and after which any
/// does.
const SMALL: [u64; 2] = [2 << 10, 32 << 10];
/// One of so many checksums ends a piece of small members.
const ONE_OF: u32 = 8;
/// The end of a flush: an empty stored block of deflate (RFC 1951, section 3.2.4).
static FLUSH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\x00\x00\xff\xff"));
/// A flush does not end a piece of fewer bytes, so that a file of nothing but flushes has few
/// pieces.
const BEFORE_FLUSH: usize = 1 << 10;
/// Bytes that are in memory for each thread.
const WINDOW: usize = 4 << 20;

/// The first 16 bytes of the SHA-256 of a piece. A collision gives another file, which the SHA-256
/// of the whole finds.
pub(crate) type PieceHash = [u8; 16];

/// A piece of a wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// In bytes.
    pub(crate) length: u32,
    pub(crate) hash: PieceHash,
}

/// Cuts the wheel at `path`. The pieces are in order, and make the whole file.
pub(crate) fn cut(path: &Path, reporter: &dyn Reporter) -> Result<Vec<Piece>, Error> {
    let layout = ZipLayout::read(path).map_err(rocwheel_wheel::Error::from)?;
    let (file, _) = fs_err::File::open(path).map_err(StoreError::read(path))?.into_parts();
    let parts: Vec<Result<Vec<Piece>, Stop>> =
        parts(&layout).into_par_iter().map(|part| cut_part(&file, part, reporter)).collect();
    let mut pieces = Vec::new();
    for part in parts {
        match part {
            Ok(part) => pieces.extend(part),
            Err(Stop::Interrupted(interrupted)) => return Err(interrupted.into()),
            Err(Stop::Read(source)) => return Err(StoreError::read(path)(source).into()),
        }
    }
    Ok(pieces)
}

enum Stop {
    Interrupted(Interrupted),
    Read(io::Error),
}

/// The parts of a file that are cut separately.
fn parts(layout: &ZipLayout) -> Vec<Range<u64>> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for member in &layout.members {
        // Members do not overlap: `ZipLayout::read` refuses such files.
        if member.packed.end - member.packed.start >= LARGE {
            for end in [member.header, member.packed.start, member.packed.end] {
                end_part(&mut parts, &mut begin, end);
            }
        } else {
            let length = member.packed.end - begin;
            if length >= SMALL[1] || length >= SMALL[0] && member.crc32.is_multiple_of(ONE_OF) {
                end_part(&mut parts, &mut begin, member.packed.end);
            }
        }
    }
    end_part(&mut parts, &mut begin, layout.directory);
    end_part(&mut parts, &mut begin, layout.size);
    parts
}

fn end_part(parts: &mut Vec<Range<u64>>, begin: &mut u64, end: u64) {
    if end > *begin {
        parts.push(*begin..end);
        *begin = end;
    }
}

fn cut_part(file: &impl ReadAt, part: Range<u64>, reporter: &dyn Reporter) -> Result<Vec<Piece>, Stop> {
    let mut pieces = Vec::new();
    let (mut window, mut read, mut done) = (Vec::new(), part.start, 0);
    loop {
        reporter.check().map_err(Stop::Interrupted)?;
        window.drain(..done);
        let (held, more) = (window.len(), (part.end - read).min((WINDOW - window.len()) as u64) as usize);
        window.resize(held + more, 0);
        file.read_exact_at(read, &mut window[held..]).map_err(Stop::Read)?;
        read += more as u64;
        reporter.advance(more as u64);
        done = 0;
        // A piece is cut where all bytes that decide about its end are in the window.
        while done < window.len() && (read == part.end || window.len() - done >= SIZES[2]) {
            let rest = &window[done..];
            let length = piece_length(&rest[..rest.len().min(SIZES[2])]);
            let mut hash = PieceHash::default();
            hash.copy_from_slice(&sha256(&rest[..length])[..16]);
            pieces.push(Piece { length: length as u32, hash });
            done += length;
        }
        if read == part.end && done == window.len() {
            return Ok(pieces);
        }
    }
}

/// The length of the first piece of `bytes`, which are the rest of a part, or as many of it as a
/// piece may have.
fn piece_length(bytes: &[u8]) -> usize {
    let [smallest, usual, largest] = SIZES;
    let (_, end) = FastCDC::new(bytes, smallest, usual, largest).cut(0, bytes.len());
    // At least one byte, so that there is an end.
    let end = end.clamp(1, bytes.len());
    let flush = bytes[..end].get(BEFORE_FLUSH..).and_then(|later| FLUSH.find(later));
    flush.map_or(end, |position| BEFORE_FLUSH + position + FLUSH.needle().len())
}

#[cfg(test)]
mod tests {
    use rocwheel_archive::MemberPlace;
    use rocwheel_progress::Silent;

    use super::*;

    /// Bytes that look like packed ones, the same for the same seed.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    fn pieces(bytes: &[u8]) -> Vec<Piece> {
        let Ok(pieces) = cut_part(&bytes, 0..bytes.len() as u64, &Silent) else { panic!("bytes can be read") };
        pieces
    }

    #[test]
    fn pieces_make_the_whole_whatever_the_window_ends_in() {
        for length in [0, 1, 4095, SIZES[2] - 1, SIZES[2], SIZES[2] + 1, WINDOW, WINDOW + 1, 2 * WINDOW + 12345] {
            let bytes = noise(1, length);
            let pieces = pieces(&bytes);
            assert_eq!(pieces.iter().map(|piece| piece.length as usize).sum::<usize>(), length);
            let mut start = 0;
            for piece in &pieces {
                let end = start + piece.length as usize;
                assert_eq!(piece.hash[..], sha256(&bytes[start..end])[..16]);
                start = end;
            }
        }
    }

    #[test]
    fn an_insertion_changes_the_pieces_around_it() {
        let before = noise(2, 8 << 20);
        let mut after = before.clone();
        after.splice(3_000_000..3_000_000, *b"inserted");
        let known: std::collections::HashSet<PieceHash> = pieces(&before).iter().map(|piece| piece.hash).collect();
        let new: Vec<Piece> = pieces(&after).into_iter().filter(|piece| !known.contains(&piece.hash)).collect();
        assert!((1..=3).contains(&new.len()), "{new:?}");
    }

    #[test]
    fn what_follows_a_flush_is_the_same_piece_after_other_bytes() {
        let (mark, rest) = (b"\x00\x00\xff\xff", noise(3, 1 << 20));
        let of = |seed: u64| {
            let all = [&noise(seed, 500_000)[..], mark, &rest].concat();
            pieces(&all)
        };
        let (one, other) = (of(4), of(5));
        let equal = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other);
        assert_eq!(equal.map(|(piece, _)| piece.length as usize).sum::<usize>(), rest.len());
    }

    #[test]
    fn members_have_their_own_pieces() {
        let member = |header: u64, length: u64, crc32: u32| MemberPlace {
            header,
            packed: header + 50..header + 50 + length,
            crc32,
        };
        let members = vec![
            member(0, 1000, 8),
            member(1050, 1000, 8),
            member(2100, 100_000, 1),
            member(102_150, 10, 1),
            member(102_210, 4095, 1),
            // With 16 bytes of a data descriptor before it.
            member(106_371, 4096, 1),
        ];
        let layout = ZipLayout { directory: 110_517, size: 111_000, members };
        let ends: Vec<u64> = parts(&layout).iter().map(|part| part.end).collect();
        assert_eq!(ends, [2100, 2150, 102_150, 106_371, 106_421, 110_517, 111_000]);
        let all = parts(&layout);
        assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start) && all[0].start == 0);
    }
}
