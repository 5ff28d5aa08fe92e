//! The type of a check: the code of its findings, its scope, and its function.

use crate::Error;
use crate::analysis::Context;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

/// A check. Each file `checks/rwNNN_name.rs` defines one, as its constant `CHECK`.
pub(crate) struct Check {
    /// The code of every finding that the check adds.
    pub(crate) code: Code,
    /// [`AuditScope::Names`] if the check also runs in audits that look at names only.
    pub(crate) scope: AuditScope,
    pub(crate) run: fn(&Context<'_>, &mut Vec<Finding>) -> Result<(), Error>,
}
