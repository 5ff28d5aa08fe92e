//! Input: bits of `e_flags`. Output: the processor and features they stand for, by
//! `data/amdgpu-machines.toml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::target::Feature;

const TABLE: &str = include_str!("../../../data/amdgpu-machines.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    machine: BTreeMap<String, u8>,
    one_bit_features: BTreeMap<String, Vec<String>>,
}

fn table() -> &'static Table {
    static TABLE_READ: LazyLock<Table> = LazyLock::new(|| toml::from_str(TABLE).expect("the embedded table is tested"));
    &TABLE_READ
}

/// The processor with this value of `EF_AMDGPU_MACH`.
pub fn processor(machine: u8) -> Option<&'static str> {
    static BY_VALUE: LazyLock<BTreeMap<u8, &'static str>> =
        LazyLock::new(|| table().machine.iter().map(|(name, value)| (*value, name.as_str())).collect());
    BY_VALUE.get(&machine).copied()
}

/// A feature of code object version 3: on, or off if the processor has it at all.
pub fn one_bit(is_set: bool, feature: &str, processor: &str) -> Feature {
    let supported =
        table().one_bit_features.get(feature).is_some_and(|names| names.iter().any(|name| name == processor));
    match (is_set, supported) {
        (true, _) => Feature::On,
        (false, true) => Feature::Off,
        (false, false) => Feature::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_one_processor() {
        assert_eq!(table().machine.len(), table().machine.values().collect::<std::collections::BTreeSet<_>>().len());
        for (value, name) in [(0x2a, "gfx803"), (0x3f, "gfx90a"), (0x4c, "gfx942"), (0x4f, "gfx950"), (0x49, "gfx1250")]
        {
            assert_eq!(processor(value), Some(name));
        }
        assert_eq!(processor(0x5f), Some("gfx9-4-generic"));
        assert_eq!(processor(0), None);
        assert_eq!(processor(0x27), None);
    }

    #[test]
    fn features_name_known_processors() {
        for name in table().one_bit_features.values().flatten() {
            assert!(table().machine.contains_key(name), "{name}");
        }
    }
}
