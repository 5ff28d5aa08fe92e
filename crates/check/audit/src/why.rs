//! Input: the name of a library. Output: the files of the set that pull it in, as a tree from the
//! library up to the files that no other is linked to.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::analysis::file_name;
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::simulation::{Loader, Scenario, is_of_system};
use rocwheel_loader::site::Site;

/// The files that pull a library in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The name that the user asked about.
    pub library: String,
    /// One tree for each file with the name, or one tree without a file if the set has none.
    pub trees: Vec<Puller>,
}

/// A library or program, and the files that are linked to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Puller {
    /// The name by which it is needed: the SONAME, or the file name.
    pub name: String,
    /// Its path, relative to the folder of the packages if it lies there; `None` if the set lacks
    /// it.
    pub path: Option<String>,
    /// The canonical name of its distribution.
    pub distribution: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// The files that need it, by path. Empty for a file that the tree has shown before.
    pub needed_by: Vec<Puller>,
    /// `true` if another place in the tree shows the files that need it.
    pub repeated: bool,
}

/// The name by which an ELF file or a DLL is needed.
fn name<'a>(facts: &'a SiteFacts, path: &'a str) -> &'a str {
    let soname = facts.objects.get(path).and_then(|object| object.elf.soname.as_deref());
    soname.unwrap_or_else(|| file_name(path))
}

/// The key that is equal for all names of one library. Windows ignores case.
fn key(facts: &SiteFacts, user: &str, name: &str) -> String {
    if facts.windows.contains_key(user) { name.to_ascii_lowercase() } else { file_name(name).to_owned() }
}

/// `true` if `name` is the library that was asked for. `asked` may lack the version, or `.so` and
/// the version; case does not matter for a DLL.
fn is_asked(name: &str, asked: &str) -> bool {
    let is_dll = asked.len() >= 4
        && asked.is_char_boundary(asked.len() - 4)
        && asked[asked.len() - 4..].eq_ignore_ascii_case(".dll");
    name == asked
        || is_dll && name.eq_ignore_ascii_case(asked)
        || name.strip_prefix(asked).is_some_and(|rest| {
            asked.ends_with(".so") && rest.starts_with('.') || !asked.contains(".so") && rest.starts_with(".so")
        })
}

/// All names that [`why`] knows: those of files, and those of libraries that files need.
pub fn names(facts: &SiteFacts) -> BTreeSet<&str> {
    let of_files = facts.native().map(|(path, _)| name(facts, path));
    let needed = facts.native().flat_map(|(_, object)| &object.elf.needed).map(|needed| file_name(needed));
    let on_windows = facts.native_of_windows().map(|(path, _)| file_name(path));
    let needed_there = facts.native_of_windows().flat_map(|(_, file)| file.needed()).map(String::as_str);
    of_files.chain(needed).chain(on_windows).chain(needed_there).collect()
}

/// `None` if no file of the set has the name or needs it.
pub fn why(site: &Site, facts: &SiteFacts, library: &str) -> Option<Why> {
    let on_linux = facts.native().map(|(path, object)| (path, &object.elf.needed[..]));
    let on_windows = facts.native_of_windows().map(|(path, file)| (path, file.needed()));
    let mut users: Users = BTreeMap::new();
    for (path, needed) in on_linux.chain(on_windows) {
        for needed in needed {
            let known = users.entry(key(facts, path, needed)).or_insert_with(|| (file_name(needed), BTreeSet::new()));
            known.1.insert(path);
        }
    }
    let scenario = Scenario::python(None);
    let loader = Loader::new(site, facts, &scenario);
    let mut tree = Tree { site, facts, loader, users: &users, shown: BTreeSet::new(), of_system: BTreeMap::new() };
    let all = facts.native().map(|(path, _)| path).chain(facts.native_of_windows().map(|(path, _)| path));
    let asked = all.filter(|path| is_asked(name(facts, path), library) || is_asked(file_name(path), library));
    let files: BTreeSet<&str> = asked.map(String::as_str).collect();
    let mut trees: Vec<Puller> = files.iter().map(|path| tree.of(path)).collect();
    if trees.is_empty() {
        let names: Vec<&str> = users.keys().map(String::as_str).filter(|name| is_asked(name, library)).collect();
        trees = names.into_iter().map(|name| tree.missing(name)).collect();
    }
    for (name, users) in std::mem::take(&mut tree.of_system).into_iter().filter(|(name, _)| is_asked(name, library)) {
        trees.push(tree.of_users(name, users));
    }
    (!trees.is_empty()).then(|| Why { library: library.to_owned(), trees })
}

/// By key: a needed name in the spelling of the first file that needs it, and the files that need
/// it.
type Users<'a> = BTreeMap<String, (&'a str, BTreeSet<&'a str>)>;

struct Tree<'a> {
    site: &'a Site,
    facts: &'a SiteFacts,
    loader: Loader<'a>,
    users: &'a Users<'a>,
    shown: BTreeSet<&'a str>,
    /// Names of system libraries that the set also contains → the files that get the system's.
    of_system: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Tree<'a> {
    fn of(&mut self, path: &'a str) -> Puller {
        let name = name(self.facts, path);
        let repeated = !self.shown.insert(path);
        // A file is needed by its SONAME, or by its file name if that differs.
        let names = BTreeSet::from([key(self.facts, path, name), key(self.facts, path, file_name(path))]);
        let is_windows = self.facts.windows.contains_key(path);
        let users: BTreeSet<&'a str> = names
            .iter()
            .filter_map(|name| self.users.get(name))
            .flat_map(|(_, users)| users)
            .copied()
            .filter(|user| *user != path && self.facts.windows.contains_key(*user) == is_windows)
            .collect();
        let (systems, users): (BTreeSet<&str>, BTreeSet<&str>) =
            users.into_iter().partition(|user| self.gets_the_systems(user, path, name));
        if !systems.is_empty() {
            self.of_system.entry(name).or_default().extend(systems);
        }
        let size = self.facts.objects.get(path).map(|object| object.size);
        let size = size.or_else(|| self.facts.windows.get(path)?.as_ref().map(|file| file.size));
        Puller {
            name: name.to_owned(),
            path: Some(self.site.shown(path).to_owned()),
            distribution: self.site.wheel_of(path).map(|wheel| wheel.name.clone()),
            size: size.unwrap_or(0),
            repeated: repeated && !users.is_empty(),
            needed_by: if repeated { Vec::new() } else { users.into_iter().map(|user| self.of(user)).collect() },
        }
    }

    /// `true` if a file that needs a library of this name gets the system's, although another
    /// distribution has one at `path`. It would get that one only in a process that loaded it
    /// before.
    fn gets_the_systems(&self, user: &str, path: &str, name: &str) -> bool {
        let [of_user, of_path] = [user, path].map(|path| self.site.files.get(path).map(|placed| placed.wheel));
        of_user != of_path
            && is_of_system(name)
            && self.loader.lead(user).iter().any(|led| led.path == user && led.name == name && led.to.is_none())
    }

    fn missing(&mut self, name: &'a str) -> Puller {
        let (written, users) = self.users.get(name).cloned().unwrap_or((name, BTreeSet::new()));
        self.of_users(written, users)
    }

    /// A library that the set lacks, or that these files do not get from it.
    fn of_users(&mut self, name: &str, users: BTreeSet<&'a str>) -> Puller {
        Puller {
            name: name.to_owned(),
            path: None,
            distribution: None,
            size: 0,
            needed_by: users.into_iter().map(|user| self.of(user)).collect(),
            repeated: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_may_be_left_out() {
        assert!(is_asked("libx.so.1", "libx.so") && is_asked("libx.so.1", "libx.so.1"));
        assert!(is_asked("MSVCP140.dll", "msvcp140.DLL") && !is_asked("LIBX.so", "libx.so") && !is_asked("x", "é.dl"));
        assert!(
            !is_asked("libx.so.12", "libx.so.1")
                && !is_asked("libxy.so.1", "libx.so")
                && !is_asked("libxy.so.1", "libx")
                && is_asked("libx.so.1", "libx")
        );
    }
}
