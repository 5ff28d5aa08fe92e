//! Input: test programs made with GoogleTest, as ROCm's libraries have them. Output: their tests,
//! read from what they print while they run.
//!
//! The report of `--gtest_output` is written at the end, so a crash loses it. It is compared with
//! what was printed: a test may print lines that look like the program's. Tests are chosen with a
//! flag file, whose length has no limit, and not with GTEST_SHARD_INDEX: a program that ignores
//! that variable would run everything in every shard.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::{Failure, Reporter};
use rocwheel_report::ProgramEnd;
use rocwheel_report::outcome::{TestAttempt, TestOutcome};
use rocwheel_report::read_outcomes;
use serde::Deserialize;

use crate::driver::{Collection, FailedCollection, StreamEvent, TestDriver, TestStream, without_choices};
use crate::supervisor::{AnswerEnd, AnswerLimits, BoundedText, ProgramLine, run_for_answer};

/// Most bytes of a list of tests. That of rocBLAS, with more than 100,000 tests, has about 10 MB.
const LONGEST_LIST: usize = 256 << 20;

/// Options that have disabled tests run too.
const ALSO_DISABLED: [&str; 2] = ["--gtest_also_run_disabled_tests", "--gtest_also_run_disabled_tests=1"];

/// Why a test of another name does not run.
const DISABLED: &str = "its name begins with DISABLED_";

#[derive(Debug)]
pub struct GtestDriver {
    /// The programs; the ids of a test begin with the name of its program.
    pub programs: Vec<PathBuf>,
    pub options: Vec<String>,
    /// Working directory and environment; the words are not used.
    pub base: ProgramLine,
    /// Longest time to list the tests.
    pub collect_timeout: Duration,
}

impl GtestDriver {
    /// The name of its file, or its path if another program has that name.
    fn name(&self, program: &Path) -> String {
        let mut others = self.programs.iter().filter(|other| *other != program);
        let name = program.file_name().filter(|name| !others.any(|other| other.file_name() == Some(*name)));
        name.unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
    }

    fn program_of(&self, name: &str) -> Option<&PathBuf> {
        self.programs.iter().find(|program| self.name(program) == name)
    }

    fn line(&self, program: &Path, option: &str) -> ProgramLine {
        let mut words = vec![program.as_os_str().to_owned()];
        words.extend(self.options.iter().map(OsString::from));
        words.push(option.into());
        without_choices(ProgramLine { words, ..self.base.clone() })
    }

    /// `true` if the user wants tests to run that are disabled.
    fn runs_disabled(&self) -> bool {
        let variable = self.base.variables.get(OsStr::new("GTEST_ALSO_RUN_DISABLED_TESTS"));
        self.options.iter().any(|option| ALSO_DISABLED.contains(&option.as_str()))
            || variable.is_some_and(|value| !value.is_empty() && value != "0")
    }

    /// The tests of a program. It writes them into a file, since libraries print about devices
    /// before and between what it prints; a GoogleTest older than 1.8.1 only prints.
    fn list(&self, program: &Path, scratch: &Path, reporter: &dyn Reporter) -> Result<Vec<String>, (String, String)> {
        let file = scratch.join("list.json");
        let _ = fs_err::remove_file(&file);
        let mut line = self.line(program, "--gtest_list_tests");
        line.words.push(format!("--gtest_output=json:{}", file.display()).into());
        let mark = format!("{}-list-{}", scratch.display(), program.display());
        let limits = AnswerLimits {
            time: self.collect_timeout,
            bytes: LONGEST_LIST,
            is_interrupted: &|| reporter.interrupted(),
        };
        let (end, bytes) = run_for_answer(&line, &mark, &limits).map_err(|error| (error.to_string(), String::new()))?;
        let mut kept = BoundedText::default();
        kept.push(&bytes);
        let said = kept.take();
        match end {
            AnswerEnd::Ended(ProgramEnd::Code(0)) => {
                let listed = match fs_err::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                    Some(written) => Ok(written_tests(written)),
                    None => listed_tests(&String::from_utf8_lossy(&bytes)),
                };
                listed.map_err(|reason| (reason, said))
            }
            AnswerEnd::Ended(end) => Err((format!("listing its tests, the program {}", end.words()), said)),
            AnswerEnd::Long => Err((format!("its list of tests has more than {} MiB", LONGEST_LIST >> 20), said)),
            AnswerEnd::Late | AnswerEnd::Interrupted => {
                Err((format!("listing took more than {} s", self.collect_timeout.as_secs()), said))
            }
        }
    }
}

/// What `--gtest_list_tests --gtest_output=json:FILE` writes.
#[derive(Debug, Deserialize)]
struct WrittenList {
    testsuites: Vec<WrittenSuite>,
}

#[derive(Debug, Deserialize)]
struct WrittenSuite {
    name: String,
    testsuite: Vec<WrittenTest>,
}

#[derive(Debug, Deserialize)]
struct WrittenTest {
    name: String,
}

fn written_tests(list: WrittenList) -> Vec<String> {
    let tests =
        |suite: WrittenSuite| suite.testsuite.into_iter().map(move |test| format!("{}.{}", suite.name, test.name));
    list.testsuites.into_iter().flat_map(tests).collect()
}

/// The tests of `--gtest_list_tests`: `Suite.` on one line, two spaces and the name on the next
/// ones, each with an optional comment.
///
/// Fails for a test whose suite is on a line with something else.
fn listed_tests(text: &str) -> Result<Vec<String>, String> {
    let mut suite = "";
    let mut tests = Vec::new();
    for line in text.lines() {
        let plain = line.split('#').next().unwrap_or_default().trim_end();
        if let Some(name) = plain.strip_prefix("  ").filter(|name| !name.contains(' ')) {
            if suite.is_empty() {
                return Err(format!("its list of tests has `{name}` without a suite"));
            }
            tests.push(format!("{suite}{name}"));
        } else if plain.ends_with('.') && !plain.contains(' ') {
            suite = plain;
        } else if !plain.is_empty() {
            // Libraries print about devices before the list.
            suite = "";
        }
    }
    Ok(tests)
}

/// `true` for `Suite.DISABLED_Name`, `DISABLED_Suite.Name` and those with a prefix.
fn is_disabled(test: &str) -> bool {
    test.split(['.', '/']).any(|part| part.starts_with("DISABLED_"))
}

impl TestDriver for GtestDriver {
    fn collect(&self, scratch: &Path, reporter: &dyn Reporter) -> Result<Collection, Failure> {
        let mut collection = Collection::default();
        for program in &self.programs {
            let name = self.name(program);
            match self.list(program, scratch, reporter) {
                Ok(tests) if tests.is_empty() => collection.failed.push(FailedCollection {
                    id: name,
                    message: "the program lists no tests".into(),
                    output: None,
                }),
                Ok(tests) => {
                    for test in tests {
                        let id = format!("{name}::{test}");
                        if !self.runs_disabled() && is_disabled(&test) {
                            collection.skipped.push((id, DISABLED.to_owned()));
                        } else {
                            collection.ids.push(id);
                        }
                    }
                }
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
        let (flags, report) = (scratch.join("flags"), scratch.join("report.xml"));
        let options = format!("--gtest_color=no\n--gtest_output=xml:{}\n", report.display());
        // Behind a `-` a filter has what is left out; `?` fits any letter.
        let filter = own.join(":").replace('-', "?");
        fs_err::write(&flags, format!("--gtest_filter={filter}\n{options}"))?;
        let mut option = OsString::from("--gtest_flagfile=");
        option.push(&flags);
        let mut line = self.line(program, "");
        line.words.pop();
        line.words.push(option);
        let left = own.iter().map(|test| (*test).to_owned()).collect();
        Ok((line, Box::new(GtestStream { prefix: format!("{name}::"), report, left, ..GtestStream::default() })))
    }
}

/// Reads what a program prints.
#[derive(Debug, Default)]
struct GtestStream {
    prefix: String,
    /// Where the program writes its own report.
    report: PathBuf,
    /// What it printed of each test that ended.
    told: BTreeMap<String, TestOutcome>,
    rest: Vec<u8>,
    current: Option<String>,
    /// What the running test printed.
    text: BoundedText,
    /// Tests that have not ended. Lines about others are what a test prints, or a GoogleTest in it.
    left: BTreeSet<String>,
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

    fn close(&mut self) -> io::Result<Vec<StreamEvent>> {
        // A program that ended in the middle of a test has written no report.
        if self.current.is_some() || self.told.is_empty() {
            return Ok(Vec::new());
        }
        let problems = match read_outcomes(&self.report) {
            Ok(outcomes) => differences(&self.told, &outcomes),
            Err(error) => vec![format!("its own report cannot be read, so what it printed is not confirmed: {error}")],
        };
        let program = self.prefix.trim_end_matches("::");
        Ok(problems.into_iter().map(|problem| StreamEvent::Problem(format!("`{program}`: {problem}"))).collect())
    }

    fn judge(&self, end: ProgramEnd) -> Option<(TestOutcome, Option<String>)> {
        // It may end in the middle of a test with code 0, which is no pass.
        Some((TestOutcome::Crashed, Some(format!("the process {} during the test", end.words()))))
    }
}

impl GtestStream {
    fn line(&mut self, line: &str, events: &mut Vec<StreamEvent>) {
        if let Some(name) = line.split("[ RUN      ] ").nth(1).filter(|name| self.left.contains(*name)) {
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
            events.push(StreamEvent::Ended(TestAttempt {
                outcome,
                seconds,
                message,
                output,
                ..TestAttempt::not_run(&id, "")
            }));
            self.left.remove(&current);
            self.told.insert(current, outcome);
            self.current = None;
            if self.left.is_empty() {
                events.push(StreamEvent::Finished);
            }
            return;
        }
    }
}

fn plain_word(outcome: TestOutcome) -> &'static str {
    match outcome {
        TestOutcome::Passed | TestOutcome::Skipped | TestOutcome::NotRun => outcome.word(),
        _ => "failed",
    }
}

/// What a program's report says in another way than its output.
fn differences(told: &BTreeMap<String, TestOutcome>, report: &[(String, TestOutcome)]) -> Vec<String> {
    let reported: BTreeMap<&str, &str> =
        report.iter().map(|(id, outcome)| (id.as_str(), plain_word(*outcome))).collect();
    let mut problems = Vec::new();
    for (id, outcome) in told {
        match reported.get(id.as_str()) {
            Some(other) if *other == plain_word(*outcome) => {}
            Some(other) => {
                problems
                    .push(format!("`{id}` printed that it {}, and the report says `{other}`", plain_word(*outcome)));
            }
            None => problems.push(format!("`{id}` printed an outcome, and the report does not have it")),
        }
    }
    let unseen = reported.iter().filter(|(id, other)| !told.contains_key(**id) && **other == "failed");
    problems.extend(unseen.map(|(id, _)| match id.trim_matches('.') {
        "" => "its report has a failure outside of its tests".to_owned(),
        id => format!("`{id}` failed in its report, and printed no outcome"),
    }));
    problems.truncate(20);
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_with_noise_comments_and_disabled_tests() {
        let text = "Query device success: there are 1 devices.\nMath.\n  Adds\n  DISABLED_Slow\nTyped/0.  # TypeParam = int\n  \
                    Works\nP/Math.\n  Big/0  # GetParam() = 4\nDISABLED_All.\n  One\n";
        let listed = listed_tests(text).unwrap();
        let kept: Vec<&String> = listed.iter().filter(|test| !is_disabled(test)).collect();
        assert_eq!(kept, ["Math.Adds", "Typed/0.Works", "P/Math.Big/0"]);
        assert_eq!(listed.len(), 5);
        assert!(listed_tests("device: none Math.\n  Adds\n").unwrap_err().contains("`Adds` without a suite"));
    }

    #[test]
    fn output_beside_a_mark_does_not_hide_it() {
        let mut stream = GtestStream {
            prefix: "t::".into(),
            left: ["A.B".to_owned(), "A.Bc".to_owned()].into(),
            ..GtestStream::default()
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
