//! RW028: a library in `LD_LIBRARY_PATH` is loaded instead of the wheel's own.
//!
//! The directories belong to a machine that can be read, such as one with ROCm installed. The
//! loader searches `LD_LIBRARY_PATH` after DT_RPATH and before DT_RUNPATH, so it affects only some
//! wheels.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_loader::simulation::{HostSystem, Loader, Scenario, SearchRule, Trace, Where};
use rocwheel_tables::owners::{LibraryOwner, Owners};

use crate::Error;
use crate::analysis::{Context, file_name};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::LibraryPath, scope: AuditScope::Files, run };

/// The wheel, a library, the file that is loaded now, and the place it came from without
/// `LD_LIBRARY_PATH`: a file of the set, the system, or none.
type Taken = (usize, String, String, Option<Where>);

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let Some(searched) = &context.options.library_path else { return Ok(()) };
    let mut taken: BTreeMap<Taken, BTreeSet<&str>> = BTreeMap::new();
    for (wheel, _) in context.audited() {
        context.reporter.check()?;
        let rooted: Vec<_> = context.rooted.iter().filter(|rooted| rooted.wheel == wheel).collect();
        // All files of a wheel have the same preloaded files.
        let Some(first) = rooted.first() else { continue };
        let scenario = Scenario {
            name: "LD_LIBRARY_PATH".to_owned(),
            system: HostSystem::Root(searched.machine.clone()),
            library_path: searched.directories.clone(),
            preloaded: first.preloaded.clone(),
            process: Vec::new(),
            processor: 1,
        };
        let loader = Loader::with_names((context.site, &context.names), context.facts, &scenario);
        let traces: Vec<Trace> = rooted.par_iter().map(|rooted| loader.load(&[rooted.path.as_str()])).collect();
        for (rooted, trace) in rooted.into_iter().zip(&traces) {
            for loaded in &trace.loaded {
                let (SearchRule::LibraryPath { .. }, Where::System(path)) = (&loaded.by, &loaded.place) else {
                    continue;
                };
                let before = rooted.trace.loaded.iter().find(|other| {
                    other.name == loaded.name
                        || matches!(&other.place, Where::Site(path) if file_name(path) == loaded.name)
                });
                let key = (wheel, loaded.name.clone(), path.clone(), before.map(|before| before.place.clone()));
                taken.entry(key).or_default().insert(&rooted.path);
            }
        }
    }
    for ((wheel, name, path, before), files) in taken {
        let installed = &context.site.distributions[wheel];
        let (rest, severity) = match &before {
            Some(Where::Site(own)) => (format!("in place of `{}`", context.site.shown(own)), Severity::Warning),
            Some(Where::System(_)) => ("in place of the one of the system".to_owned(), Severity::Note),
            None => ("and from nowhere without it".to_owned(), Severity::Note),
        };
        let message = format!("with `LD_LIBRARY_PATH`, `{name}` comes from `{path}`, {rest}");
        let finding = context.finding((Code::LibraryPath, wheel), name.clone(), message, files).weighing(severity);
        let is_rocm = Owners::embedded().of(&name).is_some_and(LibraryOwner::is_rocm);
        // A repair writes search paths as DT_RPATH, which the loader searches first.
        let is_mended = severity == Severity::Warning && is_rocm;
        findings.push(if is_mended { finding.fixed_by(fix::rocm(installed)) } else { finding });
    }
    Ok(())
}
