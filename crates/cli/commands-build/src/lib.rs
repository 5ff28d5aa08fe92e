//! The commands that check out, convert and build frameworks: arguments → settings → `command`
//! → exit code. One file is one command.

#![allow(missing_docs, reason = "only the program uses this crate")]

pub mod build;
pub mod matrix;
pub mod recipe;
pub mod rocm_version;
pub mod source;
