//! Names of GPU targets, families and groups, and which of them have code for a GPU.

use std::collections::BTreeSet;

use rocwheel_tables::{DevicePackages, TargetTable};

/// `true` if code for one of these targets, or for a group that it belongs to, runs on a target.
pub(crate) fn is_covered(target: &str, kernels: &BTreeSet<String>) -> bool {
    let packages = DevicePackages::embedded();
    let names: BTreeSet<String> = kernels.iter().map(|kernel| kernel.replace('_', "-")).collect();
    packages.chain(target).iter().any(|name| names.contains(&name.replace('_', "-")))
        || kernels.iter().any(|kernel| TargetTable::embedded().members(kernel).contains(&target))
}

/// Names of targets for a sentence.
pub(crate) fn listed(targets: &BTreeSet<String>) -> String {
    if targets.is_empty() { "no GPU".to_owned() } else { targets.iter().cloned().collect::<Vec<_>>().join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_for_a_group_runs_on_its_members() {
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        assert!(is_covered("gfx942", &set("gfx942")) && is_covered("gfx942", &set("gfx9-4-generic")));
        assert!(is_covered("gfx1100", &set("gfx110X-all")) && is_covered("gfx1201", &set("gfx12-0")));
        assert!(!is_covered("gfx1152", &set("gfx1151")) && !is_covered("gfx942", &BTreeSet::new()));
    }
}
