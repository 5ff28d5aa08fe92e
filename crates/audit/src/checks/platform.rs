//! Input: tags, and what the files need of the system. Output: whether the tags are true: glibc and
//! its companions (RW007), the CPU (RW008), names and tags (RW009), the machine (RW026), and stacks
//! on which code can be run (RW027).

use std::collections::{BTreeMap, BTreeSet};

use rocwheel_elf::Kind;
use rocwheel_wheel::manylinux::{self, FileNeeds, LibraryNeeds, Policies, Release};
use rocwheel_wheel::{Tag, TagPart, WheelName};

use super::{Context, listed};
use crate::finding::{Code, Finding, Severity};
use crate::fix;
use crate::report;
use rocwheel_loader::facts::{Object, PE_ARM64, PE_X86_64, Purpose, WindowsFile};
use rocwheel_loader::simulation::Where;
use rocwheel_loader::site::{Distribution, Installed};

/// What a platform tag promises (PEP 425, 600, 656).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Platform {
    /// `any`.
    Any,
    /// `manylinux_2_28_x86_64`, and the older names for it.
    Manylinux {
        /// The oldest glibc.
        glibc: Release,
        /// `x86_64`.
        machine: String,
    },
    /// `linux_x86_64`.
    Linux {
        /// `x86_64`.
        machine: String,
    },
    /// `musllinux_1_2_x86_64`.
    Musllinux {
        /// `x86_64`.
        machine: String,
    },
    /// Another system.
    Other,
}

impl Platform {
    pub(crate) fn parse(tag: &str) -> Platform {
        let release = |text: String| Release::try_from(text).ok();
        let legacy = [("manylinux1_", "2.5"), ("manylinux2010_", "2.12"), ("manylinux2014_", "2.17")];
        if tag == "any" {
            return Platform::Any;
        }
        for (start, glibc) in legacy {
            if let (Some(machine), Some(glibc)) = (tag.strip_prefix(start), release(glibc.to_owned())) {
                return Platform::Manylinux { glibc, machine: machine.to_owned() };
            }
        }
        if let Some(rest) = tag.strip_prefix("manylinux_") {
            let mut parts = rest.splitn(3, '_');
            if let (Some(major), Some(minor), Some(machine)) = (parts.next(), parts.next(), parts.next())
                && let Some(glibc) = release(format!("{major}.{minor}"))
            {
                return Platform::Manylinux { glibc, machine: machine.to_owned() };
            }
        }
        if let Some(machine) = tag.strip_prefix("musllinux_").and_then(|rest| rest.splitn(3, '_').nth(2)) {
            return Platform::Musllinux { machine: machine.to_owned() };
        }
        match tag.strip_prefix("linux_") {
            Some(machine) => Platform::Linux { machine: machine.to_owned() },
            None => Platform::Other,
        }
    }

    fn machine(&self) -> Option<&str> {
        match self {
            Platform::Manylinux { machine, .. } | Platform::Linux { machine } | Platform::Musllinux { machine } => {
                Some(machine)
            }
            Platform::Any | Platform::Other => None,
        }
    }
}

fn platforms(installed: &Distribution) -> impl Iterator<Item = (String, Platform)> {
    installed.platforms().into_iter().map(|tag| (tag.clone(), Platform::parse(&tag)))
}

pub(super) fn check(context: &Context<'_>, findings: &mut Vec<Finding>) {
    for (wheel, installed) in context.audited() {
        too_new(context, wheel, findings);
        cpu_level(context, wheel, findings);
        names(wheel, installed, context, findings);
        any(context, wheel, findings);
        machines(context, wheel, findings);
        windows_machines(context, wheel, findings);
        stacks(context, wheel, findings);
    }
}

/// What the files of a wheel need of libraries that the system has: not of those that the set
/// brings in their place.
fn needs(context: &Context<'_>, wheel: usize) -> Vec<FileNeeds> {
    // Who finds a library of the system's name in the set.
    let mut brought: BTreeSet<(&str, &str)> = BTreeSet::new();
    for rooted in &context.rooted {
        for loaded in &rooted.trace.loaded {
            let Where::Site(user) = &loaded.place else { continue };
            let Some(object) = context.facts.objects.get(user) else { continue };
            for (name, needed) in object.elf.needed.iter().zip(&loaded.needs) {
                if let Some((target, _)) = needed
                    && matches!(rooted.trace.loaded[*target].place, Where::Site(_))
                {
                    brought.insert((user, name));
                }
            }
        }
    }
    let of = |(path, object): (&str, &Object)| {
        let libraries: BTreeSet<&String> =
            object.elf.needed.iter().chain(object.elf.version_needs.iter().map(|need| &need.library)).collect();
        let libraries = libraries.into_iter().filter(|library| !brought.contains(&(path, library.as_str())));
        let libraries = libraries.map(|library| LibraryNeeds {
            library: library.clone(),
            versions: object
                .elf
                .version_needs
                .iter()
                .filter(|need| need.library == *library)
                .flat_map(|need| need.versions.clone())
                .collect(),
        });
        FileNeeds { file: context.member(path), libraries: libraries.collect() }
    };
    context.native(wheel).map(of).collect()
}

/// What a wheel needs of the system.
pub(crate) fn floor(context: &Context<'_>, wheel: usize) -> Option<report::Floor> {
    let needs = needs(context, wheel);
    if needs.is_empty() || context.is_for_musl(wheel) {
        return None;
    }
    let floor = manylinux::floor(&needs);
    let mut newest: BTreeMap<String, Release> = BTreeMap::new();
    let system =
        needs.iter().flat_map(|file| &file.libraries).filter(|need| Policies::built_in().provides(&need.library));
    for version in system.flat_map(|library| &library.versions) {
        let Some((set, number)) = version.split_once('_') else { continue };
        let Ok(number) = Release::try_from(number.to_owned()) else { continue };
        let entry = newest.entry(set.to_owned()).or_insert_with(|| number.clone());
        if number > *entry {
            *entry = number;
        }
    }
    Some(report::Floor {
        tag: floor.tag,
        newest: newest.into_iter().map(|(set, number)| (set, number.to_string())).collect(),
        reasons: floor.reasons.iter().map(ToString::to_string).collect(),
    })
}

/// Whether systems with this glibc have a version of a system library's symbols.
///
/// A glibc that no policy has was in distributions between two of them: what such a system had
/// besides glibc was not more than what the next policy promises.
fn is_promised(version: &str, glibc: &Release) -> bool {
    let policies = Policies::built_in().policies();
    if let Some(number) = version.strip_prefix("GLIBC_")
        && let Ok(number) = Release::try_from(number.to_owned())
    {
        return number <= *glibc;
    }
    let policy = policies.iter().find(|policy| policy.glibc >= *glibc).or(policies.last());
    policy.is_some_and(|policy| policy.promises(version))
}

/// Whether the policy of this glibc lists a library.
fn has_library(library: &str, glibc: &Release) -> bool {
    let files = [FileNeeds {
        file: String::new(),
        libraries: vec![LibraryNeeds { library: library.to_owned(), versions: Vec::new() }],
    }];
    manylinux::floor(&files).policy.is_some_and(|policy| policy.glibc <= *glibc || policy.glibc == *oldest())
}

fn oldest() -> &'static Release {
    &Policies::built_in().policies()[0].glibc
}

fn too_new(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let needs = needs(context, wheel);
    if context.is_for_musl(wheel) {
        return;
    }
    let tags = platforms(installed).filter_map(|(tag, platform)| match platform {
        Platform::Manylinux { glibc, .. } => Some((format!("the tag `{tag}` promises"), tag, glibc)),
        _ => None,
    });
    let mut asked: Vec<(String, String, Release)> = tags.collect();
    // Several names of one promise, `manylinux2014` and `manylinux_2_17`.
    asked.sort_by(|one, other| (&one.2, one.1.len()).cmp(&(&other.2, other.1.len())));
    asked.dedup_by(|one, other| one.2 == other.2);
    let named = context
        .options
        .glibc
        .iter()
        .map(|glibc| ("it is to work with".to_owned(), "--glibc".to_owned(), glibc.clone()));
    let is_from_tag = asked.len();
    asked.extend(named);
    let lowest = manylinux::floor(&needs).tag;
    for (index, (who, subject, glibc)) in asked.into_iter().enumerate() {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in &needs {
            for library in file.libraries.iter().filter(|library| Policies::built_in().provides(&library.library)) {
                for version in library.versions.iter().filter(|version| !is_promised(version, &glibc)) {
                    versions.entry(version).or_default().insert(&file.file);
                }
                if !has_library(&library.library, &glibc) {
                    versions.entry(&library.library).or_default().insert(&file.file);
                }
            }
        }
        if versions.is_empty() {
            continue;
        }
        let files: BTreeSet<&str> = versions.values().flatten().copied().collect();
        let mut names: Vec<&str> = versions.keys().copied().collect();
        names.sort_by_key(|name| std::cmp::Reverse(sort_key(name)));
        let file = files.first().copied().unwrap_or_default();
        let message = format!("{who} glibc {glibc}, and the files need {}", listed(names.iter().copied()));
        let mut finding = Finding::new(Code::TooNew, subject, message)
            .of(installed.file_name())
            .in_files(files.clone())
            .naming(names);
        finding.file = Some(file.to_owned());
        if index < is_from_tag && lowest.starts_with("manylinux") {
            finding.fix = fix::platform(installed, &lowest);
        }
        findings.push(finding);
    }
}

fn sort_key(version: &str) -> (bool, Option<Release>) {
    let number = version.split_once('_').and_then(|(_, number)| Release::try_from(number.to_owned()).ok());
    (version.starts_with("GLIBC_"), number)
}

/// The x86-64 level that a file is marked with: 1 for any CPU, 2 to 4.
fn level(object: &Object) -> u32 {
    match object.elf.isa_needed.unwrap_or(0) >> 1 {
        0 => 1,
        bits => bits.ilog2() + 2,
    }
}

/// The level of the `glibc-hwcaps` folder that a path lies in: the loader looks there on such CPUs
/// only.
fn folder_level(path: &str) -> u32 {
    let folder = path.split_once("glibc-hwcaps/x86-64-v").and_then(|(_, rest)| rest.split('/').next());
    folder.and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn level_name(level: u32) -> &'static str {
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

fn cpu_level(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let mut files: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.native(wheel) {
        if level(object) > folder_level(path) {
            files.entry(level(object)).or_default().push(path);
        }
    }
    for (level, paths) in files {
        let name = level_name(level);
        let message = format!("is marked as needing a CPU of {name}, and no tag can say so");
        let finding = context.finding((Code::CpuLevel, wheel), name, message, paths);
        findings.push(if level == 2 { finding.weighing(Severity::Warning) } else { finding });
    }
}

fn names(wheel: usize, installed: &Distribution, context: &Context<'_>, findings: &mut Vec<Finding>) {
    // What is installed has no file name that could be wrong, and is not published.
    let Some(own) = installed.wheel() else { return };
    let name = &own.name;
    let finding = |subject: &str, message: String| Finding::new(Code::Tags, subject, message).of(installed.file_name());
    if !own.name_agrees() {
        let message = format!("the folder `{}` is of another distribution or version than the file name", own.info());
        findings.push(finding("dist-info", message));
    }
    let said = installed.metadata.get("Name").unwrap_or_default();
    if rocwheel_wheel::canonical_name(&said) != rocwheel_wheel::canonical_name(&name.distribution) {
        let message = format!("METADATA says the name is `{said}`, the file name says `{}`", name.distribution);
        findings.push(finding("Name", message));
    }
    let said = installed.metadata.get("Version").unwrap_or_default();
    if !rocwheel_wheel::same_version(&said, &name.version) {
        let message = format!("METADATA says the version is `{said}`, the file name says `{}`", name.version);
        findings.push(finding("Version", message));
    }
    findings.extend(unknown_tags(installed, name));
    findings.extend(wheel_version(installed));
    let in_wheel = installed.tags_inside();
    let in_name = name.tags();
    if in_wheel != in_name {
        let only = |one: &BTreeSet<Tag>, other: &BTreeSet<Tag>| -> Vec<String> {
            one.difference(other).map(Tag::to_string).collect()
        };
        let (here, there) = (only(&in_name, &in_wheel), only(&in_wheel, &in_name));
        let part = |tags: &[String], what: &str| {
            (!tags.is_empty()).then(|| format!("only {what} has {}", listed(tags.iter().map(String::as_str))))
        };
        let parts: Vec<String> = [part(&here, "the file name"), part(&there, "WHEEL")].into_iter().flatten().collect();
        let tag = name.platforms.join(".");
        let finding = finding("Tag", format!("the tags of WHEEL are not those of the file name: {}", parts.join(", ")));
        let finding = finding.weighing(Severity::Warning).naming(here.into_iter().chain(there));
        findings.push(finding.fixed_by(fix::platform(installed, &tag)));
    }
    for (tag, platform) in platforms(installed) {
        if matches!(platform, Platform::Linux { .. }) {
            let message = format!("the platform `{tag}` promises nothing about glibc, and PyPI refuses it");
            let finding = finding(&tag, message).weighing(Severity::Warning);
            let floor = floor(context, wheel).filter(|floor| floor.tag.starts_with("manylinux"));
            findings.push(match floor {
                Some(floor) => finding.fixed_by(fix::platform(installed, &floor.tag)),
                None => finding,
            });
        }
    }
}

/// A format of wheels that pip refuses (binary distribution format, Installing a wheel).
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

/// Tags with which no installer takes a wheel anywhere.
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

/// A wheel for any platform that holds compiled files for one.
fn any(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let mut tags = platforms(installed).peekable();
    if tags.peek().is_none() || !tags.all(|(_, platform)| platform == Platform::Any) {
        return;
    }
    let compiled =
        |object: &Object| matches!(object.purpose, Purpose::Native | Purpose::OtherMachine | Purpose::Static);
    let paths: Vec<(&str, &Object)> = context.objects(wheel).filter(|(_, object)| compiled(object)).collect();
    let names = context.paths(wheel);
    let windows: Vec<(&str, Option<&WindowsFile>)> =
        names.iter().filter_map(|path| Some((*path, context.facts.windows.get(*path)?.as_ref()))).collect();
    let is_macs = names.iter().any(|path| path.ends_with(".dylib") || path.contains("darwin"));
    let modules: Vec<&str> = if let Some((_, first)) = paths.first() {
        let is_one = paths.iter().all(|(_, object)| object.elf.machine == first.elf.machine);
        if is_one && windows.is_empty() { paths.iter().map(|(path, _)| *path).collect() } else { Vec::new() }
    } else {
        // A library or a program may be a help on Windows that nobody needs elsewhere; a module is
        // imported.
        let machines: BTreeSet<&str> = windows.iter().map(|(_, file)| windows_machine(*file)).collect();
        let modules = windows.iter().map(|(path, _)| *path).filter(|path| path.ends_with(".pyd"));
        if machines.len() == 1 { modules.collect() } else { Vec::new() }
    };
    if modules.is_empty() || is_macs {
        return;
    }
    let message = "the tag says that it works on any platform, and it holds compiled files for one".to_owned();
    let finding = context.finding((Code::Tags, wheel), "any", message, modules);
    let on_windows = windows.first().map(|(_, file)| windows_machine(*file)).filter(|_| paths.is_empty());
    let tag = on_windows.map(str::to_owned).or_else(|| Some(floor(context, wheel)?.tag));
    findings.push(match tag {
        Some(tag) => finding.fixed_by(fix::platform(installed, &tag)),
        None => finding,
    });
}

/// `e_machine` and bits of the machines that tags name.
fn machine_of(object: &Object) -> &'static str {
    match (object.elf.machine, object.elf.is_64) {
        (62, true) => "x86_64",
        (3, _) => "i686",
        (183, _) => "aarch64",
        (40, _) => "armv7l",
        (21, _) => "ppc64le",
        (22, _) => "s390x",
        (243, _) => "riscv64",
        (258, _) => "loongarch64",
        _ => "unknown",
    }
}

fn machines(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let installed = &context.site.distributions[wheel];
    let promised: BTreeSet<String> =
        platforms(installed).filter_map(|(_, platform)| platform.machine().map(str::to_owned)).collect();
    if promised.is_empty() {
        return;
    }
    let is_module = |path: &str| super::traces::has_module_tag(super::file_name(path));
    let wrong = |(path, object): &(&str, &Object)| {
        let machine = machine_of(object);
        matches!(object.purpose, Purpose::Native | Purpose::OtherMachine)
            && is_module(path)
            && !promised.contains(machine)
            && !(machine == "armv7l" && promised.contains("armv6l"))
    };
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, object) in context.objects(wheel).filter(wrong) {
        files.entry(machine_of(object)).or_default().push(path);
    }
    for (machine, paths) in files {
        let tags = listed(promised.iter().map(String::as_str));
        let message = format!("is for {machine}, and the tag is for {tags}");
        findings.push(context.finding((Code::Machine, wheel), machine, message, paths).naming(&promised));
    }
}

/// The platform tag of the files that are like this one for Windows; of 32 bits only that much is
/// known.
fn windows_machine(file: Option<&WindowsFile>) -> &'static str {
    match file.map(|file| file.pe.machine) {
        None => "win32",
        Some(PE_X86_64) => "win_amd64",
        Some(PE_ARM64) => "win_arm64",
        Some(_) => "another machine",
    }
}

fn windows_machines(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let promised = context.site.distributions[wheel].platforms();
    if promised.is_empty() || !promised.iter().all(|tag| tag.starts_with("win")) {
        return;
    }
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in context.paths(wheel).iter().filter(|path| path.ends_with(".pyd")) {
        let Some(file) = context.facts.windows.get(*path) else { continue };
        let machine = windows_machine(file.as_ref());
        if !promised.iter().any(|tag| tag == machine) {
            files.entry(machine).or_default().push(path);
        }
    }
    for (machine, paths) in files {
        let message = format!("is for {machine}, and the tag is for {}", listed(promised.iter().map(String::as_str)));
        findings.push(context.finding((Code::Machine, wheel), machine, message, paths).naming(&promised));
    }
}

fn stacks(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let asks =
        |(_, object): &(&str, &Object)| object.elf.kind == Kind::SharedLibrary && object.elf.wants_executable_stack();
    let paths: Vec<&str> = context.native(wheel).filter(asks).map(|(path, _)| path).collect();
    // musl's loader takes no notice of the flag.
    if !paths.is_empty() && !context.is_for_musl(wheel) {
        let message = "asks for an executable stack, with which glibc 2.41 and newer refuses to load it";
        let finding = context.finding((Code::ExecutableStack, wheel), "PT_GNU_STACK", message, paths);
        findings.push(finding.fixed_by(fix::repair(&context.site.distributions[wheel])));
    }
}

/// What was not looked at, and why.
pub(crate) fn limits(context: &Context<'_>) -> Vec<String> {
    let mut notes = context.site.notes.clone();
    for (wheel, installed) in context.audited() {
        if let Some(source) = installed.installed().and_then(Installed::editable) {
            notes.push(format!(
                "`{}` is an editable installation of `{source}`: its files are there and were not checked",
                installed.name
            ));
        } else if !installed.is_complete() {
            notes.push(format!(
                "`{}` has no RECORD: its files were told by their names, and others of it may have been missed",
                installed.file_name()
            ));
        }
        let others: BTreeSet<&str> = context
            .objects(wheel)
            .filter(|(_, object)| object.purpose == Purpose::OtherMachine)
            .map(|(_, object)| machine_of(object))
            .collect();
        // Pip and setuptools have launchers, programs that they copy when they install something on
        // Windows.
        let is_library =
            |path: &&&str| !path.ends_with(".exe") || !installed.platforms().iter().all(|tag| tag == "any");
        let of_windows = |path: &&&str| context.facts.windows.contains_key(**path);
        let windows = context.paths(wheel).iter().filter(of_windows).any(|path| is_library(&path))
            && context.windows_files(wheel).next().is_none();
        let what = if windows { Some("Windows") } else { others.first().copied() };
        if let Some(what) = what.filter(|_| context.native(wheel).next().is_none()) {
            notes.push(format!(
                "the files of `{}` are for {what}: what they load was not checked: only x86-64 Linux and wheels for `win_amd64` are supported",
                installed.file_name()
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        Release::try_from(text.to_owned()).unwrap()
    }

    #[test]
    fn platforms_are_understood() {
        let manylinux = |glibc: &str| Platform::Manylinux { glibc: release(glibc), machine: "x86_64".to_owned() };
        assert_eq!(Platform::parse("manylinux2014_x86_64"), manylinux("2.17"));
        assert_eq!(Platform::parse("manylinux_2_28_x86_64"), manylinux("2.28"));
        assert_eq!(Platform::parse("manylinux1_x86_64"), manylinux("2.5"));
        assert_eq!(Platform::parse("linux_x86_64"), Platform::Linux { machine: "x86_64".to_owned() });
        assert_eq!(Platform::parse("musllinux_1_2_x86_64"), Platform::Musllinux { machine: "x86_64".to_owned() });
        assert_eq!(Platform::parse("win_amd64"), Platform::Other);
        assert_eq!(Platform::parse("manylinux_2_x"), Platform::Other);
    }

    #[test]
    fn promises_between_policies_are_kept() {
        for (version, glibc, answer) in [
            ("GLIBC_2.29", "2.29", true),
            ("GLIBC_2.30", "2.29", false),
            ("GLIBC_2.34", "2.28", false),
            // 2.29 is no policy: what 2.31 promises besides glibc is not held against it.
            ("GLIBCXX_3.4.28", "2.29", true),
            ("GLIBCXX_3.4.29", "2.29", false),
            ("GLIBCXX_3.4.25", "2.28", false),
            ("GLIBC_2.99", "2.99", true),
            ("CXXABI_1.3.15", "2.99", true),
            ("GLIBC_PRIVATE", "2.41", false),
        ] {
            assert_eq!(is_promised(version, &release(glibc)), answer, "{version} with {glibc}");
        }
        assert!(has_library("libexpat.so.1", &release("2.12")) && has_library("libexpat.so.1", &release("2.28")));
        assert!(!has_library("libexpat.so.1", &release("2.5")));
        assert!(has_library("libc.so.6", &release("2.5")));
    }

    #[test]
    fn folders_of_a_cpu_level_are_known() {
        assert_eq!(folder_level("a/glibc-hwcaps/x86-64-v3/libx.so"), 3);
        assert_eq!(folder_level("a/lib/libx.so"), 1);
    }
}
