//! RW021: the GPU code of a file is in `.kpack` archives that the runtime of the set cannot
//! read, or that the set does not have.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_elf::Section;
use rocwheel_kpack::fatbin::Magic;
use rocwheel_kpack::marker::TARGET_PLACEHOLDER;
use rocwheel_kpack::{FatBinary, Marker, runtime};
use rocwheel_loader::facts::Object;
use rocwheel_tables::Pattern;

use crate::Error;
use crate::analysis::{Context, file_name, listed};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::KpackRuntime, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        split_code(context, wheel, findings)?;
    }
    Ok(())
}

/// Section of the wrappers, which register GPU code with the runtime.
const WRAPPERS: &str = ".hipFatBinSegment";

/// Section of the GPU code.
const CODE: &str = ".hip_fatbin";

/// Section by which AMD's tool marks a file whose GPU code is in another file.
const MARKER: &str = ".rocm_kpack_ref";

/// The largest size in bytes (one page) of a GPU code section whose content was moved away.
const LEFT: u64 = 4096;

/// Reports files whose GPU code is in `.kpack` archives that the set cannot read or lacks.
fn split_code(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let sonames = context.facts.native();
    let sonames: Vec<&str> =
        sonames.map(|(path, object)| object.elf.soname.as_deref().unwrap_or(file_name(path))).collect();
    let has_runtime = sonames.iter().any(|name| runtime::is_hip_runtime(name));
    let understands = sonames.iter().any(|name| runtime::is_archive_reader(name));
    let mut unread = Vec::new();
    let mut astray: BTreeMap<BTreeSet<String>, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.native(wheel).filter(|(_, object)| may_be_split(object)) {
        let Some(markers) = markers(context, path, object)? else { continue };
        unread.push(path);
        let patterns: BTreeSet<String> = markers.iter().flat_map(|marker| &marker.search_paths).cloned().collect();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_there = patterns.iter().any(|pattern| finds(context, folder, pattern));
        if !is_there && !patterns.is_empty() {
            astray.entry(patterns).or_default().push(path);
        }
    }
    if has_runtime && !understands && !unread.is_empty() {
        let message = "expects its GPU code in `.kpack` archives, and the HIP runtime of the set cannot read them";
        findings.push(context.finding((Code::KpackRuntime, wheel), "libamdhip64.so", message, unread));
    }
    for (patterns, paths) in astray {
        let list = listed(patterns.iter().map(String::as_str));
        let message = format!("expects its GPU code in {list}, and the set has none of them");
        let subject = patterns.into_iter().collect::<Vec<_>>().join(", ");
        let finding = context.finding((Code::KpackRuntime, wheel), subject, message, paths);
        // The user chooses device wheels by GPU, so they may be absent.
        findings.push(finding.weighing(Severity::Note));
    }
    Ok(())
}

fn may_be_split(object: &Object) -> bool {
    section(object, MARKER).is_some()
        || section(object, WRAPPERS).is_some() && section(object, CODE).is_some_and(|code| code.size <= LEFT)
}

fn section<'o>(object: &'o Object, name: &str) -> Option<&'o Section> {
    object.elf.sections.iter().find(|section| section.name == name)
}

/// The markers of a file whose code was moved; `None` for a file that still has its code, or whose
/// wrappers cannot be read.
fn markers(context: &Context<'_>, path: &str, object: &Object) -> Result<Option<Vec<Marker>>, Error> {
    let reader = context.site.reader(path)?;
    let Ok(Some(fat)) = FatBinary::read(&*reader, object.size) else { return Ok(None) };
    if !fat.wrappers.iter().any(|wrapper| wrapper.magic == Magic::Kpacked) {
        return Ok(None);
    }
    Ok(Some(fat.markers.into_iter().map(|(marker, _)| marker).collect()))
}

/// `true` if the set has a file that matches the path of a marker, relative to `folder`.
fn finds(context: &Context<'_>, folder: &str, pattern: &str) -> bool {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for step in pattern.split('/').filter(|step| !step.is_empty() && *step != ".") {
        if step == ".." {
            parts.pop();
        } else {
            parts.push(step);
        }
    }
    let wanted = parts.join("/").replacen(TARGET_PLACEHOLDER, "*", 1);
    let start = wanted.split('*').next().unwrap_or_default().to_owned();
    let glob = Pattern::new(&wanted);
    let candidates = context.site.files.range(start.clone()..).take_while(|(path, _)| path.starts_with(&start));
    candidates.into_iter().any(|(path, _)| glob.matches(path))
}
