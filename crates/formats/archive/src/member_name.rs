//! Input: names of members. Output: the first that must not be in an archive, and those that would
//! become one file.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::Error;

/// Checks that a member's name is a relative path that stays inside the folder it is unpacked to,
/// on every system.
pub fn check_member_name(name: &str) -> Result<(), Error> {
    if is_plain(name) {
        return Ok(());
    }
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.starts_with('/') {
        "it is absolute"
    } else if name.contains('\\') {
        "it contains a backslash, which Windows takes for a separator"
    } else if name.chars().any(char::is_control) {
        "it contains a control character"
    } else if name.len() > usize::from(u16::MAX) {
        "it is longer than 65535 bytes"
    } else if name.as_bytes().get(1) == Some(&b':') && name.as_bytes()[0].is_ascii_alphabetic() {
        "it begins with a drive letter"
    } else if name.split('/').any(|part| part == "..") {
        "it contains `..`"
    } else if name.split('/').any(|part| part.is_empty() || part == ".") {
        "it contains an empty part or `.`"
    } else {
        return Ok(());
    };
    Err(Error::MemberName { name: name.to_owned(), reason })
}

/// `true` if a name is certainly allowed; needs one pass over its bytes. Nearly all names are, and
/// wheels have thousands.
fn is_plain(name: &str) -> bool {
    // A part that consists only of dots may be `.` or `..`.
    let (mut only_dots, mut is_plain) = (true, u16::try_from(name.len()).is_ok());
    for byte in name.bytes() {
        if byte == b'/' {
            is_plain &= !only_dots;
            only_dots = true;
        } else {
            is_plain &= (b' '..=b'~').contains(&byte) && byte != b'\\' && byte != b':';
            only_dots &= byte == b'.';
        }
    }
    is_plain && !only_dots
}

/// Groups of names that become one file on systems that ignore case (Windows, macOS), sorted.
pub fn case_collisions<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Vec<&'a str>> {
    let mut groups: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for name in names {
        groups.entry(name.to_lowercase()).or_default().insert(name);
    }
    groups.into_values().filter(|group| group.len() > 1).map(|group| group.into_iter().collect()).collect()
}

/// Checks every name. Names must be unique, and none may be both a file and a folder.
pub fn check_tree<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    let mut files = HashSet::new();
    for name in names {
        check_member_name(name)?;
        if !files.insert(name) {
            return Err(Error::DuplicateMember { name: name.to_owned() });
        }
    }
    // Adds each folder once: most members share theirs with others.
    let mut folders = HashSet::new();
    let mut both = BTreeSet::new();
    for name in &files {
        let mut folder = *name;
        while let Some((above, _)) = folder.rsplit_once('/') {
            if !folders.insert(above) {
                break;
            }
            if files.contains(above) {
                both.insert(above);
            }
            folder = above;
        }
    }
    if let Some(name) = both.first() {
        return Err(Error::MemberName { name: (*name).to_owned(), reason: "it is also the folder of another member" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_names_stay_inside() {
        for good in ["a", "a/b.c", ".devel_links/x.json", "a..b/c...", "_x/größe"] {
            assert!(check_member_name(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "a\\b", "../a", "a/../b", "a/..", "a//b", "./a", "a/", "C:/x", "a\nb", "a\0"] {
            assert!(check_member_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_that_collide_without_case_are_grouped() {
        assert_eq!(case_collisions(["a/B", "a/b", "c", "A/b"]), [["A/b", "a/B", "a/b"]]);
        assert!(case_collisions(["a", "b"]).is_empty());
    }
}
