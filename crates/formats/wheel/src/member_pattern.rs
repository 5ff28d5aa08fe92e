//! Input: a glob of the command line. Output: a test for members of an archive.

use globset::{GlobBuilder, GlobMatcher};

use crate::Error;

/// A glob over the paths of members. Without a slash it is matched against the file names in all
/// folders. With a slash it is matched against whole paths; `*` and `?` then do not match a slash,
/// `**` does.
#[derive(Debug, Clone)]
pub struct MemberPattern {
    text: String,
    matcher: GlobMatcher,
}

impl MemberPattern {
    /// Parses a glob. The error describes the problem.
    pub fn parse(text: &str) -> Result<MemberPattern, Error> {
        if text.is_empty() {
            return Err(Error::name("pattern", text, "it is empty"));
        }
        let whole = if text.contains('/') { text.to_owned() } else { format!("**/{text}") };
        let glob = GlobBuilder::new(&whole).literal_separator(true).build();
        let glob = glob.map_err(|error| Error::name("pattern", text, error.kind().to_string()))?;
        Ok(MemberPattern { text: text.to_owned(), matcher: glob.compile_matcher() })
    }

    /// The glob as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `true` if the pattern matches the member at `path`.
    pub fn matches(&self, path: &str) -> bool {
        self.matcher.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_makes_it_a_path() {
        let matches = |pattern: &str, path: &str| MemberPattern::parse(pattern).unwrap().matches(path);
        assert!(matches("*.so", "a/b/c.so") && matches("*.so", "c.so"));
        assert!(matches("a/*.so", "a/c.so") && !matches("a/*.so", "a/b/c.so"));
        assert!(matches("a/**", "a/b/c.so") && matches("**/b/*", "a/b/c.so"));
        assert!(matches("version.py", "torch/version.py") && !matches("version.py", "torch/aversion.py"));
        assert!(MemberPattern::parse("a[").is_err() && MemberPattern::parse("").is_err());
    }
}
