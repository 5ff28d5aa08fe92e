//! Input: the JSON that GoogleTest writes (`--gtest_output=json:FILE`). Output: its tests.

use std::io::Read;

use serde::Deserialize;

use super::junit::CaseAttempt;
use super::junit_dialect::seconds;
use crate::outcome::TestOutcome;

/// Bytes of a file. It is one document, so it is read as a whole.
const LARGEST: u64 = 512 << 20;

#[derive(Debug, Deserialize)]
struct GtestDocument {
    #[serde(default)]
    timestamp: Option<String>,
    tests: u64,
    testsuites: Vec<GtestSuite>,
}

#[derive(Debug, Deserialize)]
struct GtestSuite {
    #[serde(default)]
    name: String,
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

/// Tests of a file.
#[derive(Debug)]
pub(super) struct GtestReport {
    pub(super) started: Option<String>,
    /// The number that the file announces.
    pub(super) announced: u64,
    pub(super) tests: Vec<(String, CaseAttempt)>,
}

/// Reads a file.
pub(super) fn read(file: impl Read) -> Result<GtestReport, serde_json::Error> {
    let document: GtestDocument = serde_json::from_reader(std::io::BufReader::new(file.take(LARGEST)))?;
    let mut tests = Vec::new();
    for suite in document.testsuites {
        for case in suite.testsuite {
            let class = case.classname.as_deref().filter(|name| !name.is_empty()).unwrap_or(&suite.name);
            tests.push((format!("{class}.{}", case.name), attempt(&case)));
        }
    }
    Ok(GtestReport { started: document.timestamp, announced: document.tests, tests })
}

fn attempt(case: &GtestCase) -> CaseAttempt {
    let text = |messages: &[GtestMessage]| {
        let texts: Vec<&str> = messages.iter().map(|message| message.failure.trim()).collect();
        Some(texts.join("\n")).filter(|text| !text.is_empty())
    };
    let (outcome, output) = match (case.status.as_str(), case.result.as_str()) {
        _ if !case.failures.is_empty() => (TestOutcome::Failed, text(&case.failures)),
        (_, "SKIPPED") => (TestOutcome::Skipped, text(&case.skipped)),
        (_, "SUPPRESSED") => (TestOutcome::Skipped, None),
        ("RUN", "COMPLETED") => (TestOutcome::Passed, None),
        // A test that was interrupted has no result.
        _ => (TestOutcome::NotRun, None),
    };
    let message = output.as_deref().map(|text| text.lines().take(3).collect::<Vec<_>>().join(" "));
    CaseAttempt { outcome, seconds: seconds(&case.time), message, output }
}
