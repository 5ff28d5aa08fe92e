//! RW032: installers refuse a file, so nothing else of it can be checked.

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::Refused, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for refused in &context.site.refused {
        let finding = Finding::new(Code::Refused, refused.file_name(), refused.reason.clone());
        findings.push(finding.of(refused.file_name()));
    }
    Ok(())
}
