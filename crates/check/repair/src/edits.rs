//! Input: the origins of all needed libraries. Output: the changes of each file: the libraries to
//! copy with their new names, and the changes in the headers of these and of the wheel's own
//! binaries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_content::{hexadecimal, sha256_ahead};
use rocwheel_progress::Reporter;
use rocwheel_system::FileMetadata as _;
use rocwheel_wheel::read::Wheel;

use crate::inventory::{Binary, Inventory, Place};
use crate::plan::{FileEdit, Graft, PlannedEdit, RepairMode, SystemPackage, WrittenText};
use crate::resolve::{External, Need, Resolution, Target};
use crate::{Error, Request, error, packages, paths};

const SHIM: &str = include_str!("../../../../python/wheel-repair/script_shim.py");

/// Data of the libraries of this machine that names depend on, by their number in the resolution.
pub(crate) struct Read {
    /// SHA-256 in hexadecimal digits.
    hashes: Vec<String>,
    /// Files → the packages of the system that contain them.
    owners: BTreeMap<PathBuf, SystemPackage>,
}

/// Decides on the changes of the files of one wheel.
pub(crate) struct Edits<'a> {
    pub(crate) wheel: &'a Wheel,
    pub(crate) request: &'a Request,
    pub(crate) inventory: &'a Inventory,
    pub(crate) resolution: &'a Resolution,
    pub(crate) mode: RepairMode,
    read: &'a Read,
    /// The new names of the libraries of this machine, by their number.
    names: Vec<String>,
}

impl Read {
    /// Reads the libraries and the file lists of all packages, which takes a while.
    pub(crate) fn new(resolution: &Resolution, reporter: &dyn Reporter) -> Result<Read, Error> {
        let externals = &resolution.externals;
        let (hashes, owners) = rayon::join(
            || -> Result<Vec<String>, Error> {
                let files: Vec<&Path> = externals.iter().map(|external| external.found.real.as_path()).collect();
                let hashes = files.par_iter().map(|file| {
                    reporter.check()?;
                    sha256_ahead(file).map(|digest| hexadecimal(&digest)).map_err(Error::file("read", *file))
                });
                hashes.collect()
            },
            || {
                let files = externals.iter().flat_map(|external| [&external.found.real, &external.found.path]);
                packages::owners(&files.cloned().collect::<BTreeSet<PathBuf>>())
            },
        );
        Ok(Read { hashes: hashes?, owners })
    }
}

impl<'a> Edits<'a> {
    pub(crate) fn new(
        wheel: &'a Wheel,
        request: &'a Request,
        inventory: &'a Inventory,
        (resolution, read): (&'a Resolution, &'a Read),
        mode: RepairMode,
    ) -> Edits<'a> {
        let externals = resolution.externals.iter().zip(&read.hashes);
        let names = externals.map(|(external, hash)| graft_name(&external.found.real, &hash[..8])).collect();
        Edits { wheel, request, inventory, resolution, mode, read, names }
    }

    /// The change of each binary of the wheel, in order and including empty changes, and the
    /// scripts that replace moved programs.
    pub(crate) fn files(&self) -> Result<(Vec<FileEdit>, Vec<WrittenText>), Error> {
        let binaries = self.inventory.binaries.iter().zip(&self.resolution.needs);
        let edits = binaries.map(|(binary, needs)| self.file(binary, needs)).collect::<Result<Vec<_>, Error>>()?;
        let moved = edits.iter().filter_map(|edit| Some(shim(&edit.member, edit.moved_to.as_ref()?)));
        let texts = moved.collect();
        Ok((edits, texts))
    }

    fn libraries_folder(&self) -> String {
        format!("{}.libs", self.wheel.name.distribution)
    }

    /// The libraries to copy, sorted by name, and the number of each in the resolution. A file that
    /// occurs twice on this machine is copied once; one from an earlier repair stays.
    pub(crate) fn grafts(&self) -> (Vec<Graft>, Vec<usize>) {
        let externals = &self.resolution.externals;
        let mut grafts: BTreeMap<&str, (Graft, usize)> = BTreeMap::new();
        for (number, external) in externals.iter().enumerate() {
            let name = self.names[number].as_str();
            let member = format!("{}/{name}", self.libraries_folder());
            if self.wheel.member(&member).is_some() {
                continue;
            }
            let owners = &self.read.owners;
            let package = owners.get(&external.found.real).or_else(|| owners.get(&external.found.path)).cloned();
            if let Some((graft, _)) = grafts.get_mut(name) {
                let users: BTreeSet<String> =
                    graft.needed_by.drain(..).chain(external.needed_by.iter().cloned()).collect();
                graft.needed_by = users.into_iter().collect();
            } else {
                grafts.insert(name, (self.graft(number, member, package), number));
            }
        }
        grafts.into_values().unzip()
    }

    fn graft(&self, number: usize, member: String, package: Option<SystemPackage>) -> Graft {
        let (external, name) = (&self.resolution.externals[number], self.names[number].as_str());
        let metadata = fs_err::metadata(&external.found.real).ok();
        Graft {
            library: external.library.clone(),
            name: name.to_owned(),
            source: external.found.real.clone(),
            size: metadata.as_ref().map_or(0, std::fs::Metadata::len),
            sha256: self.read.hashes[number].clone(),
            needed_by: external.needed_by.iter().cloned().collect(),
            found_by: external.found_by.clone(),
            package,
            executable: metadata.is_some_and(|metadata| metadata.is_executable(&external.found.real)),
            edit: self.graft_edit(external, name),
            member,
        }
    }

    fn graft_edit(&self, external: &External, name: &str) -> PlannedEdit {
        let mut edit = self.needed_edit(&external.needs);
        edit.soname = (external.found.elf.soname.as_deref() != Some(name)).then(|| name.to_owned());
        edit.strip = self.request.strip.is_some() && has_symbols(&external.found.elf);
        // A file that cannot be read here cannot be copied either, and copying reports the error.
        let file = fs_err::File::open(&external.found.real).ok();
        edit.stack = file.is_some_and(|file| external.found.elf.has_needless_stack_flag(file.file()).unwrap_or(false));
        let folder = self.libraries_folder();
        let wanted = self.folders(&external.needs, &folder);
        let old: Vec<String> = external.found.elf.search_path().map_or_else(Vec::new, |path| {
            path.split(':').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
        });
        let new: Vec<String> = wanted.iter().map(|to| paths::entry(&folder, to)).collect();
        if old != new {
            edit.dropped = old.into_iter().filter(|entry| !new.contains(entry)).collect();
            edit.search_path = Some(new);
        }
        edit
    }

    /// Renames in NEEDED.
    fn needed_edit(&self, needs: &[Need]) -> PlannedEdit {
        let mut edit = PlannedEdit::default();
        for need in needs {
            let base = paths::name(&need.name);
            let new = match &need.target {
                Target::Graft(number) => self.names[*number].as_str(),
                Target::Wheel { binary, .. } => self.inventory.binaries[*binary].site().map_or(base, paths::name),
                Target::System | Target::Out { .. } => base,
                Target::Python => {
                    edit.removed.push(need.name.clone());
                    continue;
                }
            };
            if new != need.name {
                edit.needed.insert(need.name.clone(), new.to_owned());
            }
        }
        edit
    }

    /// The folders below site-packages that the search path of a file in `folder` must contain, in
    /// the order of the needs.
    fn folders(&self, needs: &[Need], folder: &str) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for need in needs {
            let to = match &need.target {
                Target::Graft(_) => Some(self.libraries_folder()),
                Target::Wheel { binary, reached: false } => {
                    self.inventory.binaries[*binary].site().map(|site| paths::folder(site).to_owned())
                }
                Target::Out { directory }
                    if self.mode == RepairMode::Rocm && self.request.resolve.has_search_path() =>
                {
                    directory.clone()
                }
                _ => None,
            };
            if let Some(to) = to
                && !folders.contains(&to)
            {
                folders.push(to);
            }
        }
        // The file's own folder comes first.
        folders.sort_by_key(|to| to != folder);
        folders
    }

    fn file(&self, binary: &Binary, needs: &[Need]) -> Result<FileEdit, Error> {
        let mut edit = self.needed_edit(needs);
        edit.strip = self.request.strip.is_some() && has_symbols(&binary.elf);
        edit.stack = self.has_needless_stack_flag(binary)?;
        let mut moved_to = None;
        let (folder, known) = match &binary.place {
            Place::Site(site) => (paths::folder(site).to_owned(), true),
            Place::Script(name) => {
                let folder = format!("{}.scripts", self.wheel.name.distribution);
                if self.folders(needs, &folder).is_empty() {
                    (String::new(), false)
                } else {
                    moved_to = Some(format!("{folder}/{name}"));
                    (folder, true)
                }
            }
            Place::Elsewhere => {
                let lost = needs.iter().find(|need| matches!(need.target, Target::Graft(_)));
                if let Some(need) = lost {
                    return Err(Error::Unreachable {
                        wheel: self.wheel.path().to_owned(),
                        member: binary.member.clone(),
                        library: need.name.clone(),
                    });
                }
                (String::new(), false)
            }
        };
        let wanted = if known { self.folders(needs, &folder) } else { Vec::new() };
        let (mut entries, dropped): (Vec<String>, Vec<String>) =
            binary.entries().into_iter().map(str::to_owned).partition(|entry| match paths::of_origin(entry) {
                Some(rest) if known => moved_to.is_none() && !paths::leaves(&paths::join(&folder, rest)),
                rest => rest.is_some(),
            });
        let mut reached: BTreeSet<String> =
            entries.iter().filter_map(|entry| Some(paths::join(&folder, paths::of_origin(entry)?))).collect();
        let before = entries.len();
        for to in wanted {
            if reached.insert(to.clone()) {
                entries.push(paths::entry(&folder, &to));
            }
        }
        if entries.len() > before || !dropped.is_empty() {
            edit.search_path = Some(entries);
            edit.dropped = dropped;
        }
        Ok(FileEdit { member: binary.member.clone(), moved_to, edit })
    }

    fn has_needless_stack_flag(&self, binary: &Binary) -> Result<bool, Error> {
        if !binary.elf.wants_executable_stack() {
            return Ok(false);
        }
        let reader = binary.content.open().map_err(Error::file("read", self.wheel.path()))?;
        binary.elf.has_needless_stack_flag(&reader).map_err(error::binary(self.wheel.path(), &binary.member))
    }
}

/// The script that replaces a moved program.
fn shim(member: &str, moved: &str) -> WrittenText {
    WrittenText {
        member: member.to_owned(),
        purpose: format!("starts `{moved}`"),
        replaces: true,
        executable: true,
        bytes: SHIM.replace("@PROGRAM@", moved).into_bytes(),
    }
}

/// `true` if there is anything that `strip` would remove.
fn has_symbols(elf: &rocwheel_elf::Elf) -> bool {
    elf.sections.iter().any(|section| section.name == ".symtab" || section.name.starts_with(".debug_"))
}

/// `libfoo-0a1b2c3d.so.1` for `libfoo.so.1`. A name that contains the digits already, from an
/// earlier repair, stays.
fn graft_name(file: &Path, digits: &str) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(".so").or_else(|| name.find('.')).unwrap_or(name.len());
    let (stem, rest) = name.split_at(end);
    if stem.ends_with(&format!("-{digits}")) { name.into_owned() } else { format!("{stem}-{digits}{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grafted_names_have_the_digits_before_the_suffix() {
        let name = |file: &str| graft_name(Path::new(file), "0a1b2c3d");
        assert_eq!(name("/usr/lib/libz.so.1.2.13"), "libz-0a1b2c3d.so.1.2.13");
        assert_eq!(name("libglib-2.0.so.0"), "libglib-2.0-0a1b2c3d.so.0");
        assert_eq!(name("libLLVM-15.so.1"), "libLLVM-15-0a1b2c3d.so.1");
        assert_eq!(name("plugin.1"), "plugin-0a1b2c3d.1");
        assert_eq!(name("libz-0a1b2c3d.so.1"), "libz-0a1b2c3d.so.1");
    }
}
