//! Input: a merged report. Output: junit XML as cargo-nextest writes it: tries that failed before a
//! pass are `flakyFailure`, and those before a failure `rerunFailure`.
//!
//! nextest's crate quick-junit is not used. It takes tabs and escapes out of names, by which a test
//! is known again, leaves characters that XML 1.0 cannot have, and needs a copy of the whole
//! report.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::model::{ReportedAttempt, ReportedTest, TestReport};
use crate::outcome::TestOutcome;

/// The name of our files, by which they are recognised.
pub(crate) const OWN_NAME: &str = "rocwheel test";
/// The suite of missing results: XML can mark an incomplete report only with a test that is not a
/// pass.
const MISSING: &str = "missing results";

pub fn write_junit(report: &TestReport, output: impl Write) -> io::Result<()> {
    let mut writer = Writer::new_with_indent(output, b' ', 1);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let mut suites: BTreeMap<&Arc<str>, Vec<&ReportedTest>> = BTreeMap::new();
    for test in &report.tests {
        suites.entry(&test.suite).or_default().push(test);
    }
    let missing: Vec<&str> =
        report.problems.iter().filter(|problem| problem.loses_results).map(|problem| &*problem.message).collect();
    let of_missing = Totals { tests: missing.len() as u64, errors: missing.len() as u64, ..Totals::default() };
    let mut all = Totals::of(report.tests.iter());
    all.tests += of_missing.tests;
    all.errors += of_missing.errors;
    let root = all
        .attributes()
        .into_iter()
        .fold(writer.create_element("testsuites").with_attribute(("name", OWN_NAME)), |element, (name, value)| {
            element.with_attribute((name, value.as_str()))
        });
    root.write_inner_content(|writer| {
        for (name, tests) in suites {
            let totals = Totals::of(tests.iter().copied()).attributes();
            let element = writer.create_element("testsuite").with_attribute(("name", clean(name).as_str()));
            let element = totals
                .into_iter()
                .fold(element, |element, (name, value)| element.with_attribute((name, value.as_str())));
            element.write_inner_content(|writer| tests.iter().try_for_each(|test| write_case(test, writer)))?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let element = writer.create_element("testsuite").with_attribute(("name", MISSING));
        let element = of_missing
            .attributes()
            .into_iter()
            .fold(element, |element, (name, value)| element.with_attribute((name, value.as_str())));
        element.write_inner_content(|writer| missing.iter().try_for_each(|message| write_missing(message, writer)))?;
        Ok(())
    })?;
    let mut output = writer.into_inner();
    output.write_all(b"\n")?;
    output.flush()
}

#[derive(Default)]
struct Totals {
    tests: u64,
    failures: u64,
    errors: u64,
    skipped: u64,
    seconds: f64,
}

impl Totals {
    fn of<'a>(tests: impl Iterator<Item = &'a ReportedTest>) -> Totals {
        let mut totals = Totals::default();
        for test in tests {
            totals.tests += 1;
            totals.seconds += test.seconds().unwrap_or_default();
            match element(test.outcome) {
                Some("failure") => totals.failures += 1,
                Some("error") => totals.errors += 1,
                Some(_) => totals.skipped += 1,
                None => {}
            }
        }
        totals
    }

    fn attributes(&self) -> [(&'static str, String); 5] {
        [
            ("tests", self.tests.to_string()),
            ("failures", self.failures.to_string()),
            ("errors", self.errors.to_string()),
            ("skipped", self.skipped.to_string()),
            ("time", format!("{:.3}", self.seconds)),
        ]
    }
}

/// The child that an outcome is written as. A test that was not run, or whose end is unknown, is
/// an error: readers of XML know no other word that is not a pass.
fn element(outcome: TestOutcome) -> Option<&'static str> {
    match outcome {
        TestOutcome::Passed | TestOutcome::UnexpectedPass => None,
        TestOutcome::Failed => Some("failure"),
        TestOutcome::Error
        | TestOutcome::Crashed
        | TestOutcome::TimedOut
        | TestOutcome::OutOfMemory
        | TestOutcome::Unknown
        | TestOutcome::NotRun => Some("error"),
        TestOutcome::Skipped | TestOutcome::Deselected | TestOutcome::ExpectedFailure => Some("skipped"),
    }
}

fn write_case<W: Write>(test: &ReportedTest, writer: &mut Writer<W>) -> io::Result<()> {
    let (class, name) = divided(&test.id, &test.suite);
    let (class, name) = (clean(class), clean(name));
    let time = format!("{:.3}", test.seconds().unwrap_or_default());
    let case = writer
        .create_element("testcase")
        .with_attribute(("name", name.as_str()))
        .with_attribute(("classname", class.as_str()))
        .with_attribute(("time", time.as_str()));
    // A pass has no child that could say it.
    let case = match test.outcome {
        TestOutcome::UnexpectedPass => case.with_attribute(("status", test.outcome.word())),
        _ => case,
    };
    let Some((last, earlier)) = last_of(test) else {
        return case.write_empty().map(drop);
    };
    case.write_inner_content(|writer| {
        if let Some(child) = element(test.outcome) {
            write_child(child, test.outcome, last, writer)?;
        }
        let retry = if test.outcome.is_bad() { "rerunFailure" } else { "flakyFailure" };
        for attempt in earlier.iter().filter(|attempt| attempt.outcome.is_bad()) {
            write_child(retry, attempt.outcome, attempt, writer)?;
        }
        if element(test.outcome).is_none()
            && let Some(output) = &last.output
        {
            writer.create_element("system-out").write_text_content(BytesText::new(&clean(output)))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn write_missing<W: Write>(message: &str, writer: &mut Writer<W>) -> io::Result<()> {
    let message = clean(message);
    let case = writer.create_element("testcase").with_attribute(("name", &*message));
    case.with_attribute(("classname", MISSING)).write_inner_content(|writer| {
        let error = writer.create_element("error").with_attribute(("type", TestOutcome::NotRun.word()));
        error.with_attribute(("message", &*message)).write_empty().map(drop)
    })?;
    Ok(())
}

/// The try that decided, and all others.
fn last_of(test: &ReportedTest) -> Option<(&ReportedAttempt, Vec<&ReportedAttempt>)> {
    let at = test.attempts.iter().rposition(|attempt| attempt.outcome == test.outcome)?;
    let others = test.attempts.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, attempt)| attempt);
    Some((&test.attempts[at], others.collect()))
}

fn write_child<W: Write>(
    name: &str,
    outcome: TestOutcome,
    attempt: &ReportedAttempt,
    writer: &mut Writer<W>,
) -> io::Result<()> {
    let message = clean(attempt.message.as_deref().unwrap_or_default());
    let element = writer
        .create_element(name)
        .with_attribute(("type", outcome.word()))
        .with_attribute(("message", message.as_str()));
    match &attempt.output {
        Some(output) => element.write_text_content(BytesText::new(&clean(output))).map(drop),
        None => element.write_empty().map(drop),
    }
}

/// A class and a name: XML has two places for an identity. The suite is the class of a test
/// without one.
fn divided<'a>(id: &'a str, suite: &'a str) -> (&'a str, &'a str) {
    // A parameter of pytest may have `::` in it.
    let end = id.find('[').unwrap_or(id.len());
    let parts = id[..end].rfind("::").map(|at| (&id[..at], &id[at + 2..]));
    parts.filter(|(class, _)| !class.is_empty() && *class != suite).unwrap_or((suite, id))
}

/// The identity of which [`divided`] made the class and the name.
pub(crate) fn own_id(class: &str, name: &str, suite: &str) -> String {
    if class == suite { name.to_owned() } else { format!("{class}::{name}") }
}

/// A text without the characters that XML 1.0 cannot have, even as references.
fn clean(text: &str) -> String {
    let letters = text.chars().map(|letter| match letter {
        '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => letter,
        _ => '\u{fffd}',
    });
    letters.collect()
}
