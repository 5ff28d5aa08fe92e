//! What to import, and how.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rocwheel_progress::Failure;
use rocwheel_tables::Pattern;
use serde::Serialize;

use crate::error;
use crate::libraries::SystemLibraries;
use crate::report::Missing;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportSource {
    Debs(Vec<PathBuf>),
    /// An installed ROCm: `/opt/rocm`, or the shared prefix `/usr` of a root with dpkg's database.
    Prefix(PathBuf),
    /// A `therock-dist-*.tar.gz` (or `.xz`, `.zst`), whose root is the flattened tree.
    Tarball(PathBuf),
}

#[derive(Debug, Clone, Serialize)]
pub struct ImportOptions {
    /// Directory for the artifacts: empty, missing, or written by an earlier import.
    pub output: PathBuf,
    /// SONAMEs that may be missing; `*` matches any text.
    pub allow_unresolved: Vec<String>,
    /// Treatment of the SONAMEs of libraries from outside ROCm.
    pub sonames: Sonames,
    /// The version of the set; `None` determines it from the input.
    pub version: Option<String>,
}

impl ImportOptions {
    /// Fails unless all missing libraries are allowed to be missing. `present` are the packages of
    /// the input.
    pub(crate) fn judge(&self, missing: Vec<Missing>, present: &[String]) -> Result<Vec<Missing>, Failure> {
        let allowed: Vec<Pattern> = self.allow_unresolved.iter().map(|name| Pattern::new(name)).collect();
        let (unresolved, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(|missing| {
            allowed.iter().any(|pattern| pattern.matches(&missing.library) || pattern.glob() == missing.library)
        });
        if missing.is_empty() {
            return Ok(unresolved);
        }
        let present: BTreeSet<String> = present.iter().cloned().collect();
        let packages =
            missing.iter().filter(|one| one.other_version.is_none()).filter_map(|one| one.package.as_deref());
        let in_turn = SystemLibraries::embedded().needs_of(packages, &present);
        Err(error::unresolved(&missing, &in_turn))
    }
}

/// Treatment of the SONAMEs of libraries from outside ROCm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sonames {
    /// `libnuma.so.1` becomes `librocm_sysdeps_numa.so.1`, so that it is found even if the process
    /// has loaded another `libnuma.so.1` before.
    #[default]
    Rename,
    /// The names are kept. A library of the same name that is already loaded is used instead.
    Keep,
}
