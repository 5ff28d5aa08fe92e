//! RW015: two wheels install the same file.

use std::collections::BTreeMap;

use crate::Error;
use crate::analysis::expanded::is_in_tree;
use crate::analysis::{Context, file_name};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::SharedFile, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    clashes(context, findings);
    Ok(())
}

fn clashes(context: &Context<'_>, findings: &mut Vec<Finding>) {
    // (wheels, severity) → paths.
    let mut groups: BTreeMap<(Vec<usize>, Severity), Vec<&str>> = BTreeMap::new();
    for clash in &context.site.clashes {
        if !clash.wheels.iter().any(|wheel| context.is_audited(*wheel)) {
            continue;
        }
        // In an expanded devel tree, RECORD of both packages lists a file of a device package, so
        // that they can be removed in any order.
        let are_installed = clash.wheels.iter().all(|wheel| context.site.distributions[*wheel].installed().is_some());
        if clash.same && is_in_tree(context.site.shown(&clash.path)) && are_installed {
            continue;
        }
        let severity = match (clash.same, file_name(&clash.path)) {
            (true, "__init__.py") => Severity::Note,
            (true, _) => Severity::Warning,
            (false, _) => Severity::Error,
        };
        groups.entry((clash.wheels.clone(), severity)).or_default().push(&clash.path);
    }
    for ((wheels, severity), paths) in groups {
        let names: Vec<String> =
            wheels.iter().map(|wheel| format!("`{}`", context.site.distributions[*wheel].name)).collect();
        let first = paths.first().copied().unwrap_or_default();
        let shown = context.site.shown(first);
        let same = if severity == Severity::Error { "with different content" } else { "with the same content" };
        let message = format!("{} both install `{shown}`, {same}", names.join(" and "));
        let wheel = wheels.iter().copied().find(|wheel| context.is_audited(*wheel)).unwrap_or_default();
        let mut finding = Finding::new(Code::SharedFile, shown, message)
            .of(context.site.distributions[wheel].file_name())
            .in_files(paths.iter().map(|path| context.site.shown(path)))
            .weighing(severity);
        if severity == Severity::Error {
            finding = finding.fixed_by(fix::drop_files(&context.site.distributions[wheel], shown));
        }
        findings.push(finding);
    }
}
