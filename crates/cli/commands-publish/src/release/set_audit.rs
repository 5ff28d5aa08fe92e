//! The audit before a publication. Input: the environments of a set. Output: an error, with the
//! findings printed, unless the wheels of each load.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocwheel_audit::Options;
use rocwheel_audit::finding::Severity;
use rocwheel_commands_wheel::audit::text;
use rocwheel_console::failure::Result;
use rocwheel_console::message;
use rocwheel_console::printer::{Printer, ResultFormat};
use rocwheel_content::archive_path::file_name;
use rocwheel_loader::site::{PythonEnvironment, Role, Site};
use rocwheel_progress::{Context as _, Exit, Hint};
use rocwheel_release::{LocalSet, PlannedEnvironment, PublicationPlan};
use rocwheel_store::{Store, StoredBytes, StoredFile};
use rocwheel_wheel::WheelName;

/// The audit found errors, so nothing was published.
#[derive(Debug, thiserror::Error)]
#[error("nothing was published: the audit finds {} in the set", message::count(*errors, "error", "errors"))]
struct AuditRefused {
    errors: u64,
    code: &'static str,
    problems: Vec<String>,
}

impl Hint for AuditRefused {
    fn hint(&self) -> Option<String> {
        Some(format!(
            "`rocwheel audit --explain {}` explains it; `--ignore` accepts a finding that was examined",
            self.code
        ))
    }

    fn rows(&self) -> Vec<String> {
        self.problems.clone()
    }

    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

/// The audited wheels.
pub(super) struct SetAudit<'a> {
    pub(super) beside: StreamWheels<'a>,
    pub(super) local: &'a LocalSet,
    pub(super) plan: &'a PublicationPlan,
    pub(super) options: &'a Options,
}

/// The wheels of a stream, for those who need them on this machine.
#[derive(Clone, Copy)]
pub(super) struct StreamWheels<'a> {
    pub(super) store: &'a dyn Store,
    /// Folders that may have them.
    pub(super) with: &'a [PathBuf],
    /// For files that have to be unpacked or downloaded.
    pub(super) scratch: &'a Path,
}

impl SetAudit<'_> {
    /// Audits every environment. Findings of several environments are printed once.
    pub(super) fn run(&self, printer: &Printer) -> Result<()> {
        let local: BTreeMap<&str, &Path> = self.local.paths().collect();
        let (mut errors, mut seen) = (Vec::new(), BTreeSet::new());
        let mut audited = 0;
        for environment in &self.plan.environments {
            let mut wheels: Vec<(PathBuf, Role)> = Vec::new();
            for key in environment.files.iter().filter(|key| WheelName::is_wheel(key)) {
                match local.get(key.as_str()) {
                    Some(path) => wheels.push(((*path).to_owned(), Role::Audited)),
                    // A set that is joined: what was published was audited.
                    None => wheels.push((self.beside.wheel(key, printer)?, Role::Beside)),
                }
            }
            if !wheels.iter().any(|(_, role)| *role == Role::Audited) {
                continue;
            }
            for key in environment.beside.iter().filter(|key| WheelName::is_wheel(key)) {
                wheels.push((self.beside.wheel(key, printer)?, Role::Beside));
            }
            let report = self.audit(environment, &wheels, printer)?;
            audited += 1;
            for finding in report.findings {
                if finding.severity == Severity::Error && seen.insert((finding.wheel.clone(), finding.message.clone()))
                {
                    errors.push(finding);
                }
            }
        }
        let Some(first) = errors.first() else {
            if audited == 0 {
                printer.warn("not audited: no environment of the set has a wheel that was not published before");
            } else {
                let environments = message::count(audited, "environment", "environments");
                printer.note(format!("audited: no errors in {environments}"));
            }
            return Ok(());
        };
        let code = first.code.text();
        if printer.format() == ResultFormat::Text {
            for finding in &errors {
                text::print(finding, printer)?;
                printer.line("")?;
            }
        }
        let problems = errors.iter().map(|finding| format!("{} {}", finding.code.text(), finding.message)).collect();
        Err(AuditRefused { errors: errors.len() as u64, code, problems }.into())
    }

    fn audit(
        &self,
        environment: &PlannedEnvironment,
        wheels: &[(PathBuf, Role)],
        printer: &Printer,
    ) -> Result<rocwheel_audit::report::AuditReport> {
        let python = environment.python.parse()?;
        let place = PythonEnvironment::new(python, "/environment");
        let site = Site::open(wheels, &place, self.beside.scratch, printer.reporter())?;
        Ok(rocwheel_audit::audit(&site, self.options, printer.reporter())?)
    }
}

impl StreamWheels<'_> {
    /// A wheel on this machine: in a folder of the user, in the store, or downloaded.
    pub(super) fn wheel(&self, key: &str, printer: &Printer) -> Result<PathBuf> {
        let name = file_name(key);
        if let Some(path) = self.with.iter().map(|folder| folder.join(name)).find(|path| path.is_file()) {
            return Ok(path);
        }
        let file = StoredFile { key: key.to_owned(), size: 0, stamp: String::new() };
        let found = self.store.list(rocwheel_content::archive_path::parent(key), printer.reporter())?;
        let file = found.into_iter().find(|one| one.key == key).unwrap_or(file);
        let bytes = self.store.bytes(&file)?;
        if let StoredBytes::Local(path) = bytes {
            return Ok(path);
        }
        let path = self.scratch.join(name);
        if !path.exists() {
            printer.note(format!("downloading `{name}` ({}) for the audit", message::bytes(file.size)));
            bytes.copy_to(&path).with_context(|| format!("cannot download `{key}`"))?;
        }
        Ok(path)
    }
}
