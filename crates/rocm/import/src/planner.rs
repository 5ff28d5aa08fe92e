//! Input: packages, a prefix or a tarball. Output: an [`ImportPlan`], from what is cheap to find
//! out.

use rocwheel_progress::{Exit, Failure, Reporter};

use crate::error::with_storage_advice;
use crate::options::{ImportOptions, ImportSource};
use crate::plan::ImportPlan;
use crate::{packages, prefix, tarball};

/// Plans an import without writing anything.
pub fn plan(source: &ImportSource, options: &ImportOptions, reporter: &dyn Reporter) -> Result<ImportPlan, Failure> {
    let plan = match source {
        ImportSource::Debs(paths) => packages::plan(paths, options, reporter),
        ImportSource::Prefix(path) => prefix::plan(path, options),
        ImportSource::Tarball(path) => tarball::plan(path, options, reporter),
    };
    let mut plan = plan.map_err(|failure| with_storage_advice(failure, &options.output))?;
    if let Some(version) = &options.version {
        if !version.starts_with(|first: char| first.is_ascii_digit()) {
            return Err(Failure::message(format!("`{version}` is not a version")).with_exit(Exit::Usage));
        }
        plan.version.clone_from(version);
    }
    if plan.version.is_empty() {
        return Err(Failure::message(
            "could not tell the ROCm version: no package or file of the input is the HIP runtime",
        )
        .with_hint("add the HIP runtime (`libamdhip64-5`, `hip-runtime-amd`), or say `--version X.Y.Z`"));
    }
    Ok(plan)
}
