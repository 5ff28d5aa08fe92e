//! Input: junit XML of any dialect. Output: its test cases, one after the other.
//!
//! The dialects are those of quick-junit (nextest), surefire, pytest (xunit1 and xunit2, with
//! PyTorch's `<rerun>`), gtest, ctest and absl; testmoapp/junitxml describes them. Children are
//! trusted, and counts that disagree with them are reported. A file that announces more failures
//! or tests than it has was written without them: results are lost.

use std::io::{BufReader, Read};
use std::path::Path;

use jiff::Timestamp;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use rocwheel_report::counted;

use super::junit_case::{BoundedText, CaseChild, JunitCase, OpenCase};
use super::junit_dialect::{CaseNames, FileNames, JunitDialect, seconds};
use super::time::end_of;
use super::xml_input::XmlInput;

/// Elements inside each other.
const DEEPEST: usize = 1000;

/// What a file is as a whole.
#[derive(Debug, Default)]
pub(super) struct JunitEnd {
    /// `false` if the root is another element: the file is no report.
    pub(super) is_junit: bool,
    /// The file ends where it should.
    pub(super) complete: bool,
    /// Time stamp of the first suite.
    pub(super) started: Option<String>,
    /// The latest end of a suite or a test, as far as they have times.
    pub(super) finished: Option<Timestamp>,
    /// The machine that the first suite names.
    pub(super) host: Option<String>,
    /// Sentences about what is wrong; the last one loses results if `complete` is false.
    pub(super) problems: Vec<String>,
    /// Sentences about tests and failures that the file announces and does not have.
    pub(super) lost: Vec<String>,
    /// Tests that suites of pytest announce.
    pub(super) pytest_tests: u64,
    /// Bytes of texts that were dropped.
    pub(super) cut: u64,
}

/// A suite or the root, what it announces and what is in it.
#[derive(Debug, Default)]
struct OpenSuite {
    name: String,
    is_root: bool,
    announced: Option<u64>,
    /// Failures and errors together: dialects disagree about which is which.
    announced_bad: u64,
    seen: u64,
    /// Cases and suites directly in it, which Node announces.
    children: u64,
    /// Tries of its cases beside those that count.
    retries: u64,
    /// Failures, errors and tries that failed; surefire counts each of them.
    bad: u64,
    /// Suites in it with a failure, which Node counts as failures.
    bad_suites: u64,
}

impl OpenSuite {
    fn named(name: String, attributes: &XmlAttributes) -> OpenSuite {
        let number = |key: &str| attributes.find(key).and_then(|text| text.trim().parse::<u64>().ok());
        let bad = |key: &str| number(key).unwrap_or_default();
        OpenSuite {
            name,
            announced: number("tests"),
            announced_bad: bad("failures").saturating_add(bad("errors")),
            ..OpenSuite::default()
        }
    }

    /// The suite in messages.
    fn words(&self) -> String {
        if self.is_root { "the file".to_owned() } else { format!("the suite `{}`", self.name) }
    }

    fn lost_failures(&self, announced: u64) -> Option<String> {
        (announced > self.bad + self.bad_suites)
            .then(|| format!("{} announces {} and has {}", self.words(), counted(announced, "failure"), self.bad))
    }
}

/// Reads a file, and hands over each case as soon as it is complete. `program` is the suite of
/// files that do not name one.
pub(super) fn read(
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
    /// The child of the case that is open, and the depth at which it was opened.
    child: Option<(CaseChild, usize)>,
    has_root: bool,
    /// Its `tests` are no test cases: pytest counts subtests, and Catch2 assertions.
    counts_parts: bool,
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
            file: FileNames::default(),
            suites: Vec::new(),
            cases: Vec::new(),
            child: None,
            has_root: false,
            counts_parts: false,
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
            self.end.is_junit = true;
        }
        // What is in a failure or an output is a text, whatever it looks like.
        if self.child.is_some() {
            return Ok(());
        }
        match name {
            b"testsuites" => {
                let attributes = self.attributes(start)?;
                self.note_results(&attributes);
                self.file.root = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
                let is_root = self.suites.is_empty();
                self.suites.push(OpenSuite { is_root, ..OpenSuite::named(attributes.get("name"), &attributes) });
            }
            b"testsuite" => {
                let attributes = self.attributes(start)?;
                self.note_results(&attributes);
                self.file.suite = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
                let filled = |key: &str| attributes.find(key).filter(|text| !text.is_empty()).map(str::to_owned);
                if self.end.started.is_none() {
                    self.end.started = filled("timestamp");
                }
                let host = filled("hostname");
                self.counts_parts |= host.as_deref() == Some("tbd");
                if self.end.host.is_none() {
                    self.end.host = host;
                }
                self.file.suites.push(self.file.suite.clone());
                self.suites.push(OpenSuite::named(self.file.suite.clone(), &attributes));
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
                };
                // GoogleTest lists its tests so: with their lines, and without results.
                if !self.has_results && names.file.is_some() && attributes.find("line").is_some() {
                    names.status = Some("notrun".to_owned());
                    if names.class.is_empty() {
                        names.class.clone_from(&self.file.suite);
                    }
                }
                self.cases.push(OpenCase::new(names, attributes.find("time").and_then(seconds)));
            }
            _ => self.begin_child(start)?,
        }
        Ok(())
    }

    /// Notes when an element ended, and that the file has results.
    fn note_results(&mut self, attributes: &XmlAttributes) {
        let is_result = |key: &&str| attributes.find(key).is_some();
        self.has_results |= ["time", "timestamp", "status", "result", "failures"].iter().any(is_result);
        let duration = attributes.find("time").and_then(seconds);
        let ended = attributes.find("timestamp").and_then(|started| end_of(started, duration));
        self.end.finished = self.end.finished.max(ended);
    }

    fn begin_child(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let name = start.local_name();
        let Some(child) = CaseChild::named(name.as_ref()) else { return Ok(()) };
        if self.cases.is_empty() {
            if !matches!(child, CaseChild::Failure | CaseChild::Error) {
                return Ok(());
            }
            let suite = self.suites.last().map(|suite| suite.name.clone()).filter(|suite| !suite.is_empty());
            let names = CaseNames { name: suite.unwrap_or_else(|| self.program.to_owned()), ..CaseNames::default() };
            self.cases.push(OpenCase { is_of_suite: true, ..OpenCase::new(names, None) });
        }
        let attributes = self.attributes(start)?;
        let (kind, message) = (attributes.get("type"), attributes.get("message"));
        self.child = Some((child, self.depth));
        self.has_results |= child != CaseChild::Output;
        if matches!(child, CaseChild::Failure | CaseChild::Error | CaseChild::Retry(_))
            && let Some(suite) = self.suites.last_mut()
        {
            suite.bad += 1;
        }
        let Some(case) = self.cases.last_mut() else { return Ok(()) };
        case.text = BoundedText::default();
        case.is_todo |= child == CaseChild::Skipped && kind == "todo";
        match child {
            CaseChild::Output => {}
            CaseChild::Retry(_) => {
                // Surefire writes `flaky…` where a later try passed.
                case.was_rerun_in_vain |= matches!(name.as_ref(), b"rerunFailure" | b"rerunError");
                case.retries.push((child, kind, message));
            }
            // The first failure counts; an error beside it is of the clean-up.
            CaseChild::Failure | CaseChild::Error | CaseChild::Skipped => {
                let is_worse = matches!(&case.end, None | Some((CaseChild::Skipped, ..)));
                if is_worse {
                    case.end = Some((child, kind, message));
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if self.child.is_some()
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
        match name {
            b"testcase" => {
                if let Some(case) = self.cases.pop() {
                    self.hand_over(&case);
                }
            }
            b"testsuite" => {
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
            suite.seen += 1;
            suite.children += 1;
            suite.retries += case.retries.len() as u64;
            self.counts_parts |= dialect == JunitDialect::Pytest
                || (dialect == JunitDialect::Other && case.names.status.as_deref() == Some("run"));
        }
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
        });
    }

    fn close_suite(&mut self) {
        let Some(mut suite) = self.suites.pop() else { return };
        let is_outermost = self.suites.is_empty();
        if suite.name == "pytest" {
            self.end.pytest_tests = self.end.pytest_tests.saturating_add(suite.announced.unwrap_or_default());
        }
        // Suites around others announce their tests as well.
        if let Some(outer) = self.suites.last_mut() {
            outer.seen += suite.seen;
            outer.children += 1;
            outer.retries += suite.retries;
            outer.bad += suite.bad;
            outer.bad_suites += suite.bad_suites + u64::from(suite.bad > 0);
        }
        let announced_bad = suite.announced_bad;
        self.end.lost.extend(suite.lost_failures(announced_bad));
        if is_outermost && suite.lost_failures(announced_bad).is_none() {
            suite.is_root = true;
            self.end.lost.extend(suite.lost_failures(self.noted_failures));
        }
        // Surefire announces every try as a test.
        let right = [suite.seen, suite.seen + suite.retries, suite.children];
        if let Some(announced) = suite.announced.filter(|announced| !right.contains(announced)) {
            let problem = format!("{} announces {} and has {}", suite.words(), counted(announced, "test"), suite.seen);
            let is_more = right.iter().all(|count| announced > *count);
            if is_more && !self.counts_parts { &mut self.end.lost } else { &mut self.end.problems }.push(problem);
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
        let mut found: Vec<(String, String)> = Vec::new();
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| format!("an element is damaged: {error}"))?;
            let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            let value = String::from_utf8_lossy(&attribute.value).into_owned();
            if found.iter().any(|(known, _)| *known == name) {
                self.end.problems.push(format!("an element has `{name}` twice; the first counts"));
                continue;
            }
            found.push((name, unescaped(&value)));
        }
        Ok(XmlAttributes(found))
    }
}

struct XmlAttributes(Vec<(String, String)>);

impl XmlAttributes {
    fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn get(&self, name: &str) -> String {
        self.find(name).unwrap_or_default().to_owned()
    }
}

/// A text without references to characters; other entities stay as they were written.
fn unescaped(text: &str) -> String {
    if let Ok(plain) = quick_xml::escape::unescape(text) {
        return plain.into_owned();
    }
    // One unknown entity does not make the others unreadable.
    text.split_inclusive(';')
        .map(|part| quick_xml::escape::unescape(part).map_or_else(|_| part.to_owned(), std::borrow::Cow::into_owned))
        .collect()
}
