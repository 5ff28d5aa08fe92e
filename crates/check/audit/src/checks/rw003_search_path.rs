//! RW003: an entry of the search path of an audited file leads out of the environment.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::analysis::{Context, file_name, listed};
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::fix;
use crate::fix::Fix;
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::SearchPath, scope: AuditScope::Files, run };

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// In a user's home directory.
    Home,
    /// In a folder that build machines use.
    Builder,
    /// Another absolute path.
    Absolute,
    /// More `..` than the environment has levels.
    Climbs,
    /// Empty, or relative to the working directory of the process.
    Current,
}

/// Checks DT_RUNPATH, or DT_RPATH in files without it: the loader ignores DT_RPATH beside
/// DT_RUNPATH.
fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        let mut groups: BTreeMap<Fault, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
        for (path, object) in context.native(wheel) {
            let Some(search_path) = object.elf.search_path().filter(|text| !text.is_empty()) else { continue };
            for entry in search_path.split(':') {
                if let Some(fault) = fault(entry, path) {
                    let group = groups.entry(fault).or_default();
                    group.0.insert(entry);
                    group.1.insert(path);
                }
            }
        }
        for (fault, (entries, paths)) in groups {
            let list = listed(entries.iter().copied());
            let message = match fault {
                Fault::Home => format!("the search path leads to the home directory of the user who built it: {list}"),
                Fault::Builder => format!("the search path leads to a folder of the machine that built it: {list}"),
                Fault::Absolute => {
                    format!("the search path is absolute, and what it finds there wins over the set: {list}")
                }
                Fault::Climbs => format!("the search path climbs out of the environment: {list}"),
                Fault::Current if entries.contains("") => {
                    "the search path has an empty entry, which means the folder that the process runs in".to_owned()
                }
                Fault::Current => {
                    format!("the search path is relative to the folder that the process runs in: {list}")
                }
            };
            let subject = entries.iter().copied().collect::<Vec<_>>().join(":");
            let mend = match fault {
                Fault::Home | Fault::Builder | Fault::Absolute => {
                    fix::relative_search_paths(&context.site.distributions[wheel])
                }
                Fault::Climbs | Fault::Current => mend(context, wheel, &paths),
            };
            findings.push(context.finding((Code::SearchPath, wheel), subject, message, paths).fixed_by(mend));
        }
    }
    Ok(())
}

/// The command that removes the faulty entries from the search paths of some files.
fn mend(context: &Context<'_>, wheel: usize, paths: &BTreeSet<&str>) -> Option<Fix> {
    let mut kept: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    let (mut others, mut lacking) = (false, false);
    for (path, object) in context.native(wheel) {
        let Some(search_path) = object.elf.search_path().filter(|text| !text.is_empty()) else {
            lacking = true;
            continue;
        };
        if !paths.contains(path) {
            others = true;
            continue;
        }
        let good: Vec<&str> = search_path.split(':').filter(|entry| fault(entry, path).is_none()).collect();
        let good = (!good.is_empty()).then(|| good.join(":"));
        kept.entry(good).or_default().push(context.member(path));
    }
    // Files without a search path must not get one.
    let is_all = !others && kept.len() == 1 && (!lacking || kept.contains_key(&None));
    let files = kept.into_iter().flat_map(|(good, members)| {
        let is_all = is_all && members.iter().all(|member| file_name(member).contains(".so"));
        let patterns = if is_all { vec!["*.so*".to_owned()] } else { members };
        patterns.into_iter().map(move |pattern| (pattern, good.clone()))
    });
    fix::search_paths(&context.site.distributions[wheel], &files.collect::<Vec<_>>())
}

/// Classifies an absolute entry by the folder that it leads into.
fn origin(entry: &str) -> Fault {
    const HOMES: [&str; 3] = ["/home/", "/root/", "/Users/"];
    const BUILDERS: [&str; 9] = [
        "/tmp/",
        "/build",
        "/project",
        "/io/",
        "/workspace",
        "/opt/hostedtoolcache",
        "/opt/rh/",
        "/__w/",
        "/opt/_internal",
    ];
    if HOMES.iter().any(|start| entry.starts_with(start)) {
        Fault::Home
    } else if BUILDERS.iter().any(|start| entry.starts_with(start)) {
        Fault::Builder
    } else {
        Fault::Absolute
    }
}

/// The fault of an entry in the search path of the file at `path`, which is relative to the
/// environment; `None` for a good entry.
fn fault(entry: &str, path: &str) -> Option<Fault> {
    let rest = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|origin| entry.strip_prefix(origin));
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return Some(if entry.starts_with('/') { origin(entry) } else { Fault::Current });
    };
    let mut depth = path.matches('/').count();
    for step in rest.split('/').filter(|step| !step.is_empty() && *step != ".") {
        if step == ".." {
            match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return Some(Fault::Climbs),
            }
        } else {
            depth += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stay_in_the_environment_or_not() {
        let path = "lib/python3.12/site-packages/a/b.so";
        for good in ["$ORIGIN", "${ORIGIN}/../a.libs", "$ORIGIN/../../../..", "$ORIGIN/./x/../../.."] {
            assert_eq!(fault(good, path), None, "{good}");
        }
        for (bad, why) in [
            ("/opt/rocm/lib", Fault::Absolute),
            ("/home/me/envs/lib", Fault::Home),
            ("/opt/rh/gcc-toolset-9/root/usr/lib", Fault::Builder),
            ("", Fault::Current),
            ("lib", Fault::Current),
            ("$ORIGINS/x", Fault::Current),
            ("$ORIGIN/../../../../..", Fault::Climbs),
            ("$ORIGIN/../../../../../usr/lib", Fault::Climbs),
        ] {
            assert_eq!(fault(bad, path), Some(why), "{bad}");
        }
    }
}
