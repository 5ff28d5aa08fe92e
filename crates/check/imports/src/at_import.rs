//! Input: a wheel, and the names of libraries that its files need and do not find. Output: the
//! libraries that an import of its packages loads by path, as far as the Python files show:
//! `rmm/__init__.py` imports `librmm`, whose `load.py` names `librmm.so` and calls `ctypes.CDLL`.
//! The files are read, never run.

use std::collections::BTreeSet;

use rocwheel_content::archive_path::file_name;
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::site::Site;

use crate::LARGEST;
use crate::python::{Import, Module};

/// Largest number of Python files that are read for one wheel.
const MOST: usize = 512;

/// A Python file that loads libraries by path.
#[derive(Debug)]
pub struct LoaderFile {
    /// Path of the file in the environment.
    pub path: String,
    texts: Vec<String>,
    starts: Vec<String>,
}

impl LoaderFile {
    fn new(path: &str, module: Module) -> LoaderFile {
        LoaderFile { path: path.to_owned(), texts: module.texts, starts: module.starts }
    }

    /// `true` if a string of the file is the name of a library, with or without `.so`, or the
    /// beginning of the name.
    pub fn names(&self, library: &str) -> bool {
        // `f"{folder}/{name}"` has an empty beginning, and that of `f"lib{name}"` is too short to
        // identify a library.
        const SHORTEST: usize = 6;
        let name = file_name(library);
        let stem = name.split(".so").next().unwrap_or(name);
        let mut starts = self.starts.iter().map(|start| file_name(start));
        self.texts.iter().map(|text| file_name(text)).any(|text| text == name || text == stem)
            || starts.any(|start| start.len() >= SHORTEST && name.starts_with(start))
    }
}

fn read(site: &Site, path: &str) -> Option<Module> {
    Some(Module::read(&text(site, path)?))
}

fn text(site: &Site, path: &str) -> Option<String> {
    site.files.get(path).filter(|placed| placed.size <= LARGEST)?;
    String::from_utf8(site.bytes(path).ok()?).ok()
}

/// The Python files of a wheel that load libraries by path.
pub fn loader_files(site: &Site, wheel: usize) -> Vec<LoaderFile> {
    let files = site.files.iter().filter(|(path, placed)| placed.wheel == wheel && path.ends_with(".py"));
    let texts = files.take(MOST).filter_map(|(path, _)| Some((path, text(site, path)?)));
    let read = texts.filter(|(_, text)| Module::may_load(text)).map(|(path, text)| (path, Module::read(&text)));
    read.filter(|(_, module)| module.loads_by_path).map(|(path, module)| LoaderFile::new(path, module)).collect()
}

/// The Python file of a wheel that imports a compiled module; `module` is the path of the module
/// without its suffix.
pub fn importer_of(site: &Site, wheel: usize, module: &str) -> Option<String> {
    let walk = Walk::new(site, BTreeSet::new());
    let wanted = module.strip_prefix(&walk.packages)?;
    let files = site.files.iter().filter(|(path, placed)| placed.wheel == wheel && path.ends_with(".py")).take(MOST);
    let mut read = files.filter_map(|(path, _)| Some((path, read(site, path)?)));
    let importer = read.find(|(path, found)| {
        found.imports.iter().any(|import| walk.modules(path, import).iter().any(|parts| parts == wanted))
    });
    importer.map(|(path, _)| path.clone())
}

/// The libraries that an import of a wheel's packages loads by path, in load order. `required` are
/// the wheels that it requires. The imports are followed only into files of these wheels and of the
/// wheel itself that have a library with a name in `wanted`, or one that such a library needs.
pub fn loaded_at_import(
    (site, facts): (&Site, &SiteFacts),
    wheel: usize,
    required: &BTreeSet<usize>,
    wanted: &BTreeSet<String>,
) -> Vec<String> {
    let libraries = candidates((site, facts), wheel, required, wanted);
    if libraries.is_empty() {
        return Vec::new();
    }
    let mut followed: BTreeSet<usize> = libraries.iter().map(|path| site.files[*path].wheel).collect();
    followed.insert(wheel);
    let mut walk = Walk::new(site, followed);
    let starts = site.files.iter().filter(|(path, placed)| {
        let inside = path.strip_prefix(&walk.packages).and_then(|inside| inside.strip_suffix("/__init__.py"));
        placed.wheel == wheel && inside.is_some_and(|folder| !folder.contains('/'))
    });
    for start in starts.map(|(path, _)| path).collect::<Vec<_>>() {
        walk.import(start);
    }
    let mut loaded: Vec<String> = Vec::new();
    for loader in &walk.loaders {
        let owner = site.files[&loader.path].wheel;
        for path in &libraries {
            if site.files[*path].wheel == owner && loader.names(path) && !loaded.iter().any(|known| known == path) {
                loaded.push((*path).to_owned());
            }
        }
    }
    loaded
}

/// Libraries of the wheels that have one of the names, and the libraries that those need.
fn candidates<'a>(
    (site, facts): (&Site, &'a SiteFacts),
    wheel: usize,
    required: &BTreeSet<usize>,
    wanted: &BTreeSet<String>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut names: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    loop {
        let count = found.len();
        for (path, object) in facts.native().filter(|(_, object)| !object.is_program()) {
            let is_it = names.contains(file_name(path))
                || object.elf.soname.as_deref().is_some_and(|name| names.contains(name));
            let owner = site.files[path].wheel;
            if is_it && (owner == wheel || required.contains(&owner)) && found.insert(path.as_str()) {
                names.extend(object.elf.needed.iter().map(String::as_str));
            }
        }
        if found.len() == count {
            return found;
        }
    }
}

/// A walk over imported modules, each after the modules that it imports.
struct Walk<'a> {
    site: &'a Site,
    /// The folder of the packages, with a final slash.
    packages: String,
    /// Numbers of the wheels whose files are read.
    followed: BTreeSet<usize>,
    seen: BTreeSet<String>,
    loaders: Vec<LoaderFile>,
}

impl<'a> Walk<'a> {
    fn new(site: &'a Site, followed: BTreeSet<usize>) -> Walk<'a> {
        Walk { site, packages: format!("{}/", site.packages()), followed, seen: BTreeSet::new(), loaders: Vec::new() }
    }

    /// Reads a module and the modules that it imports. It keeps its own stack because chains of
    /// imports can be long.
    fn import(&mut self, start: &str) {
        let mut open = vec![Step::Read(start.to_owned())];
        while let Some(step) = open.pop() {
            let path = match step {
                Step::Read(path) => path,
                Step::Done(loader) => {
                    self.loaders.push(loader);
                    continue;
                }
            };
            let is_followed = self.site.files.get(&path).is_some_and(|placed| self.followed.contains(&placed.wheel));
            if !is_followed || self.seen.len() >= MOST || !self.seen.insert(path.clone()) {
                continue;
            }
            let Some(module) = read(self.site, &path) else { continue };
            let imported: Vec<String> = module.imports.iter().flat_map(|import| self.files(&path, import)).collect();
            if module.loads_by_path {
                open.push(Step::Done(LoaderFile::new(&path, module)));
            }
            open.extend(imported.into_iter().rev().map(Step::Read));
        }
    }

    /// The Python files that an import statement of `path` runs.
    fn files(&self, path: &str, import: &Import) -> Vec<String> {
        let files = self.modules(path, import).into_iter().filter_map(|module| {
            let base = format!("{}{module}", self.packages);
            let candidates = [format!("{base}/__init__.py"), format!("{base}.py")];
            candidates.into_iter().find(|file| self.site.files.contains_key(file))
        });
        files.collect()
    }

    /// The modules that an import statement may load, as paths below site-packages: each package on
    /// the way, the module, and the imported names, which may be modules.
    fn modules(&self, path: &str, import: &Import) -> Vec<String> {
        let inside = path.strip_prefix(&self.packages).unwrap_or(path);
        let mut parts: Vec<&str> = inside.split('/').collect();
        // One dot means the package of the file; for an `__init__.py` that is its folder.
        let kept = if import.level == 0 { 0 } else { parts.len().saturating_sub(import.level) };
        parts.truncate(kept);
        let mut modules = Vec::new();
        for part in import.module.split('.').filter(|part| !part.is_empty()) {
            parts.push(part);
            modules.push(parts.join("/"));
        }
        let parts = &parts;
        modules.extend(
            import.names.iter().map(|name| parts.iter().copied().chain([name.as_str()]).collect::<Vec<_>>().join("/")),
        );
        modules
    }
}

enum Step {
    Read(String),
    /// Every module that this file imports has been read.
    Done(LoaderFile),
}
