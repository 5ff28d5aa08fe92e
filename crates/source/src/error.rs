//! What can go wrong with framework sources, and what to do about it.

use std::io;
use std::path::PathBuf;

use rocwheel_report::{Exit, Hint};

use crate::git::GitFailure;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the message of the source names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_report::Interrupted),
    /// git is not there or cannot be started.
    #[error("could not start `git`")]
    NoGit {
        /// Why.
        source: io::Error,
    },
    /// git is too old.
    #[error("`git` is version {found}, and 2.32 or newer is needed")]
    OldGit {
        /// What it says.
        found: String,
    },
    /// A git command failed.
    #[error("could not {attempt}")]
    Git {
        /// What was attempted.
        attempt: String,
        /// What git said.
        source: Box<GitFailure>,
    },
    /// The table of sources is wrong.
    #[error("could not understand the table of sources `{path}`: {reason}")]
    Table {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// No such project.
    #[error("there is no project `{name}`")]
    UnknownProject {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such version line.
    #[error("there is no version line `{name}`")]
    UnknownLine {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// What was asked for contradicts itself.
    #[error("{reason}")]
    Request {
        /// How.
        reason: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// A pin file cannot be understood.
    #[error("could not read the pin file `{}`{}: {reason}", path.display(), at_line(*line))]
    Pin {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },
    /// A pin file is not there.
    #[error("there is no pin file `{}`", path.display())]
    NoPin {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A pin file says nothing of a project that it has to name.
    #[error("`{}` does not mention `{project}`", path.display())]
    NotPinned {
        /// The file.
        path: PathBuf,
        /// The name that was looked for.
        project: String,
    },
    /// A folder that is neither empty nor a git repository.
    #[error("`{}` exists and is not a git repository", path.display())]
    NotGit {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that is not a checkout of ours, or of anybody who set the tag.
    #[error("`{}` has no tag `{tag}`", path.display())]
    NoTag {
        /// The repository.
        path: PathBuf,
        /// The tag.
        tag: &'static str,
    },
    /// Another run works there.
    #[error("another run works in `{}`", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// There is work in the tree that a checkout would lose.
    #[error("`{}` has work in it that a checkout would lose:\n{}", path.display(), listed(found))]
    Dirty {
        /// The checkout.
        path: PathBuf,
        /// What was found, one line each.
        found: Vec<String>,
    },
    /// The ref is not there.
    #[error("`{origin}` has no branch, tag or commit `{reference}`")]
    NoRef {
        /// Address of the repository.
        origin: String,
        /// What was asked for.
        reference: String,
        /// The names that are most like it.
        nearest: Vec<String>,
    },
    /// A checkout would move, which was forbidden.
    #[error("`{}` is at {found}, not at {wanted}", path.display())]
    Moved {
        /// The checkout.
        path: PathBuf,
        /// Where it is.
        found: String,
        /// Where it was to be.
        wanted: String,
    },
    /// A branch or tag where only a commit does not move.
    #[error("`{reference}` of {project} may move")]
    MayMove {
        /// The project.
        project: String,
        /// What was asked for.
        reference: String,
    },
    /// The conversion of a tree failed.
    #[error("could not convert the sources in `{}`", path.display())]
    Hipify {
        /// The tree.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A source archive is damaged or unsafe.
    #[error("could not take the source archive `{}`: {reason}", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A source archive is another one than expected.
    #[error("`{}` has SHA-256 {found}, not {wanted}", path.display())]
    Checksum {
        /// The archive.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What was expected.
        wanted: String,
    },
    /// A manifest is not one.
    #[error("could not understand the manifest `{}`: {reason}", path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Nothing is checked out where a manifest is to be made of.
    #[error("there is no checkout of {project} in `{}`", path.display())]
    NoCheckout {
        /// The project.
        project: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A patch does not apply.
    #[error("patch `{}` does not apply to `{}`{}", patch.display(), path.display(), in_files(files))]
    Conflict {
        /// The repository.
        path: PathBuf,
        /// The patch.
        patch: PathBuf,
        /// The files that stand in its way, relative to the repository.
        files: Vec<String>,
        /// Whether git waits there with the patch half applied.
        waiting: bool,
        /// What git said.
        source: Box<GitFailure>,
    },
    /// A folder of patches for something that is not in the tree.
    #[error("`{}` holds patches for `{repository}`, which is no submodule of the checkout", path.display())]
    PatchTarget {
        /// The folder.
        path: PathBuf,
        /// The submodule that it names.
        repository: String,
    },
    /// There is no such set of patches.
    #[error("there is no patch set `{}`", path.display())]
    NoPatchSet {
        /// Where it was looked for.
        path: PathBuf,
        /// What is there instead.
        known: Vec<String>,
    },
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

fn in_files(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!(", because of `{}`", files.join("`, `")) }
}

/// The first lines and how many there are more.
fn listed(found: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut lines: Vec<String> = found.iter().take(SHOWN).map(|line| format!("    {line}")).collect();
    if found.len() > SHOWN {
        lines.push(format!("    and {} more", found.len() - SHOWN));
    }
    lines.join("\n")
}

impl Error {
    /// What git said, with what was attempted.
    pub(crate) fn git(attempt: impl Into<String>) -> impl FnOnce(GitFailure) -> Error {
        move |source| Error::Git { attempt: attempt.into(), source: Box::new(source) }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoGit { .. } => "install git (`apt-get install git`); it does the work here".into(),
            Error::Git { source, .. } => return source.hint(),
            Error::UnknownProject { known, .. } => format!("the projects are {}", known.join(", ")),
            Error::UnknownLine { known, .. } => format!("the lines are {}; any other branch is `--ref`", known.join(", ")),
            Error::Request { hint, .. } => return hint.clone(),
            Error::Pin { .. } | Error::NotPinned { .. } => {
                "name the commit with `--ref PROJECT=COMMIT`, and then also the repository with `--origin` if it is another".into()
            }
            Error::NoPin { .. } => {
                "check torch out first or in the same command, say where it is with `--torch-directory`, or name the commit \
                 with `--ref`"
                    .into()
            }
            Error::NotGit { .. } => "name another folder with `--directory`, or move this one away".into(),
            Error::NoTag { .. } => {
                "`rocwheel source checkout` sets it; in a checkout of your own, `git tag` the commit that your patches start from"
                    .into()
            }
            Error::Locked { .. } => "wait until it has ended".into(),
            Error::Dirty { .. } => {
                "commit it and `rocwheel source patches save`, or give it a name (`git switch --create NAME`), or `git stash \
                 --include-untracked`; or check out into another folder with `--directory`"
                    .into()
            }
            Error::NoRef { reference, nearest, .. } if nearest.is_empty() => {
                if reference.bytes().all(|byte| byte.is_ascii_hexdigit()) && reference.len() < 40 {
                    "servers take commits only in full: write all 40 digits".into()
                } else {
                    "`git ls-remote` with that address lists what there is".into()
                }
            }
            Error::NoRef { nearest, .. } => format!("did you mean `{}`?", nearest.join("`, `")),
            Error::Moved { .. } => "remove `--locked` to move it".into(),
            Error::MayMove { .. } => "with `--locked`, name commits in full, or give a manifest".into(),
            Error::Archive { .. } => "a `.tar.gz`, `.tar.xz`, `.tar.bz2`, `.tar.zst` or `.tar` with sources is needed".into(),
            Error::Checksum { .. } => "it is damaged or another file; fetch it again, or correct `--sha256`".into(),
            Error::NoCheckout { .. } => "check it out first, or say where it is with `--root` or `--directory`".into(),
            Error::Conflict { path, waiting: true, .. } => format!(
                "in `{}`: mend the files, `git add` them, `git am --continue`, then `rocwheel source patches save`; \
                 or `git am --abort` to give up",
                path.display()
            ),
            Error::Conflict { .. } => "correct the patch; nothing of it was applied".into(),
            Error::PatchTarget { .. } => "check the submodules out, or remove the folder from the patch set".into(),
            Error::NoPatchSet { known, .. } if known.is_empty() => "`rocwheel source patches save` makes one".into(),
            Error::NoPatchSet { known, .. } => format!("the patch sets there are {}", known.join(", ")),
            _ => return None,
        })
    }

    fn rows(&self) -> Vec<String> {
        match self {
            Error::Dirty { found, .. } => found.clone(),
            _ => Vec::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Error::Interrupted(_) => Exit::Interrupted,
            Error::UnknownProject { .. }
            | Error::UnknownLine { .. }
            | Error::Request { .. }
            | Error::MayMove { .. } => Exit::Usage,
            Error::Locked { .. } => Exit::TryAgain,
            Error::Git { source, .. } => source.exit(),
            _ => Exit::Failed,
        }
    }
}
