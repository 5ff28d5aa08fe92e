//! Input: the programs and libraries of a wheel. Output: the systems and machines that some of them
//! are for and that the audit does not check.

use std::collections::BTreeSet;

use rocwheel_loader::facts::Purpose;

use super::Context;
use super::machine::{machine_of, windows_machine};
use crate::options::AuditScope;

/// Bytes at the beginning of a PE file that are read to find its list of tables.
const PE_START: usize = 4096;

/// The programs and libraries of a wheel that the audit does not check.
#[derive(Debug, Default)]
pub(crate) struct Unchecked {
    /// Names of these systems and machines in messages: `aarch64`, `macOS`.
    pub(crate) systems: BTreeSet<&'static str>,
    /// `true` if the wheel also has files that are checked.
    pub(crate) beside_checked: bool,
}

/// The files of a wheel that the audit does not check, by system and machine. Files for systems
/// that the tags promise always count. Other files count if no file of the wheel is checked. If the
/// user names a system, or the packages are installed, files for other systems are ignored beside
/// checked ones.
pub(crate) fn unchecked(context: &Context<'_>, wheel: usize) -> Unchecked {
    if context.options.scope == AuditScope::Names {
        return Unchecked::default();
    }
    let installed = &context.site.distributions[wheel];
    let platforms = installed.platforms();
    let mut objects = context.objects(wheel).map(|(_, object)| object.purpose);
    let beside_checked = objects.any(|purpose| matches!(purpose, Purpose::Native | Purpose::Static))
        || context.windows_files(wheel).next().is_some();
    if beside_checked && (installed.wheel().is_none() || context.options.glibc.is_some()) {
        return Unchecked { systems: BTreeSet::new(), beside_checked };
    }
    // Systems of all files, and of those that the tags promise.
    let (mut all, mut promised) = (BTreeSet::new(), BTreeSet::new());
    for (_, object) in context.objects(wheel).filter(|(_, object)| object.purpose == Purpose::OtherMachine) {
        let machine = machine_of(object);
        all.insert(machine);
        if is_promised(&platforms, machine) || machine == "armv7l" && is_promised(&platforms, "armv6l") {
            promised.insert(machine);
        }
    }
    for path in foreign_windows_files(context, wheel) {
        let machine = windows_machine(context.facts.windows[path].as_ref());
        let name = match machine {
            "win_arm64" => "Windows on ARM64",
            "win32" => "32-bit Windows",
            _ => "Windows",
        };
        all.insert(name);
        if is_promised(&platforms, machine) {
            promised.insert(name);
        }
    }
    if has_files_of_apple(context, wheel, &platforms) {
        promised.insert("macOS");
    }
    let systems = if promised.is_empty() && !beside_checked { all } else { promised };
    Unchecked { systems, beside_checked }
}

/// The Windows files of a wheel that are not checked, except launchers: pip and setuptools contain
/// some, which they copy when they install a program on Windows, and so do wheels for other
/// systems.
fn foreign_windows_files<'a>(context: &Context<'a>, wheel: usize) -> impl Iterator<Item = &'a str> {
    let platforms = context.site.distributions[wheel].platforms();
    let is_for_windows = platforms.iter().any(|tag| tag.starts_with("win"));
    let checked: BTreeSet<&str> = context.windows_files(wheel).map(|(path, _)| path).collect();
    context.paths(wheel).iter().copied().filter(move |path| {
        context.facts.windows.contains_key(*path)
            && !checked.contains(path)
            && (is_for_windows || !path.ends_with(".exe") && !is_managed(context, path))
    })
}

/// `true` for a PE file of .NET, which runs on every system that has .NET: the fifteenth of its
/// tables is the header of the common language runtime (ECMA-335, II.25.3.3).
pub(crate) fn is_managed(context: &Context<'_>, path: &str) -> bool {
    let Ok(placed) = context.site.placed(path) else { return false };
    let start = context.site.distributions[placed.wheel].start(&placed.member, PE_START).unwrap_or_default();
    runtime_header(&start).is_some_and(|address| address != 0)
}

/// The address of the header of the common language runtime in a PE file.
fn runtime_header(start: &[u8]) -> Option<usize> {
    const TABLE: usize = 14;
    // Behind the signature and the COFF header.
    let optional = number(start, 0x3c, 4)?.checked_add(24)?;
    // The list of tables, behind the number of tables.
    let tables = optional.checked_add(if number(start, optional, 2)? == 0x20b { 112 } else { 96 })?;
    if number(start, tables - 4, 4)? <= TABLE { None } else { number(start, tables + TABLE * 8, 4) }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(length)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// `true` if the tags of a wheel name a machine, or are for any.
fn is_promised(platforms: &[String], machine: &str) -> bool {
    platforms.iter().all(|tag| tag == "any") || platforms.iter().any(|tag| tag.ends_with(machine))
}

/// `true` if a wheel has programs or libraries for macOS or iOS. In a wheel for any platform, only
/// names are compared.
fn has_files_of_apple(context: &Context<'_>, wheel: usize, platforms: &[String]) -> bool {
    let is_for_apple = platforms.iter().any(|tag| tag.starts_with("macosx") || tag.starts_with("ios"));
    (is_for_apple || platforms.iter().all(|tag| tag == "any"))
        && context.paths(wheel).iter().any(|path| {
            path.ends_with(".dylib") || path.ends_with("-darwin.so") || is_for_apple && is_mach_o(context, path)
        })
}

/// `true` if a file begins like a Mach-O file, for one machine or for several.
fn is_mach_o(context: &Context<'_>, path: &str) -> bool {
    let Ok(placed) = context.site.placed(path) else { return false };
    let start = context.site.distributions[placed.wheel].start(&placed.member, 8).unwrap_or_default();
    match start[..] {
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => true,
        // The number of machines. Classes of Java begin with the same bytes, and have their version
        // here, which is 45 or more.
        [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, count] => count < 45,
        _ => false,
    }
}
