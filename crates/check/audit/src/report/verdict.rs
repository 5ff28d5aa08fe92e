//! Input: a report. Output: its verdict, the one sentence that answers whether the wheels load.

use std::collections::BTreeSet;

use rocwheel_progress::few_in_backticks;
use rocwheel_wheel::PlatformTag;
use serde::Serialize;

use super::{AuditReport, WheelSummary};
use crate::code::Code;
use crate::finding::{Finding, Severity};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoadVerdict {
    /// The answer for programs.
    pub answer: LoadAnswer,
    /// The answer for people, without a full stop: `demo 1.0 does not load on glibc 2.28 to 2.33`.
    pub sentence: String,
    /// Commands that decide where the answer is `unknown`; empty if none is known.
    pub to_decide: Vec<String>,
}

/// The answer of an audit in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadAnswer {
    /// No error was found.
    Loads,
    /// There are errors.
    Fails,
    /// No error was found, but packages that decide were not given or not found, libraries may be
    /// missing, or files for a system or machine were not checked.
    Unknown,
}

/// Codes of what a library needs; their warnings say that it may be missing.
const NEEDS: [Code; 7] = [
    Code::LibraryNotFound,
    Code::LibraryOutside,
    Code::UndefinedSymbol,
    Code::SymbolVersion,
    Code::MissingRequirement,
    Code::DlopenMissing,
    Code::DllNotFound,
];
/// Codes of errors about installation.
const INSTALLATION: [Code; 7] = [
    Code::Tags,
    Code::SharedFile,
    Code::Record,
    Code::WrongRequirement,
    Code::UnmetRequirement,
    Code::Refused,
    Code::NotBrought,
];
/// Codes of errors about contents that are not what their name or table says.
const CONTENTS: [Code; 3] = [Code::NotRocm, Code::Unreadable, Code::GpuCode];
/// Number of wheels that a verdict names.
const NAMED: usize = 3;

impl AuditReport {
    /// The verdict about the audited wheels.
    pub fn verdict(&self) -> LoadVerdict {
        let audited: Vec<&WheelSummary> = self.wheels.iter().filter(|wheel| wheel.role == "audited").collect();
        let errors: Vec<&Finding> =
            self.findings.iter().filter(|finding| finding.severity == Severity::Error).collect();
        let unchecked: BTreeSet<&str> = audited.iter().flat_map(|wheel| wheel.unchecked.iter().copied()).collect();
        let doubt = self.doubt().or_else(|| {
            let systems = unchecked.into_iter().collect::<Vec<_>>().join(", ");
            (!systems.is_empty()).then(|| format!("files for {systems} were not checked"))
        });
        let answer = match (errors.len(), &doubt) {
            (1.., _) => LoadAnswer::Fails,
            (0, Some(_)) => LoadAnswer::Unknown,
            (0, None) => LoadAnswer::Loads,
        };
        let reason = doubt.unwrap_or_default();
        let sentence = match (&audited[..], answer) {
            ([wheel], LoadAnswer::Fails) => format!("{} {}", name(wheel), fault(wheel, &errors)),
            ([wheel], LoadAnswer::Loads) => format!("{} loads {}", name(wheel), self.place(wheel)),
            ([wheel], LoadAnswer::Unknown) => format!("cannot tell whether {} loads: {reason}", name(wheel)),
            (all, LoadAnswer::Loads) => format!("all {} load {}", things(all), self.places(all)),
            (all, LoadAnswer::Unknown) => format!("cannot tell whether all {} load: {reason}", things(all)),
            (all, LoadAnswer::Fails) => faulty(all, &errors),
        };
        let is_open = answer == LoadAnswer::Unknown;
        let to_decide = if is_open { self.to_decide.clone() } else { Vec::new() };
        LoadVerdict { answer, sentence, to_decide }
    }

    /// The reason why the wheels may fail to load although the audit found no error.
    fn doubt(&self) -> Option<String> {
        let deciding = self.findings.iter().filter(|finding| finding.decides);
        let depends_on: BTreeSet<&String> = deciding.clone().flat_map(|finding| &finding.depends_on).collect();
        if !depends_on.is_empty() {
            let was = if depends_on.len() == 1 { "was" } else { "were" };
            let names = few_in_backticks(depends_on.iter().map(|name| name.as_str()), NAMED);
            return Some(format!("it depends on {names}, which {was} not looked at"));
        }
        let mut warnings = deciding.filter(|finding| finding.severity == Severity::Warning);
        if warnings.clone().any(|finding| NEEDS.contains(&finding.code)) {
            return Some("libraries may be missing".to_owned());
        }
        let unmet = warnings.find(|finding| finding.code == Code::UnmetRequirement)?;
        Some(format!("nothing was found for `{}`", unmet.subject))
    }

    /// Where one wheel loads.
    fn place(&self, wheel: &WheelSummary) -> String {
        match &self.environment.glibc {
            Some(glibc) => format!("on glibc {glibc}"),
            None if wheel.form == "wheel" => "wherever its tag says".to_owned(),
            None => "here".to_owned(),
        }
    }

    /// Where several wheels load.
    fn places(&self, wheels: &[&WheelSummary]) -> String {
        match &self.environment.glibc {
            Some(glibc) => format!("on glibc {glibc}"),
            None if wheels.iter().any(|wheel| wheel.form == "wheel") => "wherever their tags say".to_owned(),
            None => "here".to_owned(),
        }
    }
}

fn name(wheel: &WheelSummary) -> String {
    // The name of a wheel that installers refuse may have no version.
    format!("{} {}", wheel.name, wheel.version).trim_end().to_owned()
}

fn things(wheels: &[&WheelSummary]) -> String {
    let is_wheel = wheels.iter().any(|wheel| wheel.form == "wheel");
    format!("{} {}", wheels.len(), if is_wheel { "wheels" } else { "distributions" })
}

/// The part of the verdict after the name of a wheel with errors.
fn fault(wheel: &WheelSummary, errors: &[&Finding]) -> String {
    let codes: BTreeSet<Code> = errors.iter().map(|finding| finding.code).collect();
    let only = codes.first().copied().filter(|_| codes.len() == 1);
    if only == Some(Code::TooNew)
        && let Some(range) = systems_below(wheel)
    {
        return format!("does not load on {range}");
    }
    match only {
        Some(Code::CpuLevel) => "does not load on every x86-64 processor".to_owned(),
        Some(Code::Refused) => "does not install: it is refused as no valid wheel".to_owned(),
        Some(Code::UnmetRequirement) if wheel.form == "wheel" => {
            let requirements = few_in_backticks(errors.iter().map(|error| error.subject.as_str()), NAMED);
            format!("does not install from there: nothing meets {requirements}")
        }
        Some(Code::NotBrought) => "is not what installers bring from there".to_owned(),
        _ if codes.iter().all(|code| INSTALLATION.contains(code)) => "does not install as it should".to_owned(),
        _ if codes.iter().all(|code| CONTENTS.contains(code)) => "is not what it claims to be".to_owned(),
        _ if wheel.form == "wheel" => "does not load wherever its tag says".to_owned(),
        _ => "does not load here".to_owned(),
    }
}

/// The verdict about several wheels of which some have errors.
fn faulty(wheels: &[&WheelSummary], errors: &[&Finding]) -> String {
    let faulty = wheels.iter().filter(|wheel| errors.iter().any(|error| error.wheel.as_ref() == Some(&wheel.file)));
    let names: Vec<&str> = faulty.map(|wheel| wheel.name.as_str()).collect();
    if names.is_empty() {
        return format!("{} do not fit together", things(wheels));
    }
    let more = if names.len() > NAMED { format!(" and {} more", names.len() - NAMED) } else { String::new() };
    let verb = if names.len() == 1 { "has" } else { "have" };
    let shown = names[..names.len().min(NAMED)].join(", ");
    format!("{} of {} {verb} errors: {shown}{more}", names.len(), things(wheels))
}

/// The releases of glibc that the tag promises and the files do not keep: `glibc 2.28 to 2.33`.
fn systems_below(wheel: &WheelSummary) -> Option<String> {
    let promised = wheel.platforms.iter().filter_map(|platform| match PlatformTag::parse(platform) {
        PlatformTag::Manylinux { glibc, .. } => Some(glibc),
        _ => None,
    });
    let oldest = minor(&promised.min()?.to_string())?;
    let needed = minor(wheel.floor.as_ref()?.newest.get("GLIBC")?)?;
    match needed.checked_sub(1)? {
        last if last < oldest => None,
        last if last == oldest => Some(format!("glibc 2.{last}")),
        last => Some(format!("glibc 2.{oldest} to 2.{last}")),
    }
}

/// The second number of a release of glibc 2.
fn minor(version: &str) -> Option<u32> {
    version.strip_prefix("2.")?.split('.').next()?.parse().ok()
}
