//! Input: planners of one or two systems. Output: one plan. The two systems share the selector: it
//! offers the packages of both, with markers for those that only one has, so that neither system
//! needs a selector that overwrites the other's.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_wheel::Platform;

use rocwheel_progress::{Failure, in_backticks};

use super::{Planner, Settled};
use crate::Logical;
use crate::dist_info::Promise;
use crate::plan::{Plan, PlannedWheel};
use crate::request::Shape;

/// The folder of packages that belong to a family: `dist/` itself, or a separate one for each
/// family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folders {
    One,
    EachFamily,
}

impl Folders {
    pub(super) fn of(self, family: Option<&str>) -> Option<String> {
        family.filter(|_| self == Folders::EachFamily).map(str::to_owned)
    }
}

struct Half<'a> {
    planner: Planner<'a>,
    settled: Settled,
}

/// Makes the plan.
pub(super) fn make(planners: Vec<Planner<'_>>) -> Result<Plan, Failure> {
    if let [linux, windows] = &planners[..] {
        if linux.version != windows.version {
            let (linux, windows) = (&linux.version, &windows.version);
            let what = "the artifacts for Linux are of version";
            let failure = Failure::message(format!("{what} {linux}, those for Windows of version {windows}"));
            return Err(failure.with_hint("take both from one build, or say with --version what the packages are"));
        }
        if linux.shape != windows.shape {
            let (linux, windows) = (linux.shape, windows.shape);
            let what = "the artifacts for Linux are made for the shape";
            let failure = Failure::message(format!("{what} `{linux}`, those for Windows for `{windows}`"));
            return Err(failure.with_hint("split those that are not split, or name one shape for both with --shape"));
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
fn check_names(plan: &Plan, halves: &[Half<'_>]) -> Result<(), Failure> {
    let mut seen: BTreeMap<(Platform, Option<&String>, String), &PlannedWheel> = BTreeMap::new();
    for wheel in &plan.wheels {
        let key = (wheel.system, wheel.folder.as_ref(), rocwheel_wheel::canonical_name(&wheel.name));
        if let Some(other) = seen.insert(key, wheel) {
            let artifacts = halves.iter().filter(|half| half.planner.system == wheel.system).flat_map(|half| {
                let names = half.planner.catalog.artifacts.iter().map(|artifact| &artifact.name);
                names.filter(|name| [other, wheel].iter().any(|one| one.target.as_deref() == Some(name.base_target())))
            });
            let artifacts = in_backticks(artifacts.map(ToString::to_string).collect::<Vec<_>>());
            let (first, second) = (&other.name, &wheel.name);
            let text = format!("`{first}` and `{second}` are one name to installers; the artifacts are {artifacts}");
            return Err(Failure::message(text).with_hint("package them in two runs with different --targets"));
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
        let Settled { findings, mut leftovers, .. } = settled;
        let mut incomplete = planner.left_incomplete();
        if both && planner.system == Platform::Windows {
            let left = leftovers.unclaimed.iter_mut().chain(&mut leftovers.left_out).map(|row| &mut row.reason);
            let reasons = left.chain(incomplete.iter_mut().flat_map(|row| &mut row.reasons));
            reasons.for_each(|reason| reason.push_str(", for Windows"));
        }
        plan.unclaimed.extend(leftovers.unclaimed);
        plan.left_out.extend(leftovers.left_out);
        plan.incomplete.extend(incomplete);
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
    let mut lacking: BTreeMap<String, BTreeSet<Logical>> = BTreeMap::new();
    for set in halves.iter().flat_map(|half| &half.settled.sets) {
        let absent = holders.keys().filter(|logical| logical.is_per_family());
        let absent = absent.filter(|logical| !set.populations.iter().any(|one| one.logical == **logical)).copied();
        lacking.insert(set.family.clone().unwrap_or_default(), absent.collect());
    }
    let first = &halves[0].planner;
    let per_target = match first.shape {
        Shape::Fat => false,
        Shape::Split => holders.contains_key(&Logical::Device),
        Shape::PerFamily => holders.contains_key(&Logical::Libraries),
    };
    let [mut linux, mut windows] = [Platform::Linux, Platform::Windows].map(|system| {
        match halves.iter().find(|half| half.planner.system == system) {
            _ if !per_target => Vec::new(),
            Some(half) => half.planner.targets.clone(),
            None => first.elsewhere.clone(),
        }
    });
    let mut families: Vec<String> = linux.iter().chain(&windows).cloned().collect();
    rocwheel_tables::target::sort(&mut families);
    // The lists distinguish the systems in markers, so both are needed if the other system has any
    // target. Otherwise the system's own list adds no information, unless the user requested it.
    let other = if first.system == Platform::Linux { &windows } else { &linux };
    if halves.len() == 1 && first.request.targets_on(first.system).is_empty() && other.is_empty() {
        linux.clear();
        windows.clear();
    }
    let only_on = holders.iter().filter(|(_, systems)| systems.len() < halves.len());
    Promise {
        version: first.version.clone(),
        nonce: first.request.nonce.clone(),
        families,
        linux_families: linux,
        windows_families: windows,
        neutral_libraries: first.shape != Shape::PerFamily,
        only_on: only_on.filter_map(|(logical, systems)| Some((*logical, *systems.first()?))).collect(),
        lacking,
        distributions: holders.into_keys().chain([Logical::Meta]).collect(),
    }
}
