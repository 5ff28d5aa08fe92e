//! The commands that test what was built, and the machine: arguments → settings → `command` →
//! exit code. One file is one command.

#![allow(missing_docs, reason = "only the program uses this crate")]

pub mod doctor;
pub mod test;
