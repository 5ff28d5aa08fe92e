//! RW014: a package at the top level that is not meant for import by others.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;
use rocwheel_imports::top_level::{self, ModuleUse};

pub const CHECK: Check = Check { code: Code::StrayPackage, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        stray(context, wheel, findings);
    }
    Ok(())
}

/// Names that authors do not give to a package for others to import.
const STRAY: [&str; 27] = [
    "test",
    "tests",
    "testing",
    "unittests",
    "unit_tests",
    "integration_tests",
    "benchmark",
    "benchmarks",
    "bench",
    "example",
    "examples",
    "sample",
    "samples",
    "demo",
    "demos",
    "doc",
    "docs",
    "script",
    "scripts",
    "tool",
    "tools",
    "build",
    "csrc",
    "hopper",
    "ci",
    "conftest",
    "setup",
];

fn stray(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let packages = context.site.packages();
    let mut tops: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in context.paths(wheel) {
        let Some(inside) = path.strip_prefix(packages.as_str()).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        let top = inside.split('/').next().unwrap_or_default();
        if top != installed.info() {
            tops.entry(top).or_default().push(path);
        }
    }
    let name = installed.name.replace('-', "_");
    let own_words: BTreeSet<&str> = installed.name.split('-').collect();
    let all = tops.len();
    let mut stray = tops;
    stray.retain(|top, _| {
        let module = top.strip_suffix(".py").unwrap_or(top);
        STRAY.contains(&module) && name != module && !own_words.contains(module)
    });
    // A distribution without other packages has this name on purpose.
    if stray.is_empty() || stray.len() == all {
        return;
    }
    let strays: BTreeSet<&str> = stray.values().flatten().copied().collect();
    let others = context.paths(wheel).iter().copied().filter(|path| !strays.contains(path)).collect();
    let users = top_level::users(context.site, &stray, others);
    for (top, files) in stray {
        let is_code = files.iter().any(|path| [".py", ".so", ".pyi"].iter().any(|suffix| path.ends_with(suffix)));
        let what = if is_code { "importable by everyone" } else { "which is no package" };
        let message = format!("installs `{top}` at the top level, {what}, beside its own package");
        findings.push(if let Some((kind, user)) = users.get(top) {
            // Without the files, the wheel would no longer work.
            let verb = match kind {
                ModuleUse::Imports => "imports",
                ModuleUse::Names => "names",
            };
            let message = format!("{message}; its own `{}` {verb} it", context.site.shown(user));
            context.finding((Code::StrayPackage, wheel), top, message, files)
        } else {
            let pattern = if top.ends_with(".py") { top.to_owned() } else { format!("{top}/**") };
            let finding = context.finding((Code::StrayPackage, wheel), top, message, files);
            finding.fixed_by(fix::drop_files(installed, &pattern))
        });
    }
}
