//! Input: the binaries of a wheel and the directories of this machine. Output: the origin of every
//! library that a binary needs, and the libraries of this machine that must be copied, together
//! with those that they need.
//!
//! A name is first searched for where ld.so would search after the installation. Because a repair
//! is about libraries that ld.so would not find, it is then searched for by name anywhere in the
//! wheel. Only if it is not there, not on every system and not left to other packages, it is
//! searched for on this machine.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rocwheel_elf::ElfKind;
use rocwheel_tables::{LibraryFamily, LibraryProduct, Providers};
use rocwheel_wheel::manylinux::{DottedVersion, Policies};

use crate::directories::{Finder, Found};
use crate::error::MissingLibrary;
use crate::exclude::Excludes;
use crate::inventory::{Binary, Origin};
use crate::paths;
use crate::plan::NotCopiedReason;
use crate::wheels_beside::Beside;
use rocwheel_loader::facts::{Object, SiteFacts};
use rocwheel_loader::simulation::{Led, Loader, Scenario};
use rocwheel_loader::site::{self, Site};
use rocwheel_wheel::PythonVersion;

/// The rules for searching and for leaving libraries out.
pub(crate) struct Rules<'a> {
    /// Only libraries that this policy or an older one lists count as being on every system.
    pub(crate) policy: Option<DottedVersion>,
    pub(crate) excludes: Excludes,
    pub(crate) beside: &'a Beside,
    /// The treatment of ROCm's and torch's libraries.
    pub(crate) families: Families,
    pub(crate) library_path: &'a [PathBuf],
    pub(crate) system: &'a [PathBuf],
}

/// The treatment of libraries that other distributions provide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Families {
    /// Copy them like any other library.
    Take,
    KeepOut,
    /// Do not copy those of torch. Those of ROCm must be in the tree that is added.
    Tree,
}

/// The origin of a needed library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    System,
    /// A binary of the wheel; `reached` is `true` if the search path leads there already.
    Wheel {
        binary: usize,
        reached: bool,
    },
    /// A library of this machine, by its number.
    Graft(usize),
    /// Not copied.
    Out {
        directory: Option<String>,
    },
    /// The interpreter itself contains it.
    Python,
}

/// A name in NEEDED and its origin.
#[derive(Debug, Clone)]
pub(crate) struct Need {
    pub(crate) name: String,
    pub(crate) target: Target,
}

/// A library of this machine that will be copied.
#[derive(Debug)]
pub(crate) struct External {
    pub(crate) library: String,
    pub(crate) found: Found,
    pub(crate) found_by: String,
    pub(crate) needed_by: BTreeSet<String>,
    pub(crate) needs: Vec<Need>,
    /// The chain of files that need it, up to the wheel, for messages.
    chain: Vec<String>,
    /// Directories of `DT_RPATH` of the files that load it.
    inherited: Vec<PathBuf>,
}

/// A library that is not copied, and the files that need it.
#[derive(Debug, Clone)]
pub(crate) struct Left {
    pub(crate) reason: NotCopiedReason,
    pub(crate) provider: Option<&'static LibraryFamily>,
    pub(crate) distribution: Option<String>,
    pub(crate) directory: Option<String>,
    pub(crate) needed_by: BTreeSet<String>,
}

/// The origins of all needed libraries.
#[derive(Debug, Default)]
pub(crate) struct Resolution {
    /// The needs of each binary of the inventory.
    pub(crate) needs: Vec<Vec<Need>>,
    pub(crate) externals: Vec<External>,
    pub(crate) left: BTreeMap<String, Left>,
    pub(crate) missing: Vec<MissingLibrary>,
    pub(crate) warnings: BTreeSet<String>,
}

/// Determines the origins of all needed libraries.
pub(crate) fn resolve(binaries: &[Binary], rules: &Rules<'_>) -> Resolution {
    let mut resolver = Resolver {
        binaries,
        rules,
        index: Index::new(binaries),
        finder: Finder::default(),
        by_file: BTreeMap::new(),
        queue: VecDeque::new(),
        out: Resolution::default(),
    };
    let reached = reached(binaries);
    for (index, binary) in binaries.iter().enumerate() {
        let needs = resolver.of_binary(index, binary, &reached[index]);
        resolver.out.needs.push(needs);
    }
    while let Some(index) = resolver.queue.pop_front() {
        let needs = resolver.of_external(index);
        resolver.out.externals[index].needs = needs;
    }
    let mut out = resolver.out;
    out.missing.sort_by(|one, other| (&one.library, &one.needed_by).cmp(&(&other.library, &other.needed_by)));
    out.missing.dedup_by(|later, first| later.library == first.library);
    warn_of_copies(&mut out);
    out
}

/// Warns of two files with one name: both would be loaded into one process.
fn warn_of_copies(out: &mut Resolution) {
    let mut files: BTreeMap<&str, BTreeSet<&Path>> = BTreeMap::new();
    for external in &out.externals {
        files.entry(&external.library).or_default().insert(&external.found.real);
    }
    let warnings: Vec<String> = files
        .into_iter()
        .filter(|(_, files)| files.len() > 1)
        .map(|(library, files)| {
            let files: Vec<String> = files.iter().map(|file| format!("`{}`", file.display())).collect();
            format!("`{library}` is {} different files: {}; both come along", files.len(), files.join(" and "))
        })
        .collect();
    out.warnings.extend(warnings);
}

/// The binary that the loader finds for each needed name after the installation, for each binary. A
/// search path that is inherited (`DT_RPATH`) counts as the binary's own if all files that load it
/// have it.
fn reached(binaries: &[Binary]) -> Vec<BTreeMap<String, usize>> {
    // The prefix of the environment and its version of Python do not matter, because no fixed
    // relative path leads to it from elsewhere.
    let place =
        site::PythonEnvironment::new(PythonVersion { major: 3, minor: 12, free_threaded: false }, "/environment");
    let packages = place.packages();
    let (mut facts, mut numbers) = (SiteFacts::default(), BTreeMap::new());
    for (number, binary) in binaries.iter().enumerate() {
        let Some(site) = binary.site() else { continue };
        let path = format!("{packages}/{site}");
        facts.objects.insert(path.clone(), Object::without_symbols(binary.elf.clone(), binary.content.size()));
        numbers.insert(path, number);
    }
    let site = Site::of_files(facts.objects.iter().map(|(path, object)| (path.clone(), object.size)), &place);
    let scenario = Scenario::python(None);
    let loader = Loader::new(&site, &facts, &scenario).only_everywhere();
    let roots: Vec<&String> = numbers.keys().collect();
    let leads = roots.par_iter().fold(Leads::new, |leads, root| {
        let led = loader.lead(root).into_iter().filter_map(|Led { path, name, to }| {
            let lead = Lead { is_own: path == root.as_str(), to: to.and_then(|to| numbers.get(to)).copied() };
            Some(((*numbers.get(path)?, name), lead))
        });
        merge(leads, led.collect())
    });
    let leads: Leads = leads.reduce(Leads::new, merge);
    let mut reached = vec![BTreeMap::new(); binaries.len()];
    for ((from, name), lead) in leads {
        if let Some(to) = lead.to {
            reached[from].insert(name.to_owned(), to);
        }
    }
    reached
}

/// Results by the binary that needs something and the needed name.
type Leads<'a> = BTreeMap<(usize, &'a str), Lead>;

/// Combines the results of different processes.
fn merge<'a>(mut one: Leads<'a>, other: Leads<'a>) -> Leads<'a> {
    for (key, lead) in other {
        let known = one.entry(key).or_insert(lead);
        *known = known.and(lead);
    }
    one
}

/// The result of search paths in some processes.
#[derive(Debug, Clone, Copy)]
struct Lead {
    /// `true` for the process that loads the file itself. Such a process may never exist if other
    /// files load the file.
    is_own: bool,
    /// The binary; `None` if the search paths find nothing in one of the processes.
    to: Option<usize>,
}

impl Lead {
    /// The combined result of both groups of processes.
    fn and(self, other: Lead) -> Lead {
        match (self.is_own, other.is_own) {
            (true, false) => other,
            (false, true) => self,
            // Both are equally good; the choice must not depend on the order.
            (is_own, _) => Lead { is_own, to: self.to.zip(other.to).map(|(one, other)| one.min(other)) },
        }
    }
}

struct Index {
    names: BTreeMap<String, Vec<usize>>,
}

impl Index {
    fn new(binaries: &[Binary]) -> Index {
        let mut index = Index { names: BTreeMap::new() };
        for (number, binary) in binaries.iter().enumerate() {
            let Some(site) = binary.site().filter(|_| binary.elf.kind == ElfKind::SharedLibrary) else { continue };
            let names: BTreeSet<&str> =
                [Some(paths::name(site)), binary.elf.soname.as_deref()].into_iter().flatten().collect();
            for name in names {
                index.names.entry(name.to_owned()).or_default().push(number);
            }
        }
        index
    }

    /// The binary with this name that is nearest to a folder, and `true` if another one is equally
    /// near.
    fn nearest(&self, name: &str, folder: &str, binaries: &[Binary]) -> Option<(usize, bool)> {
        let candidates = self.names.get(name)?;
        let distances = candidates.iter().map(|number| {
            let other = binaries[*number].site().map_or("", paths::folder);
            (paths::relative(folder, other).split('/').filter(|part| !part.is_empty()).count(), *number)
        });
        let (least, best) = distances.clone().min()?;
        Some((best, distances.filter(|(distance, _)| *distance == least).count() > 1))
    }
}

struct Resolver<'a> {
    binaries: &'a [Binary],
    rules: &'a Rules<'a>,
    index: Index,
    finder: Finder,
    by_file: BTreeMap<PathBuf, usize>,
    queue: VecDeque<usize>,
    out: Resolution,
}

/// A file that needs libraries.
struct Seeker {
    /// Its name in messages and plans.
    who: String,
    /// The chain of files that need it.
    chain: Vec<String>,
    /// Its folder below site-packages.
    folder: Option<String>,
    /// Directories of this machine that are searched before those of the user.
    first: Vec<PathBuf>,
    /// Directories that are searched after those.
    second: Vec<PathBuf>,
    /// Directories that the libraries it loads inherit.
    passed: Vec<PathBuf>,
    /// `true` if it is part of the ROCm tree.
    in_tree: bool,
}

impl Resolver<'_> {
    fn of_binary(&mut self, number: usize, binary: &Binary, reached: &BTreeMap<String, usize>) -> Vec<Need> {
        let absolute: Vec<PathBuf> =
            binary.entries().into_iter().filter(|entry| entry.starts_with('/')).map(PathBuf::from).collect();
        let has_runpath = binary.elf.runpath.is_some();
        let seeker = Seeker {
            who: binary.member.clone(),
            chain: vec![binary.member.clone()],
            folder: binary.site().map(|site| paths::folder(site).to_owned()),
            first: if has_runpath { Vec::new() } else { absolute.clone() },
            passed: if has_runpath { Vec::new() } else { absolute.clone() },
            second: if has_runpath { absolute } else { Vec::new() },
            in_tree: matches!(binary.origin, Origin::Tree(_)),
        };
        let mut needs = Vec::new();
        for name in unique(&binary.elf.needed) {
            let base = paths::name(name);
            if is_python(base) && binary.elf.kind == ElfKind::Executable {
                let text =
                    format!("the program `{}` needs `{base}`, which comes with the interpreter only", binary.member);
                self.out.warnings.insert(text);
                continue;
            }
            let target = match reached.get(base) {
                Some(binary) if !self.is_of_system(base) => Some(Target::Wheel { binary: *binary, reached: true }),
                _ => self.target(name, &seeker, Some(number)),
            };
            needs.extend(target.map(|target| Need { name: name.clone(), target }));
        }
        needs
    }

    fn of_external(&mut self, index: usize) -> Vec<Need> {
        let external = &self.out.externals[index];
        let elf = external.found.elf.clone();
        let own = directories_of(&external.found);
        let inherited = external.inherited.clone();
        let has_runpath = elf.runpath.is_some();
        let first: Vec<PathBuf> =
            if has_runpath { Vec::new() } else { own.iter().chain(&inherited).cloned().collect() };
        let seeker = Seeker {
            who: paths::name(&external.found.real.to_string_lossy()).to_owned(),
            chain: external.chain.clone(),
            folder: None,
            passed: if has_runpath { inherited } else { first.clone() },
            first,
            second: if has_runpath { own } else { Vec::new() },
            in_tree: false,
        };
        let mut needs = Vec::new();
        for name in unique(&elf.needed) {
            needs.extend(self.target(name, &seeker, None).map(|target| Need { name: name.clone(), target }));
        }
        needs
    }

    fn is_of_system(&self, library: &str) -> bool {
        let policies = Policies::built_in();
        let listed = match &self.rules.policy {
            Some(glibc) => policies.provides_with(library, glibc),
            None => policies.provides(library),
        };
        listed || library.starts_with("ld-linux")
    }

    /// The origin of a library that no search path finds. `None` if it is missing, which is
    /// recorded.
    fn target(&mut self, name: &str, seeker: &Seeker, number: Option<usize>) -> Option<Target> {
        let base = paths::name(name);
        if self.is_of_system(base) {
            return Some(Target::System);
        }
        if is_python(base) {
            return Some(Target::Python);
        }
        if self.rules.excludes.has(base) {
            return Some(self.leave(base, NotCopiedReason::Excluded, seeker));
        }
        if let Some(target) = self.in_wheel(base, seeker, number) {
            return Some(target);
        }
        if self.rules.families != Families::Tree && self.rules.beside.of(base).is_some() {
            return Some(self.leave(base, NotCopiedReason::Beside, seeker));
        }
        let provider = Providers::embedded().of(base);
        if let Some(provider) = provider {
            let stays_out = match (provider.kind, self.rules.families) {
                (LibraryProduct::Driver, _) | (LibraryProduct::Torch, Families::Tree) | (_, Families::KeepOut) => true,
                (LibraryProduct::Rocm, Families::Tree) => {
                    let refused = vec!["it is part of ROCm, and not in the tree that was given".to_owned()];
                    self.miss(base, seeker, refused);
                    return None;
                }
                (_, Families::Take) => false,
            };
            if stays_out {
                return Some(self.leave(base, NotCopiedReason::Family(provider.kind), seeker));
            }
        }
        self.on_machine(name, base, seeker)
    }

    fn in_wheel(&mut self, base: &str, seeker: &Seeker, number: Option<usize>) -> Option<Target> {
        let folder = seeker.folder.clone().unwrap_or_default();
        let (binary, equal) = self.index.nearest(base, &folder, self.binaries)?;
        if Some(binary) == number {
            return Some(Target::Wheel { binary, reached: true });
        }
        if equal {
            let chosen = &self.binaries[binary].member;
            let text = format!("`{}` needs `{base}`, of which the wheel has several: `{chosen}` is taken", seeker.who);
            self.out.warnings.insert(text);
        }
        Some(Target::Wheel { binary, reached: false })
    }

    fn on_machine(&mut self, name: &str, base: &str, seeker: &Seeker) -> Option<Target> {
        let mut refused = BTreeSet::new();
        let found = if name.starts_with('/') { self.finder.take(Path::new(name), &mut refused) } else { None };
        let found = found.map(|found| (found, "its own path".to_owned())).or_else(|| {
            let groups = [
                (&seeker.first[..], "a search path in the file"),
                (self.rules.library_path, "--lib-path"),
                (&seeker.second[..], "a search path in the file"),
                (self.rules.system, "the system's directories"),
            ];
            groups.into_iter().find_map(|(directories, by)| {
                self.finder.find(base, directories, &mut refused).map(|found| (found, by.to_owned()))
            })
        });
        let Some((found, found_by)) = found else {
            self.miss(name, seeker, refused.into_iter().collect());
            return None;
        };
        if self.rules.excludes.has_path(&found.path) || self.rules.excludes.has_path(&found.real) {
            return Some(self.leave(base, NotCopiedReason::Excluded, seeker));
        }
        let index = self.by_file.get(&found.real).copied().unwrap_or_else(|| {
            let index = self.out.externals.len();
            self.by_file.insert(found.real.clone(), index);
            let mut chain = vec![found.real.display().to_string()];
            chain.extend(seeker.chain.iter().cloned());
            self.out.externals.push(External {
                library: base.to_owned(),
                found,
                found_by,
                needed_by: BTreeSet::new(),
                needs: Vec::new(),
                chain,
                inherited: seeker.passed.clone(),
            });
            self.queue.push_back(index);
            index
        });
        self.out.externals[index].needed_by.insert(seeker.who.clone());
        Some(Target::Graft(index))
    }

    fn leave(&mut self, library: &str, reason: NotCopiedReason, seeker: &Seeker) -> Target {
        let provider = Providers::embedded().of(library).filter(|_| reason != NotCopiedReason::Excluded);
        let held = self.rules.beside.of(library).filter(|_| reason != NotCopiedReason::Excluded);
        let directory = held.map(|held| held.directory.clone()).or(provider.and_then(|known| known.directory.clone()));
        let distribution =
            held.map(|held| held.distribution.clone()).or(provider.and_then(|known| known.distribution.clone()));
        let left = self.out.left.entry(library.to_owned()).or_insert_with(|| Left {
            reason,
            provider,
            distribution,
            directory: directory.clone(),
            needed_by: BTreeSet::new(),
        });
        left.needed_by.insert(seeker.who.clone());
        // torch is imported before its extensions, and its libraries are then loaded.
        let is_torch = provider.is_some_and(|provider| provider.kind == LibraryProduct::Torch);
        Target::Out { directory: directory.filter(|_| !is_torch) }
    }

    fn miss(&mut self, library: &str, seeker: &Seeker, refused: Vec<String>) {
        // A part of ROCm that no file of the wheel loads may lack libraries that only it needs, as
        // on the machine on which ROCm was built.
        if seeker.in_tree {
            let text = format!("`{}` of the ROCm tree needs `{library}`, which was not found", seeker.who);
            self.out.warnings.insert(text);
            return;
        }
        self.out.missing.push(MissingLibrary { library: library.to_owned(), needed_by: seeker.chain.clone(), refused });
    }
}

/// The directories of this machine in a library's own search path.
fn directories_of(found: &Found) -> Vec<PathBuf> {
    let mut folders = vec![found.path.parent().unwrap_or(Path::new("/"))];
    folders.extend(found.real.parent().filter(|real| *real != folders[0]));
    let entries = found.elf.search_path().unwrap_or_default().split(':');
    let directories = entries.flat_map(|entry| match paths::of_origin(entry) {
        Some(rest) => folders.iter().map(|folder| folder.join(rest)).collect(),
        None if entry.starts_with('/') => vec![PathBuf::from(entry)],
        None => Vec::new(),
    });
    directories.collect()
}

fn unique(names: &[String]) -> impl Iterator<Item = &String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(move |name| seen.insert(name.as_str()))
}

/// `true` for names such as `libpython3.12.so.1.0`: an extension module gets these symbols from the
/// interpreter, whatever file contains it.
fn is_python(library: &str) -> bool {
    let Some(rest) = library.strip_prefix("libpython") else { return false };
    let Some((version, end)) = rest.split_once(".so") else { return false };
    let version = version.trim_end_matches(['m', 't', 'd']);
    // libpython3.so belongs to the stable ABI. Programs that search for their interpreter link to
    // it on purpose.
    version.contains('.') && is_version(version) && (end.is_empty() || end.strip_prefix('.').is_some_and(is_version))
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.split('.').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_has_its_own_library_in_itself() {
        for yes in ["libpython3.12.so.1.0", "libpython3.13t.so.1.0", "libpython2.7.so", "libpython3.7m.so.1.0"] {
            assert!(is_python(yes), "{yes}");
        }
        for no in ["libpython3.so", "libpythonx.so.1", "libpython3.12.a", "libpython.so", "libpython3.12.sox"] {
            assert!(!is_python(no), "{no}");
        }
    }
}
