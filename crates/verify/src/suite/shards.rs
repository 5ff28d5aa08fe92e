//! Input: the collected tests. Output: those of one shard.

use std::collections::{BTreeMap, BTreeSet};

use crate::shard::assign;

/// The tests of shard `index` (from 1) of `count`, in the order in which they were collected. Every
/// shard computes the same parts.
pub(super) fn part(ids: &[String], durations: &BTreeMap<String, f64>, index: u32, count: u32) -> Vec<String> {
    if count <= 1 {
        return ids.to_vec();
    }
    let parts = assign(ids, durations, count);
    let own: BTreeSet<String> =
        parts.into_iter().nth((index.max(1) - 1) as usize).unwrap_or_default().into_iter().collect();
    ids.iter().filter(|id| own.contains(*id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
