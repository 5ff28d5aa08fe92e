//! The errors of this crate, with file and line.

use std::fmt;
use std::io;

use rocwheel_progress::{Exit, Hint};
use rocwheel_python_literals::Unreadable;

/// A line at which the original hangs, crashes or loses something.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trouble {
    /// Line, from 1.
    pub line: usize,
    pub problem: ConversionProblem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ConversionProblem {
    /// The original raises an exception.
    #[error("a byte that is not UTF-8")]
    InvalidText,
    /// The original loops forever.
    #[error("`<<<` without `>>>`")]
    OpenLaunch,
    /// The original ends with an exception.
    #[error("no kernel name before `<<<`")]
    NoKernel,
    /// The original ends with an exception.
    #[error("a kernel launch without both grid and block between `<<<` and `>>>`")]
    FewArguments,
    /// The original inserts text between all characters of the file.
    #[error("no `(` after `>>>`")]
    NoCall,
    /// The original leaves it unchanged, often because of `\\"` in an earlier string. It is a
    /// warning, because clang compiles it.
    #[error("a kernel launch that the original does not recognise")]
    LostLaunch,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FileTrouble {
    /// Path of the file, relative to the tree.
    pub path: String,
    #[serde(flatten)]
    pub trouble: Trouble,
}

impl fmt::Display for FileTrouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`, line {}: {}", self.path, self.trouble.line, self.trouble.problem)
    }
}

/// Errors of this crate. Paths are as the user wrote them, or relative to the tree.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not a folder")]
    NoTree(String),
    #[error("`{0}` has no tables of CUDA and HIP names")]
    NoTables(String),
    #[error("`{path}`: version `{version}` of hipify is not known")]
    UnknownVersion {
        /// The file with the version.
        path: String,
        /// The version in that file.
        version: String,
    },
    /// The version contradicts the form of the tables.
    #[error("`{path}` says version `{version}`, but its tables have the form of the other algorithm")]
    WrongForm {
        /// The file with the tables.
        path: String,
        /// The version in the file beside it.
        version: String,
    },
    #[error("`{path}`, line {line}: {message}")]
    NotLiteral {
        /// Path of the Python file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// A description of the code.
        message: String,
    },
    #[error("`{path}` has no list `{name}`")]
    NoList {
        /// Path of the Python file.
        path: String,
        /// The name of the list.
        name: &'static str,
    },
    #[error("`{0}` is not a pattern")]
    Pattern(String, #[source] Box<regex::Error>),
    #[error("the name `{0}` is not UTF-8")]
    Name(String),
    #[error("`{0}` is not a regular file")]
    NotAFile(String),
    #[error("`{path}` is missing, which {wanted_by} names")]
    Missing {
        /// Path relative to the tree.
        path: String,
        /// The file that refers to it.
        wanted_by: &'static str,
    },
    #[error("`{0}` is a link that leaves the tree, or is behind one: nothing is written there")]
    Outside(String),
    /// Two sources have the same result path.
    #[error("`{first}` and `{second}` would both become `{output}`")]
    SameOutput {
        /// Path of a source, relative to the tree.
        first: String,
        /// Path of the other source, relative to the tree.
        second: String,
        output: String,
    },
    /// The result of one source would replace another source.
    #[error("`{source_path}` would become `{output}`, which is itself a source to convert")]
    Overwrites {
        /// The source that is converted.
        source_path: String,
        /// The path of the result, which is also the other source.
        output: String,
    },
    #[error("`{0}` exists already")]
    OutputExists(String),
    #[error("`{0}` is in the tree that is to be copied")]
    OutputInside(String),
    /// A killed run has left the tree half converted.
    #[error("a conversion of `{0}` was killed before it was complete")]
    Unfinished(String),
    #[error("another run converts `{0}`")]
    Locked(String),
    /// The files that a killed run wrote cannot be undone.
    #[error("a conversion of `{tree}` was killed, and of what it wrote `{}` changed since", changed.join("`, `"))]
    ChangedSince {
        /// Path of the tree.
        tree: String,
        /// Paths relative to the tree of the files that have changed since.
        changed: Vec<String>,
    },
    #[error("could not understand `{path}`, which a conversion that was killed left: {reason}")]
    Journal {
        /// Path of the journal.
        path: String,
        /// The reason, for example a JSON error.
        reason: String,
    },
    #[error("{}", places(.0))]
    Defects(Vec<FileTrouble>),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

/// A list of the first places, one per line.
fn places(places: &[FileTrouble]) -> String {
    const SHOWN: usize = 20;
    if let [place] = places {
        return format!("the original cannot convert this: {place}");
    }
    let mut text = format!("the original cannot convert {} places:", places.len());
    for place in places.iter().take(SHOWN) {
        text.push_str(&format!("\n  {place}"));
    }
    if places.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", places.len() - SHOWN));
    }
    text
}

impl Error {
    pub(crate) fn not_literal(unreadable: Unreadable, path: &str) -> Error {
        Error::NotLiteral { path: path.to_owned(), line: unreadable.line, message: unreadable.message }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoTree(_) => "name the folder with the sources",
            Self::NoTables(_) => {
                "name them with `--tables`: cuda_to_hip_mappings.py, the folder it is in, or the folder of an installed torch"
            }
            Self::UnknownVersion { .. } | Self::WrongForm { .. } => {
                "versions 1.x (torch up to 2.10) and 2.x (from 2.11) are known; `--tables` takes those of another torch"
            }
            Self::NotLiteral { .. } => {
                "tables and settings are read as Python literals, nothing is run; `--tables` takes others"
            }
            Self::NoList { .. } => "`--mode extension` converts a tree without PyTorch's settings",
            Self::Missing { .. } => "is a submodule not checked out? `--fix-defects` continues without it",
            Self::Name(_) => "rename it, or skip it with `--ignore`",
            Self::NotAFile(_) | Self::Overwrites { .. } | Self::SameOutput { .. } => "skip it with `--ignore`",
            Self::Outside(_) => "replace the link by what it names, or skip it with `--ignore`",
            Self::OutputExists(_) => "choose a new folder, or convert in place",
            Self::OutputInside(_) => "choose a folder beside it",
            Self::Unfinished(_) => "`--recover` undoes it, and so does the next conversion in place",
            Self::Locked(_) => "wait until it has ended",
            Self::ChangedSince { .. } => {
                "nothing was touched: keep what you need of these files, remove them, and take it back with `--recover`"
            }
            Self::Journal { .. } => {
                "take the tree from where it came, or remove the file if you know that the tree is complete"
            }
            Self::Defects(_) => "correct the sources, or convert them with `--fix-defects`",
            Self::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "nothing was converted; `--output` writes into another folder"
            }
            Self::Pattern(..) | Self::Io(_) | Self::Interrupted(_) => return None,
        };
        Some(text.to_owned())
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Self::Defects(places) => places.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Locked(_) => Exit::TryAgain,
            Self::NoTree(_) | Self::Pattern(..) | Self::OutputInside(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
