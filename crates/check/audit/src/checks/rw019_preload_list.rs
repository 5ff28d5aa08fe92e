//! RW019: a preload list does not match the set. A library that a list lacks appears as a library
//! that is not found ([`crate::analysis::missing`]).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_loader::simulation::Where;
use rocwheel_tables::dlopen::DlopenTable;

use crate::Error;
use crate::analysis::{Context, file_name, listed};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use crate::options::AuditScope;
use rocwheel_imports::preload::{PreloadList, Resolved};

pub const CHECK: Check = Check { code: Code::PreloadList, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::PreloadList, findings);
    lists(context, findings);
    Ok(())
}

fn lists(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for (wheel, installed) in context.audited() {
        let used = used(context, wheel);
        for list in context.lists(wheel) {
            let mut faults: BTreeMap<(Severity, &str), Vec<&str>> = BTreeMap::new();
            for library in &list.libraries {
                let fault = match &library.found {
                    Resolved::Unknown => (Severity::Error, "`rocm_sdk` does not know them"),
                    Resolved::Absent { optional: false, .. } => (Severity::Warning, "no wheel of the set has them"),
                    Resolved::File(path) if !used.is_empty() && !is_used(context, path, &used, list) => {
                        (Severity::Note, "no file of the wheel needs them")
                    }
                    _ => continue,
                };
                faults.entry(fault).or_default().push(&library.shortname);
            }
            for ((severity, why), names) in faults {
                let message = format!("the preload list has {}, and {why}", listed(names.iter().copied()));
                let finding =
                    context.finding((Code::PreloadList, wheel), names.join(", "), message, [list.file.as_str()]);
                findings.push(finding.weighing(severity).fixed_by(fix::preload(installed)));
            }
        }
    }
}

/// The files of the set that the files of a wheel load because they are linked to them, directly or
/// through others, or because they load them by name.
fn used<'a>(context: &'a Context<'_>, wheel: usize) -> BTreeSet<&'a str> {
    let mut used = BTreeSet::new();
    for rooted in context.rooted.iter().filter(|rooted| rooted.wheel == wheel) {
        used.extend(rooted.trace.by_name.iter().map(|loaded| loaded.path.as_str()));
        let loaded = &rooted.trace.loaded;
        let mut open: Vec<usize> = (0..loaded.len())
            .filter(|index| matches!(&loaded[*index].place, Where::Site(path) if *path == rooted.path))
            .collect();
        let mut seen: BTreeSet<usize> = open.iter().copied().collect();
        while let Some(index) = open.pop() {
            if let Where::Site(path) = &loaded[index].place {
                used.insert(path.as_str());
            }
            open.extend(
                loaded[index].needs.iter().flatten().map(|(target, _)| *target).filter(|target| seen.insert(*target)),
            );
        }
    }
    used
}

/// `true` if a file of the list is used, or if a used or listed file loads it at run time.
fn is_used(context: &Context<'_>, path: &str, used: &BTreeSet<&str>, list: &PreloadList) -> bool {
    fn soname<'a>(context: &'a Context<'_>, path: &'a str) -> &'a str {
        let soname = context.facts.objects.get(path).and_then(|object| object.elf.soname.as_deref());
        soname.unwrap_or_else(|| file_name(path))
    }
    let name = soname(context, path);
    let files = list.files();
    let mut loaders = used.iter().copied().chain(files.iter().map(String::as_str));
    used.contains(path)
        || loaders
            .any(|loader| DlopenTable::embedded().of(soname(context, loader)).iter().any(|load| load.matches(name)))
}
