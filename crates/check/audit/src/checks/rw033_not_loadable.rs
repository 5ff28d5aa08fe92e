//! RW033: the loader refuses a file for its type, its system, its flags or its layout, or a program
//! has no permission to be started.

use std::collections::BTreeMap;

use rocwheel_loader::facts::{Object, Purpose};
use rocwheel_loader::site::Distribution;
use rocwheel_wheel::{CLibrary, LoaderFeature, LoaderSupport};

use crate::Error;
use crate::analysis::traces::{has_module_tag, may_be_module};
use crate::analysis::{Context, file_name, is_for_windows};
use crate::check::Check;
use crate::finding::{Code, Finding, Severity};
use crate::options::AuditScope;
use rocwheel_imports::at_import;

pub const CHECK: Check = Check { code: Code::NotLoadable, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    for (wheel, installed) in context.audited() {
        refused(context, wheel, findings);
        without_execute_bit(context, (wheel, installed), findings);
    }
    Ok(())
}

/// Reports files that no version of the C library's loader takes.
fn refused(context: &Context<'_>, wheel: usize, findings: &mut Vec<Finding>) {
    let (library, loader) =
        if context.is_for_musl(wheel) { (CLibrary::Musl, "musl") } else { (CLibrary::Glibc, "glibc") };
    let mut files: BTreeMap<(LoaderFeature, Severity), Vec<&str>> = BTreeMap::new();
    for (path, object) in context.objects(wheel).filter(|(_, object)| is_for_linux(object)) {
        let features = LoaderFeature::of(&object.elf);
        for feature in features.into_iter().filter(|feature| feature.support(library) == LoaderSupport::Never) {
            if let Some(severity) = weight(context, (wheel, path), feature) {
                files.entry((feature, severity)).or_default().push(path);
            }
        }
    }
    for ((feature, severity), paths) in files {
        let message = match library {
            CLibrary::Glibc => format!("has {}, and {loader} refuses it: `{}`", feature.name(), feature.fault()),
            CLibrary::Musl => format!("has {}, which {loader} does not load", feature.name()),
        };
        let finding = context.finding((Code::NotLoadable, wheel), feature.word(), message, paths);
        findings.push(finding.weighing(severity));
    }
}

fn is_for_linux(object: &Object) -> bool {
    matches!(object.purpose, Purpose::Native | Purpose::Static)
}

/// The severity of a feature of a file; `None` if nothing loads the file into a process, as for
/// most programs.
fn weight(context: &Context<'_>, (wheel, path): (usize, &str), feature: LoaderFeature) -> Option<Severity> {
    if feature != LoaderFeature::Program {
        return Some(Severity::Error);
    }
    let module = path.rsplit_once('/').map_or(path, |(_, name)| name).split('.').next().unwrap_or_default();
    let folder = &path[..path.len() - file_name(path).len()];
    let is_imported =
        may_be_module(path) && at_import::importer_of(context.site, wheel, &format!("{folder}{module}")).is_some();
    if has_module_tag(file_name(path)) || is_imported {
        return Some(Severity::Error);
    }
    // A program may be named like a library, as on Android.
    file_name(path).ends_with(".so").then_some(Severity::Warning)
}

fn is_program(context: &Context<'_>, path: &str) -> bool {
    let object = context.facts.objects.get(path).filter(|object| is_for_linux(object));
    object.is_some_and(|object| object.is_program() || object.purpose == Purpose::Static)
}

/// Reports programs that an installer writes without permission to start them: pip gives each file
/// the mode of the archive, also in the folder for programs. Windows has no such permission.
fn without_execute_bit(context: &Context<'_>, (wheel, installed): (usize, &Distribution), findings: &mut Vec<Finding>) {
    let Some(archive) = installed.wheel() else { return };
    if is_for_windows(installed) {
        return;
    }
    let mut files = context.paths(wheel).to_vec();
    files.retain(|path| !file_name(path).contains(".so") && (path.starts_with("bin/") || is_program(context, path)));
    files.retain(|path| {
        let member = context.site.files.get(*path).and_then(|placed| archive.member(&placed.member));
        member.is_some_and(|member| !member.executable)
    });
    if !files.is_empty() {
        let message = "has no permission to be started in the archive, and pip installs it without one";
        let finding = context.finding((Code::NotLoadable, wheel), "mode", message, files);
        findings.push(finding.weighing(Severity::Warning));
    }
}
