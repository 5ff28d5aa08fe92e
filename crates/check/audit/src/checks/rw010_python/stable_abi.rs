//! Input: the symbols that modules of the stable ABI (`.abi3.so`) need, and `data/stable-abi.txt`.
//! Output: the symbols that some Python of the tag may lack (RW010, as a warning: PEP 384 promises
//! only the symbols of the table).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rocwheel_elf::{Lookup, NameHash};

use crate::analysis::traces::Rooted;
use crate::analysis::{Context, listed};
use crate::finding::{Code, Finding, Severity};

const TABLE: &str = include_str!("../../../../../../data/stable-abi.txt");

/// Symbols of the stable ABI, each with the minor version of Python 3 that added it.
static ADDED: LazyLock<BTreeMap<&str, u16>> = LazyLock::new(|| {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|row| {
        let (name, version) = row.split_once(' ')?;
        Some((name, version.strip_prefix("3.")?.parse().ok()?))
    })
    .collect()
});

/// Why a symbol breaks the promise of the stable ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Breach {
    /// No version of the stable ABI has it.
    Outside,
    /// This minor version of Python 3, which is later than the first that the tag allows, added it.
    Since(u16),
}

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for rooted in context.rooted.iter().filter(|rooted| rooted.path.ends_with(".abi3.so")) {
        let Some(object) = context.facts.objects.get(&rooted.path).filter(|_| context.is_audited(rooted.wheel)) else {
            continue;
        };
        let Ok(symbols) = &object.symbols else { continue };
        let oldest = oldest(&context.site.distributions[rooted.wheel].pythons());
        let mut breaches: BTreeMap<Breach, Vec<&str>> = BTreeMap::new();
        for needed in symbols.undefined().filter(|symbol| !symbol.weak).map(|symbol| symbol.name) {
            if let Some(breach) = breach(needed, oldest).filter(|_| !may_be_of_another(context, rooted, needed)) {
                breaches.entry(breach).or_default().push(needed);
            }
        }
        for (breach, mut names) in breaches {
            names.sort_unstable();
            let list = listed(names.iter().copied());
            let are = if names.len() == 1 { "is" } else { "are" };
            let message = match (breach, oldest) {
                (Breach::Since(minor), Some(oldest)) => format!(
                    "needs {list}, which {are} in the stable ABI since Python 3.{minor}; the tag promises 3.{oldest}"
                ),
                _ => format!("needs {list}, which {are} outside of the stable ABI: another Python may not have it"),
            };
            let finding = context.finding((Code::Python, rooted.wheel), names[0], message, [rooted.path.as_str()]);
            findings.push(finding.weighing(Severity::Warning).naming(names));
        }
    }
}

/// `true` if a library that the module loads defines the symbol, or may define it because the
/// library was not found. Shiboken's library, for example, defines functions of Python that are not
/// in the stable ABI.
fn may_be_of_another(context: &Context<'_>, rooted: &Rooted, name: &str) -> bool {
    !rooted.trace.missing.is_empty()
        || rooted.trace.loaded.iter().any(|loaded| {
            let path = loaded.place.site();
            let symbols = path.and_then(|path| context.facts.objects.get(path)?.symbols.as_ref().ok());
            symbols.is_some_and(|symbols| symbols.find(NameHash::of(name), None) != Lookup::Missing)
        })
}

fn breach(name: &str, oldest: Option<u16>) -> Option<Breach> {
    if !(name.starts_with("Py") || name.starts_with("_Py")) {
        return None;
    }
    match (ADDED.get(name), oldest) {
        (None, _) => Some(Breach::Outside),
        (Some(&added), Some(oldest)) if added > oldest => Some(Breach::Since(added)),
        _ => None,
    }
}

/// The minor version of the first Python 3 that tags such as `cp39` allow.
fn oldest(pythons: &[String]) -> Option<u16> {
    pythons.iter().filter_map(|tag| tag.strip_prefix("cp3")?.parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_in_the_stable_abi_from_a_version_on() {
        assert_eq!(breach("PyList_New", Some(2)), None);
        assert_eq!(breach("PyObject_Vectorcall", Some(9)), Some(Breach::Since(12)));
        assert_eq!(breach("PyObject_Vectorcall", Some(12)), None);
        assert_eq!(breach("_PyGen_SetStopIterationValue", Some(12)), Some(Breach::Outside));
        assert_eq!(breach("memcpy", Some(2)), None);
        assert_eq!(oldest(&["cp39".to_owned(), "cp310".to_owned()]), Some(9));
        assert!(ADDED.len() > 900);
    }
}
