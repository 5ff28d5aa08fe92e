//! Input: a folder with a git repository. Output: its content, the work in it that may be lost, and
//! small changes to it.

use std::path::{Path, PathBuf};

use rocwheel_progress::{Failure, Reporter, shell_word};

use crate::git::Git;

/// Tag of the upstream commit, on which patches are based.
pub const UPSTREAM: &str = "THEROCK_UPSTREAM_DIFFBASE";
/// Tag of the commit of the converted sources.
pub const HIPIFY: &str = "THEROCK_HIPIFY_DIFFBASE";
/// Prefix of the refs that keep the work of interrupted runs.
const INTERRUPTED: &str = "refs/rocwheel/interrupted";

/// Files of git while a command is unfinished, and that command.
const UNFINISHED: [(&str, &str); 5] = [
    ("rebase-apply", "git am"),
    ("rebase-merge", "git rebase"),
    ("MERGE_HEAD", "git merge"),
    ("CHERRY_PICK_HEAD", "git cherry-pick"),
    ("REVERT_HEAD", "git revert"),
];

/// Files of an interrupted run that are kept under a ref.
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) way_back: String,
}

/// One repository: a checkout or one of its submodules.
#[derive(Clone)]
pub(crate) struct Repository<'a> {
    pub(crate) git: &'a Git,
    pub(crate) path: PathBuf,
    pub(crate) reporter: &'a dyn Reporter,
}

impl<'a> Repository<'a> {
    pub(crate) fn new(git: &'a Git, path: &Path, reporter: &'a dyn Reporter) -> Self {
        Self { git, path: path.to_owned(), reporter }
    }

    /// A submodule of this repository; the empty path is the repository itself.
    pub(crate) fn submodule(&self, path: &str) -> Repository<'a> {
        let path = if path.is_empty() { self.path.clone() } else { self.path.join(path) };
        Repository { git: self.git, path, reporter: self.reporter }
    }

    pub(crate) fn run(&self, arguments: &[&str], attempt: &str) -> Result<String, Failure> {
        let attempt = format!("{attempt} in `{}`", self.path.display());
        Ok(self.git.at(&self.path).args(arguments).expect(attempt, self.reporter)?.text())
    }

    /// The commit of a name; `None` if it does not exist.
    pub(crate) fn commit(&self, name: &str) -> Result<Option<String>, Failure> {
        let name = format!("{name}^{{commit}}");
        self.git
            .at(&self.path)
            .args(["rev-parse", "--quiet", "--verify", "--end-of-options", &name])
            .answer(self.reporter)
    }

    /// The commit that is checked out; `None` in a new repository.
    pub(crate) fn head(&self) -> Result<Option<String>, Failure> {
        self.commit("HEAD")
    }

    /// Sets a tag to the checked out commit, moving it if it exists.
    pub(crate) fn tag(&self, name: &str) -> Result<(), Failure> {
        self.run(&["tag", "--force", "--no-sign", name], "set a tag").map(drop)
    }

    pub(crate) fn remove_tag(&self, name: &str) -> Result<(), Failure> {
        if self.commit(&format!("refs/tags/{name}"))?.is_some() {
            self.run(&["tag", "--delete", name], "remove a tag")?;
        }
        Ok(())
    }

    /// Paths of the submodules in the index, checked out or not.
    pub(crate) fn gitlinks(&self) -> Result<Vec<String>, Failure> {
        let answer = self.git.at(&self.path).args(["ls-files", "--stage", "-z"]);
        let answer = answer.expect(format!("list the files of `{}`", self.path.display()), self.reporter)?;
        let links = answer.records().filter_map(|record| {
            let (entry, path) = record.split_once('\t')?;
            entry.starts_with("160000 ").then(|| path.to_owned())
        });
        Ok(links.collect())
    }

    /// Makes git ignore the submodules (`--skip-worktree`), or undoes that (`--no-skip-worktree`).
    pub(crate) fn mark_submodules(&self, flag: &str) -> Result<(), Failure> {
        let links = self.gitlinks()?;
        if links.is_empty() {
            return Ok(());
        }
        let call = self.git.at(&self.path).args(["update-index", flag, "--"]).args(&links);
        call.expect(format!("mark the submodules of `{}`", self.path.display()), self.reporter).map(drop)
    }

    /// The name of the submodule at a path, from `.gitmodules`.
    pub(crate) fn submodule_name(&self, path: &str) -> Result<Option<String>, Failure> {
        let keys =
            self.git.at(&self.path).args(["config", "--file", ".gitmodules", "--null", "--get-regexp", r"\.path$"]);
        let Some(text) = keys.answer(self.reporter)? else { return Ok(None) };
        let key = text
            .split('\0')
            .find_map(|record| record.split_once('\n').filter(|(_, value)| *value == path).map(|(key, _)| key));
        let name = key.and_then(|key| key.strip_prefix("submodule.")?.strip_suffix(".path"));
        Ok(name.map(str::to_owned))
    }

    /// Removes the remains of submodule clones that were killed before they received anything,
    /// because git takes them for complete clones.
    pub(crate) fn remove_torn(&self) -> Result<(), Failure> {
        let links = self.gitlinks()?;
        if links.is_empty() {
            return Ok(());
        }
        let own = PathBuf::from(self.run(&["rev-parse", "--absolute-git-dir"], "find the folder of git")?);
        for link in links {
            let submodule = self.submodule(&link);
            let marker = submodule.path.join(".git");
            if marker.exists() && submodule.head()?.is_some() {
                submodule.remove_torn()?;
                continue;
            }
            if marker.is_file() && fs_err::read_dir(&submodule.path)?.count() == 1 {
                fs_err::remove_file(&marker)?;
            }
            let name = self.submodule_name(&link)?.unwrap_or(link);
            let place = own.join("modules").join(name);
            if place.is_dir() {
                let any = self.git.at(&place).args(["for-each-ref", "--count=1"]).variable("GIT_DIR", &place);
                if any.answer(self.reporter)?.is_none_or(|refs| refs.is_empty()) {
                    fs_err::remove_dir_all(&place)?;
                }
            }
        }
        Ok(())
    }

    /// Paths of all checked out submodules, including nested ones. The empty path, this repository,
    /// comes first.
    pub(crate) fn all(&self) -> Result<Vec<String>, Failure> {
        let mut found = vec![String::new()];
        let mut at = 0;
        while let Some(parent) = found.get(at).cloned() {
            let inside = self.submodule(&parent);
            let mut below = Vec::new();
            for link in inside.gitlinks()? {
                if inside.path.join(&link).join(".git").exists() {
                    below.push(if parent.is_empty() { link } else { format!("{parent}/{link}") });
                }
            }
            at += 1;
            found.splice(at..at, below);
        }
        Ok(found)
    }

    /// The differences to the checked out commit: two letters as `git status` prints them, and the
    /// path.
    pub(crate) fn changes(&self) -> Result<Vec<String>, Failure> {
        let call = self.git.at(&self.path);
        let call = call.args([
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=all",
        ]);
        Ok(call
            .expect(format!("see what has changed in `{}`", self.path.display()), self.reporter)?
            .records()
            .collect())
    }

    pub(crate) fn unfinished(&self) -> Result<Option<&'static str>, Failure> {
        let directory = self.git.at(&self.path).args(["rev-parse", "--absolute-git-dir"]).answer(self.reporter)?;
        let Some(directory) = directory.map(PathBuf::from) else { return Ok(None) };
        Ok(UNFINISHED.iter().find(|(name, _)| directory.join(name).exists()).map(|(_, command)| *command))
    }

    /// Hash and subject of checked out commits to which neither a branch, a tag nor `known` leads.
    pub(crate) fn nameless(&self, known: &[&str]) -> Result<Vec<String>, Failure> {
        if self.head()?.is_none() {
            return Ok(Vec::new());
        }
        let mut exclude: Vec<String> = Vec::new();
        for commit in known {
            if !commit.is_empty() && self.commit(commit)?.is_some() {
                exclude.push((*commit).to_owned());
            }
        }
        let call = self.git.at(&self.path).args(["log", "--format=%h %s", "HEAD", "--not", "--glob=refs/*"]);
        let answer = call.args(exclude).expect(format!("list commits of `{}`", self.path.display()), self.reporter)?;
        Ok(answer.text().lines().map(str::to_owned).collect())
    }

    /// The tree object of the working files, including new ones. The index stays unchanged.
    pub(crate) fn working_tree(&self, scratch: &Path) -> Result<String, Failure> {
        let index = scratch.join("index");
        let attempt = format!("look at the files of `{}`", self.path.display());
        let present = self.git.at(&self.path).args(["rev-parse", "--path-format=absolute", "--git-path", "index"]);
        let present = PathBuf::from(present.expect(&attempt, self.reporter)?.text());
        if present.is_file() {
            // The times in the existing index spare reading every file again.
            fs_err::copy(&present, &index)?;
        }
        let add = self.git.at(&self.path).args(["add", "--all"]).variable("GIT_INDEX_FILE", &index);
        add.expect(&attempt, self.reporter)?;
        let tree = self.git.at(&self.path).arg("write-tree").variable("GIT_INDEX_FILE", &index);
        let tree = tree.expect(attempt, self.reporter)?.text();
        let _ = fs_err::remove_file(&index);
        Ok(tree)
    }

    /// Keeps the working files under a ref, so that the user can restore them. `known` is the
    /// commit that the last run left; other commits without a branch or tag may be the user's.
    pub(crate) fn keep(&self, scratch: &Path, known: &str) -> Result<Kept, Failure> {
        let commits = self.nameless(&[known])?;
        let tree = self.working_tree(scratch)?;
        let mut call =
            self.git.at(&self.path).args(["commit-tree", "-m", "what an interrupted run of rocwheel left", &tree]);
        let head = self.head()?;
        if let Some(head) = &head {
            call = call.args(["-p", head]);
        }
        let attempt = format!("keep the files of `{}`", self.path.display());
        let commit = call.dated("0 +0000").expect(&attempt, self.reporter)?.text();
        // Each has its own name, so that a second one does not replace the first.
        let name = format!("{INTERRUPTED}/{}", &commit[..commit.len().min(12)]);
        self.run(&["update-ref", &name, &commit], "keep what was left")?;
        let git = format!("git -C {}", shell_word(&self.path.display().to_string()));
        let way_back = if head.is_none() {
            format!("{git} checkout {name} -- .")
        } else if commits.is_empty() {
            // Only files that differed are restored, because another commit may be checked out by
            // then. Files that were missing stay missing.
            let paths = format!("{git} diff --name-only -z --diff-filter=d {name}^ {name}");
            format!("{paths} | {git} checkout {name} --pathspec-from-file=- --pathspec-file-nul")
        } else {
            format!("{git} switch --create kept {name}")
        };
        Ok(Kept { name, way_back })
    }

    /// Removes all differences to the checked out commit.
    pub(crate) fn reset(&self) -> Result<(), Failure> {
        if self.head()?.is_some() {
            self.run(&["reset", "--quiet", "--hard"], "take back changes")?;
        } else {
            self.run(&["read-tree", "--empty"], "take back changes")?;
        }
        self.run(&["clean", "--quiet", "-d", "--force"], "remove new files").map(drop)
    }

    /// Committer date of a commit, in git's raw format.
    pub(crate) fn date(&self, commit: &str) -> Result<String, Failure> {
        self.run(&["log", "--max-count=1", "--format=%cd", "--date=raw", commit], "read the date of a commit")
    }

    /// Commits all differences, with the date of the commit `like`; `false` if there are none.
    pub(crate) fn commit_all(&self, message: &str, like: &str) -> Result<bool, Failure> {
        if self.changes()?.is_empty() {
            return Ok(false);
        }
        self.run(&["add", "--all"], "add the changes")?;
        // Differences only in line ends that git normalizes leave nothing to commit.
        if !self.git.at(&self.path).args(["diff", "--cached", "--quiet"]).succeeds(self.reporter)? {
            let date = self.date(like)?;
            let call = self.git.at(&self.path).args([
                "commit",
                "--quiet",
                "--no-verify",
                "--no-gpg-sign",
                "--message",
                message,
            ]);
            call.dated(&date).expect(format!("commit in `{}`", self.path.display()), self.reporter)?;
        }
        Ok(true)
    }
}

/// A repository lacks the tag that a checkout of ours has.
pub(crate) fn no_tag(path: &Path) -> Failure {
    Failure::message(format!("`{}` has no tag `{UPSTREAM}`", path.display())).with_hint(
        "`rocwheel source checkout` sets it; in a checkout of your own, `git tag` the commit that your patches start from",
    )
}
