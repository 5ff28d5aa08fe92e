//! Input: an environment ([`rocwheel_loader::site::Site`]) and the facts about its files
//! ([`rocwheel_loader::facts::SiteFacts`]). Output: its problems ([`audit()`]), as findings
//! ([`finding`]) in a [`report`].
//!
//! The audit installs nothing and runs nothing.

#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the loader and Python compare names as they are")]

mod analysis;
mod audit;
mod check;
mod checks;
mod code;
pub mod declared;
mod error;
pub mod finding;
mod fix;
#[cfg(test)]
mod generated;
mod joint_fixes;
mod options;
mod remedies;
pub mod report;
pub mod why;
pub mod written;

pub use audit::{audit, audit_facts, read_facts};
pub use error::Error;
pub use fix::Fix;
pub use joint_fixes::keep_search_paths;
pub use options::{AuditScope, ExtraCheck, InstallFault, Options, RequirementSearch, SetLibraryPath};
pub use remedies::{Remedies, WheelRemedy};
