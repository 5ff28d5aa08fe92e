//! Input: test cases of one name in one file. Output: one test with all its tries, if its runner
//! tries tests again.

use std::path::Path;

use rocwheel_progress::counted;

use super::Merger;
use crate::model::ReportedAttempt;
use crate::outcome::TestOutcome;

/// The reason of a try that has none in the file.
const RUN_AGAIN: &str = "pytest ran it again after this try, and wrote no reason";

/// What one test case of a file says: the tries in it.
type CaseTries = Vec<ReportedAttempt>;

impl Merger {
    /// Joins the test cases of one name that pytest wrote. pytest-rerunfailures writes each try as
    /// a test case, and that of a try which it repeats has no outcome in it. So a case without one
    /// is a failed try if another case of the same name follows, whatever the file announces: its
    /// numbers count subtests and clean-ups, too. A case that says how it ended is a test.
    ///
    /// `false` if the file has more tests than it announces.
    pub(super) fn join_reruns_of_pytest(&mut self, announced: Option<u64>, path: &Path) -> bool {
        let mut tests = self.placed;
        for (first, count) in std::mem::take(&mut self.repeats) {
            let cases = self.take_cases(first, count);
            let mut joined: Vec<CaseTries> = Vec::new();
            let mut tries = CaseTries::new();
            let last = cases.len().saturating_sub(1);
            for (number, case) in cases.into_iter().enumerate() {
                let says_nothing = case.iter().all(|attempt| attempt.outcome == TestOutcome::Passed);
                tries.extend(case);
                if number == last || !says_nothing {
                    joined.push(std::mem::take(&mut tries));
                    continue;
                }
                tests -= 1;
                if let Some(attempt) = tries.last_mut() {
                    attempt.outcome = TestOutcome::Failed;
                    attempt.message = Some(RUN_AGAIN.to_owned());
                }
            }
            self.put_cases(first, joined);
        }
        let Some(announced) = announced.filter(|announced| *announced < tests) else { return true };
        let words = format!("announces {} and has {tests}", counted(announced, "test"));
        self.lost(Some(path), format!("`{}` {words}", path.display()));
        false
    }

    /// Joins the test cases of one name of Go, if gotestsum ran the tests again that had failed
    /// (`--rerun-fails`). With `-count` every test is repeated, and each time counts.
    pub(super) fn join_reruns_of_go(&mut self) {
        let in_repeats: u64 = self.repeats.values().map(|count| u64::from(*count)).sum();
        let has_single = self.placed > in_repeats;
        for (first, count) in std::mem::take(&mut self.repeats) {
            let cases = self.take_cases(first, count);
            let last = cases.len().saturating_sub(1);
            let failed_before = cases[..last].iter().flatten().all(|attempt| attempt.outcome.is_bad());
            let joined = if has_single && failed_before { vec![cases.concat()] } else { cases };
            self.put_cases(first, joined);
        }
    }

    /// Takes what the current file says of one name: `first` is its test, and the others are named
    /// by their number.
    fn take_cases(&mut self, first: usize, count: u32) -> Vec<CaseTries> {
        let run = self.run_number();
        let mut cases = Vec::new();
        for number in 1..=count {
            let Some(index) = self.numbered(first, number) else { break };
            let attempts = &mut self.tests[index].attempts;
            let at = attempts.iter().position(|attempt| attempt.run == run).unwrap_or(attempts.len());
            cases.push(attempts.split_off(at));
        }
        cases
    }

    fn put_cases(&mut self, first: usize, cases: Vec<CaseTries>) {
        for (number, mut tries) in (1..).zip(cases) {
            let Some(index) = self.numbered(first, number) else { return };
            for (number, attempt) in (1..).zip(&mut tries) {
                attempt.attempt = number;
            }
            self.tests[index].attempts.extend(tries);
        }
    }

    /// The test of the case with a number among those of one name.
    fn numbered(&mut self, first: usize, number: u32) -> Option<usize> {
        if number == 1 {
            return Some(first);
        }
        let (suite, id) = (self.tests[first].suite.to_string(), format!("{}#{number}", self.tests[first].id));
        self.index(&suite, &id)
    }
}
