//! Input: samples of two states. Output: whether one is slower, by the rule of the crate.

use serde::Serialize;
use statrs::stats_tests::Alternative;
use statrs::stats_tests::mannwhitneyu::{MannWhitneyUMethod, mannwhitneyu};

use super::formats::Better;
use crate::median::median;

/// The smallest relative movement of the median that counts.
const SMALLEST: f64 = 0.05;
/// Probability below which the rank test agrees; asv has the same limit.
const PROBABILITY: f64 = 0.002;
/// The standard deviation of a normal distribution in units of its MAD.
const DEVIATION: f64 = 1.4826;
/// Samples of each side below which nothing is decided.
const FEWEST: usize = 8;

/// Some samples in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    pub samples: usize,
    pub median: f64,
    /// Median of the distances from the median.
    pub deviation: f64,
    pub smallest: f64,
}

impl Summary {
    /// `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        let middle = median(samples.to_vec())?;
        let deviation = median(samples.iter().map(|sample| (sample - middle).abs()).collect())?;
        let smallest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        Some(Summary { samples: samples.len(), median: middle, deviation, smallest })
    }

    /// Three standard errors of the median.
    #[allow(clippy::cast_precision_loss, reason = "nobody takes 2^52 samples")]
    fn noise(&self) -> f64 {
        3.0 * DEVIATION * self.deviation / (self.samples as f64).sqrt()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BenchMovement {
    /// There is nothing to compare with.
    NoBaseline,
    /// No difference that counts.
    Same,
    Slower,
    Faster,
    /// Too few samples to decide.
    TooFew,
    /// The two states were measured under different conditions.
    OtherConditions,
    /// The two states were measured in units that cannot be compared.
    OtherUnit,
    /// One of the two states has the value 0, or less: something was not measured.
    Zero,
}

impl BenchMovement {
    /// The words for tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoBaseline => "no baseline",
            Self::Same => "same",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::TooFew => "too few samples",
            Self::OtherConditions => "other conditions",
            Self::OtherUnit => "other unit",
            Self::Zero => "zero",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchComparison {
    pub movement: BenchMovement,
    /// The new median divided by the old one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Probability of such ranks if nothing had changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

impl BenchComparison {
    /// No comparison, and why.
    pub fn none(movement: BenchMovement) -> BenchComparison {
        BenchComparison { movement, ratio: None, probability: None }
    }
}

/// Compares new samples with those of the baseline.
pub fn compare(before: &[f64], after: &[f64], better: Better) -> BenchComparison {
    let none = BenchComparison::none;
    let (Some(old), Some(new)) = (Summary::of(before), Summary::of(after)) else {
        return none(BenchMovement::NoBaseline);
    };
    if old.samples < FEWEST || new.samples < FEWEST {
        return none(BenchMovement::TooFew);
    }
    if (old.median > 0.0) != (new.median > 0.0) {
        return none(BenchMovement::Zero);
    }
    let method = MannWhitneyUMethod::AsymptoticInclContinuityCorrection;
    let probability =
        mannwhitneyu(before, after, method, Alternative::TwoSided).ok().map(|(_, probability)| probability);
    let moved = new.median - old.median;
    let limit = (SMALLEST * old.median.abs()).max(old.noise()).max(new.noise());
    // Equal samples have no ranks, and then nothing moved.
    let counts = moved.abs() > limit && probability.is_none_or(|probability| probability < PROBABILITY);
    let is_worse = (moved > 0.0) == (better == Better::Smaller);
    let movement = match (counts, is_worse) {
        (false, _) => BenchMovement::Same,
        (true, true) => BenchMovement::Slower,
        (true, false) => BenchMovement::Faster,
    };
    let ratio = (old.median != 0.0).then(|| new.median / old.median);
    BenchComparison { movement, ratio, probability }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Around `middle`, with `noise` to both sides.
    fn series(middle: f64, noise: f64) -> Vec<f64> {
        (0..24).map(|number| middle + noise * (f64::from(number * 7 % 24) / 12.0 - 1.0)).collect()
    }

    #[test]
    fn the_median_has_to_move_and_the_ranks_have_to_agree() {
        let movement = |before: &[f64], after: &[f64]| compare(before, after, Better::Smaller).movement;
        let base = series(100.0, 2.0);
        assert_eq!(movement(&base, &series(104.0, 2.0)), BenchMovement::Same, "below 5 %");
        assert_eq!(movement(&base, &series(112.0, 2.0)), BenchMovement::Slower);
        assert_eq!(movement(&base, &series(80.0, 2.0)), BenchMovement::Faster);
        assert_eq!(movement(&series(100.0, 60.0), &series(112.0, 60.0)), BenchMovement::Same, "noise");
        assert_eq!(movement(&base, &base[..4]), BenchMovement::TooFew);
        assert_eq!(movement(&[], &base), BenchMovement::NoBaseline);
        assert_eq!(movement(&[5.0; 20], &[5.0; 20]), BenchMovement::Same);
        assert_eq!(movement(&[5.0; 20], &[6.0; 20]), BenchMovement::Slower);
        assert_eq!(movement(&[5.0; 20], &[0.0; 20]), BenchMovement::Zero, "not faster");
        assert_eq!(movement(&[0.0; 20], &[5.0; 20]), BenchMovement::Zero, "and nothing to compare with");
        assert_eq!(movement(&[0.0; 20], &[0.0; 20]), BenchMovement::Same, "a number of leaks");
        assert_eq!(compare(&base, &series(112.0, 2.0), Better::Bigger).movement, BenchMovement::Faster);
    }

    #[test]
    fn summaries_are_robust() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 4.0, 1000.0]).unwrap();
        assert_eq!((summary.median, summary.deviation, summary.smallest), (3.0, 1.0, 1.0));
        assert_eq!(Summary::of(&[]), None);
    }
}
