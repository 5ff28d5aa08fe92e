//! Input: a merged report. Output: one page that works from `file:` and from every server.
//!
//! Names, messages and outputs come from the tested programs, so they are data: the policy of the
//! page lets one script run, by its hash, and the script makes text nodes alone.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use quick_xml::escape::escape;
use rocwheel_content::sha256;
use rocwheel_progress::counted;
use serde_json::{Value, json};

use crate::ReportOptions;
use crate::model::{ReportedAttempt, ReportedRun, ReportedTest, TestReport};
use crate::outcome::TestOutcome;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("view.js");
/// Tests that the page lists without its script.
const LISTED: usize = 500;

/// Writes the page. `title` is what it is about, such as the suite and the version.
pub fn write_html(report: &TestReport, options: &ReportOptions, title: &str, mut output: impl Write) -> io::Result<()> {
    let [script, style] = [SCRIPT, STYLE].map(|text| STANDARD.encode(sha256(text.as_bytes())));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; base-uri 'none'; form-action \
         'none'"
    );
    // Names of tests may be `{data}`: what is filled in is not searched for places to fill.
    let mut rest = PAGE;
    while let Some((before, name, after)) = next_place(rest) {
        output.write_all(before.as_bytes())?;
        match name {
            "title" => output.write_all(escape(title).as_bytes())?,
            "policy" => output.write_all(policy.as_bytes())?,
            "style" => output.write_all(STYLE.as_bytes())?,
            "summary" => output.write_all(summary(report, options).as_bytes())?,
            "data" => write_data(report, options, ScriptData { inner: &mut output })?,
            _ => output.write_all(SCRIPT.as_bytes())?,
        }
        rest = after;
    }
    output.write_all(rest.as_bytes())?;
    output.flush()
}

/// Splits the page at its first `{name}`.
fn next_place(page: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = page.split_once('{')?;
    let (name, after) = rest.split_once('}')?;
    Some((before, name, after))
}

/// The result and the failures, for people without a script.
fn summary(report: &TestReport, options: &ReportOptions) -> String {
    let result = report.result(options).word();
    let gaps = report.gaps(options).into_iter().map(|gap| format!("<li>{}</li>\n", escape(gap)));
    let gaps: String = gaps.collect();
    let total = counted(report.counts().total, "test");
    let runner = escape(sentence(report)).into_owned();
    let head = format!("<p class=\"verdict {result}\">{result}: {total}</p>\n<p>{runner}</p>");
    format!("{head}\n<ul>\n{gaps}</ul>\n{}", table(report))
}

/// How the runner ended: `The runner exited with code 1.`
fn sentence(report: &TestReport) -> String {
    let words = report.runner.words();
    match words.split_at_checked(1) {
        Some((first, rest)) => format!("{}{rest}.", first.to_uppercase()),
        None => words,
    }
}

/// The tests that did not do what they should, or whose outcome is unknown.
fn open_tests(report: &TestReport) -> impl Iterator<Item = &ReportedTest> {
    report.tests.iter().filter(|test| test.outcome.is_bad() || OPEN.contains(&test.outcome))
}

/// Outcomes that are not failures but make a report incomplete.
const OPEN: [TestOutcome; 2] = [TestOutcome::Unknown, TestOutcome::NotRun];

fn table(report: &TestReport) -> String {
    let count = open_tests(report).count();
    if count == 0 {
        return String::new();
    }
    let more = match count.saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("<p>{more} more did not pass.</p>\n"),
    };
    let rows = open_tests(report).take(LISTED).map(|test| {
        let message = test.last_message().unwrap_or_default();
        format!("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", test.outcome.word(), escape(&test.id), escape(message))
    });
    let rows: String = rows.collect();
    format!("<table>\n<tr><th>Outcome</th><th>Test</th><th>Reason</th></tr>\n{rows}</table>\n{more}")
}

/// Writes the data test by test, so that it is never in memory as a whole.
fn write_data(report: &TestReport, options: &ReportOptions, mut output: impl Write) -> io::Result<()> {
    let suites: Vec<String> = report.counts_by_suite().keys().map(ToString::to_string).collect();
    let runs: Vec<Value> = report.runs.iter().map(run).collect();
    let head = json!({
        "result": report.result(options).word(),
        "gaps": report.gaps(options),
        "counts": report.counts(),
        "groups": report.failure_groups(),
        "runner": sentence(report),
        "suites": suites,
        "runs": runs,
        "problems": report.problems.iter().map(|problem| problem.message.clone()).chain(report.selection_note()).collect::<Vec<_>>(),
        "outcomes": OUTCOMES.map(TestOutcome::word),
    });
    let text = serde_json::to_string(&head)?;
    output.write_all(text.trim_end_matches('}').as_bytes())?;
    output.write_all(b",\"tests\":[")?;
    for (number, test) in report.tests.iter().enumerate() {
        if number > 0 {
            output.write_all(b",\n")?;
        }
        let suite = suites.binary_search_by(|suite| suite.as_str().cmp(&test.suite)).unwrap_or_default();
        serde_json::to_writer(&mut output, &row(test, suite))?;
    }
    output.write_all(b"]}")
}

/// The outcomes, in the order in which the page offers them.
const OUTCOMES: [TestOutcome; 12] = [
    TestOutcome::Failed,
    TestOutcome::Error,
    TestOutcome::Crashed,
    TestOutcome::TimedOut,
    TestOutcome::OutOfMemory,
    TestOutcome::Unknown,
    TestOutcome::NotRun,
    TestOutcome::UnexpectedPass,
    TestOutcome::ExpectedFailure,
    TestOutcome::Skipped,
    TestOutcome::Deselected,
    TestOutcome::Passed,
];

fn number(outcome: TestOutcome) -> usize {
    OUTCOMES.iter().position(|known| *known == outcome).unwrap_or_default()
}

fn run(run: &ReportedRun) -> Value {
    let facts = run.facts.as_ref();
    json!({
        "path": run.path.display().to_string(),
        "sha256": run.sha256,
        "complete": run.complete,
        "started": run.started,
        "suite": facts.map(|facts| &facts.suite),
        "shard": facts.map(|facts| format!("{}/{}", facts.shard, facts.shards)),
        "machine": facts.map(|facts| &facts.machine),
        "gpus": facts.map(|facts| facts.gpus.iter().map(|(name, gpu)| {
            let target = gpu.get("target").map_or("", String::as_str);
            format!("{name} {target}").trim_end().to_owned()
        }).collect::<Vec<_>>()),
    })
}

/// Suite, identity, outcome, whether it is flaky, seconds, and the tries if they say more.
fn row(test: &ReportedTest, suite: usize) -> Value {
    let mut attempts = Vec::new();
    let says_more = test.attempts.iter().any(|attempt| {
        attempt.message.is_some() || attempt.output.is_some() || attempt.gpu.is_some() || attempt.run > 0
    });
    if test.attempts.len() > 1 || says_more {
        attempts = test
            .attempts
            .iter()
            .map(|attempt| {
                let ReportedAttempt { run, outcome, seconds, message, output, gpu, .. } = attempt;
                json!([number(*outcome), run, seconds, message, output.as_deref().map(without_escapes), gpu])
            })
            .collect();
    }
    json!([suite, test.id, number(test.outcome), u8::from(test.flaky), test.seconds(), attempts])
}

/// A text without the sequences that colour a terminal or make links in it (ECMA-48, CSI and OSC).
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letters.peek() {
            Some('[') if letter == '\u{1b}' => {
                letters.next();
                while letters.next().is_some_and(|letter| !('@'..='~').contains(&letter)) {}
            }
            // It ends with BEL or with ESC and a backslash; a line has no longer one.
            Some(']') if letter == '\u{1b}' => {
                while letters.next_if(|letter| !['\u{7}', '\u{1b}', '\n'].contains(letter)).is_some() {}
                if letters.next_if(|letter| *letter != '\n') == Some('\u{1b}') {
                    letters.next_if_eq(&'\\');
                }
            }
            _ => plain.push(letter),
        }
    }
    plain
}

/// JSON inside of a `script` element: `<` is only in texts there, and could end the element.
struct ScriptData<W> {
    inner: W,
}

impl<W: Write> Write for ScriptData<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (number, part) in bytes.split(|byte| *byte == b'<').enumerate() {
            if number > 0 {
                self.inner.write_all(b"\\u003c")?;
            }
            self.inner.write_all(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_data() {
        let mut output = Vec::new();
        ScriptData { inner: &mut output }.write_all(b"\"</script><!--\"").unwrap();
        assert_eq!(output, b"\"\\u003c/script>\\u003c!--\"");
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(without_escapes("a\u{1b}[31;1mb\u{1b}[0m\u{1b}c"), "ab\u{1b}c");
        let link = "\u{1b}]8;;https://example.org\u{1b}\\text\u{1b}]8;;\u{7}\nnext\u{1b}]open\nlast";
        assert_eq!(without_escapes(link), "text\nnext\nlast");
    }

    #[test]
    fn the_page_has_known_places_only() {
        let (mut rest, mut names) = (PAGE, Vec::new());
        while let Some((_, name, after)) = next_place(rest) {
            names.push(name);
            rest = after;
        }
        assert_eq!(names, ["policy", "title", "style", "title", "summary", "data", "script"]);
    }
}
