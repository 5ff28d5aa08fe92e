//! Input: the files of a machine (`/sys`, `/dev`, `/proc`, `/etc`) or of a copy of them,
//! environment variables, and a folder of Python packages. Output: a [`Diagnosis`] with the GPUs,
//! the packages and everything that keeps them from working together.
//!
//! Nothing is started, written or fetched, and no package is imported. A file that cannot be read
//! is a finding of its own: no answer is never a good one.

mod access;
mod boot;
mod builds;
mod choice;
mod compiler;
mod container;
mod coverage;
mod diagnosis;
mod driver;
mod error;
mod finding;
mod gpus;
mod import_path;
mod installed;
mod installer;
mod kfd;
mod limits;
mod masks;
mod module;
mod overrides;
mod own_python;
mod packages;
mod pci;
mod pins;
mod pip_command;
mod reserved;
mod rocm_libraries;
mod settle;
mod shared_files;
mod system;
mod target_names;
mod torch;
mod tree;
mod user;
mod uv_settings;
mod variables;
mod version_managers;
mod wsl;

pub use builds::PackageFacts;
pub use coverage::Unexamined;
pub use diagnosis::{Diagnosis, PackageChoice, Patient, PythonFolder, diagnose};
pub use error::Error;
pub use finding::{
    Blank, DoctorRow, Evidence, GpuPackage, Gravity, Need, NeededLibraries, Symptom, blanks, gpu_packages,
    needed_libraries, rows,
};
pub use gpus::GpuFacts;
pub use import_path::ImportPath;
pub use pins::{RocmSource, SourcePin};
pub use settle::ChosenLine;
pub use system::SystemFacts;
pub use system::processor;
pub use tree::MachineTree;
pub use user::SessionUser;
pub use variables::SessionVariables;
