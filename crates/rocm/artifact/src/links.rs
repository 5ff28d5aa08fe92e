//! Input: a symbolic link and the other links of its tree. Output: `true` if following it leaves
//! the tree.

use std::collections::{BTreeMap, VecDeque};

/// Number of links that Linux follows before it fails with ELOOP.
const LONGEST_CHAIN: usize = 40;

/// The symbolic links of one tree: path relative to its root → text of the link.
pub type Links<'a> = BTreeMap<&'a str, &'a str>;

/// `true` if the link at `path` with the text `target` leads out of the tree, directly or through
/// other links of the tree. Absolute links do; dangling and circular links do not.
pub fn leaves_tree(path: &str, target: &str, links: &Links) -> bool {
    if target.starts_with('/') {
        return true;
    }
    let mut place: Vec<&str> = path.split('/').collect();
    place.pop();
    let mut ahead: VecDeque<&str> = target.split('/').collect();
    let mut followed = 0;
    while let Some(step) = ahead.pop_front() {
        match step {
            "" | "." => {}
            ".." => {
                if place.pop().is_none() {
                    return true;
                }
            }
            name => {
                place.push(name);
                let Some(target) = links.get(place.join("/").as_str()) else {
                    continue;
                };
                followed += 1;
                if target.starts_with('/') {
                    return true;
                }
                if followed > LONGEST_CHAIN {
                    return false;
                }
                place.pop();
                for step in target.split('/').rev() {
                    ahead.push_front(step);
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_links() {
        let none = Links::new();
        assert!(!leaves_tree("lib/a.so", "a.so.1", &none));
        assert!(!leaves_tree("bin/amdclang", "../lib/llvm/bin/clang", &none));
        assert!(leaves_tree("bin/x", "../../etc/passwd", &none));
        assert!(leaves_tree("x", "..", &none));
        assert!(leaves_tree("a/b/x", "/etc/passwd", &none));
        assert!(!leaves_tree("a/b/x", "../..//./c", &none));
        assert!(leaves_tree("x", "a/../../y", &none));
    }

    #[test]
    fn through_other_links() {
        let links =
            Links::from([("up", "sub/.."), ("deep", "a/b/c"), ("out", "/etc"), ("round", "about"), ("about", "round")]);
        assert!(leaves_tree("x", "up/../y", &links));
        assert!(!leaves_tree("x", "deep/../../../y", &links));
        assert!(leaves_tree("x", "deep/../../../../y", &links));
        assert!(leaves_tree("x", "out/passwd", &links));
        assert!(!leaves_tree("x", "round", &links));
    }
}
