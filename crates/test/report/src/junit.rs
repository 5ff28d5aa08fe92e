//! Input: junit XML of any dialect. Output: its test cases, one after the other.
//!
//! The dialects are those of quick-junit (nextest), surefire, pytest (xunit1 and xunit2, with
//! PyTorch's `<rerun>`), gtest, ctest, Meson, Catch2, doctest, Boost, gotestsum, mocha and absl;
//! testmoapp/junitxml describes most of them. Unknown elements and words are not passes. A file
//! must have the tests that it announces, or results are lost.

use std::collections::BTreeSet;
use std::io::{BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::junit_case::{BoundedText, CaseChild, JunitCase, OpenCase};
use crate::junit_dialect::{CaseNames, FileNames, JunitDialect, seconds, writer_of};
use crate::junit_suite::OpenSuite;
use crate::outcome::TestOutcome;
use crate::tap;
use crate::time::end_of;
use crate::vocabulary::case_words;
use crate::xml_attributes::{XmlAttributes, unescaped};
use crate::xml_input::XmlInput;

/// Elements inside each other.
const DEEPEST: usize = 1000;
/// How Catch2 marks a test whose failure does not count.
const MAY_FAIL: &str = "TEST_CASE tagged with !mayfail";
/// Pending tests of mocha that are named.
const MOST_PENDING: u64 = 10_000;
/// Test cases that wait for the end of their suite.
const MOST_HELD: usize = 100_000;

/// What a file is as a whole.
#[derive(Debug, Default)]
pub(crate) struct JunitEnd {
    /// The file ends where it should.
    pub(crate) complete: bool,
    /// Time stamp of the first suite.
    pub(crate) started: Option<String>,
    /// The latest end of a suite or a test, as far as they have times.
    pub(crate) finished: Option<Timestamp>,
    /// The machine that the first suite names.
    pub(crate) host: Option<String>,
    /// Sentences about what is wrong; the last one loses results if `complete` is false.
    pub(crate) problems: Vec<String>,
    /// Sentences about tests and failures that the file announces and does not have.
    pub(crate) lost: Vec<String>,
    /// Tests that suites of pytest announce.
    pub(crate) pytest_tests: Option<u64>,
    /// Who wrote the last test case.
    pub(crate) dialect: JunitDialect,
    /// What the file says of its origin: `file` and properties of suites.
    pub(crate) origin: BTreeSet<String>,
    /// Bytes of texts that were dropped.
    pub(crate) cut: u64,
}

/// Reads a file, and hands over each case as soon as it is complete. `program` is the suite of
/// files that do not name one.
pub(crate) fn read(
    file: impl Read,
    path: &Path,
    program: &str,
    take: &mut dyn FnMut(JunitCase),
) -> std::io::Result<JunitEnd> {
    let mut reader = Reader::from_reader(BufReader::new(XmlInput::new(file)?));
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    let mut state = JunitState::new(path, program, take);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Eof) => {
                state.finish();
                break;
            }
            Ok(event) => {
                if let Err(problem) = state.event(event) {
                    state.end.problems.push(problem);
                    break;
                }
            }
            Err(error) => {
                state
                    .end
                    .problems
                    .push(format!("the file is damaged after {} bytes: {error}", reader.buffer_position()));
                break;
            }
        }
    }
    // A damaged file has no end of a suite.
    state.release_held();
    let mut end = state.end;
    end.cut = reader.get_ref().get_ref().cut;
    Ok(end)
}

struct JunitState<'a> {
    path: &'a Path,
    program: &'a str,
    take: &'a mut dyn FnMut(JunitCase),
    depth: usize,
    file: FileNames,
    /// The open suites; the first one is the root.
    suites: Vec<OpenSuite>,
    /// The open test case, and those around it.
    cases: Vec<OpenCase>,
    /// Test cases without an element, of which the end of their suite says how they ended.
    held: Vec<OpenCase>,
    /// The child of the case that is open, and the depth at which it was opened.
    child: Option<(CaseChild, usize)>,
    has_root: bool,
    /// The depth of an open element in which nothing says how a test ended, such as `properties`.
    ignored: Option<usize>,
    /// Output of a suite itself.
    suite_output: Option<(usize, BoundedText)>,
    /// A time or an outcome was in it so far.
    has_results: bool,
    /// Failures that Node announces in its comments.
    noted_failures: u64,
    end: JunitEnd,
}

impl<'a> JunitState<'a> {
    fn new(path: &'a Path, program: &'a str, take: &'a mut dyn FnMut(JunitCase)) -> Self {
        Self {
            path,
            program,
            take,
            depth: 0,
            file: FileNames { writer: writer_of(path), ..FileNames::default() },
            suites: Vec::new(),
            cases: Vec::new(),
            held: Vec::new(),
            child: None,
            has_root: false,
            ignored: None,
            suite_output: None,
            has_results: false,
            noted_failures: 0,
            end: JunitEnd::default(),
        }
    }

    fn event(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocType(_) => Err("it has a DOCTYPE, which could pull in other files, and is refused".to_owned()),
            Event::Start(start) => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(format!("its elements are nested more than {DEEPEST} deep"));
                }
                self.start(&start)
            }
            Event::End(end) => {
                self.close(end.local_name().as_ref());
                self.depth = self.depth.saturating_sub(1);
                Ok(())
            }
            Event::Text(text) => {
                self.text(&String::from_utf8_lossy(&text));
                Ok(())
            }
            Event::CData(data) => {
                self.text(&String::from_utf8_lossy(&data));
                Ok(())
            }
            Event::GeneralRef(name) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                let whole = format!("&{name};");
                self.text(&unescaped(&whole));
                Ok(())
            }
            Event::Comment(comment) if self.depth == 1 => {
                self.comment(&String::from_utf8_lossy(&comment));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Reads `<!-- fail 1 -->` at the end of Node's files: a group whose set-up failed has no other
    /// trace.
    fn comment(&mut self, text: &str) {
        let mut words = text.split_whitespace();
        if let (Some("fail" | "cancelled"), Some(count), None) = (words.next(), words.next(), words.next()) {
            self.noted_failures = self.noted_failures.saturating_add(count.parse().unwrap_or_default());
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.local_name();
        let name = name.as_ref();
        if !self.has_root {
            self.has_root = true;
            if name != b"testsuites" && name != b"testsuite" {
                return Err(format!("its root is `{}` and no test suite", String::from_utf8_lossy(name)));
            }
        }
        // The contents of a failure or an output are text, also if they look like elements.
        if self.child.is_some() || self.suite_output.is_some() {
            return Ok(());
        }
        if self.ignored.is_some() {
            return self.property(start);
        }
        match name {
            b"testsuites" => {
                let attributes = self.attributes(start)?;
                self.note_results(&attributes);
                self.file.root = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
                match self.file.root.as_str() {
                    "Mocha Tests" => self.file.writer = Some(JunitDialect::Mocha),
                    "jest tests" => self.file.writer = Some(JunitDialect::Jest),
                    _ => {}
                }
                self.open_suite(attributes.get("name"), &attributes);
            }
            b"testsuite" => {
                let attributes = self.attributes(start)?;
                self.note_results(&attributes);
                self.file.suite = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
                if self.end.started.is_none() {
                    self.end.started = attributes.filled("timestamp");
                }
                let host = attributes.filled("hostname");
                if host.as_deref() == Some("tbd") {
                    self.file.writer = Some(JunitDialect::Catch2);
                } else if attributes.find("doctest_version").is_some() {
                    self.file.writer = Some(JunitDialect::Doctest);
                } else if self.suites.is_empty() && is_of_boost(&attributes) {
                    self.file.writer = Some(JunitDialect::Boost);
                }
                if self.end.host.is_none() {
                    self.end.host = host;
                }
                self.end.origin.extend(attributes.filled("file").map(|file| format!("file {file}")));
                self.file.suites.push(self.file.suite.clone());
                self.open_suite(self.file.suite.clone(), &attributes);
            }
            b"testcase" => {
                let attributes = self.attributes(start)?;
                self.note_results(&attributes);
                let mut names = CaseNames {
                    name: attributes.get("name"),
                    class: attributes.get("classname"),
                    file: attributes.find("file").filter(|file| !file.is_empty()).map(str::to_owned),
                    status: attributes.find("status").map(str::to_owned),
                    result: attributes.find("result").map(str::to_owned),
                    words: case_words(&attributes),
                };
                // GoogleTest lists its tests so: with their lines, and without results.
                if !self.has_results && names.file.is_some() && attributes.find("line").is_some() {
                    names.status = Some("notrun".to_owned());
                    names.words = vec!["notrun".to_owned()];
                    if names.class.is_empty() {
                        names.class.clone_from(&self.file.suite);
                    }
                }
                let started = attributes.filled("timestamp");
                let seconds = attributes.find("time").and_then(seconds);
                self.cases.push(OpenCase { started, ..OpenCase::new(names, seconds) });
            }
            b"properties" => self.ignored = Some(self.depth),
            b"system-out" | b"system-err" if self.cases.is_empty() => {
                self.suite_output = Some((self.depth, BoundedText::default()));
            }
            _ => self.begin_child(start)?,
        }
        Ok(())
    }

    fn open_suite(&mut self, name: String, attributes: &XmlAttributes) {
        let (mut suite, wrong) = OpenSuite::named(name, attributes);
        self.end.lost.extend(wrong);
        suite.is_root = self.suites.is_empty();
        self.suites.push(suite);
    }

    /// Reads a property of a suite; those of a test case say nothing about its origin.
    fn property(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if !self.cases.is_empty() {
            return Ok(());
        }
        let attributes = self.attributes(start)?;
        let name = attributes.get("name");
        if name == "go.version" {
            self.file.writer = Some(JunitDialect::Go);
        }
        self.end.origin.insert(format!("{name} = {}", attributes.get("value")));
        Ok(())
    }

    /// Notes when an element ended, and that the file has results.
    fn note_results(&mut self, attributes: &XmlAttributes) {
        let results = ["time", "timestamp", "status", "result", "failures"];
        self.has_results |= results.iter().any(|key| attributes.find(key).is_some());
        let duration = attributes.find("time").and_then(seconds);
        let ended = attributes.find("timestamp").and_then(|started| end_of(started, duration));
        self.end.finished = self.end.finished.max(ended);
    }

    fn begin_child(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.local_name();
        let child = CaseChild::named(name.as_ref());
        if self.cases.is_empty() {
            let suite = self.suites.last().map(|suite| suite.name.clone()).filter(|suite| !suite.is_empty());
            let place = suite.unwrap_or_else(|| self.program.to_owned());
            if !matches!(child, CaseChild::Failure | CaseChild::Error | CaseChild::Skipped) {
                let name = String::from_utf8_lossy(name.as_ref());
                self.end.lost.push(format!("`{place}` has an element `{name}`, which is not known"));
                self.ignored = Some(self.depth);
                return Ok(());
            }
            let names = CaseNames { name: place, ..CaseNames::default() };
            self.cases.push(OpenCase { is_of_suite: true, ..OpenCase::new(names, None) });
        }
        let attributes = self.attributes(start)?;
        let (mut kind, message) = (attributes.get("type"), attributes.get("message"));
        self.child = Some((child, self.depth));
        self.has_results |= child != CaseChild::Output;
        if let Some(suite) = self.suites.last_mut() {
            let is_bad = matches!(child, CaseChild::Failure | CaseChild::Error | CaseChild::Retry(_));
            suite.bad += u64::from(is_bad);
            suite.skip_children += u64::from(child == CaseChild::Skipped);
        }
        let Some(case) = self.cases.last_mut() else { return Ok(()) };
        case.text = BoundedText::default();
        case.may_fail |= child == CaseChild::Skipped && (kind == "todo" || message.starts_with(MAY_FAIL));
        match child {
            CaseChild::Output => {}
            CaseChild::Retry(_) => {
                // Surefire writes `flaky…` where a later try passed.
                case.was_rerun_in_vain |= matches!(name.as_ref(), b"rerunFailure" | b"rerunError");
                case.retries.push((child, kind, message));
            }
            // A warning of doctest is written as a failure, but is not one.
            CaseChild::Failure if kind == "WARN" && self.file.writer == Some(JunitDialect::Doctest) => {
                self.child = Some((CaseChild::Output, self.depth));
            }
            // The first failure counts; an error beside it is of the clean-up.
            CaseChild::Failure | CaseChild::Error | CaseChild::Skipped | CaseChild::Unknown => {
                if child == CaseChild::Unknown {
                    kind = String::from_utf8_lossy(name.as_ref()).into_owned();
                }
                let is_worse = match &case.end {
                    None | Some((CaseChild::Skipped, ..)) => true,
                    Some((end, ..)) => *end == CaseChild::Unknown && child != CaseChild::Skipped,
                };
                if is_worse {
                    case.end = Some((child, kind, message));
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if let Some((_, output)) = &mut self.suite_output {
            output.push(text);
        } else if self.child.is_some()
            && let Some(case) = self.cases.last_mut()
        {
            case.text.push(text);
        }
    }

    fn close(&mut self, name: &[u8]) {
        if let Some((child, depth)) = self.child {
            if depth == self.depth {
                self.child = None;
                if let Some(case) = self.cases.last_mut() {
                    case.end_child(child);
                }
                if let Some(case) = self.cases.pop_if(|case| case.is_of_suite) {
                    self.hand_over(&case);
                }
            }
            return;
        }
        if let Some((depth, output)) = &mut self.suite_output {
            if *depth == self.depth {
                let output = std::mem::take(output);
                self.suite_output = None;
                if let Some(suite) = self.suites.last_mut() {
                    suite.output.push(&output.filled().unwrap_or_default());
                    suite.output.push("\n");
                }
            }
            return;
        }
        if let Some(depth) = self.ignored {
            self.ignored = Some(depth).filter(|depth| *depth != self.depth);
            return;
        }
        match name {
            b"testcase" => {
                if let Some(mut case) = self.cases.pop() {
                    // Boost counts what failed as expected as a pass, and writes its failures.
                    case.may_fail |= self.file.writer == Some(JunitDialect::Boost)
                        && self.suites.first().is_some_and(OpenSuite::announces_no_failure);
                    if self.cases.is_empty() && self.has_to_wait(&case) {
                        self.held.push(case);
                    } else {
                        self.hand_over(&case);
                    }
                }
            }
            b"testsuite" => {
                self.release_held();
                self.check_output();
                self.file.suites.pop();
                self.close_suite();
            }
            b"testsuites" => self.close_suite(),
            _ => {}
        }
    }

    fn hand_over(&mut self, case: &OpenCase) {
        let dialect = JunitDialect::of(&case.names, &self.file);
        let attempts = case.attempts(dialect);
        let is_bad = attempts.last().is_some_and(|attempt| attempt.outcome.is_bad());
        if case.names.name.is_empty() && case.names.class.is_empty() && !is_bad {
            let reason = "pytest leaves such a one of a test that was interrupted";
            self.end.lost.push(format!("a test case has no name: {reason}"));
            return;
        }
        if let Some(suite) = self.suites.last_mut().filter(|_| !case.is_of_suite) {
            // GoogleTest does not count the failure of an environment, and jest no `todo`.
            let is_todo = dialect == JunitDialect::Jest && case.said_by_suite.is_some();
            suite.seen += u64::from(!case.names.name.is_empty() && !is_todo);
            suite.children += 1;
            suite.retries += case.retries.len() as u64;
            suite.dialect = Some(dialect);
            suite.note(attempts.last().map(|attempt| attempt.outcome), case.end.as_ref().map(|(child, ..)| *child));
        }
        self.end.dialect = dialect;
        let id =
            if case.is_of_suite { case.names.name.clone() } else { dialect.id(&case.names, &self.file, self.path) };
        if id.is_empty() {
            self.end.problems.push("a test case has no name".to_owned());
        }
        // A status says without a child how a case ended.
        if !case.has_bad_child()
            && is_bad
            && let Some(suite) = self.suites.last_mut()
        {
            suite.bad += 1;
        }
        (self.take)(JunitCase {
            suite: dialect.suite(&self.file, self.program),
            id,
            may_be_clean_up: dialect == JunitDialect::Pytest && matches!(case.end, Some((CaseChild::Error, ..))),
            attempts,
            dialect,
        });
    }

    /// `true` for a case without an element that may not be a pass: what a TAP program printed in
    /// its suite has the directives of its tests, and jest-junit announces fewer tests if some are
    /// `todo`.
    fn has_to_wait(&self, case: &OpenCase) -> bool {
        let is_plain = case.end.is_none() && case.retries.is_empty() && self.held.len() < MOST_HELD;
        let is_todo = self.file.writer == Some(JunitDialect::Jest) && case.seconds == Some(0.0);
        is_plain && (is_todo || tap_number(&case.names.name).is_some())
    }

    /// Hands over the cases that waited for the end of their suite.
    fn release_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        let Some(suite) = self.suites.last().filter(|_| !held.is_empty()) else { return };
        if self.file.writer == Some(JunitDialect::Jest) {
            let found = suite.seen + held.len() as u64;
            let missing = suite.announced.map_or(0, |announced| found.saturating_sub(announced));
            if missing == held.len() as u64 {
                let why = "jest does not announce it, so it is a `todo`";
                for case in &mut held {
                    case.said_by_suite = Some((TestOutcome::Skipped, why));
                }
            }
        } else if let Some(output) = suite.output.filled().filter(|output| tap::is_tap(output)) {
            let printed = tap::read(&output).tests;
            for case in &mut held {
                let at = tap_number(&case.names.name).and_then(|number| number.checked_sub(1));
                let outcome = at.and_then(|at| printed.get(at)).map(|test| test.attempt.outcome);
                let why = "the program printed so in the Test Anything Protocol";
                case.said_by_suite =
                    outcome.filter(|outcome| *outcome != TestOutcome::Passed).map(|outcome| (outcome, why));
            }
        }
        for case in &held {
            self.hand_over(case);
        }
    }

    /// Compares what a program in Meson printed with its test cases: Meson writes how it ended only
    /// there.
    fn check_output(&mut self) {
        let Some(suite) = self.suites.last() else { return };
        let Some(output) = suite.output.filled() else { return };
        let mut wrong = Vec::new();
        // Without a plan, Meson believes the tests.
        if tap::has_plan(&output) {
            wrong.extend(tap::read(&output).lost);
        }
        let code =
            output.rsplit_once("(test program exited with status code ").map(|(_, rest)| rest.trim_end_matches(')'));
        wrong.extend(code.filter(|code| *code != "0").map(|code| format!("exited with code {code}")));
        if suite.bad > 0 || wrong.is_empty() {
            return;
        }
        let names = CaseNames { name: suite.name.clone(), ..CaseNames::default() };
        let end = Some((CaseChild::Error, String::new(), wrong.join(", ")));
        self.hand_over(&OpenCase { is_of_suite: true, end, ..OpenCase::new(names, None) });
    }

    fn close_suite(&mut self) {
        let Some(mut suite) = self.suites.pop() else { return };
        if suite.dialect == Some(JunitDialect::Pytest) && suite.announced.is_some() {
            *self.end.pytest_tests.get_or_insert_default() += suite.announced.unwrap_or_default();
        }
        if let Some(outer) = self.suites.last_mut() {
            // Suites around others announce their tests as well.
            outer.add(&suite);
        } else {
            suite.is_root = true;
            self.end.lost.extend(suite.lost_failures(self.noted_failures));
            self.add_skips_of_mocha(&mut suite);
        }
        self.end.lost.extend(suite.disagreements());
    }

    /// mocha-junit-reporter writes the number of pending tests, and no test cases of them.
    fn add_skips_of_mocha(&mut self, suite: &mut OpenSuite) {
        if self.file.writer != Some(JunitDialect::Mocha) {
            return;
        }
        let missing = suite.announced_skips.unwrap_or_default().saturating_sub(suite.skip_children);
        suite.dialect = Some(JunitDialect::Mocha);
        suite.missing_skips = missing.min(MOST_PENDING);
        for number in 1..=suite.missing_skips {
            let names = CaseNames { name: format!("pending test {number} without a name"), ..CaseNames::default() };
            let end = Some((CaseChild::Skipped, String::new(), String::new()));
            self.hand_over(&OpenCase { is_of_suite: true, end, ..OpenCase::new(names, None) });
        }
    }

    fn finish(&mut self) {
        if !self.has_root {
            self.end.problems.push("the file is empty".to_owned());
        } else if self.depth > 0 {
            self.end.problems.push("the file ends in the middle".to_owned());
        } else {
            self.end.complete = true;
        }
    }

    fn attributes(&mut self, start: &BytesStart<'_>) -> Result<XmlAttributes, String> {
        let attributes = XmlAttributes::read(start)?;
        for name in &attributes.repeated {
            self.end.problems.push(format!("an element has `{name}` twice; the first counts"));
        }
        Ok(attributes)
    }
}

/// Boost writes one suite, with a number and without a time.
fn is_of_boost(suite: &XmlAttributes) -> bool {
    let has = ["id", "skipped"].iter().all(|key| suite.find(key).is_some());
    has && ["timestamp", "hostname"].iter().all(|key| suite.find(key).is_none())
}

/// The number of a test of the Test Anything Protocol: `2 - name`.
fn tap_number(name: &str) -> Option<usize> {
    let (number, rest) = name.split_at(name.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(name.len()));
    number.parse().ok().filter(|_| rest.is_empty() || rest.starts_with(' '))
}
