//! RW030: METADATA requires another ROCm than the files are linked to, or what no version can be.

use crate::Error;
use crate::analysis::{Context, listed};
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::WrongRequirement, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::WrongRequirement, findings);
    for (wheel, installed) in context.audited() {
        for group in context.declared.contradictions(wheel) {
            let texts = group.iter().map(|requirement| requirement.text.as_str());
            let message = format!("requires {}, which no version meets", listed(texts));
            let finding = Finding::new(Code::WrongRequirement, group[0].name.clone(), message);
            findings.push(finding.of(installed.file_name()));
        }
    }
    Ok(())
}
