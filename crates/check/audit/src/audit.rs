//! Input: an environment. Output: an [`AuditReport`] on the audited wheels. Every check of the
//! table runs; findings that the user ignores are counted and dropped, the others are sorted.

use std::collections::BTreeMap;

use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::site::{Distribution, DistributionForm, RefusedWheel, Role, Site};
use rocwheel_progress::Reporter;
use rocwheel_wheel::MemberPattern;
use rocwheel_wheel::WheelName;

use crate::Error;
use crate::analysis::{Context, cpu, file_name, floor, notes, reached, traces, unchecked};
use crate::checks::CHECKS;
use crate::finding::{Code, Finding};
use crate::joint_fixes;
use crate::options::{AuditScope, ExtraCheck, Options};
use crate::report::{AuditReport, AuditedEnvironment, FindingCounts, WheelSummary};

/// Reads the facts about the files of an environment, as far as the options need them, and runs
/// every check.
pub fn audit(site: &Site, options: &Options, reporter: &dyn Reporter) -> Result<AuditReport, Error> {
    audit_facts(site, &read_facts(site, options, reporter)?, options, reporter)
}

/// Reads the facts about the files of an environment, as far as the options need them.
pub fn read_facts(site: &Site, options: &Options, reporter: &dyn Reporter) -> Result<SiteFacts, Error> {
    if options.scope == AuditScope::Names {
        return Ok(SiteFacts::default());
    }
    let cache = options.cache.as_ref();
    let mut facts = match cache {
        Some(cache) => SiteFacts::read_with(site, cache, reporter)?,
        None => SiteFacts::read(site, reporter)?,
    };
    // The names are in data that stays packed unless hashes are computed.
    if options.extras.contains(&ExtraCheck::Hashes) {
        facts.find_loads(site, cache, reporter)?;
    }
    Ok(facts)
}

/// Runs every check on facts that were read before ([`read_facts`]).
pub fn audit_facts(
    site: &Site,
    facts: &SiteFacts,
    options: &Options,
    reporter: &dyn Reporter,
) -> Result<AuditReport, Error> {
    let context = Context::new(site, facts, options, reporter)?;
    let mut findings = Vec::new();
    for check in CHECKS.iter().filter(|check| options.scope == AuditScope::Files || check.scope == AuditScope::Names) {
        let before = findings.len();
        (check.run)(&context, &mut findings)?;
        debug_assert!(findings[before..].iter().all(|finding: &Finding| finding.code == check.code), "{}", check.code);
    }
    reached::weigh(&mut findings);
    let mut ignored: BTreeMap<String, u64> = BTreeMap::new();
    findings.retain(|finding| {
        let is_wanted = !options.ignore.contains(&finding.code) && !is_ignored(finding, &options.ignore_in);
        if !is_wanted {
            *ignored.entry(finding.code.text().to_owned()).or_default() += 1;
        }
        is_wanted
    });
    findings.sort_by(|one, other| one.key().cmp(&other.key()));
    joint_fixes::say_versions(&context, &mut findings);
    for finding in findings.iter_mut().filter(|finding| finding.fix.is_none()) {
        finding.decision.get_or_insert_with(|| finding.code.explanation().decision.clone());
    }
    findings.dedup();
    let to_decide = joint_fixes::questions(&context, &findings);
    Ok(AuditReport {
        environment: AuditedEnvironment {
            python: site.place.python.to_string(),
            glibc: options.glibc.as_ref().map(ToString::to_string),
            library_path: options.library_path.as_ref().map(|set| set.directories.clone()).unwrap_or_default(),
        },
        wheels: summaries(&context),
        counts: FindingCounts::of(&findings),
        findings,
        ignored,
        scenarios: traces::summaries(&context),
        loads: traces::loads(&context),
        to_decide,
        notes: notes::notes(&context),
    })
}

/// `true` if every file of a finding matches a pattern that ignores its code.
fn is_ignored(finding: &Finding, ignored: &[(Code, MemberPattern)]) -> bool {
    let mut files = finding.file.iter().chain(&finding.related);
    finding.file.is_some()
        && files.all(|file| {
            ignored.iter().filter(|(code, _)| *code == finding.code).any(|(_, pattern)| {
                pattern.matches(file) || !pattern.text().contains('/') && pattern.matches(file_name(file))
            })
        })
}

fn summaries(context: &Context<'_>) -> Vec<WheelSummary> {
    let all = context.site.distributions.iter().enumerate();
    let mut wheels: Vec<(usize, &Distribution)> = all.filter(|(_, distribution)| !distribution.is_rest()).collect();
    wheels.sort_by_key(|(_, wheel)| std::cmp::Reverse(wheel.role));
    let given = wheels.into_iter().map(|(index, installed)| summary(context, index, installed));
    given.chain(context.site.refused.iter().map(refused)).collect()
}

fn summary(context: &Context<'_>, index: usize, installed: &Distribution) -> WheelSummary {
    let (files, bytes) = installed.totals();
    WheelSummary {
        path: installed.path.to_string_lossy().into_owned(),
        file: installed.file_name(),
        name: installed.metadata.get("Name").unwrap_or_else(|| installed.name.clone()),
        version: installed.version(),
        form: match installed.form {
            DistributionForm::Wheel(_) => "wheel",
            DistributionForm::Installed(_) => "installed",
        },
        role: match installed.role {
            Role::Audited => "audited",
            Role::Beside => "beside",
        },
        size: installed.size(),
        installed: bytes,
        files,
        objects: (context.native(index).count() + context.windows_files(index).count()) as u64,
        platforms: installed.platforms(),
        floor: floor::floor(context, index),
        cpu: cpu::cpu(context, index),
        unchecked: match installed.role {
            Role::Audited => unchecked::unchecked(context, index).systems.into_iter().collect(),
            Role::Beside => Vec::new(),
        },
    }
}

/// The summary of a wheel that installers refuse, of which only the name is known.
fn refused(wheel: &RefusedWheel) -> WheelSummary {
    let file = wheel.file_name();
    let name = file.parse::<WheelName>().ok();
    WheelSummary {
        path: wheel.path.to_string_lossy().into_owned(),
        name: name.as_ref().map_or_else(|| file.clone(), |name| name.distribution.clone()),
        version: name.as_ref().map(|name| name.version.clone()).unwrap_or_default(),
        file,
        form: "wheel",
        role: "audited",
        size: fs_err::metadata(&wheel.path).map_or(0, |metadata| metadata.len()),
        installed: 0,
        files: 0,
        objects: 0,
        platforms: name.map(|name| name.platforms).unwrap_or_default(),
        floor: None,
        cpu: None,
        unchecked: Vec::new(),
    }
}
