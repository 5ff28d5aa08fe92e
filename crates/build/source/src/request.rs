//! A request to check out projects, in the types of this crate.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::manifest::ManifestProject;

#[derive(Debug, Clone)]
pub struct Request {
    /// Folder that contains the checkouts; absolute.
    pub root: PathBuf,
    pub projects: Vec<WantedCheckout>,
    /// Name of a version line, or torch's branch of it (`2.9`, `release/2.9`).
    pub line: Option<String>,
    /// Path of torch's tree, whose pins are read; `None`: its default path below the root.
    pub torch: Option<PathBuf>,
    /// Number of commits of history; `None`: all.
    pub depth: Option<u32>,
    /// Number of parallel connections for submodules; `None`: the project's default.
    pub jobs: Option<u16>,
    pub submodules: Submodules,
    pub conversion: TreeConversion,
    pub related: Related,
    /// The pin of torch that triton follows.
    pub triton: TritonPin,
    /// Name of the rules for `build_env.json`; `None`: those of the version line, otherwise the
    /// first.
    pub triton_rules: Option<String>,
    /// Folder with the patch sets of each project; `None`: no patches.
    pub patches: Option<PathBuf>,
    /// Name of the patch set. `None`: the branch or tag; `rocm-custom` for projects that torch pins
    /// or that are named by their commit.
    pub patchset: Option<String>,
    pub movement: Movement,
}

impl Request {
    /// The request for a command line that names only projects. `root` is absolute.
    pub fn new(root: &Path, projects: Vec<WantedCheckout>) -> Request {
        Request {
            root: root.to_owned(),
            projects,
            line: None,
            torch: None,
            depth: None,
            jobs: None,
            submodules: Submodules::Take,
            conversion: TreeConversion::Commit,
            related: Related::WhereNamed,
            triton: TritonPin::Commit,
            triton_rules: None,
            patches: None,
            patchset: None,
            movement: Movement::Allowed,
        }
    }
}

/// One project of a request, with values that override the defaults.
#[derive(Debug, Clone, Default)]
pub struct WantedCheckout {
    /// Its name, its folder, or its key in manifests.
    pub project: String,
    /// Path that replaces the default folder; absolute.
    pub directory: Option<PathBuf>,
    /// Origin that replaces the default: a short name of the table, or an address.
    pub origin: Option<String>,
    /// Branch, tag or commit that replaces the default.
    pub reference: Option<String>,
    /// A source archive instead of a repository.
    pub archive: Option<SourceArchive>,
    /// The treatment of its submodules; `None`: the request's.
    pub submodules: Option<Submodules>,
    /// Its entry in a manifest, which replaces origin and reference.
    pub manifest: Option<ManifestProject>,
    /// `true` if only the project's own files at this commit matter: without submodules, conversion
    /// and history. This is for a torch that is checked out only because it pins other projects.
    pub only_pins: bool,
}

impl WantedCheckout {
    /// A project with defaults only: the table and torch's pins decide its folder, origin and
    /// commit.
    pub fn of(project: &str) -> WantedCheckout {
        WantedCheckout { project: project.to_owned(), ..WantedCheckout::default() }
    }
}

/// A source archive on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceArchive {
    /// Path of the file; absolute.
    pub path: PathBuf,
    /// Its SHA-256 in lower-case hexadecimal, if it is known beforehand.
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submodules {
    /// All submodules are checked out, including nested ones.
    Take,
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeConversion {
    /// They are committed and tagged.
    Commit,
    /// They stay uncommitted, so that the tree still names the upstream commit.
    Keep,
    /// Nothing is converted.
    Skip,
}

/// The treatment of projects that `related_commits` does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Related {
    /// The file is followed for the projects that it names.
    WhereNamed,
    /// A project that it does not name is an error.
    Required,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TritonPin {
    Commit,
    /// The release branch of the pinned version.
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Movement {
    /// Checkouts move to the requested reference.
    Allowed,
    /// An existing checkout that would have to move is an error. Branches and tags are refused.
    Locked,
}
