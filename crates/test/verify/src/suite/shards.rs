//! Input: the collected tests. Output: those of one shard.

use std::collections::{BTreeMap, BTreeSet};

use crate::outcome::WholeCollection;
use crate::report::sha256_of_ids;
use crate::shard::assign;

/// What the shards together have to have. Shards that were made of other tests or with other
/// durations lose tests between them, and a report finds that by this. `folder` is
/// [`WholeCollection::folder`].
pub(super) fn whole(ids: &[String], folder: Option<String>) -> WholeCollection {
    let mut sorted: Vec<&String> = ids.iter().collect();
    sorted.sort_unstable();
    let sha256 = sha256_of_ids(sorted.into_iter().map(String::as_str));
    WholeCollection { tests: ids.len() as u64, sha256, folder }
}

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
    use rocwheel_content::{hexadecimal, sha256};

    use super::*;

    #[test]
    fn the_whole_does_not_depend_on_the_order() {
        let ids = ["b", "a"].map(str::to_owned);
        let found = whole(&ids, None);
        assert_eq!((found.tests, found.sha256), (2, hexadecimal(&sha256(b"a\nb\n"))));
        assert_eq!(whole(&["a".to_owned(), "b".to_owned()], None), whole(&ids, None));
        assert_ne!(whole(&["ab".to_owned()], None), whole(&ids, None));
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
