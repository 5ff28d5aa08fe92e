//! Input: the answers of the loader. Output: libraries that are missing, each as a finding whose
//! code gives the reason.
//!
//! A missing library can have one of many reasons: it is nowhere (RW001, on Windows RW029), outside
//! of the environment (RW002), in a package that METADATA does not require (RW012), absent from a
//! preload list (RW019), loaded by name (RW022), in a requirement that was not given (RW025), for
//! another machine (RW026), or in another release of ROCm than METADATA requires (RW030). The check
//! of each code takes the findings with that code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rocwheel_tables::dlopen::DlopenTable;
use rocwheel_wheel::manylinux::Policies;

use super::required_release::{cuda, needs_torch, require, wrong_requirement};
use super::requirements::Brought;
use super::traces::RootKind;
use super::verdict::{Groups, Verdict, say};
use super::{Context, file_name, is_for_windows, listed, not_given};
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use rocwheel_loader::simulation::{FailedLookup, Where};
use rocwheel_tables::owners::{LibraryOwner, Owners};
use rocwheel_tables::providers::Providers;

/// A library by which the tables know ROCm.
const RUNTIME_OF_ROCM: &str = "libamdhip64.so.7";

/// Libraries that the loader does not find on Linux.
pub(super) fn missing(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let mut groups = Groups::new();
    for rooted in &context.rooted {
        for missing in &rooted.trace.missing {
            let Where::Site(needed_by) = &rooted.trace.loaded[missing.needed_by].place else { continue };
            let owner = context.owner(needed_by).filter(|owner| context.is_audited(*owner));
            let (wheel, file) = owner.map_or((rooted.wheel, rooted.path.as_str()), |owner| (owner, needed_by.as_str()));
            let mut verdict = judge(context, wheel, (missing, rooted.kind == RootKind::Plugin));
            verdict.decides = !context.unreached.contains(rooted.path.as_str());
            if !verdict.decides {
                verdict.behind.push_str("; nothing of the set is seen to load the file");
            }
            if owner.is_none() {
                verdict.before = format!("`{}`, which it loads, ", file_name(needed_by));
            }
            let group = groups.entry((wheel, verdict)).or_default();
            group.0.insert(&missing.name);
            group.1.insert(file);
        }
    }
    say(context, groups, findings);
}

/// Determines why a library is missing.
fn judge(context: &Context<'_>, wheel: usize, (missing, is_plugin): (&FailedLookup, bool)) -> Verdict {
    let name = missing.name.as_str();
    if let Some((file, why)) = &missing.refused {
        let message = format!(", and the loader gives up on `{}`: {why}", context.site.shown(file));
        return Verdict::new(Code::LibraryNotFound, message);
    }
    if !missing.skipped.is_empty() {
        let files: Vec<&str> = missing.skipped.iter().map(|path| context.site.shown(path)).collect();
        let message = format!(", and {} is for another machine", listed(files.iter().copied()));
        return Verdict::new(Code::Machine, message).naming(files);
    }
    if let Some(verdict) = in_the_set(context, wheel, (name, is_plugin)) {
        return verdict;
    }
    if let Some(owner) = Owners::embedded().of(name) {
        return owned(context, wheel, (owner, name));
    }
    if name.starts_with("libpython3") {
        let message = ", which only some builds of Python have; extension modules do without";
        return Verdict::new(Code::LibraryNotFound, message).weighing(Severity::Warning);
    }
    unknown_library(context, wheel, missing)
}

/// Determines why a library of a known product, which no file of the set has, is missing.
pub(crate) fn owned(context: &Context<'_>, wheel: usize, (owner, library): (&LibraryOwner, &str)) -> Verdict {
    let installed = &context.site.distributions[wheel];
    let requirements = &context.requirements[wheel];
    // A wheel for any platform may import DLLs, too.
    let is_dll = is_for_windows(installed) || library.to_ascii_lowercase().ends_with(".dll");
    // Windows does not use search paths.
    let by_path = owner.is_rocm() && !is_dll && !needs_torch(context, wheel);
    let mend = || if by_path { fix::rocm(installed).ok_or(None) } else { require(context, wheel, owner) };
    let is_packaged = Providers::embedded().of(library).is_some_and(|provider| provider.distribution.is_some());
    if by_path && !is_packaged {
        return Verdict::new(
            Code::MissingRequirement,
            format!(" of {}, which no distribution is known to bring", owner.name),
        );
    }
    match requirements.brings(context, owner) {
        Brought::By(distribution) => {
            if let Some(verdict) = wrong_requirement(context, wheel, (owner, library)) {
                return verdict;
            }
            not_brought(context, wheel, (owner, &distribution))
        }
        Brought::ByExtra(extra) => {
            let message = format!(" of {}, which only the extra `{extra}` requires", owner.name);
            Verdict::new(Code::MissingRequirement, message).weighing(Severity::Warning).mended_by(mend())
        }
        Brought::No(given) => {
            let holder = holder(context, wheel, (owner, library));
            // For example, `rocm-sdk-libraries-gfx94x-dcgpu` holds the files of
            // `rocm-sdk-libraries`.
            let there = given.iter().find(|name| {
                holder.as_ref().is_none_or(|holder| {
                    name.strip_prefix(holder.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
                })
            });
            if let Some(there) = there {
                let code = if is_dll { Code::DllNotFound } else { Code::LibraryNotFound };
                return Verdict::new(code, format!(" of {}; `{there}` is in the set and does not have it", owner.name));
            }
            let unknown = requirements.unknown(context);
            let message = format!(" of {}, and METADATA requires nothing that brings it", owner.name);
            if unknown.is_empty() {
                Verdict::new(Code::MissingRequirement, message).mended_by(mend())
            } else {
                let message = format!("{message}; {} and may bring it", not_given(&unknown));
                let verdict = Verdict::new(Code::MissingRequirement, message).weighing(Severity::Warning);
                verdict.mended_by(mend()).open(context, wheel, unknown)
            }
        }
    }
}

/// The verdict about a library that a declared requirement should bring, whose files are unknown.
fn not_brought(context: &Context<'_>, wheel: usize, (owner, distribution): (&LibraryOwner, &str)) -> Verdict {
    let installed = &context.site.distributions[wheel];
    let message = format!(" of {}, which `{distribution}` should bring", owner.name);
    if context.requirements[wheel].named(context, distribution).is_some() {
        let message = format!("{message}; its files are elsewhere");
        return Verdict::new(Code::NotGiven, message).open(context, wheel, vec![distribution.to_owned()]);
    }
    let is_sought = context.options.search.as_ref().filter(|search| search.has_index);
    if is_sought.is_some_and(|search| search.unmet.iter().any(|unmet| unmet.name == distribution)) {
        let message = format!("{message}; it was not found");
        return Verdict::new(Code::NotGiven, message).open(context, wheel, vec![distribution.to_owned()]);
    }
    if let Some(found) = installed.installed() {
        // All packages are known only if the environment does not see those of the system.
        let message = format!("{message} and which is not installed");
        let verdict = Verdict::new(Code::UnmetRequirement, message).fixed_by(fix::require(installed, distribution));
        if found.environment().is_some_and(sees_no_other_packages) {
            return verdict;
        }
        return verdict.weighing(Severity::Warning).open(context, wheel, vec![distribution.to_owned()]);
    }
    let message = format!("{message}; it was not given");
    Verdict::new(Code::NotGiven, message).open(context, wheel, vec![distribution.to_owned()])
}

/// `true` if a virtual environment sees only its own packages (PEP 405).
fn sees_no_other_packages(environment: &Path) -> bool {
    let Ok(text) = fs_err::read_to_string(environment.join("pyvenv.cfg")) else { return false };
    let sees_others = rocwheel_system::environment_setting(&text, "include-system-site-packages");
    sees_others.is_some_and(|value| value.eq_ignore_ascii_case("false"))
}

/// The distribution that contains a library of an owner. Where that is not known, the distribution
/// to require for the library; `None` if there is none.
fn holder(context: &Context<'_>, wheel: usize, (owner, library): (&LibraryOwner, &str)) -> Option<String> {
    if (owner.is_rocm() || owner.is_cuda()) && needs_torch(context, wheel) {
        return Some("torch".to_owned());
    }
    // A Windows name is the Linux name without `lib` and with the version in it.
    let lower = library.to_ascii_lowercase();
    let on_linux = lower.strip_suffix(".dll").map(|stem| {
        let stem = match stem.rsplit_once('_') {
            Some((name, end)) if !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => stem,
        };
        format!("lib{}.so", stem.strip_prefix("lib").unwrap_or(stem))
    });
    let provider = Providers::embedded().of(on_linux.as_deref().unwrap_or(library));
    let known = provider.and_then(|provider| provider.distribution.clone());
    known.or_else(|| {
        let requirement = owner.requirement(cuda(context, wheel).unwrap_or_default())?;
        Some(rocwheel_wheel::canonical_name(requirement.split('[').next().unwrap_or_default()))
    })
}

/// Explains why the loader does not find a library although a file of the set has its name; `None`
/// when no file has it.
fn in_the_set(context: &Context<'_>, wheel: usize, (name, is_plugin): (&str, bool)) -> Option<Verdict> {
    let installed = &context.site.distributions[wheel];
    let paths: Vec<&str> = context
        .facts
        .native()
        .filter(|(path, object)| {
            !object.is_program() && (file_name(path) == name || object.elf.soname.as_deref() == Some(name))
        })
        .map(|(path, _)| path.as_str())
        .collect();
    let own = paths.iter().find(|path| context.owner(path) == Some(wheel));
    let path = own.or(paths.first())?;
    let owner = context.owner(path)?;
    let shown = context.site.shown(path);
    if owner == wheel {
        // If another package loads the library first, its SONAME is already in the process, and the
        // loader does not look for the copy in this wheel.
        if let Some(library) = Owners::embedded().of(name)
            && let Brought::By(other) = context.requirements[wheel].brings(context, library)
        {
            return Some(not_brought(context, wheel, (library, &other)));
        }
        let message = format!(", which exists as `{shown}`, where no search path leads");
        if let Some(file) = context.loader_file(wheel, path) {
            let message =
                format!("{message}; `{}` loads it by its path, as far as can be read", context.site.shown(file));
            return Some(Verdict::new(Code::LibraryNotFound, message).weighing(Severity::Note));
        }
        if is_plugin && is_loaded_elsewhere(context, wheel, path) {
            let message = format!(
                "{message}; the program that loads this plug-in may have loaded it before, as other files of the wheel do"
            );
            return Some(Verdict::new(Code::LibraryNotFound, message).weighing(Severity::Note));
        }
        // Other code may load it first, which only a run would show.
        return Some(Verdict::new(Code::LibraryNotFound, message).weighing(Severity::Warning));
    }
    let distribution = &context.site.distributions[owner].name;
    if !context.requirements[wheel].closure(context, wheel).contains(&owner) {
        let message = format!(" of `{distribution}`, which METADATA does not require");
        return Some(Verdict::new(Code::MissingRequirement, message).fixed_by(fix::require(installed, distribution)));
    }
    if context.lists(wheel).next().is_some() {
        let message =
            format!(", which `{distribution}` has as `{shown}`, and neither the preload list nor a search path has it");
        return Some(
            Verdict::new(Code::PreloadList, message).weighing(Severity::Error).fixed_by(fix::preload(installed)),
        );
    }
    let loader_file = context.loader_file(owner, path);
    let message = match loader_file {
        Some(file) => format!(
            ", which `{distribution}` has as `{shown}`; `{}` loads it by its path, as far as can be read, and no `__init__.py` is seen to import that",
            context.site.shown(file)
        ),
        None => format!(
            ", which `{distribution}` has as `{shown}`, but no search path leads there and nothing is known to load it before"
        ),
    };
    // A graft would put a second copy into the process, beside the one of the requirement, so none
    // is proposed.
    let is_rocm = Owners::embedded().of(name).is_some_and(LibraryOwner::is_rocm);
    let fix = is_rocm.then(|| fix::rocm(installed)).flatten();
    let verdict = Verdict::new(Code::LibraryNotFound, message).fixed_by(fix);
    // A package may load it with ctypes, which only a run would show.
    let closure = context.requirements[wheel].closure(context, wheel);
    let mut loads = context.preloads.ctypes.iter();
    let is_loaded = loader_file.is_some()
        || loads.any(|load| {
            let by = context.owner(&load.file);
            (by == Some(wheel) || by.is_some_and(|by| closure.contains(&by)))
                && load.name.as_deref().is_none_or(|loaded| file_name(loaded) == name)
        });
    Some(if is_loaded { verdict.weighing(Severity::Warning) } else { verdict })
}

/// `true` if an extension module or a program of the wheel loads this file of it.
fn is_loaded_elsewhere(context: &Context<'_>, wheel: usize, path: &str) -> bool {
    let rooted = context.rooted.iter().filter(|rooted| rooted.wheel == wheel && rooted.kind != RootKind::Plugin);
    rooted.into_iter().any(|rooted| rooted.trace.position(path).is_some())
}

fn unknown_library(context: &Context<'_>, wheel: usize, missing: &FailedLookup) -> Verdict {
    let installed = &context.site.distributions[wheel];
    if let Some(verdict) = of_rocms_packages(context, wheel, missing) {
        return verdict;
    }
    let unknown = context.requirements[wheel].unknown(context);
    let outside: Vec<&str> =
        missing.searched.iter().map(String::as_str).filter(|entry| entry.starts_with('/')).collect();
    let code = if outside.is_empty() { Code::LibraryNotFound } else { Code::LibraryOutside };
    let mut message = if outside.is_empty() {
        let system = if context.is_for_musl(wheel) { "no system of musllinux" } else { "no system" };
        format!(", which no wheel of the set brings and {system} promises")
    } else {
        format!(", which is looked for in {} only", listed(outside.iter().copied()))
    };
    if unknown.is_empty() {
        return Verdict::new(code, message).naming(outside).fixed_by(fix::repair(installed));
    }
    // A search path leads into the folder of a package that is not in the set.
    if missing.searched.iter().any(|entry| neighbour(context, wheel, entry).is_some()) {
        let them = if unknown.len() == 1 { "it was" } else { "they were" };
        let list = listed(unknown.iter().map(String::as_str));
        let message = format!(", which the search path expects in a package of {list}; {them} not given");
        return Verdict::new(Code::NotGiven, message).naming(unknown.clone()).open(context, wheel, unknown);
    }
    message.push_str(&format!("; {}", not_given(&unknown)));
    // A requirement may have it; a copy in this wheel would then be a second one in the process.
    Verdict::new(code, message).weighing(Severity::Warning).naming(outside).open(context, wheel, unknown)
}

/// A library that no table knows and that the search path expects in a package of ROCm, such as
/// the `libomp.so` of its compiler. `None` for all others.
fn of_rocms_packages(context: &Context<'_>, wheel: usize, missing: &FailedLookup) -> Option<Verdict> {
    let mut folders = missing.searched.iter().filter_map(|entry| neighbour(context, wheel, entry));
    let folder = folders.find(|folder| folder.starts_with("_rocm_sdk_"))?;
    let rocm = Owners::embedded().of(RUNTIME_OF_ROCM)?;
    let expected = format!(" of {}, which the search path expects in `{folder}`", rocm.name);
    let installed = &context.site.distributions[wheel];
    Some(match context.requirements[wheel].brings(context, rocm) {
        Brought::By(distribution) => {
            let message = format!("{expected}; `{distribution}` should bring it and was not given");
            Verdict::new(Code::NotGiven, message).open(context, wheel, vec![distribution])
        }
        Brought::ByExtra(extra) => {
            let message = format!("{expected}, and which only the extra `{extra}` requires");
            let verdict = Verdict::new(Code::MissingRequirement, message).weighing(Severity::Warning);
            verdict.fixed_by(fix::rocm(installed))
        }
        Brought::No(_) => {
            let message = format!("{expected}, and METADATA requires nothing that brings it");
            Verdict::new(Code::MissingRequirement, message).fixed_by(fix::rocm(installed))
        }
    })
}

/// The folder beside the packages of the wheel that an entry of a search path names, if it is not
/// in the set.
fn neighbour<'e>(context: &Context<'_>, wheel: usize, entry: &'e str) -> Option<&'e str> {
    let mut parts = entry.split('/').filter(|part| !part.is_empty() && *part != ".");
    if !parts.next().is_some_and(|first| ["$ORIGIN", "${ORIGIN}"].contains(&first)) {
        return None;
    }
    let folder = parts.find(|part| *part != "..")?;
    let packages = context.site.packages();
    let is_there = context.site.has_folder(&format!("{packages}/{folder}"));
    let is_own = context.paths(wheel).iter().any(|path| context.site.shown(path).split('/').any(|part| part == folder));
    // Grafted libraries go into the wheel's own `.libs` folder, even if it does not exist yet.
    (entry.contains("..") && !is_there && !is_own && !folder.ends_with(".libs")).then_some(folder)
}

/// Libraries that are loaded by name. The tables list which of them a library cannot work without.
pub(super) fn loaded_by_name(context: &Context<'_>, findings: &mut Vec<Finding>) {
    let table = DlopenTable::embedded();
    let mut names: BTreeSet<&str> = context.site.files.keys().map(|path| file_name(path)).collect();
    names.extend(context.facts.native().filter_map(|(_, object)| object.elf.soname.as_deref()));
    for (wheel, _) in context.audited() {
        let mut wanted: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for path in context.paths(wheel) {
            let object = context.facts.objects.get(*path);
            let soname = object.and_then(|object| object.elf.soname.as_deref());
            // The table lists what any build of a library loads; this build may lack some of the
            // names.
            let named = object.and_then(|object| object.loads.as_ref());
            let loads = table.of(soname.unwrap_or_else(|| file_name(path))).iter();
            for load in loads.filter(|load| load.required) {
                let is_named = named.is_none_or(|names| {
                    names.iter().any(|name| load.matches(name) || load.matches(&format!("{name}.0")))
                });
                let is_there = names.iter().any(|name| load.matches(name));
                if is_named && !is_there && !Policies::built_in().provides(&load.pattern) {
                    wanted.entry(load.pattern.clone()).or_default().push(path);
                }
            }
        }
        for (pattern, paths) in wanted {
            let library = pattern.trim_end_matches(".*");
            let owner = Owners::embedded().of(library);
            let brought = owner.map(|owner| context.requirements[wheel].brings(context, owner));
            findings.push(if let Some(Brought::By(distribution)) = brought {
                let message =
                    format!("loads `{library}` at run time, which `{distribution}` should bring; it was not given");
                let open = Verdict::new(Code::NotGiven, "").open(context, wheel, vec![distribution]);
                open.settle(context.finding((Code::NotGiven, wheel), library, message, paths))
            } else {
                let message = format!(
                    "loads `{library}` at run time and does not work without it, and no wheel of the set has it"
                );
                context.finding((Code::DlopenMissing, wheel), library, message, paths)
            });
        }
    }
}
