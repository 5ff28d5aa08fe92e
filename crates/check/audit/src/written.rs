//! Input: wheels that were just written, and the wheels that they were made from. Output: a
//! [`Verdict`], with their findings and the errors that are new.
//!
//! A user's wheel may have errors that this command was not asked to fix; the command only must not
//! add any. An error is old if the same files had it before. The earlier wheels are audited only if
//! there are errors to compare.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rocwheel_output::StagedFile;
use rocwheel_progress::{Exit, Hint as _, Reporter};
use serde::Serialize;

use crate::Error;
use crate::audit::audit_facts;
use crate::finding::{Code, Finding, Severity};
use crate::options::{AuditScope, Options};
use crate::report::{AuditReport, FindingCounts};
use rocwheel_index::requirement::InstallTarget;
use rocwheel_index::{self as index, Source};
use rocwheel_loader::facts::SiteFacts;
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_wheel::{Platform, PythonVersion};

/// Wheels that are installed together.
#[derive(Debug, Clone, Default)]
pub struct WheelSet {
    pub wheels: Vec<StagedFile>,
    /// Wheels to install beside them, and folders from which required wheels are taken.
    pub beside: Vec<PathBuf>,
    /// The wheels that they were made from; empty if everything is new.
    pub before: Vec<PathBuf>,
    /// Names of libraries that the user excluded on purpose.
    pub left_out: BTreeSet<String>,
    /// Codes of errors that the user accepts.
    pub wanted: BTreeSet<Code>,
    /// The part of the wheels that may differ from before.
    pub scope: AuditScope,
    /// Knowledge about the programs and libraries in `before`.
    pub programs: Programs,
}

/// Knowledge about the earlier programs and libraries, compared with the written ones at the same
/// paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Programs {
    /// They are read again, which may unpack a library of hundreds of megabytes.
    #[default]
    Unknown,
    /// The writer has proved that the loader sees the same in both: names, symbols, versions and
    /// search paths.
    Same,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub wheels: u64,
    /// The part of them that was audited.
    pub scope: AuditScope,
    /// Number of findings of each severity, including old ones.
    pub counts: FindingCounts,
    /// Errors that the earlier wheels did not have: these wheels must not be used.
    pub new_errors: Vec<Finding>,
    /// Errors that the earlier wheels had.
    pub old_errors: Vec<Finding>,
    /// Errors that an option accepts ([`WheelSet::wanted`], [`WheelSet::left_out`]).
    pub accepted_errors: Vec<Finding>,
    /// Warnings and notes.
    pub remarks: Vec<Finding>,
    /// Distributions that were not given and on which it depends whether the wheels load.
    pub depends_on: BTreeSet<String>,
    /// Why there is no judgement: no installer accepts the wheels, neither the earlier nor the
    /// written ones.
    pub unjudged: Option<String>,
}

impl Verdict {
    fn of(set: &WheelSet, counts: FindingCounts) -> Verdict {
        let (new_errors, old_errors, accepted_errors, remarks, depends_on) = Default::default();
        Verdict {
            wheels: set.wheels.len() as u64,
            scope: set.scope,
            counts,
            new_errors,
            old_errors,
            accepted_errors,
            remarks,
            depends_on,
            unjudged: None,
        }
    }

    fn unjudged(set: &WheelSet, error: &Error) -> Verdict {
        Verdict { unjudged: Some(error.to_string()), ..Verdict::of(set, FindingCounts::default()) }
    }

    pub fn is_good(&self) -> bool {
        self.new_errors.is_empty()
    }
}

const ABOUT_LIBRARIES: [Code; 5] =
    [Code::LibraryNotFound, Code::LibraryOutside, Code::MissingRequirement, Code::DllNotFound, Code::DlopenMissing];

/// Audits wheels that were written. Hashes are not computed again; `scratch` is a folder for
/// members that are too large for memory.
pub fn judge(set: &WheelSet, scratch: &Path, reporter: &dyn Reporter) -> Result<Verdict, Error> {
    let wheels: Vec<PathBuf> = set.wheels.iter().map(|wheel| wheel.staged.clone()).collect();
    let (mut report, facts) = match look(&wheels, set, SiteFacts::default(), scratch, reporter) {
        Ok(found) => found,
        Err(error) if error.exit() == Exit::Interrupted => return Err(error),
        // A wheel that is refused now and was refused before is not the fault of this command.
        Err(error) if !set.before.is_empty() && audit_old(set, SiteFacts::default(), scratch, reporter).is_err() => {
            return Ok(Verdict::unjudged(set, &error));
        }
        Err(error) => return Err(error),
    };
    let deciding = report.findings.iter().filter(|finding| finding.decides);
    let depends_on = deciding.flat_map(|finding| finding.depends_on.iter().cloned()).collect();
    let (errors, remarks): (Vec<Finding>, Vec<Finding>) =
        std::mem::take(&mut report.findings).into_iter().partition(|finding| finding.severity == Severity::Error);
    let (accepted_errors, errors): (Vec<Finding>, Vec<Finding>) = errors.into_iter().partition(|finding| {
        set.wanted.contains(&finding.code)
            || ABOUT_LIBRARIES.contains(&finding.code)
                && subjects(finding).iter().all(|library| set.left_out.contains(*library))
    });
    let mut old = BTreeSet::new();
    if !errors.is_empty() && !set.before.is_empty() {
        let known = match set.programs {
            Programs::Same => facts,
            Programs::Unknown => SiteFacts::default(),
        };
        let before = audit_old(set, known, scratch, reporter)?;
        old.extend(before.findings.iter().filter(|finding| finding.severity == Severity::Error).flat_map(atoms));
    }
    let (old_errors, new_errors) =
        errors.into_iter().partition(|finding| atoms(finding).all(|atom| old.contains(&atom)));
    let counts = Verdict::of(set, report.counts);
    Ok(Verdict { new_errors, old_errors, accepted_errors, remarks, depends_on, ..counts })
}

/// Audits the wheels that the written ones replace.
fn audit_old(set: &WheelSet, known: SiteFacts, scratch: &Path, reporter: &dyn Reporter) -> Result<AuditReport, Error> {
    let set = WheelSet { wheels: Vec::new(), ..set.clone() };
    look(&set.before, &set, known, scratch, reporter).map(|(report, _)| report)
}

fn look(
    wheels: &[PathBuf],
    set: &WheelSet,
    known: SiteFacts,
    scratch: &Path,
    reporter: &dyn Reporter,
) -> Result<(AuditReport, SiteFacts), Error> {
    let python = PythonVersion::newest_of(wheels);
    let mut all: Vec<(PathBuf, Role)> = wheels.iter().map(|path| (path.clone(), Role::Audited)).collect();
    all.extend(beside(wheels, &set.beside, python, reporter)?.into_iter().map(|path| (path, Role::Beside)));
    let place = PythonEnvironment::new(python, "/environment");
    let mut site = Site::open(&all, &place, scratch, reporter)?;
    for installed in &mut site.distributions {
        if let Some(written) = set.wheels.iter().find(|written| written.staged == installed.path) {
            installed.path.clone_from(&written.place);
        }
    }
    let facts = match set.scope {
        AuditScope::Files => known.of(&site, reporter)?,
        AuditScope::Names => SiteFacts::default(),
    };
    let report = audit_facts(&site, &facts, &Options { scope: set.scope, ..Options::default() }, reporter)?;
    Ok((report, facts))
}

/// The wheels beside the written ones: the named files, and the required wheels of the folders.
fn beside(
    wheels: &[PathBuf],
    given: &[PathBuf],
    python: PythonVersion,
    reporter: &dyn Reporter,
) -> Result<Vec<PathBuf>, Error> {
    let (folders, mut named): (Vec<PathBuf>, Vec<PathBuf>) = given.iter().cloned().partition(|path| path.is_dir());
    if !folders.is_empty() {
        let sources: Vec<Source> = folders.into_iter().map(Source::Folder).collect();
        let target = InstallTarget { python, platform: Platform::of_files(wheels), glibc: None };
        // Without `fetch` nothing is downloaded.
        let request =
            index::Request { audited: wheels, sources: &sources, target: &target, cache: Path::new("."), fetch: None };
        named.extend(index::gather(&request, reporter)?.wheels);
    }
    Ok(named)
}

/// One fact of a finding: code, file and subject.
type Atom = (Code, String, String);

/// The facts of a finding about several files and libraries; each of them may be old. The version
/// is removed from the paths of `.dist-info` and `.data` folders.
fn atoms(finding: &Finding) -> impl Iterator<Item = Atom> {
    let files: Vec<String> = match &finding.file {
        None => vec![String::new()],
        Some(file) => std::iter::once(file).chain(&finding.related).map(|file| without_version(file)).collect(),
    };
    files.into_iter().flat_map(move |file| {
        subjects(finding).into_iter().map(move |subject| (finding.code, file.clone(), subject.to_owned()))
    })
}

fn subjects(finding: &Finding) -> Vec<&str> {
    match finding.code {
        // The subject may be the version, which an edit changes.
        Code::NotRocm => vec![""],
        Code::UndefinedSymbol => finding.names.iter().map(String::as_str).collect(),
        _ => finding.subject.split(", ").collect(),
    }
}

fn without_version(path: &str) -> String {
    let (folder, rest) = path.split_once('/').unwrap_or((path, ""));
    let kind = [".dist-info", ".data"].into_iter().find(|kind| folder.ends_with(kind));
    kind.map_or_else(|| path.to_owned(), |kind| format!("{kind}/{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(files: &[&str], subject: &str) -> Finding {
        Finding::new(Code::LibraryNotFound, subject, "missing").in_files(files.iter().copied())
    }

    #[test]
    fn what_is_said_of_fewer_files_or_libraries_is_not_new() {
        let old: BTreeSet<Atom> = atoms(&finding(&["a.so", "b.so"], "libx.so.1, liby.so.1")).collect();
        assert_eq!(old.len(), 4);
        let is_old = |finding: &Finding| atoms(finding).all(|atom| old.contains(&atom));
        assert!(is_old(&finding(&["b.so"], "liby.so.1")));
        assert!(!is_old(&finding(&["b.so"], "libz.so.1")));
        assert!(!is_old(&finding(&["a.so", "c.so"], "libx.so.1")));
        let heavier = Finding { code: Code::SearchPath, ..finding(&["a.so"], "libx.so.1") };
        assert!(!is_old(&heavier));
    }

    #[test]
    fn another_version_does_not_make_a_finding_new() {
        assert_eq!(without_version("a-1.0.dist-info/RECORD"), without_version("a-1.0+rocm7.dist-info/RECORD"));
        assert_eq!(without_version("a-1.0.data/scripts/x"), ".data/scripts/x");
        assert_eq!(without_version("a/b.dist-info/x"), "a/b.dist-info/x");
    }
}
