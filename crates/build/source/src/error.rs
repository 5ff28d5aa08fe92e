//! Failures of framework sources, each with a hint.

use std::io;
use std::path::PathBuf;

use rocwheel_progress::{Exit, Hint};

use crate::git_failure::GitFailure;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Interrupted(#[from] rocwheel_progress::Interrupted),
    #[error("could not start `git`")]
    NoGit { source: io::Error },
    #[error("`git` is version {found}, and 2.32 or newer is needed")]
    OldGit { found: String },
    #[error("could not {attempt}")]
    Git { attempt: String, source: Box<GitFailure> },
    #[error("could not understand the table of sources `{path}`: {reason}")]
    Table { path: String, reason: String },
    #[error("there is no project `{name}`")]
    UnknownProject {
        name: String,
        /// Names of all projects.
        known: Vec<String>,
    },
    #[error("there is no version line `{name}`")]
    UnknownLine { name: String, known: Vec<String> },
    /// The request contradicts itself.
    #[error("{reason}")]
    Request { reason: String, hint: Option<String> },
    #[error("could not read the pin file `{}`{}: {reason}", path.display(), at_line(*line))]
    Pin {
        path: PathBuf,
        /// Line in the file, counted from 1.
        line: Option<usize>,
        reason: String,
    },
    #[error("there is no pin file `{}`", path.display())]
    NoPin {
        path: PathBuf,
        /// The checkout that the file would be in, if it exists.
        tree: Option<PathBuf>,
    },
    /// A pin file does not name a project that it has to name.
    #[error("`{}` does not mention `{project}`", path.display())]
    NotPinned { path: PathBuf, project: String },
    /// A folder is neither empty nor a git repository.
    #[error("`{}` exists and is not a git repository", path.display())]
    NotGit { path: PathBuf },
    /// A repository lacks the tag that a checkout of ours has.
    #[error("`{}` has no tag `{tag}`", path.display())]
    NoTag { path: PathBuf, tag: &'static str },
    #[error("another run works in `{}`", path.display())]
    Locked { path: PathBuf },
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
    NoRef { origin: String, reference: String, nearest: Vec<String> },
    /// A checkout would move, which was forbidden (`--locked`).
    #[error("`{}` is at {found}, not at {wanted}", path.display())]
    Moved { path: PathBuf, found: String, wanted: String },
    /// A branch or tag was requested with `--locked`, where only a commit is accepted.
    #[error("`{reference}` of {project} may move")]
    MayMove { project: String, reference: String },
    #[error("could not convert the sources in `{}`", path.display())]
    Hipify { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    /// A source archive is damaged or unsafe.
    #[error("could not take the source archive `{}`: {reason}", path.display())]
    Archive { path: PathBuf, reason: String },
    /// A source archive is not the expected one.
    #[error("`{}` has SHA-256 {found}, not {wanted}", path.display())]
    Checksum { path: PathBuf, found: String, wanted: String },
    /// A file is not a manifest.
    #[error("could not understand the manifest `{}`: {reason}", path.display())]
    Manifest { path: PathBuf, reason: String },
    /// A manifest was requested for a project without a checkout.
    #[error("there is no checkout of {project} in `{}`", path.display())]
    NoCheckout { project: String, path: PathBuf },
    /// A patch does not apply.
    #[error("patch `{}` does not apply to `{}`{}", patch.display(), path.display(), in_files(files))]
    Conflict {
        path: PathBuf,
        patch: PathBuf,
        /// The conflicting files, relative to the repository.
        files: Vec<String>,
        /// `true` if git waits with the patch half applied.
        waiting: bool,
        source: Box<GitFailure>,
    },
    /// A folder has patches for a submodule that the tree does not have.
    #[error("`{}` holds patches for `{repository}`, which is no submodule of the checkout", path.display())]
    PatchTarget { path: PathBuf, repository: String },
    #[error("there is no patch set `{}`", path.display())]
    NoPatchSet { path: PathBuf, known: Vec<String> },
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
            Error::NoPin { tree: Some(tree), .. } => format!(
                "the tree `{}` has no such file: it is older than these files or incomplete; check out a newer branch of \
                 torch, or name the commit with `--ref PROJECT=COMMIT`",
                tree.display()
            ),
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
