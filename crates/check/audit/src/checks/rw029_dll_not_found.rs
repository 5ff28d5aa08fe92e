//! RW029: Windows does not find a DLL ([`crate::analysis::windows`]).

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::DllNotFound, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::DllNotFound, findings);
    Ok(())
}
