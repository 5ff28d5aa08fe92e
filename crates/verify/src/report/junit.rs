//! Input: junit XML of any dialect. Output: its test cases, one after the other.
//!
//! The dialects are those of quick-junit (nextest), surefire, pytest (xunit1 and xunit2, with
//! PyTorch's `<rerun>`), gtest, ctest and absl; testmoapp/junitxml describes them. Children are
//! trusted, and counts that disagree with them are reported.

use std::io::{BufReader, Read};
use std::path::Path;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::junit_dialect::{CaseNames, FileNames, JunitDialect, seconds};
use super::xml_input::{LONGEST, XmlInput};
use crate::outcome::TestOutcome;

/// Elements inside each other.
const DEEPEST: usize = 1000;

/// A try at a test.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CaseAttempt {
    pub(super) outcome: TestOutcome,
    pub(super) seconds: Option<f64>,
    pub(super) message: Option<String>,
    pub(super) output: Option<String>,
}

/// A test case of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JunitCase {
    pub(super) suite: String,
    pub(super) id: String,
    /// The tries that the file has; the last one counts.
    pub(super) attempts: Vec<CaseAttempt>,
    /// pytest writes a failed clean-up as a second case of the same name.
    pub(super) may_be_clean_up: bool,
}

/// What a file is as a whole.
#[derive(Debug, Default)]
pub(super) struct JunitEnd {
    /// `false` if the root is another element: the file is no report.
    pub(super) is_junit: bool,
    /// The file ends where it should.
    pub(super) complete: bool,
    /// Time stamp of the first suite.
    pub(super) started: Option<String>,
    /// Sentences about what is wrong; each loses results if `complete` is false.
    pub(super) problems: Vec<String>,
    /// Bytes of texts that were dropped.
    pub(super) cut: u64,
}

/// Elements that tell how a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseChild {
    Failure,
    Error,
    Skipped,
    /// An earlier or later try that failed (`true`: an error).
    Retry(bool),
    Output,
}

impl CaseChild {
    fn named(name: &[u8]) -> Option<CaseChild> {
        Some(match name {
            b"failure" => CaseChild::Failure,
            b"error" => CaseChild::Error,
            b"skipped" => CaseChild::Skipped,
            b"rerun" | b"flakyFailure" | b"rerunFailure" => CaseChild::Retry(false),
            b"flakyError" | b"rerunError" => CaseChild::Retry(true),
            b"system-out" | b"system-err" => CaseChild::Output,
            _ => return None,
        })
    }
}

/// A text that stops growing at its limit.
#[derive(Debug, Default, Clone)]
struct BoundedText(String);

impl BoundedText {
    fn push(&mut self, text: &str) {
        if self.0.len() < LONGEST {
            let room = LONGEST - self.0.len();
            let end = text.floor_char_boundary(text.len().min(room));
            self.0.push_str(&text[..end]);
        }
    }

    fn filled(&self) -> Option<String> {
        let text = self.0.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

#[derive(Debug)]
struct OpenCase {
    names: CaseNames,
    seconds: Option<f64>,
    /// Failure, error or skip of the try that counts.
    end: Option<(CaseChild, String, String)>,
    retries: Vec<(CaseChild, String, String)>,
    /// Node's `todo`: whether it fails does not matter yet.
    is_todo: bool,
    /// At last it passed: the retries come before.
    printed: BoundedText,
    text: BoundedText,
}

#[derive(Debug, Default)]
struct OpenSuite {
    name: String,
    announced: Option<u64>,
    seen: u64,
    /// Cases and suites directly in it, which Node announces.
    children: u64,
    /// Tries of its cases beside those that count.
    retries: u64,
}

/// Reads a file, and hands over each case as soon as it is complete.
pub(super) fn read(file: impl Read, path: &Path, take: &mut dyn FnMut(JunitCase)) -> std::io::Result<JunitEnd> {
    let mut reader = Reader::from_reader(BufReader::new(XmlInput::new(file)?));
    let config = reader.config_mut();
    config.expand_empty_elements = true;
    config.allow_dangling_amp = true;
    let mut state = JunitState::new(path, take);
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
    take: &'a mut dyn FnMut(JunitCase),
    depth: usize,
    file: FileNames,
    suites: Vec<OpenSuite>,
    case: Option<OpenCase>,
    /// The child of the case that is open, and the depth at which it was opened.
    child: Option<(CaseChild, usize)>,
    has_root: bool,
    end: JunitEnd,
}

impl<'a> JunitState<'a> {
    fn new(path: &'a Path, take: &'a mut dyn FnMut(JunitCase)) -> Self {
        Self {
            path,
            take,
            depth: 0,
            file: FileNames::default(),
            suites: Vec::new(),
            case: None,
            child: None,
            has_root: false,
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
            _ => Ok(()),
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
        match name {
            b"testsuites" => {
                let attributes = self.attributes(start)?;
                self.file.root = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
            }
            b"testsuite" => {
                let attributes = self.attributes(start)?;
                self.file.suite = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
                if self.end.started.is_none() {
                    self.end.started = attributes.find("timestamp").filter(|text| !text.is_empty()).map(str::to_owned);
                }
                self.file.suites.push(self.file.suite.clone());
                self.suites.push(OpenSuite {
                    name: self.file.suite.clone(),
                    announced: attributes.find("tests").and_then(|text| text.trim().parse().ok()),
                    ..OpenSuite::default()
                });
            }
            b"testcase" if self.case.is_none() => {
                let attributes = self.attributes(start)?;
                self.case = Some(OpenCase {
                    names: CaseNames {
                        name: attributes.get("name"),
                        class: attributes.get("classname"),
                        file: attributes.find("file").filter(|file| !file.is_empty()).map(str::to_owned),
                        status: attributes.find("status").map(str::to_owned),
                        result: attributes.find("result").map(str::to_owned),
                    },
                    seconds: attributes.find("time").and_then(seconds),
                    end: None,
                    retries: Vec::new(),
                    is_todo: false,
                    printed: BoundedText::default(),
                    text: BoundedText::default(),
                });
            }
            _ => self.begin_child(start)?,
        }
        Ok(())
    }

    fn begin_child(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if self.case.is_none() || self.child.is_some() {
            return Ok(());
        }
        let Some(child) = CaseChild::named(start.local_name().as_ref()) else { return Ok(()) };
        let attributes = self.attributes(start)?;
        let (kind, message) = (attributes.get("type"), attributes.get("message"));
        self.child = Some((child, self.depth));
        let Some(case) = &mut self.case else { return Ok(()) };
        case.text = BoundedText::default();
        case.is_todo |= child == CaseChild::Skipped && kind == "todo";
        match child {
            CaseChild::Output => {}
            CaseChild::Retry(_) => case.retries.push((child, kind, message)),
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
            && let Some(case) = &mut self.case
        {
            case.text.push(text);
        }
    }

    fn close(&mut self, name: &[u8]) {
        if let Some((child, depth)) = self.child {
            if depth == self.depth {
                self.child = None;
                if let Some(case) = &mut self.case {
                    case.end_child(child);
                }
            }
            return;
        }
        match name {
            b"testcase" => {
                if let Some(case) = self.case.take() {
                    self.hand_over(case);
                }
            }
            b"testsuite" => self.close_suite(),
            _ => {}
        }
    }

    fn hand_over(&mut self, case: OpenCase) {
        if let Some(suite) = self.suites.last_mut() {
            suite.seen += 1;
            suite.children += 1;
            suite.retries += case.retries.len() as u64;
        }
        let dialect = JunitDialect::of(&case.names, &self.file);
        let id = dialect.id(&case.names, &self.file, self.path);
        if id.is_empty() {
            self.end.problems.push("a test case has no name".to_owned());
        }
        (self.take)(JunitCase {
            suite: dialect.suite(&self.file, self.path),
            id,
            may_be_clean_up: dialect == JunitDialect::Pytest && matches!(case.end, Some((CaseChild::Error, ..))),
            attempts: case.attempts(dialect),
        });
    }

    fn close_suite(&mut self) {
        let Some(suite) = self.suites.pop() else { return };
        self.file.suites.pop();
        // Suites around others announce their tests as well.
        if let Some(outer) = self.suites.last_mut() {
            outer.seen += suite.seen;
            outer.children += 1;
            outer.retries += suite.retries;
        }
        // Surefire announces every try as a test.
        let is_right = |announced: &u64| [suite.seen, suite.seen + suite.retries, suite.children].contains(announced);
        if let Some(announced) = suite.announced.filter(|announced| !is_right(announced)) {
            let name = suite.name;
            self.end.problems.push(format!("the suite `{name}` announces {announced} tests and has {}", suite.seen));
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

impl OpenCase {
    fn end_child(&mut self, child: CaseChild) {
        let text = std::mem::take(&mut self.text);
        match child {
            CaseChild::Output => {
                self.printed.push(&text.0);
                self.printed.push("\n");
            }
            CaseChild::Retry(_) => {
                if let Some((.., message)) = self.retries.last_mut() {
                    join(message, &text);
                }
            }
            _ => {
                if let Some((kind, _, message)) = &mut self.end
                    && *kind == child
                {
                    join(message, &text);
                }
            }
        }
    }

    /// All tries, the last one last.
    fn attempts(self, dialect: JunitDialect) -> Vec<CaseAttempt> {
        let printed = self.printed.filled();
        let last = match &self.end {
            Some((child, kind, text)) => {
                let (message, trace) = divided(text);
                let outcome = self.outcome(*child, kind, &message, dialect);
                let output = [trace, printed].into_iter().flatten().collect::<Vec<_>>().join("\n");
                CaseAttempt {
                    outcome,
                    seconds: self.seconds,
                    message: Some(message).filter(|message| !message.is_empty()),
                    output: Some(output).filter(|output| !output.is_empty()),
                }
            }
            None => CaseAttempt {
                outcome: self.plain_outcome(dialect),
                seconds: self.seconds,
                message: None,
                output: printed,
            },
        };
        let retries = self.retries.iter().map(|(child, kind, text)| {
            let (message, trace) = divided(text);
            let is_error = *child == CaseChild::Retry(true);
            let outcome = if is_error { TestOutcome::Error } else { named_cause(kind, &message, TestOutcome::Failed) };
            CaseAttempt { outcome, seconds: None, message: Some(message), output: trace }
        });
        retries.chain([last]).collect()
    }

    fn outcome(&self, child: CaseChild, kind: &str, message: &str, dialect: JunitDialect) -> TestOutcome {
        match child {
            CaseChild::Failure if self.is_todo => TestOutcome::ExpectedFailure,
            CaseChild::Error => named_cause(kind, message, TestOutcome::Error),
            CaseChild::Skipped if kind == "pytest.xfail" => TestOutcome::ExpectedFailure,
            // ctest could not start the program: a skip has the word in its message.
            CaseChild::Skipped
                if dialect == JunitDialect::Ctest
                    && self.names.status.as_deref() == Some("notrun")
                    && !message.to_ascii_uppercase().starts_with("SKIP") =>
            {
                TestOutcome::NotRun
            }
            CaseChild::Skipped => TestOutcome::Skipped,
            _ => named_cause(kind, message, TestOutcome::Failed),
        }
    }

    /// The outcome of a case without children.
    fn plain_outcome(&self, dialect: JunitDialect) -> TestOutcome {
        let (status, result) = (self.names.status.as_deref(), self.names.result.as_deref());
        match (dialect, status, result) {
            (JunitDialect::Gtest, _, Some("skipped" | "suppressed")) | (JunitDialect::Ctest, Some("disabled"), _) => {
                TestOutcome::Skipped
            }
            (JunitDialect::Gtest | JunitDialect::Ctest, Some("notrun"), _) => TestOutcome::NotRun,
            (JunitDialect::Ctest, Some("fail"), _) => TestOutcome::Failed,
            _ => TestOutcome::Passed,
        }
    }
}

/// The first part of a text is the attribute `message`.
const BETWEEN: char = '\u{1}';

fn join(message: &mut String, text: &BoundedText) {
    if let Some(text) = text.filled() {
        message.push(BETWEEN);
        message.push_str(&text);
    }
}

/// Messages that say nothing: none at all, and those of behave and nose2.
const SAYING_NOTHING: [&str; 3] = ["", "None", "test failure"];

/// The message and the traceback of a failure.
fn divided(text: &str) -> (String, Option<String>) {
    match text.split_once(BETWEEN) {
        Some((message, trace)) if SAYING_NOTHING.contains(&message) => {
            let first = || trace.lines().find(|line| !line.trim().is_empty());
            let found = exception_in(trace).or_else(first).unwrap_or(message);
            (found.to_owned(), Some(trace.to_owned()))
        }
        Some((message, trace)) => (message.to_owned(), Some(trace.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// The line of Python's last traceback that names the exception.
fn exception_in(trace: &str) -> Option<&str> {
    let (_, rest) = trace.rsplit_once("Traceback (most recent call last):")?;
    rest.lines().find(|line| !line.trim().is_empty() && !line.starts_with([' ', '\t']))
}

/// A crash or a time limit, which most dialects write as a failure.
fn named_cause(kind: &str, message: &str, other: TestOutcome) -> TestOutcome {
    let message = message.to_ascii_lowercase();
    let kind = kind.to_ascii_lowercase();
    if kind.contains("timeout") || message.starts_with("timeout") || message.starts_with("failed: timeout ") {
        TestOutcome::TimedOut
    } else if message.contains("crashed while running")
        || matches!(message.as_str(), "segfault" | "segmentation fault" | "child aborted" | "subprocess aborted")
        || kind.contains("test abort")
        || message.contains("aborted with signal")
    {
        TestOutcome::Crashed
    } else {
        other
    }
}
