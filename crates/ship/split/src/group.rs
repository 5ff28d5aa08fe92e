//! Input: the GPU targets of every bundle. Output: the bundles that share archives, and the names
//! of the archives.
//!
//! The runtime gives up on every device if an archive that it can reach for one of them lacks a
//! kernel (kpack specification 4.1). So bundles share archives only if they have code for exactly
//! the same targets, features included: then no archive that a wrapper reaches lacks its code.

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_progress::Failure;
use serde::Serialize;

/// The placeholder in a search path, which the runtime replaces by the name of each target.
pub const TARGET_PLACEHOLDER: &str = "@GFXARCH@";

/// The part of archive names that depends on targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetNames {
    /// One archive for all variants of a base target: `…_gfx90a.kpack` holds `gfx90a:xnack+` and
    /// `gfx90a:xnack-`. The name is a legal file name on every system.
    #[default]
    Base,
    /// One archive for each target, with its features in the name, as existing tools do:
    /// `…_gfx90a:xnack+.kpack`.
    Verbatim,
}

impl TargetNames {
    pub fn in_file_name(self, target: &str) -> &str {
        match self {
            Self::Base => rocwheel_tables::target::base_target(target),
            Self::Verbatim => target,
        }
    }
}

/// The targets to keep.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct TargetSelection(Option<Vec<String>>);

impl TargetSelection {
    pub const ALL: Self = Self(None);

    /// Selects only these targets. A target without features includes all its variants.
    pub fn only(targets: Vec<String>) -> Self {
        Self(Some(targets))
    }

    /// `true` if a target, with or without features, is selected.
    pub fn takes(&self, target: &str) -> bool {
        let base = rocwheel_tables::target::base_target(target);
        self.0.as_ref().is_none_or(|only| only.iter().any(|wanted| wanted == target || wanted == base))
    }

    /// Returns the selected targets; `None` if all are selected.
    pub fn targets(&self) -> Option<&[String]> {
        self.0.as_deref()
    }
}

/// Bundles that have code for exactly the same targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetSet {
    /// First part of the names of the archives: `blas_lib` for the most common set, `blas_lib_set2`
    /// and so on for the others.
    pub name: String,
    /// The targets with features, in numeric order. Empty for bundles without device code.
    pub targets: Vec<String>,
    /// Number of bundles with exactly these targets.
    pub bundles: u64,
}

impl TargetSet {
    /// Returns the search path of a marker for this set. `directory` is the directory of the
    /// archives, relative to the directory of the binary.
    pub fn search_path(&self, directory: &str) -> String {
        let separator = if directory.is_empty() || directory.ends_with('/') { "" } else { "/" };
        format!("{directory}{separator}{}_{TARGET_PLACEHOLDER}.kpack", self.name)
    }

    pub fn archive_name(&self, target: &str, names: TargetNames) -> String {
        format!("{}_{}.kpack", self.name, names.in_file_name(target))
    }
}

/// Returns the target sets of some bundles, most common first, then by their targets; and for each
/// bundle the index of its set.
pub fn group(name: &str, bundles: &[BTreeSet<String>]) -> (Vec<TargetSet>, Vec<usize>) {
    let mut counts: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    let mut of_bundles: Vec<Vec<String>> = bundles.iter().map(|targets| targets.iter().cloned().collect()).collect();
    for targets in &mut of_bundles {
        rocwheel_tables::target::sort(targets);
        *counts.entry(targets.clone()).or_default() += 1;
    }
    // A set without targets has no archives, so it never needs the plain name.
    let mut order: Vec<(Vec<String>, u64)> = counts.into_iter().collect();
    order.sort_by(|left, right| {
        (left.0.is_empty(), std::cmp::Reverse(left.1), &left.0).cmp(&(
            right.0.is_empty(),
            std::cmp::Reverse(right.1),
            &right.0,
        ))
    });
    let places: BTreeMap<&Vec<String>, usize> =
        order.iter().enumerate().map(|(place, (targets, _))| (targets, place)).collect();
    let assigned = of_bundles.iter().map(|targets| places[targets]).collect();
    let sets = order.iter().enumerate().map(|(place, (targets, bundles))| TargetSet {
        name: if place == 0 { name.to_owned() } else { format!("{name}_set{}", place + 1) },
        targets: targets.clone(),
        bundles: *bundles,
    });
    (sets.collect(), assigned)
}

/// `true` if a path ends in `.kpack`.
pub fn is_archive(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension == "kpack")
}

/// Refuses targets that cannot be part of a file name: names come from the input, and could be
/// `../`.
///
/// # Errors
/// The target is one.
pub fn check_target_name(key: &str, target: &str) -> Result<(), Failure> {
    let starts_well = target.starts_with(|character: char| character.is_ascii_alphanumeric());
    let is_plain = target.chars().all(|character| character.is_ascii_alphanumeric() || "-.:+".contains(character));
    let base_has_plus = target.split(':').next().is_some_and(|base| base.contains('+'));
    if starts_well && target.len() <= 64 && is_plain && !base_has_plus {
        return Ok(());
    }
    let target = target.escape_debug();
    Err(Failure::message(format!(
        "`{key}` has code for a target called `{target}`, which cannot be part of a file name"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(targets: &[&str]) -> BTreeSet<String> {
        targets.iter().map(|target| (*target).to_owned()).collect()
    }

    #[test]
    fn the_most_common_set_has_the_plain_name() {
        let bundles = [
            set(&["gfx1100"]),
            set(&["gfx942", "gfx1100"]),
            set(&["gfx1100", "gfx942"]),
            set(&[]),
            set(&[]),
            set(&[]),
            set(&["gfx90a:xnack+", "gfx90a:xnack-"]),
            set(&["gfx90a"]),
        ];
        let (sets, assigned) = group("rand_lib", &bundles);
        let shown: Vec<_> = sets.iter().map(|set| (set.name.as_str(), set.targets.join(" "), set.bundles)).collect();
        assert_eq!(
            shown,
            [
                ("rand_lib", "gfx942 gfx1100".to_owned(), 2),
                ("rand_lib_set2", "gfx1100".to_owned(), 1),
                ("rand_lib_set3", "gfx90a".to_owned(), 1),
                ("rand_lib_set4", "gfx90a:xnack+ gfx90a:xnack-".to_owned(), 1),
                ("rand_lib_set5", String::new(), 3),
            ]
        );
        assert_eq!(assigned, [1, 0, 0, 4, 4, 4, 3, 2]);
    }

    #[test]
    fn variants_share_an_archive_unless_names_are_verbatim() {
        let (sets, _) = group("x", &[set(&["gfx90a:xnack+"])]);
        assert_eq!(sets[0].archive_name("gfx90a:xnack+", TargetNames::Base), "x_gfx90a.kpack");
        assert_eq!(sets[0].archive_name("gfx90a:xnack+", TargetNames::Verbatim), "x_gfx90a:xnack+.kpack");
        assert_eq!(sets[0].search_path("../.kpack"), "../.kpack/x_@GFXARCH@.kpack");
        assert_eq!(sets[0].search_path(""), "x_@GFXARCH@.kpack");
    }

    #[test]
    fn a_selection_takes_all_variants_of_a_target() {
        let only = TargetSelection::only(vec!["gfx90a".into(), "gfx942:xnack+".into()]);
        assert!(only.takes("gfx90a") && only.takes("gfx90a:sramecc+:xnack-") && only.takes("gfx942:xnack+"));
        assert!(!only.takes("gfx942") && !only.takes("gfx942:xnack-") && !only.takes("gfx90"));
        assert!(TargetSelection::ALL.takes("anything"));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for good in ["gfx90a:sramecc+:xnack-", "gfx9-4-generic", "gfx1250-strict", "amdgcnspirv", "gfx12.5"] {
            check_target_name("lib/x.so", good).unwrap();
        }
        for bad in ["../x", "a/b", "", "gfx 90", "gfx\0", "-x", "..", "gfx_1", "gfx+", "gfx\\1", &"g".repeat(65)] {
            let error = check_target_name("lib/x.so", bad).unwrap_err();
            assert!(error.to_string().contains("lib/x.so"), "{error}");
        }
    }
}
