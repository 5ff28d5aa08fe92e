//! Failures of framework sources that several modules have, each with a hint.

use std::io;
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Failure, Hint};

use crate::git_failure::GitFailure;

/// A patch does not apply.
#[derive(Debug, thiserror::Error)]
#[error("patch `{}` does not apply to `{}`{}", patch.display(), path.display(), in_files(files))]
pub(crate) struct PatchConflict {
    pub(crate) path: PathBuf,
    pub(crate) patch: PathBuf,
    /// The conflicting files, relative to the repository.
    pub(crate) files: Vec<String>,
    /// `true` if git waits with the patch half applied.
    pub(crate) waiting: bool,
    pub(crate) source: GitFailure,
}

fn in_files(files: &[String]) -> String {
    if files.is_empty() { String::new() } else { format!(", because of `{}`", files.join("`, `")) }
}

impl Hint for PatchConflict {
    fn hint(&self) -> Option<String> {
        if !self.waiting {
            return Some("correct the patch; nothing of it was applied".into());
        }
        Some(format!(
            "in `{}`: mend the files, `git add` them, `git am --continue`, then `rocwheel source patches save`; \
             or `git am --abort` to give up",
            self.path.display()
        ))
    }
}

pub(crate) fn no_git(source: io::Error) -> Failure {
    let program = if cfg!(windows) { "Git for Windows" } else { "git (`apt-get install git`)" };
    Failure::other(source)
        .context("could not start `git`")
        .with_hint(format!("install {program}; it does the work here"))
}

/// The request contradicts itself.
pub(crate) fn request(reason: impl Into<String>) -> Failure {
    Failure::message(reason.into()).with_exit(Exit::Usage)
}

/// A branch or tag was requested with `--locked`, where only a commit is accepted.
pub(crate) fn may_move(project: &str, reference: &str) -> Failure {
    request(format!("`{reference}` of {project} may move"))
        .with_hint("with `--locked`, name commits in full, or give a manifest")
}

/// A commit is not known from a pin file.
pub(crate) fn without_pin(text: String) -> Failure {
    Failure::message(text).with_hint(
        "name the commit with `--ref PROJECT=COMMIT`, and then also the repository with `--origin` if it is another",
    )
}

/// A pin file with a mistake. Lines are counted from 1.
pub(crate) fn pin(path: &Path, line: Option<usize>, reason: &str) -> Failure {
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    without_pin(format!("could not read the pin file `{}`{line}: {reason}", path.display()))
}

/// A folder is neither empty nor a git repository.
pub(crate) fn not_git(path: &Path) -> Failure {
    Failure::message(format!("`{}` exists and is not a git repository", path.display()))
        .with_hint("name another folder with `--directory`, or move this one away")
}

/// The tree has work that a checkout would lose, one row for each commit or changed file.
pub(crate) fn dirty(path: &Path, found: Vec<String>) -> Failure {
    const SHOWN: usize = 20;
    let mut text = format!("`{}` has work in it that a checkout would lose:", path.display());
    text.extend(found.iter().take(SHOWN).map(|line| format!("\n    {line}")));
    if found.len() > SHOWN {
        text.push_str(&format!("\n    and {} more", found.len() - SHOWN));
    }
    let hint = "commit it and `rocwheel source patches save`, or give it a name (`git switch --create NAME`), or `git stash \
                --include-untracked`; or check out into another folder with `--directory`";
    Failure::message(text).with_hint(hint).with_rows(found)
}

/// A source archive is not the expected one. Digests are SHA-256 in hexadecimal.
pub fn checksum(path: &Path, found: &str, wanted: &str) -> Failure {
    Failure::message(format!("`{}` has SHA-256 {found}, not {wanted}", path.display()))
        .with_hint("it is damaged or another file; fetch it again, or correct `--sha256`")
}

pub(crate) fn no_patch_set(path: &Path, known: &[String]) -> Failure {
    let failure = Failure::message(format!("there is no patch set `{}`", path.display()));
    if known.is_empty() {
        return failure.with_hint("`rocwheel source patches save` makes one");
    }
    failure.with_hint(format!("the patch sets there are {}", known.join(", ")))
}
