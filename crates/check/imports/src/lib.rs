//! Input: an environment ([`rocwheel_loader::site::Site`]). Output: what its Python files load: the
//! libraries that packages load before anything else ([`preload`]) and by path when they are
//! imported ([`at_import`]), and the modules at the top level that a wheel itself uses
//! ([`top_level`]).
//!
//! The files are read, never run.

#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "Python compares names as they are")]

pub mod at_import;
pub mod preload;
mod python;
pub mod top_level;

/// Upper limit in bytes of the Python files that are read; files with such calls are small.
const LARGEST: u64 = 1 << 20;
