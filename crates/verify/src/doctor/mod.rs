//! Input: the files of a machine (`/sys`, `/dev`, `/proc`, `/etc`) or of a copy of them,
//! environment variables, and a folder of Python packages. Output: a [`Diagnosis`] with the GPUs,
//! the packages and everything that keeps them from working together.
//!
//! Nothing is started, written or fetched, and no package is imported. A file that cannot be read
//! is a finding of its own: no answer is never a good one.

mod access;
mod container;
mod diagnosis;
mod driver;
mod error;
mod finding;
mod gpus;
mod import_path;
mod installer;
mod kfd;
mod masks;
mod overrides;
mod own_python;
mod packages;
mod pci;
mod pip_command;
mod rocm_libraries;
mod system;
mod torch;
mod tree;
mod user;
mod uv_settings;
mod variables;
mod wsl;

pub use diagnosis::{Diagnosis, Patient, PythonFolder, diagnose};
pub use error::Error;
pub use finding::{DoctorRow, Evidence, Gravity, Need, Symptom, rows};
pub use gpus::GpuFacts;
pub use import_path::ImportPath;
pub use packages::PackageFacts;
pub use system::SystemFacts;
pub(crate) use system::processor;
pub use tree::MachineTree;
pub use user::SessionUser;
pub use variables::SessionVariables;
