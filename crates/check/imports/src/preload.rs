//! Input: a [`Site`]. Output: the libraries that its packages load first, from their own Python
//! files: the lists in calls of `rocm_sdk.initialize_process`, resolved with ROCm's table of
//! libraries. The files are read, never run; parts that only a run would show are reported as
//! unclear.

use std::collections::BTreeMap;

use rocwheel_loader::site::Site;
use rocwheel_tables::Pattern;

use crate::LARGEST;
use crate::python::{Call, Value, calls};

/// Name of the file with a preload list, which the build of a framework writes.
const GENERATED: &str = "_rocm_init.py";
/// Name of the file with the table of libraries in ROCm's packages.
const TABLE: &str = "_dist_info.py";

/// The libraries that packages load before anything else.
#[derive(Debug, Default)]
pub struct Preloads {
    /// Preload lists, in the order of their files.
    pub lists: Vec<PreloadList>,
    /// ROCm's libraries by short name; empty if no package of the set has the table.
    pub table: BTreeMap<String, LibraryEntry>,
    /// Libraries that packages load with ctypes at import.
    pub ctypes: Vec<CtypesLoad>,
    /// Places whose meaning only a run would show.
    pub unclear: Vec<UnclearPreload>,
}

/// A call of `rocm_sdk.initialize_process`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreloadList {
    /// Path of the Python file in the environment.
    pub file: String,
    /// Line of the call, from 1.
    pub line: usize,
    /// The libraries, in load order.
    pub libraries: Vec<Preloaded>,
    /// The ROCm version that the call requires; may contain `*`.
    pub version: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preloaded {
    /// The short name in the list: `amdhip64`.
    pub shortname: String,
    /// The file or the error that the short name leads to.
    pub found: Resolved,
}

/// The result of looking up a short name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// This file of the environment.
    File(String),
    /// The table has the name, but the set lacks the file. Loading it is an error unless it is
    /// optional.
    Absent {
        /// Expected path, relative to the folder of the packages, as a pattern.
        pattern: String,
        /// `true` if `initialize_process` skips it without an error.
        optional: bool,
    },
    /// The table lacks the name: `initialize_process` fails.
    Unknown,
    /// The set has no table.
    NoTable,
}

/// A row of ROCm's table of libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryEntry {
    /// The short name: `amdhip64`.
    pub shortname: String,
    /// The part of ROCm that contains it: `core`, `libraries`.
    pub package: String,
    /// Pattern of the file name: `libamdhip64.so*`.
    pub pattern: String,
    /// The folder inside the package's folder: `lib`.
    pub folder: String,
    /// `true` if a distribution may lack it.
    pub optional: bool,
}

/// A library that a Python file loads with ctypes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtypesLoad {
    /// Path of the Python file in the environment.
    pub file: String,
    /// Line of the call, from 1.
    pub line: usize,
    /// The name or path of the library; `None` if it is computed.
    pub name: Option<String>,
}

/// A place in a Python file whose meaning only a run would show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnclearPreload {
    /// Path of the Python file in the environment.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The problem, for a message.
    pub what: &'static str,
}

impl PreloadList {
    /// The existing files of the list in load order, for
    /// [`rocwheel_loader::simulation::Scenario::preloaded`].
    pub fn files(&self) -> Vec<String> {
        let files = self.libraries.iter().filter_map(|library| match &library.found {
            Resolved::File(path) => Some(path.clone()),
            _ => None,
        });
        files.collect()
    }
}

impl Preloads {
    /// Reads the Python files that can load libraries. A file that cannot be unpacked or is not
    /// text is listed as unclear.
    pub fn read(site: &Site) -> Preloads {
        let mut preloads = Preloads::default();
        let packages = format!("{}/", site.packages());
        let mut lists = Vec::new();
        for (path, placed) in &site.files {
            let Some(inside) = path.strip_prefix(&packages).filter(|_| placed.size <= LARGEST) else { continue };
            let (folder, name) = inside.rsplit_once('/').unwrap_or(("", inside));
            let is_import = name == "__init__.py" && !folder.contains('/');
            if !is_import && name != GENERATED && name != TABLE {
                continue;
            }
            let bytes = site.bytes(path).ok();
            let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                let what = "the file cannot be read";
                preloads.unclear.push(UnclearPreload { file: path.clone(), line: 1, what });
                continue;
            };
            if name == TABLE {
                preloads.read_table(path, &text);
            } else {
                lists.extend(calls(&text, &["initialize_process"]).into_iter().map(|call| (path.clone(), call)));
                preloads.read_ctypes(path, &text);
            }
        }
        for (path, call) in lists {
            preloads.read_list(site, path, &call);
        }
        preloads
    }

    fn read_table(&mut self, path: &str, text: &str) {
        for call in calls(text, &["LibraryEntry"]) {
            match library_entry(&call) {
                // Every package has a copy of the same table.
                Some(entry) => drop(self.table.entry(entry.shortname.clone()).or_insert(entry)),
                None => self.note(path, call.line, "a row of the table of libraries is not literal"),
            }
        }
    }

    fn read_ctypes(&mut self, path: &str, text: &str) {
        for call in calls(text, &["CDLL", "PyDLL", "LoadLibrary"]) {
            let name = call.argument(0, "name").and_then(text_of);
            self.ctypes.push(CtypesLoad { file: path.to_owned(), line: call.line, name });
        }
    }

    fn read_list(&mut self, site: &Site, file: String, call: &Call) {
        let names: Option<Vec<String>> = match call.named.get("preload_shortnames") {
            None => Some(Vec::new()),
            Some(Value::List(items)) => items.iter().map(text_of).collect(),
            Some(_) => None,
        };
        let Some(names) = names else {
            return self.note(&file, call.line, "the preload list is not literal");
        };
        let version = match call.named.get("check_version") {
            Some(Value::Text(version)) => Some(version.clone()),
            Some(_) => {
                self.note(&file, call.line, "the version to check is not literal");
                None
            }
            None => None,
        };
        let libraries =
            names.into_iter().map(|shortname| Preloaded { found: self.resolve(site, &shortname), shortname }).collect();
        self.lists.push(PreloadList { file, line: call.line, libraries, version });
    }

    /// Finds the file of a short name, as `rocm_sdk.find_libraries` does: the shortest name that
    /// matches, then the alphabetically first.
    pub fn resolve(&self, site: &Site, shortname: &str) -> Resolved {
        if self.table.is_empty() {
            return Resolved::NoTable;
        }
        let Some(entry) = self.table.get(shortname) else { return Resolved::Unknown };
        let package = format!("_rocm_sdk_{}", entry.package);
        let packages = format!("{}/", site.packages());
        let pattern = Pattern::new(&entry.pattern);
        let first = format!("{packages}{package}");
        let found = site
            .files
            .range(first.clone()..)
            .take_while(|(path, _)| path.starts_with(&first))
            .filter_map(|(path, _)| {
                let (folder, name) = path.rsplit_once('/')?;
                let (top, below) = folder[packages.len()..].split_once('/').unwrap_or((&folder[packages.len()..], ""));
                // Packages for one family of GPUs have its name as a suffix.
                let is_package = top == package || top.starts_with(&format!("{package}_"));
                (is_package && below == entry.folder && pattern.matches(name)).then_some((name.len(), name, path))
            })
            .min();
        found.map_or_else(
            || Resolved::Absent {
                pattern: format!("{package}/{}/{}", entry.folder, entry.pattern),
                optional: entry.optional,
            },
            |(_, _, path)| Resolved::File(path.clone()),
        )
    }

    fn note(&mut self, file: &str, line: usize, what: &'static str) {
        self.unclear.push(UnclearPreload { file: file.to_owned(), line, what });
    }
}

/// A row of the table of libraries; `None` if it is not literal.
fn library_entry(call: &Call) -> Option<LibraryEntry> {
    Some(LibraryEntry {
        shortname: text_of(call.argument(0, "shortname")?)?,
        package: text_of(call.argument(1, "package_name")?)?,
        pattern: text_of(call.argument(2, "so_pattern")?)?,
        folder: call.argument(4, "posix_relpath").map_or_else(|| Some("lib".to_owned()), text_of)?,
        optional: match call.argument(6, "optional") {
            None => false,
            Some(Value::Bool(optional)) => *optional,
            Some(_) => return None,
        },
    })
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        _ => None,
    }
}
