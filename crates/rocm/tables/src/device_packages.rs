//! Input: GPU targets as bundles and kernel databases name them. Output: the device packages for
//! their code, the names of these packages, and the packages that the owner of a GPU needs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;

use crate::{RocmTables, target};

/// The range of targets that a device package serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackageLevel {
    /// One target, `gfx942`.
    Target,
    /// The targets that can run the code of a generic target, `gfx9-4-generic`.
    Generic,
    /// Part of a generation, `gfx12_0`.
    SubFamily,
    /// A generation, `gfx12`.
    Family,
}

#[derive(Debug, Clone)]
pub struct DevicePackages {
    families: BTreeMap<String, Family>,
    /// Other spellings of families.
    aliases: BTreeMap<String, String>,
    generics: BTreeMap<String, Vec<String>>,
    /// Target → another target whose package contains its code.
    owners: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default)]
struct Family {
    parent: Option<String>,
    targets: Vec<String>,
}

impl DevicePackages {
    /// The device packages of [`RocmTables::in_use`].
    pub fn embedded() -> &'static DevicePackages {
        static EMBEDDED: LazyLock<DevicePackages> = LazyLock::new(|| DevicePackages::of(RocmTables::in_use()));
        &EMBEDDED
    }

    /// The device packages of these tables.
    pub fn of(tables: &RocmTables) -> DevicePackages {
        let mut packages = DevicePackages {
            families: BTreeMap::new(),
            aliases: BTreeMap::new(),
            generics: BTreeMap::new(),
            owners: BTreeMap::new(),
        };
        for row in &tables.packages {
            packages.aliases.extend(row.aliases.iter().map(|alias| (alias.clone(), row.name.clone())));
            packages.families.insert(row.name.clone(), Family { parent: row.parent.clone(), targets: Vec::new() });
        }
        for row in &tables.targets {
            if let Some(family) = row.package.as_ref().and_then(|name| packages.families.get_mut(name)) {
                family.targets.push(row.name.clone());
            }
            if let Some(generic) = &row.generic {
                packages.generics.entry(generic.clone()).or_default().push(row.name.clone());
            }
            if let Some(owner) = &row.shares_package_of {
                packages.owners.insert(row.name.clone(), owner.clone());
            }
        }
        packages
    }

    /// The key of the package for the code of `target`: the target without its features
    /// (`gfx90a:xnack+`, `gfx90a-xnack+`), or the package that it shares with another target.
    pub fn key(&self, target: &str) -> String {
        let base = without_features(target);
        self.owners.get(base).or_else(|| self.aliases.get(base)).map_or_else(|| base.to_owned(), String::clone)
    }

    /// The level of the package `key`. A name that is in no table is a target.
    pub fn level(&self, key: &str) -> PackageLevel {
        match self.families.get(key) {
            Some(Family { parent: Some(_), .. }) => PackageLevel::SubFamily,
            Some(Family { parent: None, .. }) => PackageLevel::Family,
            None if self.generics.contains_key(key) || key.ends_with("-generic") => PackageLevel::Generic,
            None => PackageLevel::Target,
        }
    }

    /// The targets that can run the code of a generic target; empty for any other name.
    pub fn runs(&self, generic: &str) -> &[String] {
        self.generics.get(generic).map_or(&[], Vec::as_slice)
    }

    /// The packages that the owner of the target `key` may need: the target's own, then those of
    /// generic targets, of its sub-family and of its family. A package of a wider level needs only
    /// itself.
    pub fn chain(&self, key: &str) -> Vec<String> {
        let mut chain = vec![key.to_owned()];
        if self.level(key) != PackageLevel::Target {
            return chain;
        }
        let generics = self.generics.iter().filter(|(_, targets)| targets.iter().any(|target| target == key));
        chain.extend(generics.map(|(name, _)| name.clone()));
        let listed = self.families.iter().find(|(_, family)| family.targets.iter().any(|target| target == key));
        match listed {
            Some((name, family)) => {
                chain.push(name.clone());
                chain.extend(family.parent.clone());
            }
            None => chain.extend(generation(key).filter(|name| self.level(name) == PackageLevel::Family)),
        }
        chain
    }

    /// Orders packages for display: targets by number, then generic targets, sub-families and
    /// families.
    pub fn compare(&self, left: &str, right: &str) -> Ordering {
        self.level(left).cmp(&self.level(right)).then_with(|| target::compare(left, right))
    }
}

/// The name of the distribution `prefix` for the package `key`: lower case, with `-` for every run
/// of characters other than letters, digits and `.`, so every target has a name that installers
/// accept.
pub fn distribution(prefix: &str, key: &str) -> String {
    format!("{prefix}-{}", words(key).join("-"))
}

/// The name of the extra that requires the package `key` (PEP 685).
pub fn extra(key: &str) -> String {
    format!("device-{}", words(key).join("-"))
}

/// The package `key` as part of the name of a Python module.
pub fn identifier(key: &str) -> String {
    words(key).join("_").replace('.', "_")
}

fn words(key: &str) -> Vec<String> {
    let key = key.to_lowercase();
    key.split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Removes the features: `gfx90a` for `gfx90a:sramecc+:xnack-` and for `gfx90a-xnack+`. A name such
/// as `gfx9-4-generic` stays unchanged.
pub fn without_features(target: &str) -> &str {
    let mut base = target.split(':').next().unwrap_or(target);
    while let Some(shorter) =
        ["-xnack+", "-xnack-", "-sramecc+", "-sramecc-"].iter().find_map(|feature| base.strip_suffix(feature))
    {
        base = shorter;
    }
    base
}

/// `gfx11` for `gfx1104`: all but the last two digits, which are minor version and stepping.
fn generation(target: &str) -> Option<String> {
    let plain = target.split('-').next()?;
    let split = plain.len().checked_sub(2).filter(|split| plain.is_char_boundary(*split))?;
    let major = plain[..split].strip_prefix("gfx")?;
    major.bytes().all(|byte| byte.is_ascii_digit()).then(|| plain[..split].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_find_their_package() {
        let families = DevicePackages::embedded();
        for (target, key) in [
            ("gfx942", "gfx942"),
            ("gfx942:sramecc+:xnack-", "gfx942"),
            ("gfx90a-xnack+", "gfx90a"),
            ("gfx1250-strict", "gfx1250"),
            ("gfx1250-strict:xnack+", "gfx1250"),
            ("gfx11_0", "gfx110x"),
            ("gfx12_0", "gfx12_0"),
            ("gfx9-4-generic", "gfx9-4-generic"),
            ("gfx9-4-generic:xnack-", "gfx9-4-generic"),
            ("gfx803", "gfx803"),
            ("amdgcnspirv", "amdgcnspirv"),
        ] {
            assert_eq!(families.key(target), key, "{target}");
        }
    }

    #[test]
    fn a_target_needs_what_is_made_for_several() {
        let families = DevicePackages::embedded();
        // The target itself comes first. CDNA has no generic target before gfx94x. gfx940 is in no
        // table: its number contains the generation, and there is no package for generation 8.
        for chain in [
            "gfx1151 gfx11-generic gfx115x gfx11",
            "gfx1201 gfx12-generic gfx12_0 gfx12",
            "gfx942 gfx9-4-generic gfx9_4 gfx9",
            "gfx90a gfx9_0 gfx9",
            "gfx1250 gfx12_5 gfx12",
            "gfx940 gfx9",
            "gfx1170 gfx11",
        ]
        .into_iter()
        .chain(["gfx803", "amdgcnspirv", "gfx12_0", "gfx9-generic"])
        {
            let key = chain.split(' ').next().unwrap();
            assert_eq!(families.chain(key).join(" "), chain, "{key}");
        }
    }

    #[test]
    fn levels_and_order() {
        let families = DevicePackages::embedded();
        let mut keys = ["gfx12", "gfx1100", "gfx9-4-generic", "gfx12_0", "gfx942", "gfx11", "gfx90a", "gfx803"];
        keys.sort_by(|left, right| families.compare(left, right));
        assert_eq!(keys, ["gfx803", "gfx90a", "gfx942", "gfx1100", "gfx9-4-generic", "gfx12_0", "gfx11", "gfx12"]);
        assert_eq!(families.level("gfx7-future-generic"), PackageLevel::Generic);
        assert_eq!(families.runs("gfx9-4-generic"), ["gfx942", "gfx950"]);
        assert!(families.runs("gfx942").is_empty());
    }

    #[test]
    fn names_are_valid_for_any_target() {
        assert_eq!(distribution("amd-torch-device", "gfx942"), "amd-torch-device-gfx942");
        assert_eq!(distribution("amd-torch-device", "gfx12_0"), "amd-torch-device-gfx12-0");
        assert_eq!(distribution("x", "gfx9-4-generic"), "x-gfx9-4-generic");
        assert_eq!(distribution("x", "GFX90a+:_odd"), "x-gfx90a-odd");
        assert_eq!(extra("gfx942"), "device-gfx942");
        assert_eq!(identifier("gfx9-4-generic"), "gfx9_4_generic");
        assert_eq!(identifier("gfx12_0"), "gfx12_0");
    }

    #[test]
    fn every_known_target_is_in_one_sub_family() {
        let families = DevicePackages::embedded();
        for target in crate::TargetTable::embedded().targets() {
            for level in [PackageLevel::SubFamily, PackageLevel::Family] {
                let chain = families.chain(&target.name);
                assert_eq!(chain.iter().filter(|key| families.level(key) == level).count(), 1, "{}", target.name);
            }
        }
        for family in families.families.values() {
            assert!(family.parent.as_ref().is_none_or(|parent| families.level(parent) == PackageLevel::Family));
        }
        for owner in families.owners.values() {
            assert_eq!(families.level(owner), PackageLevel::Target);
        }
    }
}
