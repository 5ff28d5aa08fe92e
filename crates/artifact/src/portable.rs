//! Input: paths of a tree. Output: the paths that file systems of other machines cannot hold, with
//! the reason. The trees are made for Linux, but users copy them to shares and build for Windows
//! from the same artifacts.

use std::collections::HashMap;

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
    let numbered = |prefix: &str| {
        let rest = stem.strip_prefix(prefix).filter(|rest| rest.len() == 1);
        rest.is_some_and(|rest| rest.starts_with(|digit: char| ('1'..='9').contains(&digit)))
    };
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
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
}
