//! What can go wrong, with the file and the line.

use std::fmt;
use std::io;

use rocwheel_report::{Exit, Hint};

/// A place where the original hangs, crashes or loses something.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trouble {
    /// Line, from 1.
    pub line: usize,
    /// What it is.
    pub problem: Problem,
}

/// Kinds of places where the original gives no result, or one that lacks something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The original ends with an exception.
    #[error("a byte that is not UTF-8")]
    InvalidText,
    /// The original loops for ever.
    #[error("`<<<` without `>>>`")]
    OpenLaunch,
    /// The original ends with an exception.
    #[error("no kernel name before `<<<`")]
    NoKernel,
    /// The original ends with an exception.
    #[error("a kernel launch without both grid and block between `<<<` and `>>>`")]
    FewArguments,
    /// The original puts text between all characters of the file.
    #[error("no `(` after `>>>`")]
    NoCall,
    /// The original does not see it, often because of `\\"` in a string before it.
    #[error("a kernel launch that would not be converted")]
    LostLaunch,
}

/// A [`Trouble`] and the file it is in.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// Path of the file, relative to the tree.
    pub path: String,
    /// The line and what is there.
    #[serde(flatten)]
    pub trouble: Trouble,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}`, line {}: {}", self.path, self.trouble.line, self.trouble.problem)
    }
}

/// Errors of this crate. Paths are as the user gave them, or relative to the tree.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tree is missing, or no folder.
    #[error("`{0}` is not a folder")]
    NoTree(String),
    /// There are no tables where they were looked for.
    #[error("`{0}` has no tables of CUDA and HIP names")]
    NoTables(String),
    /// The tables belong to an algorithm that is not known.
    #[error("`{path}`: version `{version}` of hipify is not known")]
    UnknownVersion {
        /// The file with the version.
        path: String,
        /// What it says.
        version: String,
    },
    /// The version and the form of the tables contradict each other.
    #[error("`{path}` says version `{version}`, but its tables have the form of the other algorithm")]
    WrongForm {
        /// The file with the tables.
        path: String,
        /// The version beside it.
        version: String,
    },
    /// Python that is more than literals.
    #[error("`{path}`, line {line}: {message}")]
    NotLiteral {
        /// The Python file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// What is there.
        message: String,
    },
    /// A list that PyTorch's own settings must have.
    #[error("`{path}` has no list `{name}`")]
    NoList {
        /// The Python file.
        path: String,
        /// The name of the list.
        name: &'static str,
    },
    /// A pattern that cannot be understood.
    #[error("`{0}` is not a pattern")]
    Pattern(String, #[source] Box<regex::Error>),
    /// A file name that is not UTF-8.
    #[error("the name `{0}` is not UTF-8")]
    Name(String),
    /// A source that is no regular file.
    #[error("`{0}` is not a regular file")]
    NotAFile(String),
    /// What must be there and is not.
    #[error("`{path}` is missing, which {wanted_by} names")]
    Missing {
        /// Path relative to the tree.
        path: String,
        /// Who names it.
        wanted_by: &'static str,
    },
    /// Something would be written outside of the tree.
    #[error("`{0}` is a link that leaves the tree, or is behind one: nothing is written there")]
    Outside(String),
    /// Two sources with one result.
    #[error("`{first}` and `{second}` would both become `{output}`")]
    SameOutput {
        /// A source.
        first: String,
        /// Another one.
        second: String,
        /// Their result.
        output: String,
    },
    /// The result of one source is another source.
    #[error("`{source_path}` would become `{output}`, which is itself a source to convert")]
    Overwrites {
        /// The source that is converted.
        source_path: String,
        /// The other source.
        output: String,
    },
    /// The output folder is in use.
    #[error("`{0}` exists already")]
    OutputExists(String),
    /// The output folder is inside of the tree.
    #[error("`{0}` is in the tree that is to be copied")]
    OutputInside(String),
    /// A run that was killed has left the tree half converted.
    #[error("a conversion of `{0}` was killed before it was complete")]
    Unfinished(String),
    /// Another run works there.
    #[error("another run converts `{0}`")]
    Locked(String),
    /// What a killed run has left cannot be taken back.
    #[error("a conversion of `{tree}` was killed, and of what it wrote `{}` changed since", changed.join("`, `"))]
    ChangedSince {
        /// The tree.
        tree: String,
        /// Paths relative to it.
        changed: Vec<String>,
    },
    /// The journal of a killed run cannot be read.
    #[error("could not understand `{path}`, which a conversion that was killed left: {reason}")]
    Journal {
        /// The journal.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// Places where the original gives no result.
    #[error("{}", places(.0))]
    Defects(Vec<Place>),
    /// Reading or writing.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
}

/// The first places, one a line.
fn places(places: &[Place]) -> String {
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

    fn exit(&self) -> Exit {
        match self {
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Locked(_) => Exit::TryAgain,
            Self::NoTree(_) | Self::Pattern(..) | Self::OutputInside(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }
}
