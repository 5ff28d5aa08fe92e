//! Input: the settings of a run. Output: the [`Plan`], all packages with their files before
//! anything is written.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_wheel::Platform;
use serde::Serialize;

use crate::Logical;
use crate::contents::PackagedTool;
use crate::devel::DevelEntry;
use crate::dist_info::Promise;
use crate::populate::{Note, PlannedFile};
use crate::search_path::{AbsentLibrary, Dropped};
use crate::size::{LargeWheel, ShapeReason};
use crate::templates::Templates;

/// The distribution of GPU code over wheels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Neutral libraries and one device wheel for each target (TheRock with
    /// `KPACK_SPLIT_ARTIFACTS`).
    Split,
    /// Libraries, devel and selector once for each GPU family (TheRock before kpack).
    PerFamily,
    /// One libraries wheel with the code of every target inside (ROCm of a Linux distribution).
    Fat,
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Shape::Split => "split",
            Shape::PerFamily => "per-family",
            Shape::Fat => "fat",
        })
    }
}

/// Treatment of files that no rule claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unclaimed {
    /// List them in the plan.
    #[default]
    Report,
    /// Fail (`--strict`).
    Refuse,
}

/// Treatment of device code that the set's runtime cannot load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unsupported {
    /// Fail.
    #[default]
    Refuse,
    /// Package it anyway (`--force`).
    Allow,
}

/// Treatment of packages that would be incomplete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incompletes {
    /// Fail.
    #[default]
    Refuse,
    /// Skip them and the packages that need them, and offer the rest (`--drop-incomplete`).
    Drop,
}

/// The form of the selector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectorForm {
    /// A source distribution, which picks the packages for the machine that installs it.
    #[default]
    Sdist,
    /// A wheel, which picks nothing: every GPU target has a separate extra. For indexes that accept
    /// no sdist and for caches that several machines share (pitfalls 16).
    Wheel,
}

impl SelectorForm {
    /// Returns the folder below the output. If both forms are written, the wheel is in a separate
    /// folder: installers prefer a wheel and would ignore the sdist beside it.
    pub(crate) fn folder(self, forms: &[SelectorForm]) -> &'static str {
        if self == SelectorForm::Wheel && forms.len() > 1 { "dist-wheel" } else { "dist" }
    }
}

/// The settings of one `rocwheel package` run.
#[derive(Debug, Clone)]
pub struct Request {
    /// Folder with artifact directories or archives.
    pub artifacts: PathBuf,
    /// The system that the artifacts are for; `None` determines it from their files.
    pub system: Option<Platform>,
    /// Folder with the artifacts for Windows, if those for Linux and for Windows are packaged
    /// together ([`crate::plan_both`]).
    pub windows_artifacts: Option<PathBuf>,
    /// Output folder; the packages are written to `dist/` below it.
    pub output: PathBuf,
    /// Shape; `None` uses the shape in the manifest. Artifacts that were imported become
    /// [`Shape::Split`] instead if a wheel would be larger than `largest_wheel`.
    pub shape: Option<Shape>,
    /// Largest wheel that can be published, in bytes.
    pub largest_wheel: u64,
    /// Version of the packages; `None` uses the manifest's.
    pub version: Option<String>,
    /// Suffix of the import packages (`--version-suffix` of TheRock's current scripts).
    pub nonce: String,
    /// Targets and families to package on both systems; a missing one is an error, unless
    /// incomplete packages may be skipped. Empty packages all existing ones.
    pub targets: Vec<String>,
    /// Targets for Linux alone, instead of `targets`. A run without artifacts for Linux offers them
    /// in the selector: another run packages them.
    pub linux_targets: Vec<String>,
    /// Targets for Windows alone, with the same meaning.
    pub windows_targets: Vec<String>,
    /// Distributions to write; empty writes all.
    pub only: Vec<Logical>,
    /// Platform tag of the packages for the system that it names. `None` computes the lowest one
    /// that the symbols allow; for Windows it is `win_amd64`.
    pub platform_tag: Option<String>,
    /// Compression of the wheels.
    pub level: rocwheel_archive::Level,
    /// Time stamp of every member, in seconds since 1970.
    pub epoch: u64,
    /// Earlier wheels whose packed bytes may be used.
    pub reuse: rocwheel_archive::PackedSource,
    /// Treatment of files that no rule claims.
    pub unclaimed: Unclaimed,
    /// Treatment of code that the set's runtime cannot load.
    pub unsupported: Unsupported,
    /// Treatment of packages that would be incomplete.
    pub incompletes: Incompletes,
    /// Libraries that may be missing; `*` matches any text.
    pub allow_unresolved: Vec<String>,
    /// The forms of the selector to write.
    pub selectors: Vec<SelectorForm>,
    /// Folder of templates with the Python code of the packages, instead of the built-in templates.
    pub templates: Option<PathBuf>,
}

/// Largest file that PyPI takes, after a request for more than the usual 100 MB, in bytes.
pub const PYPI: u64 = 1_000_000_000;

impl Request {
    /// Returns the requested targets for a system.
    pub(crate) fn targets_on(&self, system: Platform) -> &[String] {
        let own = self.only_on(system);
        if own.is_empty() { &self.targets } else { own }
    }

    /// Returns the targets that are requested for this system alone.
    pub(crate) fn only_on(&self, system: Platform) -> &[String] {
        match system {
            Platform::Linux => &self.linux_targets,
            Platform::Windows => &self.windows_targets,
        }
    }

    /// Creates the default settings: all existing targets, shape and version of the manifest,
    /// compressed, dated 1980-01-01.
    pub fn new(artifacts: PathBuf, output: PathBuf) -> Self {
        Self {
            artifacts,
            system: None,
            windows_artifacts: None,
            output,
            shape: None,
            largest_wheel: PYPI,
            version: None,
            nonce: String::new(),
            targets: Vec::new(),
            linux_targets: Vec::new(),
            windows_targets: Vec::new(),
            only: Vec::new(),
            platform_tag: None,
            level: rocwheel_archive::Level::Default,
            epoch: 315_532_800,
            reuse: rocwheel_archive::PackedSource::default(),
            unclaimed: Unclaimed::Report,
            unsupported: Unsupported::Refuse,
            incompletes: Incompletes::Refuse,
            allow_unresolved: Vec::new(),
            selectors: vec![SelectorForm::Sdist],
            templates: None,
        }
    }
}

/// A wheel to be written.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedWheel {
    /// The distribution.
    pub logical: Logical,
    /// The system it runs on.
    pub system: Platform,
    /// Base target or family, if it has one.
    pub target: Option<String>,
    /// Folder below `dist/`, for sets with one selector for each family.
    pub folder: Option<String>,
    /// Distribution name.
    pub name: String,
    /// File name of the wheel.
    pub file_name: String,
    /// Platform tag.
    pub platform_tag: String,
    /// The file and symbol that determine the platform tag.
    pub platform_reason: Option<String>,
    /// Summary for METADATA, one line.
    pub summary: String,
    /// SPDX expression of the licence.
    pub license: String,
    /// `name==version` of required distributions.
    pub requires: Vec<String>,
    /// Console scripts: name → `module:function`.
    pub scripts: BTreeMap<String, String>,
    /// Command line tools.
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
    /// Path of the tar in the wheel.
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

/// A selector to be written.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedSelector {
    /// Sdist or wheel.
    pub form: SelectorForm,
    /// Folder below the output: `dist`, or `dist-wheel`.
    pub place: &'static str,
    /// Folder below `place`, for sets with one selector for each family.
    pub folder: Option<String>,
    /// File name of the selector.
    pub file_name: String,
    /// The packages that it offers.
    #[serde(skip)]
    pub promise: Promise,
    /// The Python code inside.
    #[serde(skip)]
    pub(crate) templates: Arc<Templates>,
    /// Its extras with their requirements.
    pub extras: BTreeMap<String, Vec<String>>,
}

/// An artifact or file that is in no package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// Artifact name, or artifact name and path.
    pub what: String,
    /// The reason, for the report.
    pub reason: String,
    /// Number of files.
    pub files: usize,
}

/// A package that is skipped because it would be incomplete.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Incomplete {
    /// Name of the distribution.
    pub package: String,
    /// One line for each thing that it lacks, with the first of the files that need it.
    pub reasons: Vec<String>,
    /// The libraries that it lacks, with all files that need them.
    pub missing: Vec<AbsentLibrary>,
}

/// Everything that a run will write.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Version of this structure.
    pub schema: u32,
    /// The distribution of GPU code over wheels.
    pub shape: Shape,
    /// The reason for `shape`, if it is neither the requested one nor the manifest's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape_reason: Option<ShapeReason>,
    /// Wheels that will be larger than the request's limit, as far as an estimate tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<LargeWheel>,
    /// Version of all packages.
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
    /// Remarks about single files.
    pub notes: Vec<Note>,
}
