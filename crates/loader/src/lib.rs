//! Input: wheels and folders of installed packages. Output: the environment that they make
//! ([`site`]), what the ELF and PE files in it say ([`facts`]), and what the dynamic loader of
//! glibc or musl would find for each of them ([`simulation`]).
//!
//! Nothing is installed and nothing is run. Nothing here knows ROCm.

#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the loader and Python compare names as they are")]

mod error;
pub mod facts;
pub mod simulation;
pub mod site;

pub use error::Error;
