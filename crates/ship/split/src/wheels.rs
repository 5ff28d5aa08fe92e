//! Input: finished wheels with GPU code. Output: for each a host wheel of the same name without GPU
//! code, whose extras require device wheels; and a device wheel for each GPU target and for each
//! family that has kernel database files.
//!
//! [`plan`] reads names, headers and entry tables; [`execute()`] writes into a staging folder,
//! verifies the result and moves all wheels to the output. Unchanged members keep their compressed
//! bytes.
//!
//! A wheel has one folder of archives: `.kpack` in the package that holds most of the GPU code. The
//! markers in its libraries lead there from every directory in which these are installed, including
//! `name.libs/` beside it, where auditwheel puts libraries. So a device wheel consists of one
//! folder inside an importable package, and all its files have unique names. That makes every order
//! of installing and uninstalling correct.

mod archive_runtime;
mod check;
mod execute;
mod install_paths;
mod metadata;
mod planner;
mod selection;
mod survey;
mod variant;

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;

use crate::tree::OldRuntime;
use crate::verify::Verification;
use crate::{Packing, TargetNames};

pub use archive_runtime::ArchiveRuntime;
pub use check::verify_parts;
pub use execute::{SizeGrowth, SplitWheel, SplitWheelKind, SplitWheelsReport, execute, prepare};
pub use metadata::{DeviceExtra, TARGET_PLACEHOLDER};
pub use planner::{Device, DeviceFile, DroppedTarget, Plan, UnsplitFile, plan};

#[derive(Debug, Clone)]
pub struct Request {
    /// Folder for unnamed temporary files; they take as much space as the libraries with GPU code.
    pub scratch: PathBuf,
    /// Prefix of the names of device wheels. `None`: the name of the wheel and `-device`.
    pub prefix: Option<String>,
    /// Requirements of every device wheel; [`TARGET_PLACEHOLDER`] is replaced by its target.
    pub requires: Vec<String>,
    pub host_requires: Vec<String>,
    /// Targets and families to keep, separated by `,` or `;`. `None` keeps all.
    pub targets: Option<String>,
    /// The folder in site-packages whose `.kpack` gets the archives. `None`: the package that holds
    /// most of the GPU code.
    pub overlay_root: Option<String>,
    /// Names of the kernel databases to split. `None`: all in the tables.
    pub databases: Option<Vec<String>>,
    /// `Refuse` ends the split of a wheel that requires a ROCm whose runtime reads no archives.
    pub old_runtime: OldRuntime,
    /// The label of a wheel variant to write in addition.
    pub variant: Option<String>,
    pub names: TargetNames,
    pub packing: Packing,
    /// Compression of new and changed members.
    pub level: rocwheel_archive::Level,
    /// Time stamp of every member, in seconds since 1970.
    pub epoch: u64,
    /// Earlier wheels whose packed bytes may be used.
    pub reuse: rocwheel_archive::PackedSource,
    /// `Full` compares the written wheels with the input before they are moved to the output.
    pub verification: Verification,
}

/// A wheel or folder of the output cannot be written, moved or read.
fn place_error(attempt: &str, path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::attempt(format!("could not {attempt} `{}`", path.display()))(error)
}
