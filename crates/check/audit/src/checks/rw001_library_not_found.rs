//! RW001: a needed library is nowhere ([`crate::analysis::missing`]).

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::LibraryNotFound, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::LibraryNotFound, findings);
    Ok(())
}
