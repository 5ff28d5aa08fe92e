//! Input: the reports of test runs: run folders of ours ([`outcome`]), junit XML of any dialect,
//! the forms of other frameworks. Output: one [`TestReport`], its forms for people and machines,
//! and a signed [`verdict`] about the wheels that were tested.
//!
//! A report that cannot be read, a run that was cut off and a shard without a report make the
//! whole incomplete, and what is incomplete has not passed. Files are read as streams, and what is
//! kept of each test is bounded.

pub mod cause;
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
mod options;
pub mod outcome;
mod program_end;
mod read;
mod shards;
mod tap;
mod time;
pub mod verdict;
mod vocabulary;
mod xml_attributes;
mod xml_forms;
mod xml_input;

pub use census::{ExpectedTests, SuiteCensus};
pub use error::ReportError;
pub use fresh::{EarlierReports, read_fresh_reports};
pub use html::write_html;
pub use junit_file::write_junit;
pub use model::{
    FailureGroup, OutcomeCounts, ReportForm, ReportProblem, ReportResult, ReportedAttempt, ReportedRun, ReportedTest,
    ShardCoverage, TestReport,
};
pub use options::ReportOptions;
pub use program_end::{ProgramEnd, RunnerEnd};
pub use read::{read_outcomes, read_reports};
