//! Input: the patterns of `--exclude`. Output: `true` if a needed library matches one.
//!
//! A pattern matches a family: `libamdhip64.so` also matches `libamdhip64.so.7`, and `libfoo.so.1`
//! also matches `libfoo.so.1.2`. A pattern with a `/` is matched against the path of the library
//! that was found.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use rocwheel_progress::{Exit, Failure};

use crate::Error;

/// Patterns of libraries that are not copied.
#[derive(Debug, Default)]
pub(crate) struct Excludes {
    names: Vec<GlobMatcher>,
    paths: Vec<GlobMatcher>,
}

impl Excludes {
    pub(crate) fn new(patterns: &[String]) -> Result<Excludes, Error> {
        let mut excludes = Excludes::default();
        for pattern in patterns {
            if pattern.contains('/') {
                excludes.paths.push(matcher(pattern)?);
            } else {
                excludes.names.push(matcher(pattern)?);
                excludes.names.push(matcher(&format!("{pattern}.*"))?);
            }
        }
        Ok(excludes)
    }

    pub(crate) fn has(&self, library: &str) -> bool {
        let name = super::paths::name(library);
        self.names.iter().any(|glob| glob.is_match(name))
    }

    /// `true` if a member of the wheel is excluded, by its name or by its path in the wheel.
    pub(crate) fn has_member(&self, member: &str) -> bool {
        self.has(member) || self.has_path(Path::new(member))
    }

    /// `true` if the file at this path is excluded.
    pub(crate) fn has_path(&self, path: &Path) -> bool {
        self.paths.iter().any(|glob| glob.is_match(path))
    }
}

fn matcher(pattern: &str) -> Result<GlobMatcher, Error> {
    GlobBuilder::new(pattern).build().map(|glob| glob.compile_matcher()).map_err(|error| {
        Failure::other(error).context(format!("`{pattern}` is not a glob")).with_exit(Exit::Usage).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_a_family() {
        let patterns = ["libamdhip64.so", "libfoo.so.1", "libtorch*", "/opt/rocm*/**"].map(str::to_owned);
        let excludes = Excludes::new(&patterns).unwrap();
        for excluded in ["libamdhip64.so", "libamdhip64.so.7", "libfoo.so.1", "libfoo.so.1.2", "libtorch_cpu.so"] {
            assert!(excludes.has(excluded), "{excluded}");
        }
        for kept in ["libamdhip64", "libfoo.so", "libfoo.so.12", "libamdhip64.sox"] {
            assert!(!excludes.has(kept), "{kept}");
        }
        assert!(excludes.has_path(Path::new("/opt/rocm-7.0/lib/libx.so")));
        assert!(!excludes.has_path(Path::new("/opt/other/libx.so")));
        assert!(Excludes::new(&["lib[".to_owned()]).is_err());
    }
}
