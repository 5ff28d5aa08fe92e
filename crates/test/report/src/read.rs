//! Input: paths. Output: what the reports in them say, merged.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::open_regular;
use rocwheel_progress::{Reporter, Unit};

use crate::discover::FoundReports;
use crate::merge::Merger;
use crate::outcome::TestOutcome;
use crate::{ReportError, ReportOptions, TestReport, junit};

/// The outcomes in one file of junit XML, in its order. An incomplete file is an error.
pub fn read_outcomes(path: &Path) -> io::Result<Vec<(String, TestOutcome)>> {
    let mut outcomes = Vec::new();
    let end = junit::read(open_regular(path)?, path, "", &mut |case| {
        outcomes.extend(case.attempts.into_iter().next_back().map(|attempt| (case.id, attempt.outcome)));
    })?;
    match end.problems.last() {
        Some(problem) if !end.complete => Err(io::Error::other(format!("`{}`: {problem}", path.display()))),
        _ => Ok(outcomes),
    }
}

/// Reads all reports in `paths`, which are files and folders.
///
/// A file that cannot be understood is a problem of the report, not an error.
pub fn read_reports(
    paths: &[PathBuf],
    options: &ReportOptions,
    reporter: &dyn Reporter,
) -> Result<TestReport, ReportError> {
    let mut found = FoundReports::default();
    for path in paths {
        found.search(path)?;
    }
    found.name_programs();
    read_found(found, options, reporter)
}

pub(crate) fn read_found(
    found: FoundReports,
    options: &ReportOptions,
    reporter: &dyn Reporter,
) -> Result<TestReport, ReportError> {
    let FoundReports { sources, problems } = found;
    let mut merger = Merger::new(options.clone(), problems);
    let stage = reporter.stage("Reading reports", Some(sources.len() as u64), Unit::Items);
    for source in &sources {
        reporter.check()?;
        merger.read(source)?;
        reporter.advance(1);
    }
    drop(stage);
    Ok(merger.finish())
}
