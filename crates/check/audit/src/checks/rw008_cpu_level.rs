//! RW008: a file needs a newer CPU than any tag can promise.

use std::collections::BTreeMap;

use crate::Error;
use crate::analysis::Context;
use crate::analysis::cpu::{folder_level, level, level_name};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::CpuLevel, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        cpu_level(context, wheel, findings);
    }
    Ok(())
}

fn cpu_level(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let mut files: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.native(wheel) {
        if level(object) > folder_level(path) {
            files.entry(level(object)).or_default().push(path);
        }
    }
    for (level, paths) in files {
        let name = level_name(level);
        let message = format!("is marked as needing a CPU of {name}, and no tag can say so");
        let finding = context.finding((Code::CpuLevel, wheel), name, message, paths);
        findings.push(if level == 2 { finding.weighing(Severity::Warning) } else { finding });
    }
}
