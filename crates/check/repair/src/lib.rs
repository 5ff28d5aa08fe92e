//! Input: a wheel whose libraries exist only on the machine that built it, or only in other
//! packages. Output: a wheel that loads on every system that its tag includes.
//!
//! There are three ways ([`RepairMode`]): the needed libraries are copied into the wheel (graft),
//! or are found in the `rocm-sdk-*` wheels (rocm), or a whole ROCm is added (fat). One plan serves
//! all: `inventory` reads the binaries, `resolve` determines the origin of every needed library,
//! `edits` the changes of each file, and `planner` decides on texts, requirements and tags.
//! [`PreparedRepair::execute`] executes the plan. Binaries are read through
//! [`rocwheel_elf::Patched`], so none is copied for editing, and members that do not change are
//! copied in packed form.

mod budget;
mod directories;
mod edits;
mod error;
mod exclude;
mod execute;
mod fat_wheel;
mod initialize;
mod inventory;
mod openers;
mod packages;
mod paths;
mod plan;
mod planner;
mod python_source;
mod requirement;
mod resolve;
mod sbom;
mod strip;
mod tags;
mod wheels_beside;

use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_archive::WriteOptions;
use rocwheel_loader::cache::FactsCache;
use rocwheel_wheel::read::Wheel;

pub use directories::system_directories;
pub use error::{Error, MissingLibrary};
pub use execute::RepairedWheel;
use inventory::Inventory;
pub use plan::{
    FileEdit, Graft, KeptOut, NotCopiedReason, Plan, PlannedEdit, RepairMode, RequirementChange, RocmTree,
    SystemPackage, Tags, TreeFile, ValueChange, WrittenText,
};
pub use planner::plan;

/// The way in which files find ROCm's libraries in other packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolve {
    Rpath,
    /// By loading them when the package is imported.
    Preload,
    Both,
}

impl Resolve {
    fn has_search_path(self) -> bool {
        self != Resolve::Preload
    }

    fn has_preload(self) -> bool {
        self != Resolve::Rpath
    }
}

#[derive(Debug, Clone)]
pub struct Request {
    /// The mode; `None` for rocm if files need ROCm or torch, else graft.
    pub mode: Option<RepairMode>,
    pub resolve: Resolve,
    /// Directories to search for libraries before those of the system.
    pub library_path: Vec<PathBuf>,
    /// The system's directories; [`system_directories`] has those of this machine.
    pub system: Vec<PathBuf>,
    /// Wheels, or folders of wheels, that will be installed too. Libraries in them are not copied.
    pub beside: Vec<PathBuf>,
    /// Libraries that are not copied, as globs of families.
    pub exclude: Vec<String>,
    /// The platform tag; `None` for the lowest one that fits the files.
    pub platform: Option<String>,
    /// `true` if a lower tag that also fits the files is not added.
    pub only_platform: bool,
    /// The version of ROCm: for the requirement in mode rocm, of the tree in mode fat.
    pub rocm_version: Option<String>,
    /// The provider of ROCm's libraries in mode rocm.
    pub rocm_from: RocmFrom,
    pub tree: Option<PathBuf>,
    /// The package that gets the ROCm tree; `None` for the one whose binaries are largest.
    pub package: Option<String>,
    /// The program that removes symbols; `None` if they are kept.
    pub strip: Option<PathBuf>,
    /// Maximum size of the result in bytes.
    pub budget: Option<u64>,
    /// Folder for large temporary files.
    pub scratch: PathBuf,
    pub write: WriteOptions,
    /// How much of the wheel is read for the plan.
    pub depth: ReadingDepth,
}

/// How much of a wheel is read for a plan.
#[derive(Debug, Clone)]
pub enum ReadingDepth {
    /// All binaries: a damaged one is an error.
    Whole,
    /// The headers of binaries, from the cache if it has them: for a plan that is only printed.
    Headers(Option<FactsCache>),
}

/// The provider of ROCm's libraries at run time for a wheel that was repaired in mode rocm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RocmFrom {
    /// ROCm's Python packages, which become a requirement.
    Packages,
    /// torch, if the wheel requires it: PyTorch's wheels contain ROCm. No requirement is added.
    Torch,
}

/// A plan and the data for its execution.
pub struct PreparedRepair {
    pub plan: Plan,
    wheel: Arc<Wheel>,
    inventory: Inventory,
    metadata: Option<String>,
}
