//! Input: the suffixes of modules, and the platforms of a wheel. Output: the modules that Python
//! does not look for on these systems, because their suffix names another C library or machine (PEP
//! 3149; the triplets are those of CPython's `configure`).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_wheel::PlatformTag;

use super::{Modules, Suits};
use crate::analysis::machine::machine_of;
use crate::analysis::{Context, file_name, listed, platform_tags};
use crate::finding::{Code, Finding};

/// The first Python 3 whose suffixes distinguish musl from glibc (bpo-43112).
const FIRST_WITH_MUSL: u32 = 11;

/// Reports modules all of whose files are for other systems than the tags, and takes such files out
/// of `modules`.
pub(super) fn of_other_systems(
    context: &Context<'_>,
    wheel: usize,
    modules: &mut Modules<'_>,
    findings: &mut Vec<Finding>,
) {
    let Some(systems) = systems(context, wheel) else { return };
    let mut wrong: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for files in modules.values_mut() {
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            files.iter().cloned().partition(|(path, suits)| fits(context, path, suits, &systems));
        if let ([], [(path, _), ..]) = (&here[..], &elsewhere[..]) {
            wrong.entry(triplet(path).unwrap_or_default().to_owned()).or_default().push(path);
        } else {
            *files = here;
        }
    }
    for (triplet, paths) in wrong {
        let names: BTreeSet<String> = systems.iter().map(|system| system.triplet.clone()).collect();
        let wanted = listed(names.iter().map(String::as_str));
        let message = format!(
            "is named for {triplet}, and Python on the systems of the tag looks for names with {wanted}: \
             `No module named …`"
        );
        findings.push(context.finding((Code::Python, wheel), triplet, message, paths));
    }
}

/// A system that the tags of a wheel promise.
struct ModuleSystem {
    /// The end of the suffix: `x86_64-linux-gnu`.
    triplet: String,
    /// The machine as tags write it; empty for Windows.
    machine: String,
}

/// The systems of the tags; `None` if a tag is for systems whose suffixes are not known.
fn systems(context: &Context<'_>, wheel: usize) -> Option<Vec<ModuleSystem>> {
    let mut systems = Vec::new();
    for (tag, platform) in platform_tags(&context.site.distributions[wheel]) {
        let libraries: &[&str] = match &platform {
            PlatformTag::Manylinux { .. } => &["gnu"],
            PlatformTag::Musllinux { .. } => &["musl"],
            PlatformTag::Linux { .. } => &["gnu", "musl"],
            PlatformTag::Other if tag.starts_with("win") => {
                systems.push(ModuleSystem { triplet: tag, machine: String::new() });
                continue;
            }
            PlatformTag::Any | PlatformTag::Other => return None,
        };
        let machine = platform.machine()?;
        for library in libraries {
            systems.push(ModuleSystem { triplet: of_linux(machine, library)?, machine: machine.to_owned() });
        }
    }
    (!systems.is_empty()).then_some(systems)
}

/// The triplet of a machine and a C library.
fn of_linux(machine: &str, library: &str) -> Option<String> {
    let cpu = match machine {
        "x86_64" | "aarch64" | "s390x" | "riscv64" => machine,
        "i686" => "i386",
        "ppc64le" => "powerpc64le",
        "armv7l" => return Some(format!("arm-linux-{library}eabihf")),
        _ => return None,
    };
    Some(format!("{cpu}-linux-{library}"))
}

/// The end of a module's suffix, which names its system; `None` if it has none.
fn triplet(path: &str) -> Option<&str> {
    let (_, suffix) = file_name(path).split_once('.')?;
    let tag = suffix.strip_suffix(".so").or_else(|| suffix.strip_suffix(".pyd"))?;
    let version = tag.strip_prefix("cpython-").or_else(|| tag.strip_prefix("cp"))?;
    version.split_once('-').map(|(_, triplet)| triplet)
}

/// `true` if Python imports a file on one of the systems, as far as its suffix says.
fn fits(context: &Context<'_>, path: &str, suits: &Suits, systems: &[ModuleSystem]) -> bool {
    let Some(triplet) = triplet(path) else { return true };
    // A file for another machine is RW026, whatever its name.
    let machine = context.facts.objects.get(path).map(machine_of);
    if machine.is_some_and(|machine| systems.iter().all(|system| system.machine != machine)) {
        return true;
    }
    let is_old = matches!(suits, Suits::One(python) if minor(python).is_some_and(|minor| minor < FIRST_WITH_MUSL));
    systems
        .iter()
        .any(|system| system.triplet == triplet || is_old && system.triplet.replace("-musl", "-gnu") == triplet)
}

/// 12 for `cp312` and `cp312t`.
fn minor(python: &str) -> Option<u32> {
    python.strip_prefix("cp3")?.trim_end_matches(['t', 'm', 'd']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_name_systems() {
        for (path, expected) in [
            ("a/_x.cpython-312-x86_64-linux-gnu.so", Some("x86_64-linux-gnu")),
            ("_x.cpython-313t-x86_64-linux-musl.so", Some("x86_64-linux-musl")),
            ("_x.cp312-win_amd64.pyd", Some("win_amd64")),
            ("_x.abi3.so", None),
            ("_x.so", None),
            ("_x.cpython-312.so", None),
        ] {
            assert_eq!(triplet(path), expected, "{path}");
        }
        assert_eq!(of_linux("armv7l", "musl").as_deref(), Some("arm-linux-musleabihf"));
        assert_eq!(of_linux("i686", "gnu").as_deref(), Some("i386-linux-gnu"));
        assert_eq!((minor("cp310"), minor("cp313t"), minor("pypy310")), (Some(10), Some(13), None));
    }
}
