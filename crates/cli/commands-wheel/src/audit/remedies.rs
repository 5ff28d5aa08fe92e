//! Input: a report. Output: the commands that fix its findings, checked to work here, and for
//! `--fix` the wheels that these commands write. `--fix` parses the same commands as the command
//! line does.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use rocwheel_audit::report::AuditReport;
use rocwheel_audit::{Remedies, WheelRemedy, keep_search_paths};
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result, Usage};
use rocwheel_console::printer::Printer;
use rocwheel_loader::cache::FactsCache;
use rocwheel_output::StagingFolder;
use rocwheel_progress::Context as _;
use rocwheel_repair as repairs;

use crate::edit;
use crate::repair;

/// Largest number of libraries that a repair excludes; a wheel that lacks more must be built anew.
const MOST_EXCLUDED: usize = 8;

/// The remedies of a report. A repair needs libraries of this machine, so it is planned first. A
/// finding about a library that is missing here loses its fix, and a note of the report gives the
/// reason.
pub(super) fn find(
    report: &mut AuditReport,
    (scratch, facts): (&Path, Option<&FactsCache>),
    printer: &Printer,
) -> Result<Remedies> {
    for wheel in Remedies::of(&report.findings).wheels.iter().filter(|wheel| wheel.repair().is_some()) {
        let Some(obstacle) = obstacle(wheel, (scratch, facts), printer)? else { continue };
        // Without these libraries the repair works; any other obstacle concerns every finding.
        let excluded: &[String] = match &obstacle {
            Obstacle::Missing(libraries) if libraries.len() <= MOST_EXCLUDED => libraries,
            Obstacle::Missing(_) | Obstacle::Other(_) => &[],
        };
        for finding in &mut report.findings {
            match &mut finding.fix {
                Some(fix) if fix.is_repair() && fix.path() == wheel.path => {
                    let mut names = finding.subject.split(", ");
                    if excluded.is_empty() || names.any(|name| excluded.iter().any(|library| library == name)) {
                        finding.drop_fix(obstacle.decision());
                    } else {
                        fix.exclude(excluded);
                    }
                }
                _ => {}
            }
        }
        report.notes.push(format!("`{}` {obstacle}", wheel.path.display()));
    }
    keep_search_paths(&mut report.findings);
    Ok(Remedies::of(&report.findings))
}

/// The reason why a wheel cannot be repaired here.
enum Obstacle {
    /// This machine lacks these libraries.
    Missing(Vec<String>),
    /// Another reason, as a message.
    Other(String),
}

impl Obstacle {
    /// What has to be decided where the repair does not work; a note of the report names the wheel
    /// and the reason.
    fn decision(&self) -> String {
        match self {
            Self::Missing(_) => "where the library is: `rocwheel repair --lib-path DIR` takes it from there".to_owned(),
            Self::Other(reason) => format!("it cannot be repaired here: {reason}"),
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(libraries) => {
                let (are, they) = if libraries.len() == 1 { ("is", "it is") } else { ("are", "they are") };
                write!(
                    formatter,
                    "needs {}, which {are} not on this machine; `rocwheel repair --lib-path DIR` takes libraries from where {they}",
                    rocwheel_progress::in_backticks(libraries)
                )
            }
            Self::Other(reason) => write!(formatter, "cannot be repaired here: {reason}"),
        }
    }
}

fn obstacle(wheel: &WheelRemedy, place: (&Path, Option<&FactsCache>), printer: &Printer) -> Result<Option<Obstacle>> {
    let Some(words) = wheel.repair() else { return Ok(None) };
    let settings =
        repair::Settings::try_from(parsed::<repair::Arguments>("repair", &wheel.path, &words, Path::new("."))?)?;
    Ok(match settings.plan(&wheel.path, place, printer) {
        Ok(_) => None,
        Err(error @ repairs::Error::Interrupted(_)) => return Err(error.into()),
        Err(repairs::Error::Missing { missing, .. }) => {
            Some(Obstacle::Missing(missing.into_iter().map(|missing| missing.library).collect()))
        }
        Err(error) => {
            let hint = rocwheel_progress::Hint::hint(&error).map(|hint| format!(" ({hint})")).unwrap_or_default();
            Some(Obstacle::Other(format!("{error}{hint}")))
        }
    })
}

/// Writes fixed wheels into a folder, each when all its steps are done. The wheels of the report
/// stay unchanged.
pub(super) fn apply(remedies: &Remedies, output: &Path, printer: &Printer) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut fixed = Vec::new();
    for wheel in &remedies.wheels {
        let staging = StagingFolder::for_results(output, ".rocwheel-fix-")
            .with_context(|| format!("cannot make a folder for results in `{}`", output.display()))?;
        let mut path = wheel.path.clone();
        if let Some(words) = wheel.edit() {
            let settings = edit::Settings::try_from(parsed::<edit::Arguments>(
                "edit",
                &path,
                &words,
                &staging.path().join("edited"),
            )?)?;
            path = edit::apply(&settings, printer)?;
        }
        if let Some(words) = wheel.repair() {
            let settings = repair::Settings::try_from(parsed::<repair::Arguments>(
                "repair",
                &path,
                &words,
                &staging.path().join("repaired"),
            )?)?;
            path = repair::apply(&settings, printer)?;
        }
        let place = output.join(path.file_name().unwrap_or_default());
        if place.symlink_metadata().is_ok() {
            return Err(Usage::new(format!("the output `{}` exists", place.display()))
                .hint("remove it, or choose another output folder")
                .into());
        }
        rocwheel_system::rename(&path, &place)?;
        fixed.push((wheel.path.clone(), place));
    }
    Ok(fixed)
}

/// Parses the words of a fix as the command line does.
fn parsed<A: Args>(verb: &'static str, path: &Path, words: &[String], output: &Path) -> Result<A> {
    let command = environment::without_variables(A::augment_args(clap::Command::new(verb)));
    let mut all = vec![OsString::from(verb)];
    all.extend(words.iter().map(OsString::from));
    all.extend(["--output".into(), output.into(), "--".into(), path.into()]);
    let arguments = command.try_get_matches_from(all).and_then(|matches| A::from_arg_matches(&matches));
    arguments.map_err(Failure::other).context("cannot read a command that fixes a finding")
}
