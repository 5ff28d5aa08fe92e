//! Input: test programs made with GoogleTest, as ROCm's libraries have them. Output: their tests,
//! read from what they print while they run.
//!
//! The report of `--gtest_output` is written at the end, so a crash loses it. Tests are chosen with
//! a flag file, whose length has no limit, and not with GTEST_SHARD_INDEX: a program that ignores
//! that variable would run everything in every shard.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_report::Reporter;

use super::driver::{Collection, FailedCollection, StreamEvent, TestDriver, TestStream};
use super::{SuiteError, not_run};
use crate::outcome::{TestAttempt, TestOutcome};
use crate::supervisor::{BoundedText, ProgramLine, SupervisedProgram};

/// Test programs.
#[derive(Debug)]
pub struct GtestDriver {
    /// The programs; the ids of a test begin with the name of its program.
    pub programs: Vec<PathBuf>,
    /// Options of all programs.
    pub options: Vec<String>,
    /// Working directory and environment; the words are not used.
    pub base: ProgramLine,
    /// Longest time to list the tests.
    pub collect_timeout: Duration,
}

impl GtestDriver {
    fn name(program: &Path) -> String {
        program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    fn program_of(&self, name: &str) -> Option<&PathBuf> {
        self.programs.iter().find(|program| Self::name(program) == name)
    }

    fn line(&self, program: &Path, option: &str) -> ProgramLine {
        let mut words = vec![program.as_os_str().to_owned()];
        words.extend(self.options.iter().map(OsString::from));
        words.push(option.into());
        ProgramLine { words, ..self.base.clone() }
    }

    fn list(&self, program: &Path, reporter: &dyn Reporter) -> Result<Vec<String>, (String, String)> {
        let line = self.line(program, "--gtest_list_tests");
        let failed = |error: io::Error| (error.to_string(), String::new());
        let mut running = SupervisedProgram::start(&line, &format!("list-{}", program.display())).map_err(failed)?;
        // Names are not bounded as output is: rocBLAS has more than 100,000 tests.
        let (mut text, begun, mut is_late) = (Vec::new(), std::time::Instant::now(), false);
        while running.end().map_err(failed)?.is_none() {
            text.extend(running.read(Duration::from_millis(20)));
            if begun.elapsed() > self.collect_timeout || reporter.interrupted() {
                is_late = true;
                running.stop(Duration::from_secs(2));
            }
        }
        let (end, rest, _) = running.finish().map_err(failed)?;
        text.extend(rest);
        let text = String::from_utf8_lossy(&text).into_owned();
        if is_late {
            return Err((format!("listing took more than {} s", self.collect_timeout.as_secs()), String::new()));
        }
        if end != crate::supervisor::ProgramEnd::Code(0) {
            let mut kept = BoundedText::default();
            kept.push(text.as_bytes());
            return Err((format!("listing its tests, the program {}", end.words()), kept.take()));
        }
        Ok(listed_tests(&text))
    }
}

/// The tests of `--gtest_list_tests`: `Suite.` on one line, two spaces and the name on the next
/// ones, each with an optional comment. Disabled tests are not run by the program either.
fn listed_tests(text: &str) -> Vec<String> {
    let mut suite = "";
    let mut tests = Vec::new();
    for line in text.lines() {
        let plain = line.split('#').next().unwrap_or_default().trim_end();
        if let Some(name) = plain.strip_prefix("  ") {
            let is_disabled =
                [suite, name].iter().any(|part| part.rsplit('/').any(|part| part.starts_with("DISABLED_")));
            if !suite.is_empty() && !is_disabled && !name.contains(' ') {
                tests.push(format!("{suite}{name}"));
            }
        } else if plain.ends_with('.') && !plain.contains(' ') {
            suite = plain;
        } else if !plain.is_empty() {
            // Libraries print about devices before the list.
            suite = "";
        }
    }
    tests
}

impl TestDriver for GtestDriver {
    fn collect(&self, _scratch: &Path, reporter: &dyn Reporter) -> Result<Collection, SuiteError> {
        let mut collection = Collection::default();
        for program in &self.programs {
            let name = Self::name(program);
            match self.list(program, reporter) {
                Ok(tests) if tests.is_empty() => collection.failed.push(FailedCollection {
                    id: name,
                    message: "the program lists no tests".into(),
                    output: None,
                }),
                Ok(tests) => collection.ids.extend(tests.into_iter().map(|test| format!("{name}::{test}"))),
                Err((message, output)) => {
                    let output = Some(output).filter(|output| !output.is_empty());
                    collection.failed.push(FailedCollection { id: name, message, output });
                }
            }
            reporter.check()?;
        }
        Ok(collection)
    }

    fn mixes_groups(&self) -> bool {
        false
    }

    fn start(&self, ids: &[String], scratch: &Path) -> io::Result<(ProgramLine, Box<dyn TestStream>)> {
        let name = ids.first().map_or("", |id| self.group_of(id));
        let program = self.program_of(name).ok_or_else(|| io::Error::other(format!("no program `{name}`")))?;
        let own: Vec<&str> = ids.iter().filter_map(|id| id.strip_prefix(name)?.strip_prefix("::")).collect();
        let flags = scratch.join("flags");
        fs_err::write(&flags, format!("--gtest_filter={}\n--gtest_color=no\n", own.join(":")))?;
        let mut option = OsString::from("--gtest_flagfile=");
        option.push(&flags);
        let mut line = self.line(program, "");
        line.words.pop();
        line.words.push(option);
        let (left, prefix) = (own.len(), format!("{name}::"));
        Ok((
            line,
            Box::new(GtestStream { prefix, rest: Vec::new(), current: None, text: BoundedText::default(), left }),
        ))
    }
}

/// Reads what a program prints.
#[derive(Debug)]
struct GtestStream {
    prefix: String,
    rest: Vec<u8>,
    current: Option<String>,
    /// What the running test printed.
    text: BoundedText,
    /// Tests that have not ended.
    left: usize,
}

impl TestStream for GtestStream {
    fn read(&mut self, output: &[u8]) -> io::Result<Vec<StreamEvent>> {
        self.rest.extend_from_slice(output);
        let mut events = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end(), &mut events);
        }
        // A program that prints without line ends must not fill the memory.
        if self.rest.len() > 1 << 20 {
            self.rest.clear();
        }
        Ok(events)
    }

    fn judge(&self, end: crate::supervisor::ProgramEnd) -> Option<(TestOutcome, Option<String>)> {
        // It may end in the middle of a test with code 0, which is no pass.
        Some((TestOutcome::Crashed, Some(format!("the process {} during the test", end.words()))))
    }
}

impl GtestStream {
    fn line(&mut self, line: &str, events: &mut Vec<StreamEvent>) {
        if let Some(name) = line.split("[ RUN      ] ").nth(1) {
            self.current = Some(name.to_owned());
            self.text.take();
            events.push(StreamEvent::Started(format!("{}{name}", self.prefix)));
            return;
        }
        let Some(current) = self.current.clone() else { return };
        self.text.push(line.as_bytes());
        self.text.push(b"\n");
        let marks = [
            ("[       OK ] ", TestOutcome::Passed),
            ("[  FAILED  ] ", TestOutcome::Failed),
            ("[  SKIPPED ] ", TestOutcome::Skipped),
        ];
        for (mark, outcome) in marks {
            // What a test prints without a line end stands before the mark.
            let Some(rest) = line.split(mark).nth(1).and_then(|rest| rest.strip_prefix(current.as_str())) else {
                continue;
            };
            if !(rest.is_empty() || rest.starts_with([' ', ','])) {
                continue;
            }
            let milliseconds =
                rest.rsplit_once('(').and_then(|(_, time)| time.strip_suffix(" ms)")?.parse::<f64>().ok());
            let message = (outcome == TestOutcome::Failed).then(|| "an expectation failed".to_owned());
            let id = format!("{}{current}", self.prefix);
            let seconds = milliseconds.map(|time| time / 1000.0);
            let printed = self.text.take();
            let output = (outcome == TestOutcome::Failed).then_some(printed);
            events.push(StreamEvent::Ended(TestAttempt { outcome, seconds, message, output, ..not_run(&id, "") }));
            self.current = None;
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                events.push(StreamEvent::Finished);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_with_noise_comments_and_disabled_tests() {
        let text = "Query device success: there are 1 devices.\nMath.\n  Adds\n  DISABLED_Slow\nTyped/0.  # TypeParam = int\n  \
                    Works\nP/Math.\n  Big/0  # GetParam() = 4\nDISABLED_All.\n  One\n";
        assert_eq!(listed_tests(text), ["Math.Adds", "Typed/0.Works", "P/Math.Big/0"]);
    }

    #[test]
    fn output_beside_a_mark_does_not_hide_it() {
        let mut stream = GtestStream {
            prefix: "t::".into(),
            rest: Vec::new(),
            current: None,
            text: BoundedText::default(),
            left: 2,
        };
        let text =
            b"[ RUN      ] A.B\nno line end[       OK ] A.B (12 ms)\n[ RUN      ] A.Bc\n[  FAILED  ] A.B (1 ms)\n\
                     [  FAILED  ] A.Bc, where GetParam() = (1) (3 ms)\n";
        let events = stream.read(text).unwrap();
        let ended: Vec<(String, TestOutcome, Option<f64>)> = events
            .into_iter()
            .filter_map(|event| match event {
                StreamEvent::Ended(attempt) => Some((attempt.id, attempt.outcome, attempt.seconds)),
                _ => None,
            })
            .collect();
        assert_eq!(
            ended,
            [("t::A.B".into(), TestOutcome::Passed, Some(0.012)), ("t::A.Bc".into(), TestOutcome::Failed, Some(0.003))]
        );
    }
}
