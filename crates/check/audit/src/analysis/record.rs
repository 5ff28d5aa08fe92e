//! Input: the RECORD of an audited distribution. Output: its differences from the files.

use std::collections::BTreeMap;

use rocwheel_loader::cache::FactsCache;
use rocwheel_loader::site::{Distribution, Role, Site};
use rocwheel_progress::{Reporter, Unit};
use rocwheel_wheel::read::WheelProblem;

use super::expanded;
use crate::Error;
use crate::options::{ExtraCheck, Options};

/// Kind of the entries in the cache.
const DIFFERENCES: &str = "differences from RECORD";

pub(crate) enum RecordState {
    /// The distribution has no RECORD.
    Absent,
    /// It cannot be parsed, for this reason.
    Malformed(String),
    /// The differences from the files; their bytes are compared if [`ExtraCheck::Hashes`] was
    /// requested.
    Compared(Vec<WheelProblem>),
}

/// Compares the RECORD of every audited distribution with its files; keyed by the number of the
/// distribution.
pub(crate) fn read(
    site: &Site,
    options: &Options,
    reporter: &dyn Reporter,
) -> Result<BTreeMap<usize, RecordState>, Error> {
    let mut states = BTreeMap::new();
    let hashes = options.extras.contains(&ExtraCheck::Hashes);
    let audited = site.files.values().filter(|placed| site.distributions[placed.wheel].role == Role::Audited);
    let total = audited.map(|placed| placed.size).sum();
    let _stage = reporter.stage("Comparing files with RECORD", Some(total), Unit::Bytes);
    let audited = site.distributions.iter().enumerate().filter(|(_, distribution)| distribution.role == Role::Audited);
    for (number, distribution) in audited {
        reporter.check()?;
        let cache = options.cache.as_ref().filter(|_| hashes);
        let state = match problems(distribution, hashes, (cache, reporter)) {
            None => RecordState::Absent,
            Some(Err(
                error @ (rocwheel_loader::Error::Wheel(rocwheel_wheel::Error::Archive(
                    rocwheel_archive::Error::Malformed { .. },
                ))
                | rocwheel_loader::Error::Record { .. }),
            )) => RecordState::Malformed(error.to_string()),
            Some(problems) => RecordState::Compared(unexplained(distribution, problems?)),
        };
        states.insert(number, state);
    }
    Ok(states)
}

/// The differences, of a wheel from the cache if it has them. Those of a wheel that cannot be read
/// are not kept: perhaps the next run can read it.
fn problems(
    distribution: &Distribution,
    hashes: bool,
    (cache, reporter): (Option<&FactsCache>, &dyn Reporter),
) -> Option<Result<Vec<WheelProblem>, rocwheel_loader::Error>> {
    let known = cache.zip(distribution.wheel());
    if let Some(problems) = known.and_then(|(cache, wheel)| cache.read(DIFFERENCES, wheel)) {
        reporter.advance(distribution.totals().1);
        return Some(Ok(problems));
    }
    let problems = distribution.problems(hashes, reporter);
    if let (Some((cache, wheel)), Some(Ok(problems))) = (known, &problems)
        && !problems.iter().any(|problem| matches!(problem, WheelProblem::Unreadable(_)))
    {
        cache.write(DIFFERENCES, wheel, problems, reporter);
    }
    problems
}

/// Drops the problems that `rocm-sdk init` causes in the folder of an installed distribution.
fn unexplained(distribution: &Distribution, problems: Vec<WheelProblem>) -> Vec<WheelProblem> {
    match distribution.path.parent().filter(|_| distribution.installed().is_some()) {
        Some(folder) => expanded::unexplained(folder, problems),
        None => problems,
    }
}
