//! Input: the marks of files, and the `glibc-hwcaps` folders that they lie in. Output: the x86-64
//! level of the CPU that is needed (x86-64 psABI, "Micro-Architecture Levels").

use rocwheel_loader::facts::Object;

use crate::analysis::Context;

/// The x86-64 level that a file is marked with: 1 for any CPU, 2 to 4.
pub(crate) fn level(object: &Object) -> u32 {
    match object.elf.isa_needed.unwrap_or(0) >> 1 {
        0 => 1,
        bits => bits.ilog2() + 2,
    }
}

/// The level of the `glibc-hwcaps` folder that a path lies in: the loader looks there on such CPUs
/// only.
pub(crate) fn folder_level(path: &str) -> u32 {
    let folder = path.split_once("glibc-hwcaps/x86-64-v").and_then(|(_, rest)| rest.split('/').next());
    folder.and_then(|number| number.parse().ok()).unwrap_or(1)
}

pub(crate) fn level_name(level: u32) -> &'static str {
    match level {
        0 | 1 => "x86-64",
        2 => "x86-64-v2",
        3 => "x86-64-v3",
        _ => "x86-64-v4",
    }
}

/// The CPU that a wheel needs.
pub(crate) fn cpu(context: &Context<'_>, wheel: usize) -> Option<&'static str> {
    let levels = context.native(wheel).map(|(path, object)| if folder_level(path) > 1 { 1 } else { level(object) });
    levels.max().map(level_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_cpu_level_are_known() {
        assert_eq!(folder_level("a/glibc-hwcaps/x86-64-v3/libx.so"), 3);
        assert_eq!(folder_level("a/lib/libx.so"), 1);
    }
}
