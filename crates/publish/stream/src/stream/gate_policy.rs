//! Input: the table `[gate]` of `stream.toml`, and rows of `bypass_tests_for_releases`. Output: the
//! suites that a set has to pass, and who may let it through without.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use globset::Glob;
use jiff::civil::Date;
use serde::{Deserialize, Deserializer, Serialize};

use super::{PublicKey, StreamFault};

/// The tests that a set has to pass before it goes into a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct GatePolicy {
    /// Names of suites, for each target; empty: everything goes in.
    pub suites: Vec<String>,
    /// Other suites for some targets.
    pub suites_for: BTreeMap<String, Vec<String>>,
    /// Targets with a machine that runs tests; `None`: all targets have one.
    pub runners: Option<Vec<String>>,
    /// The rule for a target without a runner and without a verdict.
    pub no_runner: UntestedRule,
    /// The rule for wheels that no passed suite installed, such as those for an older Python.
    pub untested: UntestedRule,
    /// The rule for verdicts of which a selection left tests out; blocked: they do not pass.
    pub selections: UntestedRule,
    /// The rule for verdicts that do not say how the test runner ended; blocked: they do not pass.
    pub unknown_runner_exit: UntestedRule,
    /// The rule for a suite of which tests of the last set of the stream are absent.
    pub absent_tests: UntestedRule,
    /// Days after which a pass does not count any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<NonZeroU32>,
    /// Public keys in PEM of which one has to have signed a verdict.
    pub keys: Vec<String>,
    /// Those who may let a set through without a passed suite.
    #[serde(rename = "bypass_tests_for_releases", alias = "bypass-tests-for-releases")]
    pub bypasses: Vec<GateBypass>,
}

/// What happens to a set with parts that were not tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UntestedRule {
    /// It may not go out.
    Blocked,
    /// It may, and the signed decision names the parts.
    Recorded,
}

impl Default for GatePolicy {
    fn default() -> GatePolicy {
        GatePolicy {
            suites: Vec::new(),
            suites_for: BTreeMap::new(),
            runners: None,
            no_runner: UntestedRule::Blocked,
            untested: UntestedRule::Recorded,
            selections: UntestedRule::Blocked,
            unknown_runner_exit: UntestedRule::Blocked,
            absent_tests: UntestedRule::Recorded,
            max_age_days: None,
            keys: Vec::new(),
            bypasses: Vec::new(),
        }
    }
}

/// A permission to go without a passed suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GateBypass {
    pub name: String,
    /// Why, in a sentence.
    pub reason: String,
    /// The last day on which it holds, in UTC: a date of TOML, or the same as text.
    #[serde(deserialize_with = "date")]
    pub expires: Date,
    /// It lets a suite through that failed, and not only one whose verdict is missing or
    /// incomplete.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over_failure: bool,
    /// The targets that it is for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// The suites that it is for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<String>,
    /// Patterns of the names of sets that it is for; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
}

fn date<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Date, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Date(toml::value::Datetime),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Text(text) => text,
        Written::Date(date) => date.to_string(),
    };
    text.parse()
        .map_err(|error| serde::de::Error::custom(format!("`{text}` is not a date such as 2027-01-31: {error}")))
}

/// The file with more bypasses.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BypassTable {
    #[serde(alias = "bypass-tests-for-releases")]
    bypass_tests_for_releases: Vec<GateBypass>,
}

impl GatePolicy {
    /// `true` if sets have to be tested.
    pub fn is_closed(&self) -> bool {
        !self.suites.is_empty() || self.suites_for.values().any(|suites| !suites.is_empty())
    }

    /// Errors for what cannot be meant.
    pub fn check(&self) -> Result<(), String> {
        self.public_keys().map_err(|fault| fault.to_string())?;
        check_bypasses(&self.bypasses)
    }

    /// The keys that sign verdicts.
    pub fn public_keys(&self) -> Result<Vec<PublicKey>, StreamFault> {
        let name = "a key of `keys` in [gate]";
        self.keys.iter().map(|text| Ok(PublicKey::parse(text, name)?)).collect()
    }

    /// Adds the rows of a file with `[[bypass_tests_for_releases]]`; `name` is what errors call it.
    pub fn add_bypasses(&mut self, text: &str, name: &str) -> Result<(), StreamFault> {
        let table: BypassTable = toml::from_str(text).map_err(|error| StreamFault::settings(name, &error))?;
        self.bypasses.extend(table.bypass_tests_for_releases);
        check_bypasses(&self.bypasses).map_err(|reason| StreamFault::settings(name, &reason))
    }

    pub fn suites_of(&self, target: Option<&str>) -> impl Iterator<Item = &str> {
        let own = target.and_then(|target| self.suites_for.get(target));
        own.unwrap_or(&self.suites).iter().map(String::as_str)
    }

    pub fn has_runner(&self, target: Option<&str>) -> bool {
        match (&self.runners, target) {
            (Some(runners), Some(target)) => runners.iter().any(|one| one == target),
            _ => true,
        }
    }

    /// Names of targets in the policy, for the caller to check that they exist.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let bypassed = self.bypasses.iter().flat_map(|bypass| &bypass.targets);
        self.suites_for.keys().chain(self.runners.iter().flatten()).chain(bypassed).map(String::as_str)
    }

    /// Names of suites that some set has to pass.
    pub fn required_suites(&self) -> BTreeSet<&str> {
        self.suites.iter().chain(self.suites_for.values().flatten()).map(String::as_str).collect()
    }

    /// The first suite of a bypass that no rule requires: the bypass would have no effect.
    pub fn unknown_suite(&self) -> Option<&str> {
        let known = self.required_suites();
        let mut named = self.bypasses.iter().flat_map(|bypass| &bypass.suites).map(String::as_str);
        named.find(|suite| !known.contains(suite))
    }
}

fn check_bypasses(bypasses: &[GateBypass]) -> Result<(), String> {
    for bypass in bypasses {
        let empty = [("name", &bypass.name), ("reason", &bypass.reason)];
        if let Some((key, _)) = empty.iter().find(|(_, text)| text.trim().is_empty()) {
            return Err(format!("a row of `bypass_tests_for_releases` has an empty `{key}`"));
        }
        if bypasses.iter().filter(|other| other.name == bypass.name).count() > 1 {
            return Err(format!("two rows of `bypass_tests_for_releases` are called `{}`", bypass.name));
        }
        for pattern in &bypass.sets {
            Glob::new(pattern).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
