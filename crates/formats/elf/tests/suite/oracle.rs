//! The dynamic symbols of a file as `readelf` prints them and as [`rocwheel_elf::visit_symbols`]
//! reports them, in the same form.

use std::path::Path;
use std::process::Command;

use rocwheel_elf::{Binding, visit_symbols};

/// Returns the symbols, one per line: number, kind, binding, visibility, `true` if defined, name
/// with `@` or `@@` and version.
pub(crate) fn readelf_symbols(file: &Path) -> Vec<String> {
    let output = Command::new("readelf").args(["--dyn-syms", "--wide"]).arg(file).env("LC_ALL", "C").output();
    let output = output.expect("readelf is needed for this test");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut symbols = Vec::new();
    // In files that are not marked for GNU, GNU's own types are printed as numbers.
    for line in said.lines().map(|line| line.replace("<OS specific>: 10", "GNU")) {
        let mut fields = line.split_whitespace();
        let Some(index) = fields.next().and_then(|number| number.strip_suffix(':')?.parse::<u32>().ok()) else {
            continue;
        };
        let [_value, _size, kind, binding, visibility] = [(); 5].map(|()| fields.next().unwrap_or_default());
        let kind = if kind == "GNU" { "IFUNC" } else { kind };
        let binding = if binding == "GNU" { "UNIQUE" } else { binding };
        // Notes of other machines are between the visibility and the section, in square brackets.
        let mut section = fields.next().unwrap_or_default();
        while section.starts_with('[') || section.ends_with(']') {
            section = fields.next().unwrap_or_default();
        }
        // A needed version is followed by its number in brackets.
        let name = fields.next().unwrap_or_default();
        if index > 0 {
            symbols.push(format!("{index} {kind} {binding} {visibility} {} {name}", section != "UND"));
        }
    }
    symbols
}

/// Returns the same from this crate.
pub(crate) fn our_symbols(file: &Path) -> Result<Vec<String>, rocwheel_elf::Error> {
    let file = fs_err::File::open(file).unwrap();
    let mut symbols = Vec::new();
    visit_symbols(file.file(), &mut |symbol| {
        let kind = match symbol.kind {
            0 => "NOTYPE",
            1 => "OBJECT",
            2 => "FUNC",
            3 => "SECTION",
            4 => "FILE",
            6 => "TLS",
            10 => "IFUNC",
            other => panic!("symbol {symbol:?} has kind {other}"),
        };
        let binding = match symbol.binding {
            Binding::Local => "LOCAL",
            Binding::Global => "GLOBAL",
            Binding::Weak => "WEAK",
            Binding::Unique => "UNIQUE",
            Binding::Other => panic!("{symbol:?}"),
        };
        let visibility = ["DEFAULT", "INTERNAL", "HIDDEN", "PROTECTED"][usize::from(symbol.visibility)];
        let separator = if symbol.default_version { "@@" } else { "@" };
        // The symbol that represents a version itself is printed without version.
        let version = symbol.version.filter(|version| *version != symbol.name);
        let version = version.map_or_else(String::new, |version| format!("{separator}{version}"));
        let line = format!("{kind} {binding} {visibility} {} {}{version}", symbol.defined, symbol.name);
        symbols.push((symbol.index, line));
        Ok(())
    })?;
    symbols.sort();
    Ok(symbols.into_iter().map(|(index, line)| format!("{index} {line}")).collect())
}
