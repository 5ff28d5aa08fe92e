//! Input: test cases of one name in a file of pytest. Output: one test with all its tries, if they
//! are tries of one.

use super::Merger;
use crate::outcome::TestOutcome;

/// The reason of a try that has none in the file.
const RUN_AGAIN: &str = "pytest ran it again after this try, and wrote no reason";

impl Merger {
    /// Joins the test cases of one name in the current file. With pytest-rerunfailures, pytest
    /// writes each try as a test case, and announces only the last one, which has the outcome. Two
    /// tests of one name are both announced, and stay two.
    pub(super) fn join_reruns(&mut self, announced: u64) {
        let repeats: u64 = self.repeats.values().map(|count| u64::from(*count) - 1).sum();
        if repeats == 0 || self.placed.checked_sub(repeats) != Some(announced) {
            return;
        }
        let run = self.run_number();
        for (first, count) in std::mem::take(&mut self.repeats) {
            let (suite, id) = (self.tests[first].suite.to_string(), self.tests[first].id.clone());
            for number in 2..=count {
                let Some(index) = self.index(&suite, &format!("{id}#{number}")) else { continue };
                let repeat = &mut self.tests[index].attempts;
                let at = repeat.iter().position(|attempt| attempt.run == run).unwrap_or(repeat.len());
                let later = repeat.split_off(at);
                let tries = &mut self.tests[first].attempts;
                for earlier in tries.iter_mut().filter(|one| one.run == run && one.outcome == TestOutcome::Passed) {
                    earlier.outcome = TestOutcome::Failed;
                    earlier.message = Some(RUN_AGAIN.to_owned());
                }
                tries.extend(later);
            }
            let tries = self.tests[first].attempts.iter_mut().filter(|attempt| attempt.run == run);
            for (number, attempt) in (1..).zip(tries) {
                attempt.attempt = number;
            }
        }
    }
}
