//! Input: the search paths of the audited files. Output: entries that lead out of the environment (RW003).

use std::collections::BTreeMap;

use super::Context;
use crate::finding::{Code, Finding};
use crate::fix;

/// What is wrong with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// An absolute path.
    Absolute,
    /// More steps up than the environment is deep.
    Climbs,
    /// Empty, or relative to the folder that the process happens to run in.
    Current,
}

/// Looks at DT_RUNPATH where there is one, else DT_RPATH: the loader does not read the other one.
pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for (wheel, installed) in context.audited() {
        let mut entries: BTreeMap<(&str, Fault), Vec<&str>> = BTreeMap::new();
        for (path, object) in context.native(wheel) {
            let Some(search_path) = object.elf.search_path().filter(|text| !text.is_empty()) else { continue };
            for entry in search_path.split(':') {
                if let Some(fault) = fault(entry, path) {
                    entries.entry((entry, fault)).or_default().push(path);
                }
            }
        }
        for ((entry, fault), paths) in entries {
            let message = match fault {
                Fault::Absolute => format!("the search path has the absolute entry `{entry}`{}", origin(entry)),
                Fault::Climbs => format!("the entry `{entry}` of the search path climbs out of the environment"),
                Fault::Current if entry.is_empty() => {
                    "the search path has an empty entry, which means the folder that the process runs in".to_owned()
                }
                Fault::Current => {
                    format!("the entry `{entry}` of the search path is relative to the folder that the process runs in")
                }
            };
            let finding = context.finding((Code::SearchPath, wheel), entry, message, paths);
            findings.push(finding.fixed_by(fix::remove_rpath(installed, entry)));
        }
    }
}

/// Whose folder an absolute entry is.
fn origin(entry: &str) -> &'static str {
    let is_home = ["/home/", "/root/", "/Users/"].iter().any(|start| entry.starts_with(start));
    let is_builder = ["/tmp/", "/build", "/project", "/io/", "/workspace", "/opt/hostedtoolcache", "/__w/", "/github/"]
        .iter()
        .any(|start| entry.starts_with(start));
    if is_home {
        ", the home directory of whoever built it"
    } else if is_builder {
        ", a folder of the machine that built it"
    } else {
        ", where libraries of the machine win over those of the set"
    }
}

/// What is wrong with an entry of the search path of the file at `path`, which is relative to the environment.
fn fault(entry: &str, path: &str) -> Option<Fault> {
    let rest = ["$ORIGIN", "${ORIGIN}"].iter().find_map(|origin| entry.strip_prefix(origin));
    let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
        return Some(if entry.starts_with('/') { Fault::Absolute } else { Fault::Current });
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
