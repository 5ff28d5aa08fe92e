//! Input: the tables in `data/`. Output: facts about what AMD ships: GPU targets, the libraries of
//! ROCm, and the distributions that contain them.
//!
//! This crate reads no binaries. The crates that do look up the names here. Of a machine it reads
//! one thing: the version of an installed ROCm.

pub mod database;
pub mod device_packages;
mod dll_names;
pub mod dlopen;
mod former_format;
mod installed;
pub mod machine;
pub mod missing_rows;
pub mod owners;
pub mod pattern;
pub mod providers;
mod python;
mod rows;
mod tables;
pub mod target;
pub mod targets;
pub mod windows;

pub use database::{DatabaseMember, Databases};
pub use device_packages::{DevicePackages, PackageLevel};
pub use dlopen::DlopenTable;
pub use installed::installed_version;
pub use owners::{LibraryOwner, Owners};
pub use pattern::{Pattern, Predicate};
pub use providers::{LibraryFamily, Providers};
pub use python::with_libraries;
pub use rows::{ArtifactRow, KEYS, LibraryProduct};
pub use tables::RocmTables;
pub use target::{Feature, TargetId};
pub use targets::TargetTable;
