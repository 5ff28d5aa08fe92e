//! Input: bits of `e_flags`. Output: the processor and the features that they encode.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::RocmTables;
use crate::target::Feature;

/// The processor with this value of `EF_AMDGPU_MACH`.
pub fn processor(machine: u8) -> Option<&'static str> {
    static BY_VALUE: LazyLock<BTreeMap<u8, &'static str>> = LazyLock::new(|| {
        RocmTables::in_use().targets.iter().filter_map(|row| Some((row.elf_machine?, row.name.as_str()))).collect()
    });
    BY_VALUE.get(&machine).copied()
}

/// A feature of code object version 3: on if its bit is set, else off if the processor supports the
/// feature, else any.
pub fn one_bit(is_set: bool, feature: &str, processor: &str) -> Feature {
    let row = RocmTables::in_use().targets.iter().find(|row| row.name == processor);
    let supported = row.is_some_and(|row| row.one_bit_features.iter().any(|name| name == feature));
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
        let values: Vec<u8> = RocmTables::in_use().targets.iter().filter_map(|row| row.elf_machine).collect();
        assert_eq!(values.len(), values.iter().collect::<std::collections::BTreeSet<_>>().len());
        for (value, name) in [(0x2a, "gfx803"), (0x3f, "gfx90a"), (0x4c, "gfx942"), (0x4f, "gfx950"), (0x49, "gfx1250")]
        {
            assert_eq!(processor(value), Some(name));
        }
        assert_eq!(processor(0x5f), Some("gfx9-4-generic"));
        assert_eq!(processor(0), None);
        assert_eq!(processor(0x27), None);
    }
}
