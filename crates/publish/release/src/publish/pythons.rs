//! Input: a set and the stream that it goes into. Output: the Pythons of which something is
//! missing, and the wheels that are only for them.
//!
//! Packages of GPU targets do not count here: what they lack, their target lacks
//! ([`super::find_targets`]).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_pages::views::target;
use rocwheel_promote::target_of;
use rocwheel_store::listing::distributions;
use rocwheel_stream::install_place::{InstallPlace, compiled_for};
use rocwheel_stream::{Stream, StreamChange};
use rocwheel_wheel::{Platform, PythonVersion, WheelName};

use super::closed_world::ClosedWorld;
use super::local::LocalSet;
use super::{AllowedGap, PublishOptions, describe, outside};
use crate::Error;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetPythons {
    /// How many have everything, each system by itself.
    pub complete: usize,
    /// The others as `cp313-cp313 on Linux`, and the keys of the wheels that are only for them.
    pub incomplete: BTreeMap<String, BTreeSet<String>>,
}

/// A Python on a system.
type Cell = (Platform, PythonVersion);

/// The words for a Python in the description of a set.
fn shown((platform, PythonVersion { minor, free_threaded, .. }): Cell) -> String {
    format!("cp3{minor}-cp3{minor}{} on {platform}", if free_threaded { "t" } else { "" })
}

/// Finds the Pythons of which a package is missing or cannot be installed. A set without compiled
/// wheels has none.
pub fn find_pythons(
    stream: &Stream<'_>,
    local: &LocalSet,
    options: &PublishOptions,
    change: &StreamChange<'_>,
) -> Result<SetPythons, Error> {
    let set = describe(stream, local, options, change)?;
    let mut compiled: BTreeMap<Cell, BTreeSet<String>> = BTreeMap::new();
    for one in distributions(set.files.keys()) {
        let Some(wheel) = one.wheel.filter(|_| target(&one.project).is_none()) else { continue };
        for cell in cells(&wheel) {
            compiled.entry(cell).or_default().insert(one.project.clone());
        }
    }
    let mut world = ClosedWorld::new(stream, &set, outside(stream, options)?);
    let mut found = SetPythons::default();
    for (cell, projects) in &compiled {
        let others = compiled.iter().filter(|((platform, _), _)| *platform == cell.0).flat_map(|(_, all)| all);
        let has_holes = others.into_iter().any(|project| !projects.contains(project));
        let counts = !options.allowed.contains(&AllowedGap::Holes);
        if (has_holes && counts) || !is_installable(&mut world, *cell)? {
            found.incomplete.insert(shown(*cell), BTreeSet::new());
        } else {
            found.complete += 1;
        }
    }
    for one in distributions(local.files.keys()) {
        let cells: Vec<String> = one.wheel.iter().flat_map(cells).map(shown).collect();
        let is_dropped = !cells.is_empty() && cells.iter().all(|cell| found.incomplete.contains_key(cell));
        for cell in cells.iter().filter(|_| is_dropped) {
            found.incomplete.entry(cell.clone()).or_default().insert(one.file.key.clone());
        }
    }
    Ok(found)
}

/// The Pythons and systems that a wheel was compiled for.
fn cells(wheel: &WheelName) -> Vec<Cell> {
    let platforms: BTreeSet<Platform> = wheel.platforms.iter().filter_map(|tag| Platform::of_tag(tag)).collect();
    let pythons = compiled_for(wheel);
    platforms.iter().flat_map(|platform| pythons.iter().map(|python| (*platform, *python))).collect()
}

/// `true` if everything for no GPU target can be installed, without extras and with each.
fn is_installable(world: &mut ClosedWorld<'_>, (platform, python): Cell) -> Result<bool, Error> {
    let place = InstallPlace::new(python, platform);
    for project in world.projects_of_set() {
        let Some(own) = world.own(&project, &place).filter(|_| target(&project).is_none()) else { continue };
        let extras = world.extras(&own)?;
        let extras = extras.iter().filter(|extra| target_of(extra).is_none()).map(|extra| Some(extra.as_str()));
        for extra in [None].into_iter().chain(extras) {
            if world.install(&place, &own, extra)?.is_err() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

impl LocalSet {
    /// The set without the files of some keys.
    #[must_use]
    pub fn without(mut self, keys: &BTreeSet<String>) -> LocalSet {
        self.files.retain(|key, _| !keys.contains(key));
        self
    }
}
