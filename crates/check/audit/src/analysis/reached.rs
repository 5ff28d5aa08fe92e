//! Input: the programs and libraries of the audited wheels. Output: those that nothing is seen to
//! load or start: test data, and plug-ins that a program opens by a name that it makes. What they
//! lack stops nothing that was seen, so the verdict does not depend on it.
//!
//! What is loaded or started is read from names and places: extension modules, programs that can be
//! executed, libraries whose names are in a preload list, in Python code or in the data of another
//! file, and all that these need. The libraries of a wheel without extension modules are there for
//! others, and so are those that have a row in our tables. Where a name is computed, every library
//! may be meant.

use std::collections::BTreeSet;

use rocwheel_loader::facts::Object;
use rocwheel_tables::owners::Owners;

use super::rocm_version::is_rocm;
use super::traces::may_be_module;
use super::{Context, file_name};
use crate::finding::{Code, Finding, Severity};
use crate::fix::Fix;
use rocwheel_imports::preload::PreloadList;

/// Codes about what happens when a file is loaded.
const ABOUT_LOADING: [Code; 14] = [
    Code::LibraryNotFound,
    Code::LibraryOutside,
    Code::UndefinedSymbol,
    Code::SymbolVersion,
    Code::TooNew,
    Code::CpuLevel,
    Code::MissingRequirement,
    Code::DlopenMissing,
    Code::Unreadable,
    Code::NotGiven,
    Code::Machine,
    Code::ExecutableStack,
    Code::WrongRequirement,
    Code::NotLoadable,
];

/// A finding about the loading of files that nothing is seen to load is at most a warning.
pub(crate) fn weigh(findings: &mut [Finding]) {
    for finding in findings {
        finding.decides |= !ABOUT_LOADING.contains(&finding.code);
        if !finding.decides {
            finding.severity = finding.severity.min(Severity::Warning);
            // A repair would copy libraries into the wheel that nothing of it loads.
            if finding.fix.as_ref().is_none_or(Fix::is_repair) {
                finding.drop_fix("whether anything loads the file");
            }
        }
    }
}

/// The paths of the files of audited wheels that look like programs or libraries and that nothing
/// is seen to load or start.
pub(crate) fn unreached<'a>(context: &Context<'a>) -> BTreeSet<&'a str> {
    let mut open: Vec<(&'a str, &'a Object)> = Vec::new();
    let mut left: Vec<(&'a str, &'a Object)> = Vec::new();
    for (wheel, _) in context.audited() {
        let starts = Starts::of(context, wheel);
        let (started, others): (Vec<_>, Vec<_>) =
            context.objects(wheel).partition(|(path, object)| starts.has(context, path, object));
        open.extend(started);
        left.extend(others);
    }
    let beside = (0..context.site.distributions.len()).filter(|wheel| !context.is_audited(*wheel));
    open.extend(beside.flat_map(|wheel| context.objects(wheel)));
    let mut names: BTreeSet<&str> = BTreeSet::new();
    while let Some((_, object)) = open.pop() {
        names.extend(object.elf.needed.iter().map(|name| file_name(name)));
        names.extend(object.loads.iter().flatten().map(String::as_str));
        if open.is_empty() {
            (open, left) = left.into_iter().partition(|(path, object)| {
                names.contains(file_name(path))
                    || object.elf.soname.as_deref().is_some_and(|soname| names.contains(soname))
            });
        }
    }
    let unreadable = context.facts.unreadable.keys().map(String::as_str).filter(|path| {
        let is_audited = context.owner(path).is_some_and(|wheel| context.is_audited(wheel));
        is_audited && !is_library_name(path) && !may_be_module(path) && !can_be_started(context, path)
    });
    left.into_iter().map(|(path, _)| path).chain(unreadable).collect()
}

/// The evidence for which files of a wheel are loaded or started.
struct Starts<'a> {
    wheel: usize,
    /// The wheel has extension modules, no Python code of it opens libraries whose names are
    /// computed, and its requirements, whose code may open some, are known.
    names_its_libraries: bool,
    /// Paths of the libraries of preload lists.
    preloaded: BTreeSet<String>,
    /// Names of libraries that Python code opens.
    opened: BTreeSet<&'a str>,
}

impl<'a> Starts<'a> {
    fn of(context: &'a Context<'_>, wheel: usize) -> Starts<'a> {
        let ctypes = &context.preloads.ctypes;
        let computes = ctypes.iter().any(|load| load.name.is_none() && context.owner(&load.file) == Some(wheel));
        let has_modules = context.native(wheel).any(|(path, _)| may_be_module(path));
        let is_unread = context.native(wheel).any(|(_, object)| object.loads.is_none() && object.calls_dlopen());
        Starts {
            wheel,
            names_its_libraries: has_modules
                && !is_unread
                && !computes
                && context.requirements[wheel].unknown(context).is_empty()
                && !is_rocm(&context.site.distributions[wheel].name),
            preloaded: context.preloads.lists.iter().flat_map(PreloadList::files).collect(),
            opened: ctypes.iter().filter_map(|load| load.name.as_deref()).map(file_name).collect(),
        }
    }

    /// `true` if a file is loaded or started for itself, not because another file needs it.
    fn has(&self, context: &Context<'_>, path: &str, object: &Object) -> bool {
        let name = file_name(path);
        if object.is_program() && can_be_started(context, path) {
            return true;
        }
        may_be_module(path)
            || self.preloaded.contains(path)
            || self.opened.contains(name)
            || is_library_name(path)
                && (!self.names_its_libraries && !self.is_left_over(context, name)
                    || Owners::embedded().of(name).is_some()
                    || (0..context.site.distributions.len()).any(|wheel| context.loader_file(wheel, path).is_some()))
    }

    /// `true` for a library with a version in its name. Other files are linked to it by that name,
    /// and a program that opened it would contain the name. Packages without extension modules have
    /// their libraries for other packages.
    fn is_left_over(&self, context: &Context<'_>, name: &str) -> bool {
        let version = name.split_once(".so.").map(|(_, version)| version);
        version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
            && !is_rocm(&context.site.distributions[self.wheel].name)
            && context.native(self.wheel).any(|(path, _)| super::traces::has_module_tag(file_name(path)))
    }
}

/// `true` for a program that can be started: it is a script of the wheel, or executable.
fn can_be_started(context: &Context<'_>, path: &str) -> bool {
    context.site.files.get(path).is_some_and(|placed| placed.executable)
}

/// `true` for the name of a library or of a plug-in of Node.js.
pub(crate) fn is_library_name(path: &str) -> bool {
    let name = file_name(path);
    let version = name.split_once(".so.").map(|(_, version)| version);
    name.ends_with(".so")
        || name.ends_with(".node")
        || version.is_some_and(|version| version.starts_with(|first: char| first.is_ascii_digit()))
}
