//! RW018: a path is too long, or two paths are the same on systems that ignore case.

use crate::Error;
use crate::analysis::{Context, file_name};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::{AuditScope, ExtraCheck};

pub const CHECK: Check = Check { code: Code::PathLength, scope: AuditScope::Names, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, _) in context.audited() {
        paths(context, wheel, findings);
    }
    Ok(())
}

/// The longest path on Windows in UTF-16 units, without the final NUL (`MAX_PATH`).
const WINDOWS_PATH: usize = 259;

/// Length of a typical short path of an environment on Windows:
/// `C:\Users\somebody\source\repos\project\.venv`.
const WINDOWS_PREFIX: usize = 60;

/// `PATH_MAX` and `NAME_MAX` of Linux in bytes, without the final NUL.
const LINUX_PATH: usize = 4095;

const LINUX_NAME: usize = 255;

/// Bytes reserved for the path of an environment on Linux.
const LINUX_PREFIX: usize = 200;

/// The path of an installed file on Windows, relative to the environment.
fn on_windows(context: &Context<'_>, path: &str) -> String {
    let packages = context.site.packages();
    if let Some(inside) = path.strip_prefix(packages.as_str()) {
        return format!("Lib/site-packages{inside}");
    }
    match path.split_once('/') {
        Some(("bin", rest)) => format!("Scripts/{rest}"),
        _ => path.to_owned(),
    }
}

fn paths(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let platforms = installed.platforms();
    let may_be_windows = platforms.iter().any(|platform| platform == "any" || platform.starts_with("win"));
    let for_windows =
        installed.wheel().is_some() && may_be_windows || context.options.extras.contains(&ExtraCheck::WindowsPaths);
    if for_windows {
        let lengths = context.paths(wheel).iter().map(|path| (on_windows(context, path).encode_utf16().count(), *path));
        if let Some((longest, path)) = lengths.max() {
            // One more character is the separator between prefix and path.
            let room = WINDOWS_PATH.saturating_sub(longest + 1);
            if room < WINDOWS_PREFIX {
                let message = format!(
                    "is {longest} characters long below the environment: on Windows it fits when the path of the \
                     environment has at most {room}"
                );
                findings.push(context.finding((Code::PathLength, wheel), format!("{room}"), message, [path]));
            }
        }
        for group in rocwheel_archive::case_collisions(context.paths(wheel).iter().copied()) {
            let message = "the names are one where upper and lower case do not count".to_owned();
            findings.push(context.finding((Code::PathLength, wheel), group[0].to_owned(), message, group));
        }
    }
    for path in context.paths(wheel) {
        if path.split('/').any(|name| name.len() > LINUX_NAME) {
            let message = format!("has a name of more than {LINUX_NAME} bytes, which no file system of Linux takes");
            let finding = context.finding((Code::PathLength, wheel), file_name(path), message, [*path]);
            findings.push(finding.weighing(Severity::Error));
        } else if path.len() + 1 + LINUX_PREFIX > LINUX_PATH {
            let room = LINUX_PATH.saturating_sub(path.len() + 1);
            let message = format!("fits when the path of the environment has at most {room} bytes");
            findings.push(context.finding((Code::PathLength, wheel), format!("{room}"), message, [*path]));
        }
    }
}
