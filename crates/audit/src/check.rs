//! What a check is: the code of its findings, how much of the wheels it looks at, and the function
//! that looks.

use crate::Error;
use crate::analysis::Context;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

/// A check. Each file `checks/rwNNN_name.rs` has one, as its constant `CHECK`.
pub(crate) struct Check {
    /// The code of every finding that it adds.
    pub(crate) code: Code,
    /// [`AuditScope::Names`] for a check that is run even where only names are looked at.
    pub(crate) scope: AuditScope,
    /// Adds the findings.
    pub(crate) run: fn(&Context<'_>, &mut Vec<Finding>) -> Result<(), Error>,
}
