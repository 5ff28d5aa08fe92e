//! Input: the tests of a suite, and how long each took before. Output: parts that take about the
//! same time, each test in one of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use rocwheel_progress::Failure;

pub use crate::durations::{TestDurations, merge_durations, read_durations};
use crate::median::median;

/// Divides tests into `shards` parts: the longest first, each to the part with the least to do. A
/// test of unknown duration counts as one of the median duration. The result depends on the
/// identities and durations alone, and a part keeps the order of `ids`. Every index of `ids` is in
/// one part, so a repeated identity is so as well.
pub fn assign(ids: &[String], durations: &BTreeMap<String, f64>, shards: u32) -> Vec<Vec<String>> {
    let count = shards.max(1) as usize;
    let known: Vec<Option<f64>> = ids
        .iter()
        .map(|id| durations.get(id).copied().filter(|seconds| seconds.is_finite() && *seconds >= 0.0))
        .collect();
    let unknown = median(known.iter().flatten().copied().collect()).unwrap_or(1.0);
    // Nanoseconds are whole numbers, so that sums do not depend on their order.
    let nanoseconds: Vec<u64> = known.iter().map(|seconds| (seconds.unwrap_or(unknown) * 1e9) as u64).collect();
    let mut order: Vec<usize> = (0..ids.len()).collect();
    order.sort_by_key(|index| (Reverse(nanoseconds[*index]), &ids[*index], *index));
    let mut loads: BinaryHeap<Reverse<(u64, usize, usize)>> = (0..count).map(|part| Reverse((0, 0, part))).collect();
    let mut parts: Vec<Vec<usize>> = vec![Vec::new(); count];
    for index in order {
        let Reverse((load, tests, part)) = loads.pop().expect("there is at least one part");
        parts[part].push(index);
        // Tests of no duration are divided by their number.
        loads.push(Reverse((load + nanoseconds[index], tests + 1, part)));
    }
    for part in &mut parts {
        part.sort_unstable();
    }
    parts.into_iter().map(|part| part.into_iter().map(|index| ids[index].clone()).collect()).collect()
}

/// The tests of shard `index` (from 1) of `count`, in the order in which they were collected. Every
/// shard computes the same parts.
pub(crate) fn part(ids: &[String], durations: &BTreeMap<String, f64>, index: u32, count: u32) -> Vec<String> {
    if count <= 1 {
        return ids.to_vec();
    }
    let parts = assign(ids, durations, count);
    let own: BTreeSet<String> =
        parts.into_iter().nth((index.max(1) - 1) as usize).unwrap_or_default().into_iter().collect();
    ids.iter().filter(|id| own.contains(*id)).cloned().collect()
}

/// Proves that parts have the collected tests, each as often as it was collected.
pub fn check_union(ids: &[String], parts: &[Vec<String>]) -> Result<(), Failure> {
    let mut wanted: Vec<&String> = ids.iter().collect();
    let mut found: Vec<&String> = parts.iter().flatten().collect();
    wanted.sort_unstable();
    found.sort_unstable();
    if wanted == found {
        return Ok(());
    }
    let (found, wanted) = (found.len(), wanted.len());
    Err(Failure::message(format!("the shards have {found} tests, and {wanted} were collected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("test_{number:04}.py")).collect()
    }

    /// As many files and hours as PyTorch's job linux-noble-rocm-py3.12-mi300 had on 22 August 2026
    /// (811 files, 29.7 hours), log-normal as measured durations are. The numbers come from a
    /// generator, so that they are the same every time.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are left")]
    fn measured() -> (Vec<String>, TestDurations) {
        let ids = names(811);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 1.0) / 9_007_199_254_740_993.0
        };
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
        let raw: Vec<f64> = (0..ids.len()).map(|_| (1.6 * normal()).exp()).collect();
        let scale = 29.7 * 3600.0 / raw.iter().sum::<f64>();
        let durations = ids.iter().cloned().zip(raw.iter().map(|seconds| seconds * scale)).collect();
        (ids, durations)
    }

    #[test]
    #[allow(clippy::cast_precision_loss, reason = "there are few shards")]
    fn the_longest_shard_is_near_the_mean() {
        let (ids, durations) = measured();
        for shards in 1..=12 {
            let parts = assign(&ids, &durations, shards);
            check_union(&ids, &parts).unwrap();
            let loads: Vec<f64> = parts.iter().map(|part| part.iter().map(|id| durations[id]).sum()).collect();
            let mean = loads.iter().sum::<f64>() / loads.len() as f64;
            let longest = loads.iter().copied().fold(0.0, f64::max);
            assert!(longest / mean <= 1.1, "{shards} shards: {}", longest / mean);
        }
    }

    #[test]
    fn shards_depend_on_tests_and_durations_alone() {
        let ids = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let durations = TestDurations::from([("a".into(), 5.0), ("b".into(), 4.0), ("c".into(), 3.0)]);
        // The others count as 4 seconds, the median.
        assert_eq!(assign(&ids, &durations, 2), [vec!["a", "e"], vec!["b", "c", "d"]]);
        let mut other: Vec<String> = ids.clone();
        other.reverse();
        let sorted = |parts: Vec<Vec<String>>| {
            parts
                .into_iter()
                .map(|mut part| {
                    part.sort();
                    part
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(sorted(assign(&other, &durations, 2)), sorted(assign(&ids, &durations, 2)));
    }

    #[test]
    fn nothing_is_lost_whatever_the_numbers_are() {
        let ids = ["a", "a", "b"].map(str::to_owned).to_vec();
        for shards in [0, 1, 2, 3, 7] {
            let parts = assign(&ids, &TestDurations::new(), shards);
            assert_eq!(parts.len(), shards.max(1) as usize);
            check_union(&ids, &parts).unwrap();
        }
        let odd = TestDurations::from([("a".into(), f64::NAN), ("b".into(), -1.0)]);
        check_union(&ids, &assign(&ids, &odd, 2)).unwrap();
        assert!(check_union(&ids, &[vec!["a".into(), "b".into()]]).is_err());
        assert!(check_union(&ids, &[vec!["a".into(), "b".into(), "b".into()]]).is_err());
    }

    #[test]
    fn the_union_of_the_shards_is_everything() {
        let ids: Vec<String> = (0..100).map(|number| format!("test_{number}")).collect();
        let durations = BTreeMap::from([("test_7".to_owned(), 60.0), ("test_8".to_owned(), 1.0)]);
        let parts: Vec<Vec<String>> = (1..=3).map(|index| part(&ids, &durations, index, 3)).collect();
        let mut union: Vec<String> = parts.concat();
        assert_eq!(union.len(), 100);
        union.sort();
        let mut sorted = ids.clone();
        sorted.sort();
        assert_eq!(union, sorted);
    }
}
