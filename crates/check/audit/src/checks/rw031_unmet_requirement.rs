//! RW031: a requirement is met neither by the index that was asked nor by the environment
//! ([`crate::analysis::missing`]).

use rocwheel_index::{Unmet, UnmetKind};
use rocwheel_loader::site::Distribution;
use rocwheel_wheel::PythonVersion;

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::{AuditScope, ExtraCheck};

pub const CHECK: Check = Check { code: Code::UnmetRequirement, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    context.missing_libraries(Code::UnmetRequirement, findings);
    let search = context.options.search.as_ref().filter(|search| search.has_index);
    for unmet in search.into_iter().flat_map(|search| &search.unmet) {
        findings.extend(of_index(context, unmet));
    }
    Ok(())
}

/// The finding about a requirement that no index meets. `None` if it names a wheel of the set,
/// whose version RW012 compares.
fn of_index(context: &Context<'_>, unmet: &Unmet) -> Option<Finding> {
    let Unmet { requirer, requirement, name, reason, kind } = unmet;
    if context.site.distributions.iter().any(|distribution| distribution.name == *name) {
        return None;
    }
    let own = context.audited().map(|(_, installed)| installed).find(|installed| is_it(installed, requirer));
    let (message, severity) = match (own, kind) {
        (Some(_), UnmetKind::Impossible) => (format!("requires `{requirement}`, and {reason}"), Severity::Error),
        (Some(installed), UnmetKind::OtherPython) => {
            let is_certain = context.options.extras.contains(&ExtraCheck::Python) || is_for_one_python(installed);
            let python: PythonVersion = context.site.place.python;
            let severity = if is_certain { Severity::Error } else { Severity::Warning };
            (format!("requires `{requirement}`, and for Python {python} {reason}"), severity)
        }
        (Some(_), UnmetKind::Open) => (format!("requires `{requirement}`: {reason}"), Severity::Warning),
        (None, _) => (format!("`{requirer}` requires `{requirement}`, and {reason}"), Severity::Warning),
    };
    let finding = Finding::new(Code::UnmetRequirement, requirement.clone(), message).weighing(severity);
    Some(match own {
        Some(installed) => finding.of(installed.file_name()),
        None => finding,
    })
}

/// `true` if this is the distribution that the search names `torch 2.9.0`.
fn is_it(installed: &Distribution, requirer: &str) -> bool {
    requirer.split(' ').next() == Some(&installed.name)
}

/// `true` if the tags name one release of CPython, without the stable ABI.
fn is_for_one_python(installed: &Distribution) -> bool {
    let pythons = installed.pythons();
    pythons.len() == 1
        && pythons[0].strip_prefix("cp3").is_some_and(|minor| !minor.is_empty())
        && !installed.abis().iter().any(|abi| abi == "abi3" || abi == "none")
}
