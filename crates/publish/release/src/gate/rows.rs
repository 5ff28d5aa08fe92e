//! Input: the verdicts that count. Output: the state of a suite on a target, and why.

use rocwheel_progress::nearest;

use super::verdict::{SuiteResult, SuiteVerdict};
use super::{Counted, GateEvidence, GatePolicy, GateRow, GateState, ReplacedVerdict, Subject, UntestedRule};

/// What all rows are made from.
pub(super) struct RowMaker<'a> {
    pub(super) policy: &'a GatePolicy,
    pub(super) subject: &'a Subject<'a>,
    pub(super) counted: &'a [Counted<'a, 'a>],
    pub(super) evidence: GateEvidence<'a>,
}

/// The verdicts of a suite on a target.
struct SuiteVerdicts<'a> {
    /// Complete ones that no newer one replaces.
    valid: Vec<&'a Counted<'a, 'a>>,
    /// Incomplete ones that no newer one replaces.
    open: Vec<&'a Counted<'a, 'a>>,
    /// Failures that a newer one replaces.
    replaced: Vec<&'a Counted<'a, 'a>>,
}

impl<'a> SuiteVerdicts<'a> {
    fn of(here: &[&'a Counted<'a, 'a>]) -> SuiteVerdicts<'a> {
        let mut found = SuiteVerdicts { valid: Vec::new(), open: Vec::new(), replaced: Vec::new() };
        for one in here.iter().copied() {
            // A newer verdict about the same files, or more, replaces this one.
            let is_replaced = here.iter().any(|other| {
                other.verdict.judged() != SuiteResult::Incomplete
                    && other.verdict.finished > one.verdict.finished
                    && one.files.is_subset(&other.files)
            });
            match (one.verdict.judged(), is_replaced) {
                (SuiteResult::Failed, true) => found.replaced.push(one),
                (_, true) => {}
                (SuiteResult::Incomplete, false) => found.open.push(one),
                (SuiteResult::Passed | SuiteResult::Failed, false) => found.valid.push(one),
            }
        }
        found
    }
}

/// A state with the verdicts that decided it.
struct DecidedState<'a> {
    state: GateState,
    deciding: Vec<&'a Counted<'a, 'a>>,
    reason: String,
}

impl<'a> RowMaker<'a> {
    pub(super) fn row(&self, suite: &str, target: Option<&str>) -> GateRow {
        let here: Vec<&Counted<'_, '_>> = self.counted.iter().filter(|one| one.verdict.is_of(suite, target)).collect();
        let verdicts = SuiteVerdicts::of(&here);
        let DecidedState { state, deciding, mut reason } = self.decided(&verdicts, suite, target);
        let mut absent = None;
        if let (GateState::Passed, Some(last)) = (state, self.evidence.last) {
            let new: Vec<&SuiteVerdict> = deciding.iter().map(|one| one.verdict).collect();
            absent = last.absent(suite, target, &new);
        }
        if let Some(absent) = &absent {
            reason = format!("{}; {reason}", absent.words());
        }
        let blocks = match state {
            GateState::Passed => absent.is_some() && self.policy.absent_tests == UntestedRule::Blocked,
            GateState::NoRunner => self.policy.no_runner == UntestedRule::Blocked,
            GateState::Failed | GateState::Incomplete | GateState::Missing => true,
        };
        let replaced = verdicts.replaced.iter().map(|one| ReplacedVerdict {
            verdict: one.verdict.name.clone(),
            sha256: one.verdict.sha256.clone(),
            reason: one.verdict.counted(),
        });
        GateRow {
            suite: suite.to_owned(),
            target: target.map(str::to_owned),
            state,
            verdicts: deciding.iter().map(|one| one.verdict.name.clone()).collect(),
            digests: deciding.iter().map(|one| one.verdict.sha256.clone()).collect(),
            reason,
            replaced: replaced.collect(),
            absent,
            bypass: None,
            blocks,
        }
    }

    fn decided(&self, verdicts: &SuiteVerdicts<'a>, suite: &str, target: Option<&str>) -> DecidedState<'a> {
        let SuiteVerdicts { valid, open, .. } = verdicts;
        let failed: Vec<&Counted<'_, '_>> =
            valid.iter().copied().filter(|one| one.verdict.judged() == SuiteResult::Failed).collect();
        if let Some(first) = failed.first() {
            let (name, counted) = (&first.verdict.name, first.verdict.counted());
            let reason = match first.verdict.contradiction() {
                Some(contradiction) => format!("`{name}` says passed, but {contradiction} ({counted})"),
                None => format!("it failed ({counted})"),
            };
            return DecidedState { state: GateState::Failed, deciding: failed, reason };
        }
        if let Some(first) = open.first() {
            let reason = format!("it did not run to its end ({})", first.verdict.counted());
            return DecidedState { state: GateState::Incomplete, deciding: open.clone(), reason };
        }
        let deciding = valid.clone();
        if let Some(first) = valid.first() {
            if self.has_device_wheel(valid, target) {
                return DecidedState { state: GateState::Passed, deciding, reason: first.verdict.counted() };
            }
            let reason = "it passed, but without the wheels for this target".to_owned();
            return DecidedState { state: GateState::Missing, deciding, reason };
        }
        let (state, end) = if self.policy.has_runner(target) {
            (GateState::Missing, "")
        } else {
            (GateState::NoRunner, ", and no runner")
        };
        let others = self.counted.iter().map(|one| one.verdict.suite.as_str()).filter(|other| *other != suite);
        let meant = nearest(suite, others).map(|other| format!("; there is one of `{other}`")).unwrap_or_default();
        DecidedState { state, deciding, reason: format!("there is no verdict about these bytes{end}{meant}") }
    }

    /// `true` if one of the verdicts installed a wheel for the target, or there is none to install.
    fn has_device_wheel(&self, valid: &[&Counted<'_, '_>], target: Option<&str>) -> bool {
        let Some(wheels) = target.and_then(|target| self.subject.device_wheels.get(target)) else { return true };
        valid.iter().any(|one| wheels.iter().any(|wheel| one.files.contains(wheel)))
    }
}
