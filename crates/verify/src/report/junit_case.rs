//! Input: the elements of a test case of junit XML, one after the other. Output: its tries, with
//! their outcomes and messages.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as WordError, StrDeserializer};

use super::junit_dialect::{CaseNames, JunitDialect};
use super::xml_input::LONGEST;
use crate::outcome::TestOutcome;

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

/// Elements that tell how a try ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseChild {
    Failure,
    Error,
    Skipped,
    /// An earlier or later try that failed (`true`: an error).
    Retry(bool),
    Output,
}

impl CaseChild {
    pub(super) fn named(name: &[u8]) -> Option<CaseChild> {
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
pub(super) struct BoundedText(String);

impl BoundedText {
    pub(super) fn push(&mut self, text: &str) {
        if self.0.len() < LONGEST {
            let room = LONGEST - self.0.len();
            let end = text.floor_char_boundary(text.len().min(room));
            self.0.push_str(&text[..end]);
        }
    }

    pub(super) fn filled(&self) -> Option<String> {
        let text = self.0.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// A test case that has not ended.
#[derive(Debug)]
pub(super) struct OpenCase {
    pub(super) names: CaseNames,
    pub(super) seconds: Option<f64>,
    /// Failure, error or skip of the try that counts.
    pub(super) end: Option<(CaseChild, String, String)>,
    pub(super) retries: Vec<(CaseChild, String, String)>,
    /// The retries are those of a test that failed at last, whatever else its case has.
    pub(super) was_rerun_in_vain: bool,
    /// Node's `todo`: whether it fails does not matter yet.
    pub(super) is_todo: bool,
    /// At last it passed: the retries come before.
    pub(super) printed: BoundedText,
    pub(super) text: BoundedText,
    /// The failure of a suite itself, which is in no test case.
    pub(super) is_of_suite: bool,
}

impl OpenCase {
    pub(super) fn new(names: CaseNames, seconds: Option<f64>) -> OpenCase {
        OpenCase {
            names,
            seconds,
            end: None,
            retries: Vec::new(),
            was_rerun_in_vain: false,
            is_todo: false,
            printed: BoundedText::default(),
            text: BoundedText::default(),
            is_of_suite: false,
        }
    }

    pub(super) fn end_child(&mut self, child: CaseChild) {
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
    pub(super) fn has_bad_child(&self) -> bool {
        !self.retries.is_empty() || matches!(self.end, Some((CaseChild::Failure | CaseChild::Error, ..)))
    }

    /// All tries, the last one last.
    pub(super) fn attempts(&self, dialect: JunitDialect) -> Vec<CaseAttempt> {
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
            // LLVM's lit writes so of tests that an interrupt or `--max-failures` left.
            CaseChild::Skipped if kind.is_empty() && message == "User interrupt" => TestOutcome::NotRun,
            // behave writes so of scenarios that an abort or `--stop` left.
            CaseChild::Skipped if message.is_empty() && self.names.status.as_deref() == Some("untested") => {
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
            None if self.was_rerun_in_vain => TestOutcome::Failed,
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
        "unexpectedpass" => TestOutcome::UnexpectedPass,
        _ => return None,
    })
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
