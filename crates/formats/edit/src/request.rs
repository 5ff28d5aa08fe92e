//! What the plans of wheels and source distributions are made from, apart from the file.

use std::path::Path;

use rocwheel_progress::Reporter;
use rocwheel_wheel::MemberPattern;

use crate::identity::Siblings;
use crate::wheel_edit::WheelEdit;

pub(crate) struct Request<'a> {
    pub(crate) edit: &'a WheelEdit,
    pub(crate) siblings: Siblings,
    pub(crate) scratch: &'a Path,
    pub(crate) reporter: &'a dyn Reporter,
}

/// Reports patterns that match no member. They are not an error, because then an edit could not be
/// repeated.
pub(crate) fn unmatched<'a>(
    patterns: impl Iterator<Item = &'a MemberPattern>,
    members: &[&str],
    what: &str,
    notes: &mut Vec<String>,
) {
    for pattern in patterns.filter(|pattern| !members.iter().any(|member| pattern.matches(member))) {
        notes.push(format!("nothing to {what}: no member matches `{}`", pattern.text()));
    }
}
