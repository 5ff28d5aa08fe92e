//! What all files of a set are read with.

use rocwheel_archive::MemberMemory;
use rocwheel_progress::Reporter;

use crate::rules::Rules;

pub(crate) struct Planner<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) memory: MemberMemory,
    pub(crate) reporter: &'a dyn Reporter,
}
