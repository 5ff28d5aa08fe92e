//! Input: the files of the audited wheels. Output: the loader's answers for each file that a
//! process could start from: extension modules, programs, and libraries that no file in the set is
//! linked to.
//!
//! A library that others load is not traced alone: it also uses the search path of its users
//! (`DT_RPATH`), and finds the libraries that they loaded before. The simulation imports a package
//! after the packages that it requires, so that it finds the libraries of their extension modules.
//! This is how extensions of torch find `libtorch.so`. Libraries that Python files load by path at
//! import are treated the same: this is how `rmm` finds the library of `librmm`.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_tables::dlopen::DlopenTable;

use super::{Context, file_name};
use crate::Error;
use crate::report::{LoadedByName, ScenarioSummary};
use rocwheel_imports::at_import::loaded_at_import;
use rocwheel_imports::preload::PreloadList;
use rocwheel_loader::facts::Object;
use rocwheel_loader::simulation::{HostSystem, Loader, Scenario, Trace, Where, is_of_system};

/// A file that a process could start from, and the loader's answer for it.
pub(crate) struct Rooted {
    /// Its path in the environment.
    pub(crate) path: String,
    /// Number of its wheel.
    pub(crate) wheel: usize,
    pub(crate) kind: RootKind,
    /// The libraries that the loader would load for it.
    pub(crate) trace: Trace,
    /// Files that are loaded before it by other packages or by a preload list.
    pub(crate) preloaded: Vec<String>,
}

/// The kind of file that a process starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RootKind {
    /// An extension module, which Python imports.
    Extension,
    Program,
    /// A library that is loaded by name, with ctypes or as a plugin of another program.
    Plugin,
}

/// `true` if the name of a file is that of an extension module, with the tag of an interpreter or
/// of the stable ABI (PEP 3149).
pub(crate) fn has_module_tag(name: &str) -> bool {
    name.ends_with(".abi3.so")
        || name.split_once('.').is_some_and(|(_, rest)| rest.starts_with("cpython-") || rest.starts_with("pypy"))
            && name.ends_with(".so")
}

/// `true` if a file may be an extension module by its name: `x.so` or `x.pyd`, but not `libx.so` or
/// a name with a version at its end.
pub(crate) fn may_be_module(path: &str) -> bool {
    let name = file_name(path);
    has_module_tag(name)
        || name.ends_with(".pyd")
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

/// The files of a wheel that a process could start from.
fn roots<'a>(context: &Context<'a>, wheel: usize, needed: &BTreeSet<&str>) -> Vec<(&'a str, RootKind)> {
    let mut roots = Vec::new();
    for (path, object) in context.native(wheel) {
        let kind = kind_of(path, object);
        let soname = object.elf.soname.as_deref();
        let is_needed = needed.contains(file_name(path)) || soname.is_some_and(|soname| needed.contains(soname));
        if kind != RootKind::Plugin || !is_needed {
            roots.push((path, kind));
        }
    }
    roots
}

/// A machine that has what the wheel's policy promises, and a process that has loaded only
/// `preloaded`.
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
    // The files that the extension modules of a wheel load, computed when a wheel that requires it
    // is traced.
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
                let bringing =
                    loads.iter().filter(|(_, trace)| trace.missing.is_empty() && provides(context, trace, &missing));
                preloaded.extend(bringing.map(|(path, _)| path.clone()));
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

/// Drops the missing libraries of plugins that another file of the set loads by name: the libraries
/// and search paths of that file are then in effect.
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

/// The library names in the data of the audited wheels' files, except those that every system has.
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

/// Traces the roots of a wheel after the files of its preload list. If libraries are missing then,
/// traces again after the libraries that the wheel's Python files load at import. Returns the files
/// loaded before, and the traces.
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
    let loader = Loader::with_names((context.site, &context.names), context.facts, &scenario);
    roots.par_iter().map(|(path, _)| loader.load_by_name(&[*path])).collect()
}

/// Traces the extension modules of a wheel, as an import of all of them would load files.
fn import(context: &Context<'_>, wheel: usize, needed: &BTreeSet<&str>) -> Vec<(String, Trace)> {
    let roots: Vec<(&str, RootKind)> =
        roots(context, wheel, needed).into_iter().filter(|(_, kind)| *kind == RootKind::Extension).collect();
    let (_, traces) = after_import(context, wheel, &roots);
    roots.into_iter().map(|(path, _)| path.to_owned()).zip(traces).collect()
}

/// `true` if a trace loads one of the names from the set.
fn provides(context: &Context<'_>, trace: &Trace, names: &BTreeSet<String>) -> bool {
    trace.loaded.iter().any(|loaded| match &loaded.place {
        Where::Site(path) => {
            let soname = context.facts.objects.get(path).and_then(|object| object.elf.soname.as_deref());
            names.contains(file_name(path)) || soname.is_some_and(|soname| names.contains(soname))
        }
        Where::System(_) => false,
    })
}

/// A summary of the traces of each audited wheel.
pub(crate) fn summaries(context: &Context<'_>) -> Vec<ScenarioSummary> {
    let summaries = context.audited().map(|(wheel, installed)| {
        let rooted: Vec<&Rooted> = context.rooted.iter().filter(|rooted| rooted.wheel == wheel).collect();
        let loaded = rooted.iter().flat_map(|rooted| &rooted.trace.loaded);
        let paths: BTreeSet<&str> = loaded.filter_map(|loaded| loaded.place.site()).collect();
        let missing: BTreeSet<&str> =
            rooted.iter().flat_map(|rooted| &rooted.trace.missing).map(|missing| missing.name.as_str()).collect();
        ScenarioSummary {
            wheel: installed.file_name(),
            roots: rooted.len() as u64,
            preloaded: rooted.first().map(|rooted| rooted.preloaded.clone()).unwrap_or_default(),
            loaded: paths.len() as u64,
            missing: missing.into_iter().map(str::to_owned).collect(),
        }
    });
    summaries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_modules_are_known_by_name() {
        for name in ["a/_x.cpython-312-x86_64-linux-gnu.so", "_x.abi3.so", "b/vector.so", "_x.cp312-win_amd64.pyd"] {
            assert!(may_be_module(name), "{name}");
        }
        for name in ["libx.so", "a/libx.so.1", "x.so.1", "libggml-cpu-0786c92d.so", "x.1.so", "tool"] {
            assert!(!may_be_module(name), "{name}");
        }
        assert!(has_module_tag("_x.cpython-313t-x86_64-linux-gnu.so") && !has_module_tag("_x.so"));
    }
}
