//! RW005: nothing that a file loads defines a symbol that it uses.
//!
//! A file is judged only when all its libraries were found and when its system libraries give
//! versions to all their symbols. Otherwise the symbols that they define are unknown. Python binds
//! all symbols of an extension module when it loads the module, and hides the symbols of modules
//! from each other. So the libraries that a module loads must define every symbol that it uses.

mod system_symbols;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use rocwheel_elf::{DynamicSymbols, Lookup, NameHash};
use rocwheel_loader::simulation::Where;

use crate::Error;
use crate::analysis::traces::{RootKind, Rooted, has_module_tag};
use crate::analysis::verdict::Verdict;
use crate::analysis::{Context, file_name, listed, not_given};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::UndefinedSymbol, scope: AuditScope::Files, run };

/// System libraries that give versions to all their symbols. A file that is linked to one needs its
/// symbols with a version.
const VERSIONED: [&str; 13] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
    "libanl.so.1",
    "libmvec.so.1",
    "libnsl.so.1",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
];

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    let judged: Vec<&Rooted> = context.rooted.iter().filter(|rooted| is_known(rooted)).collect();
    let answers: Result<Vec<Vec<(&str, String)>>, Error> = judged
        .par_iter()
        .map(|rooted| {
            context.reporter.check()?;
            Ok(open(context, rooted).unwrap_or_default())
        })
        .collect();
    // (wheel, file) → names; the file belongs to the wheel. It uses the symbol, or it loads the
    // file that uses it.
    let mut groups: BTreeMap<(usize, &str, &str), BTreeSet<String>> = BTreeMap::new();
    for (rooted, answer) in judged.into_iter().zip(answers?) {
        for (user, name) in answer {
            let owner = context.owner(user).filter(|owner| context.is_audited(*owner));
            let (wheel, file) = owner.map_or((rooted.wheel, rooted.path.as_str()), |owner| (owner, user));
            groups.entry((wheel, file, user)).or_default().insert(name);
        }
    }
    for ((wheel, file, user), names) in groups {
        let list = listed(names.iter().map(String::as_str));
        let what = if file == user { "uses".to_owned() } else { format!("loads `{}`, which uses", file_name(user)) };
        let unknown = context.requirements[wheel].unknown(context);
        let mut message = format!("{what} {list}, which nothing that it loads defines");
        if !unknown.is_empty() {
            message.push_str(&format!("; {}", not_given(&unknown)));
        }
        let subject = names.first().cloned().unwrap_or_default();
        let mut finding = context.finding((Code::UndefinedSymbol, wheel), subject, message, [file]);
        if !unknown.is_empty() {
            let open = Verdict::new(Code::UndefinedSymbol, "").open(context, wheel, unknown);
            finding = open.settle(finding.weighing(Severity::Warning));
        }
        findings.push(finding.naming(names));
    }
    Ok(())
}

/// `true` if every library that a file could take symbols from is known.
fn is_known(rooted: &Rooted) -> bool {
    rooted.kind != RootKind::Plugin
        && rooted.trace.missing.is_empty()
        && rooted.trace.loaded.iter().all(|loaded| match &loaded.place {
            Where::Site(_) => true,
            Where::System(name) => VERSIONED.contains(&file_name(name)),
        })
}

/// The symbols that are unresolved when a file is loaded, each with the file that uses it. `None`
/// for a file that is not the module it seems to be, or whose symbols cannot be read.
fn open<'a>(context: &'a Context<'_>, rooted: &'a Rooted) -> Option<Vec<(&'a str, String)>> {
    let paths: Vec<&str> = rooted.trace.loaded.iter().filter_map(|loaded| loaded.place.site()).collect();
    // If a table cannot be read, nothing is known about the files that use its symbols.
    let tables = paths.iter().map(|path| context.facts.objects.get(*path)?.symbols.as_ref().ok());
    let tables: Vec<&DynamicSymbols> = tables.collect::<Option<_>>()?;
    let own = paths.iter().position(|path| *path == rooted.path)?;
    if rooted.kind == RootKind::Extension && !has_module_tag(file_name(&rooted.path)) {
        // A plugin of another program may look like a module; the program defines its symbols.
        let name = file_name(&rooted.path).split('.').next().unwrap_or_default();
        if tables[own].find(NameHash::of(&format!("PyInit_{name}")), None) != Lookup::Found {
            return None;
        }
    }
    // A file that is not linked to libstdc++ itself needs no versions of its symbols.
    let has_cpp_library = rooted.trace.loaded.iter().any(|loaded| match &loaded.place {
        Where::System(name) => file_name(name) == "libstdc++.so.6",
        Where::Site(_) => false,
    });
    let mut answer = Vec::new();
    for (path, table) in paths.iter().zip(&tables) {
        let is_preloaded = rooted.preloaded.iter().any(|preloaded| preloaded == path);
        // A file that is linked to nothing takes its symbols from the process, including those of
        // glibc.
        let Some(object) = context.facts.objects.get(*path).filter(|_| !is_preloaded) else { continue };
        let system: BTreeSet<&str> =
            object.elf.needed.iter().map(String::as_str).filter(|name| VERSIONED.contains(name)).collect();
        for needed in table.undefined().filter(|needed| !needed.weak) {
            let is_systems = match (needed.version, needed.library) {
                (Some(_), Some(library)) => {
                    system.contains(library) && !paths.iter().any(|path| file_name(path) == library)
                }
                _ => {
                    system_symbols::has(needed.name)
                        || has_cpp_library && system_symbols::is_of_cpp_library(needed.name)
                }
            };
            if !is_systems && !tables.iter().any(|table| table.find(needed.hash, needed.version) == Lookup::Found) {
                answer.push((*path, needed.name.to_owned()));
            }
        }
    }
    Some(answer)
}
