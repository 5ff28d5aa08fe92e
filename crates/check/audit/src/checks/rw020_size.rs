//! RW020: a wheel is too large to publish.

use rocwheel_loader::site::Distribution;

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::Size, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (_, installed) in context.audited() {
        sizes(installed, findings);
    }
    Ok(())
}

const MEGABYTE: u64 = 1_000_000;

const GIBIBYTE: u64 = 1 << 30;

/// The index or host that refuses a file of `size` bytes, and the severity.
fn gate(size: u64) -> Option<(&'static str, Severity)> {
    match size {
        _ if size >= 2 * GIBIBYTE => {
            Some(("PyPI takes no more than 1 GB and GitHub less than 2 GiB", Severity::Warning))
        }
        _ if size > 1000 * MEGABYTE => Some(("PyPI takes no more than 1 GB", Severity::Warning)),
        _ if size > 100 * MEGABYTE => Some(("PyPI takes more than 100 MB only after a request", Severity::Note)),
        _ => None,
    }
}

fn sizes(installed: &Distribution, findings: &mut Vec<Finding>) {
    // An installed distribution is not published.
    let size = if installed.wheel().is_some() { installed.size() } else { 0 };
    if let Some((limit, severity)) = gate(size) {
        let message = format!("the wheel has {} MB, and {limit}", size.div_ceil(MEGABYTE));
        findings.push(Finding::new(Code::Size, "size", message).of(installed.file_name()).weighing(severity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_those_of_the_indexes() {
        let severity = |size| gate(size).map(|(_, severity)| severity);
        assert_eq!(severity(100_000_000), None);
        assert_eq!(severity(100_000_001), Some(Severity::Note));
        assert_eq!(severity(1_000_000_000), Some(Severity::Note));
        assert_eq!(severity(1_000_000_001), Some(Severity::Warning));
        assert!(gate((2 << 30) - 1).unwrap().0.ends_with("1 GB") && gate(2 << 30).unwrap().0.contains("GitHub"));
    }
}
