//! The commands that test what was built, and the machine: arguments → settings → `command` →
//! exit code. One file is one command.

pub mod choose;
pub mod doctor;
pub mod test;
