//! Input: a glob and a relative path with `/`. Output: `true` if the path matches.
//!
//! The dialect is that of `TheRock`'s descriptors, which differs from every common one. A glob is
//! matched against the whole path, case counts, dotfiles are nothing special and there are no
//! character classes:
//!
//! * `/**/` inside is `/`, then any number of directories; a leading `**/` is any number of
//!   directories;
//! * a trailing `/**` is anything below, and the directory itself (`a/**` matches `a`);
//! * any other `*` is zero or more characters other than `/` – so `**` between other characters
//!   stays in one segment;
//! * `?` is the same as `*`: zero or more characters, not one. That is a defect of the original,
//!   kept because descriptors are written against it.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    glob: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Exactly these bytes.
    Literal(Vec<u8>),
    /// Zero or more bytes other than `/`.
    Segment,
    /// Nothing, or any text that ends in `/`.
    Directories,
    /// Nothing at the end, or `/` and any text.
    Below,
}

impl Pattern {
    /// Compiles a glob. Every text is a valid glob.
    pub fn new(glob: &str) -> Self {
        let mut parts = Vec::new();
        // The original substitutes `/**/` everywhere before it looks at the start and the end, so
        // the cut comes first: in `a/**/**/b` only the first of the two crosses directories.
        let mut pieces = glob.split("/**/").peekable();
        let mut start = true;
        while let Some(piece) = pieces.next() {
            let inner = pieces.peek().is_some();
            let mut slash = inner;
            let mut piece = piece;
            if start && inner && piece == "**" {
                parts.push(Part::Directories);
                (piece, slash) = ("", false);
            } else if let Some(rest) = piece.strip_prefix("**/").filter(|_| start) {
                parts.push(Part::Directories);
                piece = rest;
            }
            let below = if inner { None } else { piece.strip_suffix("/**") };
            for byte in below.unwrap_or(piece).bytes() {
                match byte {
                    b'*' | b'?' if parts.last() == Some(&Part::Segment) => {}
                    b'*' | b'?' => parts.push(Part::Segment),
                    _ => push_literal(&mut parts, byte),
                }
            }
            if slash {
                push_literal(&mut parts, b'/');
            }
            if inner {
                parts.push(Part::Directories);
            }
            if below.is_some() {
                parts.push(Part::Below);
            }
            start = false;
        }
        Self { glob: glob.to_owned(), parts }
    }

    pub fn glob(&self) -> &str {
        &self.glob
    }

    /// `true` if the whole of `path` matches.
    pub fn matches(&self, path: &str) -> bool {
        let path = path.as_bytes();
        // Most patterns are refused by how a path starts or ends.
        if !path.starts_with(Part::literal(self.parts.first())) || !path.ends_with(Part::literal(self.parts.last())) {
            return false;
        }
        // The positions in `path` at which a match of the parts so far can end.
        let mut reached = vec![false; path.len() + 1];
        reached[0] = true;
        for part in &self.parts {
            reached = part.step(path, &reached);
        }
        reached[path.len()]
    }
}

fn push_literal(parts: &mut Vec<Part>, byte: u8) {
    if let Some(Part::Literal(bytes)) = parts.last_mut() {
        bytes.push(byte);
    } else {
        parts.push(Part::Literal(vec![byte]));
    }
}

impl Part {
    /// The text of a literal; empty for any other part.
    fn literal(part: Option<&Part>) -> &[u8] {
        match part {
            Some(Part::Literal(bytes)) => bytes,
            _ => &[],
        }
    }

    fn step(&self, path: &[u8], from: &[bool]) -> Vec<bool> {
        let mut to = vec![false; from.len()];
        match self {
            Self::Literal(bytes) => {
                for start in 0..from.len() {
                    if from[start] && path[start..].starts_with(bytes) {
                        to[start + bytes.len()] = true;
                    }
                }
            }
            Self::Segment => {
                let mut running = false;
                for at in 0..from.len() {
                    running = from[at] || (running && path[at - 1] != b'/');
                    to[at] = running;
                }
            }
            Self::Directories => {
                let mut seen = false;
                for at in 0..from.len() {
                    to[at] = from[at] || (seen && path[at - 1] == b'/');
                    seen |= from[at];
                }
            }
            Self::Below => {
                let end = path.len();
                to[end] = from[end] || (0..end).any(|at| from[at] && path[at] == b'/');
            }
        }
        to
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Pattern({:?})", self.glob)
    }
}

/// Selects paths. The order of the patterns in a list does not matter: a later pattern does not
/// override an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predicate {
    /// At least one must match, unless the list is empty.
    pub includes: Vec<Pattern>,
    /// None may match.
    pub excludes: Vec<Pattern>,
    /// A path that matches one of these is selected regardless of the other two lists.
    pub forced: Vec<Pattern>,
}

impl Predicate {
    /// A predicate from globs, without forced patterns.
    pub fn new<'a>(includes: impl IntoIterator<Item = &'a str>, excludes: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            includes: includes.into_iter().map(Pattern::new).collect(),
            excludes: excludes.into_iter().map(Pattern::new).collect(),
            forced: Vec::new(),
        }
    }

    pub fn matches(&self, path: &str) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path));
        any(&self.forced) || ((self.includes.is_empty() || any(&self.includes)) && !any(&self.excludes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    /// The rules as the original states them: escape the glob, then substitute in order.
    fn reference(glob: &str) -> Regex {
        let mut text = regex::escape(glob);
        text = text.replace(r"/\*\*/", "/(?:.*/)?");
        if let Some(rest) = text.strip_prefix(r"\*\*/") {
            text = format!("(?:.*/)?{rest}");
        }
        if let Some(rest) = text.strip_suffix(r"/\*\*") {
            text = format!("{rest}(?:/.*)?");
        }
        text = text.replace(r"\*", "[^/]*").replace(r"\?", "[^/]*");
        Regex::new(&format!(r"\A(?:{text})\z")).unwrap()
    }

    #[test]
    fn known_answers() {
        for (glob, path, expected) in [
            ("**/*.so", "x.so", true),
            ("**/*.so", "a/b/x.so", true),
            ("**/*.so", "x.so.1", false),
            ("a/**", "a", true),
            ("a/**", "a/b/c", true),
            ("a/**", "ab", false),
            ("**", "a", true),
            ("**", "a/b", false),
            ("**/*", "a/b/c", true),
            ("foo**bar", "foo/bar", false),
            ("foo**bar", "fooxbar", true),
            ("a?b", "ab", true),
            ("a?b", "axxb", true),
            ("a?b", "a/b", false),
            ("[ab]", "a", false),
            ("[ab]", "[ab]", true),
            ("*", ".hidden", true),
            ("A", "a", false),
            ("**/cmake/**", "lib/cmake", true),
            ("**/cmake/**", "cmake", true),
            ("**/cmake/**", "lib/cmake/hip/hip-config.cmake", true),
            ("share/**/x/**", "share/x/y", true),
            ("share/**/x/**", "share/a/b/x", true),
            ("a/**/b", "a/b", true),
            ("**/**/x", "x", true),
            ("**/**/x", "a/b/x", true),
            ("a/**/**/b", "a/b", false),
            ("a/**/**/b", "a/x/b", true),
            ("", "", true),
            ("/**", "/a", true),
        ] {
            assert_eq!(Pattern::new(glob).matches(path), expected, "{glob} {path}");
            assert_eq!(reference(glob).is_match(path), expected, "reference: {glob} {path}");
        }
    }

    #[test]
    fn predicate_order() {
        let mut predicate = Predicate::new(["lib/**"], ["**/*.txt"]);
        assert!(predicate.matches("lib/a"));
        assert!(!predicate.matches("lib/a.txt"));
        assert!(!predicate.matches("bin/a"));
        predicate.forced = vec![Pattern::new("**/keep.txt")];
        assert!(predicate.matches("lib/keep.txt") && predicate.matches("bin/keep.txt"));
        predicate.includes.clear();
        assert!(predicate.matches("bin/a") && !predicate.matches("bin/a.txt"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn agrees_with_the_substitution_rules(
            glob in "(\\*\\*/|/\\*\\*|/\\*\\*/|\\*|\\?|/|a|b|\\.|\\[|\\+){0,7}",
            path in "[ab./\\[+]{0,8}",
        ) {
            prop_assert_eq!(Pattern::new(&glob).matches(&path), reference(&glob).is_match(&path));
        }

        #[test]
        fn a_glob_without_wildcards_matches_only_itself(glob in "[^*?]{0,10}", path in "[^*?]{0,10}") {
            prop_assert!(Pattern::new(&glob).matches(&glob));
            prop_assert_eq!(Pattern::new(&glob).matches(&path), glob == path);
        }
    }
}
