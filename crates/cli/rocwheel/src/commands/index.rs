//! `rocwheel index`: makes a package index from a folder of wheels, checks it, and helps to serve
//! it.

mod aggregate;
pub(crate) mod build;
pub(crate) mod check;
mod from_github;
pub(crate) mod server;

use clap::Subcommand;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    Build(Box<build::Arguments>),
    Check(check::Arguments),
    Server(server::Arguments),
}
