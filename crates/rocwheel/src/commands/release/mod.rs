//! `rocwheel release`: turns built files into a release that users can find and check.

pub(crate) mod github;
pub(crate) mod mirror;
pub(crate) mod pages;
pub(crate) mod promote;
pub(crate) mod upload;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use rocwheel_recipe::matrix::FrameworkTable;
use rocwheel_recipe::pages::{self as page, Asset};
use rocwheel_report::Reporter;

use crate::failure::Result;

/// The documentation of the commands is at their arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    Pages(Box<pages::Arguments>),
    Github(github::Arguments),
    Promote(Box<promote::Arguments>),
    Upload(upload::Arguments),
    Mirror(mirror::Arguments),
}

/// What is released.
#[derive(Debug, Clone, Args)]
pub(crate) struct Built {
    /// Folder with built files, such as the output of `rocwheel build`; may be repeated
    #[arg(long, value_name = "DIR", required = true)]
    wheels: Vec<PathBuf>,
    /// Another table of versions, in the form that `rocwheel matrix --print-table` prints
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
}

impl Built {
    fn table(&self) -> Result<FrameworkTable> {
        Ok(match &self.table {
            Some(path) => FrameworkTable::parse(&fs_err::read_to_string(path)?, &path.to_string_lossy())?,
            None => FrameworkTable::built_in()?,
        })
    }

    /// Reads the facts about all files.
    fn look(&self, table: &FrameworkTable, reporter: &dyn Reporter) -> Result<Vec<Asset>> {
        Ok(page::look(&self.wheels, &table.rocm_versions(), reporter)?)
    }
}
