//! Input: a folder that may hold a checkout. Output: what may go, or an error that lists what would be lost.

use super::{Run, Tree};
use crate::error::Error;
use crate::patches::{beside, shown};
use crate::plan::Reference;
use crate::repository::UPSTREAM;
use crate::request::Movement;
use crate::state::{Left, Phase};

impl Run<'_> {
    /// Looks at everything that is there, submodules too. What the last run left may go; what anybody else did may not.
    pub(super) fn protect(&mut self) -> Result<(), Error> {
        self.open()?;
        if self.folder.is_new {
            return Ok(());
        }
        self.stay_locked()?;
        let scratch = self.folder.scratch()?;
        let was_interrupted = self.before.phase == Phase::Moving;
        if was_interrupted {
            self.repository.remove_torn()?;
            self.convert.take_back(&self.checkout.directory);
        }
        let mut tree = Tree { as_left: !was_interrupted, ..Tree::default() };
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
            if was_interrupted {
                if !changes.is_empty() || !commits.is_empty() {
                    // Of files that are only missing nothing can be kept: they were not checked out yet.
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
            return Err(Error::Dirty { path: self.checkout.directory.clone(), found });
        }
        tree.as_left &= self.before.repositories.keys().eq(sorted(&repositories));
        tree.submodules = self.repository.gitlinks()?;
        self.tree = tree;
        Ok(())
    }

    /// With `--locked`, what is there has to be what was asked for.
    fn stay_locked(&self) -> Result<(), Error> {
        if self.checkout.movement == Movement::Allowed {
            return Ok(());
        }
        let tagged = self.repository.commit(&format!("refs/tags/{UPSTREAM}"))?;
        let Some(found) = tagged.or(self.repository.head()?) else { return Ok(()) };
        let wanted = match &self.reference {
            Reference::Named { name, .. } => (*name != found).then(|| name.clone()),
            Reference::Archive(archive) => {
                let (wanted, found) = (archive.sha256.as_ref(), self.before.archive.as_ref());
                (wanted.is_none() || wanted != found).then(|| archive.path.display().to_string())
            }
            _ => None,
        };
        match wanted {
            None => Ok(()),
            Some(wanted) => Err(Error::Moved { path: self.checkout.directory.clone(), found, wanted }),
        }
    }

    /// Makes the repository, if there is none.
    fn open(&self) -> Result<(), Error> {
        let directory = &self.checkout.directory;
        // A run that was killed at its start has left a folder of git with half of what belongs there. Done twice it is the same.
        let marker = directory.join(".git");
        let is_half = marker.is_dir() && (self.folder.was_killed || !marker.join("HEAD").exists());
        if self.folder.is_new || is_half {
            self.repository.run(&["init", "--quiet", "--initial-branch=main"], "make a repository")?;
            self.repository.run(&["config", "advice.detachedHead", "false"], "set up the repository")?;
        }
        Ok(())
    }
}

/// Whether a line of what has changed says that a file is not there.
fn is_missing(line: &str) -> bool {
    line.get(..2).is_some_and(|letters| letters.chars().all(|letter| matches!(letter, 'D' | ' ')))
}

fn sorted(paths: &[String]) -> std::vec::IntoIter<&String> {
    let mut paths: Vec<&String> = paths.iter().collect();
    paths.sort();
    paths.into_iter()
}
