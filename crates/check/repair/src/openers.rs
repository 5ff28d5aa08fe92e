//! Input: the libraries that are copied under new names, and all files of the result. Output: a
//! remark for each file that has the old name of a copy in its data and calls `dlopen`: it no
//! longer finds the library, or finds the system's as a second one.

use std::collections::BTreeSet;

use positioned_io::ReadAt;
use rocwheel_elf::Elf;
use rocwheel_loader::facts::Object;

use crate::inventory::{Inventory, Origin};
use crate::plan::Graft;
use crate::resolve::Resolution;
use crate::{ReadingDepth, paths};

/// The remarks; `numbers` are those of the copies in the resolution. The wheel's own files are read
/// only in a repair that unpacks them anyway.
pub(crate) fn notes(
    inventory: &Inventory,
    resolution: &Resolution,
    (grafts, numbers): (&[Graft], &[usize]),
    depth: &ReadingDepth,
) -> Vec<String> {
    if grafts.is_empty() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    if matches!(depth, ReadingDepth::Whole) {
        for binary in inventory.binaries.iter().filter(|binary| binary.origin == Origin::Wheel) {
            let Ok(reader) = binary.content.open() else { continue };
            let names = opened_names(&reader, &binary.elf, binary.content.size());
            notes.extend(of_file(&binary.member, &names, grafts, None));
        }
    }
    for (graft, number) in grafts.iter().zip(numbers) {
        let Ok(file) = fs_err::File::open(&graft.source) else { continue };
        let names = opened_names(file.file(), &resolution.externals[*number].found.elf, graft.size);
        notes.extend(of_file(&graft.member, &names, grafts, Some(graft)));
    }
    notes
}

/// The names of libraries in the data of a file that calls `dlopen`.
fn opened_names(reader: &dyn ReadAt, elf: &Elf, size: u64) -> BTreeSet<String> {
    let calls = Object::read(reader, size).ok().flatten().is_some_and(|object| object.calls_dlopen());
    if calls { rocwheel_elf::library_names(reader, elf) } else { BTreeSet::new() }
}

/// The remarks about one file; `own` is its copy, whose own name does not count.
fn of_file(file: &str, names: &BTreeSet<String>, grafts: &[Graft], own: Option<&Graft>) -> Vec<String> {
    let others = grafts.iter().filter(|graft| own.is_none_or(|own| own.member != graft.member));
    let named = others.filter_map(|graft| {
        let source = graft.source.file_name().map(|name| name.to_string_lossy().into_owned());
        let known = [Some(paths::name(&graft.library).to_owned()), source].into_iter().flatten();
        let name = known.into_iter().find(|name| names.contains(name) && *name != graft.name)?;
        Some(format!(
            "`{file}` names `{name}` in its data, which is now `{}`: if it opens the library by that name, it does \
             not find the copy",
            graft.name
        ))
    });
    named.collect()
}
