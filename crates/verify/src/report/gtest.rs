//! Input: the JSON that GoogleTest writes (`--gtest_output=json:FILE`). Output: its tests.

use std::io::Read;

use jiff::Timestamp;
use serde::Deserialize;

use super::junit_case::CaseAttempt;
use super::junit_dialect::seconds;
use super::time::end_of;
use crate::outcome::TestOutcome;

/// Bytes of a file. It is one document, so it is read as a whole.
const LARGEST: u64 = 512 << 20;

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
    pub(super) finished: Option<Timestamp>,
    /// The number that the file announces.
    pub(super) announced: u64,
    /// Failures and errors that it announces.
    pub(super) announced_bad: u64,
    pub(super) tests: Vec<(String, CaseAttempt)>,
}

/// Why a file is no report.
#[derive(Debug)]
pub(super) enum NoGtestReport {
    /// It was one, and is damaged.
    Damaged(String),
    /// It is JSON of something else.
    Other,
}

/// Reads a file. JSON without `testsuites` is something else.
pub(super) fn read(file: impl Read) -> std::io::Result<Result<GtestReport, NoGtestReport>> {
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let document: GtestDocument = match serde_json::from_slice(bytes) {
        Ok(document) => document,
        Err(error) => {
            let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
            let key = b"\"testsuites\"";
            let is_other = is_json && !bytes.windows(key.len()).any(|window| window == key);
            return Ok(Err(if is_other { NoGtestReport::Other } else { NoGtestReport::Damaged(error.to_string()) }));
        }
    };
    let mut tests = Vec::new();
    for suite in document.testsuites {
        for case in suite.testsuite {
            let class = case.classname.as_deref().filter(|name| !name.is_empty()).unwrap_or(&suite.name);
            tests.push((format!("{class}.{}", case.name), attempt(&case)));
        }
    }
    let announced_bad = document.failures.saturating_add(document.errors);
    let finished = document.timestamp.as_deref().and_then(|started| end_of(started, seconds(&document.time)));
    let (started, announced) = (document.timestamp, document.tests);
    Ok(Ok(GtestReport { started, finished, announced, announced_bad, tests }))
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
