//! Reports of tests: every dialect, hostile files, runs of ours, and what is made of them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod expectations;
mod foreign_forms;
mod forms;
mod hostile;
mod retries;
mod runs;
mod unknown_words;
mod written_by;

use std::path::{Path, PathBuf};

use rocwheel_progress::Silent;
use rocwheel_report::outcome::TestOutcome;
use rocwheel_report::{ReportOptions, ReportResult, TestReport, read_reports};

/// A folder with reports.
struct Reports {
    folder: tempfile::TempDir,
    options: ReportOptions,
}

impl Reports {
    fn new() -> Reports {
        Reports { folder: tempfile::tempdir().unwrap(), options: ReportOptions::default() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, bytes).unwrap();
        path
    }

    fn read(&self) -> TestReport {
        read_reports(&[self.folder.path().to_owned()], &self.options, &Silent).unwrap()
    }

    fn result(&self) -> ReportResult {
        self.read().result(&self.options)
    }
}

/// A report of one file.
fn junit(text: impl AsRef<[u8]>) -> TestReport {
    let reports = Reports::new();
    reports.write("r.xml", text);
    reports.read()
}

/// The identity, outcome and number of tries of every test.
fn rows(report: &TestReport) -> Vec<(&str, TestOutcome, usize)> {
    report.tests.iter().map(|test| (test.id.as_str(), test.outcome, test.attempts.len())).collect()
}

/// The sentences about what is missing in a report.
fn gaps(report: &TestReport) -> String {
    report.gaps(&ReportOptions::default()).join("\n")
}

/// The result without options.
fn result(report: &TestReport) -> ReportResult {
    report.result(&ReportOptions::default())
}

fn read_paths(paths: &[&Path]) -> TestReport {
    let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).to_owned()).collect();
    read_reports(&paths, &ReportOptions::default(), &Silent).unwrap()
}
