//! Input: the collected tests. Output: those of one shard.

use std::collections::BTreeMap;

/// The tests of shard `index` (from 1) of `count`, in the order in which they were collected. Every
/// shard computes the same parts.
pub(super) fn part(ids: &[String], durations: &BTreeMap<String, f64>, index: u32, count: u32) -> Vec<String> {
    if count <= 1 {
        return ids.to_vec();
    }
    let own = assign(ids, durations, count).into_iter().nth((index.max(1) - 1) as usize).unwrap_or_default();
    let own: std::collections::BTreeSet<String> = own.into_iter().collect();
    ids.iter().filter(|id| own.contains(*id)).cloned().collect()
}

/// The longest test first, each to the shard with the least to do. A test without a time counts as
/// an average one.
fn assign(ids: &[String], durations: &BTreeMap<String, f64>, shards: u32) -> Vec<Vec<String>> {
    let known: Vec<f64> = ids.iter().filter_map(|id| durations.get(id).copied()).collect();
    let average = if known.is_empty() { 1.0 } else { known.iter().sum::<f64>() / known.len() as f64 };
    let mut order: Vec<(f64, &String)> =
        ids.iter().map(|id| (durations.get(id).copied().unwrap_or(average), id)).collect();
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    let mut parts: Vec<(f64, Vec<String>)> = vec![(0.0, Vec::new()); shards as usize];
    for (seconds, id) in order {
        if let Some(least) = parts.iter_mut().min_by(|one, other| one.0.total_cmp(&other.0)) {
            least.0 += seconds;
            least.1.push(id.clone());
        }
    }
    parts.into_iter().map(|(_, ids)| ids).collect()
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
