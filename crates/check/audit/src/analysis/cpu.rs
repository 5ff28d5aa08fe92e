//! Input: the x86 ISA property of a wheel's files and the `glibc-hwcaps` folders that contain them.
//! Output: the x86-64 level of the CPU that the wheel needs (x86-64 psABI, "Micro-Architecture
//! Levels").

use rocwheel_loader::facts::Object;

use crate::analysis::Context;

/// The x86-64 level in the ISA property of a file: 1 for any CPU, otherwise 2 to 4.
pub(crate) fn level(object: &Object) -> u32 {
    match object.elf.isa_needed.unwrap_or(0) >> 1 {
        0 => 1,
        bits => bits.ilog2() + 2,
    }
}

/// The level of the `glibc-hwcaps` folder that contains a path; 1 outside of such folders. The
/// loader searches these folders only on CPUs of that level.
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

/// The highest level among the files of a wheel. Files in `glibc-hwcaps` folders do not count.
/// `None` for wheels without ELF files.
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
