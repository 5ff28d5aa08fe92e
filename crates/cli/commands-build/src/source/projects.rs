//! The table of sources and git, for all commands about sources.

use std::path::{Path, PathBuf};

use rocwheel_console::environment;
use rocwheel_console::failure::Result;
use rocwheel_source::{Git, Table};

/// Reads the table of sources: the user's, or the built-in one.
pub fn table(path: Option<&Path>) -> Result<Table> {
    match path {
        None => Ok(Table::built_in()),
        Some(path) => Ok(Table::parse(&fs_err::read_to_string(path)?, &path.display().to_string())?),
    }
}

/// git with the environment variables of this program.
pub(crate) fn git() -> Result<Git> {
    Git::new(environment::variables())
}

/// An absolute path; relative ones start in the working directory.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    Ok(rocwheel_source::absolute(&environment::directory()?, path))
}
