//! Input: the system libraries and symbol versions that the files of a wheel need. Output: the
//! oldest system that has them.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_loader::simulation::Where;
use rocwheel_wheel::manylinux;
use rocwheel_wheel::manylinux::{DottedVersion, FileNeeds, Policies};

use crate::analysis::Context;
use crate::report;

/// The system libraries and symbol versions that each file of a wheel needs. A library that the set
/// brings instead of the system is not counted.
///
/// Files that nothing is seen to load are those of [`unreached_needs`].
pub(crate) fn needs(context: &Context<'_>, wheel: usize) -> Vec<FileNeeds> {
    needs_of(context, wheel, |path| !context.unreached.contains(path))
}

/// The same of the files that nothing is seen to load.
pub(crate) fn unreached_needs(context: &Context<'_>, wheel: usize) -> Vec<FileNeeds> {
    needs_of(context, wheel, |path| context.unreached.contains(path))
}

fn needs_of(context: &Context<'_>, wheel: usize, is_wanted: impl Fn(&str) -> bool) -> Vec<FileNeeds> {
    // (file, library) for each library with a system's name that a file finds in the set.
    let mut brought: BTreeSet<(&str, &str)> = BTreeSet::new();
    for rooted in &context.rooted {
        for loaded in &rooted.trace.loaded {
            let Where::Site(user) = &loaded.place else { continue };
            let Some(object) = context.facts.objects.get(user) else { continue };
            for (name, needed) in object.elf.needed.iter().zip(&loaded.needs) {
                if let Some((target, _)) = needed
                    && matches!(rooted.trace.loaded[*target].place, Where::Site(_))
                {
                    brought.insert((user, name));
                }
            }
        }
    }
    let needs = context.native(wheel).filter(|(path, _)| is_wanted(path)).map(|(path, object)| {
        let mut needs = FileNeeds::of(context.member(path), &object.elf);
        needs.libraries.retain(|needed| !brought.contains(&(path, needed.library.as_str())));
        needs
    });
    needs.collect()
}

/// The oldest system on which a wheel runs. `None` for wheels without ELF files and for musl.
pub(crate) fn floor(context: &Context<'_>, wheel: usize) -> Option<report::SystemFloor> {
    let needs = needs(context, wheel);
    if needs.is_empty() || context.is_for_musl(wheel) {
        return None;
    }
    let floor = manylinux::floor(&needs);
    let mut newest: BTreeMap<String, DottedVersion> = BTreeMap::new();
    let system =
        needs.iter().flat_map(|file| &file.libraries).filter(|need| Policies::built_in().provides(&need.library));
    for version in system.flat_map(|library| &library.versions) {
        let Some((set, number)) = version.split_once('_') else { continue };
        let Ok(number) = DottedVersion::try_from(number.to_owned()) else { continue };
        let entry = newest.entry(set.to_owned()).or_insert_with(|| number.clone());
        if number > *entry {
            *entry = number;
        }
    }
    Some(report::SystemFloor {
        tag: floor.tag,
        newest: newest.into_iter().map(|(set, number)| (set, number.to_string())).collect(),
        reasons: floor.reasons.iter().map(ToString::to_string).collect(),
    })
}
