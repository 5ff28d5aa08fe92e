//! Input: a report. Output: the commands that fix what was found, which are known to work here; and
//! what they make of the wheels, for `--fix`. Both are the same commands: they are read as the
//! command line reads them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Parser as _;
use rocwheel_audit::report::Report;
use rocwheel_audit::{Remedies, WheelRemedy};
use rocwheel_repair as repairs;
use rocwheel_wheel::Staging;

use crate::arguments::{Arguments, Command};
use crate::commands::{edit, repair};
use crate::failure::Usage;
use crate::printer::Printer;

/// Libraries that a repair leaves out at most: beyond that the wheel has to be built anew.
const MOST_EXCLUDED: usize = 8;

/// The remedies of a report. A repair needs libraries of this machine, so it is planned first: a
/// finding about a library that is not here loses its fix, and the reason becomes a note of the
/// report.
pub(super) fn find(report: &mut Report, scratch: &Path, printer: &Printer) -> anyhow::Result<Remedies> {
    for wheel in Remedies::of(&report.findings).wheels.iter().filter(|wheel| wheel.repair().is_some()) {
        let Some(obstacle) = obstacle(wheel, scratch, printer)? else { continue };
        // Without these libraries it can be repaired; any other obstacle is one for every finding.
        let excluded: &[String] = match &obstacle {
            Obstacle::Missing(libraries) if libraries.len() <= MOST_EXCLUDED => libraries,
            Obstacle::Missing(_) | Obstacle::Other(_) => &[],
        };
        let is_lost = |subject: &str| {
            excluded.is_empty() || subject.split(", ").any(|name| excluded.iter().any(|library| library == name))
        };
        for finding in &mut report.findings {
            match &mut finding.fix {
                Some(fix) if fix.is_repair() && fix.path() == wheel.path => {
                    if is_lost(&finding.subject) {
                        finding.fix = None;
                    } else {
                        fix.exclude(excluded);
                    }
                }
                _ => {}
            }
        }
        report.notes.push(format!("`{}` {obstacle}", wheel.path.display()));
    }
    Ok(Remedies::of(&report.findings))
}

/// Why a wheel cannot be repaired here.
enum Obstacle {
    /// Libraries that this machine does not have.
    Missing(Vec<String>),
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(libraries) => {
                let shown: Vec<String> = libraries.iter().take(3).map(|library| format!("`{library}`")).collect();
                let more = libraries.len().saturating_sub(shown.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let (are, they) = if libraries.len() == 1 { ("is", "it is") } else { ("are", "they are") };
                write!(
                    formatter,
                    "needs {}{more}, which {are} not on this machine; `rocwheel repair --lib-path DIR` takes libraries from where {they}",
                    shown.join(", ")
                )
            }
            Self::Other(reason) => write!(formatter, "cannot be repaired here: {reason}"),
        }
    }
}

fn obstacle(wheel: &WheelRemedy, scratch: &Path, printer: &Printer) -> anyhow::Result<Option<Obstacle>> {
    let Some(words) = wheel.repair() else { return Ok(None) };
    let settings = repair::Settings::try_from(repair_arguments(&wheel.path, &words, Path::new("."))?)?;
    Ok(match settings.plan(&wheel.path, scratch, printer) {
        Ok(_) => None,
        Err(error @ repairs::Error::Interrupted(_)) => return Err(error.into()),
        Err(repairs::Error::Missing { missing, .. }) => {
            Some(Obstacle::Missing(missing.into_iter().map(|missing| missing.library).collect()))
        }
        Err(error) => {
            let hint = rocwheel_report::Hint::hint(&error).map(|hint| format!(" ({hint})")).unwrap_or_default();
            Some(Obstacle::Other(format!("{error}{hint}")))
        }
    })
}

/// Writes fixed wheels into a folder. Each appears there when all its steps are done; the wheels of
/// the report stay.
pub(super) fn apply(remedies: &Remedies, output: &Path, printer: &Printer) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
    let mut fixed = Vec::new();
    for wheel in &remedies.wheels {
        let staging = Staging::for_results(output, ".rocwheel-fix-")
            .with_context(|| format!("cannot make a folder for results in `{}`", output.display()))?;
        let mut path = wheel.path.clone();
        if let Some(words) = wheel.edit() {
            let settings = edit::Settings::try_from(edit_arguments(&path, &words, &staging.path().join("edited"))?)?;
            path = edit::apply(&settings, printer)?;
        }
        if let Some(words) = wheel.repair() {
            let settings =
                repair::Settings::try_from(repair_arguments(&path, &words, &staging.path().join("repaired"))?)?;
            path = repair::apply(&settings, printer)?;
        }
        let place = output.join(path.file_name().unwrap_or_default());
        if place.symlink_metadata().is_ok() {
            return Err(Usage::new(format!("the output `{}` exists", place.display()))
                .hint("remove it, or choose another output folder")
                .into());
        }
        fs_err::rename(&path, &place)?;
        fixed.push((wheel.path.clone(), place));
    }
    Ok(fixed)
}

fn parsed(words: Vec<OsString>) -> anyhow::Result<Command> {
    Ok(Arguments::try_parse_from(words).context("cannot read a command that fixes a finding")?.command)
}

fn all(verb: &str, path: &Path, words: &[String], output: &Path) -> Vec<OsString> {
    let mut all: Vec<OsString> = ["rocwheel", verb].map(OsString::from).to_vec();
    all.extend(words.iter().map(OsString::from));
    all.extend(["--output".into(), output.into(), "--".into(), path.into()]);
    all
}

fn edit_arguments(path: &Path, words: &[String], output: &Path) -> anyhow::Result<edit::Arguments> {
    match parsed(all("edit", path, words, output))? {
        Command::Edit(arguments) => Ok(*arguments),
        _ => anyhow::bail!("`edit` is another command"),
    }
}

fn repair_arguments(path: &Path, words: &[String], output: &Path) -> anyhow::Result<repair::Arguments> {
    match parsed(all("repair", path, words, output))? {
        Command::Repair(arguments) => Ok(*arguments),
        _ => anyhow::bail!("`repair` is another command"),
    }
}
