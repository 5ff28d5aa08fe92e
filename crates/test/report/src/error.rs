//! Errors of reports: everything else that is wrong is a problem in the report.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    #[error("`{}` does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file says nothing about the tests that there should be.
    #[error("`{}` does not say which tests are expected: {reason}", path.display())]
    Expectation { path: PathBuf, reason: String },
    /// A verdict cannot be made of these reports.
    #[error("no verdict can be made: {reason}")]
    Verdict {
        /// What it lacks.
        reason: String,
    },
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

impl Hint for ReportError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing { .. } => "name a run folder, a folder with reports, or a report".to_owned(),
            Self::Expectation { .. } => {
                "give a verdict of `test report --ids`, the output of `test report --json`, or a text file with the \
                 id of a test in each line"
                    .to_owned()
            }
            Self::Verdict { .. } => {
                "a verdict is about wheels: name them with `--wheel`, or give run folders of `rocwheel test`".to_owned()
            }
            _ => return None,
        })
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
