//! Input: what an import did. Output: the report that `--json` prints and `rocwheel.import` in the
//! manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// What an import wrote, took in, left out and could not find. Everything is sorted.
#[derive(Debug, Clone, Serialize)]
pub struct ImportReport {
    /// Version of this structure.
    pub schema: u32,
    /// What was imported.
    pub kind: SourceKind,
    /// Where the artifacts are.
    pub output: PathBuf,
    /// The version of the whole set.
    pub version: String,
    /// The artifacts, by name.
    pub artifacts: Vec<ArtifactSummary>,
    /// The packages or other inputs, by name.
    pub sources: Vec<Source>,
    /// Source package → upstream version, of the ROCm packages.
    pub components: BTreeMap<String, String>,
    /// GPU targets without features that there is code for, in numerical order.
    pub targets: Vec<String>,
    /// The libraries taken in that are not ROCm's.
    pub system_libraries: Vec<SystemLibrary>,
    /// Libraries that are missing, which was allowed.
    pub unresolved: Vec<Missing>,
    /// Files of the input that are in no artifact.
    pub skipped: Vec<Skipped>,
    /// Files that no rule claims; they are in the artifact `base`.
    pub unknown: Vec<String>,
    /// Names of libraries in a library's data that no table of run-time loads explains.
    pub unlisted_loads: Vec<Mention>,
    /// Who loads a library at run time by a name that was replaced: the set holds a second copy of
    /// that name.
    pub kept_names: Vec<Mention>,
    /// Search path entries that led out of the set.
    pub dropped_search_paths: Vec<Mention>,
    /// CMake and pkg-config files that were rewritten.
    pub rewritten: Vec<String>,
    /// Files and links in the input, directories not counted.
    pub input_entries: u64,
}

/// What was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// Debian packages.
    Deb,
    /// An installed tree.
    Prefix,
    /// A `therock-dist-*` tarball.
    Tarball,
}

/// One artifact that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactSummary {
    /// `{name}_{component}_{target}`.
    pub name: String,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// One package, tree or tarball of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The package's name, or the file or directory name.
    pub name: String,
    /// The package's version, as the distribution writes it.
    pub version: String,
    /// The source package.
    pub source: String,
    /// The version of the source package.
    pub source_version: String,
    /// Of the file; `None` for a tree.
    pub sha256: Option<String>,
    /// Bytes of the file; 0 for a tree.
    pub size: u64,
    /// The ROCm artifact its files belong to; `None` for a package that is not ROCm's, or for a
    /// tree or tarball, where every file is looked up by itself.
    pub artifact: Option<String>,
}

/// A library taken in that is not ROCm's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemLibrary {
    /// Its SONAME in the set.
    pub soname: String,
    /// Its SONAME in the input.
    pub original: String,
    /// The package it comes from.
    pub package: String,
    /// The package's version.
    pub version: String,
    /// The source package.
    pub source: String,
    /// The source package's version.
    pub source_version: String,
    /// SPDX expression; `None` when the table has none.
    pub license: Option<String>,
    /// The package's copyright file in the flattened tree.
    pub copyright: Option<String>,
}

/// A library that something needs and nothing provides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its SONAME, or the pattern of the table of run-time loads.
    pub library: String,
    /// Whether the loader or the program itself looks for it.
    pub wanted: Wanted,
    /// Who needs it, then who needs that, up to a file of ROCm's; paths in the flattened tree.
    pub chain: Vec<String>,
    /// The Debian package that probably holds it.
    pub package: Option<String>,
}

/// How a library is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// By a NEEDED entry.
    Needed,
    /// By dlopen.
    Loaded,
}

impl Missing {
    /// `needed by `a`, which `b` needs`.
    pub(crate) fn needed_by(&self) -> String {
        let verb = match self.wanted {
            Wanted::Needed => "needed",
            Wanted::Loaded => "loaded at run time",
        };
        let mut chain = self.chain.iter();
        let first = chain.next().map_or_else(String::new, |path| format!("{verb} by `{path}`"));
        let rest: Vec<String> = chain.map(|path| format!(", which `{path}` needs")).collect();
        let package =
            self.package.as_ref().map_or_else(String::new, |package| format!(" (probably in package `{package}`)"));
        format!("{first}{}{package}", rest.concat())
    }
}

/// A file of the input that is in no artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Skipped {
    /// The package or input.
    pub source: String,
    /// Its path there.
    pub path: String,
    /// For a link that leads to nothing in the input: its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Why.
    pub reason: String,
}

/// A file and something it mentions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mention {
    /// Path in the flattened tree.
    pub path: String,
    /// The library or search path entry.
    pub text: String,
}
