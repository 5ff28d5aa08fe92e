//! Input: the rules of a stream, a set of distributions, and signed verdicts of test suites.
//! Output: a decision for each suite and GPU target, if the set may go into the stream.
//!
//! A verdict is about bytes: one that names a file of the set with another SHA-256 does not count.
//! Of the verdicts of a suite on a target, one that is complete replaces an older one about the
//! same files; every one that is left has to have passed. So a later run for Python 3.13 does not
//! hide a failure of Python 3.12. Only a pass is ignored for its date, because a machine whose
//! clock is ahead still finds failures.

mod policy;
mod summary;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_wheel::WheelName;
use serde::Serialize;

use policy::FoundBypass;
pub use policy::{GateBypass, GatePolicy, UntestedRule};
pub use summary::decision_statement;
pub use verdict::{SetVerdicts, SuiteResult, SuiteVerdict, VERDICT_TYPE};

use crate::stream::sets::ReleaseSet;
use crate::views::target;

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
    /// The word for it.
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

/// The decision about a suite on a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRow {
    /// The suite.
    pub suite: String,
    /// The GPU target; `None` for a set that has none.
    pub target: Option<String>,
    /// The result.
    pub state: GateState,
    /// The names of the verdicts that decided it.
    pub verdicts: Vec<String>,
    /// SHA-256 of their files, because files of several folders may have one name.
    #[serde(skip)]
    digests: Vec<String>,
    /// A sentence about it.
    pub reason: String,
    /// The bypass that lets it through.
    pub bypass: Option<String>,
    /// `true` if the set may not go out because of it.
    pub blocks: bool,
}

/// A verdict that does not count, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct IgnoredVerdict {
    /// The name of its file.
    pub verdict: String,
    /// The cause.
    pub reason: String,
}

/// The decision if a set may go into a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateDecision {
    /// The name of the set.
    pub set: String,
    /// When it was decided.
    pub time: Timestamp,
    /// Suites and targets, in the order of the policy.
    pub rows: Vec<GateRow>,
    /// Verdicts that do not count.
    pub ignored: Vec<IgnoredVerdict>,
    /// Names of wheels that no passed suite installed.
    pub untested: Vec<String>,
    /// `true` if those wheels block the set.
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

    /// Why it may not, a line each.
    pub fn objections(&self) -> Vec<String> {
        let mut found: Vec<String> = self
            .rows
            .iter()
            .filter(|row| row.blocks)
            .map(|row| {
                let target = row.target.as_ref().map(|target| format!(" on {target}")).unwrap_or_default();
                format!("suite `{}`{target}: {}", row.suite, row.reason)
            })
            .collect();
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

/// Decides if a set may go into the stream `stream`.
pub fn decide(policy: &GatePolicy, set: &ReleaseSet, verdicts: &SetVerdicts, now: Timestamp) -> GateDecision {
    let subject = Subject::of(set);
    let (mut counted, mut ignored) = (Vec::new(), verdicts.unreadable.clone());
    for verdict in &verdicts.verdicts {
        let reason = match subject.tested(verdict) {
            _ if verdict.signers.is_empty() => "no key of the gate has signed it".to_owned(),
            _ if verdict.judged() == SuiteResult::Passed && verdict.finished > now => {
                format!("it was finished on {}, in the future", verdict.finished)
            }
            _ if verdict.is_empty() => "it says passed, and no test passed".to_owned(),
            // A failure of a selection is still a failure.
            _ if policy.selections == UntestedRule::Blocked
                && verdict.judged() == SuiteResult::Passed
                && !verdict.selection.is_empty() =>
            {
                let selected = verdict.selected();
                format!("it is not about the whole suite: {selected} (`selections = \"recorded\"` lets it count)")
            }
            Err(reason) => reason,
            Ok(files) => {
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
    let (mut rows, mut used) = (Vec::new(), BTreeSet::new());
    for target in &targets {
        for suite in policy.suites_of(*target) {
            let mut row = row(policy, &subject, &counted, (suite, *target));
            match policy.bypass(suite, *target, &set.name, now).filter(|_| row.state != GateState::Passed) {
                Some(FoundBypass::Valid(bypass)) => {
                    row.bypass = Some(bypass.name.clone());
                    row.blocks = false;
                    used.insert(bypass.name.clone());
                }
                Some(FoundBypass::Expired(bypass)) => {
                    row.reason.push_str(&format!("; the bypass `{}` expired after {}", bypass.name, bypass.expires));
                }
                None => {}
            }
            rows.push(row);
        }
    }
    let suites: BTreeSet<&str> = rows.iter().map(|row| row.suite.as_str()).collect();
    let passed = |one: &&Counted<'_, '_>| {
        one.verdict.judged() == SuiteResult::Passed && suites.contains(one.verdict.suite.as_str())
    };
    let tested: BTreeSet<&str> = counted.iter().filter(passed).flat_map(|one| one.files.iter().copied()).collect();
    let is_untested = |name: &&&str| WheelName::is_wheel(**name) && !tested.contains(**name);
    let untested: Vec<String> = subject.files.keys().filter(is_untested).map(|name| (*name).to_owned()).collect();
    GateDecision {
        set: set.name.clone(),
        time: now,
        rows,
        ignored,
        untested_blocks: policy.untested == UntestedRule::Blocked && !untested.is_empty(),
        untested,
        bypasses: policy.bypasses.iter().filter(|bypass| used.contains(&bypass.name)).cloned().collect(),
    }
}

fn row(
    policy: &GatePolicy,
    subject: &Subject<'_>,
    counted: &[Counted<'_, '_>],
    (suite, target): (&str, Option<&str>),
) -> GateRow {
    let is_here = |one: &&Counted<'_, '_>| {
        one.verdict.suite == suite && target.is_none_or(|target| one.verdict.targets.contains(target))
    };
    let here: Vec<&Counted<'_, '_>> = counted.iter().filter(is_here).collect();
    let is_complete = |one: &&&Counted<'_, '_>| one.verdict.judged() != SuiteResult::Incomplete;
    let complete: Vec<&Counted<'_, '_>> = here.iter().filter(is_complete).copied().collect();
    // A newer verdict about the same files, or more, replaces this one.
    let is_replaced = |one: &Counted<'_, '_>| {
        complete.iter().any(|other| {
            other.verdict.finished > one.verdict.finished && one.files.iter().all(|file| other.files.contains(file))
        })
    };
    let valid: Vec<&Counted<'_, '_>> = complete.iter().copied().filter(|one| !is_replaced(one)).collect();
    let open: Vec<&Counted<'_, '_>> = here
        .iter()
        .copied()
        .filter(|one| one.verdict.judged() == SuiteResult::Incomplete && !is_replaced(one))
        .collect();
    let failed: Vec<&Counted<'_, '_>> =
        valid.iter().copied().filter(|one| one.verdict.judged() == SuiteResult::Failed).collect();
    let has_device_wheel = || {
        let Some(wheels) = target.and_then(|target| subject.device_wheels.get(target)) else { return true };
        valid.iter().any(|one| wheels.iter().any(|wheel| one.files.contains(wheel)))
    };
    let (state, deciding, reason) = if let Some(first) = failed.first() {
        let (name, counted) = (&first.verdict.name, first.verdict.counted());
        let reason = if first.verdict.contradicts_itself() {
            format!("`{name}` says passed, but counts failures ({counted})")
        } else {
            format!("it failed ({counted})")
        };
        (GateState::Failed, failed, reason)
    } else if let Some(first) = open.first() {
        let reason = format!("it did not run to its end ({})", first.verdict.counted());
        (GateState::Incomplete, open, reason)
    } else if let (Some(first), true) = (valid.first(), has_device_wheel()) {
        let reason = first.verdict.counted();
        (GateState::Passed, valid, reason)
    } else if !valid.is_empty() {
        let reason = "it passed, but without the wheels for this target".to_owned();
        (GateState::Missing, valid, reason)
    } else if policy.has_runner(target) {
        (GateState::Missing, Vec::new(), "there is no verdict about these bytes".to_owned())
    } else {
        (GateState::NoRunner, Vec::new(), "there is no verdict about these bytes, and no runner".to_owned())
    };
    let blocks = match state {
        GateState::Passed => false,
        GateState::NoRunner => policy.no_runner == UntestedRule::Blocked,
        GateState::Failed | GateState::Incomplete | GateState::Missing => true,
    };
    GateRow {
        suite: suite.to_owned(),
        target: target.map(str::to_owned),
        state,
        verdicts: deciding.iter().map(|one| one.verdict.name.clone()).collect(),
        digests: deciding.iter().map(|one| one.verdict.sha256.clone()).collect(),
        reason,
        bypass: None,
        blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::sets::SetFile;

    fn set() -> ReleaseSet {
        let mut set = ReleaseSet::new("rocm-7.12.0rc1", Timestamp::UNIX_EPOCH);
        for (key, sha256) in [
            ("rocm-sdk-core/core.whl", "c"),
            ("rocm-sdk-device-gfx942/gfx942.whl", "9"),
            ("rocm-sdk-device-gfx1100/gfx1100.whl", "1"),
        ] {
            set.files.insert(key.to_owned(), SetFile { sha256: sha256.to_owned(), ..SetFile::default() });
        }
        set.targets_promised = vec!["gfx1100".to_owned(), "gfx942".to_owned()];
        set
    }

    fn verdict(name: &str, result: SuiteResult, target: &str, finished: i64, files: &[(&str, &str)]) -> SuiteVerdict {
        SuiteVerdict {
            name: name.to_owned(),
            sha256: name.to_owned(),
            envelope: Vec::new(),
            suite: "smoke".to_owned(),
            result,
            targets: BTreeSet::from([target.to_owned()]),
            counts: BTreeMap::new(),
            selection: Vec::new(),
            finished: Timestamp::from_second(finished).unwrap(),
            subjects: files.iter().map(|(name, sha256)| ((*name).to_owned(), (*sha256).to_owned())).collect(),
            signers: vec!["key".to_owned()],
        }
    }

    fn states(policy: &str, verdicts: Vec<SuiteVerdict>) -> (Vec<GateState>, GateDecision) {
        let policy: GatePolicy = toml::from_str(policy).unwrap();
        let verdicts = SetVerdicts { verdicts, unreadable: Vec::new() };
        let decision = decide(&policy, &set(), &verdicts, Timestamp::from_second(1000).unwrap());
        (decision.rows.iter().map(|row| row.state).collect(), decision)
    }

    const CORE: (&str, &str) = ("core.whl", "c");
    const OLD: (&str, &str) = ("gfx1100.whl", "1");
    const NEW: (&str, &str) = ("gfx942.whl", "9");

    #[test]
    fn every_suite_has_to_pass_on_every_target() {
        use SuiteResult::{Failed, Incomplete, Passed};
        let passed = || verdict("a", Passed, "gfx942", 1, &[CORE, NEW]);
        let (found, decision) = states("suites = ['smoke']", vec![passed()]);
        assert_eq!(found, [GateState::Missing, GateState::Passed]);
        assert_eq!(decision.objections(), ["suite `smoke` on gfx1100: there is no verdict about these bytes"]);
        let both = vec![passed(), verdict("b", Passed, "gfx1100", 1, &[CORE, OLD])];
        assert!(states("suites = ['smoke']", both).1.is_open());
        let other = vec![verdict("b", Passed, "gfx1100", 1, &[CORE, ("gfx1100.whl", "other")])];
        let (found, decision) = states("suites = ['smoke']", other);
        assert_eq!(found[0], GateState::Missing);
        assert!(decision.ignored[0].reason.contains("other bytes"), "{decision:?}");
        let bare = vec![verdict("b", Passed, "gfx1100", 1, &[CORE])];
        assert_eq!(states("suites = ['smoke']", bare).0[0], GateState::Missing, "the device wheel was not installed");
        let late = vec![verdict("b", Passed, "gfx1100", 2000, &[CORE, OLD])];
        assert_eq!(states("suites = ['smoke']", late).0[0], GateState::Missing, "of the future");
        // A later failure counts, and so does an older one about other files.
        let then = vec![passed(), verdict("b", Failed, "gfx942", 2, &[CORE, NEW])];
        assert_eq!(states("suites = ['smoke']", then).0[1], GateState::Failed);
        let repaired = vec![verdict("b", Failed, "gfx942", 0, &[CORE, NEW]), passed()];
        assert_eq!(states("suites = ['smoke']", repaired).0[1], GateState::Passed);
        let elsewhere = vec![verdict("b", Failed, "gfx942", 0, &[CORE, NEW, OLD]), passed()];
        assert_eq!(states("suites = ['smoke']", elsewhere).0[1], GateState::Failed);
        let counts = BTreeMap::from([("passed".to_owned(), 0), ("skipped".to_owned(), 9)]);
        let nothing = SuiteVerdict { counts, ..verdict("b", Passed, "gfx1100", 1, &[CORE, OLD]) };
        assert_eq!(nothing.counted(), "9 skipped, finished 1970-01-01T00:00:01Z");
        let (found, decision) = states("suites = ['smoke']", vec![nothing]);
        assert_eq!(
            (found[0], &*decision.ignored[0].reason),
            (GateState::Missing, "it says passed, and no test passed")
        );
        let open = vec![verdict("b", Incomplete, "gfx942", 2, &[CORE, NEW])];
        assert_eq!(states("suites = ['smoke']", open).0[1], GateState::Incomplete);
    }

    #[test]
    fn a_failure_counts_whatever_the_clock_of_its_machine_says() {
        use SuiteResult::{Failed, Incomplete, Passed};
        for (result, state) in [(Failed, GateState::Failed), (Incomplete, GateState::Incomplete)] {
            let files = [CORE, NEW];
            let both = vec![verdict("a", Passed, "gfx942", 1, &files), verdict("b", result, "gfx942", 2000, &files)];
            let (found, decision) = states("suites = ['smoke']", both.clone());
            assert_eq!(found[1], state);
            assert!(decision.ignored.is_empty(), "{decision:?}");
            assert_eq!(both.iter().map(|one| decision.is_made_of(one)).collect::<Vec<_>>(), [false, true]);
        }
    }

    #[test]
    fn a_pass_that_counts_failures_is_a_failure() {
        let counts = [("passed", 12), ("failed", 9), ("crashed", 2)].map(|(name, count)| (name.to_owned(), count));
        let counts = BTreeMap::from(counts);
        let files = [CORE, NEW];
        let contradiction = SuiteVerdict { counts, ..verdict("b.json", SuiteResult::Passed, "gfx942", 2, &files) };
        let older = verdict("a.json", SuiteResult::Passed, "gfx942", 1, &files);
        let (found, decision) = states("suites = ['smoke']", vec![older, contradiction]);
        assert_eq!(found[1], GateState::Failed);
        let reason = &decision.rows[1].reason;
        let expected = "`b.json` says passed, but counts failures (2 crashed, 9 failed, 12 passed, ";
        assert!(reason.starts_with(expected), "{reason}");
    }

    #[test]
    fn a_selection_of_a_suite_is_no_pass_of_it() {
        let selected = |result: SuiteResult| {
            let selection = vec!["-k nn".to_owned()];
            vec![SuiteVerdict { selection, ..verdict("a", result, "gfx942", 1, &[CORE, NEW]) }]
        };
        let (found, decision) = states("suites = ['smoke']", selected(SuiteResult::Passed));
        assert_eq!(found[1], GateState::Missing);
        let reason = &decision.ignored[0].reason;
        assert!(reason.starts_with("it is not about the whole suite: selected by `-k nn`"), "{reason}");
        assert_eq!(states("suites = ['smoke']", selected(SuiteResult::Failed)).0[1], GateState::Failed);
        let recorded = "suites = ['smoke']\nselections = 'recorded'\n";
        let (found, decision) = states(recorded, selected(SuiteResult::Passed));
        assert_eq!(found[1], GateState::Passed);
        assert!(decision.rows[1].reason.contains("selected by `-k nn`"), "{decision:?}");
    }

    #[test]
    fn the_policy_says_what_may_be_untested() {
        let passed = || vec![verdict("a", SuiteResult::Passed, "gfx942", 1, &[CORE, NEW])];
        let runners = "suites = ['smoke']\nrunners = ['gfx942']\n";
        let (found, decision) = states(runners, passed());
        assert!(found[0] == GateState::NoRunner && !decision.is_open());
        let recorded = format!("{runners}no-runner = 'recorded'\n");
        assert!(states(&recorded, passed()).1.is_open());
        assert!(!states(&recorded, Vec::new()).1.is_open(), "gfx942 has a runner");
        let strict = format!("{recorded}untested = 'blocked'\n");
        let (_, decision) = states(&strict, passed());
        assert_eq!(decision.objections(), ["`gfx1100.whl`: no passed suite installed it"]);
        let fewer = "suites = ['smoke']\nsuites-for = { gfx1100 = [] }\n";
        assert_eq!(states(fewer, passed()).0, [GateState::Passed]);
        let bypass = |expires: &str| {
            let row = "suites = ['smoke']\n[[bypass_tests_for_releases]]\nname = 'x'\nreason = 'y'\n";
            format!("{row}targets = ['gfx1100']\nexpires = {expires}\n")
        };
        let (found, decision) = states(&bypass("'1970-01-02'"), passed());
        assert!(found[0] == GateState::Missing && decision.is_open() && decision.bypasses.len() == 1);
        assert!(states(&bypass("1970-01-02"), passed()).1.is_open(), "a date of TOML");
        let (_, decision) = states(&bypass("'1969-12-31'"), passed());
        assert!(decision.objections()[0].ends_with("; the bypass `x` expired after 1969-12-31"), "{decision:?}");
        let policy: GatePolicy = toml::from_str(&format!("runners = ['gfx94l']\n{}", bypass("'1970-01-02'"))).unwrap();
        assert_eq!(policy.targets().collect::<Vec<_>>(), ["gfx94l", "gfx1100"]);
        let failed = vec![verdict("a", SuiteResult::Failed, "gfx942", 1, &[CORE, NEW])];
        assert!(!states(&bypass("'1970-01-02'"), failed).1.is_open(), "it is for another target");
    }
}
