//! RW024: the survey of GPU code finds code that differs from its description.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rocwheel_archive::FileDigest;
use rocwheel_loader::site::Distribution;
use rocwheel_survey as survey;
use rocwheel_survey::{Checksum, Kernels, Weight};

use crate::Error;
use crate::analysis::Context;
use crate::check::Check;
use crate::finding::{Code, Finding};
use crate::options::{AuditScope, ExtraCheck};

pub const CHECK: Check = Check { code: Code::GpuCode, scope: AuditScope::Files, run };

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {
    if !context.options.extras.contains(&ExtraCheck::GpuCode) {
        return Ok(());
    }
    for (wheel, installed) in context.audited() {
        gpu_code(context, (wheel, installed), findings)?;
    }
    Ok(())
}

/// Reports everything that the survey of GPU code finds wrong.
fn gpu_code(
    context: &Context<'_>,
    (wheel, installed): (usize, &Distribution),
    findings: &mut Vec<Finding>,
) -> Result<(), Error> {
    let options = survey::Options {
        scratch: context.site.scratch().to_owned(),
        targets: None,
        kernels: Kernels::Counted,
        digest: FileDigest::Skip,
        checksum: Checksum::Compare,
    };
    // The wheel, or the installed files that may have GPU code.
    let files: BTreeMap<PathBuf, &str> = match installed.installed() {
        None => BTreeMap::new(),
        Some(files) => context
            .paths(wheel)
            .iter()
            .filter(|path| {
                context.facts.objects.contains_key(**path)
                    || [".co", ".hsaco", ".kpack", ".dat"].iter().any(|suffix| path.ends_with(suffix))
            })
            .filter_map(|path| {
                let member = &context.site.files.get(*path)?.member;
                Some((files.path(member)?.to_owned(), member.as_str()))
            })
            .collect(),
    };
    let paths: Vec<PathBuf> = match installed.wheel() {
        Some(wheel) => vec![wheel.path().to_owned()],
        None => files.keys().cloned().collect(),
    };
    if paths.is_empty() {
        return Ok(());
    }
    survey::survey(&paths, &options, context.reporter, |file| -> Result<(), rocwheel_kpack::Error> {
        for fault in file.findings.iter().filter(|finding| finding.weight == Weight::Fault) {
            let finding = Finding::new(Code::GpuCode, fault.subject.name(), fault.message.clone());
            let member = files.get(&file.location.path).map(|member| (*member).to_owned());
            let member = member.or_else(|| file.location.member.clone());
            findings.push(finding.of(installed.file_name()).in_files(member));
        }
        Ok(())
    })
    .map_err(|error| match error {
        rocwheel_kpack::Error::Interrupted(interrupted) => Error::Interrupted(interrupted),
        other => Error::GpuCode { path: installed.path.clone(), source: Box::new(other) },
    })
}
