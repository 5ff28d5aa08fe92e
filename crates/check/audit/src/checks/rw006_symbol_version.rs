//! RW006: a library lacks a symbol version that a file needs.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_loader::simulation::Where;

use crate::Error;
use crate::analysis::{Context, listed};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::SymbolVersion, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    versions(context, findings);
    Ok(())
}

fn versions(context: &Context<'_>, findings: &mut Vec<Finding>) {
    // (wheel, library, its path, has versions) → versions → files.
    type Key<'a> = (usize, &'a str, &'a str, bool);
    let mut lacking: BTreeMap<Key<'_>, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for rooted in &context.rooted {
        for loaded in &rooted.trace.loaded {
            let Where::Site(user) = &loaded.place else { continue };
            let Some(wheel) = context.owner(user).filter(|wheel| context.is_audited(*wheel)) else { continue };
            let Some(object) = context.facts.objects.get(user) else { continue };
            for (name, needed) in object.elf.needed.iter().zip(&loaded.needs) {
                let Some((target, _)) = needed else { continue };
                let Where::Site(path) = &rooted.trace.loaded[*target].place else { continue };
                let Some(library) = context.facts.objects.get(path) else { continue };
                let defined = &library.elf.version_definitions;
                let needs = object.elf.version_needs.iter().filter(|need| need.library == *name);
                for version in needs.flat_map(|need| &need.versions).filter(|version| !defined.contains(version)) {
                    let entry = lacking.entry((wheel, name, path, !defined.is_empty())).or_default();
                    entry.0.insert(version);
                    entry.1.insert(user);
                }
            }
        }
    }
    for ((wheel, name, path, has_versions), (versions, files)) in lacking {
        let shown = context.site.shown(path);
        let list = listed(versions.iter().copied());
        let message = if has_versions {
            format!("needs {list} of `{name}`, and `{shown}` does not define it")
        } else {
            format!("needs {list} of `{name}`, and `{shown}` has no versions")
        };
        let finding = context.finding((Code::SymbolVersion, wheel), name, message, files).naming(versions);
        findings.push(if has_versions { finding } else { finding.weighing(Severity::Warning) });
    }
}
