//! What a command was asked to write, in words that every command shares.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// This folder, which is created if it is missing. The inputs stay.
    Folder(PathBuf),
    /// The place of the inputs. A result replaces its input in one step, when it is complete.
    InPlace,
}

/// A real run or a rehearsal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Execute,
    /// Writes nothing: checks the inputs and reports what would be written (`--dry-run`).
    DryRun,
}

impl Mode {
    /// The mode of a command with or without `--dry-run`.
    pub fn new(dry_run: bool) -> Self {
        if dry_run { Self::DryRun } else { Self::Execute }
    }
}
