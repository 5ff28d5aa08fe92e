//! RW016: RECORD does not match the files.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_archive::ForeignBytes;
use rocwheel_loader::site::Distribution;
use rocwheel_wheel::read::WheelProblem;

use crate::Error;
use crate::analysis::Context;
use crate::analysis::expanded::is_in_tree;
use crate::analysis::record::RecordState;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::Record, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        findings.extend(foreign_bytes(installed));
        match context.records.get(&wheel) {
            // Installers may leave no RECORD; the notes then list the questions that stay open.
            Some(RecordState::Absent) if installed.wheel().is_some() => {
                let message = format!("there is no `{}/RECORD`", installed.info());
                findings.push(context.finding((Code::Record, wheel), "RECORD", message, []));
            }
            Some(RecordState::Malformed(reason)) => {
                findings.push(context.finding((Code::Record, wheel), "RECORD", reason, []));
            }
            Some(RecordState::Compared(problems)) => mismatches(installed, problems, findings),
            Some(RecordState::Absent) | None => {}
        }
    }
    Ok(())
}

/// Reports bytes that belong to no member of the wheel.
fn foreign_bytes(installed: &Distribution) -> Option<Finding> {
    let ForeignBytes { ahead, behind } = installed.wheel()?.foreign_bytes().ok()?;
    let place = match (ahead, behind) {
        (0, 0) => return None,
        (0, behind) => format!("{behind} bytes behind the archive"),
        (ahead, 0) => format!("{ahead} bytes in front of the archive"),
        (ahead, behind) => format!("{ahead} bytes in front of the archive and {behind} behind it"),
    };
    let message = format!("the file has {place}, and uv and PyPI refuse it");
    Some(Finding::new(Code::Record, "archive", message).of(installed.file_name()).fixed_by(fix::record(installed)))
}

fn mismatches(installed: &Distribution, problems: &[WheelProblem], findings: &mut Vec<Finding>) {
    let missing = match installed.wheel() {
        Some(_) => "RECORD lists files that are not in the wheel",
        None => "RECORD lists files that no longer exist",
    };
    // Other bytes usually have another size, too.
    let changed: BTreeSet<&String> = problems
        .iter()
        .filter_map(|problem| match problem {
            WheelProblem::Hash(name) | WheelProblem::Unreadable(name) => Some(name),
            _ => None,
        })
        .collect();
    // Files with the same problem are one finding.
    let mut groups: BTreeMap<(&str, &str), Vec<&String>> = BTreeMap::new();
    for problem in problems {
        let (kind, name) = match problem {
            // RW009 reports wrong file names, RW017 missing hashes.
            WheelProblem::FileName(_) | WheelProblem::NoHash(_) => continue,
            WheelProblem::Size(name) if changed.contains(name) => continue,
            WheelProblem::Missing(name) => (("missing", missing), name),
            WheelProblem::Unrecorded(name) => (("unrecorded", "RECORD does not list all files of the wheel"), name),
            WheelProblem::Repeated(name) => (("repeated", "RECORD lists files more than once"), name),
            WheelProblem::Hash(name) => (("hash", "the bytes are not those whose hash RECORD has"), name),
            WheelProblem::Size(name) => (("size", "the size is not the one that RECORD has"), name),
            WheelProblem::Unreadable(name) => (("damaged", "the bytes cannot be unpacked"), name),
        };
        groups.entry(kind).or_default().push(name);
    }
    for ((subject, message), names) in groups {
        let is_of_tree = subject == "missing" && names.iter().all(|name| is_in_tree(name));
        let finding = Finding::new(Code::Record, subject, message).of(installed.file_name()).in_files(names);
        // A file whose bytes differ from RECORD was changed after RECORD was written. The fix is
        // not a new hash but a new installation.
        let is_fixed = installed.wheel().is_none() || ["missing", "unrecorded", "repeated"].contains(&subject);
        let of_tree = if is_of_tree { fix::devel_tree(installed) } else { None };
        findings.push(if is_fixed { finding.fixed_by(of_tree.or_else(|| fix::record(installed))) } else { finding });
    }
}
