//! Input: the staging tree and the resolved libraries. Output: the tree with libraries from outside
//! ROCm renamed, and with search paths that stay inside the tree.
//!
//! The files of the staging tree are edited in place: they belong to this run, and librocsparse has
//! 1.3 GB.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_elf::{Edit, NeededEdit, SearchPath, StackFlag};
use rocwheel_progress::{Exit, Failure, Reporter};
use rocwheel_system::symlink;

use crate::closure::{self, Resolution, parent};
use crate::error::collision;
use crate::libraries::SystemLibraries;
use crate::options::{ImportOptions, Sonames};
use crate::report::{Mention, Skipped};
use crate::table::{Place, Table};
use crate::unpack::{Link, Placed, SYSDEPS_DIRECTORY, Unpacked, Unpacker, owner, same_as, staged};

#[derive(Debug, Default)]
pub(crate) struct Relinked {
    /// File index → (new SONAME, SONAME in the input), of the libraries from outside ROCm.
    pub(crate) taken: BTreeMap<usize, (String, String)>,
    pub(crate) skipped: Vec<Skipped>,
    /// Search path entries that led out of the set.
    pub(crate) dropped: Vec<Mention>,
    pub(crate) links: Vec<Place>,
    /// Files that load a library by its old name; the set holds a second copy of that name.
    pub(crate) kept_names: Vec<Mention>,
}

/// The arguments that all functions here share.
pub(crate) struct Context<'a> {
    pub(crate) unpacker: &'a Unpacker<'a>,
    pub(crate) options: &'a ImportOptions,
    pub(crate) reporter: &'a dyn Reporter,
}

/// Renames, edits and links. Afterwards `unpacked` lists only the files that are in the tree.
pub(crate) fn relink(
    context: &Context<'_>,
    unpacked: &mut Unpacked,
    resolution: &Resolution,
) -> Result<Relinked, Failure> {
    let mut relinked = Relinked::default();
    let removed = drop_unused(context, unpacked, resolution, &mut relinked)?;
    rename(context, unpacked, resolution, &mut relinked)?;
    edit(context, unpacked, resolution, &mut relinked)?;
    keep_names(context, unpacked, resolution, &mut relinked)?;
    link(context, unpacked, &removed, &mut relinked)?;
    relinked.skipped.sort();
    relinked.dropped.sort();
    relinked.kept_names.sort();
    Ok(relinked)
}

/// Removes the files of packages from outside ROCm that are not needed. Returns the indices of
/// those files.
fn drop_unused(
    context: &Context<'_>,
    unpacked: &Unpacked,
    resolution: &Resolution,
    relinked: &mut Relinked,
) -> Result<BTreeSet<usize>, Failure> {
    let used: BTreeSet<usize> = resolution.taken.iter().map(|index| unpacked.files[*index].source).collect();
    let mut removed = BTreeSet::new();
    for (index, file) in unpacked.files.iter().enumerate().filter(|(_, file)| file.system) {
        let reason = if closure::file_name(&file.place.path) == "copyright" {
            (!used.contains(&file.source)).then_some("licence of a package of which no library is taken in")
        } else {
            let reason = if used.contains(&file.source) {
                "nothing of ROCm needs it"
            } else {
                "nothing of ROCm needs a library of its package"
            };
            (!resolution.taken.contains(&index)).then_some(reason)
        };
        if let Some(reason) = reason {
            fs_err::remove_file(context.unpacker.path(&file.place))?;
            remove_emptied_folder(context, &file.place);
            relinked.skipped.push(skipped(context, file.source, &file.input, reason.to_owned()));
            removed.insert(index);
        }
    }
    Ok(removed)
}

/// Renames the file of every library from outside ROCm to its new SONAME.
fn rename(
    context: &Context<'_>,
    unpacked: &mut Unpacked,
    resolution: &Resolution,
    relinked: &mut Relinked,
) -> Result<(), Failure> {
    for &index in &resolution.taken {
        let file = &mut unpacked.files[index];
        let original = closure::library_name(file).to_owned();
        let soname = match context.options.sonames {
            Sonames::Rename => SystemLibraries::embedded().renamed(&original),
            Sonames::Keep => original.clone(),
        };
        let mut place = file.place.clone();
        place.path = format!("{SYSDEPS_DIRECTORY}/{soname}");
        if place != file.place {
            let target = context.unpacker.path(&place);
            if target.exists() {
                let path = place.path.clone();
                let names = context.unpacker.names;
                let other = unpacked.files.iter().find(|other| other.place == place);
                let first = other.map_or_else(String::new, |other| other.origin(names));
                return Err(collision(&path, &first, &unpacked.files[index].origin(names)));
            }
            rocwheel_system::rename(context.unpacker.path(&file.place), target)?;
            remove_emptied_folder(context, &file.place);
            file.place = place;
        }
        relinked.taken.insert(index, (soname, original));
    }
    Ok(())
}

/// Removes the folder that a library of one folder down was in, unless it has others.
fn remove_emptied_folder(context: &Context<'_>, place: &Place) {
    let below = place.path.strip_prefix(SYSDEPS_DIRECTORY).and_then(|rest| rest.strip_prefix('/'));
    if below.is_some_and(|name| name.contains('/'))
        && let Some(folder) = context.unpacker.path(place).parent()
    {
        let _ = fs_err::remove_dir(folder);
    }
}

/// Rewrites SONAME, NEEDED and search path of every file that the loader loads.
fn edit(
    context: &Context<'_>,
    unpacked: &mut Unpacked,
    resolution: &Resolution,
    relinked: &mut Relinked,
) -> Result<(), Failure> {
    let files = &unpacked.files;
    let renames: BTreeMap<&str, &str> = relinked
        .taken
        .values()
        .filter(|(now, before)| now != before)
        .map(|(now, before)| (before.as_str(), now.as_str()))
        .collect();
    let mut edits = Vec::new();
    for (&index, uses) in &resolution.uses {
        let file = &files[index];
        let Some(elf) = file.elf.as_ref().filter(|elf| closure::is_loadable(elf)) else { continue };
        let path = search_path(file, uses, files);
        let old: Vec<&str> =
            elf.search_path().unwrap_or_default().split(':').filter(|entry| !entry.is_empty()).collect();
        let dropped = old.iter().filter(|entry| !stays_inside(&file.place.path, entry));
        relinked
            .dropped
            .extend(dropped.map(|entry| Mention { path: file.place.path.clone(), text: (*entry).to_owned() }));
        let needed = elf.needed.iter().filter_map(|name| {
            let to = renames.get(name.as_str())?;
            Some(NeededEdit::Replace { from: name.clone(), to: (*to).to_owned() })
        });
        let soname = relinked.taken.get(&index).filter(|(now, before)| now != before).map(|(now, _)| now.clone());
        // A search path that is already sufficient stays unchanged.
        let is_good = old.iter().all(|entry| stays_inside(&file.place.path, entry))
            && path.iter().all(|entry| old.iter().any(|old| same_directory(old, entry)));
        let changes_path = !is_good;
        edits.push((
            index,
            Edit {
                search_path: changes_path.then_some(SearchPath::Set(path)),
                soname,
                needed: needed.collect(),
                // Debian's libamdhip64.so.5 requests an executable stack, because of assembler in
                // it, and glibc 2.41 would not load it.
                stack: StackFlag::Clear,
                ..Edit::default()
            },
        ));
    }
    let sizes = edits.par_iter().map(|(index, edit)| {
        context.reporter.check()?;
        let file = &files[*index];
        let path = context.unpacker.path(&file.place);
        let mut target = fs_err::OpenOptions::new().read(true).write(true).open(path)?.into_file();
        let patch = edit.plan(&target).map_err(edit_error(file))?;
        patch.apply(&mut target)?;
        Ok((*index, patch.size))
    });
    let sizes: Vec<(usize, u64)> = sizes.collect::<Result<_, Failure>>()?;
    for (index, size) in sizes {
        unpacked.files[index].size = size;
    }
    Ok(())
}

fn edit_error(file: &Placed) -> impl FnOnce(rocwheel_elf::Error) -> Failure {
    move |error| {
        let attempt = format!("could not edit the ELF file `{}`", file.place.path);
        Failure::from(error).context(attempt).with_exit(Exit::Failed)
    }
}

/// Adds a copy under the old name for every library that is loaded by that name: NEEDED entries
/// were rewritten, but a name in a program's data cannot be. It is a copy because wheels have no
/// links. Libraries that find theirs by NEEDED keep the renamed one, which no other library in the
/// process can replace.
fn keep_names(
    context: &Context<'_>,
    unpacked: &mut Unpacked,
    resolution: &Resolution,
    relinked: &mut Relinked,
) -> Result<(), Failure> {
    let mut copied = BTreeSet::new();
    for &(loader, loaded) in &resolution.loaded_by_name {
        let Some((_, original)) = relinked.taken.get(&loaded).filter(|(now, before)| now != before).cloned() else {
            continue;
        };
        let path = unpacked.files[loader].place.path.clone();
        relinked.kept_names.push(Mention { path, text: original.clone() });
        if !copied.insert(loaded) {
            continue;
        }
        let mut copy = unpacked.files[loaded].clone();
        let from = context.unpacker.path(&copy.place);
        copy.place.path = format!("{SYSDEPS_DIRECTORY}/{original}");
        let to = context.unpacker.path(&copy.place);
        if to.exists() {
            let names = context.unpacker.names;
            let other = unpacked.files.iter().find(|other| other.place == copy.place);
            let first = other.map_or_else(String::new, |other| other.origin(names));
            return Err(collision(&copy.place.path, &first, &copy.origin(names)));
        }
        fs_err::copy(from, &to)?;
        let mut target = fs_err::OpenOptions::new().read(true).write(true).open(to)?.into_file();
        let patch =
            Edit { soname: Some(original.clone()), ..Edit::default() }.plan(&target).map_err(edit_error(&copy))?;
        patch.apply(&mut target)?;
        copy.size = patch.size;
        relinked.taken.insert(unpacked.files.len(), (original.clone(), original));
        unpacked.files.push(copy);
    }
    Ok(())
}

/// `true` if a search path entry of the file at `path` is relative to that file and stays in the
/// tree.
fn stays_inside(path: &str, entry: &str) -> bool {
    let Some(rest) = entry.strip_prefix("$ORIGIN").or_else(|| entry.strip_prefix("${ORIGIN}")) else { return false };
    let mut depth = path.matches('/').count();
    for part in rest.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, depth.checked_sub(1)) {
            ("..", None) => return false,
            ("..", Some(above)) => depth = above,
            _ => depth += 1,
        }
    }
    true
}

fn same_directory(left: &str, right: &str) -> bool {
    let [left, right] = [left, right].map(|entry| entry.replace("${ORIGIN}", "$ORIGIN"));
    left.trim_end_matches(['/', '.']) == right.trim_end_matches(['/', '.'])
}

/// The `$ORIGIN`-relative directories of everything a file uses: its own directory first, then in
/// alphabetical order, which puts `lib` before `lib/llvm/lib` before `lib/rocm_sysdeps/lib`.
fn search_path(file: &Placed, uses: &[usize], files: &[Placed]) -> Vec<String> {
    let own = parent(&file.place.path);
    let mut directories: BTreeSet<&str> = uses.iter().map(|index| parent(&files[*index].place.path)).collect();
    let mut path = Vec::new();
    if directories.remove(own) {
        path.push("$ORIGIN".to_owned());
    }
    path.extend(directories.iter().map(|directory| format!("$ORIGIN/{}", relative(own, directory))));
    path
}

/// The relative path from one directory of the tree to another; `.` for the same one, since no link
/// may be empty.
fn relative(from: &str, to: &str) -> String {
    let [from, to] = [from, to].map(|path| path.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>());
    let common = from.iter().zip(&to).take_while(|(left, right)| left == right).count();
    let ups = std::iter::repeat_n("..", from.len() - common);
    let parts: Vec<&str> = ups.chain(to[common..].iter().copied()).collect();
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// Creates the links whose target is in the tree and lists the others.
fn link(
    context: &Context<'_>,
    unpacked: &mut Unpacked,
    removed: &BTreeSet<usize>,
    relinked: &mut Relinked,
) -> Result<(), Failure> {
    let table = context.unpacker.table;
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for (_, file) in unpacked.files.iter().enumerate().filter(|(index, _)| !removed.contains(index)) {
        let mut path = file.place.path.as_str();
        paths.insert(path.to_owned());
        while let Some((parent, _)) = path.rsplit_once('/') {
            path = parent;
            if !paths.insert(path.to_owned()) {
                break;
            }
        }
    }
    // Links may lead to links in any order: a link is good if its target is a file or a good link.
    let mut good: BTreeMap<String, (usize, String)> = BTreeMap::new();
    loop {
        let before = good.len();
        for (index, link) in unpacked.links.iter().enumerate() {
            let Some(place) = &link.place else { continue };
            let Some(target) = flat_target(table, link) else { continue };
            if !good.contains_key(&place.path) && (paths.contains(&target) || good.contains_key(&target)) {
                good.insert(place.path.clone(), (index, target));
            }
        }
        if good.len() == before {
            break;
        }
    }
    for (index, link) in unpacked.links.iter().enumerate() {
        let Some(place) = &link.place else {
            let reason = "another name of a library that is not ROCm's".to_owned();
            relinked.skipped.push(skipped(context, link.source, &link.input, reason));
            continue;
        };
        match good.get(&place.path) {
            Some((winner, target)) if *winner != index => {
                let names = context.unpacker.names;
                let [first, second] =
                    [&unpacked.links[*winner], link].map(|link| owner(&names[link.source], &link.input));
                if flat_target(table, link).as_ref() == Some(target) {
                    relinked.skipped.push(skipped(context, link.source, &link.input, same_as(&first)));
                    continue;
                }
                return Err(collision(&place.path, &first, &second));
            }
            Some((_, target)) => {
                if paths.contains(&place.path) {
                    let names = context.unpacker.names;
                    let first = unpacked.owners.get(&place.path);
                    let first =
                        first.map_or_else(|| "a directory".into(), |(source, path)| owner(&names[*source], path));
                    let second = owner(&names[link.source], &link.input);
                    return Err(collision(&place.path, &first, &second));
                }
                let from = owner(&context.unpacker.names[link.source], &link.input);
                make_link(context, place, &relative(parent(&place.path), target), &from)?;
                relinked.links.push(place.clone());
            }
            None => {
                let reason = "nothing in the input is at the end of this link".to_owned();
                let skipped = skipped(context, link.source, &link.input, reason);
                relinked.skipped.push(Skipped { target: Some(link.target.clone()), ..skipped });
            }
        }
    }
    let mut index = 0;
    unpacked.files.retain(|_| {
        index += 1;
        !removed.contains(&(index - 1))
    });
    Ok(())
}

/// `from` is the package or input of the link, for messages.
pub(crate) fn make_link(context: &Context<'_>, place: &Place, target: &str, from: &str) -> Result<(), Failure> {
    let path = staged(context.unpacker.root, context.unpacker.table, place);
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let attempt = format!("could not make the link `{}` to `{target}`, which is {from}", place.path);
    symlink(target, &path).map_err(Failure::attempt(attempt))
}

/// The path in the flattened tree that a link leads to; `None` if it leaves the input.
fn flat_target(table: &Table, link: &Link) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if !link.target.starts_with('/') {
        parts.extend(link.input.split('/'));
        parts.pop();
    }
    for part in link.target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(table.flatten(&parts.join("/")))
}

fn skipped(context: &Context<'_>, source: usize, path: &str, reason: String) -> Skipped {
    Skipped { source: context.unpacker.names[source].clone(), path: path.to_owned(), target: None, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_between_directories() {
        assert_eq!(relative("lib", "lib/rocm_sysdeps/lib"), "rocm_sysdeps/lib");
        assert_eq!(relative("lib/rocm_sysdeps/lib", "lib"), "../..");
        assert_eq!(relative("bin", "lib"), "../lib");
        assert_eq!(relative("", "libexec/rocm_smi/rocm_smi.py"), "libexec/rocm_smi/rocm_smi.py");
        assert_eq!(relative("lib/rocm_sysdeps/lib", "lib/llvm/lib"), "../../llvm/lib");
        assert_eq!(relative("include/hsa", "include/hsa"), ".");
        assert_eq!(relative("include/hsa/inner", "include/hsa"), "..");
    }
}
