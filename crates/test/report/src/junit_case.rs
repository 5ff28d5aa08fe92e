//! Input: the elements of a test case of junit XML, one after the other. Output: its tries, with
//! their outcomes and messages.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};

use crate::junit_dialect::{CaseNames, JunitDialect};
use crate::outcome::TestOutcome;
use crate::time::is_epoch;
use crate::vocabulary::{NEVER_BEGAN, case_word_outcome, unknown_word};
use crate::xml_input::LONGEST;

/// A try at a test.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CaseAttempt {
    pub(crate) outcome: TestOutcome,
    pub(crate) seconds: Option<f64>,
    pub(crate) message: Option<String>,
    pub(crate) output: Option<String>,
}

/// A test case of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct JunitCase {
    pub(crate) suite: String,
    pub(crate) id: String,
    /// The tries that the file has; the last one counts.
    pub(crate) attempts: Vec<CaseAttempt>,
    /// pytest writes a failed clean-up as a second case of the same name.
    pub(crate) may_be_clean_up: bool,
    pub(crate) dialect: JunitDialect,
}

/// Elements that tell how a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseChild {
    Failure,
    Error,
    Skipped,
    /// An earlier or later try that failed (`true`: an error).
    Retry(bool),
    Output,
    /// An unknown element: the test may have passed or not.
    Unknown,
}

impl CaseChild {
    pub(crate) fn named(name: &[u8]) -> CaseChild {
        match name {
            b"failure" => CaseChild::Failure,
            b"error" => CaseChild::Error,
            // TestNG writes `ignored`.
            b"skipped" | b"ignored" | b"disabled" => CaseChild::Skipped,
            b"rerun" | b"flakyFailure" | b"rerunFailure" => CaseChild::Retry(false),
            b"flakyError" | b"rerunError" => CaseChild::Retry(true),
            b"system-out" | b"system-err" => CaseChild::Output,
            _ => CaseChild::Unknown,
        }
    }
}

/// A text that stops growing at its limit.
#[derive(Debug, Default, Clone)]
pub(crate) struct BoundedText(String);

impl BoundedText {
    pub(crate) fn push(&mut self, text: &str) {
        if self.0.len() < LONGEST {
            let room = LONGEST - self.0.len();
            let end = text.floor_char_boundary(text.len().min(room));
            self.0.push_str(&text[..end]);
        }
    }

    pub(crate) fn filled(&self) -> Option<String> {
        let text = self.0.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// A test case that has not ended.
#[derive(Debug)]
pub(crate) struct OpenCase {
    pub(crate) names: CaseNames,
    pub(crate) seconds: Option<f64>,
    /// Failure, error or skip of the try that counts.
    pub(crate) end: Option<(CaseChild, String, String)>,
    pub(crate) retries: Vec<(CaseChild, String, String)>,
    /// The retries are those of a test that failed at last, whatever else its case has.
    pub(crate) was_rerun_in_vain: bool,
    /// The file says that a failure does not matter: Node's `todo`, Catch2's `!mayfail`.
    pub(crate) may_fail: bool,
    /// The time at which it began, as it is written.
    pub(crate) started: Option<String>,
    pub(crate) printed: BoundedText,
    pub(crate) text: BoundedText,
    /// The failure of a suite itself, which is in no test case.
    pub(crate) is_of_suite: bool,
    /// How it ended, where only the suite says it, and why that is known.
    pub(crate) said_by_suite: Option<(TestOutcome, &'static str)>,
}

impl OpenCase {
    pub(crate) fn new(names: CaseNames, seconds: Option<f64>) -> OpenCase {
        OpenCase {
            names,
            seconds,
            end: None,
            retries: Vec::new(),
            was_rerun_in_vain: false,
            may_fail: false,
            started: None,
            printed: BoundedText::default(),
            text: BoundedText::default(),
            is_of_suite: false,
            said_by_suite: None,
        }
    }

    pub(crate) fn end_child(&mut self, child: CaseChild) {
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
    pub(crate) fn has_bad_child(&self) -> bool {
        !self.retries.is_empty() || matches!(self.end, Some((CaseChild::Failure | CaseChild::Error, ..)))
    }

    /// All tries, the last one last.
    pub(crate) fn attempts(&self, dialect: JunitDialect) -> Vec<CaseAttempt> {
        let printed = self.printed.filled();
        let last = match &self.end {
            Some((child, kind, text)) => {
                let (mut message, trace) = divided(text);
                let outcome = self.outcome(*child, kind, &message, dialect);
                if outcome == TestOutcome::Unknown && dialect != JunitDialect::Own {
                    message = self.why_unknown(*child, kind, &message);
                }
                let output = [trace, printed].into_iter().flatten().collect::<Vec<_>>().join("\n");
                CaseAttempt {
                    outcome,
                    seconds: self.seconds,
                    message: Some(message).filter(|message| !message.is_empty()),
                    output: Some(output).filter(|output| !output.is_empty()),
                }
            }
            None if let Some((outcome, why)) = self.said_by_suite => {
                CaseAttempt { outcome, seconds: self.seconds, message: Some(why.to_owned()), output: printed }
            }
            None => {
                let outcome = self.plain_outcome();
                let unknown = self.words().find(|word| case_word_outcome(word) == TestOutcome::Unknown);
                let message = unknown.filter(|_| outcome == TestOutcome::Unknown).map(unknown_word);
                CaseAttempt { outcome, seconds: self.seconds, message, output: printed }
            }
        };
        let retries = self.retries.iter().map(|(child, kind, text)| {
            let (message, trace) = divided(text);
            let outcome = match own_outcome(kind, dialect) {
                Some(outcome) => outcome,
                None if *child == CaseChild::Retry(true) => TestOutcome::Error,
                None => named_cause(kind, &message, TestOutcome::Failed),
            };
            CaseAttempt { outcome, seconds: None, message: Some(message), output: trace }
        });
        retries.chain([last]).collect()
    }

    fn outcome(&self, child: CaseChild, kind: &str, message: &str, dialect: JunitDialect) -> TestOutcome {
        if let Some(outcome) = own_outcome(kind, dialect) {
            return outcome;
        }
        if child == CaseChild::Skipped {
            return self.outcome_of_skip(kind, message, dialect);
        }
        match child {
            CaseChild::Failure if self.may_fail => TestOutcome::ExpectedFailure,
            // As TAP::Formatter::JUnit writes it, for which prove passes.
            CaseChild::Error if kind == "TodoTestSucceeded" => TestOutcome::UnexpectedPass,
            CaseChild::Error => named_cause(kind, message, TestOutcome::Error),
            CaseChild::Unknown => TestOutcome::Unknown,
            _ => named_cause(kind, message, TestOutcome::Failed),
        }
    }

    /// The outcome of a test that is written as skipped.
    fn outcome_of_skip(&self, kind: &str, message: &str, dialect: JunitDialect) -> TestOutcome {
        let status = self.names.status.as_deref().unwrap_or_default();
        // A word beside it may say more.
        if let Some(worse) = self.words().map(case_word_outcome).find(|outcome| !can_be_skip(*outcome)) {
            return worse;
        }
        let did_not_run = match dialect {
            // ctest could not start the program: a skip has the word in its message.
            JunitDialect::Ctest => status == "notrun" && !message.to_ascii_uppercase().starts_with("SKIP"),
            // What is behind a crash has no reason.
            JunitDialect::Boost => self.printed.0.contains("- reason: ''"),
            _ => {
                // LLVM's lit writes so of tests that an interrupt or `--max-failures` left, and
                // behave of scenarios that an abort or `--stop` left.
                (kind.is_empty() && message == "User interrupt") || (message.is_empty() && status == "untested")
            }
        };
        if dialect == JunitDialect::Gtest && self.started.as_deref().is_some_and(is_epoch) {
            TestOutcome::Unknown
        } else if did_not_run {
            TestOutcome::NotRun
        } else if kind == "pytest.xfail" {
            TestOutcome::ExpectedFailure
        } else {
            TestOutcome::Skipped
        }
    }

    /// Why it is unknown how it ended.
    fn why_unknown(&self, child: CaseChild, kind: &str, message: &str) -> String {
        match self.words().find(|word| case_word_outcome(word) == TestOutcome::Unknown) {
            _ if child == CaseChild::Unknown => {
                let colon = if message.is_empty() { "" } else { ": " };
                format!("`<{kind}>` is no element that is known, so this is no pass{colon}{message}")
            }
            Some(word) => unknown_word(word),
            None => NEVER_BEGAN.to_owned(),
        }
    }

    /// What its attributes say of its end.
    fn words(&self) -> impl Iterator<Item = &str> {
        self.names.words.iter().map(String::as_str)
    }

    /// `true` if GoogleTest's way to switch a test off is in its name.
    fn is_disabled(&self) -> bool {
        let mut parts = self.names.name.split('/').chain(self.names.class.split('/'));
        parts.any(|part| part.starts_with("DISABLED_"))
    }

    /// The outcome of a case without children: what its attributes say.
    fn plain_outcome(&self) -> TestOutcome {
        let outcomes: Vec<TestOutcome> = self.words().map(case_word_outcome).collect();
        let said = outcomes.iter().find(|outcome| !can_be_skip(**outcome));
        match said.or_else(|| outcomes.iter().find(|outcome| **outcome != TestOutcome::Passed)) {
            // GoogleTest 1.8 says no more of a test that is switched off.
            Some(TestOutcome::NotRun) if self.is_disabled() => TestOutcome::Skipped,
            Some(outcome) => *outcome,
            None if self.was_rerun_in_vain => TestOutcome::Failed,
            None => TestOutcome::Passed,
        }
    }
}

/// `false` for a word that says that more went wrong than that a test was skipped.
fn can_be_skip(outcome: TestOutcome) -> bool {
    !outcome.is_bad() && outcome != TestOutcome::Unknown
}

/// The outcome that a child in a file of ours names.
fn own_outcome(kind: &str, dialect: JunitDialect) -> Option<TestOutcome> {
    if dialect != JunitDialect::Own {
        return None;
    }
    let word: StrDeserializer<'_, WordError> = kind.into_deserializer();
    TestOutcome::deserialize(word).ok()
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
            let mut lines = trace.lines().filter(|line| !line.trim().is_empty());
            let found = exception_in(trace).or_else(|| lines.next()).unwrap_or(message);
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
