//! The commands that make indexes and publish packages: arguments → settings → `command` → exit
//! code. One file is one command.

pub mod index;
pub mod release;
