//! Input: the verdicts of the last set of a stream, and those of a new one. Output: the tests of
//! the last set that were not run on the new one.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_stream::{ReleaseSet, Stream, statement_key};
use serde::{Deserialize, Serialize};

use super::verdict::{SuiteResult, SuiteVerdict, VerdictCensus};
use crate::Error;

/// Ids that a decision names.
const EXAMPLES: usize = 3;

/// The last set of a stream, and the verdicts that let it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRelease {
    pub set: String,
    /// Its verdicts. Their signatures were verified when the set was published.
    pub verdicts: Vec<SuiteVerdict>,
}

/// Tests of the last set of the stream that have no result on the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentTests {
    pub set: String,
    /// Their number, or at least so many if the verdicts do not have the ids; `None` if it cannot
    /// be told whether some are absent.
    pub tests: Option<u64>,
    pub examples: Vec<String>,
}

impl AbsentTests {
    /// A clause about them.
    pub fn words(&self) -> String {
        let set = &self.set;
        let Some(tests) = self.tests else {
            return format!(
                "its tests are others than those of `{set}`; whether some are absent cannot be told (`test report \
                 --ids` puts their ids into verdicts)"
            );
        };
        let (noun, verb) = if tests == 1 { ("test", "is") } else { ("tests", "are") };
        if self.examples.is_empty() {
            return format!("at least {tests} {noun} of `{set}` {verb} absent");
        }
        format!("{tests} {noun} of `{set}` {verb} absent, such as `{}`", self.examples.join("`, `"))
    }
}

/// The tests of several verdicts together.
struct JoinedCensus<'a> {
    /// By the suites of the reports; `None` if one of the verdicts does not name them.
    ids: Option<BTreeSet<(&'a str, &'a str)>>,
    /// Number of tests, by suite: the largest of the verdicts.
    tests: BTreeMap<&'a str, u64>,
    digests: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> JoinedCensus<'a> {
    fn of(all: impl Iterator<Item = (&'a String, &'a VerdictCensus)>) -> JoinedCensus<'a> {
        let mut joined = JoinedCensus { ids: Some(BTreeSet::new()), tests: BTreeMap::new(), digests: BTreeSet::new() };
        for (suite, census) in all {
            joined.ids = joined.ids.take().zip(census.ids.as_ref()).map(|(mut known, ids)| {
                known.extend(ids.iter().map(|id| (suite.as_str(), id.as_str())));
                known
            });
            let most = joined.tests.entry(suite).or_default();
            *most = census.tests.max(*most);
            joined.digests.insert((suite, &census.sha256));
        }
        joined
    }
}

impl LastRelease {
    /// The newest set of a stream besides `set`, which may be published again; `None` if there is
    /// none.
    pub fn read(stream: &Stream<'_>, set: &ReleaseSet) -> Result<Option<LastRelease>, Error> {
        let names = stream.manifest.sets.keys().filter(|name| **name != set.name);
        let sets = names.map(|name| stream.set(name)).collect::<Result<Vec<_>, _>>()?;
        let Some(last) = sets.into_iter().max_by_key(|set| set.created) else { return Ok(None) };
        let mut verdicts = Vec::new();
        for sha256 in &last.statements {
            let key = statement_key(sha256);
            let Some(bytes) = stream.store.read(&key)? else { continue };
            verdicts.extend(SuiteVerdict::parse(bytes, &key, &[]).unwrap_or_default());
        }
        Ok(Some(LastRelease { set: last.name, verdicts }))
    }

    /// Compares the tests of a suite on a target with those of the verdicts about the new set.
    /// `None` if none is absent, or if the last set has no passed verdict that says which tests it
    /// had.
    pub(super) fn absent(&self, suite: &str, target: Option<&str>, new: &[&SuiteVerdict]) -> Option<AbsentTests> {
        let passed = self.verdicts.iter().filter(|verdict| verdict.judged() == SuiteResult::Passed);
        let old = passed.filter(|verdict| verdict.is_of(suite, target)).flat_map(|verdict| &verdict.census);
        let old = JoinedCensus::of(old);
        let new = JoinedCensus::of(new.iter().flat_map(|verdict| &verdict.census));
        let set = self.set.clone();
        if old.digests.is_subset(&new.digests) {
            return None;
        }
        if let (Some(old), Some(new)) = (&old.ids, &new.ids) {
            let absent: Vec<&(&str, &str)> = old.difference(new).collect();
            let examples = absent.iter().take(EXAMPLES).map(|(_, id)| (*id).to_owned()).collect();
            let tests = Some(absent.len() as u64);
            return (!absent.is_empty()).then_some(AbsentTests { set, tests, examples });
        }
        let lost =
            old.tests.iter().map(|(suite, tests)| tests.saturating_sub(new.tests.get(suite).copied().unwrap_or(0)));
        let fewer: u64 = lost.sum();
        Some(AbsentTests { set, tests: (fewer > 0).then_some(fewer), examples: Vec::new() })
    }
}
