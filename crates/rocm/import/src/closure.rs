//! Input: the files of the staging tree. Output: the libraries that each of them gets at run time,
//! the libraries from outside ROCm that are needed for that, and those that are missing.
//!
//! From every ROCm file, NEEDED entries and the table of run-time loads are followed until no new
//! file turns up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) use rocwheel_content::archive_path::{file_name, parent};
use rocwheel_elf::{Elf, ElfKind};
use rocwheel_progress::Failure;
use rocwheel_tables::LibraryProduct;
use rocwheel_tables::providers::family;
use rocwheel_tables::{DlopenTable, Providers};

use crate::libraries::SystemLibraries;
use crate::report::{Mention, Missing, Wanted};
use crate::unpack::{Placed, SYSDEPS_DIRECTORY, Unpacked};

/// ELF's `e_machine` for x86-64.
const EM_X86_64: u16 = 62;
/// ELF's `e_machine` for AMD GPUs: code objects are ELF files that the loader never loads.
const EM_AMDGPU: u16 = 224;

/// The result of resolving all libraries. Files are indices into [`Unpacked::files`].
#[derive(Debug, Default)]
pub(crate) struct Resolution {
    pub(crate) taken: BTreeSet<usize>,
    /// File → the files it needs or loads, in order.
    pub(crate) uses: BTreeMap<usize, Vec<usize>>,
    /// Libraries that something needs and nothing provides.
    pub(crate) missing: Vec<Missing>,
    /// Names of libraries in the data of files that neither NEEDED entries nor tables explain.
    pub(crate) unlisted: Vec<Mention>,
    pub(crate) loaded_by_name: BTreeSet<(usize, usize)>,
}

/// `true` for an x86-64 program or shared library, which the loader loads.
pub(crate) fn is_loadable(elf: &Elf) -> bool {
    matches!(elf.kind, ElfKind::Executable | ElfKind::SharedLibrary) && elf.machine == EM_X86_64
}

/// The name that a library is found by: its SONAME, or else its file name.
pub(crate) fn library_name(file: &Placed) -> &str {
    let soname = file.elf.as_ref().and_then(|elf| elf.soname.as_deref());
    soname.unwrap_or_else(|| file_name(&file.place.path))
}

/// `true` for a file in a directory whose libraries are taken before those of all others.
fn is_standard(file: &Placed) -> bool {
    matches!(parent(&file.place.path), "lib" | SYSDEPS_DIRECTORY)
}

/// Resolves everything that ROCm's files need. `names` are the names of the sources, for messages.
/// `dependencies` are the Debian packages that the packages of the input declare.
pub(crate) fn resolve(
    unpacked: &Unpacked,
    names: &[String],
    dependencies: &BTreeSet<String>,
) -> Result<Resolution, Failure> {
    let files = &unpacked.files;
    for file in files.iter().filter(|file| !file.system) {
        let linked = file.elf.as_deref().filter(|elf| matches!(elf.kind, ElfKind::Executable | ElfKind::SharedLibrary));
        let machine = linked.map(|elf| elf.machine);
        if let Some(machine) = machine.filter(|machine| ![EM_X86_64, EM_AMDGPU].contains(machine)) {
            let path = &file.place.path;
            let text = format!("`{path}` is built for the processor type {machine}; only x86-64 (62) is supported");
            return Err(Failure::message(text).with_hint("leave its package out"));
        }
    }
    let providers = providers(unpacked, names)?;
    let (reached, resolution) = (BTreeMap::new(), Resolution::default());
    let mut walk = Walk { files, names, dependencies, providers: &providers, reached, resolution };
    walk.run();
    let mut resolution = walk.resolution;
    check_alternatives(files, names, &resolution)?;
    resolution.unlisted = unlisted(files, &resolution);
    Ok(resolution)
}

/// Refuses a library that is taken as an alternative if another package has one with its SONAME.
fn check_alternatives(files: &[Placed], names: &[String], resolution: &Resolution) -> Result<(), Failure> {
    for taken in resolution.taken.iter().map(|index| &files[*index]).filter(|file| is_alternative(file)) {
        let mut others = files.iter().filter(|file| file.source != taken.source && is_alternative(file));
        if let Some(other) = others.find(|file| library_name(file) == library_name(taken)) {
            return Err(two_versions(names, taken, other));
        }
    }
    Ok(())
}

/// The failure of two libraries that have the SONAME of `first`.
fn two_versions(names: &[String], first: &Placed, second: &Placed) -> Failure {
    let (soname, first, second) = (library_name(first), first.origin(names), second.origin(names));
    Failure::message(format!("two libraries are called `{soname}`: {first} and {second}"))
        .with_hint("leave one of the two versions out")
}

fn is_alternative(file: &Placed) -> bool {
    file.system && !is_standard(file) && file.elf.as_deref().is_some_and(is_loadable)
}

/// Maps SONAMEs, file names and names of links to files. Of libraries with one name, those in
/// standard directories come first, then ROCm's.
fn providers(unpacked: &Unpacked, names: &[String]) -> Result<BTreeMap<String, usize>, Failure> {
    let files = &unpacked.files;
    let mut providers: BTreeMap<String, usize> = BTreeMap::new();
    let libraries = (0..files.len()).filter(|index| {
        let elf = files[*index].elf.as_ref();
        elf.is_some_and(|elf| elf.kind == ElfKind::SharedLibrary && is_loadable(elf))
    });
    let mut libraries: Vec<usize> = libraries.collect();
    libraries.sort_by_key(|index| {
        let file = &files[*index];
        let path = &file.place.path;
        (!is_standard(file), file.system, path.len(), path.clone())
    });
    for &index in &libraries {
        let name = library_name(&files[index]);
        match providers.get(name).map(|other| &files[*other]) {
            None => {
                providers.insert(name.to_owned(), index);
            }
            Some(other) if is_standard(other) && is_standard(&files[index]) => {
                return Err(two_versions(names, other, &files[index]));
            }
            Some(_) => {}
        }
    }
    for &index in &libraries {
        providers.entry(file_name(&files[index].place.path).to_owned()).or_insert(index);
    }
    // A link may lead to another link; each round resolves one step of every chain.
    loop {
        let known = providers.len();
        for link in &unpacked.links {
            if let Some(&index) = providers.get(file_name(&link.target)) {
                providers.entry(file_name(&link.input).to_owned()).or_insert(index);
            }
        }
        if providers.len() == known {
            return Ok(providers);
        }
    }
}

struct Walk<'a> {
    files: &'a [Placed],
    names: &'a [String],
    dependencies: &'a BTreeSet<String>,
    providers: &'a BTreeMap<String, usize>,
    /// File that was reached → the file that led to it.
    reached: BTreeMap<usize, Option<usize>>,
    resolution: Resolution,
}

impl Walk<'_> {
    fn run(&mut self) {
        let loads = DlopenTable::embedded();
        let mut queue = VecDeque::new();
        for (index, file) in self.files.iter().enumerate() {
            let is_script = file.elf.is_none() && !loads.of(file_name(&file.place.path)).is_empty();
            if !file.system && (is_script || file.elf.as_ref().is_some_and(|elf| is_loadable(elf))) {
                self.reached.insert(index, None);
                queue.push_back(index);
            }
        }
        while let Some(index) = queue.pop_front() {
            let mut uses = Vec::new();
            for (name, wanted) in self.wants(index) {
                match self.find(index, &name, wanted) {
                    Some(found) if !uses.contains(&found) => uses.push(found),
                    _ => continue,
                }
                let found = uses[uses.len() - 1];
                if let std::collections::btree_map::Entry::Vacant(entry) = self.reached.entry(found) {
                    entry.insert(Some(index));
                    queue.push_back(found);
                }
            }
            self.resolution.uses.insert(index, uses);
            if queue.is_empty() {
                queue.extend(self.siblings());
            }
        }
        let missing = &mut self.resolution.missing;
        missing.sort_by(|left, right| (&left.library, &left.chain).cmp(&(&right.library, &right.chain)));
        missing.dedup_by(|later, first| later.library == first.library);
        self.resolution.taken = self.reached.keys().copied().filter(|index| self.files[*index].system).collect();
    }

    /// The other libraries of the packages that libraries were taken from, if they load. No data
    /// shows which of its own libraries a package loads by name (ICU's converters, plugins), and
    /// their licence applies already. Libraries in folders below are only taken by SONAME.
    fn siblings(&mut self) -> Vec<usize> {
        let taken = self.reached.keys().filter(|index| self.files[**index].system);
        let sources: BTreeSet<usize> = taken.map(|index| self.files[*index].source).collect();
        let mut siblings = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let candidate = file.system && sources.contains(&file.source) && !self.reached.contains_key(&index);
            if candidate
                && is_standard(file)
                && file.elf.as_ref().is_some_and(|elf| is_loadable(elf))
                && self.loads(index, &mut BTreeSet::new())
            {
                siblings.push(index);
            }
        }
        for &index in &siblings {
            self.reached.insert(index, None);
        }
        siblings
    }

    /// `true` if everything the file needs is present, including what its dependencies need.
    fn loads(&self, index: usize, seen: &mut BTreeSet<usize>) -> bool {
        let needed = self.files[index].elf.iter().flat_map(|elf| &elf.needed);
        seen.insert(index);
        let mut needed = needed.filter(|name| !SystemLibraries::embedded().is_outside(name));
        needed.all(|name| {
            let provider = self.providers.get(name).copied();
            provider.is_some_and(|provider| seen.contains(&provider) || self.loads(provider, seen))
        })
    }

    /// The names in NEEDED entries and the patterns of run-time loads of a file.
    fn wants(&self, index: usize) -> Vec<(String, Demand)> {
        let file = &self.files[index];
        let needed = file.elf.iter().flat_map(|elf| &elf.needed).map(|name| (name.clone(), Demand::Needed));
        let loads = DlopenTable::embedded().of(library_name(file)).iter();
        let loads =
            loads.map(|load| (load.pattern.clone(), if load.required { Demand::Required } else { Demand::Optional }));
        needed.chain(loads).collect()
    }

    fn find(&mut self, index: usize, name: &str, demand: Demand) -> Option<usize> {
        let system = SystemLibraries::embedded();
        if system.is_outside(name) {
            return None;
        }
        let found = match demand {
            Demand::Needed => self.providers.get(name).copied(),
            Demand::Required | Demand::Optional => {
                let load = DlopenTable::embedded().of(library_name(&self.files[index])).iter();
                let load = load.into_iter().find(|load| load.pattern == name)?;
                let mut found = self.providers.iter().filter(|(name, _)| load.matches(name));
                let found = found.next().map(|(_, index)| *index).filter(|found| *found != index);
                // The table lists the loads of any build of a library. A library of the system is
                // only taken for an optional load if this build contains its name.
                let names = &self.files[index].inspected.mentions;
                let is_named = self.files[index].elf.is_none() || names.iter().any(|name| load.matches(name));
                found.filter(|found| load.required || is_named || !self.files[*found].system)
            }
        };
        match (found, demand) {
            (Some(found), Demand::Required | Demand::Optional) if self.files[found].system => {
                self.resolution.loaded_by_name.insert((index, found));
                Some(found)
            }
            (Some(found), _) => Some(found),
            (None, Demand::Optional) => None,
            (None, Demand::Needed | Demand::Required) => {
                let chain = self.chain(index);
                let wanted = if demand == Demand::Needed { Wanted::Needed } else { Wanted::Loaded };
                let known = self.dependencies.iter().find(|package| system.is_package_of(name, package));
                self.resolution.missing.push(Missing {
                    library: name.to_owned(),
                    wanted,
                    chain,
                    source: self.names[self.files[index].source].clone(),
                    certain: known.is_some(),
                    package: known.cloned().or_else(|| system.package(name.trim_end_matches(".*"))),
                    other_version: other_version(name, self.providers.keys().map(String::as_str)),
                });
                None
            }
        }
    }

    fn chain(&self, index: usize) -> Vec<String> {
        let mut chain = vec![self.files[index].place.path.clone()];
        let mut at = index;
        while let Some(Some(parent)) = self.reached.get(&at) {
            chain.push(self.files[*parent].place.path.clone());
            at = *parent;
        }
        chain
    }
}

/// The name of another version of a library of ROCm in a set.
pub(crate) fn other_version<'a>(soname: &str, mut present: impl Iterator<Item = &'a str>) -> Option<String> {
    let stem = family(soname);
    let is_of_rocm = Providers::embedded().of(soname).is_some_and(|provider| provider.kind == LibraryProduct::Rocm);
    let other = present.find(|name| family(name) == stem && *name != stem && !soname.ends_with('*'));
    other.filter(|_| is_of_rocm && stem != soname).map(str::to_owned)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    Needed,
    Required,
    Optional,
}

/// Finds names of libraries in the data of a file that are neither its own name, nor in its NEEDED
/// entries, nor among its known loads.
fn unlisted(files: &[Placed], resolution: &Resolution) -> Vec<Mention> {
    let system = SystemLibraries::embedded();
    let mut unlisted = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let Some(elf) = file.elf.as_ref().filter(|elf| is_loadable(elf)) else { continue };
        if file.system && !resolution.taken.contains(&index) {
            continue;
        }
        let loads = DlopenTable::embedded().of(library_name(file));
        let own = library_name(file);
        let texts = file.inspected.mentions.iter().filter(|text| {
            let text = text.as_str();
            !own.starts_with(text)
                && !elf.needed.iter().any(|needed| needed.starts_with(text))
                && !loads.iter().any(|load| load.matches(text) || load.pattern.trim_end_matches(['.', '*']) == text)
                && !system.is_outside(text)
        });
        unlisted.extend(texts.map(|text| Mention { path: file.place.path.clone(), text: text.clone() }));
    }
    unlisted.sort();
    unlisted
}
