//! Input: the tables in `data/`. Output: what AMD ships: GPU targets, the libraries of ROCm, and
//! which distributions hold them.
//!
//! Nothing here reads a binary. The crates that do ask this one what a name means.

pub mod database;
pub mod device_packages;
pub mod dlopen;
mod error;
pub mod machine;
pub mod owners;
pub mod pattern;
pub mod providers;
pub mod target;
pub mod targets;
pub mod windows;

pub use database::{Databases, Member};
pub use device_packages::{DevicePackages, PackageLevel};
pub use dlopen::DlopenTable;
pub use error::Error;
pub use owners::{Owner, Owners};
pub use pattern::{Pattern, Predicate};
pub use providers::{Provider, Providers};
pub use target::{Feature, TargetId};
pub use targets::TargetTable;
