//! Every finding: a wheel that has it, and one that nearly has it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod at_import;
mod files;
mod fixture;
mod loading;
mod system;
mod windows;
