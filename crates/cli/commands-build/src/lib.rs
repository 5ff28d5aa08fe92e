//! The commands that check out, convert and build frameworks: arguments → settings → `command`
//! → exit code. One file is one command.

pub mod build;
pub mod matrix;
pub mod recipe;
pub mod rocm_version;
pub mod source;
