//! What all files of a set are read with.

use rocwheel_archive::{MemberMemory, PackedSource};
use rocwheel_progress::Reporter;

use crate::rules::Rules;

pub(crate) struct Planner<'a> {
    pub(crate) rules: &'a Rules,
    /// Records of the wheels that this machine has packed.
    pub(crate) records: &'a PackedSource,
    pub(crate) memory: MemberMemory,
    pub(crate) reporter: &'a dyn Reporter,
}
