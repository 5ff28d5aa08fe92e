//! Input: the audited wheels. Output: the files that the audit skipped, and why.

use std::collections::BTreeSet;

use rocwheel_loader::facts::Purpose;
use rocwheel_loader::site::Installed;

use crate::analysis::Context;
use crate::analysis::machine::machine_of;

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
        let others: BTreeSet<&str> = context
            .objects(wheel)
            .filter(|(_, object)| object.purpose == Purpose::OtherMachine)
            .map(|(_, object)| machine_of(object))
            .collect();
        // pip and setuptools contain launchers, which they copy when they install a program on
        // Windows.
        let is_library =
            |path: &&&str| !path.ends_with(".exe") || !installed.platforms().iter().all(|tag| tag == "any");
        let of_windows = |path: &&&str| context.facts.windows.contains_key(**path);
        let windows = context.paths(wheel).iter().filter(of_windows).any(|path| is_library(&path))
            && context.windows_files(wheel).next().is_none();
        let what = if windows { Some("Windows") } else { others.first().copied() };
        if let Some(what) = what.filter(|_| context.native(wheel).next().is_none()) {
            notes.push(format!(
                "the files of `{}` are for {what}: what they load was not checked: only x86-64 Linux and wheels for `win_amd64` are supported",
                installed.file_name()
            ));
        }
    }
    notes
}
