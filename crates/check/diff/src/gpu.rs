//! Comparison of GPU code, code object by code object.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_archive::FileDigest;
use rocwheel_content::Content;
use rocwheel_progress::Failure;
use rocwheel_survey::{self as survey, Checksum, FoundCode, Kernels, Location, Surveyed, Weight};

use crate::change::{Change, ChangeKind};
use crate::findings::{Context, Findings, Opened};
use crate::report::Sizes;

/// `true` if a file with this beginning holds only GPU code. ELF code objects are not included,
/// because they begin like all ELF files.
pub(crate) fn may_hold(start: &[u8]) -> bool {
    [&b"__CLANG_OFFLOAD_BUNDLE__"[..], b"CCOB", b"KPAK"].iter().any(|magic| start.starts_with(magic))
}

/// Compares the code objects of two files. There are only notes if all code objects are equal.
pub(crate) fn compare(opened: &Opened<'_>, context: &Context<'_>) -> Result<Findings, Failure> {
    let (old, new) = (read(&*opened.old, context)?, read(&*opened.new, context)?);
    let mut findings = Findings::default();
    for fault in faults(&new).difference(&faults(&old)) {
        findings.changes.push(Change::of(ChangeKind::Unreadable, *fault));
    }
    let [old_counts, new_counts] =
        [&old, &new].map(|code| format!("{} wrappers, {} bundles", code.wrappers, code.bundles.len()));
    if old_counts != new_counts {
        findings.changes.push(Change::of(ChangeKind::GpuCode, "fat binary").values(old_counts, new_counts));
    }
    if old.markers != new.markers {
        findings.changes.push(Change::of(ChangeKind::GpuCode, "marker of the archives"));
    }
    let (old, new) = (by_target(&old), by_target(&new));
    let targets: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for target in targets {
        let (old, new) = (old.get(target), new.get(target));
        let change = match (old, new) {
            (Some(old), Some(new)) if is_same(old, new) => None,
            (Some(old), Some(new)) => Some(Change::of(ChangeKind::GpuCode, target).values(text(old), text(new))),
            (old, new) => {
                let kind = if old.is_some() { ChangeKind::LostTarget } else { ChangeKind::NewTarget };
                let [old, new] = [old, new].map(|code| code.map(|code| text(code)));
                Some(Change { old, new, ..Change::of(kind, target) })
            }
        };
        findings.changes.extend(change);
        let [old, new] = [old, new].map(|code| code.map(|code| code.iter().map(|found| found.size).sum()));
        findings.targets.push((target.to_owned(), Sizes { old, new }));
    }
    if findings.changes.is_empty() {
        findings.notes.push("the same code objects, packed in another way".to_owned());
    }
    Ok(findings)
}

/// Returns the messages of the errors in GPU code.
fn faults(surveyed: &Surveyed) -> BTreeSet<&str> {
    let faults = surveyed.findings.iter().filter(|finding| finding.weight == Weight::Fault);
    faults.map(|finding| finding.message.as_str()).collect()
}

fn read(content: &dyn Content, context: &Context<'_>) -> Result<Surveyed, Failure> {
    let options = survey::Options {
        scratch: context.scratch.to_owned(),
        targets: None,
        kernels: Kernels::Counted,
        digest: FileDigest::Sha256,
        checksum: Checksum::Compare,
    };
    let location = Location { path: content.origin().map(ToOwned::to_owned).unwrap_or_default(), member: None };
    let surveyed = survey::survey_file(location, content.open()?, content.size(), &options)?;
    context.reporter.check()?;
    Ok(surveyed)
}

fn by_target(surveyed: &Surveyed) -> BTreeMap<&str, Vec<&FoundCode>> {
    let mut targets: BTreeMap<&str, Vec<&FoundCode>> = BTreeMap::new();
    for found in &surveyed.code_objects {
        targets.entry(&found.target).or_default().push(found);
    }
    targets
}

/// `true` if the code objects are equal, each in the same bundle or under the same name.
fn is_same(old: &[&FoundCode], new: &[&FoundCode]) -> bool {
    let [old, new] = [old, new]
        .map(|code| -> Vec<_> { code.iter().map(|found| (found.bundle, &found.entry, found.digest)).collect() });
    old == new
}

fn text(code: &[&FoundCode]) -> String {
    let (kernels, bytes) = code
        .iter()
        .fold((0, 0), |(kernels, bytes), found| (kernels + found.kernel_count.unwrap_or(0), bytes + found.size));
    format!("{} code objects, {kernels} kernels, {bytes} bytes", code.len())
}
