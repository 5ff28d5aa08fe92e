//! The report of a framework in a form of its own, as its reader hands it over.

use jiff::Timestamp;

use crate::junit_case::CaseAttempt;
use crate::outcome::TestOutcome;

/// Tests of a file that is not junit XML.
#[derive(Debug, Default)]
pub(crate) struct ForeignReport {
    /// The name of the framework, which is the suite of its tests; empty for the name of the file.
    pub(crate) tool: &'static str,
    pub(crate) started: Option<String>,
    pub(crate) finished: Option<Timestamp>,
    pub(crate) tests: Vec<ForeignTest>,
    /// Sentences about what is missing, without the name of the file: `plans 3 tests and has 1`.
    pub(crate) lost: Vec<String>,
    /// An identity that the file has twice may be one test that was tried again.
    pub(crate) may_retry: bool,
}

/// A test, or a try of one, in such a file.
#[derive(Debug)]
pub(crate) struct ForeignTest {
    pub(crate) id: String,
    /// Tries before the one that counts, where the file says that they are tries of one test.
    pub(crate) earlier: Vec<CaseAttempt>,
    pub(crate) attempt: CaseAttempt,
}

impl ForeignReport {
    pub(crate) fn new(tool: &'static str) -> ForeignReport {
        ForeignReport { tool, ..ForeignReport::default() }
    }

    /// A report of a form that is known and not read.
    pub(crate) fn unread(tool: &'static str, hint: &str) -> ForeignReport {
        let reason = format!("is a report of {tool}, which is not read: {hint}");
        ForeignReport { lost: vec![reason], ..ForeignReport::new(tool) }
    }

    /// `true` if a test of it did not do what it should.
    pub(crate) fn has_failure(&self) -> bool {
        self.tests.iter().any(|test| test.attempt.outcome.is_bad())
    }

    /// Compares a number of tests that the file announces with those that it has.
    pub(crate) fn compare(&mut self, announced: u64, found: u64, noun: &str) {
        if announced != found {
            self.lost.push(format!("announces {} and has {found}", rocwheel_progress::counted(announced, noun)));
        }
    }

    /// Notes that fewer tests failed than the file announces.
    pub(crate) fn announces_failures(&mut self, announced: u64) {
        let bad = self.tests.iter().filter(|test| test.attempt.outcome.is_bad()).count() as u64;
        if announced > bad {
            self.compare(announced, bad, "failure");
        }
    }
}

impl ForeignTest {
    pub(crate) fn new(id: impl Into<String>, outcome: TestOutcome, message: Option<String>) -> ForeignTest {
        let message = message.filter(|message| !message.trim().is_empty());
        ForeignTest {
            id: id.into(),
            earlier: Vec::new(),
            attempt: CaseAttempt { outcome, seconds: None, message, output: None },
        }
    }

    pub(crate) fn took(mut self, seconds: Option<f64>) -> ForeignTest {
        self.attempt.seconds = seconds;
        self
    }
}
