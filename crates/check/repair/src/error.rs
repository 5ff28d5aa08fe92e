//! Errors of repairing a wheel, with hints.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Failure, Hint};

use crate::paths;

/// A library that was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingLibrary {
    /// The name in NEEDED.
    pub library: String,
    /// The chain of files that need it, from the library's own user up to a file of the wheel.
    pub needed_by: Vec<String>,
    /// Files with that name that cannot be used, with the reasons.
    pub refused: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Wheel(#[from] rocwheel_wheel::Error),
    #[error("could not read `{file}` of `{}`", wheel.display())]
    Unreadable {
        wheel: PathBuf,
        /// The member.
        file: String,
        source: Box<rocwheel_elf::Error>,
    },
    #[error("could not {action} `{}`", path.display())]
    File {
        /// The attempted action, as an infinitive.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("`{}` needs libraries that were not found:{}", wheel.display(), list(missing))]
    Missing {
        wheel: PathBuf,
        /// The missing libraries, sorted by name.
        missing: Vec<MissingLibrary>,
    },
    /// A binary is installed where no search path can refer to the libraries.
    #[error("`{member}` of `{}` needs `{library}`, but it is installed outside of site-packages, from where no search path can lead there", wheel.display())]
    Unreachable {
        wheel: PathBuf,
        /// The member that is a binary.
        member: String,
        library: String,
    },
    /// The wheel cannot be moved to its destination.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// Anything else.
    #[error(transparent)]
    Failure(#[from] Failure),
}

fn list(missing: &[MissingLibrary]) -> String {
    let lines = missing.iter().map(|missing| {
        let mut line = format!("\n  {}, needed by {}", missing.library, missing.needed_by.join(", needed by "));
        missing.refused.iter().for_each(|refused| line.push_str(&format!("\n    {refused}")));
        line
    });
    lines.collect()
}

impl Error {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { action, path, source }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        match self {
            Error::Wheel(error) => error.hint(),
            Error::Output(error) => error.hint(),
            Error::Unreadable { file, .. } => Some(format!(
                "build the file again, or leave it as it is with `--exclude {}`",
                rocwheel_progress::shell_word(paths::name(file))
            )),
            Error::Missing { missing, .. } => {
                let names: Vec<&str> = missing.iter().map(|missing| paths::name(&missing.library)).collect();
                let them = if names.len() == 1 { "it" } else { "them" };
                Some(format!(
                    "install {them}, name the directory with `--lib-path DIR`, or leave {them} out with `--exclude {}` where the \
                     system or another wheel has {them} at run time",
                    names.join(" --exclude ")
                ))
            }
            Error::Unreachable { .. } => Some(
                "put the file into the package (package data instead of `data_files`), or leave the library out with `--exclude`".to_owned(),
            ),
            Error::Failure(failure) => failure.hint().map(str::to_owned),
            _ => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Failure(failure) => failure.rows().to_vec(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Wheel(error) => error.exit(),
            Error::Unreadable { source, .. } => source.exit(),
            Error::Interrupted(_) => Exit::Interrupted,
            Error::Failure(failure) => failure.exit(),
            _ => Exit::Failed,
        }
    }
}

/// A file of the wheel, or one that will be added, cannot be edited.
pub(crate) fn binary(wheel: &Path, file: &str) -> impl FnOnce(rocwheel_elf::Error) -> Error {
    move |error| {
        Failure::from(error).context(format!("could not read or edit `{file}` for `{}`", wheel.display())).into()
    }
}

/// The wheel is for a system that cannot be repaired.
pub(crate) fn foreign(wheel: &Path, what: &str, hint: &str) -> Error {
    let wheel = wheel.display();
    Failure::message(format!("`{wheel}` is {what}, which `rocwheel repair` does not support")).with_hint(hint).into()
}

/// No module can be made to run first when a package is imported.
pub(crate) fn package(wheel: &Path, package: &str, reason: &str, hint: &str) -> Error {
    let wheel = wheel.display();
    Failure::message(format!("`{wheel}` cannot load libraries when `{package}` is imported: {reason}"))
        .with_hint(hint)
        .into()
}

/// The given folder is not a ROCm tree.
pub(crate) fn no_tree(path: &Path, reason: &str) -> Error {
    Failure::message(format!("`{}` is not a ROCm tree: {reason}", path.display()))
        .with_hint("`--rocm` takes an installed prefix such as /opt/rocm, or what `rocwheel artifact flatten` made")
        .into()
}
