//! Input: the audited wheels. Output: the files that the audit skipped, and why.

use std::collections::BTreeSet;

use rocwheel_loader::simulation::Where;
use rocwheel_loader::site::Installed;
use rocwheel_progress::in_backticks;
use rocwheel_wheel::manylinux::Policies;

use crate::analysis::Context;
use crate::analysis::unchecked::{Unchecked, unchecked};

/// Libraries that come with the driver of a GPU: a wheel for GPUs needs one anyway.
const OF_GPUS: [&str; 5] = ["libcuda.so.1", "libEGL.so.1", "libGLX.so.0", "libOpenCL.so.1", "libOpenGL.so.0"];

/// The notes of the report, one sentence each.
pub(crate) fn notes(context: &Context<'_>) -> Vec<String> {
    let mut notes = context.site.notes.clone();
    for (wheel, installed) in context.audited() {
        if let Some(source) = installed.installed().and_then(Installed::editable) {
            notes.push(format!(
                "`{}` is an editable installation of `{source}`: its files are there and were not checked",
                installed.name
            ));
        } else if !installed.is_complete() {
            notes.push(format!(
                "`{}` has no RECORD: its files were told by their names, and others of it may have been missed",
                installed.file_name()
            ));
        }
        let Unchecked { systems, beside_checked } = unchecked(context, wheel);
        if !systems.is_empty() {
            let all = if beside_checked { "some" } else { "the" };
            let systems: Vec<&str> = systems.into_iter().collect();
            notes.push(format!(
                "{all} files of `{}` are for {}: what they load was not checked: only x86-64 Linux and wheels for `win_amd64` are supported",
                installed.file_name(),
                systems.join(", ")
            ));
        }
        let assumed = assumed(context, wheel);
        if !assumed.is_empty() {
            notes.push(format!(
                "`{}` needs {}, which no system promises: it was assumed that the machine has it installed",
                installed.file_name(),
                in_backticks(assumed)
            ));
        }
    }
    notes
}

/// The libraries that the files of a wheel find only because they are assumed to be installed with
/// a driver, except those of GPUs' drivers.
fn assumed<'a>(context: &'a Context<'_>, wheel: usize) -> BTreeSet<&'a str> {
    if context.is_for_musl(wheel) {
        return BTreeSet::new();
    }
    let loaded = context.rooted.iter().filter(|rooted| rooted.wheel == wheel).flat_map(|rooted| &rooted.trace.loaded);
    let needed: BTreeSet<&str> =
        context.native(wheel).flat_map(|(_, object)| object.elf.needed.iter().map(String::as_str)).collect();
    loaded
        .filter_map(|loaded| match &loaded.place {
            Where::System(name) => Some(name.as_str()),
            Where::Site(_) => None,
        })
        .filter(|name| needed.contains(name) && !Policies::built_in().provides(name) && !OF_GPUS.contains(name))
        .collect()
}
