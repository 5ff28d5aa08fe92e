//! What the original cannot convert, with file and line, and failures that several modules have.

use std::fmt;
use std::io;
use std::path::Path;

use rocwheel_progress::{Exit, Failure};
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

/// A path that is not the folder of a tree.
pub fn no_tree(tree: &Path) -> Failure {
    let failure = Failure::message(format!("`{}` is not a folder", tree.display()));
    failure.with_hint("name the folder with the sources").with_exit(Exit::Usage)
}

pub(crate) fn not_literal(unreadable: Unreadable, path: &str) -> Failure {
    let Unreadable { line, message } = unreadable;
    Failure::message(format!("`{path}`, line {line}: {message}"))
        .with_hint("tables and settings are read as Python literals, nothing is run; `--tables` takes others")
}

pub(crate) fn not_unicode(name: impl fmt::Display) -> Failure {
    Failure::message(format!("the name `{name}` is not UTF-8")).with_hint("rename it, or skip it with `--ignore`")
}

pub(crate) fn not_a_file(path: impl fmt::Display) -> Failure {
    Failure::message(format!("`{path}` is not a regular file")).with_hint("skip it with `--ignore`")
}

pub(crate) fn locked(folder: &Path) -> Failure {
    let failure = Failure::message(format!("another run converts `{}`", folder.display()));
    failure.with_hint("wait until it has ended").with_exit(Exit::TryAgain)
}

/// Adds advice to an error of reading or writing for which the user has no permission.
pub(crate) fn or_another_folder(failure: Failure) -> Failure {
    match failure.find::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            failure.with_hint("nothing was converted; `--output` writes into another folder")
        }
        _ => failure,
    }
}

/// All places that the original cannot convert; the message has the first ones, one per line.
pub(crate) fn defects(places: &[FileTrouble]) -> Failure {
    const SHOWN: usize = 20;
    let rows: Vec<String> = places.iter().map(ToString::to_string).collect();
    let text = if let [place] = rows.as_slice() {
        format!("the original cannot convert this: {place}")
    } else {
        let shown: String = rows.iter().take(SHOWN).map(|place| format!("\n  {place}")).collect();
        let more = if rows.len() > SHOWN { format!("\n  and {} more", rows.len() - SHOWN) } else { String::new() };
        format!("the original cannot convert {} places:{shown}{more}", rows.len())
    };
    let hint = "correct the sources, or convert them with `--fix-defects`";
    Failure::message(text).with_hint(hint).with_rows(rows)
}
