//! RW013: METADATA has a requirement that nothing in the wheel needs.

use std::collections::BTreeSet;

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::declared::UnneededSearch;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::UnneededRequirement, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let search = UnneededSearch::new(context.site, &context.declared);
    for (wheel, installed) in context.audited() {
        context.reporter.check()?;
        if !installed.is_complete() {
            continue;
        }
        let loads = loads(context, wheel);
        for requirement in search.of((wheel, context.paths(wheel)), &loads)? {
            let name = &requirement.name;
            let message = format!("requires `{name}`, and no file loads a library of it or names a module of it");
            let finding = Finding::new(Code::UnneededRequirement, name.clone(), message).of(installed.file_name());
            findings.push(finding.fixed_by(fix::unrequire(installed, name)));
        }
    }
    Ok(())
}

/// The wheels whose libraries the files of a wheel load.
fn loads(context: &Context<'_>, wheel: usize) -> BTreeSet<usize> {
    let rooted = context.rooted.iter().filter(|rooted| rooted.wheel == wheel);
    let loaded = rooted.clone().flat_map(|rooted| &rooted.trace.loaded);
    let owners = loaded.filter_map(|loaded| context.owner(loaded.place.site()?));
    let by_name = rooted.flat_map(|rooted| &rooted.trace.by_name).flat_map(|loaded| &loaded.brings);
    let imported = context.imported.iter().filter(|imported| imported.wheel == wheel);
    let on_windows = imported.flat_map(|imported| imported.files.by_wheel.keys().copied());
    owners.chain(by_name.filter_map(|path| context.owner(path))).chain(on_windows).collect()
}
