//! Errors of benchmarks.

use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

/// Errors of [`bench`](crate::bench).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The program cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// Its name.
        program: String,
        /// The underlying error.
        source: std::io::Error,
    },
    /// The program failed.
    #[error("`{program}` ended with {status}{}", last.as_ref().map_or_else(String::new, |line| format!(": {line}")))]
    Failed {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// The last line that it wrote to stderr.
        last: Option<String>,
    },
    /// The program ran longer than it may.
    #[error("`{program}` ran longer than {seconds} s and was ended")]
    TimedOut {
        /// Its name.
        program: String,
        /// The limit.
        seconds: u64,
    },
    /// The output has no measurements.
    #[error("`{name}` has no measurements: {reason}")]
    Output {
        /// The program or file.
        name: String,
        /// The fault, with the benchmark or field that has it.
        reason: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use `{}`", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The underlying error.
        source: std::io::Error,
    },
    /// A line of a history is no record.
    #[error("line {line} of `{}` is no record: {reason}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The fault, with the benchmark or field that has it.
        reason: String,
    },
    /// The user stopped the work.
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
