//! Input: how the program ended that wrote reports. Output: whether that contradicts them.
//!
//! Frameworks say some failures only with their exit code: a clean-up that throws, a worker that
//! was killed, a file that cannot be compiled. Their reports have no trace of it.

use serde::Serialize;

use super::ReportOptions;
use super::model::{ReportForm, ReportProblem, ReportedRun, TestReport};
use crate::supervisor::ProgramEnd;

/// How the runner of the tests ended: the program that wrote the reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum RunnerEnd {
    /// Nobody has said it.
    #[default]
    Unknown,
    /// rocwheel ran the tests, and its events say how their processes ended.
    Supervised,
    /// It exited with this code.
    Exited {
        /// 0 if the runner says that all is well.
        code: u32,
    },
    /// A signal ended it.
    Killed {
        /// The number of the signal.
        signal: i32,
    },
    /// It ran longer than it may and was ended.
    TimedOut {
        /// The limit.
        seconds: u64,
    },
}

impl RunnerEnd {
    /// What the reports themselves say: only runs of ours say how they ended.
    pub(super) fn of_runs(runs: &[ReportedRun]) -> RunnerEnd {
        let is_ours = |run: &ReportedRun| run.form == ReportForm::Events;
        if !runs.is_empty() && runs.iter().all(is_ours) { Self::Supervised } else { Self::Unknown }
    }

    /// `true` if its end says that something went wrong.
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Unknown | Self::Supervised | Self::Exited { code: 0 })
    }

    /// A clause without its stop: `the runner exited with code 1`.
    pub fn words(self) -> String {
        match self {
            Self::Unknown => "the exit code of the runner is not known".to_owned(),
            Self::Supervised => "the tests ran under rocwheel".to_owned(),
            Self::Exited { code } => format!("the runner exited with code {code}"),
            Self::Killed { signal } => format!("the runner {}", ProgramEnd::Signal(signal).words()),
            Self::TimedOut { seconds } => format!("the runner ran longer than {seconds} s and was ended"),
        }
    }
}

impl TestReport {
    /// Notes how the runner ended. If it ended badly and no test failed, what went wrong is in no
    /// report.
    pub fn set_runner(&mut self, runner: RunnerEnd, options: &ReportOptions) {
        if runner == RunnerEnd::Unknown {
            return;
        }
        self.runner = runner;
        if runner.is_bad() && self.failures(options).next().is_none() {
            let message = format!("{}, and no test failed in the reports: they lack what went wrong", runner.words());
            self.problems.push(ReportProblem { path: None, message, loses_results: true });
        }
    }
}
