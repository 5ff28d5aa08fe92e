//! Errors of benchmarks.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    #[error("cannot start `{program}`")]
    Start { program: String, source: std::io::Error },
    #[error("`{program}` ended with {status}{}", last.as_ref().map_or_else(String::new, |line| format!(": {line}")))]
    Failed {
        program: String,
        status: String,
        /// The last line that it wrote to stderr.
        last: Option<String>,
    },
    #[error("`{program}` ran longer than {seconds} s and was ended")]
    TimedOut { program: String, seconds: u64 },
    /// The output has no measurements.
    #[error("`{name}` has no measurements: {reason}")]
    Output {
        name: String,
        /// The fault, with the benchmark or field that has it.
        reason: String,
    },
    #[error("cannot use `{}`", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A line of a history is no record.
    #[error("line {line} of `{}` is no record: {reason}", path.display())]
    Record {
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault, with the benchmark or field that has it.
        reason: String,
    },
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

impl Hint for BenchError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Output { .. } => {
                "print JSON such as `[{\"name\": \"add\", \"unit\": \"us\", \"value\": 1.5}]`, or CSV \
                                    with the columns `name` and `value` (docs/testing.md)"
                    .to_owned()
            }
            Self::Record { .. } => "remove the line, or restore the file from a copy".to_owned(),
            Self::TimedOut { .. } => "`--timeout` sets the limit of one run".to_owned(),
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
