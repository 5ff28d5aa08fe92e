//! Input: the files of the audited wheels. Output: what the loader answers for each one that a
//! process could start from: extension modules, programs, and libraries that nobody else in the set
//! is linked to.
//!
//! A library that others load is not asked about alone: the search path of those who load it is its
//! own (`DT_RPATH`), and what they loaded before is there already. Packages are imported before
//! those that require them, so that what their extension modules load is there as well: that is how
//! extensions of torch find `libtorch.so`. So is what their Python files load by its path when they
//! are imported: that is how `rmm` finds the library of `librmm`.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_rocm::dlopen::DlopenTable;

use super::{Context, file_name};
use crate::Error;
use crate::preload::PreloadList;
use crate::preload::at_import::loaded_at_import;
use crate::report::{LoadedByName, ScenarioSummary};
use rocwheel_loader::facts::Object;
use rocwheel_loader::simulation::{HostSystem, Loader, Scenario, Trace, Where, is_of_system};

/// A file that a process could start from, and what the loader answers.
pub(crate) struct Rooted {
    /// Its path.
    pub(crate) path: String,
    /// The number of its wheel.
    pub(crate) wheel: usize,
    /// What it is.
    pub(crate) kind: RootKind,
    /// What would be loaded.
    pub(crate) trace: Trace,
    /// Files that other packages, or a preload list, have loaded before.
    pub(crate) preloaded: Vec<String>,
}

/// What a process can start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RootKind {
    /// Python imports it.
    Extension,
    /// It is run.
    Program,
    /// Something loads it by name: ctypes, a plugin's host.
    Plugin,
}

/// Whether the name of a file is that of an extension module with a tag of an interpreter or the
/// stable ABI (PEP 3149).
pub(crate) fn has_module_tag(name: &str) -> bool {
    name.ends_with(".abi3.so")
        || name.split_once('.').is_some_and(|(_, rest)| rest.starts_with("cpython-") || rest.starts_with("pypy"))
            && name.ends_with(".so")
}

/// Whether a file could be an extension module by its name: `x.so`, not `libx.so` and nothing with
/// a version behind.
pub(crate) fn may_be_module(path: &str) -> bool {
    let name = file_name(path);
    has_module_tag(name)
        || name.ends_with(".so") && !name.starts_with("lib") && !name.trim_end_matches(".so").contains('.')
}

fn kind_of(path: &str, object: &Object) -> RootKind {
    if object.is_program() {
        RootKind::Program
    } else if may_be_module(path) {
        RootKind::Extension
    } else {
        RootKind::Plugin
    }
}

/// Files of a wheel that a process could start from.
fn roots<'a>(context: &Context<'a>, wheel: usize, needed: &BTreeSet<&str>) -> Vec<(&'a str, RootKind)> {
    let is_needed = |path: &str, object: &Object| {
        needed.contains(file_name(path)) || object.elf.soname.as_deref().is_some_and(|soname| needed.contains(soname))
    };
    context
        .native(wheel)
        .map(|(path, object)| (path, object, kind_of(path, object)))
        .filter(|(path, object, kind)| *kind != RootKind::Plugin || !is_needed(path, object))
        .map(|(path, _, kind)| (path, kind))
        .collect()
}

/// A machine that has what its policy promises, and a process with nothing loaded but what comes
/// before.
pub(crate) fn scenario(context: &Context<'_>, wheel: usize, preloaded: Vec<String>) -> Scenario {
    let glibc = context.options.glibc.clone();
    Scenario {
        name: if preloaded.is_empty() { "alone" } else { "after what it requires" }.to_owned(),
        system: if context.is_for_musl(wheel) { HostSystem::Musl } else { HostSystem::Policy { glibc } },
        library_path: Vec::new(),
        preloaded,
        process: Vec::new(),
        processor: 1,
    }
}

/// Asks the loader about every root of the audited wheels.
pub(crate) fn trace(context: &Context<'_>) -> Result<Vec<Rooted>, Error> {
    let needed: BTreeSet<&str> =
        context.facts.native().flat_map(|(_, object)| object.elf.needed.iter().map(|name| file_name(name))).collect();
    let mut all = Vec::new();
    // What the extension modules of a wheel load, for those that require it; made when somebody
    // asks.
    let mut imports: BTreeMap<usize, Vec<(String, Trace)>> = BTreeMap::new();
    for (wheel, _) in context.audited() {
        context.reporter.check()?;
        let roots = roots(context, wheel, &needed);
        let (mut preloaded, mut traced) = after_import(context, wheel, &roots);
        let missing = missing(&traced);
        if !missing.is_empty() {
            let count = preloaded.len();
            let required = context.requirements[wheel].closure(context, wheel);
            for other in required {
                let loads = imports.entry(other).or_insert_with(|| import(context, other, &needed));
                let brings =
                    |(_, trace): &&(String, Trace)| trace.missing.is_empty() && provides(context, trace, &missing);
                preloaded.extend(loads.iter().filter(brings).map(|(path, _)| path.clone()));
            }
            if preloaded.len() > count {
                traced = run(context, wheel, &roots, &preloaded);
            }
        }
        let named = roots.into_iter().zip(traced);
        all.extend(named.map(|((path, kind), trace)| Rooted {
            path: path.to_owned(),
            wheel,
            kind,
            trace,
            preloaded: preloaded.clone(),
        }));
    }
    excuse(&mut all);
    Ok(all)
}

/// A library that one of the set loads by name is not alone then: what that one has loaded is
/// there, and so are its search paths.
fn excuse(rooted: &mut [Rooted]) {
    let loaded: BTreeSet<String> = rooted
        .iter()
        .flat_map(|rooted| &rooted.trace.by_name)
        .filter(|loaded| loaded.complete)
        .flat_map(|loaded| loaded.brings.iter().cloned())
        .collect();
    for rooted in rooted.iter_mut().filter(|rooted| rooted.kind == RootKind::Plugin && loaded.contains(&rooted.path)) {
        rooted.trace.missing.clear();
    }
}

/// What the files of the audited wheels have the names of in their data, without what every system
/// has.
pub(crate) fn loads(context: &Context<'_>) -> Vec<LoadedByName> {
    let mut found: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for loaded in context.rooted.iter().flat_map(|rooted| &rooted.trace.by_name) {
        found.insert((&loaded.by, &loaded.name), &loaded.path);
    }
    let mut loads = Vec::new();
    for (wheel, installed) in context.audited() {
        for (path, object) in context.native(wheel) {
            let soname = object.elf.soname.as_deref().unwrap_or_else(|| file_name(path));
            let table = DlopenTable::embedded().of(soname);
            let names = object.loads.iter().flatten().filter(|name| !is_of_system(name));
            loads.extend(names.map(|name| LoadedByName {
                wheel: installed.file_name(),
                file: context.member(path),
                library: name.clone(),
                found: found.get(&(path, name.as_str())).map(|path| context.site.shown(path).to_owned()),
                listed: table.iter().any(|load| load.matches(name)),
            }));
        }
    }
    loads
}

fn missing(traces: &[Trace]) -> BTreeSet<String> {
    traces.iter().flat_map(|trace| trace.missing.iter().map(|missing| missing.name.clone())).collect()
}

/// What is loaded for the roots of a wheel, after the files of its preload list and, where those do
/// not suffice, after the libraries that its Python files load when they are imported. These files
/// come first.
fn after_import(context: &Context<'_>, wheel: usize, roots: &[(&str, RootKind)]) -> (Vec<String>, Vec<Trace>) {
    let mut preloaded: Vec<String> = context.lists(wheel).flat_map(PreloadList::files).collect();
    let traces = run(context, wheel, roots, &preloaded);
    let missing = missing(&traces);
    if missing.is_empty() {
        return (preloaded, traces);
    }
    let required = context.requirements[wheel].closure(context, wheel);
    let loaded = loaded_at_import((context.site, context.facts), wheel, &required, &missing);
    if loaded.is_empty() {
        return (preloaded, traces);
    }
    preloaded.extend(loaded);
    let traces = run(context, wheel, roots, &preloaded);
    (preloaded, traces)
}

fn run(context: &Context<'_>, wheel: usize, roots: &[(&str, RootKind)], preloaded: &[String]) -> Vec<Trace> {
    let scenario = scenario(context, wheel, preloaded.to_vec());
    let loader = Loader::new(context.site, context.facts, &scenario);
    roots.par_iter().map(|(path, _)| loader.load_by_name(&[*path])).collect()
}

/// What the extension modules of a wheel load when they are imported.
fn import(context: &Context<'_>, wheel: usize, needed: &BTreeSet<&str>) -> Vec<(String, Trace)> {
    let roots: Vec<(&str, RootKind)> =
        roots(context, wheel, needed).into_iter().filter(|(_, kind)| *kind == RootKind::Extension).collect();
    let (_, traces) = after_import(context, wheel, &roots);
    roots.into_iter().map(|(path, _)| path.to_owned()).zip(traces).collect()
}

/// Whether one of the names is loaded in a trace, from the set.
fn provides(context: &Context<'_>, trace: &Trace, names: &BTreeSet<String>) -> bool {
    trace.loaded.iter().any(|loaded| match &loaded.place {
        Where::Site(path) => {
            let soname = context.facts.objects.get(path).and_then(|object| object.elf.soname.as_deref());
            names.contains(file_name(path)) || soname.is_some_and(|soname| names.contains(soname))
        }
        Where::System(_) => false,
    })
}

/// What was asked, wheel by wheel.
pub(crate) fn summaries(context: &Context<'_>) -> Vec<ScenarioSummary> {
    let of = |(wheel, installed): (usize, &rocwheel_loader::site::Distribution)| {
        let rooted = || context.rooted.iter().filter(move |rooted| rooted.wheel == wheel);
        let paths: BTreeSet<&str> = rooted()
            .flat_map(|rooted| &rooted.trace.loaded)
            .filter_map(|loaded| match &loaded.place {
                Where::Site(path) => Some(path.as_str()),
                Where::System(_) => None,
            })
            .collect();
        let missing: BTreeSet<&str> =
            rooted().flat_map(|rooted| &rooted.trace.missing).map(|missing| missing.name.as_str()).collect();
        ScenarioSummary {
            wheel: installed.file_name(),
            roots: rooted().count() as u64,
            preloaded: rooted().next().map(|rooted| rooted.preloaded.clone()).unwrap_or_default(),
            loaded: paths.len() as u64,
            missing: missing.into_iter().map(str::to_owned).collect(),
        }
    };
    context.audited().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_modules_are_known_by_name() {
        for name in
            ["a/_x.cpython-312-x86_64-linux-gnu.so", "_x.abi3.so", "b/vector.so", "_C.pypy310-pp73-x86_64-linux-gnu.so"]
        {
            assert!(may_be_module(name), "{name}");
        }
        for name in ["libx.so", "a/libx.so.1", "x.so.1", "libggml-cpu-0786c92d.so", "x.1.so", "tool"] {
            assert!(!may_be_module(name), "{name}");
        }
        assert!(has_module_tag("_x.cpython-313t-x86_64-linux-gnu.so") && !has_module_tag("_x.so"));
    }
}
