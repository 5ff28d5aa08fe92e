//! What the user wants packaged, and what a run amounts to before anything is written.

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
use crate::search_path::{Dropped, Missing};
use crate::templates::Templates;

/// How GPU code is distributed over wheels.
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

/// What to do about files that no rule claims.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unclaimed {
    /// List them.
    #[default]
    Report,
    /// Fail (`--strict`).
    Refuse,
}

/// What to do about things that will not work where they are going.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unsupported {
    /// Fail.
    #[default]
    Refuse,
    /// Package them all the same (`--force`).
    Allow,
}

/// What to do about packages that would not be whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Incompletes {
    /// Fail.
    #[default]
    Refuse,
    /// Leave them out, with what needs them, and promise the rest (`--drop-incomplete`).
    Drop,
}

/// What the selector is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SelectorForm {
    /// A source distribution, which chooses for the machine that installs it.
    #[default]
    Sdist,
    /// A wheel, which chooses nothing: every GPU target has an extra of its own. For indexes that
    /// take no sdist and for caches that several machines share (pitfalls 16).
    Wheel,
}

impl SelectorForm {
    /// The folder below the output, when both forms are made: beside a wheel the sdist is never
    /// opened.
    pub(crate) fn folder(self, forms: &[SelectorForm]) -> &'static str {
        if self == SelectorForm::Wheel && forms.len() > 1 { "dist-wheel" } else { "dist" }
    }
}

/// The settings of one `rocwheel package` run.
#[derive(Debug, Clone)]
pub struct Request {
    /// Folder with artifact directories or archives.
    pub artifacts: PathBuf,
    /// What they are for; `None` takes what their files are for.
    pub system: Option<Platform>,
    /// Folder with the artifacts for Windows, where those for Linux and for Windows are packaged
    /// together ([`crate::plan_both`]).
    pub windows_artifacts: Option<PathBuf>,
    /// Folder to write to; the packages come to lie in `dist/` below it.
    pub output: PathBuf,
    /// Shape; `None` takes the one the manifest tells.
    pub shape: Option<Shape>,
    /// Version of the packages; `None` takes the manifest's.
    pub version: Option<String>,
    /// Suffix of the import packages (today's `--version-suffix`).
    pub nonce: String,
    /// Targets and families to package and to insist on, whatever the system; empty takes what is
    /// there.
    pub targets: Vec<String>,
    /// The same for Linux alone, in place of `targets`. A run without artifacts for Linux offers
    /// them in the selector: another run packages them.
    pub linux_targets: Vec<String>,
    /// The same for Windows.
    pub windows_targets: Vec<String>,
    /// Distributions to write; empty writes all.
    pub only: Vec<Logical>,
    /// Platform tag of the packages for the system that it names; `None` computes the lowest one
    /// that the symbols allow, and is `win_amd64` for Windows.
    pub platform_tag: Option<String>,
    /// Compression of the wheels.
    pub level: rocwheel_wheel::Level,
    /// Time stamp of every member, seconds since 1970.
    pub epoch: u64,
    /// What to do about files without a place.
    pub unclaimed: Unclaimed,
    /// What to do about code that the set's runtime cannot load.
    pub unsupported: Unsupported,
    /// What to do about packages that would not be whole.
    pub incompletes: Incompletes,
    /// Libraries that may be missing, with `*` for anything.
    pub allow_unresolved: Vec<String>,
    /// The forms of the selector.
    pub selectors: Vec<SelectorForm>,
    /// Folder of templates to take the Python inside the packages from, instead of the one that is
    /// built in.
    pub templates: Option<PathBuf>,
}

impl Request {
    /// What is asked for on a system.
    pub(crate) fn targets_on(&self, system: Platform) -> &[String] {
        let own = self.only_on(system);
        if own.is_empty() { &self.targets } else { own }
    }

    /// What is asked for on this system alone.
    pub(crate) fn only_on(&self, system: Platform) -> &[String] {
        match system {
            Platform::Linux => &self.linux_targets,
            Platform::Windows => &self.windows_targets,
        }
    }

    /// The settings without any choice: what is there, as the manifest says, compressed, dated
    /// 1980.
    pub fn new(artifacts: PathBuf, output: PathBuf) -> Self {
        Self {
            artifacts,
            system: None,
            windows_artifacts: None,
            output,
            shape: None,
            version: None,
            nonce: String::new(),
            targets: Vec::new(),
            linux_targets: Vec::new(),
            windows_targets: Vec::new(),
            only: Vec::new(),
            platform_tag: None,
            level: rocwheel_wheel::Level::Default,
            epoch: 315_532_800,
            unclaimed: Unclaimed::Report,
            unsupported: Unsupported::Refuse,
            incompletes: Incompletes::Refuse,
            allow_unresolved: Vec::new(),
            selectors: vec![SelectorForm::Sdist],
            templates: None,
        }
    }
}

/// One wheel to be written.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedWheel {
    /// Which distribution.
    pub logical: Logical,
    /// Where it runs.
    pub system: Platform,
    /// Target or family.
    pub target: Option<String>,
    /// Folder below `dist/`, for sets with one selector for each family.
    pub folder: Option<String>,
    /// Distribution name.
    pub name: String,
    /// File name.
    pub file_name: String,
    /// Platform tag and the reason for it.
    pub platform_tag: String,
    /// The file and symbol that set the platform tag.
    pub platform_reason: Option<String>,
    /// One line about it.
    pub summary: String,
    /// SPDX expression.
    pub license: String,
    /// `name==version` of other distributions.
    pub requires: Vec<String>,
    /// Console scripts.
    pub scripts: BTreeMap<String, String>,
    /// Command line tools.
    pub tools: Vec<PackagedTool>,
    /// Files by their path in the wheel.
    pub files: BTreeMap<String, PlannedFile>,
    /// Licence files by their path below `dist-info/licenses/`.
    pub licenses: BTreeMap<String, PlannedFile>,
    /// The development tree, for the one wheel that carries it.
    pub devel: Option<PlannedDevel>,
}

/// The tar inside the devel wheel.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedDevel {
    /// Path of the tar in the wheel.
    pub path: String,
    /// First part of every member name.
    pub root: String,
    /// Members in the order in which they are written, names relative to `root`.
    pub members: Vec<(String, DevelEntry)>,
}

impl PlannedWheel {
    /// Files it will hold, those of the development tree included.
    pub fn file_count(&self) -> usize {
        self.files.len() + self.devel.as_ref().map_or(0, |devel| devel.members.len())
    }

    /// Bytes it will hold before compression.
    pub fn raw_size(&self) -> u64 {
        let devel = self.devel.iter().flat_map(|devel| &devel.members).map(|(_, entry)| match entry {
            DevelEntry::File(file) => file.size,
            _ => 0,
        });
        self.files.values().map(|file| file.size).sum::<u64>() + devel.sum::<u64>()
    }
}

/// One selector to be written.
#[derive(Debug, Clone, Serialize)]
pub struct PlannedSelector {
    /// What it is.
    pub form: SelectorForm,
    /// Folder below the output: `dist`, or `dist-wheel`.
    pub place: &'static str,
    /// Folder below that, for sets with one selector for each family.
    pub folder: Option<String>,
    /// File name.
    pub file_name: String,
    /// What it offers.
    #[serde(skip)]
    pub promise: Promise,
    /// The Python inside.
    #[serde(skip)]
    pub(crate) templates: Arc<Templates>,
    /// Its extras with their requirements.
    pub extras: BTreeMap<String, Vec<String>>,
}

/// Something that is in no package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// Artifact name, or artifact name and path.
    pub what: String,
    /// Why.
    pub reason: String,
    /// How many files.
    pub files: usize,
}

/// A package that is left out because it would not be whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Incomplete {
    /// Its name.
    pub package: String,
    /// One line for each thing that it lacks, with the first of the files that need it.
    pub reasons: Vec<String>,
    /// The libraries that it lacks, with all files that need them.
    pub missing: Vec<Missing>,
}

/// Everything a run will do.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// Version of this structure.
    pub schema: u32,
    /// How GPU code is distributed over wheels.
    pub shape: Shape,
    /// Version of every package.
    pub version: String,
    /// Base targets or families the set is for.
    pub targets: Vec<String>,
    /// Those of each system that is packaged.
    pub systems: BTreeMap<Platform, Vec<String>>,
    /// Wheels in the order in which they are written.
    pub wheels: Vec<PlannedWheel>,
    /// Selectors, written last.
    pub selectors: Vec<PlannedSelector>,
    /// Artifacts and files that no rule claims.
    pub unclaimed: Vec<LeftOut>,
    /// Packages that are left out because they would not be whole; the selector does not promise
    /// them.
    pub incomplete: Vec<Incomplete>,
    /// Libraries that are in none of the packages and that are not known to be on every Windows.
    pub unknown_libraries: Vec<Missing>,
    /// Artifacts and files left out on purpose.
    pub left_out: Vec<LeftOut>,
    /// Library search path entries that were not kept.
    pub dropped_search_paths: Vec<Dropped>,
    /// Files treated in a way worth telling.
    pub notes: Vec<Note>,
}
