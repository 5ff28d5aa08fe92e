//! Input: which files the wheels install, and how large they are. Output: stray packages (RW014),
//! files of two wheels (RW015), paths that are too long (RW018), wheels that are too large to
//! publish (RW020).

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Extra, file_name};
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use rocwheel_loader::site::{Distribution, is_in_tree};

/// Names that nobody gives a package that others are to import.
const STRAY: [&str; 27] = [
    "test",
    "tests",
    "testing",
    "unittests",
    "unit_tests",
    "integration_tests",
    "benchmark",
    "benchmarks",
    "bench",
    "example",
    "examples",
    "sample",
    "samples",
    "demo",
    "demos",
    "doc",
    "docs",
    "script",
    "scripts",
    "tool",
    "tools",
    "build",
    "csrc",
    "hopper",
    "ci",
    "conftest",
    "setup",
];
/// What Windows allows a path to have, without the character that ends it (`MAX_PATH`).
const WINDOWS_PATH: usize = 259;
/// A path that environments on Windows commonly have at least:
/// `C:\Users\somebody\source\repos\project\.venv`.
const WINDOWS_PREFIX: usize = 60;
/// `PATH_MAX` and `NAME_MAX` of Linux, without the byte that ends them.
const LINUX_PATH: usize = 4095;
const LINUX_NAME: usize = 255;
/// The room that a path of an environment needs on Linux.
const LINUX_PREFIX: usize = 200;

const MEGABYTE: u64 = 1_000_000;
const GIBIBYTE: u64 = 1 << 30;

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for (wheel, installed) in context.audited() {
        stray(context, wheel, findings);
        paths(context, wheel, findings);
        sizes(installed, findings);
    }
    clashes(context, findings);
}

fn stray(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let packages = context.site.packages();
    let mut tops: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in context.paths(wheel) {
        let Some(inside) = path.strip_prefix(packages.as_str()).and_then(|rest| rest.strip_prefix('/')) else {
            continue;
        };
        let top = inside.split('/').next().unwrap_or_default();
        if top != installed.info() {
            tops.entry(top).or_default().push(path);
        }
    }
    let name = installed.name.replace('-', "_");
    let own_words: BTreeSet<&str> = installed.name.split('-').collect();
    let is_stray = |top: &str| {
        let module = top.strip_suffix(".py").unwrap_or(top);
        STRAY.contains(&module) && name != module && !own_words.contains(module)
    };
    // A distribution that has nothing else means it.
    if tops.keys().all(|top| is_stray(top)) {
        return;
    }
    for (top, files) in tops.into_iter().filter(|(top, _)| is_stray(top)) {
        let is_code = files.iter().any(|path| [".py", ".so", ".pyi"].iter().any(|suffix| path.ends_with(suffix)));
        let what = if is_code { "importable by everyone" } else { "which is no package" };
        let message = format!("installs `{top}` at the top level, {what}, beside its own package");
        let pattern = if top.ends_with(".py") { top.to_owned() } else { format!("{top}/**") };
        let finding = context.finding((Code::StrayPackage, wheel), top, message, files);
        findings.push(finding.fixed_by(fix::drop_files(installed, &pattern)));
    }
}

fn clashes(context: &Context<'_>, findings: &mut Vec<Finding>) {
    // (wheels, severity) → paths.
    let mut groups: BTreeMap<(Vec<usize>, Severity), Vec<&str>> = BTreeMap::new();
    for clash in &context.site.clashes {
        if !clash.wheels.iter().any(|wheel| context.is_audited(*wheel)) {
            continue;
        }
        // A file of a device package is a row of both in an expanded devel tree, so that they can
        // be removed in any order.
        let is_installed = |wheel: &usize| context.site.distributions[*wheel].installed().is_some();
        if clash.same && is_in_tree(context.site.shown(&clash.path)) && clash.wheels.iter().all(is_installed) {
            continue;
        }
        let severity = match (clash.same, file_name(&clash.path)) {
            (true, "__init__.py") => Severity::Note,
            (true, _) => Severity::Warning,
            (false, _) => Severity::Error,
        };
        groups.entry((clash.wheels.clone(), severity)).or_default().push(&clash.path);
    }
    for ((wheels, severity), paths) in groups {
        let names: Vec<String> =
            wheels.iter().map(|wheel| format!("`{}`", context.site.distributions[*wheel].name)).collect();
        let first = paths.first().copied().unwrap_or_default();
        let shown = context.site.shown(first);
        let same = if severity == Severity::Error { "with different content" } else { "with the same content" };
        let message = format!("{} both install `{shown}`, {same}", names.join(" and "));
        let wheel = wheels.iter().copied().find(|wheel| context.is_audited(*wheel)).unwrap_or_default();
        let mut finding = Finding::new(Code::SharedFile, shown, message)
            .of(context.site.distributions[wheel].file_name())
            .in_files(paths.iter().map(|path| context.site.shown(path)))
            .weighing(severity);
        if severity == Severity::Error {
            finding = finding.fixed_by(fix::drop_files(&context.site.distributions[wheel], shown));
        }
        findings.push(finding);
    }
}

/// Where Windows puts a file, relative to the environment.
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
    let may_be_windows = |platform: &String| platform == "any" || platform.starts_with("win");
    let for_windows = installed.wheel().is_some() && installed.platforms().iter().any(may_be_windows)
        || context.options.extras.contains(&Extra::WindowsPaths);
    if for_windows {
        let lengths = context.paths(wheel).iter().map(|path| (on_windows(context, path).encode_utf16().count(), *path));
        if let Some((longest, path)) = lengths.max() {
            // A separator is between the prefix and the path.
            let room = WINDOWS_PATH.saturating_sub(longest + 1);
            if room < WINDOWS_PREFIX {
                let message = format!(
                    "is {longest} characters long below the environment: on Windows it fits when the path of the \
                     environment has at most {room}"
                );
                findings.push(context.finding((Code::PathLength, wheel), format!("{room}"), message, [path]));
            }
        }
        for group in rocwheel_wheel::case_collisions(context.paths(wheel).iter().copied()) {
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

/// Who does not take a file of so many bytes, and how bad that is.
fn gate(size: u64) -> Option<(&'static str, Severity)> {
    match size {
        _ if size >= 2 * GIBIBYTE => {
            Some(("PyPI takes no more than 1 GB and GitHub less than 2 GiB", Severity::Warning))
        }
        _ if size > 1000 * MEGABYTE => Some(("PyPI takes no more than 1 GB", Severity::Warning)),
        _ if size > 100 * MEGABYTE => Some(("PyPI takes more than 100 MB only after a request", Severity::Note)),
        _ => None,
    }
}

fn sizes(installed: &Distribution, findings: &mut Vec<Finding>) {
    // What is installed is not published.
    let size = if installed.wheel().is_some() { installed.size() } else { 0 };
    if let Some((limit, severity)) = gate(size) {
        let message = format!("the wheel has {} MB, and {limit}", size.div_ceil(MEGABYTE));
        findings.push(Finding::new(Code::Size, "size", message).of(installed.file_name()).weighing(severity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_those_of_the_indexes() {
        let severity = |size| gate(size).map(|(_, severity)| severity);
        assert_eq!(severity(100_000_000), None);
        assert_eq!(severity(100_000_001), Some(Severity::Note));
        assert_eq!(severity(1_000_000_000), Some(Severity::Note));
        assert_eq!(severity(1_000_000_001), Some(Severity::Warning));
        assert!(gate((2 << 30) - 1).unwrap().0.ends_with("1 GB") && gate(2 << 30).unwrap().0.contains("GitHub"));
    }
}
