//! Input: junit XML of any dialect. Output: its test cases, one after the other.
//!
//! The dialects are those of quick-junit (nextest), surefire, pytest (xunit1 and xunit2, with
//! PyTorch's `<rerun>`), gtest, ctest and absl; testmoapp/junitxml describes them. Children are
//! trusted, and counts that disagree with them are reported. A file that announces more failures
//! or tests than it has was written without them: results are lost.

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
    /// The machine that the first suite names.
    pub(super) host: Option<String>,
    /// Sentences about what is wrong; the last one loses results if `complete` is false.
    pub(super) problems: Vec<String>,
    /// Sentences about tests and failures that the file announces and does not have.
    pub(super) lost: Vec<String>,
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
    /// The failure of a suite itself, which is in no test case.
    is_of_suite: bool,
}

impl OpenCase {
    fn new(names: CaseNames, seconds: Option<f64>) -> OpenCase {
        OpenCase {
            names,
            seconds,
            end: None,
            retries: Vec::new(),
            is_todo: false,
            printed: BoundedText::default(),
            text: BoundedText::default(),
            is_of_suite: false,
        }
    }
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
            .then(|| format!("{} announces {announced} failures and has {}", self.words(), self.bad))
    }
}

/// Reads a file, and hands over each case as soon as it is complete. `program` is the suite of files
/// that do not name one.
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
                self.file.root = attributes.get("name");
                self.file.has_uuid |= attributes.find("uuid").is_some();
                let is_root = self.suites.is_empty();
                self.suites.push(OpenSuite { is_root, ..OpenSuite::named(attributes.get("name"), &attributes) });
            }
            b"testsuite" => {
                let attributes = self.attributes(start)?;
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
                let names = CaseNames {
                    name: attributes.get("name"),
                    class: attributes.get("classname"),
                    file: attributes.find("file").filter(|file| !file.is_empty()).map(str::to_owned),
                    status: attributes.find("status").map(str::to_owned),
                    result: attributes.find("result").map(str::to_owned),
                };
                self.cases.push(OpenCase::new(names, attributes.find("time").and_then(seconds)));
            }
            _ => self.begin_child(start)?,
        }
        Ok(())
    }

    fn begin_child(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        let Some(child) = CaseChild::named(start.local_name().as_ref()) else { return Ok(()) };
        if self.cases.is_empty() {
            if !matches!(child, CaseChild::Failure | CaseChild::Error) {
                return Ok(());
            }
            let name = self.suites.last().map(|suite| suite.name.clone()).filter(|name| !name.is_empty());
            let names = CaseNames { name: name.unwrap_or_else(|| self.program.to_owned()), ..CaseNames::default() };
            self.cases.push(OpenCase { is_of_suite: true, ..OpenCase::new(names, None) });
        }
        let attributes = self.attributes(start)?;
        let (kind, message) = (attributes.get("type"), attributes.get("message"));
        self.child = Some((child, self.depth));
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
                    self.hand_over(case);
                }
            }
            return;
        }
        match name {
            b"testcase" => {
                if let Some(case) = self.cases.pop() {
                    self.hand_over(case);
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

    fn hand_over(&mut self, case: OpenCase) {
        let dialect = JunitDialect::of(&case.names, &self.file);
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
        let attempts = case.attempts(dialect);
        // A status says without a child how a case ended.
        if !case.has_bad_child()
            && attempts.last().is_some_and(|attempt| attempt.outcome.is_bad())
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
            let problem = format!("{} announces {announced} tests and has {}", suite.words(), suite.seen);
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

    /// `true` if a child of the case is a failure, so that it is counted already.
    fn has_bad_child(&self) -> bool {
        !self.retries.is_empty() || matches!(self.end, Some((CaseChild::Failure | CaseChild::Error, ..)))
    }

    /// All tries, the last one last.
    fn attempts(&self, dialect: JunitDialect) -> Vec<CaseAttempt> {
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
            None => {
                CaseAttempt { outcome: self.plain_outcome(), seconds: self.seconds, message: None, output: printed }
            }
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

    /// The outcome of a case without children: what its attributes say.
    fn plain_outcome(&self) -> TestOutcome {
        let is_disabled = || {
            [&self.names.name, &self.names.class]
                .into_iter()
                .any(|name| name.split('/').any(|part| part.starts_with("DISABLED_")))
        };
        let words = [&self.names.result, &self.names.status];
        let said = words.into_iter().flatten().find_map(|word| said_outcome(word));
        match said {
            // GoogleTest 1.8 says no more of a test that is switched off.
            Some(TestOutcome::NotRun) if is_disabled() => TestOutcome::Skipped,
            Some(outcome) => outcome,
            None => TestOutcome::Passed,
        }
    }
}

/// The outcome that a `status` or `result` says; `None` for a pass, and for words that say nothing
/// (`run`, `completed`).
fn said_outcome(word: &str) -> Option<TestOutcome> {
    let word: String = word.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase();
    Some(match word.as_str() {
        "fail" | "failed" | "failure" => TestOutcome::Failed,
        "error" | "errored" | "broken" => TestOutcome::Error,
        "timeout" | "timedout" => TestOutcome::TimedOut,
        "crash" | "crashed" | "aborted" => TestOutcome::Crashed,
        "skip" | "skipped" | "suppressed" | "disabled" | "ignored" | "pending" => TestOutcome::Skipped,
        "notrun" | "cancelled" | "canceled" | "interrupted" | "incomplete" | "untested" | "undefined" => {
            TestOutcome::NotRun
        }
        _ => return None,
    })
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
