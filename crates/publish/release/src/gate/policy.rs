//! Input: the policy of a gate, and a verdict or a decision. Output: why the verdict does not
//! count, and the bypass that lets the decision through.

use globset::Glob;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rocwheel_stream::{GateBypass, GatePolicy, UntestedRule};

use super::verdict::{RunnerWord, SuiteResult, SuiteVerdict};
use super::{GateRow, GateState};

/// The reason for which a verdict does not count. A signed failure always counts: also one of a
/// selection, and at any date.
pub(super) fn find_objection(policy: &GatePolicy, verdict: &SuiteVerdict, now: Timestamp) -> Option<String> {
    if verdict.signers.is_empty() {
        return Some("no key of the gate has signed it".to_owned());
    }
    if verdict.judged() != SuiteResult::Passed {
        return None;
    }
    let finished = verdict.finished;
    if finished > now {
        return Some(format!("it was finished on {finished}, in the future"));
    }
    if let Some(days) = policy.max_age_days
        && now.duration_since(finished) > SignedDuration::from_hours(24 * i64::from(days.get()))
    {
        return Some(format!("it was finished on {finished}, more than {days} days ago (`max-age-days`)"));
    }
    if verdict.is_empty() {
        return Some("it says passed, and no test passed".to_owned());
    }
    if policy.selections == UntestedRule::Blocked && !verdict.selection.is_empty() {
        let selected = verdict.selected();
        let words = format!("it is not about the whole suite: {selected} (`selections = \"recorded\"` lets it count)");
        return Some(words);
    }
    let is_unknown = verdict.runner == RunnerWord::Unknown;
    (is_unknown && policy.unknown_runner_exit == UntestedRule::Blocked).then(|| {
        "it does not say how the runner of the tests ended (`unknown-runner-exit = \"recorded\"` lets it count)"
            .to_owned()
    })
}

/// The first bypass that lets a row through, or else the first one that is for missing
/// verdicts, or else the first one that has expired.
pub(super) fn find_bypass<'p>(
    policy: &'p GatePolicy,
    row: &GateRow,
    set: &str,
    now: Timestamp,
) -> Option<FoundBypass<'p>> {
    let today = now.to_zoned(TimeZone::UTC).date();
    let fitting = policy.bypasses.iter().filter(|bypass| is_for(bypass, row, set));
    let found = fitting.map(|bypass| match row.state {
        _ if bypass.expires < today => FoundBypass::Expired(bypass),
        GateState::Failed if !bypass.over_failure => FoundBypass::ForMissing(bypass),
        _ => FoundBypass::Valid(bypass),
    });
    found.min_by_key(FoundBypass::rank)
}

fn is_for(bypass: &GateBypass, row: &GateRow, set: &str) -> bool {
    is_all_or_has(&bypass.suites, &row.suite)
        && row.target.as_deref().map_or(bypass.targets.is_empty(), |target| is_all_or_has(&bypass.targets, target))
        && (bypass.sets.is_empty() || bypass.sets.iter().any(|pattern| fits(pattern, set)))
}

fn is_all_or_has(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|known| known == name)
}

/// A bypass for a suite on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FoundBypass<'a> {
    /// It holds.
    Valid(&'a GateBypass),
    /// It holds, but the suite failed, and it does not say that it is for failures.
    ForMissing(&'a GateBypass),
    /// It held until its last day.
    Expired(&'a GateBypass),
}

impl FoundBypass<'_> {
    fn rank(&self) -> u8 {
        match self {
            Self::Valid(_) => 0,
            Self::ForMissing(_) => 1,
            Self::Expired(_) => 2,
        }
    }
}

fn fits(pattern: &str, set: &str) -> bool {
    Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(set))
}
