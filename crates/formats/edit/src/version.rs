//! Input: a version and its change. Output: the new version, and the positions of the old one in
//! texts.

use pep440_rs::Version;
use rocwheel_wheel::{Error, check_version};

use crate::error::unusable;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionEdit {
    /// Set this version, which is in PEP 440's canonical form.
    Set(String),
    Local(String),
    NoLocal,
}

impl VersionEdit {
    /// A change to a whole version. Fails if it is not in PEP 440's canonical form.
    pub fn set(version: &str) -> Result<VersionEdit, Error> {
        check_version(version).map(|()| VersionEdit::Set(version.to_owned()))
    }

    /// A change to a local version: letters, digits and dots in PEP 440's canonical form.
    pub fn local(label: &str) -> Result<VersionEdit, Error> {
        let whole = format!("0+{label}");
        let reason = match whole.parse::<Version>().map(|version| version.to_string()) {
            Ok(canonical) if canonical == whole => return Ok(VersionEdit::Local(label.to_owned())),
            Ok(canonical) => format!("its canonical form is `{}`", &canonical["0+".len()..]),
            Err(_) => "letters and digits with dots between them are expected".to_owned(),
        };
        Err(unusable("local version", label, reason))
    }

    /// The new version for `old`. Fails if `old` must be parsed and is not a version.
    pub(crate) fn apply(&self, old: &str) -> Result<String, Error> {
        let local = match self {
            VersionEdit::Set(version) => return Ok(version.clone()),
            VersionEdit::Local(label) => Some(label),
            VersionEdit::NoLocal => None,
        };
        let version = old.parse::<Version>().map_err(|error| unusable("version", old, error.to_string()))?;
        Ok(match local {
            Some(label) => format!("{}+{label}", version.without_local()),
            None if version.is_local() => version.without_local().to_string(),
            None => old.to_owned(),
        })
    }
}

/// Byte offsets at which `version` occurs in `text` as a complete version: `7.0` does not occur in
/// `17.0`, `7.0.1`, `7.0rc1` or `7.0+x`.
pub(crate) fn occurrences(text: &str, version: &str) -> Vec<usize> {
    if version.is_empty() {
        return Vec::new();
    }
    let alone = text.match_indices(version).filter(|(at, _)| {
        let before = &text.as_bytes()[..*at];
        let after = &text.as_bytes()[at + version.len()..];
        let begins = match before {
            [.., b'0'..=b'9'] | [.., b'0'..=b'9', b'.' | b'!'] => false,
            [.., last] => *last != b'+' && *last != b'_',
            [] => true,
        };
        let ends = match after {
            [b'+' | b'_', ..] => false,
            [b'.', next, ..] => {
                !next.is_ascii_digit() && !after[1..].starts_with(b"dev") && !after[1..].starts_with(b"post")
            }
            [next, ..] => !next.is_ascii_alphanumeric(),
            [] => true,
        };
        begins && ends
    });
    alone.map(|(at, _)| at).collect()
}

/// Replaces the version at these positions. The number counts the replacements.
pub(crate) fn replaced(text: &str, old: &str, new: &str) -> (String, usize) {
    let places = occurrences(text, old);
    let mut result = String::with_capacity(text.len());
    let mut end = 0;
    for at in &places {
        result.push_str(&text[end..*at]);
        result.push_str(new);
        end = at + old.len();
    }
    result.push_str(&text[end..]);
    (result, places.len())
}

/// Checks a build tag: it begins with a digit and contains letters, digits, `_` and dots (PEP 427).
pub(crate) fn check_build(build: &str) -> Result<(), Error> {
    let good = build.starts_with(|first: char| first.is_ascii_digit())
        && build.chars().all(|character| character.is_ascii_alphanumeric() || matches!(character, '_' | '.'));
    if good {
        return Ok(());
    }
    Err(unusable("build tag", build, "a digit is expected, and letters, digits, `_` and `.` after it"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn local_versions_come_and_go() {
        let apply = |edit: VersionEdit, old: &str| edit.apply(old).unwrap();
        assert_eq!(apply(VersionEdit::local("rocm7.0").unwrap(), "2.9.0"), "2.9.0+rocm7.0");
        assert_eq!(apply(VersionEdit::local("b").unwrap(), "2.9.0a1+x"), "2.9.0a1+b");
        assert_eq!(apply(VersionEdit::NoLocal, "2.9.0+x.1"), "2.9.0");
        assert_eq!(apply(VersionEdit::NoLocal, "2.09"), "2.09");
        assert_eq!(apply(VersionEdit::set("3.0").unwrap(), "anything"), "3.0");
        assert!(VersionEdit::Local("a".to_owned()).apply("anything").is_err());
        for (wrong, says) in
            [("a-b", "`a.b`"), ("", "expected"), ("a b", "expected"), ("ROCM", "`rocm`"), ("+", "expect")]
        {
            let error = VersionEdit::local(wrong).unwrap_err().to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_version_stands_alone() {
        let count = |text: &str| occurrences(text, "7.0").len();
        for text in ["7.0", "v7.0", "'7.0'", "a-7.0.tar", "7.0.", "==7.0,", "7.0 7.0"] {
            assert!(count(text) > 0, "{text}");
        }
        for text in ["17.0", "1.7.0", "7.0.1", "7.0rc1", "7.0+x", "7.0.dev1", "7.0.post1", "7.00", "1!7.0", "x+7.0"] {
            assert_eq!(count(text), 0, "{text}");
        }
        assert_eq!(replaced("a 7.0 7.0.1 7.0", "7.0", "8"), ("a 8 7.0.1 8".to_owned(), 2));
        assert!(check_build("1local_2.3").is_ok() && check_build("x").is_err() && check_build("1-2").is_err());
    }

    proptest! {
        #[test]
        fn replacing_goes_back(text in "[a-z \"=\n]{0,9}(7\\.0[ \"\n]{1,2}[a-z]{0,3}){0,4}") {
            let (changed, count) = replaced(&text, "7.0", "8.1rc2");
            prop_assert_eq!(occurrences(&changed, "7.0").len(), 0);
            prop_assert_eq!(replaced(&changed, "8.1rc2", "7.0"), (text, count));
        }
    }
}
