//! Input: an environment ([`rocwheel_loader::site::Site`]) and what its files say
//! ([`rocwheel_loader::facts::SiteFacts`]). Output: what is the matter with it ([`audit()`]), as
//! findings ([`finding`]) in a [`report`].
//!
//! Nothing is installed and nothing is run.

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
mod options;
pub mod preload;
pub mod report;
pub mod why;
pub mod written;

pub use audit::{audit, audit_facts, read_facts};
pub use error::Error;
pub use fix::{Fix, Remedies, WheelRemedy};
pub use options::{AuditScope, ExtraCheck, Options, SetLibraryPath};
