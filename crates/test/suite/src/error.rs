//! What ends a run, or keeps it from beginning.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint, Interrupted};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    #[error("`{}` has no pytest", python.display())]
    NoPytest { python: PathBuf },
    /// pytest or Python is older than what the plugin needs.
    #[error("`{}` has {found}, which is too old", python.display())]
    Old {
        python: PathBuf,
        /// `pytest 6.2` or `Python 3.9`.
        found: String,
    },
    /// The Python does not answer.
    #[error("`{}` does not work as a Python: {said}", python.display())]
    NoPython {
        python: PathBuf,
        /// The end of what it printed.
        said: String,
    },
    /// The runner refuses a path, or the options behind `--`.
    #[error("{runner} refuses its command line: {said}")]
    Options { runner: &'static str, said: String },
    /// An option behind `--` with which the runner would not run the tests as rocwheel asks.
    #[error("`{option}` cannot be passed to pytest: {reason}")]
    Forbidden {
        option: String,
        /// What it would break.
        reason: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// A file of PyTorch's tests is absent.
    #[error("`{}` does not exist", path.display())]
    NoTestFile { path: PathBuf },
    /// The name of the suite cannot be the name of a folder.
    #[error("`{suite}` is no name of a suite")]
    Name { suite: String },
    #[error("the tests cannot be listed: {reason}")]
    Collect { reason: String },
    /// There are no sample computations of a package.
    #[error("there are no tests of `{name}`")]
    UnknownPackage {
        name: String,
        /// The packages that have some.
        known: Vec<String>,
    },
    /// The text of `-k` is no expression.
    #[error("`-k {text}` is not an expression of names")]
    NameExpression { text: String },
    /// `-k` selects nothing.
    #[error("`-k {text}` selects none of {count} tests")]
    NoneSelected { text: String, count: usize },
    /// The tests are of another commit than the installed package.
    #[error("the tests in `{}` are of commit {found}, and the installed torch is of {installed}", folder.display())]
    OtherCommit {
        folder: PathBuf,
        found: String,
        /// The commit in `torch/version.py`.
        installed: String,
    },
    /// The commit of the tests or of the package is not known.
    #[error("it is not known whether the tests in `{}` belong to the installed torch: {reason}", folder.display())]
    UnknownCommit {
        folder: PathBuf,
        /// What is missing.
        reason: String,
    },
}

impl Hint for SuiteError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Io(_) | Self::Interrupted(_) => return None,
            Self::NoPytest { python } => {
                format!(
                    "install it: `{} -m pip install pytest`",
                    rocwheel_progress::shell_word(&python.to_string_lossy())
                )
            }
            Self::Old { .. } => "pytest 7 and Python 3.10 are the oldest that work".to_owned(),
            Self::NoPython { .. } => "name a Python with `--python`, such as `.venv/bin/python`".to_owned(),
            Self::Options { .. } => "correct the paths, or the options behind `--`".to_owned(),
            Self::Forbidden { instead, .. } => format!("use `{instead}`"),
            Self::NoTestFile { .. } => "name files of PyTorch's `test` folder: test_nn, nn/test_pooling".to_owned(),
            Self::Name { .. } => "letters, digits, `-`, `_` and `.` are allowed".to_owned(),
            Self::Collect { .. } => "run the tests without rocwheel once to see more".to_owned(),
            Self::UnknownPackage { known, .. } => format!("name some of `{}`", known.join("`, `")),
            Self::NameExpression { .. } | Self::NoneSelected { .. } => {
                "parts of names, joined by `and`, `or`, `not`: `-k \"matmul and not complex\"`".to_owned()
            }
            Self::OtherCommit { installed, .. } => {
                format!("check out {installed}, or give `--allow-version-mismatch`, which is recorded in the run")
            }
            Self::UnknownCommit { .. } => {
                "use a git checkout of the commit in `torch/version.py`, or give `--allow-version-mismatch`".to_owned()
            }
        })
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Options { .. }
            | Self::Forbidden { .. }
            | Self::NoTestFile { .. }
            | Self::Name { .. }
            | Self::NameExpression { .. }
            | Self::NoneSelected { .. }
            | Self::UnknownPackage { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
