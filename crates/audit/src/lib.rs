//! Input: wheels that shall work together. Output: what an environment with all of them would be
//! like, without making it: which file lies where ([`site`]), what the ELF and PE files in it say
//! ([`facts`]) and what the dynamic loader would find for each of them ([`loader`]); and what is
//! the matter with it ([`audit()`]), as findings ([`finding`]) in a [`report`].
//!
//! Nothing is installed and nothing is run.

#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the loader and Python compare names as they are")]

mod checks;
mod error;
pub mod facts;
pub mod finding;
mod fix;
pub mod loader;
pub mod preload;
pub mod repair;
pub mod report;
pub mod requirements;
pub mod site;
pub mod why;
pub mod with;
pub mod written;

pub use checks::{Extra, Options, Scope, SetLibraryPath, audit};
pub use error::Error;
pub use fix::{Fix, Remedies, WheelRemedy, word};
