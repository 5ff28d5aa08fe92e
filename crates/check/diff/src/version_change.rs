//! Input: the packages of both sides. Output: the versions that changed, and whether two texts
//! differ in nothing else.

use rocwheel_wheel::{VersionSpelling, replace_versions};

use crate::pair::PackagePair;
use crate::side::Package;

/// How file names and addresses write the `+` of a local version.
const SPELLINGS_OF_PLUS: [&str; 4] = ["_", "-", ".", "%2B"];

/// The versions of the packages that differ between the sides.
#[derive(Debug, Default)]
pub(crate) struct VersionChanges(Vec<VersionSpelling>);

impl VersionChanges {
    pub(crate) fn between(pairs: &[PackagePair]) -> VersionChanges {
        let mut changes: Vec<VersionSpelling> = Vec::new();
        for pair in pairs {
            let versions = [&pair.old, &pair.new].map(|side| side.as_ref().and_then(Package::version));
            let [Some(old), Some(new)] = versions else { continue };
            if old == new {
                continue;
            }
            for plus in SPELLINGS_OF_PLUS.into_iter().filter(|_| old.contains('+') || new.contains('+')) {
                changes.push(VersionSpelling { old: old.replace('+', plus), new: new.replace('+', plus) });
            }
            changes.push(VersionSpelling { old: old.to_owned(), new: new.to_owned() });
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
        old != new && replaced(old, &self.0) == new
    }

    /// `true` if the text of a file differs in nothing but the versions. Only versions count that
    /// cannot be a number of something else: `1.0` → `1.1` can also be a time limit.
    pub(crate) fn explain_text(&self, old: &[u8], new: &[u8]) -> bool {
        let (Ok(old), Ok(new)) = (std::str::from_utf8(old), std::str::from_utf8(new)) else { return false };
        old != new && replaced(old, self.0.iter().filter(|change| is_certain(change))) == new
    }
}

/// `true` for versions of which one cannot be a number of something else.
fn is_certain(change: &VersionSpelling) -> bool {
    [&change.old, &change.new].into_iter().any(|version| {
        version.matches('.').count() >= 2 || version.contains(|letter: char| letter.is_ascii_alphabetic())
    })
}

fn replaced<'v>(text: &str, changes: impl IntoIterator<Item = &'v VersionSpelling>) -> String {
    replace_versions(text, &changes.into_iter().collect::<Vec<_>>(), |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(rows: &[[&str; 2]]) -> VersionChanges {
        VersionChanges(
            rows.iter().map(|row| VersionSpelling { old: row[0].to_owned(), new: row[1].to_owned() }).collect(),
        )
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
