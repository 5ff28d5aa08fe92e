//! Input: what a program printed in the Test Anything Protocol, version 12 to 14. Output: its
//! tests, and what is missing of those that it planned.

use rocwheel_progress::counted;

use crate::foreign_report::{ForeignReport, ForeignTest};
use crate::outcome::TestOutcome;

/// A file or an output that was read.
#[derive(Debug, Default)]
struct TapReader {
    tests: Vec<ForeignTest>,
    planned: Option<u64>,
    /// Sentences about results that are missing.
    lost: Vec<String>,
    /// The plan says that all tests are skipped.
    is_skipped: bool,
}

/// Reads a text. Lines that are not of the protocol are what the tests print.
pub(crate) fn read(text: &str) -> ForeignReport {
    let mut reader = TapReader::default();
    for line in text.lines() {
        reader.line(line.trim_end());
    }
    reader.finish()
}

/// `true` for an output in which something is planned, ended or given up in this protocol.
pub(crate) fn is_tap(text: &str) -> bool {
    has_plan(text) || text.lines().any(|line| TapLine::read(line).is_some())
}

/// `true` for an output in which tests are planned or given up.
pub(crate) fn has_plan(text: &str) -> bool {
    text.lines().any(|line| plan(line).is_some() || line.starts_with(BAIL_OUT))
}

const BAIL_OUT: &str = "Bail out!";

impl TapReader {
    fn line(&mut self, line: &str) {
        // A subtest is indented, and its end is a line of the test around it.
        if let Some(reason) = line.strip_prefix(BAIL_OUT) {
            self.lost.push(format!("bails out:{}", if reason.trim().is_empty() { " no reason" } else { reason }));
        } else if let Some(number) = plan(line) {
            if self.planned.replace(number).is_some_and(|earlier| earlier != number) {
                self.lost.push("has two plans".to_owned());
            }
            self.is_skipped |= number == 0 && line.to_ascii_lowercase().contains("# skip");
        } else if let Some(test) = TapLine::read(line) {
            self.tests.push(test.into_test(self.tests.len() as u64 + 1, &mut self.lost));
        }
    }

    fn finish(mut self) -> ForeignReport {
        let found = self.tests.len() as u64;
        match self.planned {
            Some(planned) if planned != found => {
                self.lost.push(format!("plans {} and has {found}", counted(planned, "test")));
            }
            None if found > 0 => self.lost.push("has no plan, so nobody knows how many tests there are".to_owned()),
            _ => {}
        }
        if self.is_skipped && found == 0 {
            self.tests.push(ForeignTest::new("all tests", TestOutcome::Skipped, None));
        }
        ForeignReport { tests: self.tests, lost: self.lost, ..ForeignReport::new("") }
    }
}

/// The number of tests in `1..N`.
fn plan(line: &str) -> Option<u64> {
    line.strip_prefix("1..")?.split_whitespace().next()?.parse().ok()
}

/// `not ok 2 - name # TODO reason`.
struct TapLine<'a> {
    is_ok: bool,
    number: Option<u64>,
    name: &'a str,
    directive: &'a str,
}

impl<'a> TapLine<'a> {
    fn read(line: &'a str) -> Option<TapLine<'a>> {
        let (is_ok, rest) = match line.strip_prefix("not ok") {
            Some(rest) => (false, rest),
            None => (true, line.strip_prefix("ok")?),
        };
        if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
            return None;
        }
        let rest = rest.trim_start();
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (number, rest) = rest.split_at(digits);
        let rest = rest.trim_start();
        let (name, directive) =
            rest.split_once(" #").or_else(|| Some(("", rest.strip_prefix('#')?))).unwrap_or((rest, ""));
        let name = name.strip_prefix("- ").unwrap_or(name).trim();
        Some(TapLine { is_ok, number: number.parse().ok(), name, directive: directive.trim() })
    }

    fn into_test(self, expected: u64, lost: &mut Vec<String>) -> ForeignTest {
        if self.number.is_some_and(|number| number != expected) {
            lost.push(format!("has the test {} where {expected} should be", self.number.unwrap_or_default()));
        }
        let word = self.directive.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        // Tools write `SKIP:`, `skipped` and `Todo`.
        let outcome = match self.is_ok {
            _ if word.starts_with("SKIP") => TestOutcome::Skipped,
            false if word.starts_with("TODO") => TestOutcome::ExpectedFailure,
            true if word.starts_with("TODO") => TestOutcome::UnexpectedPass,
            true => TestOutcome::Passed,
            false => TestOutcome::Failed,
        };
        let id = if self.name.is_empty() { format!("test {expected}") } else { self.name.to_owned() };
        let reason = self.directive.split_once(char::is_whitespace).map(|(_, reason)| reason.trim().to_owned());
        let message = reason.filter(|reason| !reason.is_empty());
        ForeignTest::new(id, outcome, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_to_be_kept() {
        for (text, expected) in [
            ("1..2\nok 1 - a\nok 2 - b # SKIP no GPU\n", vec![]),
            ("TAP version 14\nok\n# noise\nnot ok # TODO later\n1..2\n", vec![]),
            ("1..0 # SKIP no GPU\n", vec![]),
            ("1..3\nok 1 - a\n", vec!["plans 3 tests and has 1"]),
            ("1..1\nok 1\nok 2\n", vec!["plans 1 test and has 2"]),
            ("ok 1\n", vec!["has no plan, so nobody knows how many tests there are"]),
            ("1..2\nok 1\nBail out! no GPU\n", vec!["bails out: no GPU", "plans 2 tests and has 1"]),
            ("1..2\nok 1\nok 1\n", vec!["has the test 1 where 2 should be"]),
            ("1..2\nok 1 a\nnot ok 3 skip # SKIP no", vec!["has the test 3 where 2 should be"]),
        ] {
            assert_eq!(read(text).lost, expected, "{text}");
        }
    }

    #[test]
    fn directives_are_expectations() {
        use TestOutcome::{ExpectedFailure, Failed, Passed, Skipped, UnexpectedPass};
        let text = "1..6\nok 1 - a\nnot ok 2 - b\nnot ok 3 c # TODO x\nok 4 # todo\n  ok 9 - inner\nok 5 # skipped: y\nok 6 - x#y\n";
        let report = read(text);
        let found: Vec<_> = report.tests.iter().map(|test| (test.id.as_str(), test.attempt.outcome)).collect();
        assert_eq!(
            found,
            [
                ("a", Passed),
                ("b", Failed),
                ("c", ExpectedFailure),
                ("test 4", UnexpectedPass),
                ("test 5", Skipped),
                ("x#y", Passed)
            ]
        );
        assert!(report.lost.is_empty());
        assert!(!is_tap("okay\nnothing 1..2"));
    }
}
