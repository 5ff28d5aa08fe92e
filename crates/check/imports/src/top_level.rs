//! Input: top-level modules of a wheel, and its other files. Output: which of these modules the
//! wheel itself uses: by an import anywhere, in an entry point, or as a module name in a string,
//! for `importlib.import_module` or `python -m`. The files are read, never run.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rocwheel_loader::site::Site;
use rocwheel_wheel::EntryPointFile;

use crate::python::{Module, Value, calls};

/// Functions that import the module which their first argument names.
const IMPORTING: [&str; 4] = ["import_module", "__import__", "run_module", "find_spec"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModuleUse {
    Imports,
    /// It has the name of the module in a string or as an entry point.
    Names,
}

/// The first file that uses each of some top-level modules. `modules` has the files of each module
/// or package, by its name in site-packages (`tests`, `conftest.py`), and `others` are the other
/// files of the wheel. The files of a module that is used are read like the others.
pub fn users<'a>(
    site: &Site,
    modules: &BTreeMap<&'a str, Vec<&'a str>>,
    others: Vec<&'a str>,
) -> BTreeMap<&'a str, (ModuleUse, &'a str)> {
    let mut open: Vec<TopLevel<'a>> = modules.iter().map(|(top, files)| TopLevel::new(site, top, files)).collect();
    let mut users = BTreeMap::new();
    let mut files = others;
    while !files.is_empty() && !open.is_empty() {
        let mut found: Vec<(ModuleUse, &str, &str)> = files
            .par_iter()
            .flat_map_iter(|path| uses(site, path, &open).into_iter().map(|(kind, top)| (kind, *path, top)))
            .collect();
        found.sort_unstable();
        files = Vec::new();
        for (kind, path, top) in found {
            if !users.contains_key(top) {
                users.insert(top, (kind, path));
                files.extend(&modules[top]);
            }
        }
        open.retain(|module| !users.contains_key(module.top));
    }
    users
}

/// A module or package at the top level.
struct TopLevel<'a> {
    /// Its name in site-packages: `tests`, `conftest.py`.
    top: &'a str,
    /// The name by which it is imported.
    name: &'a str,
    /// The names of its modules and packages without the first part: `run` for `tests/run.py`.
    inside: Vec<&'a str>,
}

impl<'a> TopLevel<'a> {
    fn new(site: &Site, top: &'a str, files: &[&'a str]) -> TopLevel<'a> {
        let folder = format!("{}/{top}/", site.packages());
        let inside = files.iter().filter_map(|path| path.strip_prefix(folder.as_str())?.split(['/', '.']).next());
        let mut inside: Vec<&str> = inside.collect();
        inside.dedup();
        TopLevel { top, name: top.strip_suffix(".py").unwrap_or(top), inside }
    }

    /// `true` for the name of this module or of one inside: `tests`, `tests.run`.
    fn is_or_has(&self, module: &str) -> bool {
        module.strip_prefix(self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    /// `true` if a string is the name of a module inside this one, also with an attribute
    /// (`tests.run:main`), or has `-m` and the name of this module or of one inside.
    fn is_named_in(&self, text: &str) -> bool {
        let option = format!("-m {}", self.name);
        if text.match_indices(&option).any(|(at, _)| !text[at + option.len()..].starts_with(is_of_name)) {
            return true;
        }
        let Some(rest) = text.strip_prefix(self.name).and_then(|rest| rest.strip_prefix('.')) else { return false };
        let module = rest.split(':').next().unwrap_or(rest);
        let first = module.split('.').next().unwrap_or(module);
        // `"tests." + name`
        rest.is_empty() || is_dotted(module) && self.inside.contains(&first)
    }

    fn used_by(&self, text: &str, module: &Module) -> Option<ModuleUse> {
        let is_import = module.imports.iter().any(|import| import.level == 0 && self.is_or_has(&import.module));
        if is_import
            || calls(text, &IMPORTING)
                .iter()
                .any(|call| matches!(call.argument(0, "name"), Some(Value::Text(name)) if self.is_or_has(name)))
        {
            return Some(ModuleUse::Imports);
        }
        // `[sys.executable, "-m", "tests"]`
        let is_option = module.texts.windows(2).any(|pair| pair[0] == "-m" && self.is_or_has(&pair[1]));
        // `f"tests.{name}"`
        let mut starts = module.starts.iter().filter_map(|start| start.strip_prefix(self.name)?.strip_prefix('.'));
        let is_named = is_option || module.texts.iter().any(|text| self.is_named_in(text)) || starts.any(is_dotted);
        is_named.then_some(ModuleUse::Names)
    }
}

fn is_of_name(sign: char) -> bool {
    sign == '_' || sign.is_alphanumeric()
}

/// `true` for parts of names with dots between them, and for nothing.
fn is_dotted(text: &str) -> bool {
    text.chars().all(|sign| sign == '.' || is_of_name(sign))
}

/// A file that cannot be read uses none.
fn uses<'a>(site: &Site, path: &str, modules: &[TopLevel<'a>]) -> Vec<(ModuleUse, &'a str)> {
    let is_program = path.starts_with("bin/");
    let are_entry_points = path.ends_with(".dist-info/entry_points.txt");
    if !is_program && !are_entry_points && ![".py", ".pth"].iter().any(|ending| path.ends_with(ending)) {
        return Vec::new();
    }
    let Ok(bytes) = site.bytes(path) else { return Vec::new() };
    let text = String::from_utf8_lossy(&bytes);
    let first_line = text.lines().next().unwrap_or_default();
    if is_program && !(first_line.starts_with("#!") && first_line.contains("python")) {
        return Vec::new();
    }
    let named: Vec<&TopLevel<'a>> = modules.iter().filter(|module| text.contains(module.name)).collect();
    if named.is_empty() {
        return Vec::new();
    }
    if are_entry_points {
        let entries = EntryPointFile::parse(&text).entries;
        let targets = named.into_iter().filter(|module| entries.iter().any(|entry| module.is_or_has(entry.module())));
        return targets.map(|module| (ModuleUse::Names, module.top)).collect();
    }
    let module = Module::read_with_texts(&text);
    named.into_iter().filter_map(|top| Some((top.used_by(&text, &module)?, top.top))).collect()
}
