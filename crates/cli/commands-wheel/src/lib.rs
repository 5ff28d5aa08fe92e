//! The commands that read, check and change wheels and artifacts: arguments → settings →
//! `command` → exit code. One file is one command.

pub mod artifact_archive;
pub mod artifact_fetch;
pub mod artifact_flatten;
pub mod artifact_import;
pub mod artifact_inputs;
pub mod artifact_list;
pub mod artifact_push;
pub mod artifact_verify;
pub mod audit;
pub mod diff;
pub mod edit;
pub mod fuse;
pub mod kernels;
pub mod last_look;
pub mod package;
pub mod prune;
pub mod repair;
pub mod reuse;
pub mod split;
