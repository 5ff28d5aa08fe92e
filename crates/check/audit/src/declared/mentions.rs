//! Input: an environment and one of its wheels. Output: the requirements of the wheel that nothing
//! in it uses.
//!
//! Only a run would show which packages Python code uses: imports hide in strings, plug-ins and
//! compiled modules. So a package counts as used if the code of the wheel contains one of its names
//! anywhere, even in a comment. The reports are therefore rarely wrong but incomplete.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use regex::bytes::Regex;

use super::{Declared, Extras};
use rocwheel_index::requirement::Requirement;
use rocwheel_loader::site::Site;

use crate::Error;

/// Endings of the files that can name a Python package they use.
const CODE: [&str; 9] = [".py", ".pyi", ".pyx", ".pxd", ".pth", ".ipynb", ".json", ".toml", ".cfg"];
/// Size limit in bytes. Larger compiled modules are not searched, and their requirements count as
/// used.
const LARGEST_MODULE: u64 = 64 << 20;

/// The search for requirements that nothing uses, in all wheels of an environment.
pub struct UnneededSearch<'a> {
    site: &'a Site,
    declared: &'a Declared,
    /// The names by which code can refer to each wheel.
    names: BTreeMap<usize, BTreeSet<String>>,
}

impl<'a> UnneededSearch<'a> {
    /// Collects the names of modules and programs.
    pub fn new(site: &'a Site, declared: &'a Declared) -> UnneededSearch<'a> {
        UnneededSearch { site, declared, names: names_by_wheel(site) }
    }

    /// The requirements of a wheel that nothing uses: the files load no library of the required
    /// distribution, and no file of the wheel mentions its modules, programs or name. `paths` are
    /// the files of the wheel, `loads` the wheels whose libraries they load.
    ///
    /// Requirements of extras are not judged. Neither are distributions that are not in the
    /// environment, or those without modules and libraries, which exist for their own requirements.
    pub fn of(&self, (wheel, paths): (usize, &[&str]), loads: &BTreeSet<usize>) -> Result<Vec<&'a Requirement>, Error> {
        let UnneededSearch { site, declared, names } = self;
        // A name to search for → the open requirements that it shows to be used.
        let mut answers: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        let mut open: BTreeMap<usize, &Requirement> = BTreeMap::new();
        let direct: BTreeSet<usize> = declared
            .of(wheel, Extras::Asked)
            .filter_map(|requirement| declared.required(wheel, &requirement.name))
            .collect();
        for (index, requirement) in declared.wheels[wheel].all.iter().enumerate() {
            let required = declared.required(wheel, &requirement.name);
            let Some(required) =
                required.filter(|_| requirement.applies_in(&declared.environments[wheel], &BTreeSet::new()))
            else {
                continue;
            };
            let reached = declared.reaches(required, Extras::Asked);
            // A package that comes only through this requirement is also a reason for it.
            let counted: Vec<usize> =
                reached.into_iter().filter(|reached| *reached == required || !direct.contains(reached)).collect();
            let is_empty = names.get(&required).is_none_or(BTreeSet::is_empty);
            if is_empty || required == wheel || counted.iter().any(|counted| loads.contains(counted)) {
                continue;
            }
            open.insert(index, requirement);
            for name in counted.iter().filter_map(|counted| names.get(counted)).flatten() {
                answers.entry(name.clone()).or_default().insert(index);
                // Code may also write `from google import protobuf`.
                let last = name.rsplit('.').next().unwrap_or(name);
                answers.entry(last.to_owned()).or_default().insert(index);
            }
            for name in [requirement.name.clone(), requirement.name.replace('-', "_")] {
                answers.entry(name).or_default().insert(index);
            }
        }
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let search = Search::new(&answers);
        let (modules, code): (Vec<&str>, Vec<&str>) = searched(paths).partition(|path| is_module(path));
        for files in [code, modules] {
            let mentioned: Vec<BTreeSet<usize>> = files
                .par_iter()
                .map(|path| {
                    if site.files[*path].size > LARGEST_MODULE {
                        Ok(search.all())
                    } else {
                        Ok(search.of(&site.bytes(path)?))
                    }
                })
                .collect::<Result<_, Error>>()?;
            for index in mentioned.into_iter().flatten() {
                open.remove(&index);
            }
            if open.is_empty() {
                break;
            }
        }
        Ok(open.into_values().collect())
    }
}

/// The files that are searched.
fn searched<'a>(paths: &[&'a str]) -> impl Iterator<Item = &'a str> {
    paths.iter().copied().filter(|path| {
        let is_info = path.split('/').any(|part| part.ends_with(".dist-info"));
        let has_no_ending = !path.rsplit('/').next().unwrap_or(path).contains('.');
        !is_info && (is_module(path) || has_no_ending || CODE.iter().any(|ending| path.ends_with(ending)))
    })
}

fn is_module(path: &str) -> bool {
    [".so", ".pyd", ".dll"].iter().any(|ending| path.ends_with(ending)) || path.contains(".so.")
}

/// The names by which code can refer to each wheel: its modules as they are imported, and its
/// programs.
fn names_by_wheel(site: &Site) -> BTreeMap<usize, BTreeSet<String>> {
    let packages = format!("{}/", site.packages());
    let mut names: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for (path, placed) in &site.files {
        let name = if let Some(path) = path.strip_prefix(packages.as_str()) {
            module_name(site, &packages, path)
        } else {
            path.strip_prefix("bin/").map(str::to_owned)
        };
        names.entry(placed.wheel).or_default().extend(name);
    }
    for (path, script) in &site.scripts {
        names.entry(script.wheel).or_default().extend(path.strip_prefix("bin/").map(str::to_owned));
    }
    names
}

/// The module that a file belongs to: `numpy` for `numpy/core/x.py`, `google.protobuf` for
/// `google/protobuf/x.py`, `six` for `six.py`; `None` for data.
fn module_name(site: &Site, packages: &str, path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').collect();
    let (file, folders) = parts.split_last()?;
    if folders.iter().any(|folder| folder.contains('.')) {
        return None;
    }
    let stem = file.split('.').next().unwrap_or(file);
    let is_code = [".py", ".so", ".pyd"].iter().any(|ending| file.ends_with(ending));
    let is_library = file.contains(".so");
    if !is_code && !is_library {
        return None;
    }
    // Several distributions may share a folder without `__init__`, so its name alone is no
    // evidence.
    let mut name = String::new();
    for folder in folders {
        let path = if name.is_empty() { (*folder).to_owned() } else { format!("{}/{folder}", name.replace('.', "/")) };
        name = path.replace('/', ".");
        if ["__init__.py", "__init__.pyc"]
            .iter()
            .any(|init| site.files.contains_key(&format!("{packages}{path}/{init}")))
        {
            return Some(name);
        }
    }
    match (name.is_empty(), stem) {
        (true, stem) => Some(stem.to_owned()),
        (false, "__init__") => Some(name),
        (false, stem) if is_code => Some(format!("{name}.{stem}")),
        (false, _) => Some(name),
    }
}

/// One search for all names.
struct Search<'a> {
    words: Regex,
    answers: &'a BTreeMap<String, BTreeSet<usize>>,
}

impl<'a> Search<'a> {
    fn new(answers: &'a BTreeMap<String, BTreeSet<usize>>) -> Self {
        // Longest first, or `google` would hide `google.protobuf`.
        let mut names: Vec<&String> = answers.keys().collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        let names: Vec<String> = names.into_iter().map(|name| regex::escape(name)).collect();
        let words = Regex::new(&format!(r"(?-u)\b(?:{})\b", names.join("|")));
        Self { words: words.expect("escaped names make an expression"), answers }
    }

    fn of(&self, bytes: &[u8]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for word in self.words.find_iter(bytes) {
            let mut word = std::str::from_utf8(word.as_bytes()).ok();
            while let Some(name) = word {
                found.extend(self.answers.get(name).into_iter().flatten());
                word = name.rsplit_once('.').map(|(above, _)| above);
            }
        }
        found
    }

    fn all(&self) -> BTreeSet<usize> {
        self.answers.values().flatten().copied().collect()
    }
}
