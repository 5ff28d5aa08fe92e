//! Input: JSON, or JSON Lines. Output: the tests in it, if a framework wrote it.
//!
//! JSON has no root that names it, so each form is known by its keys. A file with keys of results
//! in an unknown form makes a report incomplete; any other file is not a report.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::foreign_report::{ForeignReport, ForeignTest};
use crate::gtest;
use crate::outcome::TestOutcome;
use crate::vocabulary::{unknown_word, word_outcome};

/// What a file is.
#[derive(Debug)]
pub(crate) enum JsonKind {
    Report(ForeignReport),
    /// The events of a run of ours.
    Events,
    NoTests,
    /// It cannot be read, and may have been a report.
    Damaged(String),
}

const WRITE_JUNIT: &str = "let it write junit XML";

/// Reads a file.
pub(crate) fn read(bytes: &[u8]) -> JsonKind {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let error = match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(object)) if line_form(&object).is_some() => return read_lines(bytes),
        Ok(value) => return read_document(&value, bytes),
        Err(error) => error,
    };
    let first = bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    match serde_json::from_slice::<Map<String, Value>>(first) {
        Ok(_) => read_lines(bytes),
        Err(_) => JsonKind::Damaged(error.to_string()),
    }
}

fn read_document(value: &Value, bytes: &[u8]) -> JsonKind {
    if value.get("testsuites").is_some() {
        return match gtest::read(bytes) {
            Ok(report) => JsonKind::Report(report),
            Err(error) => JsonKind::Damaged(error.to_string()),
        };
    }
    JsonKind::Report(if has_all(value, &["numTotalTests", "testResults"]) {
        read_jest(value)
    } else if has_all(value, &["suites", "stats", "config"]) {
        read_playwright(value)
    } else if has_all(value, &["stats", "tests", "passes", "failures"]) || has_all(value, &["stats", "results", "meta"])
    {
        ForeignReport::unread("mocha", WRITE_JUNIT)
    } else if has_all(value, &["examples", "summary_line"]) {
        ForeignReport::unread("rspec", WRITE_JUNIT)
    } else if has_all(value, &["tests", "exitcode"]) {
        ForeignReport::unread("pytest-json-report", WRITE_JUNIT)
    } else if value.pointer("/results/tests").is_some() {
        ForeignReport::unread("ctrf", WRITE_JUNIT)
    } else if value.pointer("/0/elements").is_some() {
        ForeignReport::unread("cucumber", WRITE_JUNIT)
    } else if value.pointer("/report/runs").is_some() {
        ForeignReport::unread("`rocwheel test report --json`", "give the reports that it was made of")
    } else if has_keys_of_results(value) {
        ForeignReport::unread("a framework", &format!("{WRITE_JUNIT}, or name the reports without this file"))
    } else {
        return JsonKind::NoTests;
    })
}

fn has_all(value: &Value, keys: &[&str]) -> bool {
    keys.iter().all(|key| value.get(key).is_some())
}

/// Keys of lists of tests, and keys of their ends.
const TEST_KEYS: [&str; 9] =
    ["tests", "testcases", "testCases", "testResults", "test_results", "suites", "specs", "scenarios", "examples"];
const END_KEYS: [&str; 9] =
    ["failures", "failed", "passed", "status", "outcome", "result", "numFailedTests", "failing", "success"];

/// `true` if the keys of the outer three levels look like those of results of tests.
fn has_keys_of_results(value: &Value) -> bool {
    let mut keys = BTreeSet::new();
    collect_keys(value, 3, &mut keys);
    TEST_KEYS.iter().any(|key| keys.contains(key)) && END_KEYS.iter().any(|key| keys.contains(key))
}

fn collect_keys<'a>(value: &'a Value, levels: usize, keys: &mut BTreeSet<&'a str>) {
    if levels == 0 {
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                keys.insert(key);
                collect_keys(inner, levels - 1, keys);
            }
        }
        Value::Array(items) => items.iter().take(20).for_each(|item| collect_keys(item, levels, keys)),
        _ => {}
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// A test whose outcome is a word.
fn test(id: String, word: &str, message: String) -> ForeignTest {
    match word_outcome(word) {
        TestOutcome::Unknown => ForeignTest::new(id, TestOutcome::Unknown, Some(unknown_word(word))),
        outcome => ForeignTest::new(id, outcome, Some(message)),
    }
}

/// Jest's `--json`, which vitest writes as well.
fn read_jest(value: &Value) -> ForeignReport {
    let mut report = ForeignReport::new("jest");
    for file in list(value, "testResults") {
        let path = text(file, "name");
        let before = report.tests.len();
        for found in list(file, "assertionResults") {
            let messages: Vec<&str> = list(found, "failureMessages").iter().filter_map(Value::as_str).collect();
            let seconds = found.get("duration").and_then(Value::as_f64).map(|milliseconds| milliseconds / 1000.0);
            let id = text(found, "fullName").to_owned();
            report.tests.push(test(id, text(found, "status"), messages.join("\n")).took(seconds));
        }
        let is_bad = report.tests[before..].iter().any(|test| test.attempt.outcome.is_bad());
        match text(file, "status") {
            "failed" if !is_bad => {
                let message = Some(text(file, "message").to_owned());
                report.tests.push(ForeignTest::new(path, TestOutcome::Error, message));
            }
            "failed" | "passed" | "skipped" | "pending" | "focused" => {}
            word => report.lost.push(format!("says `{word}` of `{path}`, which is not known")),
        }
    }
    if value.get("wasInterrupted") == Some(&Value::Bool(true)) {
        report.lost.push("says that the run was interrupted".to_owned());
    }
    report.announces_failures(number(value, "numFailedTests"));
    let found = report.tests.len() as u64;
    let of_files = number(value, "numRuntimeErrorTestSuites");
    if number(value, "numTotalTests") > found {
        report.compare(number(value, "numTotalTests"), found, "test");
    }
    if (value.get("success") == Some(&Value::Bool(false)) || of_files > 0) && !report.has_failure() {
        report.lost.push("says that it was no success, and no test of it failed".to_owned());
    }
    report
}

fn read_playwright(value: &Value) -> ForeignReport {
    let mut report = ForeignReport::new("playwright");
    for suite in list(value, "suites") {
        read_playwright_suite(suite, "", 0, &mut report);
    }
    for error in list(value, "errors") {
        report.lost.push(format!("has an error outside of its tests: {}", text(error, "message")));
    }
    report.announces_failures(value.pointer("/stats/unexpected").and_then(Value::as_u64).unwrap_or_default());
    report
}

fn read_playwright_suite(suite: &Value, outer: &str, depth: usize, report: &mut ForeignReport) {
    if depth > 100 {
        report.lost.push("is nested too deep".to_owned());
        return;
    }
    let title =
        [outer, text(suite, "title")].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" > ");
    for spec in list(suite, "specs") {
        for one in list(spec, "tests") {
            let project = text(one, "projectName");
            let project = if project.is_empty() { String::new() } else { format!(" [{project}]") };
            let id = format!("{title} > {}{project}", text(spec, "title"));
            let results = list(one, "results");
            let message = results.iter().rev().find_map(|result| result.pointer("/error/message")?.as_str());
            let found = match text(one, "status") {
                "expected" if text(one, "expectedStatus") == "failed" => TestOutcome::ExpectedFailure,
                "expected" | "flaky" => TestOutcome::Passed,
                "skipped" => TestOutcome::Skipped,
                "unexpected" => TestOutcome::Failed,
                _ => TestOutcome::Unknown,
            };
            let message = message.map(str::to_owned);
            let mut test = ForeignTest::new(id, found, None);
            match found {
                TestOutcome::Unknown => test.attempt.message = Some(unknown_word(text(one, "status"))),
                TestOutcome::Failed => test.attempt.message = message,
                _ if text(one, "status") == "flaky" => {
                    test.earlier.push(ForeignTest::new("", TestOutcome::Failed, message).attempt);
                }
                _ => {}
            }
            report.tests.push(test);
        }
        if spec.get("ok") == Some(&Value::Bool(false)) && !report.has_failure() {
            report.lost.push(format!("says that `{}` is not good, and no test failed", text(spec, "title")));
        }
    }
    for inner in list(suite, "suites") {
        read_playwright_suite(inner, &title, depth + 1, report);
    }
}

/// What a line of JSON Lines is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineForm {
    Ours,
    Go,
    Meson,
    Libtest,
}

fn has_text(line: &Map<String, Value>, key: &str) -> bool {
    line.get(key).is_some_and(Value::is_string)
}

fn line_form(line: &Map<String, Value>) -> Option<LineForm> {
    let event = line.get("event").and_then(Value::as_str).unwrap_or_default();
    if has_text(line, "Action") && (has_text(line, "Package") || has_text(line, "ImportPath")) {
        Some(LineForm::Go)
    } else if has_text(line, "name") && has_text(line, "result") && line.contains_key("command") {
        Some(LineForm::Meson)
    } else if has_text(line, "type") && has_text(line, "event") {
        Some(LineForm::Libtest)
    } else if ["run", "collected", "started", "attempt", "problem", "end"].contains(&event) {
        Some(LineForm::Ours)
    } else {
        None
    }
}

fn read_lines(bytes: &[u8]) -> JsonKind {
    let mut go = GoReader::default();
    let mut meson = ForeignReport::new("meson");
    let mut form = None;
    let mut damaged = None;
    for (number, line) in (1_u64..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(value) = serde_json::from_slice::<Value>(line) else {
            damaged.get_or_insert(format!("line {number} is no JSON"));
            continue;
        };
        form = form.or_else(|| line_form(value.as_object()?));
        match form {
            Some(LineForm::Ours) => return JsonKind::Events,
            Some(LineForm::Go) => go.line(&value),
            Some(LineForm::Meson) => meson.tests.push(meson_test(&value)),
            Some(LineForm::Libtest) => return JsonKind::Report(ForeignReport::unread("libtest", WRITE_JUNIT)),
            None if has_keys_of_results(&value) => {
                return JsonKind::Report(ForeignReport::unread("a framework", WRITE_JUNIT));
            }
            None => {}
        }
    }
    let mut report = match form {
        Some(LineForm::Go) => go.finish(),
        Some(LineForm::Meson) => meson,
        _ => return JsonKind::NoTests,
    };
    report.lost.extend(damaged);
    JsonKind::Report(report)
}

/// A line of Meson's `testlog.json`.
fn meson_test(line: &Value) -> ForeignTest {
    let word = text(line, "result");
    let code = line.get("returncode").and_then(Value::as_i64).unwrap_or_default();
    let outcome = match (word, word_outcome(word)) {
        // Meson writes the signal of a process as a negative code.
        ("FAIL" | "ERROR", _) if code < 0 => TestOutcome::Crashed,
        // What Meson says of a test that passed against `should_fail`: the run has failed.
        ("UNEXPECTEDPASS", _) => TestOutcome::Failed,
        ("OK", _) if code != 0 => TestOutcome::Failed,
        (_, outcome) => outcome,
    };
    let message = match outcome {
        TestOutcome::Passed | TestOutcome::Skipped => None,
        TestOutcome::Unknown => Some(unknown_word(word)),
        _ => Some(format!("Meson says {word}, code {code}")),
    };
    let mut test = ForeignTest::new(text(line, "name"), outcome, message);
    let printed = [text(line, "stdout"), text(line, "stderr")].join("\n");
    test.attempt.output = Some(printed.trim().to_owned()).filter(|text| !text.is_empty());
    test.took(line.get("duration").and_then(Value::as_f64))
}

/// Reads the lines of `go test -json`.
#[derive(Debug, Default)]
struct GoReader {
    /// What the tests that have not ended printed.
    open: BTreeMap<(String, String), String>,
    /// Packages that began, and the failures in them so far.
    packages: BTreeMap<String, u64>,
    tests: Vec<ForeignTest>,
    lost: Vec<String>,
}

/// Bytes of output that are kept of a test of Go.
const LONGEST_OUTPUT: usize = 64 << 10;

impl GoReader {
    fn line(&mut self, line: &Value) {
        let package = text(line, "Package").to_owned();
        let name = text(line, "Test").to_owned();
        match text(line, "Action") {
            "run" => {
                self.open.insert((package, name), String::new());
            }
            "start" => {
                self.packages.entry(package).or_default();
            }
            "output" => {
                self.packages.entry(package.clone()).or_default();
                let kept = self.open.entry((package, name)).or_default();
                if kept.len() < LONGEST_OUTPUT {
                    kept.push_str(text(line, "Output"));
                }
            }
            word @ ("pass" | "fail" | "skip") if name.is_empty() => self.end_package(package, word),
            word @ ("pass" | "fail" | "skip") => {
                let output = self.open.remove(&(package.clone(), name.clone())).filter(|text| !text.is_empty());
                let bad = self.packages.entry(package.clone()).or_default();
                *bad += u64::from(word == "fail");
                let mut found = test(format!("{package}::{name}"), word, String::new());
                found.attempt.output = output.filter(|_| word == "fail");
                self.tests.push(found.took(line.get("Elapsed").and_then(Value::as_f64)));
            }
            "build-fail" => {
                let id = text(line, "ImportPath").to_owned();
                self.tests.push(ForeignTest::new(id, TestOutcome::Error, Some("it cannot be built".to_owned())));
            }
            "pause" | "cont" | "bench" | "build-output" | "attr" | "artifacts" => {}
            other => self.lost.push(format!("has the action `{other}`, which is not known")),
        }
    }

    fn end_package(&mut self, package: String, word: &str) {
        let output = self.open.remove(&(package.clone(), String::new()));
        let bad = self.packages.remove(&package).unwrap_or_default();
        let open: Vec<(String, String)> = self.open.keys().filter(|(other, _)| *other == package).cloned().collect();
        for key in &open {
            self.open.remove(key);
            let message = Some("it began, and its process ended without a result".to_owned());
            self.tests.push(ForeignTest::new(format!("{}::{}", key.0, key.1), TestOutcome::Crashed, message));
        }
        if word == "fail" && bad == 0 && open.is_empty() {
            let mut found = ForeignTest::new(package, TestOutcome::Error, Some("the package failed".to_owned()));
            found.attempt.output = output;
            self.tests.push(found);
        }
    }

    fn finish(self) -> ForeignReport {
        let mut lost = self.lost;
        for package in self.packages.keys() {
            lost.push(format!("has no end of the package `{package}`"));
        }
        ForeignReport { tests: self.tests, lost, may_retry: true, ..ForeignReport::new("go") }
    }
}
