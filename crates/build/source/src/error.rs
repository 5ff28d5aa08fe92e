//! Failures of framework sources, each with a hint.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

use crate::git_failure::GitFailure;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing a file failed; the source's message names the path.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The user stopped the work.
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    /// git is not installed or cannot be started.
    #[error("could not start `git`")]
    NoGit {
        /// The reason.
        source: io::Error,
    },
    /// git is too old.
    #[error("`git` is version {found}, and 2.32 or newer is needed")]
    OldGit {
        /// The version that git reports.
        found: String,
    },
    /// A git command failed.
    #[error("could not {attempt}")]
    Git {
        attempt: String,
        /// The output of git.
        source: Box<GitFailure>,
    },
    /// The table of sources has a mistake.
    #[error("could not understand the table of sources `{path}`: {reason}")]
    Table {
        /// Path of the table.
        path: String,
        /// The mistake.
        reason: String,
    },
    /// No project has that name.
    #[error("there is no project `{name}`")]
    UnknownProject {
        /// The name that was asked for.
        name: String,
        /// Names of all projects.
        known: Vec<String>,
    },
    /// No version line has that name.
    #[error("there is no version line `{name}`")]
    UnknownLine {
        /// The name that was asked for.
        name: String,
        /// Names of all version lines.
        known: Vec<String>,
    },
    /// The request contradicts itself.
    #[error("{reason}")]
    Request {
        /// The contradiction.
        reason: String,
        /// A request that would work.
        hint: Option<String>,
    },
    /// A pin file cannot be parsed.
    #[error("could not read the pin file `{}`{}: {reason}", path.display(), at_line(*line))]
    Pin {
        /// Path of the file.
        path: PathBuf,
        /// Line in the file, counted from 1.
        line: Option<usize>,
        /// The mistake.
        reason: String,
    },
    /// A pin file does not exist.
    #[error("there is no pin file `{}`", path.display())]
    NoPin {
        /// Path at which it is expected.
        path: PathBuf,
    },
    /// A pin file does not name a project that it has to name.
    #[error("`{}` does not mention `{project}`", path.display())]
    NotPinned {
        /// Path of the file.
        path: PathBuf,
        /// The name that it does not have.
        project: String,
    },
    /// A folder is neither empty nor a git repository.
    #[error("`{}` exists and is not a git repository", path.display())]
    NotGit {
        /// Path of the folder.
        path: PathBuf,
    },
    /// A repository lacks the tag that a checkout of ours has.
    #[error("`{}` has no tag `{tag}`", path.display())]
    NoTag {
        /// Path of the repository.
        path: PathBuf,
        /// Name of the tag.
        tag: &'static str,
    },
    /// Another run works in the folder.
    #[error("another run works in `{}`", path.display())]
    Locked {
        /// Path of the folder.
        path: PathBuf,
    },
    /// The tree has work that a checkout would lose.
    #[error("`{}` has work in it that a checkout would lose:\n{}", path.display(), listed(found))]
    Dirty {
        /// Path of the checkout.
        path: PathBuf,
        /// The work, one line for each commit or changed file.
        found: Vec<String>,
    },
    /// The origin does not have the reference.
    #[error("`{origin}` has no branch, tag or commit `{reference}`")]
    NoRef {
        /// Address of the repository.
        origin: String,
        /// The reference that was asked for.
        reference: String,
        /// The most similar names.
        nearest: Vec<String>,
    },
    /// A checkout would move, which was forbidden (`--locked`).
    #[error("`{}` is at {found}, not at {wanted}", path.display())]
    Moved {
        /// Path of the checkout.
        path: PathBuf,
        /// The commit that is checked out.
        found: String,
        /// The commit that was requested.
        wanted: String,
    },
    /// A branch or tag was requested with `--locked`, where only a commit is accepted.
    #[error("`{reference}` of {project} may move")]
    MayMove {
        /// Name of the project.
        project: String,
        /// The branch or tag.
        reference: String,
    },
    /// The conversion of a tree failed.
    #[error("could not convert the sources in `{}`", path.display())]
    Hipify {
        /// Path of the tree.
        path: PathBuf,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A source archive is damaged or unsafe.
    #[error("could not take the source archive `{}`: {reason}", path.display())]
    Archive {
        /// Path of the archive.
        path: PathBuf,
        /// The damage or the danger.
        reason: String,
    },
    /// A source archive is not the expected one.
    #[error("`{}` has SHA-256 {found}, not {wanted}", path.display())]
    Checksum {
        /// Path of the archive.
        path: PathBuf,
        /// SHA-256 of the file.
        found: String,
        /// The expected SHA-256.
        wanted: String,
    },
    /// A file is not a manifest.
    #[error("could not understand the manifest `{}`: {reason}", path.display())]
    Manifest {
        /// Path of the file.
        path: PathBuf,
        /// The mistake.
        reason: String,
    },
    /// A manifest was requested for a project without a checkout.
    #[error("there is no checkout of {project} in `{}`", path.display())]
    NoCheckout {
        /// Name of the project.
        project: String,
        /// Path at which it is expected.
        path: PathBuf,
    },
    /// A patch does not apply.
    #[error("patch `{}` does not apply to `{}`{}", patch.display(), path.display(), in_files(files))]
    Conflict {
        /// Path of the repository.
        path: PathBuf,
        patch: PathBuf,
        /// The conflicting files, relative to the repository.
        files: Vec<String>,
        /// `true` if git waits with the patch half applied.
        waiting: bool,
        /// The output of git.
        source: Box<GitFailure>,
    },
    /// A folder has patches for a submodule that the tree does not have.
    #[error("`{}` holds patches for `{repository}`, which is no submodule of the checkout", path.display())]
    PatchTarget {
        /// Path of the folder.
        path: PathBuf,
        /// Path of the submodule that it names.
        repository: String,
    },
    /// A patch set does not exist.
    #[error("there is no patch set `{}`", path.display())]
    NoPatchSet {
        /// Path at which it is expected.
        path: PathBuf,
        /// Names of the existing sets.
        known: Vec<String>,
    },
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

fn in_files(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!(", because of `{}`", files.join("`, `")) }
}

/// The first lines, and the number of the remaining ones.
fn listed(found: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut lines: Vec<String> = found.iter().take(SHOWN).map(|line| format!("    {line}")).collect();
    if found.len() > SHOWN {
        lines.push(format!("    and {} more", found.len() - SHOWN));
    }
    lines.join("\n")
}

impl Error {
    /// Wraps git's output with the attempt.
    pub(crate) fn git(attempt: impl Into<String>) -> impl FnOnce(GitFailure) -> Error {
        move |source| Error::Git { attempt: attempt.into(), source: Box::new(source) }
    }
}

impl Hint for Error {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoGit { .. } if cfg!(windows) => "install Git for Windows; it does the work here".into(),
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
