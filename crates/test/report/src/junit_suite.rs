//! A suite in junit XML: what it announces, what is in it, and where they disagree.

use rocwheel_progress::counted;

use crate::junit_case::{BoundedText, CaseChild};
use crate::junit_dialect::{CountedTests, JunitDialect};
use crate::outcome::TestOutcome;
use crate::vocabulary::{case_word_outcome, suite_words};
use crate::xml_attributes::XmlAttributes;

/// Attributes that count tests which are not passes.
const TROUBLES: [&str; 17] = [
    "failed",
    "error",
    "broken",
    "killed",
    "blocked",
    "disabled",
    "unknown",
    "warnings",
    "incomplete",
    "risky",
    "aborted",
    "timeouts",
    "crashed",
    "not-run",
    "notrun",
    "inconclusive",
    "invalid",
];

/// A suite or the root that has not ended.
#[derive(Debug, Default)]
pub(crate) struct OpenSuite {
    pub(crate) name: String,
    pub(crate) is_root: bool,
    pub(crate) announced: Option<u64>,
    /// Failures and errors together: dialects disagree about which is which.
    announced_bad: Option<u64>,
    pub(crate) announced_skips: Option<u64>,
    /// Other numbers of tests that are not passes.
    troubles: Vec<(&'static str, u64)>,
    /// Those of [`suite_words`].
    outcome_words: Vec<String>,
    /// Who wrote the last test case in it.
    pub(crate) dialect: Option<JunitDialect>,
    pub(crate) seen: u64,
    /// Cases and suites directly in it, which Node announces.
    pub(crate) children: u64,
    /// Tries of its cases beside those that count.
    pub(crate) retries: u64,
    /// Failures, errors and tries that failed; surefire counts each of them.
    pub(crate) bad: u64,
    /// Suites in it with a failure, which Node counts as failures.
    bad_suites: u64,
    /// Skipped tests that it announces without test cases.
    pub(crate) missing_skips: u64,
    /// Elements that say that a test was skipped.
    pub(crate) skip_children: u64,
    /// Cases that ended with such an element.
    skipped: u64,
    /// Cases of which only an attribute says that they were skipped.
    skipped_by_word: u64,
    /// Cases that are not passes.
    not_passed: u64,
    /// What it printed itself.
    pub(crate) output: BoundedText,
}

impl OpenSuite {
    /// Opens a suite; the sentences are about attributes that are not numbers.
    pub(crate) fn named(name: String, attributes: &XmlAttributes) -> (OpenSuite, Vec<String>) {
        let mut wrong = Vec::new();
        let bad = ["failures", "errors"].map(|key| number(attributes, key, &mut wrong));
        let troubles = TROUBLES.iter().filter_map(|key| Some((*key, number(attributes, key, &mut wrong)?)));
        let troubles: Vec<(&'static str, u64)> = troubles.collect();
        let suite = OpenSuite {
            announced: number(attributes, "tests", &mut wrong),
            announced_bad: bad.iter().flatten().copied().reduce(u64::saturating_add),
            // nose and old pytest write other names.
            announced_skips: ["skipped", "skips", "skip"]
                .into_iter()
                .find_map(|key| number(attributes, key, &mut wrong)),
            troubles,
            outcome_words: suite_words(attributes),
            name,
            ..OpenSuite::default()
        };
        let place = if suite.name.is_empty() { "a suite".to_owned() } else { format!("`{}`", suite.name) };
        (suite, wrong.into_iter().map(|wrong| format!("{place} {wrong}")).collect())
    }

    /// The suite in messages.
    fn words(&self) -> String {
        if self.is_root { "the file".to_owned() } else { format!("the suite `{}`", self.name) }
    }

    /// `true` if it says that nothing failed.
    pub(crate) fn announces_no_failure(&self) -> bool {
        self.announced_bad == Some(0)
    }

    /// Notes how a test case in it ended: the outcome, and the element that decided.
    pub(crate) fn note(&mut self, outcome: Option<TestOutcome>, end: Option<CaseChild>) {
        use TestOutcome::{Deselected, ExpectedFailure, NotRun, Passed, Skipped, UnexpectedPass};
        let Some(outcome) = outcome else { return };
        self.not_passed += u64::from(!matches!(outcome, Passed | UnexpectedPass));
        match (end, outcome) {
            // Tests that were not run have the element, and behave does not count them.
            (Some(CaseChild::Skipped), Skipped | ExpectedFailure) => self.skipped += 1,
            (None, Skipped | Deselected | NotRun) => self.skipped_by_word += 1,
            _ => {}
        }
    }

    pub(crate) fn add(&mut self, inner: &OpenSuite) {
        self.seen += inner.seen;
        self.children += 1;
        self.retries += inner.retries;
        self.bad += inner.bad;
        self.bad_suites += inner.bad_suites + u64::from(inner.bad > 0);
        self.skip_children += inner.skip_children;
        self.skipped += inner.skipped;
        self.skipped_by_word += inner.skipped_by_word;
        self.not_passed += inner.not_passed;
        self.dialect = inner.dialect.or(self.dialect);
    }

    /// A sentence if more failures are announced than there are.
    pub(crate) fn lost_failures(&self, announced: u64) -> Option<String> {
        // Node counts groups with a failure in them.
        let groups = if self.dialect() == JunitDialect::Node { self.bad_suites } else { 0 };
        (announced > self.bad + groups)
            .then(|| format!("{} announces {} and has {}", self.words(), counted(announced, "failure"), self.bad))
    }

    fn dialect(&self) -> JunitDialect {
        self.dialect.unwrap_or_default()
    }

    /// `true` if the number of tests that is announced fits those that there are.
    fn may_announce(&self, announced: u64) -> bool {
        match self.dialect().counted_tests() {
            CountedTests::OtherThings => true,
            CountedTests::Children => [self.seen, self.children].contains(&announced),
            CountedTests::WithMissingSkips if self.is_root => self.seen + self.missing_skips == announced,
            CountedTests::WithMissingSkips => self.seen <= announced,
            // Surefire announces every try as a test.
            CountedTests::Cases => [self.seen, self.seen + self.retries].contains(&announced),
        }
    }

    /// Sentences about what is announced and what is there.
    pub(crate) fn disagreements(&self) -> Vec<String> {
        let mut found = Vec::new();
        found.extend(self.lost_failures(self.announced_bad.unwrap_or_default()));
        if let Some(announced) = self.announced.filter(|announced| !self.may_announce(*announced)) {
            found.push(format!("{} announces {} and has {}", self.words(), counted(announced, "test"), self.seen));
        }
        let most = self.skip_children + self.skipped_by_word + self.missing_skips;
        if let Some(announced) = self.announced_skips
            && self.dialect().counts_skips()
            && !(self.skipped.min(most)..=most).contains(&announced)
        {
            let words = counted(announced, "skipped test");
            found.push(format!("{} announces {words} and has {most}", self.words()));
        }
        for (key, announced) in self.troubles.iter().filter(|(_, count)| *count > self.not_passed) {
            let words = self.words();
            found.push(format!("{words} announces `{key}` {announced}, and {} did not pass", self.not_passed));
        }
        for word in &self.outcome_words {
            match case_word_outcome(word) {
                TestOutcome::Passed => {}
                TestOutcome::Unknown => found.push(format!("{} says `{word}`, which is not known", self.words())),
                _ if self.not_passed > 0 => {}
                _ => found.push(format!("{} says `{word}`, and all tests in it passed", self.words())),
            }
        }
        found
    }
}

/// The number in an attribute; any other text is noted.
fn number(attributes: &XmlAttributes, key: &str, wrong: &mut Vec<String>) -> Option<u64> {
    let text = attributes.find(key)?.trim();
    let number = text.parse().ok();
    if number.is_none() && !text.is_empty() {
        wrong.push(format!("announces `{key}` as `{text}`, which is no number"));
    }
    number
}
