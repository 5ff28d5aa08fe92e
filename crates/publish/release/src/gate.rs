//! Input: the rules of a stream, a set of distributions, and signed verdicts of test suites.
//! Output: a decision for each suite and GPU target, if the set may go into the stream.
//!
//! A verdict is about bytes: one that names a file of the set with another SHA-256 does not count.
//! Of the verdicts of a suite on a target, one that is complete replaces an older one about the
//! same files; every one that is left has to have passed. So a later run for Python 3.13 does not
//! hide a failure of Python 3.12. Only a pass is ignored for its date, because a machine whose
//! clock is ahead still finds failures.

mod census;
mod policy;
mod rows;
mod summary;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_pages::views::target;
use rocwheel_stream::{GateBypass, GatePolicy, ReleaseSet, UntestedRule};
use rocwheel_wheel::WheelName;
use serde::Serialize;

pub use census::{AbsentTests, LastRelease};
use policy::{FoundBypass, find_bypass, find_objection};
use rows::RowMaker;
pub use summary::decision_statement;
pub use verdict::{RunnerWord, SetVerdicts, SuiteResult, SuiteVerdict, VERDICT_TYPE, VerdictCensus};

/// The result of a suite on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// Every verdict that counts says so.
    Passed,
    /// At least one verdict says so.
    Failed,
    /// The suite did not run to its end.
    Incomplete,
    /// There is no verdict about these bytes.
    Missing,
    /// There is no verdict, and no runner could have made one.
    NoRunner,
}

impl GateState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Incomplete => "incomplete",
            Self::Missing => "missing",
            Self::NoRunner => "no runner",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRow {
    pub suite: String,
    pub target: Option<String>,
    pub state: GateState,
    /// The names of the verdicts that decided it.
    pub verdicts: Vec<String>,
    /// SHA-256 of their files, because files of several folders may have one name.
    #[serde(skip)]
    digests: Vec<String>,
    /// A sentence about it.
    pub reason: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedVerdict>,
    /// Tests of the last set of the stream that have no result on this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<AbsentTests>,
    pub bypass: Option<String>,
    /// `true` if the set may not go out because of it.
    pub blocks: bool,
}

impl GateRow {
    /// ``suite `smoke` on gfx942``.
    pub fn name(&self) -> String {
        let target = self.target.as_ref().map(|target| format!(" on {target}")).unwrap_or_default();
        format!("suite `{}`{target}", self.suite)
    }

    /// `true` if a bypass lets a failure through.
    pub fn is_over_failure(&self) -> bool {
        self.bypass.is_some() && self.state == GateState::Failed
    }
}

/// A failure that does not count any more, because the suite was run again on the same files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplacedVerdict {
    pub verdict: String,
    /// SHA-256 of its file in hexadecimal.
    pub sha256: String,
    /// Its numbers, and when it was finished.
    pub reason: String,
}

/// A verdict that does not count, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct IgnoredVerdict {
    pub verdict: String,
    pub reason: String,
}

/// The decision if a set may go into a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateDecision {
    pub set: String,
    pub time: Timestamp,
    /// Suites and targets, in the order of the policy.
    pub rows: Vec<GateRow>,
    pub ignored: Vec<IgnoredVerdict>,
    /// Names of wheels that no passed suite installed.
    pub untested: Vec<String>,
    pub untested_blocks: bool,
    /// The bypasses that were needed, in full.
    pub bypasses: Vec<GateBypass>,
}

impl GateDecision {
    /// `true` if the set may go out.
    pub fn is_open(&self) -> bool {
        self.objections().is_empty()
    }

    /// `true` if the verdict decided about a suite on a target.
    pub fn is_made_of(&self, verdict: &SuiteVerdict) -> bool {
        self.rows.iter().any(|row| row.digests.contains(&verdict.sha256))
    }

    /// `true` if a bypass lets a failure out.
    pub fn is_over_failure(&self) -> bool {
        self.rows.iter().any(GateRow::is_over_failure)
    }

    /// Failures that were run again until they passed, a clause each.
    pub fn replaced_failures(&self) -> Vec<String> {
        let all = self.rows.iter().flat_map(|row| row.replaced.iter().map(move |one| (row, one)));
        all.map(|(row, one)| {
            format!(
                "{}: a newer verdict about the same files replaces a failure, `{}` ({})",
                row.name(),
                one.verdict,
                one.reason
            )
        })
        .collect()
    }

    /// Why the set may not go out, a line each.
    pub fn objections(&self) -> Vec<String> {
        let mut found: Vec<String> =
            self.rows.iter().filter(|row| row.blocks).map(|row| format!("{}: {}", row.name(), row.reason)).collect();
        if self.untested_blocks {
            found.extend(self.untested.iter().map(|name| format!("`{name}`: no passed suite installed it")));
        }
        found
    }
}

/// The set that a decision is about.
struct Subject<'a> {
    /// SHA-256 of the files by their names.
    files: BTreeMap<&'a str, &'a str>,
    /// Names of the wheels for one target.
    device_wheels: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Subject<'a> {
    fn of(set: &'a ReleaseSet) -> Subject<'a> {
        let files = set.files.iter().map(|(key, file)| (file_name(key), file.sha256.as_str())).collect();
        let mut device_wheels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for key in set.files.keys() {
            if let Some(target) = target(parent(key)) {
                device_wheels.entry(target).or_default().insert(file_name(key));
            }
        }
        Subject { files, device_wheels }
    }

    /// The files of the set that a verdict is about. The error is the reason why it does not count.
    fn tested(&self, verdict: &SuiteVerdict) -> Result<BTreeSet<&'a str>, String> {
        let mut found = BTreeSet::new();
        for (name, sha256) in &verdict.subjects {
            match self.files.get_key_value(file_name(name)) {
                Some((_, expected)) if *expected != sha256 => {
                    return Err(format!("it is about other bytes of `{name}`"));
                }
                Some((name, _)) => {
                    found.insert(*name);
                }
                None => {}
            }
        }
        if found.is_empty() { Err("it is about no file of the set".to_owned()) } else { Ok(found) }
    }
}

/// A verdict that counts, and the files of the set that it is about.
struct Counted<'v, 's> {
    verdict: &'v SuiteVerdict,
    files: BTreeSet<&'s str>,
}

/// What a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct GateEvidence<'a> {
    pub verdicts: &'a SetVerdicts,
    /// The last set that the stream took, with its verdicts.
    pub last: Option<&'a LastRelease>,
    pub now: Timestamp,
}

/// Decides if a set may go into a stream.
pub fn decide(policy: &GatePolicy, set: &ReleaseSet, evidence: GateEvidence<'_>) -> GateDecision {
    let GateEvidence { verdicts, now, .. } = evidence;
    let subject = Subject::of(set);
    let (mut counted, mut ignored) = (Vec::new(), verdicts.unreadable.clone());
    for verdict in &verdicts.verdicts {
        let reason = match (find_objection(policy, verdict, now), subject.tested(verdict)) {
            (Some(reason), _) | (None, Err(reason)) => reason,
            (None, Ok(files)) => {
                counted.push(Counted { verdict, files });
                continue;
            }
        };
        ignored.push(IgnoredVerdict { verdict: verdict.name.clone(), reason });
    }
    ignored.sort();
    let targets: Vec<Option<&str>> = match &set.targets_promised[..] {
        [] => vec![None],
        targets => targets.iter().map(|target| Some(target.as_str())).collect(),
    };
    let maker = RowMaker { policy, subject: &subject, counted: &counted, evidence };
    let mut rows = Vec::new();
    for target in &targets {
        for suite in policy.suites_of(*target) {
            let mut row = maker.row(suite, *target);
            if row.blocks || row.state != GateState::Passed {
                row.pass_by(find_bypass(policy, &row, &set.name, now));
            }
            rows.push(row);
        }
    }
    let used: BTreeSet<&String> = rows.iter().filter_map(|row| row.bypass.as_ref()).collect();
    let suites: BTreeSet<&str> = rows.iter().map(|row| row.suite.as_str()).collect();
    let passed = counted.iter().filter(|one| one.verdict.judged() == SuiteResult::Passed);
    let passed = passed.filter(|one| suites.contains(one.verdict.suite.as_str()));
    let tested: BTreeSet<&str> = passed.flat_map(|one| one.files.iter().copied()).collect();
    let wheels = subject.files.keys().filter(|name| WheelName::is_wheel(**name));
    let untested: Vec<String> = wheels.filter(|name| !tested.contains(**name)).map(|name| (*name).to_owned()).collect();
    GateDecision {
        set: set.name.clone(),
        time: now,
        bypasses: policy.bypasses.iter().filter(|bypass| used.contains(&bypass.name)).cloned().collect(),
        rows,
        ignored,
        untested_blocks: policy.untested == UntestedRule::Blocked && !untested.is_empty(),
        untested,
    }
}

impl GateRow {
    /// Lets it through, or says why the bypass does not.
    fn pass_by(&mut self, found: Option<FoundBypass<'_>>) {
        match found {
            Some(FoundBypass::Valid(bypass)) => {
                self.bypass = Some(bypass.name.clone());
                self.blocks = false;
            }
            Some(FoundBypass::ForMissing(bypass)) => self.reason.push_str(&format!(
                "; the bypass `{}` is for missing verdicts, and not for a failure (`over-failure = true`)",
                bypass.name
            )),
            Some(FoundBypass::Expired(bypass)) => {
                self.reason.push_str(&format!("; the bypass `{}` expired after {}", bypass.name, bypass.expires));
            }
            None => {}
        }
    }
}
