//! RW012: METADATA lacks a requirement for libraries that the files need, or has one that the set
//! does not meet or that installers cannot read.

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::MissingRequirement, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::MissingRequirement, findings);
    unmet(context, findings);
    Ok(())
}

/// Reports requirements that the set does not meet, and those that no installer can read.
pub(crate) fn unmet(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for (wheel, installed) in context.audited() {
        for invalid in &context.declared.wheels[wheel].invalid {
            let text = shortened(&invalid.text);
            let message = format!("requires `{text}`, which pip and uv cannot read: {}", invalid.reason);
            let finding = Finding::new(Code::MissingRequirement, &*invalid.text, message);
            findings.push(finding.of(installed.file_name()));
        }
    }
    for unmet in context.declared.unmet() {
        // A distribution that was not given at all is reported where a file needs it.
        let (true, Some(other)) = (context.is_audited(unmet.wheel), unmet.other) else { continue };
        let text = &unmet.requirement.text;
        let message = format!("requires `{text}`, and the set has version {}", context.declared.versions[other]);
        let wheel = context.site.distributions[unmet.wheel].file_name();
        findings.push(Finding::new(Code::MissingRequirement, unmet.requirement.name.clone(), message).of(wheel));
    }
}

/// A requirement for a message, at most 120 characters long: one that cannot be read may have any
/// length.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 120;
    let mut shortened: String = text.chars().take(LONGEST).collect();
    if shortened.len() < text.len() {
        shortened.push('…');
    }
    shortened
}
