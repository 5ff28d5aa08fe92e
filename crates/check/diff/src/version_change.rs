//! Input: the packages of both sides. Output: the versions that changed, and whether two texts
//! differ in nothing else.

use crate::pair::PackagePair;
use crate::side::Package;

/// How file names and addresses write the `+` of a local version.
const SPELLINGS_OF_PLUS: [&str; 4] = ["_", "-", ".", "%2B"];

/// The versions of the packages that differ between the sides.
#[derive(Debug, Default)]
pub(crate) struct VersionChanges(Vec<VersionChange>);

/// A version before and after.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct VersionChange {
    old: String,
    new: String,
}

/// A version in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Occurrence {
    start: usize,
    /// The longest version comes first: `7.1rc1+a` before `7.1rc1`.
    index: usize,
}

impl VersionChanges {
    pub(crate) fn between(pairs: &[PackagePair]) -> VersionChanges {
        let mut changes: Vec<VersionChange> = Vec::new();
        for pair in pairs {
            let version = |side: &Option<Package>| side.as_ref().and_then(Package::version).map(str::to_owned);
            let (Some(old), Some(new)) = (version(&pair.old), version(&pair.new)) else { continue };
            if old == new {
                continue;
            }
            for plus in SPELLINGS_OF_PLUS.into_iter().filter(|_| old.contains('+') || new.contains('+')) {
                changes.push(VersionChange { old: old.replace('+', plus), new: new.replace('+', plus) });
            }
            changes.push(VersionChange { old, new });
        }
        changes.sort();
        changes.dedup();
        // What one old version becomes has to be certain.
        let all = changes.clone();
        changes.retain(|change| all.iter().filter(|other| other.old == change.old).count() == 1);
        changes.sort_by_key(|change| std::cmp::Reverse(change.old.len()));
        VersionChanges(changes)
    }

    /// `true` if a requirement or field differs in nothing but the versions.
    pub(crate) fn explain_field(&self, old: &str, new: &str) -> bool {
        old != new && replaced(old, &self.0.iter().collect::<Vec<_>>()) == new
    }

    /// `true` if the text of a file differs in nothing but the versions. Only versions count that
    /// cannot be a number of something else: `1.0` → `1.1` can also be a time limit.
    pub(crate) fn explain_text(&self, old: &[u8], new: &[u8]) -> bool {
        let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else { return false };
        let certain: Vec<&VersionChange> = self.0.iter().filter(|change| change.is_certain()).collect();
        old != new && replaced(old, &certain) == new
    }
}

impl VersionChange {
    fn is_certain(&self) -> bool {
        [&self.old, &self.new].into_iter().any(|version| {
            version.matches('.').count() >= 2 || version.contains(|letter: char| letter.is_ascii_alphabetic())
        })
    }
}

/// Replaces the old versions in a text by the new ones.
fn replaced(text: &str, changes: &[&VersionChange]) -> String {
    let mut occurrences: Vec<Occurrence> = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let starts = text.match_indices(&change.old).map(|(start, _)| start);
        let alone = starts.filter(|start| stands_alone(text.as_bytes(), *start, change.old.len()));
        occurrences.extend(alone.map(|start| Occurrence { start, index }));
    }
    occurrences.sort_unstable();
    let (mut result, mut end) = (String::with_capacity(text.len()), 0);
    for Occurrence { start, index } in occurrences {
        // Part of a longer version that was replaced.
        if start >= end {
            result.push_str(&text[end..start]);
            result.push_str(&changes[index].new);
            end = start + changes[index].old.len();
        }
    }
    result.push_str(&text[end..]);
    result
}

/// `true` if the version is not part of a longer number: `7.0` is not in `17.0`, `1.7.0`, `7.01`.
fn stands_alone(text: &[u8], start: usize, length: usize) -> bool {
    let begins = match &text[..start] {
        [.., last] if last.is_ascii_digit() => false,
        [.., digit, b'.' | b'!'] => !digit.is_ascii_digit(),
        _ => true,
    };
    begins && !text.get(start + length).is_some_and(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(rows: &[[&str; 2]]) -> VersionChanges {
        let change = |[old, new]: &[&str; 2]| VersionChange { old: (*old).to_owned(), new: (*new).to_owned() };
        VersionChanges(rows.iter().map(change).collect())
    }

    #[test]
    fn only_texts_that_name_the_new_version_everywhere_are_explained() {
        let versions = changes(&[["2.1+rocm7.2.0", "2.1+rocm7.3.0"], ["7.2.0", "7.3.0"]]);
        let rows = [
            ("a = '7.2.0'", "a = '7.3.0'", true),
            ("torch 2.1+rocm7.2.0, rocm 7.2.0", "torch 2.1+rocm7.3.0, rocm 7.3.0", true),
            // A pin that was forgotten, and other numbers.
            ("7.2.0 7.2.0", "7.3.0 7.2.0", false),
            ("17.2.0", "17.3.0", false),
            ("7.2.01", "7.3.01", false),
            ("7.2.0 a", "7.3.0 b", false),
            ("a", "a", false),
        ];
        for (old, new, expected) in rows {
            assert_eq!(versions.explain_text(old.as_bytes(), new.as_bytes()), expected, "{old} → {new}");
            assert_eq!(versions.explain_field(old, new), expected, "{old} → {new}");
        }
    }

    #[test]
    fn a_version_that_may_be_another_number_explains_no_text() {
        let versions = changes(&[["1.0", "1.1"]]);
        assert!(!versions.explain_text(b"limit = 1.0", b"limit = 1.1"));
        assert!(versions.explain_field("a==1.0", "a==1.1"));
    }
}
