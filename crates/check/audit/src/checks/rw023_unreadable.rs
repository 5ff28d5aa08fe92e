//! RW023: a file is not what its name or its first bytes claim.

use crate::Error;
use crate::analysis::traces::has_module_tag;
use crate::analysis::{Context, file_name};
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::AuditScope;
use rocwheel_loader::facts::Purpose;

pub const CHECK: Check = Check { code: Code::Unreadable, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        context.reporter.check()?;
        unreadable(context, wheel, findings);
        unreadable_imports(context, wheel, findings);
    }
    Ok(())
}

/// Start of a Git LFS pointer, which a wheel contains in place of a file that was not fetched.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1";

fn unreadable(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    for path in context.paths(wheel) {
        if let Some(unreadable) = context.facts.unreadable.get(*path) {
            let (format, reason) = (unreadable.format, &unreadable.reason);
            let message = format!("begins as a file of the format {format} and cannot be read as one: {reason}");
            findings.push(context.finding((Code::Unreadable, wheel), unreadable.format, message, [*path]));
        } else if is_library_name(path) {
            // A tagged module ends with `.so` and is for Linux or macOS, never for Windows.
            let is_tagged = has_module_tag(file_name(path));
            if context.facts.windows.contains_key(*path) && !is_tagged {
                continue;
            }
            let is_module = is_tagged || path.ends_with(".pyd");
            let why = match context.facts.objects.get(*path).map(|object| object.purpose) {
                None => wrong_start(context, path, is_module),
                Some(_) if path.ends_with(".pyd") => Some("it is an ELF file, which Windows does not load"),
                Some(Purpose::Static) if is_module => Some("it is a program"),
                Some(Purpose::Relocatable) if is_module => Some("it is an object file, the input of a linker"),
                Some(Purpose::Other) if is_module => Some("it is a core dump, or another ELF file that nothing loads"),
                Some(_) => None,
            };
            let Some(why) = why else { continue };
            let noun = if is_module { "an extension module" } else { "a library" };
            let message = format!("is named as {noun}, and {why}");
            findings.push(context.finding((Code::Unreadable, wheel), file_name(path), message, [*path]));
        }
    }
}

fn is_library_name(path: &str) -> bool {
    let name = file_name(path);
    let is_versioned = name
        .split_once(".so.")
        .is_some_and(|(_, version)| version.split('.').all(|part| part.bytes().all(|byte| byte.is_ascii_digit())));
    [".so", ".pyd", ".dll"].iter().any(|end| name.ends_with(end)) || name.starts_with("lib") && is_versioned
}

/// Describes a file that is not ELF and whose content does not fit its name. Linkers accept scripts
/// and archives in place of a library; Python accepts neither in place of a module.
fn wrong_start(context: &Context<'_>, path: &str, is_module: bool) -> Option<&'static str> {
    let placed = context.site.files.get(path)?;
    let installed = &context.site.distributions[placed.wheel];
    if placed.size == 0 {
        return Some("it is empty");
    }
    let start = installed.start(&placed.member, 256).ok()?;
    if start.starts_with(LFS) {
        return Some("it is a pointer of Git LFS in place of the content");
    }
    // Mach-O files have the same names. A text file is a linker script, or the target of a link
    // that was not kept.
    let is_mach = matches!(start.get(..4), Some(b"\xcf\xfa\xed\xfe" | b"\xce\xfa\xed\xfe" | b"\xca\xfe\xba\xbe"));
    let is_text =
        !start.contains(&0) && std::str::from_utf8(&start).map_or_else(|error| error.error_len().is_none(), |_| true);
    if is_mach {
        return None;
    }
    if start.starts_with(b"MZ") {
        return is_module.then_some("it begins as a file for DOS or Windows");
    }
    if start.starts_with(b"!<arch>") {
        return is_module.then_some("it is an archive of object files");
    }
    if !is_text {
        return Some("it is no program or library of any system");
    }
    let text = String::from_utf8_lossy(&start);
    let is_script =
        ["INPUT", "GROUP", "OUTPUT_FORMAT", "/*", "SEARCH_DIR"].iter().any(|word| text.trim_start().starts_with(word));
    let is_link = !text.trim().contains(char::is_whitespace) && text.contains(".so");
    if is_script {
        is_module.then_some("it is a linker script")
    } else if is_link {
        Some("it contains the name of another file: a link that was packed as text")
    } else {
        Some("it is text")
    }
}

fn unreadable_imports(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    for (path, file) in context.windows_files(wheel) {
        if let Err(reason) = &file.imports {
            let message = format!("the DLLs that it asks for cannot be read: {reason}");
            findings.push(context.finding((Code::Unreadable, wheel), file_name(path), message, [path]));
        }
    }
}
