//! RW026: a file is for another machine than the tags, or than the file that needs it.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_loader::facts::Purpose;

use crate::Error;
use crate::analysis::machine::{machine_of, windows_machine};
use crate::analysis::traces::has_module_tag;
use crate::analysis::{Context, file_name, listed, platform_tags};
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::Machine, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::Machine, findings);
    for (wheel, _) in context.audited() {
        machines(context, wheel, findings);
        windows_machines(context, wheel, findings);
    }
    Ok(())
}

fn machines(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let promised: BTreeSet<String> =
        platform_tags(installed).filter_map(|(_, platform)| platform.machine().map(str::to_owned)).collect();
    if promised.is_empty() {
        return;
    }
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.objects(wheel).filter(|(path, _)| has_module_tag(file_name(path))) {
        let machine = machine_of(object);
        let is_promised = promised.contains(machine) || machine == "armv7l" && promised.contains("armv6l");
        if !is_promised && matches!(object.purpose, Purpose::Native | Purpose::OtherMachine) {
            files.entry(machine).or_default().push(path);
        }
    }
    for (machine, paths) in files {
        let tags = listed(promised.iter().map(String::as_str));
        let message = format!("is for {machine}, and the tag is for {tags}");
        findings.push(context.finding((Code::Machine, wheel), machine, message, paths).naming(&promised));
    }
}

fn windows_machines(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let promised = context.site.distributions[wheel].platforms();
    if promised.is_empty() || !promised.iter().all(|tag| tag.starts_with("win")) {
        return;
    }
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in context.paths(wheel).iter().filter(|path| path.ends_with(".pyd")) {
        let Some(file) = context.facts.windows.get(*path) else { continue };
        let machine = windows_machine(file.as_ref());
        if !promised.iter().any(|tag| tag == machine) {
            files.entry(machine).or_default().push(path);
        }
    }
    for (machine, paths) in files {
        let message = format!("is for {machine}, and the tag is for {}", listed(promised.iter().map(String::as_str)));
        findings.push(context.finding((Code::Machine, wheel), machine, message, paths).naming(&promised));
    }
}
