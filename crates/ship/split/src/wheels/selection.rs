//! Input: the GPU code of a wheel and a list of targets. Output: the targets whose code is kept.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use rocwheel_progress::{Exit, Failure, Reporter};
use rocwheel_tables::device_packages::{self, DevicePackages, PackageLevel};
use rocwheel_tables::{TargetTable, target};
use rocwheel_wheel::read::Wheel;

use super::install_paths::Folders;
use super::survey::{self, Survey};
use crate::TargetSelection;

/// Returns the targets of a wheel that a list selects.
pub(super) fn selection_of(
    wheel: &Arc<Wheel>,
    list: Option<&str>,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<TargetSelection, Failure> {
    if list.is_none() {
        return Ok(TargetSelection::ALL);
    }
    let folders = Folders::new(wheel.info());
    selection(&survey::survey(wheel, &folders, &|_| true, scratch, reporter)?, list)
}

/// Returns the targets to keep, with generic targets and families that serve them.
pub(super) fn selection(survey: &Survey, list: Option<&str>) -> Result<TargetSelection, Failure> {
    let Some(list) = list else { return Ok(TargetSelection::ALL) };
    let families = DevicePackages::embedded();
    let in_code = survey.binaries.iter().flat_map(|binary| &binary.targets);
    let mut found: Vec<String> = in_code.chain(survey.databases.iter().map(|file| &file.target)).cloned().collect();
    target::sort(&mut found);
    let mut also = found.clone();
    also.extend(found.iter().map(|target| target::base_target(target).to_owned()));
    let expanded = TargetTable::embedded().expand_with(list, &also);
    let mut wanted = expanded.map_err(|failure| failure.with_exit(Exit::Usage))?;
    let chains: BTreeSet<String> = wanted.iter().flat_map(|target| families.chain(&families.key(target))).collect();
    // Targets that share a package with a selected target are kept too, and so are packages for
    // several targets.
    let related = found.iter().filter(|target| {
        let key = families.key(target);
        chains.contains(&key)
            && (families.level(&key) != PackageLevel::Target || device_packages::without_features(target) != key)
    });
    wanted.extend(related.map(|target| device_packages::without_features(target).to_owned()));
    Ok(TargetSelection::only(wanted))
}
