//! The plan of an import, and what the plans of all kinds of inputs have in common.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rocwheel_content::archive_path::file_name;
use serde::Serialize;

use crate::deb::{self, Control};
use crate::options::ImportOptions;
use crate::report::{InputPackage, Skipped, SourceKind};
use crate::table::Table;
use crate::unpack::Belongs;

pub(crate) const SCHEMA: u32 = 1;

#[derive(Debug, Clone, Serialize)]
pub struct ImportPlan {
    pub schema: u32,
    pub kind: SourceKind,
    pub version: String,
    /// The packages sorted by name, or the one tree or tarball.
    pub sources: Vec<PlannedSource>,
    /// Packages of a shared prefix that are not imported, with the reason.
    pub left_out: Vec<Skipped>,
    /// Debian packages that the sources declare as needed: the exact names of what may be missing.
    #[serde(skip)]
    pub dependencies: BTreeSet<String>,
    /// `true` if the set has the library with which the HIP runtime reads `.kpack` archives; `None`
    /// if it is known only after unpacking.
    pub has_archive_reader: Option<bool>,
    /// Bytes on disk as the packages announce them; 0 if unknown.
    pub installed: u64,
    pub options: ImportOptions,
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedSource {
    /// Name, versions, digest and artifact.
    #[serde(flatten)]
    pub source: InputPackage,
    pub path: PathBuf,
    /// For an installed prefix: the files to import, relative to `path`. Empty for packages and
    /// tarballs.
    pub files: Vec<String>,
}

/// `true` for the path of the library with which the HIP runtime reads `.kpack` archives.
pub(crate) fn is_archive_reader(path: &str) -> bool {
    file_name(path).starts_with("librocm_kpack.so")
}

/// Converts control fields into a source, without digest and size.
pub(crate) fn input_package(control: Control) -> InputPackage {
    let artifact = Table::embedded().of_package(&control.package).map(|rule| rule.name.clone());
    InputPackage {
        name: control.package,
        version: control.version,
        source: control.source,
        source_version: control.source_version,
        sha256: None,
        size: 0,
        artifact,
    }
}

/// The version of `rocm-core` if the set has it, else the HIP runtime's.
pub(crate) fn version_of(sources: &[PlannedSource]) -> String {
    let version = ["rocm-core", "libamdhip64-", "hip-runtime-"].into_iter().find_map(|prefix| {
        let mut sources = sources.iter().map(|planned| &planned.source);
        let found = sources.find(|source| source.name.starts_with(prefix) && !source.name.ends_with("-dev"));
        found.map(|source| deb::upstream(&source.version))
    });
    let version = version.unwrap_or_default();
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}

/// The rule by which the files of a source find their artifact.
pub(crate) fn belongs(source: &InputPackage) -> Belongs {
    let rule = source.artifact.as_deref().and_then(|name| Table::embedded().artifact(name));
    rule.map_or(Belongs::System, |rule| Belongs::To(&rule.name))
}
