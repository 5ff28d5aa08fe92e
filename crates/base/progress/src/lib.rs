//! Progress, warnings, hints and interruption: how the libraries communicate with their caller
//! without knowing it. A library never prints; the binary implements [`Reporter`] with progress
//! bars, lines or silence.

mod failure;
mod text;
mod write_fault;

use std::fmt;
use std::io::{self, Read};

pub use failure::{Context, Failure};
use serde::{Deserialize, Serialize};
pub use text::{
    counted, escape_controls, few_in_backticks, in_backticks, listed_problems, one_line, shell_path, shell_word,
    shell_word_with,
};
pub use write_fault::{NamedWriter, WriteFault, is_full, space_hint, write_error};

/// Receives progress and tells whether to continue. Implementations are called from many threads.
pub trait Reporter: Send + Sync {
    /// A stage begins. `total` is the number of units that [`Reporter::advance`] will report;
    /// `None` if it is unknown.
    fn begin(&self, stage: &str, total: Option<u64>, unit: Unit);
    /// `amount` more units of the current stage are done.
    fn advance(&self, amount: u64);
    /// The current stage is over.
    fn end(&self);
    /// Reports something that the user should know and that does not stop the work.
    fn warn(&self, message: &str);
    /// `true` after Ctrl-C or SIGTERM.
    fn interrupted(&self) -> bool;
    /// Returns an error after an interruption, so that `?` ends a loop. Long loops call it once per
    /// item.
    fn check(&self) -> Result<(), Interrupted> {
        if self.interrupted() { Err(Interrupted) } else { Ok(()) }
    }
}

/// The user stopped the work. Every error enum has it as a variant and takes its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

impl Hint for Interrupted {
    fn exit(&self) -> Exit {
        Exit::Interrupted
    }
}

/// The severity of a finding. The order is from light to heavy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; nothing fails.
    Note,
    /// It works, but not everywhere, or only for a limited time; or it is most likely a mistake.
    Warning,
    /// What was checked does not work, or claims something false.
    Error,
}

impl Severity {
    /// All severities, the heaviest first.
    pub const ALL: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Note];

    /// The lower-case word for reports: `error`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// The unit in which a stage counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of input or output.
    Bytes,
    /// Files, archives or packages.
    Items,
}

impl dyn Reporter + '_ {
    /// Begins a stage that is over when what is returned is dropped, also after an error. `total`
    /// is as for [`Reporter::begin`].
    pub fn stage(&self, stage: &str, total: Option<u64>, unit: Unit) -> OpenStage<'_> {
        self.begin(stage, total, unit);
        OpenStage(self)
    }
}

/// Forwards warnings and interruptions. Suppresses progress because an outer stage already reports
/// it.
pub struct WithoutProgress<'r>(pub &'r dyn Reporter);

impl Reporter for WithoutProgress<'_> {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn warn(&self, message: &str) {
        self.0.warn(message);
    }
    fn interrupted(&self) -> bool {
        self.0.interrupted()
    }
}

/// A stage that is under way.
#[must_use = "the stage is over when this is dropped"]
pub struct OpenStage<'r>(&'r dyn Reporter);

impl Drop for OpenStage<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Reports nothing and never interrupts, for tests and for callers without a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn begin(&self, _stage: &str, _total: Option<u64>, _unit: Unit) {}
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
    fn warn(&self, _message: &str) {}
    fn interrupted(&self) -> bool {
        false
    }
}

/// A reader that reports the bytes it reads, and that fails as soon as the user wants to stop.
pub struct Watched<'a, R> {
    inner: R,
    reporter: &'a dyn Reporter,
}

impl<'a, R> Watched<'a, R> {
    /// Reports the bytes read from `inner` as progress of the current stage.
    pub fn new(inner: R, reporter: &'a dyn Reporter) -> Self {
        Self { inner, reporter }
    }
}

impl<R: Read> Read for Watched<'_, R> {
    /// # Errors
    /// The errors of the inner reader; an interruption, which the caller recognizes with
    /// [`Reporter::interrupted`].
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.reporter.interrupted() {
            // Not `ErrorKind::Interrupted`: it makes callers try again.
            return Err(io::Error::other("interrupted"));
        }
        let read = self.inner.read(buffer)?;
        self.reporter.advance(read as u64);
        Ok(read)
    }
}

/// An error and all its causes in one line, for reports that contain many errors. A cause whose
/// words are there already is skipped.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        next = error.source();
    }
    text
}

/// The known name that the user probably meant: the one with the fewest edits from `typed`. More
/// edits than a third of its letters are too many, but one is always allowed. Case is ignored.
/// Among equally near names the first one wins.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let names = known.into_iter();
    let names = names.map(|name| (strsim::damerau_levenshtein(&typed, &name.to_lowercase()), name));
    let found = names.min_by_key(|(distance, _)| *distance);
    found.filter(|(distance, name)| *distance <= (name.chars().count() / 3).max(1)).map(|(_, name)| name)
}

/// The text that suggests a name instead of an unknown one: the nearest name, or else all of them.
pub fn suggestion<'a>(typed: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(name) = nearest(typed, known.clone()) {
        return format!("did you mean `{name}`?");
    }
    let names: Vec<&str> = known.into_iter().collect();
    match names.len() {
        0 => "there are none".to_owned(),
        1 => format!("there is only `{}`", names[0]),
        _ => format!("there are {}", in_backticks(names)),
    }
}

/// The solution to an error. The binary prints it as `hint: …` below the error and its causes.
pub trait Hint: std::error::Error {
    /// One sentence in the imperative that names the command or flag that helps; `None` if there is
    /// no advice.
    fn hint(&self) -> Option<String> {
        None
    }

    /// All rows of a list of which the message shows only the first ones, for `--json`; empty if
    /// the message has every row.
    fn rows(&self) -> Vec<String> {
        Vec::new()
    }

    /// The exit code for this error.
    fn exit(&self) -> Exit {
        Exit::Failed
    }
}

/// Exit codes of the program; the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything that was requested is done.
    Done = 0,
    /// A check failed or the input is bad.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Done, but something is missing that was allowed to be missing; or stopped at a time limit.
    Partial = 3,
    /// A temporary problem (network, a lock held by another run): trying again may help.
    TryAgain = 4,
    /// A defect of the program itself.
    Bug = 70,
    /// Interrupted by the user (128 + SIGINT).
    Interrupted = 130,
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", *self as u8)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn what_was_meant_is_near_to_what_was_typed() {
        let known = ["package", "prune", "gfx942", "gfx90a"];
        assert_eq!(nearest("pakcage", known), Some("package"));
        assert_eq!(nearest("GFX924", known), Some("gfx942"));
        assert_eq!(nearest("gfx9", known), Some("gfx942"), "the first of those that are as near");
        assert_eq!(nearest("everything", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(suggestion("prun", known), "did you mean `prune`?");
        assert_eq!(suggestion("jax", ["torch", "triton"]), "there are `torch`, `triton`");
        assert_eq!(suggestion("x", []), "there are none");
    }

    /// Interrupts after this number of bytes.
    struct Until(u64, AtomicU64);

    impl Reporter for Until {
        fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
        fn advance(&self, amount: u64) {
            self.1.fetch_add(amount, Ordering::Relaxed);
        }
        fn end(&self) {}
        fn warn(&self, _: &str) {}
        fn interrupted(&self) -> bool {
            self.1.load(Ordering::Relaxed) >= self.0
        }
    }

    #[test]
    fn reading_reports_and_stops() {
        let reporter = Until(u64::MAX, AtomicU64::new(0));
        assert_eq!(io::copy(&mut Watched::new(&[1; 100][..], &reporter), &mut io::sink()).ok(), Some(100));
        assert_eq!(reporter.1.load(Ordering::Relaxed), 100);
        let reporter = Until(10, AtomicU64::new(0));
        let mut watched = Watched::new(&[1; 100][..], &reporter);
        let mut page = [0; 10];
        assert_eq!(watched.read(&mut page).ok(), Some(10));
        // `read_exact` and `io::copy` would try again after `ErrorKind::Interrupted`.
        assert_eq!(watched.read(&mut page).map_err(|error| error.kind()), Err(io::ErrorKind::Other));
    }
}
