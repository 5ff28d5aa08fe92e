//! Input: packages, a prefix or a tarball. Output: an [`ImportPlan`], from what is cheap to find
//! out.

use rocwheel_progress::Reporter;

use crate::error::Error;
use crate::options::{ImportOptions, ImportSource};
use crate::plan::ImportPlan;
use crate::{packages, prefix, tarball};

/// Plans an import without writing anything.
pub fn plan(source: &ImportSource, options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Error> {
    let mut plan = match source {
        ImportSource::Debs(paths) => packages::plan(paths, options, reporter)?,
        ImportSource::Prefix(path) => prefix::plan(path, options)?,
        ImportSource::Tarball(path) => tarball::plan(path, options, reporter)?,
    };
    if let Some(version) = &options.version {
        if !version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(Error::BadVersion { version: version.clone() });
        }
        plan.version.clone_from(version);
    }
    if plan.version.is_empty() {
        return Err(Error::NoVersion);
    }
    Ok(plan)
}
