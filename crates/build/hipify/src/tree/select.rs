//! Input: a tree and patterns. Output: the files to convert, sorted.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};
use rocwheel_progress::{Exit, Failure, Reporter};
use walkdir::{DirEntry, WalkDir};

use crate::tables::Algorithm;
use crate::transform::path;
use crate::{Setting, error};

const SOURCES: [&str; 8] = [".cu", ".cuh", ".c", ".cc", ".cpp", ".h", ".in", ".hpp"];
/// Endings of the headers in include folders.
const HEADERS: [&str; 3] = [".cuh", ".h", ".hpp"];
/// Folders of the root that are skipped.
const LEFT_OUT: [&str; 3] = [".git", "build", "third_party"];
/// The only folder below them that is searched.
const LOOKED_INTO: &str = "third_party/nvfuser";

/// Selects the files of a tree that are converted. Paths and patterns are relative to the tree; `*`
/// in a pattern also matches slashes, as in Python's `fnmatch`.
#[derive(Debug, Clone, Default)]
pub struct FileSelection {
    pub includes: Vec<String>,
    /// Patterns of files that are skipped.
    pub ignores: Vec<String>,
    /// Files that are converted regardless of their names.
    pub extra_files: Vec<String>,
    /// Folders in which includes are searched for; their headers are converted too.
    pub header_folders: Vec<String>,
    /// Convert only `extra_files` and what they include.
    pub extra_files_only: bool,
    /// Skip files that would be converted in place (version 1).
    pub out_of_place_only: bool,
}

pub(super) fn select(
    root: &Path,
    selection: &FileSelection,
    (setting, algorithm): (Setting, Algorithm),
    reporter: &dyn Reporter,
) -> Result<BTreeSet<String>, Failure> {
    let includes = Patterns::new(&selection.includes)?;
    let ignores = Patterns::new(&selection.ignores)?;
    let mut files = BTreeSet::new();
    let mut source = |path: &str| {
        let literal = selection.includes.iter().any(|include| include == path);
        let kind = setting == Setting::Extension || algorithm == Algorithm::V2 || {
            (path::is_pytorch_file(path) || path::is_caffe2_gpu_file(path))
                && (!selection.out_of_place_only || path::is_out_of_place(path))
        };
        let is_source = literal || SOURCES.iter().any(|ending| path.ends_with(ending));
        if is_source && kind && includes.matches(path) && !ignores.matches(path) {
            files.insert(path.to_owned());
        }
        is_source
    };
    walk(root, "", &includes, reporter, &mut source)?;
    if root.join(LEFT_OUT[2]).is_dir() && !root.join(LOOKED_INTO).is_symlink() && root.join(LOOKED_INTO).is_dir() {
        walk(root, LOOKED_INTO, &includes, reporter, &mut source)?;
    }
    for folder in &selection.header_folders {
        let folder = path::normal(folder);
        if folder.starts_with("..") || folder.starts_with('/') || !root.join(&folder).is_dir() {
            continue;
        }
        let folder = if folder == "." { "" } else { &folder };
        walk_all(root, folder, reporter, &mut |path| {
            let header = HEADERS.iter().any(|ending| path.ends_with(ending));
            if header && includes.matches(path) && !ignores.matches(path) {
                files.insert(path.to_owned());
            }
            header
        })?;
    }
    files.extend(selection.extra_files.iter().map(|file| path::normal(file)));
    Ok(files)
}

/// All regular files below a folder, in the order of their names, except those that no pattern can
/// match and those in the skipped folders of the root.
fn walk(
    root: &Path,
    below: &str,
    includes: &Patterns,
    reporter: &dyn Reporter,
    found: &mut dyn FnMut(&str) -> bool,
) -> Result<(), Failure> {
    let walk = WalkDir::new(root.join(below)).into_iter().filter_entry(|entry| {
        let path = rocwheel_system::slashed(entry.path().strip_prefix(root).unwrap_or(entry.path()));
        let left_out =
            below.is_empty() && entry.depth() == 1 && path.to_str().is_some_and(|path| LEFT_OUT.contains(&path));
        !entry.file_type().is_dir() || (!left_out && path.to_str().is_none_or(|path| includes.may_match_below(path)))
    });
    entries(root, walk, reporter, found)
}

fn walk_all(
    root: &Path,
    below: &str,
    reporter: &dyn Reporter,
    found: &mut dyn FnMut(&str) -> bool,
) -> Result<(), Failure> {
    entries(root, WalkDir::new(root.join(below)).into_iter(), reporter, found)
}

/// Passes the path of every file to `found`, which returns `true` for the name of a source. Sources
/// must be regular files.
fn entries(
    root: &Path,
    entries: impl Iterator<Item = walkdir::Result<DirEntry>>,
    reporter: &dyn Reporter,
    found: &mut dyn FnMut(&str) -> bool,
) -> Result<(), Failure> {
    for entry in entries {
        reporter.check()?;
        let entry = entry.map_err(io::Error::from)?;
        if entry.file_type().is_dir() {
            continue;
        }
        let relative = rocwheel_system::slashed(entry.path().strip_prefix(root).unwrap_or(entry.path()));
        let Some(path) = relative.to_str() else {
            let shown = relative.display().to_string();
            if SOURCES.iter().any(|ending| shown.ends_with(ending)) {
                return Err(error::not_unicode(shown));
            }
            continue;
        };
        // A link to a folder is not followed, as in the original. The target of any other link is
        // checked when it is read.
        if entry.file_type().is_symlink() && entry.path().is_dir() {
            continue;
        }
        found(path);
    }
    Ok(())
}

/// A list of patterns; a path matches if one of them does.
#[derive(Debug)]
struct Patterns {
    regex: Option<Regex>,
    /// The text before the first special character of each pattern.
    beginnings: Vec<String>,
}

impl Patterns {
    fn new(patterns: &[String]) -> Result<Self, Failure> {
        let beginnings = patterns
            .iter()
            .map(|pattern| pattern.split(['*', '?', '[']).next().unwrap_or_default().to_owned())
            .collect();
        if patterns.is_empty() {
            return Ok(Self { regex: None, beginnings });
        }
        let alternatives: Vec<String> = patterns.iter().map(|pattern| translate(pattern)).collect();
        let whole = format!("^(?:{})$", alternatives.join("|"));
        let regex = RegexBuilder::new(&whole).unicode(false).dot_matches_new_line(true).build();
        let regex = regex.map_err(|error| {
            let text = format!("`{}` is not a pattern", patterns.join("` or `"));
            Failure::other(error).context(text).with_exit(Exit::Usage)
        })?;
        Ok(Self { regex: Some(regex), beginnings })
    }

    fn matches(&self, path: &str) -> bool {
        self.regex.as_ref().is_some_and(|regex| regex.is_match(path.as_bytes()))
    }

    /// `true` if a path below the folder could match.
    fn may_match_below(&self, folder: &str) -> bool {
        let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.beginnings.iter().any(|beginning| beginning.starts_with(&folder) || folder.starts_with(beginning.as_str()))
    }
}

/// A pattern of `fnmatch` as a regular expression over bytes.
fn translate(pattern: &str) -> String {
    let characters: Vec<char> = pattern.chars().collect();
    let (mut regex, mut at) = (String::new(), 0);
    while at < characters.len() {
        let character = characters[at];
        at += 1;
        match character {
            '*' => regex.push_str(".*"),
            '?' => regex.push_str("(?u:.)"),
            '[' => {
                // A bracket at the very beginning of a set belongs to the set. A bracket that is
                // not closed does not begin a set.
                let first = at + usize::from(characters.get(at) == Some(&'!'));
                let rest = characters.get(first + 1..).unwrap_or_default();
                let Some(length) = rest.iter().position(|character| *character == ']') else {
                    regex.push_str("\\[");
                    continue;
                };
                let end = first + 1 + length;
                let set: String = characters[first..end].iter().collect();
                let set = set.replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]").replace('^', "\\^");
                let set = set.replace("&&", "\\&\\&").replace("~~", "\\~\\~").replace("--", "\\--");
                let negated = if first > at { "^" } else { "" };
                regex.push_str(&format!("(?u:[{negated}{set}])"));
                at = end + 1;
            }
            other => regex.push_str(&regex::escape(&other.to_string())),
        }
    }
    regex
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        Patterns::new(&[pattern.to_owned()]).unwrap().matches(path)
    }

    #[test]
    fn patterns_are_fnmatchs() {
        for (pattern, path, expected) in [
            ("torch/*", "torch/a/b.cpp", true),
            ("torch/*", "caffe2/torch/a", false),
            ("caffe2/**/*_test*", "caffe2/a/x_test.cc", true),
            ("caffe2/**/*_test*", "caffe2/x_test.cc", false),
            ("*/hip/*", "a/hip/b", true),
            ("*/hip/*", "hip/b", false),
            ("a?c", "aéc", true),
            ("a[bc]d", "acd", true),
            ("a[!bc]d", "acd", false),
            ("a[]]d", "a]d", true),
            ("a[d", "a[d", true),
            ("a.c", "abc", false),
            ("A*", "abc", false),
            ("a[\\d]", "a\\", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn folders_that_no_pattern_reaches_are_not_entered() {
        let patterns = Patterns::new(&["aten/src/*".to_owned(), "torch/*".to_owned()]).unwrap();
        assert!(
            patterns.may_match_below("") && patterns.may_match_below("aten") && patterns.may_match_below("aten/src/x")
        );
        assert!(!patterns.may_match_below("docs") && !patterns.may_match_below("aten/tools"));
    }
}
