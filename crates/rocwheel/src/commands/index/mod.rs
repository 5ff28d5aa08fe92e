//! `rocwheel index`: a folder of wheels becomes a package index, and an index is checked.

pub(crate) mod build;
pub(crate) mod check;

use clap::Subcommand;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    Build(Box<build::Arguments>),
    Check(check::Arguments),
}
