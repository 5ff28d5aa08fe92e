//! Names that contain versions, and comparison of text files.

use std::collections::BTreeMap;

use similar::{ChangeTag, TextDiff};

/// Largest text, in bytes, that is compared line by line.
pub(crate) const LARGEST: u64 = 8 << 20;
/// Time limit for comparing two texts line by line; the result is coarser if it is exceeded.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// Replaces every version, or part of one, in a file name by `*`: digits with dots between them,
/// and the hash that repair tools add to names (`libgomp-a34b3233.so.1`).
pub(crate) fn without_version(name: &str) -> String {
    let mut short = String::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let boundary = short.is_empty() || short.ends_with(['-', '.', '_']);
        let word = rest.find(['-', '.', '_']).unwrap_or(rest.len());
        let text = &rest[..word];
        let is_hash =
            text.len() == 8 && text.chars().all(|digit| digit.is_ascii_hexdigit() && !digit.is_ascii_uppercase());
        if boundary && word > 0 && (text.chars().all(|digit| digit.is_ascii_digit()) || is_hash) {
            // Numbers with dots between them are one version.
            if short.ends_with("*.") {
                short.pop();
            } else {
                short.push('*');
            }
            rest = &rest[word..];
        } else {
            short.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    short
}

pub(crate) enum Texts {
    /// The only difference, which has no meaning.
    Alike(&'static str),
    /// Numbers of lines that are new and lines that are gone.
    Lines { new: usize, lost: usize },
}

/// Compares two texts; `None` if one of them is not text.
pub(crate) fn compare(old: &[u8], new: &[u8]) -> Option<Texts> {
    let (old, new) = (std::str::from_utf8(old).ok()?, std::str::from_utf8(new).ok()?);
    if [old, new].iter().any(|text| text.contains('\0')) {
        return None;
    }
    let [old_text, new_text] =
        [old, new].map(|text| text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n"));
    if old_text == new_text {
        return Some(Texts::Alike("the same text with other line ends"));
    }
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let [new, lost] = [ChangeTag::Insert, ChangeTag::Delete]
        .map(|tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count());
    Some(Texts::Lines { new, lost })
}

/// Parses an INI file as Python's `configparser` does with `entry_points.txt`: section → name →
/// value.
pub(crate) fn ini(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut sections: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
        } else if let Some((name, value)) = line.split_once('=') {
            let values = sections.entry(section.clone()).or_default();
            values.insert(name.trim().to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_names_do_not_count() {
        let cases = [
            ("librocblas.so.4.3.60400", "librocblas.so.*"),
            ("librocblas.so", "librocblas.so"),
            ("libgomp-a34b3233.so.1.0.0", "libgomp-*.so.*"),
            ("clang-19", "clang-*"),
            ("gfx942.co", "gfx942.co"),
            ("TensileLibrary_gfx90a.dat", "TensileLibrary_gfx90a.dat"),
            ("torch-2.7.1", "torch-*"),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(without_version(name), expected);
        }
    }

    #[test]
    fn texts_are_compared_by_lines() {
        assert!(matches!(compare(b"a\r\nb\r\n", b"a\nb\n"), Some(Texts::Alike(_))));
        assert!(matches!(compare(b"a\nb\n", b"a\nc\nd\n"), Some(Texts::Lines { new: 2, lost: 1 })));
        assert!(compare(b"a\0", b"b").is_none());
        assert!(compare(b"\xff", b"b").is_none());
    }

    #[test]
    fn entry_points_are_read_as_python_does() {
        let read = ini("[console_scripts]\nhipcc = rocm_sdk._cli:hipcc\n# note\n\n[other]\na=b [x]\n");
        assert_eq!(read["console_scripts"]["hipcc"], "rocm_sdk._cli:hipcc");
        assert_eq!(read["other"]["a"], "b [x]");
    }
}
