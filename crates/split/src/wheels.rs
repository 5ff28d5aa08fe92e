//! Input: finished wheels with GPU code. Output: for each a host wheel of the same name without it,
//! whose extras ask for device wheels; one of those for each GPU target, and for each family that
//! kernel databases have files for.
//!
//! [`plan`] reads names, headers and entry tables; [`execute`] writes beside the output, verifies
//! and moves everything in place. Members that do not change keep their packed bytes.
//!
//! A wheel has one folder of archives, `.kpack` in the package that most of the GPU code belongs
//! to, and the markers in its libraries lead there from wherever these are installed: also from
//! `name.libs/` beside it, where auditwheel puts libraries. Device wheels so consist of one folder
//! that is in an importable package, and own files with names of their own only, which is what
//! makes any order of installing and uninstalling right.

mod check;
mod execute;
mod metadata;
mod place;
mod planner;
mod survey;
mod variant;

use std::path::PathBuf;

use crate::error::Error;
use crate::verify::Verification;
use crate::{Packing, TargetNames};

pub use check::verify_parts;
pub use execute::{Kind, Outcome, Output, SizeGrowth, execute, prepare};
pub use metadata::{DeviceExtra, TARGET_PLACEHOLDER};
pub use planner::{Device, DeviceFile, DroppedTarget, Plan, UnsplitFile, plan};

/// How to split a wheel.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where temporary files without names are made; they are as large as the libraries with GPU
    /// code.
    pub scratch: PathBuf,
    /// Begins the names of device wheels. `None`: the name of the wheel and `-device`.
    pub prefix: Option<String>,
    /// Requirements of every device wheel; [`TARGET_PLACEHOLDER`] stands for its target.
    pub requires: Vec<String>,
    /// Requirements that the host wheel gets.
    pub host_requires: Vec<String>,
    /// Targets and families to keep, separated by `,` or `;`. `None` keeps all.
    pub targets: Option<String>,
    /// The folder in site-packages whose `.kpack` gets the archives. `None`: the package with most
    /// of the GPU code.
    pub overlay_root: Option<String>,
    /// Kernel databases to take apart. `None`: all that are known.
    pub databases: Option<Vec<String>>,
    /// The label of a wheel variant to write as well.
    pub variant: Option<String>,
    /// How archives are named after targets.
    pub names: TargetNames,
    /// How code objects are stored in archives.
    pub packing: Packing,
    /// How members are compressed that are new or change.
    pub level: rocwheel_wheel::Level,
    /// Time stamp of every member, in seconds since 1970.
    pub epoch: u64,
    /// Whether what was written is compared with the input before it is moved in place.
    pub verification: Verification,
}
