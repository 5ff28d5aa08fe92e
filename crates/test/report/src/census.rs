//! Input: a merged report, and the tests of an earlier one. Output: a short form of which tests
//! there were, and the tests that are absent now.
//!
//! A lost file, a process that died, a dry run and a forgotten `-k` all look like a shorter suite
//! in which everything passes. Only an earlier run says what it should have.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocwheel_attest::{InTotoStatement, STATEMENT_PAYLOAD, SignedEnvelope};
use rocwheel_progress::{counted, one_line};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::model::{ReportProblem, ReportedAttempt, ReportedTest, TestReport};
use crate::outcome::{TestAttempt, TestOutcome, sha256_of_ids};
use crate::{ReportError, ReportOptions};

/// Identities that a message names.
const EXAMPLES: usize = 3;

/// The tests of a suite that have an outcome, whatever it is; tests that were not run are not
/// among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteCensus {
    pub tests: u64,
    /// SHA-256 in hexadecimal of their sorted identities, each with a line feed behind it.
    pub sha256: String,
    /// The identities, sorted, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ids: Option<BTreeSet<String>>,
}

impl SuiteCensus {
    fn of(ids: BTreeSet<String>) -> SuiteCensus {
        let sha256 = sha256_of_ids(ids.iter().map(String::as_str));
        SuiteCensus { tests: ids.len() as u64, sha256, ids: Some(ids) }
    }
}

/// The tests that an earlier run had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedTests {
    /// The file that they are from.
    path: PathBuf,
    /// Those of each suite; of `None`, they may be in any suite.
    suites: BTreeMap<Option<String>, SuiteCensus>,
}

/// The parts of `test report --json` that say which tests there were.
#[derive(Deserialize)]
struct EarlierReport {
    tests: Vec<EarlierTest>,
}

#[derive(Deserialize)]
struct EarlierTest {
    suite: String,
    id: String,
    outcome: TestOutcome,
}

impl ExpectedTests {
    /// Reads a verdict, the output of `test report --json`, or a text file with an identity in each
    /// line. The signature of a verdict is not verified.
    pub fn read(path: &Path) -> Result<ExpectedTests, ReportError> {
        let bytes = fs_err::read(path).map_err(|source| ReportError::Read { path: path.to_owned(), source })?;
        let found = match serde_json::from_slice::<Value>(&bytes) {
            Ok(document @ Value::Object(_)) => suites_of_document(document, &bytes),
            Ok(_) => Err("it is JSON, but no object".to_owned()),
            Err(error) if bytes.trim_ascii_start().starts_with(b"{") => Err(error.to_string()),
            Err(_) => ids_of_lines(&bytes),
        };
        let suites = found.and_then(|suites| {
            let has_tests = suites.values().any(|census| census.tests > 0);
            if has_tests { Ok(suites) } else { Err("it has no test".to_owned()) }
        });
        let suites = suites.map_err(|reason| ReportError::Expectation { path: path.to_owned(), reason })?;
        Ok(ExpectedTests { path: path.to_owned(), suites })
    }
}

fn suites_of_document(document: Value, bytes: &[u8]) -> Result<BTreeMap<Option<String>, SuiteCensus>, String> {
    if let Some(report) = document.get("report") {
        let report = EarlierReport::deserialize(report).map_err(|error| error.to_string())?;
        let mut suites: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for test in report.tests.into_iter().filter(|test| test.outcome != TestOutcome::NotRun) {
            suites.entry(test.suite).or_default().insert(test.id);
        }
        return Ok(suites.into_iter().map(|(suite, ids)| (Some(suite), SuiteCensus::of(ids))).collect());
    }
    let statement = if document.get("payload").is_some() {
        let (_, payload) =
            SignedEnvelope::parse(bytes, "the envelope", STATEMENT_PAYLOAD).map_err(|error| error.to_string())?;
        serde_json::from_slice(&payload).map_err(|error| error.to_string())?
    } else {
        document
    };
    let statement = InTotoStatement::deserialize(statement)
        .map_err(|_| "it is neither a verdict nor the output of `test report --json`".to_owned())?;
    let Some(census) = statement.predicate.get("census") else {
        return Err("it is a verdict that does not say which tests there were".to_owned());
    };
    let census: BTreeMap<String, SuiteCensus> =
        BTreeMap::deserialize(census).map_err(|error| format!("its `census` is damaged: {error}"))?;
    Ok(census.into_iter().map(|(suite, census)| (Some(suite), census)).collect())
}

fn ids_of_lines(bytes: &[u8]) -> Result<BTreeMap<Option<String>, SuiteCensus>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is neither JSON nor text in UTF-8".to_owned())?;
    let lines = text.trim_start_matches('\u{feff}').lines().filter(|line| !line.trim().is_empty());
    Ok(BTreeMap::from([(None, SuiteCensus::of(lines.map(str::to_owned).collect()))]))
}

impl TestReport {
    /// The tests of each suite, by its name. `with_ids` keeps their identities.
    pub fn census(&self, with_ids: bool) -> BTreeMap<String, SuiteCensus> {
        let mut suites: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for test in self.tests.iter().filter(|test| test.outcome != TestOutcome::NotRun) {
            suites.entry(&test.suite).or_default().insert(test.id.clone());
        }
        let census = suites.into_iter().map(|(suite, ids)| {
            let census = SuiteCensus::of(ids);
            (suite.to_owned(), SuiteCensus { ids: census.ids.filter(|_| with_ids), ..census })
        });
        census.collect()
    }

    /// Adds the tests that an earlier run had and this one has not. They are not run, and results
    /// are missing, also if tests that were not run are accepted.
    pub fn expect(&mut self, expected: &ExpectedTests, options: &ReportOptions) {
        for (suite, census) in &expected.suites {
            match &census.ids {
                Some(ids) => self.expect_ids(&expected.path, suite.as_deref(), ids, options),
                None => self.expect_census(&expected.path, suite.as_deref().unwrap_or_default(), census),
            }
        }
    }

    fn expect_ids(&mut self, path: &Path, suite: Option<&str>, ids: &BTreeSet<String>, options: &ReportOptions) {
        let here = self.tests.iter().filter(|test| suite.is_none_or(|suite| *test.suite == *suite));
        let present: BTreeSet<&str> = here.map(|test| test.id.as_str()).collect();
        let absent: Vec<&String> = ids.iter().filter(|id| !present.contains(id.as_str())).collect();
        if absent.is_empty() {
            return;
        }
        let mut suites: BTreeSet<&str> = self.tests.iter().map(|test| &*test.suite).collect();
        let only = suites.pop_first().filter(|_| suites.is_empty());
        let name: Arc<str> = Arc::from(suite.or(options.suite.as_deref()).or(only).unwrap_or("tests"));
        let message = format!("`{}` has it, and no report does", path.display());
        let lost = format!(
            "{} of `{}` {} absent: {}",
            counted(absent.len() as u64, "test"),
            path.display(),
            if absent.len() == 1 { "is" } else { "are" },
            named(&absent)
        );
        self.tests.extend(absent.into_iter().map(|id| ReportedTest {
            suite: Arc::clone(&name),
            id: id.clone(),
            outcome: TestOutcome::NotRun,
            flaky: false,
            attempts: vec![ReportedAttempt::of(u32::MAX, TestAttempt::not_run(id, &message))],
        }));
        self.tests.sort_by(|one, other| (&one.suite, &one.id).cmp(&(&other.suite, &other.id)));
        self.lose(path, lost);
    }

    /// Compares numbers: without identities, the tests that are absent have no names.
    fn expect_census(&mut self, path: &Path, suite: &str, expected: &SuiteCensus) {
        let own = self.census(false).remove(suite);
        if own.as_ref().is_some_and(|own| own.sha256 == expected.sha256) {
            return;
        }
        let tests = own.map_or(0, |own| own.tests);
        let (shown, there) = (path.display(), counted(expected.tests, "test"));
        self.lose(
            path,
            match expected.tests.checked_sub(tests) {
                Some(fewer @ 1..) => {
                    format!(
                        "`{shown}` has {there} of `{suite}`, and now there are {tests}: at least {fewer} are absent"
                    )
                }
                _ => format!(
                    "`{suite}` has other tests than the {} of `{shown}`, which does not name them: whether some are \
                     absent cannot be told (a verdict with `--ids` names them)",
                    expected.tests
                ),
            },
        );
    }

    fn lose(&mut self, path: &Path, message: String) {
        self.problems.push(ReportProblem::losing(Some(path), message));
    }
}

/// The first of some identities.
pub(crate) fn named<T: AsRef<str>>(ids: &[T]) -> String {
    let first: Vec<String> = ids.iter().take(EXAMPLES).map(|id| format!("`{}`", one_line(id.as_ref()))).collect();
    format!("{}{}", first.join(", "), if ids.len() > EXAMPLES { ", …" } else { "" })
}
