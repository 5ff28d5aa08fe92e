//! Input: wheels and folders of installed packages. Output: the environment that they form
//! ([`site`]), the headers of its ELF and PE files ([`facts`]), and the libraries that the dynamic
//! loader of glibc or musl would find for each of them ([`simulation`]). What a run reads of a
//! wheel can be kept for the next one ([`cache`]).
//!
//! Nothing is installed or executed. This crate knows nothing about ROCm.

#![warn(missing_docs)]
#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "the loader and Python compare names as they are")]

pub mod cache;
mod error;
pub mod facts;
pub mod simulation;
pub mod site;

pub use error::Error;
