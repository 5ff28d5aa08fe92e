//! Input: the results of an import. Output: the report that `--json` prints, and `rocwheel.import`
//! in the manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

/// Everything that an import wrote, skipped and could not find. All lists are sorted.
#[derive(Debug, Clone, Serialize)]
pub struct ImportReport {
    pub schema: u32,
    pub kind: SourceKind,
    pub output: PathBuf,
    pub version: String,
    /// The artifacts, sorted by name.
    pub artifacts: Vec<ArtifactSummary>,
    /// The packages or other inputs, sorted by name.
    pub sources: Vec<InputPackage>,
    /// Source package → upstream version, of the ROCm packages.
    pub components: BTreeMap<String, String>,
    /// GPU targets, without features, that the set has code for, in numerical order.
    pub targets: Vec<String>,
    /// Libraries from outside ROCm that are in the set.
    pub system_libraries: Vec<SystemLibrary>,
    /// Libraries that are missing, as the options allow.
    pub unresolved: Vec<Missing>,
    /// Files of the input that are in no artifact.
    pub skipped: Vec<Skipped>,
    /// Skipped files whose path another package's file with other bytes has.
    pub displaced: Vec<Skipped>,
    /// Files that no rule claims; they are in the artifact `base`.
    pub unknown: Vec<String>,
    /// Names of libraries in a library's data that no table of run-time loads explains.
    pub unlisted_loads: Vec<Mention>,
    /// Files that load a library at run time by a name that was replaced: the set holds a second
    /// copy of that name.
    pub kept_names: Vec<Mention>,
    /// Search path entries that led out of the set.
    pub dropped_search_paths: Vec<Mention>,
    /// CMake and pkg-config files that were rewritten.
    pub rewritten: Vec<String>,
    /// Libraries that are copies of another under another name in the input, and links in the
    /// artifacts.
    pub copies: Vec<String>,
    /// Number of files and links in the input, without directories.
    pub input_entries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    Deb,
    /// An installed tree.
    Prefix,
    /// A `therock-dist-*` tarball.
    Tarball,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactSummary {
    /// `{name}_{component}_{target}`.
    pub name: String,
    pub files: u64,
    pub links: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
}

/// A package, tree or tarball of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InputPackage {
    pub name: String,
    /// Version of the package, as the distribution writes it.
    pub version: String,
    /// Name of the source package; `prefix` for a tree, `TheRock` for a tarball.
    pub source: String,
    pub source_version: String,
    /// SHA-256 digest of the file in hexadecimal; `None` for a tree.
    pub sha256: Option<String>,
    /// Size of the file in bytes; 0 for a tree.
    pub size: u64,
    /// The ROCm artifact that its files belong to. `None` for a package from outside ROCm, and for
    /// a tree or tarball, where every file is looked up separately.
    pub artifact: Option<String>,
}

/// A library from outside ROCm that is in the set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SystemLibrary {
    /// Its SONAME in the set.
    pub soname: String,
    /// SONAME in the input.
    pub original: String,
    pub package: String,
    pub version: String,
    pub source: String,
    pub source_version: String,
    /// SPDX expression; `None` if the table has none.
    pub license: Option<String>,
    /// Path of the package's copyright file in the flattened tree.
    pub copyright: Option<String>,
}

/// A library that something needs and nothing provides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Its SONAME, or the pattern of the table of run-time loads.
    pub library: String,
    pub wanted: Wanted,
    /// The file that needs it, then the file that needs that one, up to a ROCm file; paths in the
    /// flattened tree.
    pub chain: Vec<String>,
    /// Name of the package, or input, that has the file that needs it.
    pub source: String,
    /// Name of the Debian package that holds it.
    pub package: Option<String>,
    /// `true` if a package that needs the library names `package`, which otherwise is a guess.
    pub certain: bool,
    /// SONAME of another version of this library of ROCm, which is in the set.
    pub other_version: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// A NEEDED entry, which the loader resolves.
    Needed,
    /// A call of `dlopen` by the program.
    Loaded,
}

impl Missing {
    /// For messages: `needed by `a`, which `b` needs`.
    pub(crate) fn needed_by(&self) -> String {
        let verb = match self.wanted {
            Wanted::Needed => "needed",
            Wanted::Loaded => "loaded at run time",
        };
        let mut chain = self.chain.iter();
        let first = chain.next().map_or_else(String::new, |path| format!("{verb} by `{path}`"));
        let rest: Vec<String> = chain.map(|path| format!(", which `{path}` needs")).collect();
        let rest = rest.concat();
        if let Some(other) = &self.other_version {
            return format!("{first}{rest} of `{}`: it is built for another ROCm, this set has `{other}`", self.source);
        }
        let package = self.package.as_ref().map(|package| package.split(' ').next().unwrap_or(package));
        let probably = if self.certain { "" } else { "probably " };
        let package = package.map_or_else(String::new, |package| format!(" ({probably}in package `{package}`)"));
        format!("{first}{rest}{package}")
    }
}

/// A file of the input that is in no artifact.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Skipped {
    pub source: String,
    /// Path of the file in it.
    pub path: String,
    /// For a link whose target is not in the input: the text of the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    pub reason: String,
}

/// A file and a text that occurs in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mention {
    /// Path of the file in the flattened tree.
    pub path: String,
    /// A name of a library or a search path entry.
    pub text: String,
}
