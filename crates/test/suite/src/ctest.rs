//! Input: a folder with `CTestTestfile.cmake`. Output: one `ctest` for each test of it.
//!
//! ctest itself knows a test's environment, fixtures and what counts as a pass, so it runs each.
//! `--show-only=json-v1` lists them (CMake 3.14).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rocwheel_progress::{Failure, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::TestOutcome;
use serde::Deserialize;

use crate::driver::{Collection, StreamEvent, TestDriver, TestStream, not_listed, without_choices};
use crate::supervisor::{AnswerEnd, AnswerLimits, ProgramLine, run_for_answer};

/// Most bytes of ctest's list, which has the command of each test.
const LONGEST_LIST: usize = 256 << 20;

#[derive(Debug)]
pub struct CtestDriver {
    /// The folder with `CTestTestfile.cmake`.
    pub folder: PathBuf,
    /// Options of ctest: `-L quick`.
    pub options: Vec<String>,
    /// Environment; words and folder are not used.
    pub base: ProgramLine,
    /// Longest time to list the tests.
    pub collect_timeout: Duration,
    /// Longest time of a test; ctest's own limit of 1500 s would end it first.
    pub timeout: Duration,
    /// The tests beside which no other may run; known when they are listed.
    pub alone: OnceLock<BTreeSet<String>>,
}

/// Properties of a test that say what else may run meanwhile, or has run. With one ctest for each
/// test, ctest itself cannot keep to them.
const TOGETHER: [&str; 5] = ["DEPENDS", "FIXTURES_REQUIRED", "RESOURCE_GROUPS", "RESOURCE_LOCK", "RUN_SERIAL"];

#[derive(Debug, Deserialize)]
struct Listing {
    tests: Vec<ListedCtest>,
}

#[derive(Debug, Deserialize)]
struct ListedCtest {
    name: String,
    #[serde(default)]
    properties: Vec<CtestProperty>,
}

#[derive(Debug, Deserialize)]
struct CtestProperty {
    name: String,
    value: serde_json::Value,
}

impl CtestProperty {
    fn is_together(&self) -> bool {
        TOGETHER.contains(&self.name.as_str()) && self.value != false
    }
}

impl CtestDriver {
    fn line(&self, more: &[&str]) -> ProgramLine {
        let mut words: Vec<OsString> = vec!["ctest".into(), "--test-dir".into(), self.folder.clone().into()];
        words.extend(self.options.iter().map(OsString::from));
        words.extend(more.iter().map(OsString::from));
        without_choices(ProgramLine { words, directory: self.folder.clone(), ..self.base.clone() })
    }
}

impl TestDriver for CtestDriver {
    fn collect(&self, scratch: &Path, reporter: &dyn Reporter) -> Result<Collection, Failure> {
        let line = self.line(&["--show-only=json-v1"]);
        let limits = AnswerLimits {
            time: self.collect_timeout,
            bytes: LONGEST_LIST,
            is_interrupted: &|| reporter.interrupted(),
        };
        let (end, text) = run_for_answer(&line, &format!("{}-ctest", scratch.display()), &limits)?;
        reporter.check()?;
        let text = String::from_utf8_lossy(&text);
        let from = text.find('{').unwrap_or_default();
        let listing: Result<Listing, _> = serde_json::Deserializer::from_str(&text[from..])
            .into_iter()
            .next()
            .unwrap_or_else(|| Err(serde::de::Error::custom("no JSON")));
        match (end, listing) {
            (AnswerEnd::Ended(ProgramEnd::Code(0)), Ok(listing)) => {
                let alone = listing.tests.iter().filter(|test| test.properties.iter().any(CtestProperty::is_together));
                let _ = self.alone.set(alone.map(|test| test.name.clone()).collect());
                let ids = listing.tests.into_iter().map(|test| test.name).collect();
                Ok(Collection { ids, ..Collection::default() })
            }
            (AnswerEnd::Late | AnswerEnd::Interrupted, _) => {
                let limit = self.collect_timeout.as_secs();
                Err(not_listed(&format!("ctest took more than {limit} s to list them")))
            }
            (AnswerEnd::Long, _) => {
                let most = LONGEST_LIST >> 20;
                Err(not_listed(&format!("ctest's list has more than {most} MiB")))
            }
            (AnswerEnd::Ended(end), _) => {
                let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                Err(not_listed(&format!("ctest {}: {last}", end.words())))
            }
        }
    }

    fn start(&self, ids: &[String], _scratch: &Path) -> io::Result<(ProgramLine, Box<dyn TestStream>)> {
        let id = ids.first().cloned().unwrap_or_default();
        // ctest's option is a regular expression.
        let escaped: String = id
            .chars()
            .flat_map(|letter| if r"\.^$|()[]*+?".contains(letter) { vec!['\\', letter] } else { vec![letter] })
            .collect();
        // A second more than ours, so that the supervisor ends it and says so.
        let seconds = (self.timeout.as_secs() + 60).to_string();
        let expression = format!("^{escaped}$");
        let line = self.line(&["-R", &expression, "--output-on-failure", "--timeout", &seconds, "--parallel", "1"]);
        Ok((line, Box::new(CtestStream { id: Some(id.clone()), name: id, text: Vec::new() })))
    }

    fn is_single(&self) -> bool {
        true
    }

    fn runs_alone(&self, id: &str) -> bool {
        self.alone.get().is_some_and(|alone| alone.contains(id))
    }

    fn group_of<'a>(&self, id: &'a str) -> &'a str {
        id
    }
}

#[derive(Debug)]
struct CtestStream {
    id: Option<String>,
    name: String,
    /// The end of what ctest printed, with its words for the outcome.
    text: Vec<u8>,
}

impl TestStream for CtestStream {
    fn read(&mut self, output: &[u8]) -> io::Result<Vec<StreamEvent>> {
        self.text.extend_from_slice(output);
        let excess = self.text.len().saturating_sub(1 << 16);
        self.text.drain(..excess);
        Ok(self.id.take().map(StreamEvent::Started).into_iter().collect())
    }

    fn judge(&self, end: ProgramEnd) -> Option<(TestOutcome, Option<String>)> {
        let text = String::from_utf8_lossy(&self.text);
        // `1/1 Test #3: name .......***Skipped   0.00 sec`; fixtures have lines of their own.
        // A regular expression that was not found may have line ends, before the time.
        let words = text.lines().rev().find_map(|line| {
            let (test, words) = line.split_once(&format!(": {} ", self.name))?;
            let has_end = test.contains(" Test ") && (words.contains("sec") || words.contains("***"));
            has_end.then(|| words.trim_matches(['.', '*', ' ']))
        });
        let words = words.unwrap_or_default();
        let said = Some(format!("ctest says `{}`", if words.is_empty() { "no outcome" } else { words }));
        Some(match end {
            ProgramEnd::Signal(_) => (TestOutcome::Crashed, Some(format!("ctest {}", end.words()))),
            ProgramEnd::Code(0) if words.contains("(Disabled)") => (TestOutcome::Skipped, said),
            ProgramEnd::Code(0) if words.contains("Skipped") => (TestOutcome::Skipped, said),
            ProgramEnd::Code(_) if words.contains("Not Run") => (TestOutcome::NotRun, said),
            ProgramEnd::Code(_) if words.contains("Timeout") => (TestOutcome::TimedOut, said),
            ProgramEnd::Code(_) if words.contains("Exception") => (TestOutcome::Crashed, said),
            ProgramEnd::Code(0) if words.contains("Passed") => (TestOutcome::Passed, None),
            ProgramEnd::Code(0) => (TestOutcome::NotRun, Some("ctest named no outcome of it".to_owned())),
            ProgramEnd::Code(_) => (TestOutcome::Failed, said),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As ctest 3.25 prints them.
    #[test]
    fn the_words_of_ctest_are_found_in_its_line() {
        for (code, line, outcome, message) in [
            (0, "1/1 Test #1: a ................................   Passed    0.01 sec", TestOutcome::Passed, None),
            (
                8,
                "1/1 Test #3: a ................................***Failed    0.01 sec",
                TestOutcome::Failed,
                Some("Failed    0.01 sec"),
            ),
            (
                8,
                "1/1 Test #8: a ................................***Failed  Required regular expression not found. Regex=[bye\n]  0.00 sec\n",
                TestOutcome::Failed,
                Some("Failed  Required regular expression not found. Regex=[bye"),
            ),
            (
                8,
                "1/1 Test #2: a ................................***Timeout   1.00 sec",
                TestOutcome::TimedOut,
                Some("Timeout   1.00 sec"),
            ),
        ] {
            let stream = CtestStream { id: None, name: "a".to_owned(), text: line.as_bytes().to_vec() };
            let message = message.map(|words| format!("ctest says `{words}`"));
            assert_eq!(stream.judge(ProgramEnd::Code(code)), Some((outcome, message)), "{line}");
        }
    }
}
