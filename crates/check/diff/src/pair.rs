//! Pairs packages and files of one side with those of the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_progress::Failure;

use crate::entry::Entry;
use crate::side::{Named, Package, Side};
use crate::text;

/// A package of both sides, or of one.
pub(crate) struct PackagePair {
    pub(crate) name: String,
    pub(crate) old: Option<Package>,
    pub(crate) new: Option<Package>,
}

/// Pairs packages by name. Several packages with one name are paired by Python and system, then by
/// folder, because a set for several GPU families has them in folders. A single package on each
/// side is a pair under any name.
pub(crate) fn packages(mut old: Side, mut new: Side) -> Result<Vec<PackagePair>, Failure> {
    let is_one_each = old.packages.len() == 1 && new.packages.len() == 1;
    if is_one_each
        && old.is_folder == new.is_folder
        && let (Some(old), Some(new)) = (old.packages.pop(), new.packages.pop())
    {
        let name = new.name();
        return Ok(vec![PackagePair { name, old: Some(old), new: Some(new) }]);
    }
    let mut keys = [&old, &new].map(|side| side.packages.iter().map(Package::name).collect::<Vec<_>>());
    let details: [fn(&Package) -> String; 2] = [
        |package| format!(" {}", package.place()),
        |package| if package.folder.is_empty() { String::new() } else { format!(" in {}", package.folder) },
    ];
    for detail in details {
        let repeated: BTreeSet<String> = keys.iter().flat_map(|keys| repeated(keys)).collect();
        for (package, key) in [&old, &new].into_iter().flat_map(|side| &side.packages).zip(keys.iter_mut().flatten()) {
            if repeated.contains(key) {
                key.push_str(detail(package).trim_end());
            }
        }
    }
    let [old_keys, new_keys] = keys;
    let (mut old, new) = (by_key(old, old_keys)?, by_key(new, new_keys)?);
    let mut pairs: Vec<PackagePair> = new
        .into_iter()
        .map(|(name, package)| PackagePair { old: old.remove(&name), new: Some(package), name })
        .collect();
    pairs.extend(old.into_iter().map(|(name, package)| PackagePair { name, old: Some(package), new: None }));
    pairs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(pairs)
}

fn repeated(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| !seen.insert(*name)).cloned().collect()
}

fn by_key(side: Side, keys: Vec<String>) -> Result<BTreeMap<String, Package>, Failure> {
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for (package, key) in side.packages.into_iter().zip(keys) {
        if let Some(first) = packages.get(&key) {
            let (first, second) = (first.path.display(), package.path.display());
            return Err(Failure::message(format!(
                "`{first}` and `{second}` are both `{key}`: which of them is to be compared is not known"
            ))
            .with_hint("compare the two files, or folders that hold one of them each"));
        }
        packages.insert(key, package);
    }
    Ok(packages)
}

/// An entry of both sides, or of one.
pub(crate) struct EntryPair<'a> {
    /// The path without version.
    pub(crate) key: &'a str,
    pub(crate) old: Option<&'a Named>,
    pub(crate) new: Option<&'a Named>,
}

/// Pairs entries with the same path. Of the others, those of one folder whose names differ only in
/// a version are paired, if each side has exactly one: `liba.so.1.2` and `liba.so.1.3`.
pub(crate) fn entries<'a>(old: &'a BTreeMap<String, Named>, new: &'a BTreeMap<String, Named>) -> Vec<EntryPair<'a>> {
    let mut pairs: Vec<EntryPair<'a>> = Vec::new();
    let mut lost: BTreeMap<String, Vec<(&'a str, &'a Named)>> = BTreeMap::new();
    let mut gained: BTreeMap<String, Vec<(&'a str, &'a Named)>> = BTreeMap::new();
    for (key, named) in old {
        match new.get(key) {
            Some(other) => pairs.push(EntryPair { key, old: Some(named), new: Some(other) }),
            None => lost.entry(unversioned(key, named)).or_default().push((key, named)),
        }
    }
    for (key, named) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        gained.entry(unversioned(key, named)).or_default().push((key, named));
    }
    for (group, lost) in lost {
        let gained = gained.remove(&group).unwrap_or_default();
        if let ([(_, old)], [(key, new)]) = (&lost[..], &gained[..]) {
            pairs.push(EntryPair { key, old: Some(old), new: Some(new) });
            continue;
        }
        pairs.extend(lost.into_iter().map(|(key, old)| EntryPair { key, old: Some(old), new: None }));
        pairs.extend(gained.into_iter().map(|(key, new)| EntryPair { key, old: None, new: Some(new) }));
    }
    let alone = gained.into_values().flatten();
    pairs.extend(alone.map(|(key, new)| EntryPair { key, old: None, new: Some(new) }));
    pairs.sort_by_key(|pair| pair.key);
    pairs
}

/// Returns a path that is the same for two versions of a file. Files and links are kept apart.
fn unversioned(key: &str, named: &Named) -> String {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    let kind = if matches!(named.entry, Entry::Link { .. }) { "link" } else { "file" };
    format!("{kind} {folder}/{}", text::without_version(name))
}

/// `true` if the file name itself differs. Folders are ignored, because those of METADATA have the
/// version in their name.
pub(crate) fn is_renamed(old: &str, new: &str) -> bool {
    Path::new(old).file_name() != Path::new(new).file_name()
}
