//! Input: a word with which a framework says how a test ended. Output: the outcome.
//!
//! A word outside of this closed list is never a pass, but [`TestOutcome::Unknown`].

use crate::outcome::TestOutcome;
use crate::xml_attributes::XmlAttributes;

/// Why a skipped test that never began does not count as a skip. GoogleTest 1.12 writes a failed
/// set-up so, and newer ones a set-up that skipped itself.
pub(crate) const NEVER_BEGAN: &str = "it never began: the set-up of its suite failed, or skipped itself; the exit code \
                                      of the program decides";

/// Attributes of junit XML whose values say how a suite or a test case ended.
const WORDS: [&str; 6] = ["result", "status", "outcome", "state", "verdict", "conclusion"];
/// Attributes that are such a word, or a number of tests.
const WORDS_OR_COUNTS: [&str; 2] = ["success", "passed"];

/// The words for the outcome of a suite in its attributes.
pub(crate) fn suite_words(attributes: &XmlAttributes) -> Vec<String> {
    words(attributes, |number| number.is_some())
}

/// The words for the outcome of a test case in its attributes. `success="0"` is one: it may say
/// that the test failed.
pub(crate) fn case_words(attributes: &XmlAttributes) -> Vec<String> {
    words(attributes, |number| number.is_some_and(|number| number != 0.0))
}

fn words(attributes: &XmlAttributes, is_count: impl Fn(Option<f64>) -> bool) -> Vec<String> {
    let words = WORDS.into_iter().filter_map(|key| attributes.filled(key));
    let others = WORDS_OR_COUNTS.into_iter().filter_map(|key| attributes.filled(key));
    words.chain(others.filter(|word| !is_count(word.parse().ok()))).collect()
}

/// The outcome that a word of a report says.
pub(crate) fn word_outcome(word: &str) -> TestOutcome {
    let plain: String = word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "passed" | "pass" | "ok" | "success" | "successful" | "succeeded" | "fixed" => TestOutcome::Passed,
        "fail" | "failed" | "failure" | "regression" => TestOutcome::Failed,
        "error" | "errored" | "broken" => TestOutcome::Error,
        "timeout" | "timedout" => TestOutcome::TimedOut,
        "crash" | "crashed" | "aborted" | "killed" => TestOutcome::Crashed,
        "skip" | "skipped" | "suppressed" | "disabled" | "ignored" | "pending" | "todo" => TestOutcome::Skipped,
        "notrun" | "cancelled" | "canceled" | "interrupted" | "interrupt" | "incomplete" | "untested" | "undefined"
        | "notexecuted" | "notrunnable" => TestOutcome::NotRun,
        "expectedfail" | "expectedfailure" | "xfail" | "xfailed" => TestOutcome::ExpectedFailure,
        "unexpectedpass" | "unexpectedsuccess" | "xpass" | "xpassed" => TestOutcome::UnexpectedPass,
        _ => TestOutcome::Unknown,
    }
}

/// The outcome that an attribute in junit XML says. Some words there say that the test ran, and its
/// children how it ended.
pub(crate) fn case_word_outcome(word: &str) -> TestOutcome {
    match word.to_ascii_lowercase().as_str() {
        "run" | "completed" | "executed" | "true" => TestOutcome::Passed,
        "false" => TestOutcome::Failed,
        _ => word_outcome(word),
    }
}

/// Why a word is not a pass.
pub(crate) fn unknown_word(word: &str) -> String {
    format!("`{word}` is no word for an outcome that is known, so this is no pass")
}
