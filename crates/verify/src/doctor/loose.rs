//! Input: a library that will not load. Output: whether anything is linked to it. PyPI's torch
//! brings a `libgfortran.so.5` that lacks `libquadmath.so.0`; nothing loads it, and torch works.

use rocwheel_audit::finding::Finding;
use rocwheel_elf::{Lookup, NameHash};
use rocwheel_loader::facts::{Object, SiteFacts};
use rocwheel_loader::site::Site;

/// `true` if no file of a finding is a module of Python or a program, and no other file of the
/// environment is linked to any of them. A program may still open one by its name.
pub(super) fn is_loose(finding: &Finding, site: &Site, facts: &SiteFacts) -> bool {
    let files: Vec<&String> = finding.file.iter().chain(&finding.related).collect();
    !files.is_empty() && files.into_iter().all(|file| is_loose_file(&path_in(site, file), facts))
}

/// The path in the environment of a file that a finding names.
fn path_in(site: &Site, shown: &str) -> String {
    let inside = format!("{}/{shown}", site.packages());
    if site.files.contains_key(&inside) { inside } else { shown.to_owned() }
}

fn is_loose_file(path: &str, facts: &SiteFacts) -> bool {
    let Some(object) = facts.objects.get(path).filter(|object| object.is_native()) else { return false };
    let name = path.rsplit('/').next().unwrap_or(path);
    let names = [Some(name), object.elf.soname.as_deref()];
    let is_linked = |other: &Object| other.elf.needed.iter().any(|needed| names.contains(&Some(needed.as_str())));
    let mut others = facts.native().filter(|(other, _)| *other != path);
    !object.is_program() && !is_module(object, name) && !others.any(|(_, other)| is_linked(other))
}

/// `true` for an extension module of Python, which has `PyInit_NAME`.
fn is_module(object: &Object, name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    let start = format!("PyInit_{stem}");
    object.symbols.as_ref().map_or(true, |symbols| symbols.find(NameHash::of(&start), None) == Lookup::Found)
}
