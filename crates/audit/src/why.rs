//! Input: the name of a library. Output: who in the set pulls it in, as a tree from the library up to those that nobody
//! is linked to.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::facts::{Facts, Object};
use crate::site::Site;

/// Who pulls a library in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// The name that was asked for.
    pub library: String,
    /// The files that have the name, or one tree without a file when none of the set has it.
    pub trees: Vec<Puller>,
}

/// A library or program, and who is linked to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Puller {
    /// The name by which it is needed: the SONAME, else the name of the file.
    pub name: String,
    /// Where it lies, relative to the folder of the packages where it is in there; `None` when the set does not have it.
    pub path: Option<String>,
    /// The canonical name of the distribution.
    pub distribution: Option<String>,
    /// Bytes.
    pub size: u64,
    /// Who needs it, by path. Empty for what was shown before.
    pub needed_by: Vec<Puller>,
    /// Whether those who need it stand elsewhere in the tree.
    pub repeated: bool,
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn name<'a>(path: &'a str, object: &'a Object) -> &'a str {
    object.elf.soname.as_deref().unwrap_or_else(|| file_name(path))
}

/// Whether a name is the one that was asked for: itself, or with the version behind it that was left out.
fn is_asked(name: &str, asked: &str) -> bool {
    name == asked || name.strip_prefix(asked).is_some_and(|rest| asked.ends_with(".so") && rest.starts_with('.'))
}

/// Who pulls `library` in. `None` when nobody in the set has it or needs it.
pub fn why(site: &Site, facts: &Facts, library: &str) -> Option<Why> {
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, object) in facts.native() {
        for needed in &object.elf.needed {
            users.entry(file_name(needed)).or_default().insert(path);
        }
    }
    let mut tree = Tree { site, facts, users: &users, shown: BTreeSet::new() };
    let is_file = |(path, object): &(&String, &Object)| {
        is_asked(name(path, object), library) || is_asked(file_name(path), library)
    };
    let files: Vec<&str> = facts.native().filter(is_file).map(|(path, _)| path.as_str()).collect();
    let mut trees: Vec<Puller> = files.iter().map(|path| tree.of(path)).collect();
    if trees.is_empty() {
        let names: Vec<&str> = users.keys().copied().filter(|name| is_asked(name, library)).collect();
        trees = names.into_iter().map(|name| tree.missing(name)).collect();
    }
    (!trees.is_empty()).then(|| Why { library: library.to_owned(), trees })
}

struct Tree<'a> {
    site: &'a Site,
    facts: &'a Facts,
    users: &'a BTreeMap<&'a str, BTreeSet<&'a str>>,
    shown: BTreeSet<&'a str>,
}

impl<'a> Tree<'a> {
    fn of(&mut self, path: &'a str) -> Puller {
        let object = self.facts.objects.get(path);
        let name = object.map_or_else(|| file_name(path), |object| name(path, object));
        let repeated = !self.shown.insert(path);
        // A file is needed by its SONAME, or by its own name where the two differ.
        let names = BTreeSet::from([name, file_name(path)]);
        let users: BTreeSet<&'a str> = names
            .iter()
            .filter_map(|name| self.users.get(name))
            .flatten()
            .copied()
            .filter(|user| *user != path)
            .collect();
        Puller {
            name: name.to_owned(),
            path: Some(self.site.shown(path).to_owned()),
            distribution: self.site.wheel_of(path).map(|wheel| wheel.name.clone()),
            size: object.map_or(0, |object| object.size),
            repeated: repeated && !users.is_empty(),
            needed_by: if repeated { Vec::new() } else { users.into_iter().map(|user| self.of(user)).collect() },
        }
    }

    fn missing(&mut self, name: &str) -> Puller {
        let users: Vec<&'a str> = self.users.get(name).into_iter().flatten().copied().collect();
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
        assert!(
            !is_asked("libx.so.12", "libx.so.1")
                && !is_asked("libxy.so.1", "libx.so")
                && !is_asked("libx.so.1", "libx")
        );
    }
}
