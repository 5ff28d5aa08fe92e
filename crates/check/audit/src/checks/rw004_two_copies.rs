//! RW004: two different files have one SONAME, and both are linked to.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_loader::simulation::Where;

use crate::Error;
use crate::analysis::{Context, file_name, listed};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::TwoCopies, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    copies(context, findings);
    for (wheel, _) in context.audited() {
        same_library(context, wheel, findings);
    }
    Ok(())
}

/// The files that the name of a library leads to, for the files that are linked to it.
fn copies(context: &Context<'_>, findings: &mut Vec<Finding>) {
    // Name → file → the files that load it.
    let mut taken: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for rooted in &context.rooted {
        for loaded in &rooted.trace.loaded {
            let Where::Site(user) = &loaded.place else { continue };
            for (target, _) in loaded.needs.iter().flatten() {
                let Where::Site(path) = &rooted.trace.loaded[*target].place else { continue };
                let soname = context.facts.objects.get(path).and_then(|object| object.elf.soname.as_deref());
                let name = soname.unwrap_or_else(|| file_name(path));
                taken.entry(name).or_default().entry(path).or_default().insert(user);
            }
        }
    }
    for (name, files) in taken.into_iter().filter(|(_, files)| files.len() > 1) {
        let mut contents = BTreeMap::new();
        for (path, users) in &files {
            contents.entry(content(context, path)).or_insert((*path, users));
        }
        let Some(wheel) = files.keys().filter_map(|path| context.owner(path)).find(|wheel| context.is_audited(*wheel))
        else {
            continue;
        };
        if contents.len() < 2 {
            continue;
        }
        let said: Vec<String> = contents
            .values()
            .map(|(path, users)| {
                let user = users.first().map_or("", |user| file_name(user));
                format!("`{user}` is linked to `{}`", context.site.shown(path))
            })
            .collect();
        let message = format!("{}; a process has only the first one for both", said.join(", "));
        let own: Vec<&str> = files.keys().copied().filter(|path| context.owner(path) == Some(wheel)).collect();
        let others = files.keys().filter(|path| context.owner(path) != Some(wheel));
        let related: Vec<String> = others.map(|path| context.site.shown(path).to_owned()).collect();
        let mut finding = context.finding((Code::TwoCopies, wheel), name, message, own);
        finding.related.extend(related);
        findings.push(finding);
    }
}

/// Reports a library that a folder of a wheel has under several names: links that became files. A
/// process that is linked to one and opens another has two libraries, each with its own state.
fn same_library(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let mut names: BTreeMap<(&str, u64, u32), Vec<&str>> = BTreeMap::new();
    for (path, object) in context.native(wheel).filter(|(_, object)| !object.is_program()) {
        let (Some(soname), Some((size, crc32))) = (object.elf.soname.as_deref(), content(context, path)) else {
            continue;
        };
        let folder = &path[..path.len() - file_name(path).len()];
        // Modules may have one content under several names on purpose.
        if is_versioned_name(file_name(path), soname) {
            names.entry((folder, size, crc32)).or_default().push(path);
        }
    }
    let groups: Vec<Vec<&str>> = names.into_values().filter(|paths| paths.len() > 1).collect();
    let Some(first) = groups.first() else { return };
    let list = listed(first.iter().map(|path| file_name(path)));
    let more = match groups.len() - 1 {
        0 => String::new(),
        count => format!(", and {count} more libraries have such copies"),
    };
    let message = format!(
        "{list} have the same bytes{more}: a process that is linked to one and opens another by its name has the \
         library twice"
    );
    let subject = file_name(first[0]);
    let finding = context.finding((Code::TwoCopies, wheel), subject, message, groups.iter().flatten().copied());
    findings.push(finding.weighing(Severity::Note));
}

/// `true` if both names are of one library in the chain of names that distributions make:
/// `libx.so`, `libx.so.1`, `libx.so.1.2.3`.
fn is_versioned_name(name: &str, soname: &str) -> bool {
    let stems = (name.split_once(".so"), soname.split_once(".so"));
    matches!(stems, (Some((own, _)), Some((other, _))) if own == other)
}

/// Size and CRC-32 of a file, which stand for its bytes.
fn content(context: &Context<'_>, path: &str) -> Option<(u64, u32)> {
    let placed = context.site.files.get(path)?;
    context.site.distributions[placed.wheel].checksum(&placed.member)
}
