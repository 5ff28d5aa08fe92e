//! Input: a folder that may have a checkout. Output: the changes that may be overwritten, or an
//! error that lists work that would be lost.

use std::path::Path;

use rocwheel_progress::Failure;

use super::{Run, Tree};
use crate::error;
use crate::patches::{beside, shown};
use crate::plan::Reference;
use crate::repository::{HIPIFY, Repository, UPSTREAM};
use crate::request::Movement;
use crate::state::{Left, Phase};

/// A checkout would move, which was forbidden (`--locked`).
fn moved(path: &Path, found: &str, wanted: &str) -> Failure {
    Failure::message(format!("`{}` is at {found}, not at {wanted}", path.display()))
        .with_hint("remove `--locked` to move it")
}

impl Run<'_> {
    /// Inspects everything in the tree, including submodules. Changes of the last run may be
    /// overwritten; all others may not.
    pub(super) fn protect(&mut self) -> Result<(), Failure> {
        self.open()?;
        if self.folder.is_new {
            return Ok(());
        }
        self.stay_locked()?;
        let scratch = self.folder.scratch()?;
        let was_killed = self.before.phase == Phase::Moving;
        if self.before.phase != Phase::Done {
            self.repository.remove_torn()?;
        }
        if was_killed {
            self.convert.take_back(&self.checkout.directory);
        }
        let mut tree = Tree { as_left: !was_killed, ..Tree::default() };
        let mut found = Vec::new();
        let repositories = self.repository.all()?;
        for path in &repositories {
            let repository = self.repository.submodule(path);
            if let Some(command) = repository.unfinished()? {
                found.push(format!("{}: `{command}` is not finished; `{command} --abort` gives it up", shown(path)));
                continue;
            }
            let left = self.before.repositories.get(path).cloned().unwrap_or_default();
            let changes = repository.changes()?;
            let commits = repository.nameless(&[&left.head])?;
            if was_killed {
                if !changes.is_empty() || !commits.is_empty() {
                    // Files that are only missing have nothing to keep: they were not checked out
                    // yet.
                    if !commits.is_empty() || !changes.iter().all(|line| is_missing(line)) {
                        tree.keep.push(path.clone());
                    }
                    tree.resets.push(path.clone());
                }
                continue;
            }
            found.extend(commits.iter().map(|line| format!("{}: commit {line}", shown(path))));
            let now = if changes.is_empty() { None } else { Some(repository.working_tree(scratch.path())?) };
            let head = repository.head()?.unwrap_or_default();
            tree.as_left &= Left { head, tree: now.clone() } == left;
            if now.is_some() {
                if now == left.tree {
                    tree.resets.push(path.clone());
                } else {
                    found.extend(changes.iter().map(|line| beside(path, line)));
                }
            }
        }
        if !found.is_empty() {
            return Err(error::dirty(&self.checkout.directory, found));
        }
        tree.as_left &= self.before.repositories.keys().eq(sorted(&repositories));
        tree.submodules = self.repository.gitlinks()?;
        self.tree = tree;
        Ok(())
    }

    /// With `--locked`, checks that the existing checkout is the requested one.
    fn stay_locked(&self) -> Result<(), Failure> {
        if self.checkout.movement == Movement::Allowed {
            return Ok(());
        }
        let tagged = self.repository.commit(&format!("refs/tags/{UPSTREAM}"))?;
        let Some(found) = tagged.or(self.repository.head()?) else { return Ok(()) };
        let wanted = match &self.reference {
            Reference::Named { name, .. } if *name != found => Some(name.clone()),
            Reference::Archive(archive) if archive.sha256.is_none() || archive.sha256 != self.before.archive => {
                Some(archive.path.display().to_string())
            }
            _ => None,
        };
        if let Some(wanted) = wanted {
            return Err(moved(&self.checkout.directory, &found, &wanted));
        }
        // Tags do not move when the user checks another commit out.
        let submodules = self.before.repositories.keys().map(String::as_str).filter(|path| !path.is_empty());
        for path in std::iter::once("").chain(submodules) {
            let repository = self.repository.submodule(path);
            if repository.path.join(".git").exists()
                && let Some((found, wanted)) = self.elsewhere(path, &repository)?
            {
                return Err(moved(&repository.path, &found, &wanted));
            }
        }
        Ok(())
    }

    /// The commit that is checked out and the expected one, if the former is unknown: neither left
    /// by the last run, nor a commit that it tagged.
    fn elsewhere(&self, path: &str, repository: &Repository<'_>) -> Result<Option<(String, String)>, Failure> {
        let Some(head) = repository.head()? else { return Ok(None) };
        let left = self.before.repositories.get(path).map(|left| left.head.clone());
        let upstream = repository.commit(&format!("refs/tags/{UPSTREAM}"))?;
        let hipified = repository.commit(&format!("refs/tags/{HIPIFY}"))?;
        let ours: Vec<String> = [upstream, hipified, left].into_iter().flatten().collect();
        let wanted = ours.first().filter(|_| !ours.contains(&head)).cloned();
        Ok(wanted.map(|wanted| (head, wanted)))
    }

    fn open(&self) -> Result<(), Failure> {
        let directory = &self.checkout.directory;
        // A run that was killed at its start has left an incomplete git folder. Initializing it
        // again is harmless.
        let marker = directory.join(".git");
        let is_half = marker.is_dir() && (self.folder.was_killed || !marker.join("HEAD").exists());
        if self.folder.is_new || is_half {
            self.repository.run(&["init", "--quiet", "--initial-branch=main"], "make a repository")?;
            self.repository.run(&["config", "advice.detachedHead", "false"], "set up the repository")?;
        }
        Ok(())
    }
}

fn is_missing(line: &str) -> bool {
    line.get(..2).is_some_and(|letters| letters.chars().all(|letter| matches!(letter, 'D' | ' ')))
}

fn sorted(paths: &[String]) -> std::vec::IntoIter<&String> {
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort();
    paths.into_iter()
}
