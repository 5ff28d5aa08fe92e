//! Input: the JSON that GoogleTest writes (`--gtest_output=json:FILE`). Output: its tests.

use serde::Deserialize;

use crate::foreign_report::{ForeignReport, ForeignTest};
use crate::junit_case::CaseAttempt;
use crate::junit_dialect::seconds;
use crate::outcome::TestOutcome;
use crate::time::{end_of, is_epoch};
use crate::vocabulary::{NEVER_BEGAN, unknown_word};

#[derive(Debug, Deserialize)]
struct GtestDocument {
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    time: String,
    tests: u64,
    #[serde(default)]
    failures: u64,
    #[serde(default)]
    errors: u64,
    testsuites: Vec<GtestSuite>,
}

#[derive(Debug, Deserialize)]
struct GtestSuite {
    #[serde(default)]
    name: String,
    #[serde(default)]
    failures: u64,
    #[serde(default)]
    testsuite: Vec<GtestCase>,
}

#[derive(Debug, Deserialize)]
struct GtestCase {
    name: String,
    #[serde(default)]
    classname: Option<String>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    result: String,
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(default)]
    time: String,
    #[serde(default)]
    failures: Vec<GtestMessage>,
    #[serde(default)]
    skipped: Vec<GtestMessage>,
}

#[derive(Debug, Deserialize)]
struct GtestMessage {
    #[serde(default, alias = "message")]
    failure: String,
}

/// Reads a file that has `testsuites`.
pub(crate) fn read(bytes: &[u8]) -> serde_json::Result<ForeignReport> {
    let document: GtestDocument = serde_json::from_slice(bytes)?;
    let mut report = ForeignReport::new("");
    for suite in &document.testsuites {
        for case in &suite.testsuite {
            let class = case.classname.as_deref().filter(|name| !name.is_empty()).unwrap_or(&suite.name);
            let (earlier, attempt) = (Vec::new(), attempt(case));
            report.tests.push(ForeignTest { id: format!("{class}.{}", case.name), earlier, attempt });
        }
    }
    let found = report.tests.len() as u64;
    report.compare(document.tests, found, "test");
    let of_suites = document.testsuites.iter().map(|suite| suite.failures).fold(0, u64::saturating_add);
    report.announces_failures(document.failures.max(of_suites).saturating_add(document.errors));
    report.finished = document.timestamp.as_deref().and_then(|started| end_of(started, seconds(&document.time)));
    report.started = document.timestamp;
    Ok(report)
}

fn attempt(case: &GtestCase) -> CaseAttempt {
    let text = messages(&case.failures).or_else(|| messages(&case.skipped));
    let (outcome, output) = match (case.status.as_str(), case.result.as_str()) {
        _ if !case.failures.is_empty() => (TestOutcome::Failed, text),
        ("RUN", "SKIPPED") if case.timestamp.as_deref().is_some_and(is_epoch) => {
            (TestOutcome::Unknown, Some(NEVER_BEGAN.to_owned()))
        }
        ("RUN", "SKIPPED") => (TestOutcome::Skipped, text),
        (_, "SUPPRESSED") => (TestOutcome::Skipped, None),
        ("RUN", "COMPLETED") => (TestOutcome::Passed, None),
        // A test that was interrupted has no result.
        (_, "") => (TestOutcome::NotRun, None),
        (status, result) => (TestOutcome::Unknown, Some(unknown_word(&format!("{status} {result}")))),
    };
    let message = output.as_deref().map(|text| text.lines().take(3).collect::<Vec<_>>().join(" "));
    CaseAttempt { outcome, seconds: seconds(&case.time), message, output }
}

fn messages(messages: &[GtestMessage]) -> Option<String> {
    let texts: Vec<&str> = messages.iter().map(|message| message.failure.trim()).collect();
    Some(texts.join("\n")).filter(|text| !text.is_empty())
}
