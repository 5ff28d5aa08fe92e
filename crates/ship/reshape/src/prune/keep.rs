//! Input: GPU targets and families as the user names them. Output: a decision for each target if
//! its code is kept.

use std::collections::BTreeSet;

use rocwheel_progress::{Exit, Failure};
use rocwheel_tables::TargetTable;
use rocwheel_tables::target::TargetId;

#[derive(Debug, Clone)]
pub struct Keep {
    wanted: Vec<Wanted>,
}

/// One name of the list, and the targets it expands to.
#[derive(Debug, Clone)]
struct Wanted {
    name: String,
    targets: Vec<TargetId>,
}

impl Keep {
    /// Parses a list of targets and families, separated by `,` or `;`. Names in the table are
    /// accepted, and targets of the same form that the table lacks (`gfx803`, `gfx9-4-generic`),
    /// because files may have code for them.
    ///
    /// # Errors
    /// Other names, or an empty list.
    pub fn parse(list: &str, table: &TargetTable) -> Result<Self, Failure> {
        let mut wanted = Vec::new();
        for name in list.split([',', ';']).map(str::trim).filter(|name| !name.is_empty()) {
            let members = table.members(name);
            let targets = match name.parse::<TargetId>() {
                _ if !members.is_empty() => members.into_iter().map(TargetId::plain).collect(),
                Ok(target) if rocwheel_tables::target::is_processor(&target.processor) => vec![target],
                Err(failure) if name.contains(':') => return Err(failure.with_exit(Exit::Usage)),
                _ => table.expand(name)?.into_iter().map(TargetId::plain).collect(),
            };
            wanted.push(Wanted { name: name.to_owned(), targets });
        }
        if wanted.is_empty() {
            let failure = Failure::message("no GPU target is named that is to be kept").with_exit(Exit::Usage);
            return Err(failure.with_hint("name targets or families with `--keep`: `--keep gfx942,gfx90a`"));
        }
        Ok(Self { wanted })
    }

    /// `true` if code for this target is kept: the target is in the list, is a variant of a target
    /// that the list has without features, is the generic target that the runtime tries for one in
    /// the list, or is portable code.
    pub fn takes(&self, target: &str) -> bool {
        let Ok(target) = target.parse::<TargetId>() else { return false };
        target.processor == PORTABLE || self.targets().any(|wanted| runs(wanted, &target))
    }

    /// Like [`Keep::takes`], for the names that kernel databases and artifacts give their files,
    /// which include families (`gfx11`, `gfx12_0`, `gfx110x`, `gfx94X-dcgpu`). A name without
    /// features is for all variants of its target, so it is kept for each of them.
    pub fn takes_family(&self, name: &str, table: &TargetTable) -> bool {
        if self.takes(name) || self.targets().any(|wanted| wanted.processor == name) {
            return true;
        }
        let members = table.members(name);
        if !members.is_empty() {
            return self.targets().any(|wanted| members.contains(&wanted.processor.as_str()));
        }
        let is_family = name.ends_with(['x', 'X']) || name.contains('_') || name.len() < "gfx900".len();
        let start = name.trim_end_matches(['x', 'X']).replace('_', "");
        is_family && start.len() > "gfx".len() && self.targets().any(|wanted| wanted.processor.starts_with(&start))
    }

    /// Returns the names of the list for which no code in `found` was kept. A family counts as
    /// found if one of its targets is.
    pub fn missing(&self, found: &BTreeSet<String>, table: &TargetTable) -> Vec<String> {
        let missing = self.wanted.iter().filter(|wanted| {
            !wanted.targets.iter().any(|target| {
                let alone = Self { wanted: vec![Wanted { name: String::new(), targets: vec![target.clone()] }] };
                found.iter().any(|found| !found.contains(PORTABLE) && alone.takes_family(found, table))
            })
        });
        missing.map(|wanted| wanted.name.clone()).collect()
    }

    pub fn names(&self) -> String {
        self.wanted.iter().map(|wanted| wanted.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn targets(&self) -> impl Iterator<Item = &TargetId> {
        self.wanted.iter().flat_map(|wanted| &wanted.targets)
    }
}

/// SPIR-V, from which the runtime makes code for any GPU.
const PORTABLE: &str = "amdgcnspirv";

/// `true` if code for `code` is kept because of `wanted`.
fn runs(wanted: &TargetId, code: &TargetId) -> bool {
    // Code for the strict variant runs on the same GPU.
    let is_same = matches!(code.processor.strip_prefix(wanted.processor.as_str()), Some("" | "-strict"));
    let is_plain = *wanted == TargetId::plain(wanted.processor.clone());
    (is_same || wanted.generic().is_some_and(|generic| code.processor == generic.processor))
        && (is_plain || (code.xnack, code.sramecc) == (wanted.xnack, wanted.sramecc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(list: &str) -> Keep {
        Keep::parse(list, &TargetTable::embedded()).unwrap()
    }

    #[test]
    fn variants_generic_and_portable_code_stay() {
        let kept = keep("gfx942; gfx90a:xnack+, gfx1100,gfx1250");
        for target in "gfx942 gfx942:sramecc+:xnack- gfx9-4-generic gfx9-4-generic:xnack- gfx90a:xnack+ gfx11-generic \
            gfx1100 gfx1250-strict amdgcnspirv"
            .split(' ')
        {
            assert!(kept.takes(target), "{target}");
        }
        for target in ["gfx90a", "gfx90a:xnack-", "gfx9-generic", "gfx950", "gfx1101", "gfx12-generic", "gfx94", "?"] {
            assert!(!kept.takes(target), "{target}");
        }
        assert!(!keep("gfx9-4-generic").takes("gfx942"));
        assert!(keep("gfx942:xnack+").takes("gfx9-4-generic:xnack+"));
        assert!(!keep("gfx942:xnack+").takes("gfx9-4-generic"));
    }

    #[test]
    fn families_stand_for_their_targets() {
        let table = TargetTable::embedded();
        let kept = keep("gfx110X-dgpu");
        assert!(kept.takes("gfx1102") && !kept.takes("gfx1103"));
        for family in ["gfx11", "gfx110x", "gfx110X-all", "gfx1101"] {
            assert!(kept.takes_family(family, &table), "{family}");
        }
        for family in ["gfx12_0", "gfx115x", "gfx94X-dcgpu", "gfx1103", "gfx90", "gfx", "x", "_"] {
            assert!(!kept.takes_family(family, &table), "{family}");
        }
        assert!(keep("gfx1201").takes_family("gfx12_0", &table));
        let variant = keep("gfx90a:xnack+");
        assert!(variant.takes_family("gfx90a", &table) && !variant.takes_family("gfx90a:xnack-", &table));
    }

    #[test]
    fn what_was_nowhere_found_is_named_as_it_was_given() {
        let table = TargetTable::embedded();
        let found: BTreeSet<String> = ["gfx11-generic", "gfx90a:xnack-", "amdgcnspirv"].map(str::to_owned).into();
        assert_eq!(keep("gfx1100,gfx90a,gfx942,dcgpu-all").missing(&found, &table), ["gfx942"]);
        assert_eq!(keep("gfx90a:xnack+").missing(&found, &table), ["gfx90a:xnack+"]);
    }

    #[test]
    fn names_that_are_no_targets_are_refused() {
        let table = TargetTable::embedded();
        for list in ["", " ;,", "gfx", "radeon", "gfx94", "gfx94X", "gfx942:wave+", "../gfx942", "gfx942-x"] {
            assert!(Keep::parse(list, &table).is_err(), "{list}");
        }
        assert_eq!(keep("gfx803").names(), "gfx803");
    }
}
