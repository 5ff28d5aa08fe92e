//! The commands that make indexes and publish packages: arguments → settings → `command` → exit
//! code. One file is one command.

#![allow(missing_docs, reason = "only the program uses this crate")]

pub mod index;
pub mod release;
