//! The parts of suites: which there have to be, which there are, and whether they are parts of one
//! whole.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{ReportedRun, ReportedTest, ShardCoverage};
use crate::outcome::WholeCollection;

/// The suites that were divided. A suite on other GPU targets is another one: a part on gfx1100 is
/// no substitute for that on gfx942.
#[derive(Debug, Default)]
pub(crate) struct ShardTable {
    suites: BTreeMap<(String, BTreeSet<String>), DividedSuite>,
}

#[derive(Debug)]
struct DividedSuite {
    coverage: ShardCoverage,
    /// The complete runs of ours, and what each collected before it took its part.
    wholes: Vec<(u32, Option<WholeCollection>)>,
}

impl ShardTable {
    /// The coverage of a suite; a new one expects `shards` parts.
    pub(crate) fn entry(&mut self, suite: &str, targets: &BTreeSet<String>, shards: u32) -> &mut ShardCoverage {
        let found = self.suites.entry((suite.to_owned(), targets.clone())).or_insert_with_key(|(suite, targets)| {
            let (suite, targets, seen) = (suite.clone(), targets.clone(), BTreeSet::new());
            DividedSuite { coverage: ShardCoverage { suite, targets, expected: shards, seen }, wholes: Vec::new() }
        });
        &mut found.coverage
    }

    /// Notes what a shard collected before it took its part; old runs do not say it.
    pub(crate) fn note_whole(
        &mut self,
        suite: &str,
        targets: &BTreeSet<String>,
        run: u32,
        whole: Option<WholeCollection>,
    ) {
        if let Some(found) = self.suites.get_mut(&(suite.to_owned(), targets.clone())) {
            found.wholes.push((run, whole));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.suites.is_empty()
    }

    /// Sentences about results that are missing. `wanted` is the number of shards that the user
    /// expects.
    pub(crate) fn check(&mut self, wanted: u32, tests: &[ReportedTest], runs: &[ReportedRun]) -> Vec<String> {
        let mut lost = Vec::new();
        for suite in self.suites.values_mut() {
            let coverage = &mut suite.coverage;
            coverage.expected = coverage.expected.max(wanted);
            let missing = coverage.missing();
            for shard in &missing {
                let (words, expected) = (coverage.words(), coverage.expected);
                lost.push(format!("shard {shard} of {expected} of {words} has no complete report"));
            }
            if missing.is_empty() {
                lost.extend(suite.lost_between_shards(tests, runs));
            }
        }
        lost
    }

    pub(crate) fn into_coverage(self) -> Vec<ShardCoverage> {
        self.suites.into_values().map(|suite| suite.coverage).collect()
    }
}

impl DividedSuite {
    /// Tests that are in no shard, since the shards were made in different ways.
    fn lost_between_shards(&self, tests: &[ReportedTest], runs: &[ReportedRun]) -> Option<String> {
        let known: Vec<(u32, &WholeCollection)> =
            self.wholes.iter().filter_map(|(run, whole)| Some((*run, whole.as_ref()?))).collect();
        let (first_run, first) = known.first()?;
        let words = self.coverage.words();
        if let Some((run, other)) = known.iter().find(|(_, whole)| whole != first) {
            let [first_path, path] = [*first_run, *run].map(|run| runs[run as usize].path.display());
            return Some(format!(
                "the shards of {words} collected different tests: `{first_path}` has {}, and `{path}` has {}",
                first.tests, other.tests
            ));
        }
        if known.len() < self.wholes.len() {
            return None;
        }
        let own: BTreeSet<u32> = known.iter().map(|(run, _)| *run).collect();
        let of_suite = tests.iter().filter(|test| *test.suite == *self.coverage.suite);
        let found = of_suite.filter(|test| test.attempts.iter().any(|attempt| own.contains(&attempt.run)));
        let found = found.count() as u64;
        (found < first.tests).then(|| {
            format!(
                "the shards of {words} have {found} of the {} tests that were collected: they were divided in \
                 different ways, so give all of them the same `--durations`",
                first.tests
            )
        })
    }
}
