//! Input: files to load. Output: the [`Trace`] of one process, by the rules of glibc's
//! `_dl_map_object` and `_dl_map_object_deps`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use rocwheel_system::FileIdentity;

use super::files::{File, Location, Opened, from_machine};
use super::search::{Hit, SHOWN, SearchPath, SearchPaths, expand};
use super::{ByName, FailedLookup, Led, Loaded, Loader, SearchRule, Trace, Where};
use crate::facts::Object;
use crate::site::Site;

/// Flag `DF_1_NODEFLIB`: the system's directories are not searched.
const NO_DEFAULT_LIBRARIES: u64 = 0x800;
/// The loader itself; it is in the process before any other library.
const DYNAMIC_LOADER: &str = "ld-linux-x86-64.so.2";

/// The prefix of the names of musl's C library: `libc.so`, `libc.musl-x86_64.so.1`.
const C_LIBRARY_OF_MUSL: &str = "libc.";

/// A process that libraries are loaded into.
pub(super) struct Process<'l, 'a> {
    loader: &'l Loader<'a>,
    pub(super) trace: Trace,
    /// The files of [`Trace::loaded`]; `None` for libraries of a policy, whose contents are
    /// unknown.
    files: Vec<Option<File<'a>>>,
    /// Names, paths and SONAMEs by which libraries were requested.
    names: HashMap<String, usize>,
    identities: HashMap<Identity, usize>,
    /// The libraries that the process has at the start.
    before: HashSet<&'l str>,
}

/// The property that makes two paths the same file for the loader.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Site(String),
    /// Device and inode of an installed file.
    Installed(FileIdentity),
    Real(PathBuf),
}

impl Identity {
    fn of(site: &Site, file: &File<'_>) -> Identity {
        match file {
            File::Site(path, _) => site
                .files
                .get(*path)
                .and_then(|placed| placed.identity)
                .map_or_else(|| Identity::Site((*path).to_owned()), Identity::Installed),
            File::Real(real) => Identity::Real(real.file.clone()),
        }
    }
}

/// The result of a search.
enum Searched<'a> {
    Loaded(usize, SearchRule),
    File(File<'a>, SearchRule),
    System(SearchRule),
    Missing { searched: Vec<String>, refused: Option<(String, String)>, skipped: Vec<String> },
}

impl<'l, 'a> Process<'l, 'a> {
    pub(super) fn new(loader: &'l Loader<'a>) -> Process<'l, 'a> {
        let own = (!loader.machine.is_musl()).then_some(DYNAMIC_LOADER);
        let before = loader.scenario.process.iter().map(String::as_str).chain(own).collect();
        Process {
            loader,
            trace: Trace::default(),
            files: Vec::new(),
            names: HashMap::new(),
            identities: HashMap::new(),
            before,
        }
    }

    /// Loads a file of the environment and everything that it needs. A file that is not native is
    /// ignored.
    pub(super) fn open(&mut self, path: &str) {
        // A program is accepted too: the kernel starts it.
        let Some((path, object)) =
            self.loader.facts.objects.get_key_value(path).filter(|(_, object)| object.is_native())
        else {
            return;
        };
        let file = File::Site(path, object);
        if self.identities.contains_key(&Identity::of(self.loader.site, &file)) {
            return;
        }
        let name = self.loader.absolute(path);
        let first = self.add(&name, file, None, SearchRule::Asked);
        path.clone_into(&mut self.trace.loaded[first].name);
        self.complete(VecDeque::from([first]));
    }

    /// Loads the needs of files, and in turn the needs of those.
    fn complete(&mut self, mut waiting: VecDeque<usize>) {
        while let Some(index) = waiting.pop_front() {
            let Some(file) = self.files[index].clone() else { continue };
            let needs = &file.object().elf.needed;
            let mut taken = Vec::with_capacity(needs.len());
            for name in needs {
                let count = self.trace.loaded.len();
                taken.push(self.need(index, name));
                waiting.extend(count..self.trace.loaded.len());
            }
            self.trace.loaded[index].needs = taken;
        }
    }

    /// Opens every library whose name is in the data of a loaded one, together with its needs, and
    /// then in turn those whose names are in the data of these.
    pub(super) fn open_by_name(&mut self) -> Vec<ByName> {
        let mut opened = Vec::new();
        let mut by = 0;
        while by < self.trace.loaded.len() {
            let object: Option<&'a Object> = match &self.files[by] {
                Some(File::Site(_, object)) => Some(*object),
                _ => None,
            };
            for name in object.and_then(|object| object.loads.as_ref()).into_iter().flatten() {
                let (first, missing) = (self.trace.loaded.len(), self.trace.missing.len());
                let target = if self.names.contains_key(name) { None } else { self.need(by, name) };
                self.complete((first..self.trace.loaded.len()).collect());
                let complete = self.trace.missing.len() == missing;
                self.trace.missing.truncate(missing);
                let loaded = &self.trace.loaded;
                if let Some((target, _)) = target
                    && let (Some(path), Some(by)) = (loaded[target].place.site(), loaded[by].place.site())
                {
                    let brings = loaded[first..].iter().filter_map(|loaded| loaded.place.site());
                    let (by, path, brings) = (by.to_owned(), path.to_owned(), brings.map(str::to_owned).collect());
                    opened.push(ByName { by, name: name.clone(), path, brings, complete });
                }
            }
            by += 1;
        }
        opened
    }

    /// Finds one library that `by` needs, and loads it if it is new.
    fn need(&mut self, by: usize, written: &str) -> Option<(usize, SearchRule)> {
        let name = expand(written, &self.origin(by), self.loader.machine.library_folder());
        match self.search(by, &name) {
            Searched::Loaded(index, rule) => Some((index, rule)),
            Searched::File(file, rule) => {
                if let Some(index) = self.identities.get(&Identity::of(self.loader.site, &file)) {
                    self.names.entry(name).or_insert(*index);
                    return Some((*index, SearchRule::AlreadyLoaded));
                }
                Some((self.add(&name, file, Some(by), rule.clone()), rule))
            }
            Searched::System(rule) => {
                let index = self.trace.loaded.len();
                let place = Where::System(name.clone());
                self.names.insert(name.clone(), index);
                self.files.push(None);
                self.trace.loaded.push(Loaded {
                    name,
                    place,
                    needed_by: Some(by),
                    by: rule.clone(),
                    needs: Vec::new(),
                });
                Some((index, rule))
            }
            Searched::Missing { searched, refused, skipped } => {
                self.trace.missing.push(FailedLookup { name, needed_by: by, searched, refused, skipped });
                None
            }
        }
    }

    fn add(&mut self, name: &str, file: File<'a>, by: Option<usize>, rule: SearchRule) -> usize {
        let index = self.trace.loaded.len();
        let (place, path) = match &file {
            File::Site(path, _) => (Where::Site((*path).to_owned()), self.loader.absolute(path)),
            File::Real(real) => (Where::System(real.path.clone()), real.path.clone()),
        };
        // Libraries that were loaded earlier are asked first, so they keep a name.
        let soname = file.object().elf.soname.clone().filter(|_| !self.loader.machine.is_musl());
        for known in [Some(name.to_owned()), Some(path), soname].into_iter().flatten() {
            self.names.entry(known).or_insert(index);
        }
        self.identities.insert(Identity::of(self.loader.site, &file), index);
        self.files.push(Some(file));
        self.trace.loaded.push(Loaded { name: name.to_owned(), place, needed_by: by, by: rule, needs: Vec::new() });
        index
    }

    /// The directory of a library, the value of `$ORIGIN`.
    fn origin(&self, index: usize) -> String {
        let path = match &self.files[index] {
            Some(File::Site(path, _)) => self.loader.absolute(path),
            Some(File::Real(real)) => real.path.clone(),
            None => String::new(),
        };
        path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned())
    }

    /// Calls `use_them` with the search paths of a library; `None` if it has none.
    fn with_paths<T>(&self, index: usize, use_them: impl FnOnce(&SearchPaths) -> T) -> Option<T> {
        let file = self.files[index].as_ref()?;
        let elf = &file.object().elf;
        if elf.rpath.is_none() && elf.runpath.is_none() {
            return None;
        }
        let cell = match file {
            File::Site(path, _) => self.loader.paths.get(path)?,
            File::Real(real) => &real.paths,
        };
        Some(use_them(cell.get_or_init(|| self.loader.search_paths(elf, &self.origin(index)))))
    }

    fn search(&self, by: usize, name: &str) -> Searched<'a> {
        if let Some(index) = self.names.get(name) {
            return Searched::Loaded(*index, SearchRule::AlreadyLoaded);
        }
        if self.before.contains(name) {
            return match self.real_system(name) {
                Some(Opened::File(file)) => Searched::File(file, SearchRule::AlreadyLoaded),
                _ => Searched::System(SearchRule::AlreadyLoaded),
            };
        }
        if name.contains('/') {
            return self.open_path(name);
        }
        let mut search = Search { process: self, name, searched: Vec::new(), skipped: Vec::new() };
        if let Some(found) = search.everywhere(by) {
            return found;
        }
        Searched::Missing { searched: search.searched, refused: None, skipped: search.skipped }
    }

    /// The results of the search paths of every loaded file.
    pub(super) fn led(&self) -> Vec<Led<'a>> {
        let mut led = Vec::new();
        for (index, file) in self.files.iter().enumerate() {
            let Some(File::Site(path, object)) = file else { continue };
            for written in &object.elf.needed {
                let name = written.rsplit('/').next().unwrap_or(written);
                let mut search = Search { process: self, name, searched: Vec::new(), skipped: Vec::new() };
                let to = match search.everywhere(index) {
                    Some(Searched::File(File::Site(to, _), _)) => Some(to),
                    _ => None,
                };
                led.push(Led { path, name, to });
            }
        }
        led
    }

    fn open_path(&self, name: &str) -> Searched<'a> {
        let opened = match self.loader.locate(name) {
            Location::Site(path) => self.loader.open_site(&path),
            Location::Outside(path) => self.loader.open_outside(&path),
            Location::Nowhere => Opened::Absent,
        };
        let (refused, skipped) = match opened {
            Opened::File(file) => return Searched::File(file, SearchRule::Path),
            Opened::Refused(path, why) => (Some((path, why)), Vec::new()),
            Opened::Skipped(path) => (None, vec![path]),
            Opened::Absent => (None, Vec::new()),
        };
        Searched::Missing { searched: vec![name.to_owned()], refused, skipped }
    }

    /// Searches the system's directories of a real machine.
    fn real_system(&self, name: &str) -> Option<Opened<'a>> {
        for directory in self.loader.machine.directories() {
            let opened = match self.loader.locate(directory) {
                Location::Outside(directory) => from_machine(self.loader.machine.find_in(&directory, name), name),
                Location::Site(folder) => self.loader.open_site(&format!("{folder}/{name}")),
                Location::Nowhere => continue,
            };
            if !matches!(opened, Opened::Absent | Opened::Skipped(_)) {
                return Some(opened);
            }
        }
        None
    }
}

/// A search for a name without a slash.
struct Search<'s, 'l, 'a> {
    process: &'s Process<'l, 'a>,
    name: &'s str,
    searched: Vec<String>,
    skipped: Vec<String>,
}

impl<'a> Search<'_, '_, 'a> {
    /// Searches everywhere in the loader's order.
    fn everywhere(&mut self, by: usize) -> Option<Searched<'a>> {
        let process = self.process;
        if process.loader.machine.is_musl() {
            return self.everywhere_of_musl(by);
        }
        let known = process.loader.is_named(self.name);
        let elf = process.files[by].as_ref().map(|file| &file.object().elf);
        // For an object with DT_RUNPATH the loader ignores every DT_RPATH, including those of the
        // files that caused it to be loaded.
        if elf.is_none_or(|elf| elf.runpath.is_none()) {
            let mut owner = Some(by);
            // No file has that name, so the other owners matter only for the message.
            while let Some(index) = owner.filter(|_| known || self.searched.len() < SHOWN) {
                let hit = process.with_paths(index, |paths| self.in_path(paths.rpath.as_ref()));
                if let Some(hit) = hit.flatten() {
                    return Some(found(hit, |entry| SearchRule::Rpath { owner: index, entry }));
                }
                owner = process.trace.loaded[index].needed_by;
            }
        }
        if let Some(hit) = self.in_path(Some(&process.loader.library_path)) {
            return Some(found(hit, |entry| SearchRule::LibraryPath { entry }));
        }
        let hit = process.with_paths(by, |paths| self.in_path(paths.runpath.as_ref()));
        if let Some(hit) = hit.flatten() {
            return Some(found(hit, |entry| SearchRule::RunPath { entry }));
        }
        if elf.is_some_and(|elf| elf.flags_1 & NO_DEFAULT_LIBRARIES != 0) {
            return None;
        }
        if process.loader.machine.promises(self.name) {
            return Some(Searched::System(SearchRule::System));
        }
        let opened = process.real_system(self.name)?;
        Some(found(Hit { opened, entry: String::new() }, |_| SearchRule::System))
    }

    /// Searches everywhere in the order of musl's loader (`load_library` in `ldso/dynlink.c`). The
    /// one search path of a file, whichever kind it is, also applies to the libraries that are
    /// loaded for it, and the system's directories come last. The C library is the loader itself
    /// and is never searched for.
    fn everywhere_of_musl(&mut self, by: usize) -> Option<Searched<'a>> {
        let process = self.process;
        let is_promised = process.loader.machine.promises(self.name);
        if is_promised && self.name.starts_with(C_LIBRARY_OF_MUSL) {
            return Some(Searched::System(SearchRule::System));
        }
        if let Some(hit) = self.in_path(Some(&process.loader.library_path)) {
            return Some(found(hit, |entry| SearchRule::LibraryPath { entry }));
        }
        let mut owner = Some(by);
        while let Some(index) = owner {
            let hit = process
                .with_paths(index, |paths| self.in_path(paths.runpath.as_ref().or(paths.rpath.as_ref())))
                .flatten();
            if let Some(hit) = hit {
                return Some(found(hit, |entry| SearchRule::Rpath { owner: index, entry }));
            }
            owner = process.trace.loaded[index].needed_by;
        }
        is_promised.then_some(Searched::System(SearchRule::System))
    }

    fn in_path(&mut self, path: Option<&SearchPath>) -> Option<Hit<'a>> {
        let path = path?;
        let room = SHOWN.saturating_sub(self.searched.len());
        self.searched.extend(path.shown.iter().take(room).cloned());
        self.process.loader.look(path, self.name, &mut self.skipped)
    }
}

fn found(hit: Hit<'_>, rule: impl FnOnce(String) -> SearchRule) -> Searched<'_> {
    match hit.opened {
        Opened::File(file) => Searched::File(file, rule(hit.entry)),
        Opened::Refused(path, why) => {
            Searched::Missing { searched: vec![hit.entry], refused: Some((path, why)), skipped: Vec::new() }
        }
        Opened::Skipped(path) => Searched::Missing { searched: vec![hit.entry], refused: None, skipped: vec![path] },
        Opened::Absent => Searched::Missing { searched: vec![hit.entry], refused: None, skipped: Vec::new() },
    }
}
