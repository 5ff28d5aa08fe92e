//! Input: XML of test frameworks that is not junit XML. Output: its tests.
//!
//! Each form is a row: which element is a test, and where its name and its outcome are.

use std::io::{BufRead, BufReader, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::foreign_report::{ForeignReport, ForeignTest};
use crate::junit_case::BoundedText;
use crate::junit_dialect::seconds;
use crate::outcome::TestOutcome;
use crate::vocabulary::{case_word_outcome, unknown_word, word_outcome};
use crate::xml_attributes::{XmlAttributes, unescaped};
use crate::xml_input::XmlInput;

/// Elements inside each other.
const DEEPEST: usize = 1000;
/// Tests of a file.
const MOST_TESTS: usize = 1_000_000;

/// Where something about a test is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrittenIn {
    Attribute(&'static str),
    /// The text of a child, which is directly in the test.
    Child(&'static str),
    /// An attribute of such a child.
    ChildAttribute(&'static str, &'static str),
}

#[derive(Debug, PartialEq, Eq)]
struct XmlForm {
    root: &'static str,
    tool: &'static str,
    /// The element around tests, whose attribute `name` is part of their identities. If it says
    /// that it failed, a test in it has to.
    group: &'static str,
    test: &'static str,
    name: WrittenIn,
    outcome: WrittenIn,
    /// The element in a test whose text is the reason of a failure.
    reason: &'static str,
}

use WrittenIn::{Attribute, Child, ChildAttribute};

#[rustfmt::skip]
const FORMS: [XmlForm; 10] = [
    XmlForm { root: "Site", tool: "ctest", group: "", test: "Test", name: Child("Name"), outcome: Attribute("Status"), reason: "" },
    XmlForm { root: "TestResult", tool: "boost", group: "TestSuite", test: "TestCase", name: Attribute("name"), outcome: Attribute("result"), reason: "" },
    XmlForm { root: "robot", tool: "robot", group: "suite", test: "test", name: Attribute("name"), outcome: ChildAttribute("status", "status"), reason: "status" },
    XmlForm { root: "TestRun", tool: "trx", group: "", test: "UnitTestResult", name: Attribute("testName"), outcome: Attribute("outcome"), reason: "Message" },
    XmlForm { root: "test-run", tool: "nunit", group: "test-suite", test: "test-case", name: Attribute("fullname"), outcome: Attribute("result"), reason: "message" },
    XmlForm { root: "assemblies", tool: "xunit.net", group: "", test: "test", name: Attribute("name"), outcome: Attribute("result"), reason: "message" },
    XmlForm { root: "testng-results", tool: "testng", group: "class", test: "test-method", name: Attribute("name"), outcome: Attribute("status"), reason: "message" },
    XmlForm { root: "Catch", tool: "catch2", group: "", test: "TestCase", name: Attribute("name"), outcome: ChildAttribute("OverallResult", "success"), reason: "" },
    XmlForm { root: "Catch2TestRun", tool: "catch2", group: "", test: "TestCase", name: Attribute("name"), outcome: ChildAttribute("OverallResult", "success"), reason: "" },
    XmlForm { root: "doctest", tool: "doctest", group: "", test: "TestCase", name: Attribute("name"), outcome: ChildAttribute("OverallResultsAsserts", "test_case_success"), reason: "" },
];

/// Roots of reports of tests that are not read, and what writes them.
const UNREAD: [(&str, &str); 5] = [
    ("TestLog", "Boost.Test (a log)"),
    ("test-results", "NUnit 2"),
    ("assembly", "xUnit.net 1"),
    ("testExecutions", "SonarQube's generic form"),
    ("events", "Open Test Reporting"),
];

/// Roots of files that are often beside reports and say nothing of tests.
const NO_TESTS: [&str; 17] = [
    "coverage",
    "checkstyle",
    "html",
    "project",
    "pmd",
    "pmd-cpd",
    "BugCollection",
    "plist",
    "manifest",
    "svg",
    "doxygen",
    "doxygenindex",
    "issues",
    "configuration",
    "Done",
    "component",
    "resources",
];

/// The same for roots that others use too, with the element that comes first in them: JaCoCo and
/// cppcheck.
const NO_TESTS_WITH: [(&str, &str); 4] =
    [("report", "sessioninfo"), ("report", "group"), ("report", "package"), ("results", "cppcheck")];

/// What the root of an XML file says that it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum XmlKind {
    Junit,
    /// A form of another framework, by its root.
    Foreign(String),
    /// A report of a form that is not read, and who writes it.
    Unread(&'static str),
    NoTests,
    /// A root that is not known.
    Unknown(String),
    /// There is no root.
    Damaged,
}

/// Reads the name of the root.
pub(crate) fn kind(file: impl Read) -> std::io::Result<XmlKind> {
    let mut reader = Reader::from_reader(BufReader::new(XmlInput::new(file)?));
    let Some(root) = next_element(&mut reader) else { return Ok(XmlKind::Damaged) };
    Ok(match root.as_str() {
        "testsuites" | "testsuite" => XmlKind::Junit,
        name if FORMS.iter().any(|form| form.root == name) => XmlKind::Foreign(root),
        name if NO_TESTS.contains(&name) => XmlKind::NoTests,
        name if NO_TESTS_WITH.iter().any(|(outer, _)| *outer == name)
            && next_element(&mut reader).is_some_and(|first| NO_TESTS_WITH.contains(&(name, &first))) =>
        {
            XmlKind::NoTests
        }
        name => match UNREAD.iter().find(|(known, _)| *known == name) {
            Some((_, tool)) => XmlKind::Unread(tool),
            None => XmlKind::Unknown(root),
        },
    })
}

/// The name of the next element.
fn next_element(reader: &mut Reader<impl BufRead>) -> Option<String> {
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(start) | Event::Empty(start)) => {
                return Some(String::from_utf8_lossy(start.local_name().as_ref()).into_owned());
            }
            Ok(Event::Eof) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// A test that has not ended.
#[derive(Debug, Default)]
struct OpenTest {
    depth: usize,
    name: String,
    word: Option<String>,
    seconds: Option<f64>,
    is_skipped: bool,
    reason: BoundedText,
    /// What ctest measured: `Exit Code`, `Completion Status`.
    measured: Vec<String>,
    /// The file says that failures are expected of it, and that it has some.
    failed_as_expected: bool,
    /// Boost counted no assertion in it, as of a test behind a crash.
    is_empty: bool,
}

impl OpenTest {
    /// `true` if a measurement begins with one of the words.
    fn has_measured(&self, words: &[&str]) -> bool {
        self.measured.iter().any(|measured| words.iter().any(|word| measured.starts_with(word)))
    }
}

/// A suite that has not ended.
#[derive(Debug)]
struct OpenGroup {
    depth: usize,
    name: String,
    word: Option<String>,
    /// Failures before it.
    failures: usize,
}

struct FormState {
    form: &'static XmlForm,
    elements: Vec<String>,
    groups: Vec<OpenGroup>,
    test: Option<OpenTest>,
    /// The name of the measurement that is open.
    measurement: String,
    text: BoundedText,
    failures: usize,
    announced: Option<u64>,
    /// Failures that the file announces for all of it.
    announced_bad: u64,
    has_tests: bool,
    /// A test before this one crashed. Boost writes passes of those behind it.
    has_crashed: bool,
    report: ForeignReport,
}

/// Reads a file whose root has a form. `None` if it has no tests by its nature, as ctest's
/// `Build.xml`.
pub(crate) fn read(root: &str, file: impl Read) -> std::io::Result<Option<ForeignReport>> {
    let Some(form) = FORMS.iter().find(|form| form.root == root) else { return Ok(None) };
    let mut reader = Reader::from_reader(BufReader::new(XmlInput::new(file)?));
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    let mut state = FormState {
        form,
        elements: Vec::new(),
        groups: Vec::new(),
        test: None,
        measurement: String::new(),
        text: BoundedText::default(),
        failures: 0,
        announced: None,
        announced_bad: 0,
        has_tests: form.root != "Site",
        has_crashed: false,
        report: ForeignReport::new(form.tool),
    };
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        let event = match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => break,
            Ok(event) => event,
            Err(error) => {
                state.report.lost.push(format!("is damaged after {} bytes: {error}", reader.buffer_position()));
                return Ok(Some(state.report));
            }
        };
        if let Err(problem) = state.event(event) {
            state.report.lost.push(problem);
            return Ok(Some(state.report));
        }
    }
    Ok(state.finish())
}

impl FormState {
    fn event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocType(_) => {
                return Err("has a DOCTYPE, which could pull in other files, and is refused".to_owned());
            }
            Event::Start(start) => {
                if self.elements.len() >= DEEPEST || self.report.tests.len() >= MOST_TESTS {
                    return Err("is nested too deep, or has too many tests".to_owned());
                }
                self.start(&start)?;
            }
            Event::End(_) => self.end(),
            Event::Text(text) => self.text.push(&String::from_utf8_lossy(&text)),
            Event::CData(text) => self.text.push(&String::from_utf8_lossy(&text)),
            Event::GeneralRef(name) => {
                self.text.push(&unescaped(&format!("&{};", String::from_utf8_lossy(&name))));
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
        let attributes = XmlAttributes::read(start)?;
        let depth = self.elements.len();
        self.text = BoundedText::default();
        self.has_tests |= name == "Testing";
        if let Some(test) = &mut self.test {
            if let ChildAttribute(element, key) = self.form.outcome
                && element == name
                && depth == test.depth + 1
            {
                test.word = attributes.find(key).map(str::to_owned);
                test.is_skipped |= attributes.find("skips").is_some_and(|count| count != "0");
                test.failed_as_expected |= count(&attributes, "failures").is_some_and(|bad| bad > 0);
                let time = ["duration", "elapsed"].into_iter().find_map(|key| attributes.find(key));
                test.seconds = test.seconds.or(time.and_then(seconds));
            }
            if name == "NamedMeasurement" {
                self.measurement = attributes.get("name");
            }
        } else if name == self.form.test && self.elements.last().is_some_and(|outer| outer == "TestList") {
            *self.announced.get_or_insert_default() += 1;
        } else if name == self.form.test {
            self.open_test(depth, &attributes);
        } else if name == self.form.group {
            let word = match self.form.outcome {
                Attribute(_) => attributes.filled("result"),
                _ => None,
            };
            self.groups.push(OpenGroup { depth, name: attributes.get("name"), word, failures: self.failures });
        } else {
            self.outside(&name, depth, &attributes);
        }
        self.elements.push(name);
        Ok(())
    }

    fn open_test(&mut self, depth: usize, attributes: &XmlAttributes) {
        let mut test = OpenTest { depth, ..OpenTest::default() };
        if let Attribute(key) = self.form.name {
            test.name = attributes.get(key);
        }
        if let Attribute(key) = self.form.outcome {
            test.word = attributes.find(key).map(str::to_owned);
        }
        let time = ["duration", "time"].into_iter().find_map(|key| attributes.find(key));
        test.seconds = time.and_then(seconds);
        test.is_skipped = attributes.find("skipped") == Some("true");
        let counted = ["assertions_passed", "assertions_failed", "warnings_failed"].map(|key| count(attributes, key));
        test.is_empty = counted == [Some(0); 3];
        test.failed_as_expected = count(attributes, "expected_failures").is_some_and(|bad| bad > 0) && !test.is_empty;
        // NUnit says by a label that a failure is an error or was cancelled.
        if let Some(label) = attributes.find("label") {
            test.measured.push(label.to_owned());
        }
        // TestNG writes set-ups and clean-ups as methods, which count if they go wrong.
        if attributes.find("is-config") == Some("true") {
            test.measured.push("configuration".to_owned());
        }
        self.test = Some(test);
    }

    /// What a file says of itself beside its tests.
    fn outside(&mut self, name: &str, depth: usize, attributes: &XmlAttributes) {
        match (self.form.tool, name) {
            ("trx", "Counters") => {
                self.announced = count(attributes, "total");
                self.announced_bad =
                    self.announced_bad.saturating_add(sum(attributes, &["failed", "error", "timeout", "aborted"]));
            }
            ("trx", "ResultSummary") => {
                let word = attributes.filled("outcome");
                self.groups.push(OpenGroup { depth, name: "the run".to_owned(), word, failures: 0 });
            }
            ("nunit", "test-run") => {
                self.announced = count(attributes, "testcasecount");
                self.announced_bad = self.announced_bad.saturating_add(sum(attributes, &["failed"]));
                let word = attributes.filled("result");
                self.groups.push(OpenGroup { depth, name: "the run".to_owned(), word, failures: 0 });
            }
            ("xunit.net", "assembly") => {
                self.announced = Some(self.announced.unwrap_or_default().saturating_add(sum(attributes, &["total"])));
                self.announced_bad = self.announced_bad.saturating_add(sum(attributes, &["failed", "errors"]));
            }
            ("xunit.net", "error") => {
                self.report.tests.push(ForeignTest::new(attributes.get("name"), TestOutcome::Error, None));
            }
            // The status of a suite itself.
            ("robot", "status") => {
                let word = attributes.find("status");
                if let Some(group) = self.groups.last_mut().filter(|group| depth == group.depth + 1) {
                    group.word = word.map(str::to_owned);
                }
            }
            ("testng", "testng-results") => {
                let bad = count(attributes, "failed").unwrap_or_default();
                let word = (bad > 0).then(|| "failed".to_owned());
                self.groups.push(OpenGroup { depth, name: "the run".to_owned(), word, failures: 0 });
            }
            ("doctest" | "catch2", "OverallResultsTestCases" | "OverallResultsCases") => {
                let word = count(attributes, "failures").filter(|bad| *bad > 0).map(|_| "failed".to_owned());
                self.groups.push(OpenGroup { depth, name: "the run".to_owned(), word, failures: 0 });
            }
            _ => {}
        }
    }

    fn end(&mut self) {
        let Some(name) = self.elements.pop() else { return };
        let depth = self.elements.len();
        let text = std::mem::take(&mut self.text);
        if let Some(test) = &mut self.test {
            if name == "Value" && matches!(self.measurement.as_str(), "Exit Code" | "Completion Status") {
                test.measured.extend(text.filled());
                self.measurement.clear();
            }
            if matches!(self.form.name, Child(child) if child == name) && depth == test.depth + 1 {
                test.name = text.filled().unwrap_or_default();
            }
            let is_reason = name == self.form.reason && (depth == test.depth + 1 || self.form.tool != "robot");
            if is_reason && let Some(text) = text.filled() {
                test.reason.push(&text);
            }
            if depth == test.depth {
                self.close_test();
            }
        } else if let Some(group) = self.groups.pop_if(|group| group.depth == depth) {
            self.close_group(&group);
        }
    }

    fn close_test(&mut self) {
        let Some(test) = self.test.take() else { return };
        let mut outcome = outcome(self.form.tool, &test);
        if outcome == TestOutcome::Crashed {
            self.has_crashed = true;
        } else if test.is_empty && self.has_crashed && outcome == TestOutcome::Passed {
            outcome = TestOutcome::NotRun;
        }
        if outcome == TestOutcome::Passed && test.measured.iter().any(|word| word == "configuration") {
            return;
        }
        self.failures += usize::from(outcome.is_bad());
        let names =
            self.groups.iter().map(|group| group.name.as_str()).filter(|name| !name.is_empty() && *name != "the run");
        let group = names.collect::<Vec<_>>().join(".");
        let id = if group.is_empty() { test.name.clone() } else { format!("{group}::{}", test.name) };
        let reason = match (&test.word, outcome) {
            (word, TestOutcome::Unknown) => Some(word.as_deref().map_or("it has no outcome".to_owned(), unknown_word)),
            _ => test
                .reason
                .filled()
                .or_else(|| test.measured.first().filter(|_| outcome != TestOutcome::Passed).cloned()),
        };
        self.report.tests.push(ForeignTest::new(id, outcome, reason).took(test.seconds));
    }

    fn close_group(&mut self, group: &OpenGroup) {
        let Some(word) = &group.word else { return };
        // VSTest says `Completed` of a run without failures.
        let outcome = case_word_outcome(word);
        if outcome == TestOutcome::Unknown {
            self.report.lost.push(format!("says `{word}` of `{}`, which is not known", group.name));
        } else if outcome.is_bad() && self.failures == group.failures {
            self.report.lost.push(format!("says `{word}` of `{}`, and no test in it failed", group.name));
        }
    }

    fn finish(mut self) -> Option<ForeignReport> {
        if !self.elements.is_empty() {
            self.report.lost.push("ends in the middle".to_owned());
        }
        if let Some(announced) = self.announced {
            let found = self.report.tests.len() as u64;
            self.report.compare(announced, found, "test");
        }
        self.report.announces_failures(self.announced_bad);
        self.has_tests.then_some(self.report)
    }
}

fn count(attributes: &XmlAttributes, key: &str) -> Option<u64> {
    attributes.find(key)?.trim().parse().ok()
}

/// The numbers of several attributes together.
fn sum(attributes: &XmlAttributes, keys: &[&str]) -> u64 {
    keys.iter().filter_map(|key| count(attributes, key)).fold(0, u64::saturating_add)
}

/// The outcome of a test, with the words of its framework that mean another thing elsewhere.
fn outcome(tool: &str, test: &OpenTest) -> TestOutcome {
    let Some(word) = &test.word else {
        return if test.is_skipped { TestOutcome::Skipped } else { TestOutcome::Unknown };
    };
    match (tool, word.as_str()) {
        ("catch2" | "doctest", "true") if test.is_skipped => TestOutcome::Skipped,
        ("doctest", "true") | ("boost", "passed") if test.failed_as_expected => TestOutcome::ExpectedFailure,
        ("catch2" | "doctest", "true") => TestOutcome::Passed,
        ("catch2" | "doctest", "false") => TestOutcome::Failed,
        ("ctest", "failed") if test.has_measured(&["Timeout"]) => TestOutcome::TimedOut,
        ("ctest", "failed")
            if test.has_measured(&[
                "SEGFAULT",
                "ILLEGAL",
                "NUMERICAL",
                "OTHER_FAULT",
                "Child aborted",
                "Subprocess",
            ]) =>
        {
            TestOutcome::Crashed
        }
        ("ctest", "notrun") if test.has_measured(&["SKIP", "Disabled"]) => TestOutcome::Skipped,
        ("nunit", "Failed") if test.has_measured(&["Error", "Invalid"]) => TestOutcome::Error,
        ("nunit", "Failed") if test.has_measured(&["Cancelled"]) => TestOutcome::NotRun,
        // The loggers of .NET write a skip so.
        ("trx", "NotExecuted") => TestOutcome::Skipped,
        _ => word_outcome(word),
    }
}
