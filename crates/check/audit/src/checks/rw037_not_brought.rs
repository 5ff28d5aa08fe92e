//! RW037: pip or uv, asked for a wheel, does not bring it with everything that it requires.

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::NotBrought, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.install_faults(Code::NotBrought, findings);
    Ok(())
}
