//! Converts between the user's commits in a checkout and sets of patches, in both directions.
//!
//! A set is `<set>/<folder of the project>/{base,hipified}/NNNN-*.patch` for the checkout itself
//! and `<set>/<path of the submodule>/{base,hipified}/…` for submodules. `base` goes on top of the
//! upstream commit, `hipified` on top of the converted sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rocwheel_progress::{Exit, Failure, Reporter, Silent, shell_word};
use serde::Serialize;

use crate::error::{self, PatchConflict};
use crate::git::{Broken, Git};
use crate::patch_files::{PINNED_SET, PatchGroup, Stage, am_options, patch_files, read, set_of_archive, sets};
use crate::pins;
use crate::repository::{HIPIFY, Repository, UPSTREAM, no_tag};
use crate::state::{self, Folder, Left};
use crate::table::Table;

/// The patches that were saved or applied for one repository.
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    pub stage: Stage,
    /// Path of the submodule; empty for the checkout itself.
    pub repository: String,
    pub folder: PathBuf,
    /// Names of the patches, in order.
    pub patches: Vec<String>,
    /// Patches of the set that the repository already has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub present: Vec<String>,
}

/// Applies patches as commits to one repository of a checkout.
///
/// # Errors
/// A patch does not apply, and git waits with it for the user; or the submodule does not exist.
pub(crate) fn apply(checkout: &Repository<'_>, group: &PatchGroup) -> Result<(), Failure> {
    let repository = checkout.submodule(&group.repository);
    if !repository.path.join(".git").exists() {
        let path = group.files.first().and_then(|file| file.parent()).unwrap_or(Path::new("")).to_owned();
        let (path, repository) = (path.display(), &group.repository);
        return Err(Failure::message(format!(
            "`{path}` holds patches for `{repository}`, which is no submodule of the checkout"
        ))
        .with_hint("check the submodules out, or remove the folder from the patch set"));
    }
    let call =
        repository.git.at(&repository.path).arg("am").args(am_options(&group.files)).arg("--").args(&group.files);
    match call.run(repository.reporter) {
        Ok(_) => Ok(()),
        Err(Broken::Other(failure)) => {
            if failure.exit() == Exit::Interrupted {
                // The user has not seen the state yet, so nothing is lost.
                let _ = repository.git.at(&repository.path).args(["am", "--abort"]).succeeds(&Silent);
            }
            Err(failure)
        }
        Err(Broken::Failed(source)) => {
            let waiting = repository.unfinished()?.is_some();
            let patch = waiting.then(|| current_patch(&repository, &group.files)).transpose()?.flatten();
            let patch = patch.or_else(|| group.files.first().cloned()).unwrap_or_default();
            let mut files = repository.git.at(&repository.path).args(["diff", "--name-only", "--diff-filter=U", "-z"]);
            files = files.args(["--ignore-submodules=all"]);
            let answer = files.expect("list the files with conflicts", repository.reporter)?;
            let mut files: Vec<String> = answer.records().collect();
            if files.is_empty() {
                files = source.named_after("error: patch failed: ");
            }
            Err(PatchConflict { path: repository.path.clone(), patch, files, waiting, source }.into())
        }
    }
}

/// The patch at which git stopped.
fn current_patch(repository: &Repository<'_>, files: &[PathBuf]) -> Result<Option<PathBuf>, Failure> {
    let place = repository
        .run(&["rev-parse", "--path-format=absolute", "--git-path", "rebase-apply/next"], "find the patch")?;
    let number = fs_err::read_to_string(place).ok().and_then(|text| text.trim().parse::<usize>().ok());
    Ok(number.and_then(|number| files.get(number.checked_sub(1)?).cloned()))
}

#[derive(Debug, Clone)]
pub struct PatchSet {
    /// Path of the checkout; absolute.
    pub checkout: PathBuf,
    /// Folder of the set, `PATCHES/PROJECT/SET`; absolute.
    pub set: PathBuf,
    /// Folder in the set with the checkout's own patches, usually named after the project.
    pub own: String,
}

impl PatchSet {
    /// The set of a checkout in a folder of sets by project. `name` overrides the default set of
    /// the checkout.
    pub fn of(checkout: &Path, patches: &Path, name: Option<&str>, table: &Table) -> Result<PatchSet, Failure> {
        let state = state::read(checkout);
        let known = table.project(&state.project).map(|project| project.directory.clone());
        let own = known.unwrap_or_else(|_| checkout.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let name = match (name, state.reference.as_str()) {
            (Some(name), _) => name.to_owned(),
            (None, "") if state.archive.is_some() => set_of_archive(&state.origin),
            (None, "") => {
                let reason = format!("`{}` does not say which patch set is its", checkout.display());
                return Err(error::request(reason).with_hint("name it with `--set`"));
            }
            (None, reference) => match &state.branch {
                Some(branch) => branch.clone(),
                None if pins::is_commit(reference) => PINNED_SET.to_owned(),
                None => reference.to_owned(),
            },
        };
        Ok(PatchSet { checkout: checkout.to_owned(), set: patches.join(&own).join(name), own })
    }

    /// Writes the commits on top of the upstream commit and of the converted sources as patches, in
    /// submodules too. Existing patches for these repositories are replaced. The same commits make
    /// the same files with any version of git.
    ///
    /// # Errors
    /// A tag is missing, work is not committed, or the set cannot be written.
    pub fn save(&self, git: &Git, reporter: &dyn Reporter) -> Result<Vec<Group>, Failure> {
        let folder = self.open(git, reporter)?;
        let git = folder.git(git);
        let checkout = Repository::new(&git, &self.checkout, reporter);
        if checkout.commit(&format!("refs/tags/{UPSTREAM}"))?.is_none() {
            return Err(no_tag(&self.checkout));
        }
        let repositories = checkout.all()?;
        let mut unsaved = Vec::new();
        for path in &repositories {
            let repository = checkout.submodule(path);
            if let Some(command) = repository.unfinished()? {
                unsaved.push(format!("{}: `{command}` is not finished", shown(path)));
            }
        }
        if !unsaved.is_empty() {
            return Err(error::dirty(&self.checkout, unsaved));
        }
        fs_err::create_dir_all(&self.set)?;
        let staging = tempfile::Builder::new().prefix(".saving-").tempdir_in(&self.set)?;
        let mut groups = Vec::new();
        let mut heads = BTreeMap::new();
        for path in &repositories {
            let repository = checkout.submodule(path);
            for (stage, range) in ranges(&repository)? {
                let place = if path.is_empty() { self.own.as_str() } else { path };
                let folder = Path::new(place).join(stage.folder());
                refuse_merges(&repository, &range)?;
                let patches = write(&repository, &range, &staging.path().join(&folder))?;
                if !patches.is_empty() {
                    let (repository, folder) = (path.clone(), self.set.join(folder));
                    groups.push(Group { stage, repository, folder, patches, present: Vec::new() });
                }
            }
            heads.insert(path.clone(), repository.head()?.unwrap_or_default());
        }
        // A tree that is not converted says nothing about patches for converted sources, so they
        // stay.
        let is_converted = checkout.commit(&format!("refs/tags/{HIPIFY}"))?.is_some();
        let mut state = folder.state();
        for path in &repositories {
            for stage in [Stage::Base, Stage::Hipified] {
                if (is_converted || stage == Stage::Base) && !state.unreached.contains(&(stage, path.clone())) {
                    self.replace(path, stage, staging.path(), &groups)?;
                }
            }
        }
        drop(staging);
        // A set without patches is removed, unless its folder has other files.
        let _ = fs_err::remove_dir(&self.set);
        // The commits are saved in files now, so a checkout may overwrite them.
        for (path, head) in heads {
            let left = state.repositories.entry(path).or_insert_with(Left::default);
            left.head = head;
        }
        state.fingerprint.clear();
        folder.write(&state)?;
        Ok(groups)
    }

    /// Moves the new patches of a repository into the set and removes the previous ones.
    fn replace(&self, path: &str, stage: Stage, staging: &Path, groups: &[Group]) -> Result<(), Failure> {
        let place = Path::new(if path.is_empty() { self.own.as_str() } else { path }).join(stage.folder());
        let target = self.set.join(&place);
        if target.is_dir() {
            for file in patch_files(&target)? {
                fs_err::remove_file(file)?;
            }
        }
        if let Some(group) = groups.iter().find(|group| group.folder == target) {
            fs_err::create_dir_all(&target)?;
            for name in &group.patches {
                rocwheel_system::rename(staging.join(&place).join(name), target.join(name))?;
            }
        } else {
            // Only empty folders are removed; a set may have notes beside its patches.
            let _ = fs_err::remove_dir(&target);
            let _ = target.parent().map(fs_err::remove_dir);
        }
        Ok(())
    }

    /// Applies the patches of one stage, or of both if `stage` is `None`. Those for converted
    /// sources are applied only if the sources are converted.
    /// It fails if the tree has uncommitted work or a patch does not apply.
    pub fn apply(&self, stage: Option<Stage>, git: &Git, reporter: &dyn Reporter) -> Result<Vec<Group>, Failure> {
        let folder = self.open(git, reporter)?;
        let git = folder.git(git);
        let checkout = Repository::new(&git, &self.checkout, reporter);
        if !self.set.is_dir() {
            let folder = self.set.parent().unwrap_or(&self.set);
            return Err(error::no_patch_set(&self.set, &sets(folder)?));
        }
        let is_converted = checkout.commit(&format!("refs/tags/{HIPIFY}"))?.is_some();
        let stage = stage.unwrap_or(if is_converted { Stage::Hipified } else { Stage::Base });
        let groups: Vec<PatchGroup> =
            read(&self.set, &self.own)?.into_iter().filter(|group| group.stage == stage).collect();
        let mut found = Vec::new();
        for group in &groups {
            let repository = checkout.submodule(&group.repository);
            if repository.path.join(".git").exists() {
                if let Some(command) = repository.unfinished()? {
                    found.push(format!("{}: `{command}` is not finished", shown(&group.repository)));
                }
                // New files do not disturb a patch, unless it creates the same file; git refuses
                // that itself.
                let changes = repository.changes()?.into_iter().filter(|line| !line.starts_with("??"));
                found.extend(changes.map(|line| beside(&group.repository, &line)));
            }
        }
        if !found.is_empty() {
            return Err(error::dirty(&self.checkout, found));
        }
        let mut applied = Vec::new();
        for mut group in groups {
            let there = changes_there(&checkout.submodule(&group.repository), stage, folder.scratch()?.path())?;
            let parent = group.files.first().and_then(|file| file.parent()).unwrap_or(&self.set).to_owned();
            let (present, absent): (Vec<PathBuf>, Vec<PathBuf>) = group.files.into_iter().partition(|file| {
                fs_err::read(file).is_ok_and(|text| change(&text).is_some_and(|change| there.contains(&change)))
            });
            let [patches, present] = [&absent, &present].map(|files| {
                files.iter().map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned()).collect()
            });
            group.files = absent;
            if !group.files.is_empty() {
                apply(&checkout, &group)?;
            }
            let (stage, repository) = (group.stage, group.repository);
            applied.push(Group { stage, repository, folder: parent, patches, present });
        }
        Ok(applied)
    }

    fn open(&self, git: &Git, reporter: &dyn Reporter) -> Result<Folder, Failure> {
        if !self.checkout.join(".git").exists() {
            return Err(error::not_git(&self.checkout));
        }
        Folder::open(&self.checkout, git, reporter)
    }
}

/// The changed lines of a patch, without message, hashes and line numbers, which depend on the
/// place where it was made.
fn change(patch: &[u8]) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = patch.split(|byte| *byte == b'\n').collect();
    let first = lines.iter().position(|line| line.starts_with(b"diff --git "))?;
    // The last lines may be the version of git: two lines, and the text after the last line break.
    let end = lines.iter().rposition(|line| *line == b"-- ").filter(|at| at + 4 >= lines.len()).unwrap_or(lines.len());
    let mut lines = lines.get(first..end)?.to_vec();
    lines.retain(|line| !line.starts_with(b"@@ ") && !line.starts_with(b"index "));
    Some(lines.join(&b'\n').trim_ascii_end().to_vec())
}

fn changes_there(repository: &Repository<'_>, stage: Stage, scratch: &Path) -> Result<BTreeSet<Vec<u8>>, Failure> {
    let mut found = BTreeSet::new();
    if !repository.path.join(".git").exists() || repository.commit(&format!("refs/tags/{UPSTREAM}"))?.is_none() {
        return Ok(found);
    }
    for (_, range) in ranges(repository)?.into_iter().filter(|(of, _)| *of == stage) {
        for name in write(repository, &range, scratch)? {
            found.extend(change(&fs_err::read(scratch.join(name))?));
        }
    }
    Ok(found)
}

/// The ranges of the user's commits: before the conversion and after it.
fn ranges(repository: &Repository<'_>) -> Result<Vec<(Stage, String)>, Failure> {
    let Some(upstream) = repository.commit(&format!("refs/tags/{UPSTREAM}"))? else {
        return Err(no_tag(&repository.path));
    };
    Ok(match repository.commit(&format!("refs/tags/{HIPIFY}"))? {
        Some(hipify) if hipify != upstream => {
            vec![(Stage::Base, format!("{upstream}..{hipify}^")), (Stage::Hipified, format!("{hipify}..HEAD"))]
        }
        // The conversion changed nothing, so later commits belong on top of it.
        Some(hipify) => vec![(Stage::Hipified, format!("{hipify}..HEAD"))],
        None => vec![(Stage::Base, format!("{upstream}..HEAD"))],
    })
}

fn refuse_merges(repository: &Repository<'_>, range: &str) -> Result<(), Failure> {
    let merge =
        repository.run(&["log", "--merges", "--max-count=1", "--format=%h %s", range, "--"], "look for merges")?;
    if !merge.is_empty() {
        // git skips merges, and with them the changes made in one.
        let (base, path) = (range.split("..").next().unwrap_or(range), repository.path.display());
        let path_word = shell_word(&path.to_string());
        return Err(error::request(format!("`{path}` has the merge `{merge}`, which no patch can hold")).with_hint(format!(
            "make ordinary commits of it, for example one of all: `git -C {path_word} reset --soft {base}`, then `git commit`"
        )));
    }
    Ok(())
}

/// Writes the patches of a range. They contain no commit hash, no version of git and no abbreviated
/// hash whose length varies.
fn write(repository: &Repository<'_>, range: &str, folder: &Path) -> Result<Vec<String>, Failure> {
    let commits = repository.run(&["rev-list", "--count", range, "--"], "count commits")?;
    if commits == "0" {
        return Ok(Vec::new());
    }
    fs_err::create_dir_all(folder)?;
    let options =
        ["--zero-commit", "--no-signature", "--no-numbered", "--full-index", "--binary", "--no-stat", "--quiet"];
    let call =
        repository.git.at(&repository.path).arg("format-patch").args(options).arg("-o").arg(folder).args([range, "--"]);
    call.expect(format!("write patches of `{}`", repository.path.display()), repository.reporter)?;
    let mut names = Vec::new();
    for file in patch_files(folder)? {
        if change(&fs_err::read(&file)?).is_none() {
            // A commit without changes, which git does not apply.
            fs_err::remove_file(&file)?;
            continue;
        }
        names.push(file.file_name().unwrap_or_default().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// A line of changes, with the submodule's path in front of the file.
pub(crate) fn beside(repository: &str, line: &str) -> String {
    match (repository, line.split_at_checked(3)) {
        ("", _) | (_, None) => line.to_owned(),
        (_, Some((letters, path))) => format!("{letters}{repository}/{path}"),
    }
}

pub(crate) fn shown(repository: &str) -> &str {
    if repository.is_empty() { "the checkout" } else { repository }
}
