//! Input: the headers of a file. Output: its machine, as platform tags write it.

use object::elf;
use rocwheel_loader::facts::{Object, PE_ARM64, PE_X86_64, WindowsObject};

/// The machine of an ELF file, as platform tags write it: `x86_64`, `armv7l`.
pub(crate) fn machine_of(object: &Object) -> &'static str {
    match (elf::Machine(object.elf.machine), object.elf.is_64) {
        (elf::EM_X86_64, true) => "x86_64",
        (elf::EM_386, _) => "i686",
        (elf::EM_AARCH64, _) => "aarch64",
        (elf::EM_ARM, _) => "armv7l",
        (elf::EM_PPC64, _) => "ppc64le",
        (elf::EM_S390, _) => "s390x",
        (elf::EM_RISCV, _) => "riscv64",
        (elf::EM_LOONGARCH, _) => "loongarch64",
        _ => "unknown",
    }
}

/// The Windows platform tag for a file; `None` is a file for 32-bit Windows, of which only that is
/// known.
pub(crate) fn windows_machine(file: Option<&WindowsObject>) -> &'static str {
    match file.map(|file| file.pe.machine) {
        None => "win32",
        Some(PE_X86_64) => "win_amd64",
        Some(PE_ARM64) => "win_arm64",
        Some(_) => "another machine",
    }
}
