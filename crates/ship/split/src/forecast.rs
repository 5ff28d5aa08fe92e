//! Input: a [`Plan`] and its files. Output: the size that the archives will have, before the first
//! is written.
//!
//! Only code in compressed bundles can take more space in archives, because a bundle is compressed
//! for all targets together and an archive has a frame for each code object. So a sample of it is
//! compressed: some bundles of each file, and a part of each of their code objects.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rocwheel_content::MemoryBudget;
use rocwheel_kpack::archive::{Blob, Scheme};
use rocwheel_kpack::bundle::{Checksum, CodeStream, Limits};
use rocwheel_kpack::{Bundle, BundleEntry};
use rocwheel_progress::{Failure, Reporter};
use serde::Serialize;

use crate::code::{self, Piece};
use crate::engine::Packing;
use crate::error::{gpu_code_error, read_error};
use crate::plan::{CandidateFile, Plan, PlannedBinary, is_kept};

/// Positions in the code of a file, at equal distances, whose bundles are the sample. Large bundles
/// are hit more often.
const POSITIONS: u64 = 8;
/// Bytes of each code object that are compressed, in [`PIECES`] at equal distances. librccl
/// differs from place to place: these pieces say 9 % too much, four longer ones 39 %, and 32 of
/// 64 KiB 25 %.
const SAMPLE: u64 = 16 << 20;
const PIECES: u64 = 32;
/// Highest level of zstd that is tried. Level 19 takes a hundred times as long for 4 to 5 % less.
const HIGHEST_LEVEL: i32 = 6;

/// Sizes of GPU code before a split, and as they are expected after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ArchiveForecast {
    /// Bytes of the fat binary sections of files with compressed bundles.
    pub before: u64,
    /// Estimate of the bytes of their archives.
    pub after: u64,
    /// Estimate of the bytes for the target that needs most.
    pub largest: u64,
}

impl ArchiveForecast {
    /// `true` if the archives are expected to take more space than the sections.
    pub fn grows(&self) -> bool {
        self.after > self.before
    }

    /// Adds the sizes of other files. The same target may need most everywhere.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            before: self.before + other.before,
            after: self.after + other.after,
            largest: self.largest + other.largest,
        }
    }
}

/// Estimates the archives of the files of a plan that have compressed bundles.
pub(crate) fn forecast(
    plan: &Plan,
    units: &[CandidateFile],
    packing: Packing,
    reporter: &dyn Reporter,
) -> Result<ArchiveForecast, Failure> {
    let memory = MemoryBudget::new(packing.memory);
    let forecaster = Forecaster { plan, units, packing, memory, reporter };
    let compressed = plan.binaries.iter().filter(|binary| binary.bundles.iter().any(|bundle| bundle.compressed));
    let each: Vec<ArchiveForecast> =
        compressed.collect::<Vec<_>>().par_iter().map(|binary| forecaster.binary(binary)).collect::<Result<_, _>>()?;
    Ok(each.into_iter().fold(ArchiveForecast::default(), ArchiveForecast::plus))
}

struct Forecaster<'a> {
    plan: &'a Plan,
    units: &'a [CandidateFile],
    packing: Packing,
    memory: MemoryBudget,
    reporter: &'a dyn Reporter,
}

impl Forecaster<'_> {
    fn binary(&self, binary: &PlannedBinary) -> Result<ArchiveForecast, Failure> {
        let hits = hits(&binary.bundles.iter().map(|bundle| bundle.bytes).collect::<Vec<_>>());
        let weighted = hits.par_iter().map(|(bundle, hits)| Ok(*hits * self.millionths(binary, *bundle)?));
        let sum = weighted.try_reduce(|| 0, |one, other| Ok::<u64, Failure>(one + other))?;
        let ratio = sum / hits.values().sum::<u64>().max(1);
        let mut targets: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in binary.fat.bundles.iter().flat_map(|bundle| &bundle.entries).filter(|entry| self.is_kept(entry)) {
            let target = entry.target().map(rocwheel_tables::target::base_target).unwrap_or_default();
            *targets.entry(target).or_default() += entry.size;
        }
        let [after, largest] = [targets.values().sum(), targets.into_values().max().unwrap_or(0)]
            .map(|bytes: u64| (u128::from(bytes) * u128::from(ratio) / 1_000_000) as u64);
        Ok(ArchiveForecast { before: binary.section, after, largest })
    }

    fn is_kept(&self, entry: &BundleEntry) -> bool {
        is_kept(entry, &self.plan.selection)
    }

    /// Returns the size of the code objects of a bundle in an archive, in millionths of their own.
    fn millionths(&self, binary: &PlannedBinary, bundle: usize) -> Result<u64, Failure> {
        self.reporter.check()?;
        if self.packing.scheme == Scheme::None {
            return Ok(1_000_000);
        }
        let key = &binary.key;
        let bundle: &Bundle = &binary.fat.bundles[bundle];
        let _share = self.memory.take(code::memory(bundle, &Piece::Whole, |_| false) + 2 * SAMPLE);
        let content = &self.units[binary.unit].content;
        let reader = content.open().map_err(read_error(key))?;
        // Damaged bundles are detected by the split.
        let limits = Limits { checksum: Checksum::Skip, ..Limits::default() };
        let (mut size, mut packed, mut sample) = (0, 0, Vec::new());
        let visited = bundle.visit_streams(&reader, binary.fat.section.clone(), limits, |entries, stream| {
            let kept = entries.iter().filter(|entry| self.is_kept(entry)).count() as u64;
            if kept > 0 {
                size += u128::from(kept * stream.size());
                packed += u128::from(kept * self.packed(stream, &mut sample)?);
            }
            Ok::<(), rocwheel_kpack::Error>(())
        });
        visited.map_err(gpu_code_error(key))?;
        Ok((packed * 1_000_000).checked_div(size).unwrap_or(0) as u64)
    }

    /// Estimates the size of a code object in an archive in bytes.
    fn packed(&self, code: &mut CodeStream<'_, '_>, sample: &mut Vec<u8>) -> Result<u64, rocwheel_kpack::Error> {
        let size = code.size();
        let length = size.min(SAMPLE);
        sample.clear();
        // Pieces from everywhere: the middle of librccl compresses much better than the rest.
        let mut piece = Vec::new();
        for _ in 0..PIECES {
            code.skip((size - length) / PIECES)?;
            sample.extend_from_slice(code.read_next(length.div_ceil(PIECES), &mut piece)?);
        }
        let length = sample.len() as u64;
        let level = self.packing.level.min(HIGHEST_LEVEL);
        let blob = Blob::pack(sample, self.packing.scheme, level)?;
        let whole = u128::from(size) * blob.bytes.len() as u128 / u128::from(length.max(1));
        Ok(whole as u64)
    }
}

/// Returns the bundles of the given sizes at [`POSITIONS`] positions, and how many hit each.
fn hits(sizes: &[u64]) -> BTreeMap<usize, u64> {
    let total: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    let mut hits = BTreeMap::new();
    for position in 0..POSITIONS {
        let at = total * u128::from(2 * position + 1) / u128::from(2 * POSITIONS);
        let mut end = 0;
        let hit = sizes.iter().position(|size| {
            end += u128::from(*size);
            at < end
        });
        if let Some(hit) = hit {
            *hits.entry(hit).or_default() += 1;
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bundles_are_hit_more_often() {
        assert_eq!(hits(&[]), BTreeMap::new());
        assert_eq!(hits(&[0, 0]), BTreeMap::new());
        assert_eq!(hits(&[0, 7, 0]), BTreeMap::from([(1, 8)]));
        assert_eq!(hits(&[1, 6, 1]), BTreeMap::from([(0, 1), (1, 6), (2, 1)]));
        assert_eq!(hits(&[1; 800]).len(), 8);
    }
}
