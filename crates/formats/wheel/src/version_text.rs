//! Input: a text and spellings of versions. Output: the text with other versions.

use pep440_rs::Version;

/// A text that names a version, and the text that replaces it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionSpelling {
    /// The version before, such as `7.12.0rc1`.
    pub old: String,
    /// The version after.
    pub new: String,
}

/// The text that every file has that names a version, with or without `.postN`: its public part,
/// and the local part too if that alone makes it other than a release.
pub fn version_sign(version: &Version) -> String {
    let version = version.clone().with_post(None);
    if version.any_prerelease() { version.without_local().to_string() } else { version.to_string() }
}

/// A version in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Occurrence {
    start: usize,
    index: usize,
}

/// Replaces versions in a text. Of two that begin at one place the first of `spellings` counts, so
/// longer ones come first: `7.1rc1+a` before `7.1rc1`. A version that is part of a longer number
/// stays, and so does one for whose following text `is_replaced` is `false`.
pub fn replace_versions(text: &str, spellings: &[&VersionSpelling], is_replaced: impl Fn(&str) -> bool) -> String {
    let mut occurrences: Vec<Occurrence> = Vec::new();
    for (index, VersionSpelling { old, .. }) in spellings.iter().enumerate() {
        let starts = text.match_indices(old).map(|(start, _)| start);
        let alone = starts.filter(|start| version_stands_alone(text.as_bytes(), *start, old.len()));
        let replaced = alone.filter(|start| is_replaced(&text[start + old.len()..]));
        occurrences.extend(replaced.map(|start| Occurrence { start, index }));
    }
    occurrences.sort_unstable();
    let (mut result, mut end) = (String::with_capacity(text.len()), 0);
    for Occurrence { start, index } in occurrences {
        // Part of a longer version that was replaced.
        if start >= end {
            result.push_str(&text[end..start]);
            result.push_str(&spellings[index].new);
            end = start + spellings[index].old.len();
        }
    }
    result.push_str(&text[end..]);
    result
}

/// `true` if the version of `length` bytes at `start` is not part of a longer number: `7.0rc1` is
/// not in `17.0rc1`, `1.7.0rc1` and `7.0rc10`.
pub fn version_stands_alone(text: &[u8], start: usize, length: usize) -> bool {
    let begins = match &text[..start] {
        [.., last] if last.is_ascii_digit() => false,
        [.., digit, b'.' | b'!'] => !digit.is_ascii_digit(),
        _ => true,
    };
    begins && !text.get(start + length).is_some_and(u8::is_ascii_digit)
}
