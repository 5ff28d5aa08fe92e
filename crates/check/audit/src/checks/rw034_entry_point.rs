//! RW034: an entry point that installers refuse, or whose module the wheel does not have.

use std::collections::BTreeMap;

use rocwheel_loader::site::{Distribution, Installed};
use rocwheel_progress::few_in_backticks;
use rocwheel_wheel::{EntryPoint, EntryPointFile};

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::EntryPoint, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        let member = format!("{}/entry_points.txt", installed.info());
        let Ok(bytes) = installed.bytes(&member) else { continue };
        let file = EntryPointFile::parse(&String::from_utf8_lossy(&bytes));
        for fault in &file.faults {
            let message = format!("`{}` {}", fault.line, fault.reason);
            let finding = Finding::new(Code::EntryPoint, fault.line.clone(), message).of(installed.file_name());
            findings.push(finding.in_files([member.clone()]));
        }
        missing_modules(context, (wheel, installed), (&file, &member), findings);
    }
    Ok(())
}

/// Reports entry points to modules that neither the wheel nor another one of the set has.
fn missing_modules(
    context: &Context<'_>,
    (wheel, installed): (usize, &Distribution),
    (file, member): (&EntryPointFile, &str),
    findings: &mut Vec<Finding>,
) {
    // The files of an editable installation are elsewhere.
    if !installed.is_complete() || installed.installed().and_then(Installed::editable).is_some() {
        return;
    }
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for entry in file.entries.iter().filter(|entry| is_reference(entry)) {
        if !has_module(context, entry.module()) {
            names.entry(entry.module()).or_default().push(&entry.name);
        }
    }
    for (module, names) in names {
        let top = module.split('.').next().unwrap_or(module);
        let own = format!("{}/{top}", context.site.packages());
        let is_own = context.paths(wheel).iter().any(|path| {
            path.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('/') || rest.starts_with('.'))
        });
        let unknown = context.requirements[wheel].unknown(context);
        let mut message =
            format!("{} leads to the module `{module}`, which no wheel of the set has", few_in_backticks(names, 3));
        let mut finding = Finding::new(Code::EntryPoint, module, String::new()).weighing(Severity::Warning);
        if !is_own && !unknown.is_empty() {
            message.push_str(&format!("; {}", crate::analysis::not_given(&unknown)));
            finding = finding.weighing(Severity::Note).naming(unknown);
        }
        finding.message = message;
        findings.push(finding.of(installed.file_name()).in_files([member]));
    }
}

/// `true` for a reference to a module or to an object in one. Groups other than those of programs
/// may have any text.
fn is_reference(entry: &EntryPoint) -> bool {
    !entry.target().contains(char::is_whitespace) && is_module_name(entry.module())
}

/// `true` for names with dots between them.
fn is_module_name(module: &str) -> bool {
    module.split('.').all(|part| {
        !part.is_empty()
            && !part.starts_with(|first: char| first.is_ascii_digit())
            && part.chars().all(|sign| sign.is_alphanumeric() || sign == '_')
    })
}

/// `true` if the environment has a module: as a file in Python, as a compiled one, or as a folder.
fn has_module(context: &Context<'_>, module: &str) -> bool {
    let path = format!("{}/{}", context.site.packages(), module.replace('.', "/"));
    if context.site.has_folder(&path) {
        return true;
    }
    let begins = format!("{path}.");
    let mut files = context.site.files.range(begins.clone()..).take_while(|(file, _)| file.starts_with(&begins));
    files.any(|(file, _)| [".py", ".pyc", ".so", ".pyd"].iter().any(|suffix| file.ends_with(suffix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_are_looked_for() {
        for (reference, expected) in [
            ("x:main", true),
            ("x.y_z:A.b [extra]", true),
            ("x.y", true),
            ("x y", false),
            ("x/y", false),
            ("1x:y", false),
        ] {
            let entry = EntryPoint { group: "g".to_owned(), name: "n".to_owned(), reference: reference.to_owned() };
            assert_eq!(is_reference(&entry), expected, "{reference}");
        }
    }
}
