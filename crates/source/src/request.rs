//! Input: what the user asks for. Output: the same in the words of this crate.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::manifest::Entry;

/// What is to be checked out, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// Folder below which checkouts lie; absolute.
    pub root: PathBuf,
    /// The projects, in any order.
    pub projects: Vec<WantedCheckout>,
    /// Version line or torch's branch of one (`2.9`, `release/2.9`).
    pub line: Option<String>,
    /// torch's tree, for pins; `None`: its place below the root.
    pub torch: Option<PathBuf>,
    /// How many commits of history; `None`: all.
    pub depth: Option<u32>,
    /// Connections at a time for submodules; `None`: as the project has it.
    pub jobs: Option<u16>,
    /// Whether submodules are checked out.
    pub submodules: Submodules,
    /// What becomes of converted sources.
    pub conversion: TreeConversion,
    /// Whether `related_commits` has to name a project.
    pub related: Related,
    /// Which of torch's pins triton follows.
    pub triton: TritonPin,
    /// Rules for `build_env.json` by name; `None`: those of the line, else the first.
    pub triton_rules: Option<String>,
    /// Folder with patch sets by project; `None`: no patches.
    pub patches: Option<PathBuf>,
    /// Name of the patch set; `None`: the branch or tag, and `rocm-custom` for what torch pins or
    /// is named by its commit.
    pub patchset: Option<String>,
    /// Whether anything may move.
    pub movement: Movement,
}

impl Request {
    /// What the command line means when it names nothing but projects. `root` is absolute.
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

/// One project of a request.
#[derive(Debug, Clone, Default)]
pub struct WantedCheckout {
    /// Its name, folder or key in manifests.
    pub project: String,
    /// Another folder for it; absolute.
    pub directory: Option<PathBuf>,
    /// Another origin: a short name of the table, or an address.
    pub origin: Option<String>,
    /// Another branch, tag or commit.
    pub reference: Option<String>,
    /// A source archive in place of a repository.
    pub archive: Option<Archive>,
    /// Whether its submodules are checked out; `None`: as the request has it.
    pub submodules: Option<Submodules>,
    /// Its entry in a manifest, which replaces origin and reference.
    pub manifest: Option<Entry>,
    /// Whether only its own files at this commit matter: no submodules, no conversion, no history.
    /// For a torch that is checked out because it pins other projects.
    pub only_pins: bool,
}

impl WantedCheckout {
    /// A project with nothing said about it: its place, its origin and its commit are what the
    /// table and torch's pins say.
    pub fn of(project: &str) -> WantedCheckout {
        WantedCheckout { project: project.to_owned(), ..WantedCheckout::default() }
    }
}

/// A source archive on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Archive {
    /// The file; absolute.
    pub path: PathBuf,
    /// Its SHA-256 in lower-case hexadecimal, when it is known beforehand.
    pub sha256: Option<String>,
}

/// Whether submodules are checked out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submodules {
    /// All, also those of submodules.
    Take,
    /// None.
    Leave,
}

/// What becomes of converted sources.
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

/// Whether `related_commits` has to name a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Related {
    /// It is followed where it names the project.
    WhereNamed,
    /// It is an error when it does not.
    Required,
}

/// Which of torch's pins triton follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TritonPin {
    /// The commit.
    Commit,
    /// The release branch of the version.
    Release,
}

/// Whether anything may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Movement {
    /// Checkouts go where the request says.
    Allowed,
    /// A checkout that is there stays where it is, or it is an error; branches and tags are
    /// refused.
    Locked,
}
