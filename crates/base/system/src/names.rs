//! Input: paths of a tree. Output: the paths that file systems of other machines cannot hold, with
//! the reason; names that are the same on every system.
//!
//! Trees for Linux are copied to shares, and packages for Windows are made from the same artifacts.
//! On Windows itself these paths are refused before something else than meant is written: `aux.h`
//! is a device there, and `a.` is another name of `a`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Returns pairs of paths that name one file if case is ignored, in the order of the second path.
/// `paths` must be sorted.
pub fn same_but_for_case<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut folded: HashMap<String, &str> = HashMap::new();
    let mut pairs = Vec::new();
    for path in paths {
        if let Some(other) = folded.insert(path.to_lowercase(), path) {
            pairs.push((other.to_owned(), path.to_owned()));
        }
    }
    pairs
}

/// Returns the reason why Windows cannot hold a file of that path; `None` if it can
/// (<https://learn.microsoft.com/windows/win32/fileio/naming-a-file>).
pub fn refused_by_windows(path: &str) -> Option<&'static str> {
    path.split('/').find_map(|name| {
        if is_device(name) {
            Some("a device is called like that")
        } else if name.ends_with(['.', ' ']) {
            Some("a name cannot end with a dot or a space")
        } else if name.contains(['<', '>', ':', '"', '|', '?', '*', '\\']) {
            Some("a name cannot hold any of <>:\"|?*\\")
        } else if name.chars().any(char::is_control) {
            Some("a name cannot hold a control character")
        } else {
            None
        }
    })
}

/// `true` for `nul` and `COM1.txt`: device names count regardless of case and extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end().to_ascii_lowercase();
    let number = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt")).map(str::as_bytes);
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || matches!(number, Some([b'1'..=b'9']))
}

/// A relative path with `/` between its names on every system, as archives and wheels have it.
pub fn slashed(path: &Path) -> Cow<'_, Path> {
    if cfg!(windows) { Cow::Owned(path.to_string_lossy().replace('\\', "/").into()) } else { Cow::Borrowed(path) }
}

/// Checks that this system can hold a file with that path, relative with `/`, under its own name.
///
/// # Errors
/// On Windows, a path that [`refused_by_windows`] refuses; the message names it.
fn check_path(path: &str) -> io::Result<()> {
    match refused_by_windows(path) {
        Some(reason) if cfg!(windows) => {
            Err(io::Error::new(io::ErrorKind::InvalidFilename, format!("Windows cannot hold `{path}`: {reason}")))
        }
        _ => Ok(()),
    }
}

/// Checks the paths of a tree, one after the other, before they are written into a new folder.
///
/// On Windows two names that differ only by case are one name: the second file would replace the
/// first one, and the files of the second folder would get into the first one.
#[derive(Debug, Default)]
pub struct PathCheck {
    /// Each path and its folders in lower case, and as they were.
    seen: HashMap<String, String>,
}

impl PathCheck {
    /// Checks a path, relative with `/`.
    ///
    /// # Errors
    /// On Windows, a path that [`refused_by_windows`] refuses, and one that differs from an earlier
    /// one only by case; the message names it, or both.
    pub fn check(&mut self, path: &str) -> io::Result<()> {
        if !cfg!(windows) {
            return Ok(());
        }
        check_path(path)?;
        match self.other_case(path) {
            Some((other, same)) => {
                let text = format!("Windows cannot hold both `{other}` and `{same}`: they differ only by case");
                Err(io::Error::new(io::ErrorKind::InvalidFilename, text))
            }
            None => Ok(()),
        }
    }

    /// Remembers a path. Returns the earlier path that differs only by case, and the part of this
    /// path that it is equal to.
    fn other_case<'a>(&mut self, path: &'a str) -> Option<(String, &'a str)> {
        let path = path.trim_end_matches('/');
        let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        for end in ends {
            let part = &path[..end];
            match self.seen.get(&part.to_lowercase()) {
                Some(other) if other != part => return Some((other.clone(), part)),
                Some(_) => {}
                None => drop(self.seen.insert(part.to_lowercase(), part.to_owned())),
            }
        }
        None
    }
}

/// The name of an environment variable as programs look it up. Windows ignores case, keeps it as it
/// was set, and calls PATH `Path`.
pub fn variable_name(name: OsString) -> OsString {
    if cfg!(windows) && name.eq_ignore_ascii_case("PATH") { "PATH".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_windows_keeps_for_itself() {
        for path in ["lib/aux", "include/NUL.h", "com1/x", "a/b.", "a/b ", "a:b", "what?", "a\nb", "a\\b", "Prn .txt"] {
            assert!(refused_by_windows(path).is_some(), "{path:?}");
        }
        for path in ["lib/auxiliary.h", "com10", "com", "com0", ".hidden", "a b/c.d", "naïve.h", "libc++.so", "gfx90a+"]
        {
            assert_eq!(refused_by_windows(path), None, "{path:?}");
        }
    }

    #[test]
    fn paths_that_differ_by_case() {
        let pairs = same_but_for_case(["A/x", "a/X", "a/x", "b"]);
        assert_eq!(pairs, [("A/x".into(), "a/X".into()), ("a/X".into(), "a/x".into())]);
    }

    #[test]
    fn a_path_that_differs_from_an_earlier_one_by_case_is_found() {
        let mut check = PathCheck::default();
        for path in ["lib/a", "lib/a", "lib/", "lib/b/c", "Makefile"] {
            assert_eq!(check.other_case(path), None, "{path}");
        }
        assert_eq!(check.other_case("lib/A"), Some(("lib/a".into(), "lib/A")));
        // A folder, and a file in it.
        assert_eq!(check.other_case("Lib/x"), Some(("lib".into(), "Lib")));
        assert_eq!(check.other_case("makefile/x"), Some(("Makefile".into(), "makefile")));
        let second = check.check("LIB/a");
        if cfg!(windows) {
            let text = "Windows cannot hold both `lib` and `LIB`: they differ only by case";
            assert_eq!(second.unwrap_err().to_string(), text);
        } else {
            second.unwrap();
        }
    }

    #[test]
    fn names_with_slashes_on_every_system() {
        let path: std::path::PathBuf = ["a", "b", "c.d"].iter().collect();
        assert_eq!(slashed(&path).to_str(), Some("a/b/c.d"));
        check_path("a/b/c.d").unwrap();
        assert_eq!(variable_name("PATH".into()), "PATH");
        assert_eq!(variable_name("Path".into()), if cfg!(windows) { "PATH" } else { "Path" });
        assert_eq!(variable_name("VCToolsRedistDir".into()), "VCToolsRedistDir");
        let checked = check_path("a/nul.h");
        if cfg!(windows) {
            assert_eq!(checked.unwrap_err().to_string(), "Windows cannot hold `a/nul.h`: a device is called like that");
        } else {
            checked.unwrap();
        }
    }
}
