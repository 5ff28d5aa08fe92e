//! Errors of repairing a wheel, with hints.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

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
    /// A file of the wheel, or one that will be added, cannot be parsed or edited.
    #[error("could not read or edit `{file}` for `{}`", wheel.display())]
    Binary {
        wheel: PathBuf,
        /// The member or the file.
        file: String,
        source: rocwheel_elf::Error,
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
    /// The wheel is for a system that cannot be repaired.
    #[error("`{}` is {what}, which `rocwheel repair` does not support", wheel.display())]
    Foreign { wheel: PathBuf, what: String, hint: &'static str },
    /// No manylinux policy guarantees the needs of the binaries, or the requested one does not.
    #[error("`{}` cannot be tagged {wanted}:{}", wheel.display(), first(reasons))]
    Tag {
        wheel: PathBuf,
        /// The requested tag, or a description of any tag.
        wanted: String,
        /// The files and their needs.
        reasons: Vec<String>,
        /// The lowest tag that the binaries allow; `None` if there is none.
        floor: Option<String>,
    },
    /// A tag that is not a manylinux tag of this machine.
    #[error("`{tag}` is not a known manylinux tag")]
    UnknownTag { tag: String, known: Vec<String> },
    #[error("`{glob}` is not a glob")]
    Glob { glob: String, source: globset::Error },
    /// The version of ROCm is required but unknown.
    #[error("`{}` needs ROCm's libraries, and which version it was built for is not known", wheel.display())]
    RocmVersion { wheel: PathBuf },
    /// No module can be made to run first when a package is imported.
    #[error("`{}` cannot load libraries when `{package}` is imported: {reason}", wheel.display())]
    Package {
        wheel: PathBuf,
        package: String,
        /// The reason, printed after a colon.
        reason: String,
        hint: String,
    },
    /// The given folder is not a ROCm tree.
    #[error("`{}` is not a ROCm tree: {reason}", path.display())]
    Tree {
        path: PathBuf,
        /// The reason, printed after a colon.
        reason: String,
    },
    /// A file that would be added has the name of an existing member.
    #[error("`{member}` is in `{}` already, with another content", wheel.display())]
    Exists {
        wheel: PathBuf,
        /// Name of the member, a path in the wheel.
        member: String,
    },
    #[error("`strip` failed for `{file}`{}", said(message))]
    Strip {
        /// Name of the member, a path in the wheel.
        file: String,
        /// The output of `strip`.
        message: String,
    },
    /// The result is larger than allowed.
    #[error("`{name}` would have {} bytes, {} more than the budget of {budget}:{}", size, size - budget, lines(largest))]
    Budget {
        /// File name of the result.
        name: String,
        /// Its size in bytes.
        size: u64,
        /// The maximum size in bytes.
        budget: u64,
        /// The lines of a tree of the largest members and the files that need them.
        largest: Vec<String>,
    },
    /// The wheel cannot be moved to its destination.
    #[error(transparent)]
    Output(#[from] rocwheel_output::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
}

fn list(missing: &[MissingLibrary]) -> String {
    let lines = missing.iter().map(|missing| {
        let mut line = format!("\n  {}, needed by {}", missing.library, missing.needed_by.join(", needed by "));
        missing.refused.iter().for_each(|refused| line.push_str(&format!("\n    {refused}")));
        line
    });
    lines.collect()
}

fn first(reasons: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut text: String = reasons.iter().take(SHOWN).map(|reason| format!("\n  {reason}")).collect();
    if reasons.len() > SHOWN {
        text.push_str(&format!("\n  and {} more", reasons.len() - SHOWN));
    }
    text
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

fn said(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
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
            Error::Binary { source, .. } => source.hint(),
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
            Error::Foreign { hint, .. } => Some((*hint).to_owned()),
            Error::Tag { floor: Some(floor), .. } => {
                Some(format!("`--plat {floor}` is what the files deserve; build on an older system for an older tag"))
            }
            Error::Tag { floor: None, .. } => {
                Some("build on an older system, or keep the tag of this machine with `--plat linux_x86_64`".to_owned())
            }
            Error::UnknownTag { known, .. } => Some(format!("known are {}", known.join(", "))),
            Error::RocmVersion { .. } => {
                Some("give it with `--rocm-version`, which becomes the requirement `rocm[libraries]==VERSION`".to_owned())
            }
            Error::Package { hint, .. } => Some(hint.clone()),
            Error::Tree { .. } => {
                Some("`--rocm` takes an installed prefix such as /opt/rocm, or what `rocwheel artifact flatten` made".to_owned())
            }
            Error::Exists { .. } => {
                Some("repair the wheel as it was built; an earlier repair left the file there".to_owned())
            }
            Error::Strip { .. } => Some("install binutils, or remove `--strip`".to_owned()),
            Error::Budget { .. } => {
                Some("exclude libraries with `--exclude` or `--mode rocm`, remove symbols with `--strip`, or raise `--size-budget`".to_owned())
            }
            _ => None,
        }
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Tag { reasons, .. } => reasons.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Wheel(error) => error.exit(),
            Error::Binary { source, .. } => source.exit(),
            Error::Unreadable { source, .. } => source.exit(),
            Error::Glob { .. } | Error::UnknownTag { .. } | Error::RocmVersion { .. } => Exit::Usage,
            Error::Interrupted(_) => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }
}
