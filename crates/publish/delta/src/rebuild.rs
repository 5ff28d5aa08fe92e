//! Input: the description of a wheel, and wheels that have some of its pieces. Output: the wheel,
//! with the other pieces downloaded in as few ranges as is sensible.

use std::collections::{BTreeSet, HashMap};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use positioned_io::ReadAt as _;
use rayon::prelude::*;
use rocwheel_content::WINDOW;
use rocwheel_progress::{Reporter, Unit};
use rocwheel_store::Error as StoreError;
use rocwheel_system::PositionedWriter;

use crate::cut::{Piece, PieceHash};
use crate::description::DeltaDescription;
use crate::error::{Error, PartResult, reason_inside};
use crate::own_wheels::{HeldPiece, HeldWheel, find_pieces, find_wheels};
use crate::wheel_download::Download;

/// Bytes that are downloaded again rather than begin another request: an answer takes as long as
/// some hundred kilobytes.
const GAP: u64 = 32 << 10;
/// Longest range of one request, so that several connections share a long one.
const LONGEST: u64 = 32 << 20;

/// A wheel that was made of pieces.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    /// Bytes that other wheels have.
    pub(crate) reused: u64,
    pub(crate) from: Vec<PathBuf>,
}

/// Bytes of another wheel, and where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PieceCopy {
    wheel: usize,
    from: u64,
    to: u64,
    length: u64,
}

/// The copies and downloads that make the whole wheel.
#[derive(Debug, Default, PartialEq, Eq)]
struct RebuildPlan {
    copies: Vec<PieceCopy>,
    ranges: Vec<Range<u64>>,
}

impl RebuildPlan {
    fn new(pieces: &[Piece], held: &HashMap<PieceHash, HeldPiece>) -> RebuildPlan {
        let mut plan = RebuildPlan::default();
        let mut to = 0;
        for piece in pieces {
            let length = u64::from(piece.length);
            match held.get(&piece.hash) {
                Some(held) => plan.copy(*held, to, length),
                None => plan.download(to..to + length),
            }
            to += length;
        }
        let parts = std::mem::take(&mut plan.ranges).into_iter().flat_map(|range| {
            (range.start..range.end).step_by(LONGEST as usize).map(move |start| start..range.end.min(start + LONGEST))
        });
        plan.ranges = parts.collect();
        plan
    }

    fn copy(&mut self, held: HeldPiece, to: u64, length: u64) {
        match self.copies.last_mut() {
            Some(last)
                if last.wheel == held.wheel
                    && last.from + last.length == held.offset
                    && last.to + last.length == to =>
            {
                last.length += length;
            }
            _ => self.copies.push(PieceCopy { wheel: held.wheel, from: held.offset, to, length }),
        }
    }

    /// Adds a range, and what is copied between it and the one before if that is short.
    fn download(&mut self, range: Range<u64>) {
        match self.ranges.last_mut() {
            Some(last) if range.start - last.end <= GAP => {
                let start = last.end;
                last.end = range.end;
                while self.copies.last().is_some_and(|copy| copy.to >= start) {
                    self.copies.pop();
                }
            }
            _ => self.ranges.push(range),
        }
    }

    fn downloaded(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

/// Writes the wheel to [`Download::staged`]. The inner error is the reason why that is not
/// possible. The caller compares the result with its hash.
///
/// A failed download is a reason, since the whole wheel may still be downloaded.
pub(crate) fn rebuild(work: &Download<'_>, description: &DeltaDescription) -> Result<Result<Rebuilt, String>, Error> {
    let reporter = work.reporter;
    let wheels = find_wheels(work.request.have, &work.chosen.name, reporter)?;
    if wheels.is_empty() {
        return Ok(Err("there is no other wheel of its project".to_owned()));
    }
    let held = find_pieces(&wheels, &description.pieces, reporter)?;
    if held.unreadable == wheels.len() {
        return Ok(Err(match wheels.len() {
            1 => "the only other wheel of its project cannot be read".to_owned(),
            count => format!("none of the {count} other wheels of its project can be read"),
        }));
    }
    let plan = RebuildPlan::new(&description.pieces, &held.pieces);
    if plan.copies.is_empty() {
        return Ok(Err("it has nothing in common with the other wheels".to_owned()));
    }
    let file = fs_err::File::create(work.staged).map_err(StoreError::write(work.staged))?;
    if let Err(error) = file.set_len(description.size) {
        return Ok(Err(format!(
            "no file of {} bytes, as its description says, can be made: {error}",
            description.size
        )));
    }
    let stage =
        reporter.stage(&format!("Downloading {}", work.chosen.link.file_name), Some(plan.downloaded()), Unit::Bytes);
    let downloaded = work.remote(&work.chosen.link.address).ranges(&plan.ranges, &file);
    drop(stage);
    if let Err(reason) = downloaded? {
        return Ok(Err(reason));
    }
    if let Err(reason) = copy_all(&plan.copies, &wheels, &file, reporter)? {
        return Ok(Err(reason));
    }
    let used: BTreeSet<usize> = plan.copies.iter().map(|copy| copy.wheel).collect();
    Ok(Ok(Rebuilt {
        reused: plan.copies.iter().map(|copy| copy.length).sum(),
        from: used.into_iter().filter_map(|number| Some(wheels.get(number)?.path.clone())).collect(),
    }))
}

/// Copies bytes of other wheels. The inner error is why one could not be read.
fn copy_all(
    copies: &[PieceCopy],
    wheels: &[HeldWheel],
    file: &fs_err::File,
    reporter: &dyn Reporter,
) -> Result<Result<(), String>, Error> {
    let total = copies.iter().map(|copy| copy.length).sum();
    let _stage = reporter.stage("Copying from other wheels", Some(total), Unit::Bytes);
    let copied = copies.par_iter().try_for_each(|copy| copy_piece(copy, &wheels[copy.wheel].path, file, reporter));
    reason_inside(copied)
}

fn copy_piece(copy: &PieceCopy, path: &Path, file: &fs_err::File, reporter: &dyn Reporter) -> PartResult {
    let from = fs_err::File::open(path).map_err(unreadable(path))?;
    let mut writer = PositionedWriter::new(file.file(), copy.to);
    let mut block = vec![0; copy.length.min(WINDOW as u64) as usize];
    let mut done = 0;
    while done < copy.length {
        reporter.check().map_err(|interrupted| Err(interrupted.into()))?;
        block.truncate((copy.length - done).min(WINDOW as u64) as usize);
        from.file().read_exact_at(copy.from + done, &mut block).map_err(unreadable(path))?;
        writer.write_all(&block).map_err(|source| Err(StoreError::write(file.path())(source).into()))?;
        done += block.len() as u64;
        reporter.advance(block.len() as u64);
    }
    Ok(())
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Result<String, Error> {
    |error| Ok(format!("`{}` cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(name: u8, length: u32) -> Piece {
        Piece { length, hash: [name; 16] }
    }

    fn held(rows: &[(u8, usize, u64)]) -> HashMap<PieceHash, HeldPiece> {
        rows.iter().map(|(name, wheel, offset)| ([*name; 16], HeldPiece { wheel: *wheel, offset: *offset })).collect()
    }

    #[test]
    fn neighbours_are_copied_and_downloaded_together() {
        let pieces = [piece(1, 50_000), piece(2, 60_000), piece(9, 7), piece(8, 9), piece(1, 50_000), piece(3, 1)];
        let plan = RebuildPlan::new(&pieces, &held(&[(1, 0, 100), (2, 0, 50_100), (3, 1, 0)]));
        let copy = |wheel, from, to, length| PieceCopy { wheel, from, to, length };
        assert_eq!(plan.copies, [copy(0, 100, 0, 110_000), copy(0, 100, 110_016, 50_000), copy(1, 0, 160_016, 1)]);
        assert_eq!(plan.ranges, vec![110_000..110_016]);
    }

    #[test]
    fn a_short_copy_is_no_reason_for_another_request() {
        let pieces = [piece(9, 10), piece(1, 20_000), piece(8, 10), piece(2, 40_000), piece(7, 10)];
        let plan = RebuildPlan::new(&pieces, &held(&[(1, 0, 0), (2, 0, 0)]));
        assert_eq!(plan.ranges, vec![0..20_020, 60_020..60_030]);
        assert_eq!(plan.copies, [PieceCopy { wheel: 0, from: 0, to: 20_020, length: 40_000 }]);
    }

    #[test]
    fn short_copies_that_are_one_are_no_reason_either() {
        // 1 and 2 follow each other in the other wheel, so they are one copy.
        let pieces = [piece(9, 10), piece(1, 100), piece(2, 100), piece(8, 10)];
        let plan = RebuildPlan::new(&pieces, &held(&[(1, 0, 0), (2, 0, 100)]));
        assert_eq!((plan.copies.len(), plan.ranges.as_slice()), (0, std::slice::from_ref(&(0..220))));
    }

    #[test]
    fn a_long_range_is_several_requests() {
        let pieces: Vec<Piece> = (0..3).map(|number| piece(number, 30 << 20)).collect();
        let plan = RebuildPlan::new(&pieces, &held(&[]));
        let lengths: Vec<u64> = plan.ranges.iter().map(|range| range.end - range.start).collect();
        assert_eq!(lengths, [32 << 20, 32 << 20, 26 << 20]);
        assert_eq!(plan.downloaded(), 90 << 20);
        assert!(plan.ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
