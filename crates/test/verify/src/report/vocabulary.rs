//! Input: a word with which a framework says how a test ended. Output: the outcome.
//!
//! The words are a closed list. One that is not in it is never a pass, but
//! [`TestOutcome::Unknown`].

use crate::outcome::TestOutcome;

/// The outcome that a word of a report says.
pub(super) fn word_outcome(word: &str) -> TestOutcome {
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

/// The outcome that `status` or `result` of a test case of junit XML says. Some words there say
/// that the test ran, and its children how it ended.
pub(super) fn case_word_outcome(word: &str) -> TestOutcome {
    match word.to_ascii_lowercase().as_str() {
        "run" | "completed" | "executed" => TestOutcome::Passed,
        _ => word_outcome(word),
    }
}

/// Why a word is no pass.
pub(super) fn unknown_word(word: &str) -> String {
    format!("`{word}` is no word for an outcome that is known, so this is no pass")
}
