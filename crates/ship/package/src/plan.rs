//! Everything that a run will write, before anything is written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rocwheel_wheel::Platform;
use serde::Serialize;

use crate::Logical;
use crate::contents::PackagedTool;
use crate::devel::DevelEntry;
use crate::dist_info::Promise;
use crate::populate::{Note, PlannedFile};
use crate::request::{SelectorForm, Shape};
use crate::search_path::{AbsentLibrary, Dropped};
use crate::templates::Templates;

#[derive(Debug, Clone, Serialize)]
pub struct PlannedWheel {
    pub logical: Logical,
    pub system: Platform,
    /// Base target or family, if it has one.
    pub target: Option<String>,
    /// Folder below `dist/`, for sets with one selector for each family.
    pub folder: Option<String>,
    pub name: String,
    pub file_name: String,
    pub platform_tag: String,
    /// The file and symbol that determine the platform tag.
    pub platform_reason: Option<String>,
    /// One line.
    pub summary: String,
    /// SPDX expression of the licence.
    pub license: String,
    /// `name==version` of required distributions.
    pub requires: Vec<String>,
    /// Console scripts: name → `module:function`.
    pub scripts: BTreeMap<String, String>,
    pub tools: Vec<PackagedTool>,
    /// Files by their path in the wheel.
    pub files: BTreeMap<String, PlannedFile>,
    /// Licence files by their path below `dist-info/licenses/`.
    pub licenses: BTreeMap<String, PlannedFile>,
    /// The development tree; only the devel wheel has it.
    pub devel: Option<PlannedDevel>,
}

/// The tar inside the devel wheel.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedDevel {
    pub path: String,
    /// First part of every member name.
    pub root: String,
    /// Members in the order in which they are written, with names relative to `root`.
    pub members: Vec<(String, DevelEntry)>,
}

impl PlannedWheel {
    /// Returns the number of files, including those of the development tree.
    pub fn file_count(&self) -> usize {
        self.files.len() + self.devel.as_ref().map_or(0, |devel| devel.members.len())
    }

    /// Returns the bytes of all files before compression.
    pub fn raw_size(&self) -> u64 {
        let devel = self.devel.iter().flat_map(|devel| &devel.members).map(|(_, entry)| match entry {
            DevelEntry::File(file) => file.size,
            _ => 0,
        });
        self.files.values().map(|file| file.size).sum::<u64>() + devel.sum::<u64>()
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct PlannedSelector {
    pub form: SelectorForm,
    /// Folder below the output: `dist`, or `dist-wheel`.
    pub place: &'static str,
    /// Folder below `place`, for sets with one selector for each family.
    pub folder: Option<String>,
    pub file_name: String,
    #[serde(skip)]
    pub promise: Promise,
    #[serde(skip)]
    pub(crate) templates: Arc<Templates>,
    /// Its extras with their requirements.
    pub extras: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// Artifact name, or artifact name and path.
    pub what: String,
    pub reason: String,
    pub files: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Incomplete {
    pub package: String,
    /// One line for each thing that it lacks, with the first of the files that need it.
    pub reasons: Vec<String>,
    /// The libraries that it lacks, with all files that need them.
    pub missing: Vec<AbsentLibrary>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Version of this structure.
    pub schema: u32,
    pub shape: Shape,
    /// The reason for `shape`, if it is neither the requested one nor the manifest's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape_reason: Option<ShapeReason>,
    /// Wheels that will be larger than the request's limit, as far as an estimate tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<LargeWheel>,
    pub version: String,
    /// Base targets or families of the set.
    pub targets: Vec<String>,
    /// Base targets or families of each system.
    pub systems: BTreeMap<Platform, Vec<String>>,
    /// Wheels in the order in which they are written.
    pub wheels: Vec<PlannedWheel>,
    /// Selectors, which are written last.
    pub selectors: Vec<PlannedSelector>,
    /// Artifacts and files that no rule claims.
    pub unclaimed: Vec<LeftOut>,
    /// Packages that are skipped because they would be incomplete; the selector does not offer
    /// them.
    pub incomplete: Vec<Incomplete>,
    /// Libraries that no package holds and that are not known to be part of every Windows.
    pub unknown_libraries: Vec<AbsentLibrary>,
    /// Artifacts and files that a rule excludes.
    pub left_out: Vec<LeftOut>,
    /// Library search path entries that were removed.
    pub dropped_search_paths: Vec<Dropped>,
    pub notes: Vec<Note>,
}

/// A wheel that will be larger than [`crate::Request::largest_wheel`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LargeWheel {
    pub file_name: String,
    /// About its size in bytes.
    pub bytes: u64,
}

/// The reason for a shape that the artifacts' manifest does not state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShapeReason {
    /// The wheel that the manifest's shape would make.
    pub instead_of: LargeWheel,
    /// Largest size of a wheel, in bytes.
    pub limit: u64,
}

impl fmt::Display for ShapeReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [size, limit] = [self.instead_of.bytes, self.limit]
            .map(|bytes| format!("{}.{}", bytes / 1_000_000_000, bytes / 100_000_000 % 10));
        write!(
            formatter,
            "one `{}` for all GPU targets would have about {size} GB, and PyPI takes {limit} GB: so the kernels of \
             each target get a wheel of their own (`--shape split`; `--shape fat` does otherwise)",
            self.instead_of.file_name,
        )
    }
}
