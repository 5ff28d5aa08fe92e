//! Input: a wheel whose libraries are only on the machine that built it, or only beside it. Output:
//! a wheel that loads wherever its tag says.
//!
//! Three ways lead there ([`Mode`]): what is needed is copied into the wheel (graft), or is found
//! in the `rocm-sdk-*` wheels (rocm), or a whole ROCm comes in (fat). One plan serves all:
//! `inventory` reads the binaries, `resolve` finds out where every needed library comes from,
//! `edits` what is done to each file, `planner` decides texts, requirements and tags.
//! [`PreparedRepair::execute`] walks the plan: binaries are read through [`rocwheel_elf::Patched`],
//! so nothing is copied to be edited, and members that stay are copied packed as they are.

mod beside;
mod budget;
mod directories;
mod edits;
mod error;
mod exclude;
mod execute;
mod fat;
mod initialize;
mod inventory;
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

use std::path::PathBuf;
use std::sync::Arc;

use rocwheel_wheel::WriteOptions;
use rocwheel_wheel::read::Wheel;

pub use directories::system_directories;
pub use error::{Error, Missing};
pub use execute::Outcome;
use inventory::Inventory;
pub use plan::{
    Edit, FileEdit, Graft, KeptOut, Mode, Package, Plan, Reason, Requirement, RocmTree, Tags, TreeFile, ValueChange,
    WrittenText,
};
pub use planner::plan;

/// How files find ROCm's libraries in the wheels beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolve {
    /// By their search paths.
    Rpath,
    /// They are loaded when the package is imported.
    Preload,
    /// Both.
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

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The way; `None` for rocm where files need ROCm or torch, else graft.
    pub mode: Option<Mode>,
    /// How ROCm is found in mode rocm.
    pub resolve: Resolve,
    /// Directories to look for libraries in, before the system's.
    pub library_path: Vec<PathBuf>,
    /// The system's directories; [`system_directories`] has those of this machine.
    pub system: Vec<PathBuf>,
    /// Wheels, or folders of wheels, that will be beside this one: what they have stays out.
    pub beside: Vec<PathBuf>,
    /// Libraries to leave out, as globs of families.
    pub exclude: Vec<String>,
    /// The platform tag; `None` for the lowest honest one.
    pub platform: Option<String>,
    /// Whether a lower tag that the files deserve is left out.
    pub only_platform: bool,
    /// The version of ROCm: of the requirement in mode rocm, of the tree in mode fat.
    pub rocm_version: Option<String>,
    /// What brings ROCm's libraries in mode rocm.
    pub rocm_from: RocmFrom,
    /// The ROCm tree of mode fat.
    pub tree: Option<PathBuf>,
    /// The package that gets the ROCm tree; `None` for the one with most of the binaries.
    pub package: Option<String>,
    /// The program that removes symbols, when they are to be removed.
    pub strip: Option<PathBuf>,
    /// The most bytes that the result may have.
    pub budget: Option<u64>,
    /// Folder for large temporary files.
    pub scratch: PathBuf,
    /// How the result is written.
    pub write: WriteOptions,
}

/// What brings ROCm's libraries at run time to a wheel that was repaired in mode rocm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RocmFrom {
    /// ROCm's Python packages, which become a requirement.
    Packages,
    /// torch, if the wheel requires it: PyTorch's wheels contain a ROCm. No requirement is added.
    Torch,
}

/// A plan and what carrying it out needs.
pub struct PreparedRepair {
    /// What will be done.
    pub plan: Plan,
    wheel: Arc<Wheel>,
    inventory: Inventory,
    metadata: Option<String>,
}
