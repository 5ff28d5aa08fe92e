//! Input: a reference. Output: its commit in the repository. The tree is not touched.

use rocwheel_progress::Failure;

use super::{Run, names};
use crate::archive;
use crate::error;
use crate::git::Broken;
use crate::pins;
use crate::plan::{self, Reference};
use crate::request::SourceArchive;

/// Messages of git for a reference that the server does not have.
const NO_REFERENCE: [&str; 4] =
    ["couldn't find remote ref", "not our ref", "unadvertised object", "Server does not allow request"];
const SUGGESTIONS: usize = 3;

/// The origin does not have the reference.
fn no_reference(origin: &str, reference: &str, nearest: &[String]) -> Failure {
    let origin = crate::git::without_secret(origin);
    let failure = Failure::message(format!("`{origin}` has no branch, tag or commit `{reference}`"));
    if !nearest.is_empty() {
        failure.with_hint(format!("did you mean `{}`?", nearest.join("`, `")))
    } else if reference.bytes().all(|byte| byte.is_ascii_hexdigit()) && reference.len() < 40 {
        failure.with_hint("servers take commits only in full: write all 40 digits")
    } else {
        failure.with_hint("`git ls-remote` with that address lists what there is")
    }
}

impl Run<'_> {
    pub(super) fn obtain(&mut self, depth: Option<u32>, jobs: Option<u16>) -> Result<(), Failure> {
        let commit = match self.reference.clone() {
            Reference::Named { origin, name, .. } => {
                self.set_origin(&origin)?;
                self.fetch(&origin, &name, depth, jobs)?
            }
            Reference::Archive(archive) => {
                let (commit, digest) = self.commit_archive(&archive)?;
                self.state.archive = Some(digest);
                commit
            }
            Reference::Related { .. } | Reference::Triton { .. } => unreachable!("pins were followed before"),
        };
        self.state.project.clone_from(&self.checkout.project);
        self.state.schema = 1;
        (self.state.origin, self.state.reference) = names(&self.reference);
        self.state.branch = match &self.reference {
            Reference::Named { branch, .. } => branch.clone(),
            _ => None,
        };
        self.state.commit = commit;
        Ok(())
    }

    fn set_origin(&self, origin: &str) -> Result<(), Failure> {
        let known = self.repository.git.at(&self.repository.path).args(["config", "--local", "remote.origin.url"]);
        let verb = if known.answer(self.repository.reporter)?.is_some() { "set-url" } else { "add" };
        self.repository.run(&["remote", verb, "origin", origin], "set the origin").map(drop)
    }

    fn fetch(&self, origin: &str, name: &str, depth: Option<u32>, jobs: Option<u16>) -> Result<String, Failure> {
        // A commit does not change: if it exists locally, no server is asked.
        if pins::is_commit(name)
            && let Some(commit) = self.repository.commit(name)?
        {
            return Ok(commit);
        }
        let repository = &self.repository;
        let call = repository.git.at(&repository.path).args(plan::fetch(depth, jobs, name));
        let attempt = format!("fetch `{name}` of {}", crate::git::without_secret(origin));
        match call.run(repository.reporter) {
            Ok(_) => {}
            Err(Broken::Failed(failure)) if failure.says(&NO_REFERENCE) => {
                if pins::is_commit(name) && self.fetch_branches(name)? {
                    return Ok(name.to_owned());
                }
                let nearest = self.nearest(name)?;
                return Err(no_reference(origin, name, &nearest));
            }
            Err(broken) => return Err(broken.into_failure(attempt)),
        }
        let commit = repository.commit("FETCH_HEAD")?;
        commit.ok_or_else(|| no_reference(origin, name, &[]))
    }

    /// Fetches all branches, because some servers give commits only together with their branch.
    fn fetch_branches(&self, commit: &str) -> Result<bool, Failure> {
        let repository = &self.repository;
        let arguments = ["fetch", "--no-recurse-submodules", "origin", "+refs/heads/*:refs/remotes/origin/*"];
        let mut call = repository.git.at(&repository.path).args(arguments);
        // Otherwise commits beyond the end of a shallow history are not fetched.
        if repository.run(&["rev-parse", "--is-shallow-repository"], "see how much history there is")? == "true" {
            call = call.arg("--unshallow");
        }
        match call.run(repository.reporter) {
            Ok(_) => Ok(repository.commit(commit)?.is_some()),
            Err(Broken::Failed(failure)) if !failure.is_temporary() => Ok(false),
            Err(broken) => Err(broken.into_failure(format!("fetch the branches that may lead to {commit}"))),
        }
    }

    fn nearest(&self, name: &str) -> Result<Vec<String>, Failure> {
        let call = self.repository.git.at(&self.repository.path).args([
            "ls-remote",
            "--quiet",
            "--refs",
            "--heads",
            "--tags",
            "origin",
        ]);
        let Some(text) = call.answer(self.repository.reporter)? else { return Ok(Vec::new()) };
        let names = text.lines().filter_map(|line| line.split_once("\trefs/")?.1.split_once('/').map(|(_, name)| name));
        Ok(nearest(name, names))
    }

    /// Makes a commit without history from an archive's files. The same archive makes the same
    /// commit.
    fn commit_archive(&self, archive: &SourceArchive) -> Result<(String, String), Failure> {
        let repository = &self.repository;
        let found = archive::sha256(&archive.path, repository.reporter)?;
        if let Some(wanted) = archive.sha256.as_ref().filter(|wanted| **wanted != found) {
            return Err(error::checksum(&archive.path, &found, wanted));
        }
        let kept = format!("refs/rocwheel/archives/{found}");
        if let Some(commit) = repository.commit(&kept)? {
            return Ok((commit, found));
        }
        let scratch = self.folder.scratch()?;
        let files = scratch.path().join("files");
        fs_err::create_dir(&files)?;
        let unpacked = archive::unpack(&archive.path, &files, repository.reporter)?;
        let attempt = format!("make a commit of `{}`", archive.path.display());
        let index = scratch.path().join("index");
        let git_directory = repository.git.at(&repository.path).args(["rev-parse", "--absolute-git-dir"]);
        let git_directory = git_directory.expect(&attempt, repository.reporter)?.text();
        let git = repository.git.at(&files).variable("GIT_DIR", &git_directory);
        let git = git.variable("GIT_WORK_TREE", &files).variable("GIT_INDEX_FILE", &index);
        // Files that the archive's own ignore rules match are part of the sources too.
        git.clone().args(["add", "--all", "--force"]).expect(&attempt, repository.reporter)?;
        let tree = git.clone().arg("write-tree").expect(&attempt, repository.reporter)?.text();
        let name = archive.path.file_name().unwrap_or_default().to_string_lossy();
        let message = format!("Sources of {name}\n\nSHA-256: {found}\n");
        let commit = git.args(["commit-tree", "-m", &message, &tree]).dated(&format!("{} +0000", unpacked.newest));
        let commit = commit.expect(attempt, repository.reporter)?.text();
        repository.run(&["update-ref", &kept, &commit], "keep the commit of the archive")?;
        Ok((commit, found))
    }
}

/// Splits a name that ends in a version: `v2.8.3` into `v` and 2, 8, 3.
fn numbers(name: &str) -> Option<(&str, Vec<u64>)> {
    let at = name.find(|letter: char| letter.is_ascii_digit())?;
    let numbers = name[at..].split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some((&name[..at], numbers))
}

/// Distance of two versions: first by the position of the first number that differs, then by the
/// difference.
fn distance(left: &[u64], right: &[u64]) -> (std::cmp::Reverse<usize>, u64) {
    let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    let [left, right] = [left, right].map(|numbers| numbers.get(same).copied().unwrap_or(0));
    (std::cmp::Reverse(same), left.abs_diff(right))
}

/// The most similar names. For a version, these are the nearest versions. Otherwise they are names
/// that contain it or that it contains, and names within a few edits.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    if let Some((prefix, wanted)) = numbers(name) {
        let versions = names.iter().filter_map(|name| {
            let (other, numbers) = numbers(name)?;
            let distance = distance(&wanted, &numbers);
            (other == prefix && distance.0.0 > 0).then_some((distance, *name))
        });
        let mut versions: Vec<_> = versions.collect();
        if !versions.is_empty() {
            versions.sort_unstable();
            versions.dedup_by_key(|(_, name)| *name);
            return versions.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect();
        }
    }
    let wanted = name.to_lowercase();
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|other| {
            let lower = other.to_lowercase();
            let distance = strsim::levenshtein(&wanted, &lower);
            let holds = wanted.len() > 2 && (lower.contains(&wanted) || wanted.ends_with(&lower));
            (holds || distance * 3 <= wanted.chars().count().max(3)).then_some((distance, other))
        })
        .collect();
    found.sort_unstable();
    found.dedup_by_key(|(_, name)| *name);
    found.into_iter().take(SUGGESTIONS).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_that_were_meant_come_first() {
        let names = ["main", "release/2.9", "release/2.8", "v2.9.0", "nightly", "feature/x"];
        assert_eq!(nearest("release/2.90", names.into_iter())[0], "release/2.9");
        let tags = ["v2.0.9", "v2.5.9", "v2.8.0", "v2.8.3", "v2.8.2", "fa4-v4.0.0", "v3.0.0", "v2.8.3.post1"];
        assert_eq!(nearest("v2.8.9", tags.into_iter()), ["v2.8.3", "v2.8.2", "v2.8.0"]);
        assert_eq!(nearest("v2.9", tags.into_iter()), ["v2.8.0", "v2.8.2", "v2.8.3"]);
        assert_eq!(nearest("nigthly", names.into_iter()), ["nightly"]);
        assert_eq!(nearest("2.9", names.into_iter()), ["v2.9.0", "release/2.9"]);
        assert_eq!(nearest("origin/main", names.into_iter()), ["main"]);
        assert!(nearest("something-else", names.into_iter()).is_empty());
    }
}
