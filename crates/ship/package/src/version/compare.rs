//! Input: two versions. Output: the one that pip installs if both are available, and the reasons as
//! sentences.

use std::cmp::Ordering;

use pep440_rs::{LocalSegment, Version};
use rocwheel_progress::Failure;

use super::usage;

/// The way in which pip orders two versions of one distribution.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Comparison {
    /// The version that pip installs, in canonical form; `None` if both are the same version to
    /// pip.
    pub preferred: Option<String>,
    /// The other version; `None` if both are the same version to pip.
    pub passed_over: Option<String>,
    /// The deciding parts of the versions, one sentence each.
    pub reasons: Vec<String>,
    /// Surprising effects of this pair, one sentence each.
    pub warnings: Vec<String>,
}

/// Compares two versions in PEP 440's order. Pip installs the higher one, unless only that one is a
/// pre-release.
///
/// # Errors
/// One of the texts is not a version.
pub fn compare(left: &str, right: &str) -> Result<Comparison, Failure> {
    let (left_version, right_version) = (parse(left)?, parse(right)?);
    let mut warnings = Vec::new();
    for (text, version) in [(left, &left_version), (right, &right_version)] {
        let canonical = version.to_string();
        if canonical != text {
            warnings.push(format!("pip reads `{text}` as `{canonical}`"));
        }
    }
    let (higher, lower) = match left_version.cmp(&right_version) {
        Ordering::Equal => {
            let reasons = vec!["both are the same version to pip: it keeps whichever is installed".to_owned()];
            return Ok(Comparison { preferred: None, passed_over: None, reasons, warnings });
        }
        Ordering::Greater => (&left_version, &right_version),
        Ordering::Less => (&right_version, &left_version),
    };
    let mut reasons = vec![format!("`{higher}` is the higher version: {}", deciding_part(higher, lower))];
    warnings.extend(local_trap(higher, lower));

    // Without --pre, pip only considers pre-releases if there is nothing else (PEP 440, "Handling
    // of pre-releases").
    let (mut preferred, mut passed_over) = (higher, lower);
    if higher.any_prerelease() && !lower.any_prerelease() {
        (preferred, passed_over) = (lower, higher);
        reasons.push(format!(
            "but `{higher}` is a pre-release, and pip passes over pre-releases while there is a final version: it takes \
             `{lower}`; with `--pre`, or when `{higher}` is asked for with `==`, it takes `{higher}`"
        ));
    }
    Ok(Comparison {
        preferred: Some(preferred.to_string()),
        passed_over: Some(passed_over.to_string()),
        reasons,
        warnings,
    })
}

pub(super) fn parse(text: &str) -> Result<Version, Failure> {
    text.parse().map_err(|_| {
        let hint = "suffixes that work are `rcN`, `aN`, `.postN`, `.devN` and `+` with letters, digits and dots";
        usage(format!("`{text}` is not a version that pip accepts (PEP 440)"), hint)
    })
}

/// Describes the first part, in PEP 440's order of comparison, in which the two differ.
fn deciding_part(higher: &Version, lower: &Version) -> String {
    if higher.epoch() != lower.epoch() {
        return format!("epoch {} is above {}", higher.epoch(), lower.epoch());
    }
    if compare_release(higher.release(), lower.release()) != Ordering::Equal {
        return format!("release {} is above {}", dotted(higher.release()), dotted(lower.release()));
    }
    let (higher_public, lower_public) = (higher.clone().without_local(), lower.clone().without_local());
    if higher_public != lower_public {
        return format!("{} comes after {}", stage(higher), stage(lower));
    }
    match (higher.local(), lower.local()) {
        (_, []) => format!("`+{}` added to the same version makes it higher", local_text(higher.local())),
        (above, below) => deciding_segment(above, below),
    }
}

/// Compares release numbers. Trailing zeros do not count: 7.1 equals 7.1.0.
fn compare_release(left: &[u64], right: &[u64]) -> Ordering {
    let length = left.len().max(right.len());
    let [left, right] = [left, right].map(|numbers| {
        let mut numbers = numbers.to_vec();
        numbers.resize(length, 0);
        numbers
    });
    left.cmp(&right)
}

fn dotted(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// Describes the stage of a version: pre-release, post-release, development build or final.
fn stage(version: &Version) -> String {
    let mut parts = Vec::new();
    if let Some(prerelease) = version.pre() {
        parts.push(format!("pre-release {prerelease}"));
    }
    if let Some(post) = version.post() {
        parts.push(format!("post-release {post}"));
    }
    if let Some(dev) = version.dev() {
        parts.push(format!("development build dev{dev}"));
    }
    if parts.is_empty() { "the final release".to_owned() } else { parts.join(", ") }
}

fn local_text(segments: &[LocalSegment]) -> String {
    segments.iter().map(LocalSegment::to_string).collect::<Vec<_>>().join(".")
}

/// Describes the segment of the local part that decides between two that differ.
fn deciding_segment(above: &[LocalSegment], below: &[LocalSegment]) -> String {
    for (high, low) in above.iter().zip(below) {
        if high == low {
            continue;
        }
        return match (high, low) {
            (LocalSegment::Number(_), LocalSegment::Number(_)) => {
                format!("the local part differs first at `{high}` and `{low}`, and {high} is the larger number")
            }
            (LocalSegment::Number(_), LocalSegment::String(_)) => {
                format!("in local parts a number (`{high}`) is above any text (`{low}`)")
            }
            _ => format!(
                "the local part differs first at `{high}` and `{low}`, which compare as text, letter by letter, \
                 because they begin with a letter"
            ),
        };
    }
    format!("`+{}` has more segments than `+{}`", local_text(above), local_text(below))
}

/// Warns about numbers in texts: `+rocm10.0` sorts below `+rocm7.0` because `rocm10` and `rocm7`
/// are compared as texts, in which 1 comes before 7.
fn local_trap(higher: &Version, lower: &Version) -> Option<String> {
    if higher.clone().without_local() != lower.clone().without_local() {
        return None;
    }
    let (above, below) = higher.local().iter().zip(lower.local()).find(|(above, below)| above != below)?;
    let (above, below) = (above.to_string(), below.to_string());
    let (above_word, above_number) = split_number(&above)?;
    let (below_word, below_number) = split_number(&below)?;
    if above_word != below_word || above_word.is_empty() || above_number >= below_number {
        return None;
    }
    let (later, earlier) = above.chars().zip(below.chars()).find(|(left, right)| left != right)?;
    Some(format!(
        "`{above}` wins over the newer `{below}`, because as text `{later}` comes after `{earlier}`: keep the two on \
         separate indexes, or ask for the exact version with `==`"
    ))
}

/// Splits `rocm10` into (`rocm`, 10).
fn split_number(segment: &str) -> Option<(&str, u64)> {
    let digits = segment.find(|character: char| character.is_ascii_digit())?;
    let (word, number) = segment.split_at(digits);
    Some((word, number.parse().ok()?))
}
