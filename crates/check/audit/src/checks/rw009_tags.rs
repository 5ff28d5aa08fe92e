//! RW009: the tags are wrong, or contradict the files of the wheel.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::bytes::Regex;
use rocwheel_loader::facts::{Object, Purpose, WindowsObject};
use rocwheel_loader::site::Distribution;
use rocwheel_wheel::{PlatformTag, Tag, TagPart, WheelName};

use crate::Error;
use crate::analysis::floor::floor;
use crate::analysis::machine::windows_machine;
use crate::analysis::unchecked::is_managed;
use crate::analysis::windows::would_lack;
use crate::analysis::{Context, listed, platform_tags};
use crate::check::Check;
use crate::checks::rw010_python::{WindowsPython, on_windows};
use crate::finding::{Code, Finding, Severity};
use crate::fix::{self, Fix};
use crate::options::AuditScope;

pub const CHECK: Check = Check { code: Code::Tags, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        names(wheel, installed, context, findings);
        any(context, wheel, findings);
    }
    Ok(())
}

fn names(wheel: usize, installed: &Distribution, context: &Context<'_>, findings: &mut Vec<Finding>) {
    // An installed distribution has no file name that could be wrong, and is not published.
    let Some(own) = installed.wheel() else { return };
    let name = &own.name;
    if !own.name_agrees() {
        let message = format!("the folder `{}` is of another distribution or version than the file name", own.info());
        findings.push(context.finding((Code::Tags, wheel), "dist-info", message, []));
    }
    let said = installed.metadata.get("Name").unwrap_or_default();
    if rocwheel_wheel::canonical_name(&said) != rocwheel_wheel::canonical_name(&name.distribution) {
        let message = format!("METADATA says the name is `{said}`, the file name says `{}`", name.distribution);
        findings.push(context.finding((Code::Tags, wheel), "Name", message, []));
    }
    let said = installed.metadata.get("Version").unwrap_or_default();
    if !rocwheel_wheel::same_version(&said, &name.version) {
        let message = format!("METADATA says the version is `{said}`, the file name says `{}`", name.version);
        findings.push(context.finding((Code::Tags, wheel), "Version", message, []));
    }
    let metadata = installed.bytes(&format!("{}/METADATA", own.info()));
    if metadata.is_ok_and(|bytes| std::str::from_utf8(&bytes).is_err()) {
        let message = "METADATA is not in UTF-8, and pip refuses such a wheel";
        findings.push(context.finding((Code::Tags, wheel), "METADATA", message, []));
    }
    findings.extend(unknown_tags(installed, name));
    findings.extend(wheel_version(installed));
    let in_wheel = installed.tags_inside();
    let in_name = name.tags();
    if in_wheel != in_name {
        let here: Vec<String> = in_name.difference(&in_wheel).map(Tag::to_string).collect();
        let there: Vec<String> = in_wheel.difference(&in_name).map(Tag::to_string).collect();
        let parts = [(&here, "the file name"), (&there, "WHEEL")].into_iter().filter(|(tags, _)| !tags.is_empty());
        let parts: Vec<String> =
            parts.map(|(tags, what)| format!("only {what} has {}", listed(tags.iter().map(String::as_str)))).collect();
        let tag = name.platforms.join(".");
        let message = format!("the tags of WHEEL are not those of the file name: {}", parts.join(", "));
        let finding = context.finding((Code::Tags, wheel), "Tag", message, []).weighing(Severity::Warning);
        let finding = finding.naming(here.into_iter().chain(there));
        findings.push(finding.fixed_by(fix::platform(installed, &tag)));
    }
    for (tag, platform) in platform_tags(installed) {
        if matches!(platform, PlatformTag::Linux { .. }) {
            let message = format!("the platform `{tag}` promises nothing about glibc, and PyPI refuses it");
            let finding = context.finding((Code::Tags, wheel), &tag, message, []).weighing(Severity::Warning);
            let floor = floor(context, wheel).filter(|floor| floor.tag.starts_with("manylinux"));
            findings.push(match floor {
                Some(floor) => finding.fixed_by(fix::platform(installed, &floor.tag)),
                None => finding,
            });
        }
    }
}

/// Reports a wheel format that pip refuses (binary distribution format, Installing a wheel).
fn wheel_version(installed: &Distribution) -> Option<Finding> {
    let written = installed.wheel_file.get("Wheel-Version");
    let message = match &written {
        None => "WHEEL has no `Wheel-Version`, and pip refuses such a wheel".to_owned(),
        Some(text) => {
            let major = text.trim().split('.').map(str::parse::<u32>).collect::<Result<Vec<u32>, _>>();
            match major.ok().and_then(|numbers| numbers.first().copied()) {
                Some(0 | 1) => return None,
                Some(_) => format!("WHEEL says `Wheel-Version: {text}`, and pip takes no wheel above version 1"),
                None => {
                    format!("WHEEL says `Wheel-Version: {text}`, which is not a version, and pip refuses such a wheel")
                }
            }
        }
    };
    Some(Finding::new(Code::Tags, "Wheel-Version", message).of(installed.file_name()))
}

fn unknown_tags(installed: &Distribution, name: &WheelName) -> Vec<Finding> {
    let parts = [(TagPart::Python, &name.pythons), (TagPart::Abi, &name.abis), (TagPart::Platform, &name.platforms)];
    let mut findings = Vec::new();
    for (part, tags) in parts {
        for tag in tags.iter().filter(|tag| !part.is_known(tag)) {
            let meant = part.nearest(tag);
            let meaning = meant.as_ref().map(|meant| format!("; `{meant}` was probably meant")).unwrap_or_default();
            let message = format!("no installer knows the {} `{tag}`{meaning}", part.noun());
            let finding = Finding::new(Code::Tags, tag.clone(), message).of(installed.file_name());
            let right: Option<Vec<&str>> =
                tags.iter().map(|other| if other == tag { meant.as_deref() } else { Some(other.as_str()) }).collect();
            let right = right.filter(|_| part == TagPart::Platform);
            findings.push(finding.fixed_by(right.and_then(|tags| fix::platform(installed, &tags.join(".")))));
        }
    }
    findings
}

/// Reports a wheel for any platform that holds compiled files for one.
fn any(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let mut tags = platform_tags(installed).peekable();
    if tags.peek().is_none() || !tags.all(|(_, platform)| platform == PlatformTag::Any) {
        return;
    }
    let compiled = context
        .objects(wheel)
        .filter(|(_, object)| matches!(object.purpose, Purpose::Native | Purpose::OtherMachine | Purpose::Static));
    let paths: Vec<(&str, &Object)> = compiled.collect();
    let names = context.paths(wheel);
    let windows: Vec<(&str, Option<&WindowsObject>)> =
        names.iter().filter_map(|path| Some((*path, context.facts.windows.get(*path)?.as_ref()))).collect();
    let is_macs = names.iter().any(|path| path.ends_with(".dylib") || path.contains("darwin"));
    let (files, severity) = if let Some((_, first)) = paths.first() {
        let is_one = paths.iter().all(|(_, object)| object.elf.machine == first.elf.machine);
        let files = paths.iter().map(|(path, _)| *path).filter(|_| is_one && windows.is_empty());
        (files.collect(), Severity::Error)
    } else {
        of_windows(context, wheel, &windows)
    };
    if files.is_empty() || is_macs {
        return;
    }
    let message = "the tag says that it works on any platform, and it holds compiled files for one".to_owned();
    let finding = context.finding((Code::Tags, wheel), "any", message, files).weighing(severity);
    // Perhaps the wheel works elsewhere without the files, and another tag would end that.
    if severity != Severity::Error {
        findings.push(finding);
        return;
    }
    let fix = match windows.first().filter(|_| paths.is_empty()) {
        Some((_, file)) => for_windows(context, wheel, windows_machine(*file)),
        None => floor(context, wheel).and_then(|floor| fix::platform(installed, &floor.tag)),
    };
    findings.push(finding.fixed_by(fix));
}

/// The command that sets the tags of a wheel for Windows; `None` if the audit of the result would
/// have errors: only wheels with the tag are checked as Windows loads them.
fn for_windows(context: &Context<'_>, wheel: usize, machine: &str) -> Option<Fix> {
    if would_lack(context, wheel) {
        return None;
    }
    let installed = &context.site.distributions[wheel];
    match on_windows(context, wheel) {
        WindowsPython::Tagged => fix::platform(installed, machine),
        WindowsPython::Only(python) => fix::compiled_for(installed, &python, machine),
        WindowsPython::Mixed => None,
    }
}

/// The files by which a wheel without files for Linux is for Windows on one machine only. Modules
/// are always imported, so they are an error. Libraries are one if Python code loads them by their
/// path and does not look at the system. Other libraries may help on Windows and be unnecessary
/// elsewhere, which programs usually are.
fn of_windows<'a>(
    context: &Context<'_>,
    wheel: usize,
    files: &[(&'a str, Option<&WindowsObject>)],
) -> (Vec<&'a str>, Severity) {
    let machines: BTreeSet<&str> = files.iter().map(|(_, file)| windows_machine(*file)).collect();
    if machines.len() != 1 {
        return (Vec::new(), Severity::Error);
    }
    let paths = files.iter().map(|(path, _)| *path);
    let modules: Vec<&str> = paths.clone().filter(|path| path.ends_with(".pyd")).collect();
    if !modules.is_empty() {
        return (modules, Severity::Error);
    }
    let libraries: Vec<&str> = paths.filter(|path| path.ends_with(".dll") && !is_managed(context, path)).collect();
    let mut loaded = libraries.clone();
    loaded.retain(|path| {
        let bytes = context.loader_file(wheel, path).and_then(|file| context.site.bytes(file).ok());
        bytes.is_some_and(|bytes| !ASKS_SYSTEM.is_match(&bytes))
    });
    if loaded.is_empty() { (libraries, Severity::Warning) } else { (loaded, Severity::Error) }
}

/// `sys.platform`, `platform.system()` and `os.name`.
static ASKS_SYSTEM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u)\bplatform\b|\bos\.name\b").expect("the expression is constant: a test uses it")
});
