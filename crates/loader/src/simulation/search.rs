//! Input: DT_RPATH, DT_RUNPATH and `LD_LIBRARY_PATH` as they are written. Output: [`SearchPath`]s,
//! in which a name is looked up without trying every directory: files may have search paths of
//! megabytes.

use std::collections::HashMap;

use super::Loader;
use super::files::{Candidate, Location, Opened, from_machine};

/// Entries of a search path that are kept for messages.
pub(super) const SHOWN: usize = 64;
/// What `$PLATFORM` stands for on x86-64, unless the processor is of a few kinds of ten years ago.
const PLATFORM: &str = "x86_64";
/// A plain directory comes after its folders for better processors.
const PLAIN: u8 = u8::MAX;

/// The search paths of one file.
#[derive(Debug, Default)]
pub(super) struct SearchPaths {
    /// `None` without DT_RPATH, and with DT_RUNPATH, which makes the loader ignore it.
    pub(super) rpath: Option<SearchPath>,
    pub(super) runpath: Option<SearchPath>,
}

/// The directories of one search path.
#[derive(Debug, Default)]
pub(super) struct SearchPath {
    /// Directories of the environment that exist, and their place in the order.
    folders: HashMap<String, usize>,
    /// Directories outside of it, and their place in the order; only where the machine can be
    /// looked at.
    outside: Vec<(usize, String)>,
    /// The entries, as they are written, of those two; the first one of those that are the same
    /// directory.
    written: HashMap<usize, String>,
    /// The first entries, whether they lead anywhere or not.
    pub(super) shown: Vec<String>,
}

/// What was found in a search path.
pub(super) struct Hit<'a> {
    pub(super) opened: Opened<'a>,
    pub(super) entry: String,
}

/// Replaces `$ORIGIN`, `$LIB` and `$PLATFORM`, with or without braces; what else begins with `$`
/// stays.
pub(super) fn expand(text: &str, origin: &str, library_folder: &str) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        expanded.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let values = [("ORIGIN", origin), ("PLATFORM", PLATFORM), ("LIB", library_folder)];
        let token = values.into_iter().find_map(|(name, value)| token_length(rest, name).map(|length| (length, value)));
        match token {
            Some((length, value)) => {
                expanded.push_str(value);
                rest = &rest[length..];
            }
            None => expanded.push('$'),
        }
    }
    expanded.push_str(rest);
    expanded
}

/// How long the token is that `text` begins with, if it is this one (`is_dst` of glibc).
fn token_length(text: &str, name: &str) -> Option<usize> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.strip_prefix(name)?.starts_with('}').then_some(name.len() + 2);
    }
    let rest = text.strip_prefix(name)?;
    let goes_on = rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
    (!goes_on).then_some(name.len())
}

impl<'a> Loader<'a> {
    /// `LD_LIBRARY_PATH` of the scenario. Its entries may have tokens, but nobody has an origin
    /// there.
    pub(super) fn library_path(&self) -> SearchPath {
        let mut path = SearchPath::default();
        for entry in &self.scenario.library_path {
            let directory = if entry.starts_with('/') { entry.clone() } else { self.absolute(entry) };
            path.push(self, entry, &directory);
        }
        path
    }

    /// A search path of a file in the directory `origin`.
    pub(super) fn search_path(&self, text: &str, origin: &str) -> SearchPath {
        let mut path = SearchPath::default();
        for entry in text.split(':') {
            let directory = expand(entry, origin, self.machine.library_folder());
            if !self.only_everywhere || self.is_everywhere(entry, &directory) {
                path.push(self, entry, &directory);
            }
        }
        path
    }

    /// Whether an entry, which stands for `directory` here, leads to the same folder of packages on
    /// every system.
    fn is_everywhere(&self, entry: &str, directory: &str) -> bool {
        let has = |token: &str| {
            let mut after = entry.split('$').skip(1);
            after.any(|rest| token_length(rest, token).is_some())
        };
        if !has("ORIGIN") || has("LIB") || has("PLATFORM") {
            return false;
        }
        let packages = self.absolute(&self.site.packages());
        let parts = |path: &str| -> Vec<String> {
            path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
        };
        let packages = parts(&packages);
        let mut at: Vec<String> = Vec::new();
        for part in parts(directory) {
            if part == ".." {
                at.pop();
                if at.len() < packages.len() {
                    return false;
                }
            } else {
                at.push(part);
            }
        }
        at.starts_with(&packages)
    }

    /// The search paths of a file. An empty one is as good as none, except that DT_RUNPATH puts
    /// DT_RPATH out of force all the same.
    pub(super) fn search_paths(&self, elf: &rocwheel_elf::Elf, origin: &str) -> SearchPaths {
        let read = |text: &Option<String>| {
            text.as_deref().filter(|text| !text.is_empty()).map(|text| self.search_path(text, origin))
        };
        let rpath = if elf.runpath.is_some() { None } else { read(&elf.rpath) };
        SearchPaths { rpath, runpath: read(&elf.runpath) }
    }

    /// Whether a search path can lead to a file of this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.machine.is_real() || self.names.contains_key(name)
    }

    /// Looks for a file name in a search path. What the loader passes over is added to `skipped`.
    pub(super) fn look(&self, path: &SearchPath, name: &str, skipped: &mut Vec<String>) -> Option<Hit<'a>> {
        let candidates = self.names.get(name).map_or(&[][..], Vec::as_slice);
        let mut ranked: Vec<(usize, u8, Option<&Candidate<'a>>)> = candidates
            .iter()
            .filter_map(|candidate| {
                let (place, rank) = path.rank(candidate.folder, self.scenario.processor)?;
                Some((place, rank, Some(candidate)))
            })
            .collect();
        ranked.extend(path.outside.iter().map(|(place, _)| (*place, PLAIN, None)));
        ranked.sort_by_key(|(place, rank, _)| (*place, *rank));
        for (place, _, candidate) in ranked {
            let opened = if let Some(candidate) = candidate {
                self.open_site(candidate.path)
            } else {
                let outside = path.outside.binary_search_by_key(&place, |(place, _)| *place);
                let Ok(index) = outside else { continue };
                from_machine(self.machine.find_in(&path.outside[index].1, name), name)
            };
            match opened {
                Opened::Absent => {}
                Opened::Skipped(what) => skipped.push(what),
                opened => {
                    return Some(Hit { opened, entry: path.written.get(&place).cloned().unwrap_or_default() });
                }
            }
        }
        None
    }
}

impl SearchPath {
    fn push(&mut self, loader: &Loader<'_>, entry: &str, directory: &str) {
        if self.shown.len() < SHOWN {
            self.shown.push(entry.to_owned());
        }
        // Places are numbers that grow; those that lead nowhere need none.
        let place = self.written.len();
        match loader.locate(directory) {
            Location::Site(folder) => {
                if loader.site.has_folder(&folder) && !self.folders.contains_key(&folder) {
                    self.folders.insert(folder, place);
                    self.written.insert(place, entry.to_owned());
                }
            }
            Location::Outside(directory) if loader.machine.is_real() => {
                self.outside.push((place, directory));
                self.written.insert(place, entry.to_owned());
            }
            Location::Outside(_) | Location::Nowhere => {}
        }
    }

    /// Where a folder comes in the order, and whether it is one for better processors.
    fn rank(&self, folder: &str, processor: u8) -> Option<(usize, u8)> {
        if let Some(place) = self.folders.get(folder) {
            return Some((*place, PLAIN));
        }
        let (base, level) = folder.rsplit_once("glibc-hwcaps/x86-64-v")?;
        let base = if base.is_empty() { base } else { base.strip_suffix('/')? };
        let level = match level {
            "2" => 2,
            "3" => 3,
            "4" => 4,
            _ => return None,
        };
        (level <= processor).then_some(())?;
        Some((*self.folders.get(base)?, PLAIN - level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_replaced_as_glibc_does() {
        for (text, expected) in [
            ("$ORIGIN", "/o"),
            ("$ORIGIN/../lib", "/o/../lib"),
            ("${ORIGIN}x", "/ox"),
            ("$ORIGINAL/lib", "$ORIGINAL/lib"),
            ("$ORIGIN_/lib", "$ORIGIN_/lib"),
            ("$ORIGIN.d", "/o.d"),
            ("a$LIB/${LIB}$PLATFORM", "alib64/lib64x86_64"),
            ("$$ORIGIN$", "$/o$"),
            ("${ORIGIN", "${ORIGIN"),
            ("$FOO/$origin", "$FOO/$origin"),
            ("é$ORIGIN", "é/o"),
        ] {
            assert_eq!(expand(text, "/o", "lib64"), expected, "{text}");
        }
    }
}
