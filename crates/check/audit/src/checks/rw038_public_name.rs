//! RW038: a name of the set is free on the public index, or has files there that installers may
//! take.

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::PublicName, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.install_faults(Code::PublicName, findings);
    Ok(())
}
