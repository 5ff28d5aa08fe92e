//! The selection of changes that count as failures.

use std::collections::BTreeSet;

use rocwheel_progress::{Exit, Failure};

use crate::change::{Change, ChangeKind};
use crate::report::{ComparisonReport, PackageReport};

/// The kinds of changes that are failures unless they are accepted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailOn {
    kinds: BTreeSet<ChangeKind>,
    growth: Option<Growth>,
}

/// The amount by which a package may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Ten-thousandths of the old size.
    Parts(u64),
    /// Number of bytes.
    Bytes(u64),
}

impl FailOn {
    /// Selects every kind of change. Without a limit for growth, the size of a package alone is not
    /// a failure.
    pub fn any() -> FailOn {
        FailOn { kinds: ChangeKind::ALL.iter().copied().collect(), growth: None }
    }

    /// Parses a comma-separated list of names of changes, `any`, `any-but-version`, `growth=5%` or
    /// `growth=20MB`.
    ///
    /// # Errors
    /// A name of no change, with the nearest one; a limit that is no amount.
    pub fn parse(list: &str) -> Result<FailOn, Failure> {
        let mut parsed = FailOn::default();
        for rule in list.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
            if rule == "any" {
                parsed.kinds.extend(ChangeKind::ALL);
            } else if rule == "any-but-version" {
                parsed.kinds.extend(ChangeKind::ALL.iter().filter(|kind| !kind.is_version()));
            } else if let Some(limit) = rule.strip_prefix("growth=") {
                parsed.growth = Some(Growth::parse(limit).ok_or_else(|| not_a_limit(limit))?);
                parsed.kinds.insert(ChangeKind::Growth);
            } else if rule == ChangeKind::Growth.name() {
                return Err(not_a_limit(rule));
            } else {
                parsed.kinds.insert(kind(rule)?);
            }
        }
        Ok(parsed)
    }

    /// Adds a change to every package that grew by more than the limit, in the bytes to download or
    /// in the folder.
    pub fn measure(&self, report: &mut ComparisonReport) {
        let Some(growth) = self.growth else { return };
        for package in &mut report.packages {
            package.changes.extend(growth.of(package));
        }
    }

    /// Returns the number of changes that are failures: of these kinds, and not accepted.
    pub fn failures(&self, report: &ComparisonReport) -> usize {
        report.changes().filter(|(_, _, change)| self.is_failure(change)).count()
    }

    pub fn is_failure(&self, change: &Change) -> bool {
        change.accepted.is_none() && self.kinds.contains(&change.kind)
    }
}

fn kind(rule: &str) -> Result<ChangeKind, Failure> {
    ChangeKind::ALL.iter().copied().find(|kind| kind.name() == rule).ok_or_else(|| {
        let nearest = rocwheel_progress::nearest(rule, ChangeKind::ALL.iter().map(|kind| kind.name()));
        let hint = nearest.map_or_else(
            || "`rocwheel diff --explain` lists the changes; `any` means all of them".to_owned(),
            |nearest| format!("did you mean `{nearest}`?"),
        );
        let failure = Failure::message(format!("`{rule}` is not a change that `--fail-on` knows"));
        failure.with_hint(hint).with_exit(Exit::Usage)
    })
}

fn not_a_limit(text: &str) -> Failure {
    let failure = Failure::message(format!("`{text}` is not a limit for growth"));
    failure.with_hint("it looks like `5%`, `20MB` or `0`").with_exit(Exit::Usage)
}

impl Growth {
    fn parse(text: &str) -> Option<Growth> {
        const UNITS: [(&str, u64); 5] =
            [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000), ("KB", 1000), ("B", 1)];
        if let Some(percent) = text.strip_suffix('%') {
            return scaled(percent, 100).map(Growth::Parts);
        }
        let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
        let (amount, factor) = unit.unwrap_or((text, 1));
        scaled(amount, factor).map(Growth::Bytes)
    }

    fn of(self, package: &PackageReport) -> Option<Change> {
        let (old, new) = (package.old.as_ref()?.size, package.new.as_ref()?.size);
        let allowed = match self {
            Growth::Parts(parts) => (u128::from(old) * u128::from(parts) / 10_000) as u64,
            Growth::Bytes(bytes) => bytes,
        };
        let is_over = new > old.saturating_add(allowed);
        is_over.then(|| Change::new(ChangeKind::Growth).values(format!("{old} bytes"), format!("{new} bytes")))
    }
}

/// Multiplies a decimal number by a power of ten and truncates the result.
fn scaled(text: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || !whole.chars().chain(fraction.chars()).all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let mut value = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let mut place = factor;
    for digit in fraction.chars().filter_map(|digit| digit.to_digit(10)) {
        place /= 10;
        value = value.checked_add(u64::from(digit) * place)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_names_and_limits() {
        let parsed = FailOn::parse("growth=5%, new-needed,lost-file").unwrap();
        assert_eq!(parsed.growth, Some(Growth::Parts(500)));
        assert!(parsed.is_failure(&Change::new(ChangeKind::NewNeeded)));
        assert!(!parsed.is_failure(&Change::new(ChangeKind::NewFile)));
        assert_eq!(FailOn::parse("growth=1.5MB").unwrap().growth, Some(Growth::Bytes(1_500_000)));
        assert_eq!(FailOn::parse("growth=0").unwrap().growth, Some(Growth::Bytes(0)));
        assert!(FailOn::parse("any").unwrap().is_failure(&Change::new(ChangeKind::Mode)));
        let nightly = FailOn::parse("any-but-version").unwrap();
        for (kind, expected) in
            [(ChangeKind::VersionText, false), (ChangeKind::Version, false), (ChangeKind::Mode, true)]
        {
            assert_eq!(nightly.is_failure(&Change::new(kind)), expected, "{kind}");
        }
    }

    #[test]
    fn wrong_rules_have_a_nearest_name() {
        let error = FailOn::parse("needed-new").unwrap_err();
        assert!(error.hint().unwrap().starts_with("did you mean `"), "{:?}", error.hint());
        assert_eq!(FailOn::parse("new-neded").unwrap_err().hint(), Some("did you mean `new-needed`?"));
        for wrong in ["growth=", "growth=x%", "growth=-1", "growth", "growth=1e9", "growth=5 %5"] {
            let error = FailOn::parse(wrong).unwrap_err().to_string();
            assert!(error.ends_with("` is not a limit for growth"), "{wrong}: {error}");
        }
    }
}
