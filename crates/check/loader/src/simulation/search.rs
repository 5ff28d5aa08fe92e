//! Input: DT_RPATH, DT_RUNPATH and `LD_LIBRARY_PATH` as written. Output: [`SearchPath`]s, which
//! find a name without trying every directory, because files may have search paths of megabytes.

use std::collections::HashMap;

use super::Loader;
use super::files::{Candidate, Location, Opened, from_machine};

/// Number of entries of a search path that are kept for messages.
pub(super) const SHOWN: usize = 64;
/// The value of `$PLATFORM` on x86-64, except on a few types of processors that are ten years old.
const PLATFORM: &str = "x86_64";
/// The rank of a plain directory, which comes after its folders for better processors.
const PLAIN: u8 = u8::MAX;

/// The search paths of one file.
#[derive(Debug, Default)]
pub(super) struct SearchPaths {
    /// `None` without DT_RPATH. With DT_RUNPATH it is `None` too, because the loader then ignores
    /// DT_RPATH.
    pub(super) rpath: Option<SearchPath>,
    pub(super) runpath: Option<SearchPath>,
}

/// The directories of one search path.
#[derive(Debug, Default)]
pub(super) struct SearchPath {
    /// Existing directories of the environment, with their position in the order.
    folders: HashMap<String, usize>,
    /// Directories outside the environment, with their position in the order; only if the machine
    /// can be read.
    outside: Vec<(usize, String)>,
    /// The entries of these directories as written. If several are the same directory, the first
    /// one.
    written: HashMap<usize, String>,
    /// The first entries, whether their directories exist or not.
    pub(super) shown: Vec<String>,
}

/// A file that was found in a search path.
pub(super) struct Hit<'a> {
    pub(super) opened: Opened<'a>,
    pub(super) entry: String,
}

/// Expands `$ORIGIN`, `$LIB` and `$PLATFORM`, with or without braces; any other text after `$`
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

/// Length of the token `name` at the beginning of `text`; `None` if there is another token
/// (`is_dst` of glibc).
fn token_length(text: &str, name: &str) -> Option<usize> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.strip_prefix(name)?.starts_with('}').then_some(name.len() + 2);
    }
    let rest = text.strip_prefix(name)?;
    let goes_on = rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_');
    (!goes_on).then_some(name.len())
}

impl<'a> Loader<'a> {
    /// `LD_LIBRARY_PATH` of the scenario. Its entries may contain tokens, but `$ORIGIN` has no
    /// value there.
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

    /// `true` if an entry, whose value here is `directory`, leads to the same folder of packages on
    /// every system.
    fn is_everywhere(&self, entry: &str, directory: &str) -> bool {
        let [has_origin, has_library, has_platform] = ["ORIGIN", "LIB", "PLATFORM"]
            .map(|token| entry.split('$').skip(1).any(|rest| token_length(rest, token).is_some()));
        if !has_origin || has_library || has_platform {
            return false;
        }
        let packages = self.absolute(&self.site.packages());
        let [packages, parts] = [&packages, directory]
            .map(|path| -> Vec<&str> { path.split('/').filter(|part| !part.is_empty() && *part != ".").collect() });
        let mut at: Vec<&str> = Vec::new();
        for part in parts {
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

    /// The search paths of a file. An empty search path has no effect, except that an empty
    /// DT_RUNPATH still disables DT_RPATH.
    pub(super) fn search_paths(&self, elf: &rocwheel_elf::Elf, origin: &str) -> SearchPaths {
        let rpath = elf.rpath.as_ref().filter(|_| elf.runpath.is_none());
        let [rpath, runpath] = [rpath, elf.runpath.as_ref()]
            .map(|text| text.filter(|text| !text.is_empty()).map(|text| self.search_path(text, origin)));
        SearchPaths { rpath, runpath }
    }

    /// `true` if a search path can lead to a file with this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.machine.is_real() || !self.names.named(name).is_empty()
    }

    /// Searches for a file name in a search path. Files that the loader skips are added to
    /// `skipped`.
    pub(super) fn look(&self, path: &SearchPath, name: &str, skipped: &mut Vec<String>) -> Option<Hit<'a>> {
        let candidates = self.names.named(name);
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
        // Positions are increasing numbers; directories that do not exist need none.
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

    /// The position of a folder in the order, and the rank that folders for better processors have.
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
