//! RW017: RECORD has no hash for a file that installers take.

use rocwheel_wheel::read::WheelProblem;

use crate::Error;
use crate::analysis::Context;
use crate::analysis::record::RecordState;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::RecordHash, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        let Some(RecordState::Compared(problems)) = context.records.get(&wheel) else { continue };
        let unhashed: Vec<String> = problems
            .iter()
            .filter_map(|problem| match problem {
                WheelProblem::NoHash(name) => Some(name.clone()),
                _ => None,
            })
            .collect();
        if unhashed.is_empty() {
            continue;
        }
        let is_written = installed.has_hash_text(&unhashed)?;
        let what = if is_written { "no hash that installers take" } else { "no hash" };
        let (all, _) = installed.totals();
        let message = format!("RECORD has {what} for {} of {all} files", unhashed.len());
        let finding = Finding::new(Code::RecordHash, "RECORD", message).of(installed.file_name());
        findings.push(finding.in_files(unhashed).fixed_by(fix::record(installed)));
    }
    Ok(())
}
