//! Input: planners of one or two systems. Output: one plan. The two systems share the selector: it
//! offers the packages of both, with markers for those that only one has, so that neither system
//! needs a selector that overwrites the other's.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_wheel::Platform;

use super::{Planner, Settled};
use crate::dist_info::Promise;
use crate::request::{LeftOut, Plan, PlannedWheel, Shape};
use crate::{Error, Logical};

/// The folder of packages that belong to a family: `dist/` itself, or a separate one for each
/// family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folders {
    One,
    EachFamily,
}

impl Folders {
    /// Returns the folder of a family.
    pub(super) fn of(self, family: Option<&str>) -> Option<String> {
        family.filter(|_| self == Folders::EachFamily).map(str::to_owned)
    }
}

struct Half<'a> {
    planner: Planner<'a>,
    settled: Settled,
}

/// Makes the plan.
///
/// # Errors
/// As for [`super::plan_both`].
pub(super) fn make(planners: Vec<Planner<'_>>) -> Result<Plan, Error> {
    if let [linux, windows] = &planners[..] {
        if linux.version != windows.version {
            return Err(Error::Versions { linux: linux.version.clone(), windows: windows.version.clone() });
        }
        if linux.shape != windows.shape {
            return Err(Error::Shapes { linux: linux.shape, windows: windows.shape });
        }
    }
    let mut halves = Vec::new();
    for mut planner in planners {
        let settled = planner.settle()?;
        halves.push(Half { planner, settled });
    }
    let promise = promise(&halves);
    let mut families: Vec<String> =
        halves.iter().flat_map(|half| &half.settled.sets).filter_map(|set| set.family.clone()).collect();
    rocwheel_tables::target::sort(&mut families);
    let folders = if families.len() > 1 { Folders::EachFamily } else { Folders::One };
    let mut plan = empty(&halves);
    for half in &halves {
        half.planner.add_wheels(&mut plan, &promise, &half.settled.sets, folders)?;
    }
    let first = &halves[0].planner;
    if first.wanted(Logical::Meta) {
        let families = if families.is_empty() { vec![None] } else { families.iter().map(Some).collect() };
        for family in families {
            for form in &first.request.selectors {
                plan.selectors.push(first.selector(&promise, family.map(String::as_str), folders, *form));
            }
        }
    }
    check_names(&plan, &halves)?;
    tell(&mut plan, halves);
    Ok(plan)
}

/// Refuses two packages with one name for one system and folder: an environment could have only one
/// of them. Names are compared as installers do (PEP 503).
fn check_names(plan: &Plan, halves: &[Half<'_>]) -> Result<(), Error> {
    let mut seen: BTreeMap<(Platform, Option<&String>, String), &PlannedWheel> = BTreeMap::new();
    for wheel in &plan.wheels {
        let key = (wheel.system, wheel.folder.as_ref(), rocwheel_wheel::canonical_name(&wheel.name));
        if let Some(other) = seen.insert(key, wheel) {
            let artifacts = halves.iter().filter(|half| half.planner.system == wheel.system).flat_map(|half| {
                let names = half.planner.catalog.artifacts.iter().map(|artifact| &artifact.name);
                names.filter(|name| [other, wheel].iter().any(|one| one.target.as_deref() == Some(name.base_target())))
            });
            let artifacts = artifacts.map(ToString::to_string).collect();
            return Err(Error::SameName { names: [other.name.clone(), wheel.name.clone()], artifacts });
        }
    }
    Ok(())
}

fn empty(halves: &[Half<'_>]) -> Plan {
    let first = &halves[0].planner;
    let systems: BTreeMap<Platform, Vec<String>> =
        halves.iter().map(|half| (half.planner.system, half.planner.targets.clone())).collect();
    let mut targets: Vec<String> = systems.values().flatten().cloned().collect();
    rocwheel_tables::target::sort(&mut targets);
    Plan {
        schema: 1,
        shape: first.shape,
        shape_reason: None,
        too_large: Vec::new(),
        version: first.version.clone(),
        targets,
        systems,
        wheels: Vec::new(),
        selectors: Vec::new(),
        unclaimed: Vec::new(),
        incomplete: Vec::new(),
        unknown_libraries: Vec::new(),
        left_out: Vec::new(),
        dropped_search_paths: Vec::new(),
        notes: Vec::new(),
    }
}

/// Adds the findings of the halves to the plan.
fn tell(plan: &mut Plan, halves: Vec<Half<'_>>) {
    let both = halves.len() > 1;
    for Half { planner, settled } in halves {
        let windows = both && planner.system == Platform::Windows;
        let name = |reason: &mut String| {
            if windows {
                reason.push_str(", for Windows");
            }
        };
        let named = |rows: Vec<LeftOut>| {
            rows.into_iter().map(|mut row| {
                name(&mut row.reason);
                row
            })
        };
        let Settled { findings, leftovers, .. } = settled;
        plan.unclaimed.extend(named(leftovers.unclaimed));
        plan.left_out.extend(named(leftovers.left_out));
        plan.incomplete.extend(planner.left_incomplete().into_iter().map(|mut row| {
            row.reasons.iter_mut().for_each(name);
            row
        }));
        plan.unknown_libraries.extend(findings.unknown);
        plan.dropped_search_paths.extend(findings.dropped);
        plan.notes.extend(findings.notes);
    }
    plan.incomplete.sort();
    plan.notes.sort();
    plan.notes.dedup();
    plan.unknown_libraries.sort();
    plan.unknown_libraries.dedup();
    plan.dropped_search_paths.sort();
    plan.dropped_search_paths.dedup();
}

fn promise(halves: &[Half<'_>]) -> Promise {
    let mut holders: BTreeMap<Logical, BTreeSet<Platform>> = BTreeMap::new();
    for half in halves {
        for set in &half.settled.sets {
            let devel = (!set.devel.entries.is_empty()).then_some(Logical::Devel);
            for logical in set.populations.iter().map(|population| population.logical).chain(devel) {
                holders.entry(logical).or_default().insert(half.planner.system);
            }
        }
    }
    let first = &halves[0].planner;
    let per_target = match first.shape {
        Shape::Fat => false,
        Shape::Split => holders.contains_key(&Logical::Device),
        Shape::PerFamily => holders.contains_key(&Logical::Libraries),
    };
    let on = |system: Platform| match halves.iter().find(|half| half.planner.system == system) {
        _ if !per_target => Vec::new(),
        Some(half) => half.planner.targets.clone(),
        None => first.elsewhere.clone(),
    };
    let (mut linux, mut windows) = (on(Platform::Linux), on(Platform::Windows));
    let mut families: Vec<String> = linux.iter().chain(&windows).cloned().collect();
    rocwheel_tables::target::sort(&mut families);
    // The lists distinguish the systems in markers, so both are needed if the other system has any
    // target. Otherwise the system's own list adds no information, unless the user requested it.
    if halves.len() == 1 && first.request.targets_on(first.system).is_empty() && on(first.system.other()).is_empty() {
        linux.clear();
        windows.clear();
    }
    let only_on = |systems: &BTreeSet<Platform>| systems.first().copied().filter(|_| systems.len() < halves.len());
    Promise {
        version: first.version.clone(),
        nonce: first.request.nonce.clone(),
        families,
        linux_families: linux,
        windows_families: windows,
        neutral_libraries: first.shape != Shape::PerFamily,
        only_on: holders.iter().filter_map(|(logical, systems)| Some((*logical, only_on(systems)?))).collect(),
        distributions: holders.into_keys().chain([Logical::Meta]).collect(),
    }
}
