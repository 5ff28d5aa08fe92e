//! Input: the reports of test runs: run folders of ours, junit XML of any dialect, gtest's JSON.
//! Output: one [`TestReport`], and its forms for people and machines.
//!
//! A report that cannot be read, a run that was cut off and a shard without a report make the
//! whole incomplete, and what is incomplete has not passed. Files are read as streams, and what is
//! kept of each test is bounded.

mod census;
mod discover;
mod error;
mod events;
mod foreign_report;
mod fresh;
mod gtest;
mod html;
mod job;
mod json_forms;
mod judge;
mod junit;
mod junit_case;
mod junit_dialect;
mod junit_file;
mod junit_suite;
mod merge;
mod model;
mod runner;
mod shards;
mod tap;
mod time;
mod vocabulary;
mod xml_attributes;
mod xml_forms;
mod xml_input;

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_content::open_regular;
use rocwheel_progress::{Reporter, Unit};

pub(crate) use census::sha256_of_ids;
pub use census::{ExpectedTests, SuiteCensus};
pub use error::ReportError;
pub use fresh::{EarlierReports, read_fresh_reports};
pub use html::write_html;
pub use junit_file::write_junit;
pub use model::{
    FailureGroup, OutcomeCounts, ReportForm, ReportProblem, ReportResult, ReportedAttempt, ReportedRun, ReportedTest,
    ShardCoverage, TestReport,
};
pub use runner::RunnerEnd;

use discover::ReportSource;
use merge::Merger;
pub(crate) use time::moment;

use crate::outcome::TestOutcome;

/// Expectations that decide whether reports are complete and have passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportOptions {
    /// Name of the suite of reports that do not say it.
    pub suite: Option<String>,
    /// Number of shards that there have to be, for reports that do not say it.
    pub shards: Option<u32>,
    /// Tests that were not run do not make the report incomplete.
    pub allow_not_run: bool,
    /// A test that failed first and passed at last counts as failed.
    pub fail_on_flaky: bool,
    /// Reports of other tools in one folder, whose names differ in a number alone, are tries.
    pub retries_in_folder: bool,
}

/// The outcomes in one file of junit XML, in its order.
///
/// # Errors
/// The file cannot be read, or it is not complete.
pub(crate) fn read_outcomes(path: &Path) -> io::Result<Vec<(String, TestOutcome)>> {
    let mut outcomes = Vec::new();
    let mut take = |case: junit_case::JunitCase| {
        outcomes.extend(case.attempts.into_iter().next_back().map(|attempt| (case.id, attempt.outcome)));
    };
    let end = junit::read(open_regular(path)?, path, "", &mut take)?;
    match end.problems.last() {
        Some(problem) if !end.complete => Err(io::Error::other(format!("`{}`: {problem}", path.display()))),
        _ => Ok(outcomes),
    }
}

/// Reads all reports in `paths`, which are files and folders.
///
/// # Errors
/// [`ReportError::Missing`] for a path that does not exist. A file that cannot be understood is a
/// problem of the report.
pub fn read_reports(
    paths: &[PathBuf],
    options: &ReportOptions,
    reporter: &dyn Reporter,
) -> Result<TestReport, ReportError> {
    let mut merger = Merger::new(options.clone());
    let mut sources = Vec::new();
    for path in paths {
        sources.extend(discover::find(path, &mut merger)?);
    }
    discover::name_programs(&mut sources);
    read_sources(merger, &sources, reporter)
}

fn read_sources(
    mut merger: Merger,
    sources: &[ReportSource],
    reporter: &dyn Reporter,
) -> Result<TestReport, ReportError> {
    let stage = reporter.stage("Reading reports", Some(sources.len() as u64), Unit::Items);
    for source in sources {
        reporter.check()?;
        merger.read(source)?;
        reporter.advance(1);
    }
    drop(stage);
    Ok(merger.finish())
}
