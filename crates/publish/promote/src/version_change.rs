//! Input: the version of a set and the one that it gets. Output: the new version of each file of
//! the set, and texts with the new version.
//!
//! A set has the version of its ROCm packages. Frameworks that are built on it name it in their
//! local version: `2.14.0a0+rocm7.12.0rc1` (release spec 6.5). Versions of files are parsed (PEP
//! 440), so `rc1` is not part of `rc10`, and neither torch's own `a0` nor a letter of a commit is
//! taken for a pre-release.

use memchr::memmem::Finder;
use pep440_rs::{LocalSegment, Version};
use rocwheel_progress::Failure;
use rocwheel_wheel::{VersionSpelling, replace_versions, version_sign, version_stands_alone};

use crate::error;

/// What stands between the public and the local part of a version: in versions, in local versions
/// of others, in file names of older tools, in addresses.
const SEPARATORS: [&str; 6] = ["+", ".", "-", "_", "%2B", "%2b"];
/// What precedes the version of ROCm in a local version; the second is that of development builds.
const PREFIXES: [&str; 2] = ["rocm", "devrocm"];

/// The version of a set before and after its promotion.
#[derive(Debug, Clone)]
pub struct VersionChange {
    old: Version,
    new: Version,
    /// Spellings of the old version, longest first, and what they become.
    spellings: Vec<VersionSpelling>,
    /// What every spelling begins with.
    sign: String,
}

impl VersionChange {
    /// The change from `old` to `new`. If they are equal, nothing gets another version.
    ///
    /// # Errors
    /// A new version of another release, an older one, and one with `.postN` or a local part; an
    /// old one that is a release already.
    pub fn new(old: &Version, new: &Version) -> Result<VersionChange, Failure> {
        let old = old.clone().with_post(None);
        if let Some(reason) = refusal(&old, new) {
            return Err(error::version(&old, new, reason));
        }
        let (public, after) = (old.clone().without_local().to_string(), new.to_string());
        let local = local_text(&old);
        let texts: Vec<String> = if local.is_empty() {
            vec![public]
        } else {
            SEPARATORS.map(|separator| format!("{public}{separator}{local}")).into()
        };
        let mut spellings = Vec::new();
        for text in texts {
            if old.is_dev() && !new.is_dev() {
                spellings.push(VersionSpelling { old: format!("devrocm{text}"), new: format!("rocm{after}") });
            }
            spellings.push(VersionSpelling { old: text, new: after.clone() });
        }
        spellings.sort_by_key(|spelling| std::cmp::Reverse(spelling.old.len()));
        let sign = version_sign(&old);
        Ok(VersionChange { old, new: new.clone(), spellings, sign })
    }

    pub fn old(&self) -> &Version {
        &self.old
    }

    /// The version that it gets.
    pub fn new_version(&self) -> &Version {
        &self.new
    }

    pub fn is_none(&self) -> bool {
        self.old == self.new
    }

    /// The version that a file with this one gets: that of the set, with the same `.postN`, or one
    /// that names the set in its local part. `None` for a file that is not of this set.
    pub fn of_file(&self, version: &Version) -> Option<Version> {
        if version.clone().with_post(None) == self.old {
            return Some(self.new.clone().with_post(version.post()));
        }
        let local = version.local();
        for prefix in PREFIXES {
            let old = segments(prefix, &self.old);
            let Some(at) = (0..local.len()).find(|at| local[*at..].starts_with(&old)) else { continue };
            let rest = &local[at + old.len()..];
            if !rest.first().is_none_or(continues) {
                return None;
            }
            let prefix = if self.new.is_dev() { prefix } else { PREFIXES[0] };
            let mut segments = [&local[..at], &segments(prefix, &self.new)].concat();
            segments.extend_from_slice(rest);
            return Some(version.clone().with_local(segments));
        }
        None
    }

    /// The text with the new version in place of the old one. The old one with another local part
    /// is another version, which the caller finds.
    pub fn replaced(&self, text: &str) -> String {
        if self.is_none() || !text.contains(&self.sign) {
            return text.to_owned();
        }
        let spellings: Vec<&VersionSpelling> = self.spellings.iter().collect();
        replace_versions(text, &spellings, |after| !after.starts_with('+'))
    }

    /// The text without which no file says the old version.
    pub(crate) fn sign(&self) -> &str {
        &self.sign
    }

    pub fn finder(&self) -> OldVersion<'_> {
        OldVersion { sign: self.sign.as_bytes(), finder: Finder::new(self.sign.as_bytes()), is_none: self.is_none() }
    }
}

/// Searches for the old version of a set.
pub struct OldVersion<'a> {
    sign: &'a [u8],
    finder: Finder<'a>,
    is_none: bool,
}

impl OldVersion<'_> {
    /// Positions of the old version in bytes.
    pub fn positions<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = usize> + 'b {
        let limit = if self.is_none { 0 } else { bytes.len() };
        self.finder.find_iter(&bytes[..limit]).filter(|at| version_stands_alone(bytes, *at, self.sign.len()))
    }

    /// `true` if the bytes say the old version.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.positions(bytes).next().is_some()
    }

    /// Number of bytes before and after a position that decide if the version is there.
    pub fn overlap(&self) -> usize {
        self.sign.len() + 2
    }
}

/// The local part as text: `bkc.20260814`.
fn local_text(version: &Version) -> String {
    version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

/// The segments with which a local version names a version of ROCm.
fn segments(prefix: &str, version: &Version) -> Vec<LocalSegment> {
    let local = local_text(version);
    let dot = if local.is_empty() { "" } else { "." };
    let whole = format!("0+{prefix}{}{dot}{local}", version.clone().without_local());
    whole.parse::<Version>().map(|version| version.local().to_vec()).unwrap_or_default()
}

/// `true` if a segment may follow the version of ROCm: `.post1`, `.git1a2b3c4d`. A number or `bkc`
/// makes it another version.
fn continues(segment: &LocalSegment) -> bool {
    matches!(segment, LocalSegment::String(text) if text != "bkc" && !text.starts_with("dev"))
}

fn refusal(old: &Version, new: &Version) -> Option<&'static str> {
    if old == new {
        None
    } else if old.only_release() != new.only_release() || old.epoch() != new.epoch() {
        Some("that is another release, which has to be built")
    } else if new.is_post() || new.is_local() {
        Some("a promoted version has no `.postN` and no local part; files keep their own `.postN`")
    } else if !old.any_prerelease() && !old.is_local() {
        Some("the set is a release already")
    } else {
        (new.clone().without_local() < old.clone().without_local()).then_some("that version is older")
    }
}

/// The version of ROCm in a local version: `7.12.0rc1` of `2.14.0+rocm7.12.0rc1.git1a2b`.
pub(crate) fn named_rocm(version: &Version) -> Option<Version> {
    let local = version.local();
    let (at, prefix) = local.iter().enumerate().find_map(|(at, segment)| {
        let text = segment.to_string();
        PREFIXES.into_iter().find(|prefix| is_prefix(&text, prefix)).map(|prefix| (at, prefix))
    })?;
    let words: Vec<String> = local[at..].iter().map(ToString::to_string).collect();
    let words: Vec<&str> =
        words.iter().enumerate().map(|(i, word)| if i == 0 { &word[prefix.len()..] } else { word }).collect();
    let (length, found) = (1..=words.len())
        .rev()
        .find_map(|length| Some((length, words[..length].join(".").parse::<Version>().ok()?.with_post(None))))?;
    let rest = &words[length..];
    // The local part of ROCm's version follows with a dot: `bkc.DATE`, or a commit.
    let count = match rest {
        ["bkc", _, ..] => 2,
        [word, ..] if found.is_dev() && word.len() >= 7 && word.bytes().all(|byte| byte.is_ascii_hexdigit()) => 1,
        _ => 0,
    };
    if count == 0 {
        return Some(found);
    }
    format!("{found}+{}", rest[..count].join(".")).parse().ok()
}

fn is_prefix(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(old: &str, new: &str) -> VersionChange {
        VersionChange::new(&old.parse().unwrap(), &new.parse().unwrap()).unwrap()
    }

    const COMMIT: &str = "efed3c3b10a5aabbccddeeff0011223344556677";

    #[test]
    fn each_file_gets_its_version() {
        let dev = format!("7.12.0.dev0+{COMMIT}");
        let torch_of_dev = format!("2.14.0+devrocm7.12.0.dev0.{COMMIT}");
        let table = [
            ("7.12.0rc1", "7.12.0", "7.12.0rc1", Some("7.12.0")),
            ("7.12.0rc1", "7.12.0", "7.12.0rc1.post1", Some("7.12.0.post1")),
            ("7.12.0rc1.post2", "7.12.0", "7.12.0rc1.post1", Some("7.12.0.post1")),
            ("7.12.0rc1", "7.12.0", "7.12.0rc10", None),
            ("7.12.0rc1", "7.12.0", "2.14.0a0+rocm7.12.0rc1", Some("2.14.0a0+rocm7.12.0")),
            ("7.12.0rc1", "7.12.0", "2.14.0a0+rocm7.12.0rc10", None),
            ("7.12.0rc1", "7.12.0", "2.14.0+rocm7.12.0rc1.post1", Some("2.14.0+rocm7.12.0.post1")),
            ("7.12.0rc1", "7.12.0", "2.12.0a0+git1a2b3c4d.rocm7.12.0rc1", Some("2.12.0a0+git1a2b3c4d.rocm7.12.0")),
            ("7.12.0rc1", "7.12.0", "3.5.1+rocm7.12.0rc1.gita1b2c3d4", Some("3.5.1+rocm7.12.0.gita1b2c3d4")),
            ("7.12.0rc1", "7.12.0rc2", "2.14.0+rocm7.12.0rc1", Some("2.14.0+rocm7.12.0rc2")),
            ("7.13.0a20260430", "7.13.0rc1", "7.13.0a20260430", Some("7.13.0rc1")),
            ("10.1.0a20260811+bkc.20260814", "10.1.0", "10.1.0a20260811+bkc.20260814", Some("10.1.0")),
            (
                "10.1.0a20260811+bkc.20260814",
                "10.1.0",
                "2.14.0+rocm10.1.0a20260811.bkc.20260814",
                Some("2.14.0+rocm10.1.0"),
            ),
            ("10.1.0a20260811+bkc.20260814", "10.1.0", "2.14.0+rocm10.1.0a20260811", None),
            ("10.1.0a20260811", "10.1.0", "2.14.0+rocm10.1.0a20260811.bkc.20260814", None),
            ("10.1.0a20260811", "10.1.0", "10.1.0a20260811+bkc.20260814", None),
            (&dev, "7.12.0", &dev, Some("7.12.0")),
            (&dev, "7.12.0", &torch_of_dev, Some("2.14.0+rocm7.12.0")),
            ("7.12.0rc1", "7.12.0", "1.0", None),
            ("7.12.0rc1", "7.12.0rc1", "2.14.0+rocm7.12.0rc1", Some("2.14.0+rocm7.12.0rc1")),
        ];
        for (old, new, file, expected) in table {
            let found = change(old, new).of_file(&file.parse().unwrap()).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected, "{old} → {new}: {file}");
        }
    }

    #[test]
    fn what_is_no_promotion_is_refused() {
        for (old, new, says) in [
            ("7.12.0rc1", "7.13.0", "another release"),
            ("7.12.0rc2", "7.12.0rc1", "older"),
            ("7.12.0rc1", "7.12.0a20260101", "older"),
            ("7.12.0", "7.12.0.post1", "`.postN`"),
            ("7.12.0rc1", "7.12.0+x", "local"),
            ("7.12.0.post1", "7.12.0rc1", "already"),
        ] {
            let error = VersionChange::new(&old.parse().unwrap(), &new.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains(says), "{old} → {new}: {error}");
        }
    }

    #[test]
    fn texts_get_the_version_and_nothing_like_it_changes() {
        let rc = change("7.12.0rc1", "7.12.0");
        for (old, new) in [
            ("rocm==7.12.0rc1; extra == 'x'", "rocm==7.12.0; extra == 'x'"),
            ("'2.14.0a0+rocm7.12.0rc1'", "'2.14.0a0+rocm7.12.0'"),
            ("7.12.0rc1.post1", "7.12.0.post1"),
            (
                "a-7.12.0rc1.tar.gz 7.12.0rc10 17.12.0rc1 1.7.12.0rc1",
                "a-7.12.0.tar.gz 7.12.0rc10 17.12.0rc1 1.7.12.0rc1",
            ),
            ("7.12.0rc1+bkc.1", "7.12.0rc1+bkc.1"),
        ] {
            assert_eq!(rc.replaced(old), new);
        }
        let bkc = change("10.1.0a20260811+bkc.20260814", "10.1.0");
        assert_eq!(
            bkc.replaced(
                "10.1.0a20260811+bkc.20260814 +rocm10.1.0a20260811.bkc.20260814 x%2B 10.1.0a20260811%2Bbkc.20260814"
            ),
            "10.1.0 +rocm10.1.0 x%2B 10.1.0"
        );
        let dev = change(&format!("7.12.0.dev0+{COMMIT}"), "7.12.0");
        assert_eq!(
            dev.replaced(&format!("2.1+devrocm7.12.0.dev0-{COMMIT} 7.12.0.dev0+{COMMIT}")),
            "2.1+rocm7.12.0 7.12.0"
        );
        assert!(rc.finder().is_in(b"x7.12.0rc1y") && !rc.finder().is_in(b"7.12.0rc12"));
        assert!(bkc.finder().is_in(b"10.1.0a20260811"), "half of the version is a leftover too");
    }

    #[test]
    fn frameworks_name_the_set() {
        for (version, rocm) in [
            ("2.14.0a0+rocm7.12.0rc1", Some("7.12.0rc1")),
            ("2.14.0+rocm7.12.0rc1.post1", Some("7.12.0rc1")),
            ("2.14.0+git1a2b3c4d.rocm7.12.0rc1", Some("7.12.0rc1")),
            ("3.5.1+rocm7.12.0.gita1b2c3d4", Some("7.12.0")),
            ("2.14.0+rocm10.1.0a20260811.bkc.20260814", Some("10.1.0a20260811+bkc.20260814")),
            ("2.14.0+devrocm7.12.0.dev0.efed3c3b10a5", Some("7.12.0.dev0+efed3c3b10a5")),
            ("2.14.0", None),
            ("2.14.0+cu130", None),
        ] {
            let found = named_rocm(&version.parse().unwrap()).map(|version| version.to_string());
            assert_eq!(found.as_deref(), rocm, "{version}");
        }
    }
}
