//! Input: a planned checkout. Output: the tree with its tags, and a report.

mod obtain;
mod protect;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_content::{Sha256, hexadecimal};
use rocwheel_progress::{Failure, Interrupted, Reporter, Silent, Unit};
use serde::Serialize;

use crate::error::{self, PatchConflict};
use crate::git::{Git, without_secret};
use crate::patch_files::PatchGroup;
use crate::patches;
use crate::pins;
use crate::plan::{self, BUILD_ENVIRONMENT, Checkout, CheckoutStep, HIPIFY_MESSAGE, Plan, Reference};
use crate::repository::{HIPIFY, Repository, UPSTREAM};
use crate::request::{Movement, SourceArchive};
use crate::state::{Folder, Left, Phase, State};

/// File of a tree whose sources have to be converted.
const CONVERTED: &str = "tools/amd_build/build_amd.py";

/// Converts the CUDA sources of a tree in place, as its own `tools/amd_build/build_amd.py` would.
pub trait Convert {
    /// Converts a tree that has `tools/amd_build/build_amd.py`, and returns the number of files
    /// written.
    ///
    /// # Errors
    /// Any failure. Nothing is written then.
    fn convert(&self, tree: &Path, reporter: &dyn Reporter) -> Result<u64, Box<dyn std::error::Error + Send + Sync>>;

    /// Undoes what a killed conversion has left half done. Changes that cannot be undone stay, and
    /// are kept like everything else that an interrupted run has left.
    fn take_back(&self, _tree: &Path) {}

    /// Everything besides the tree that decides the result. A checkout that was made with other
    /// settings is made again.
    fn settings(&self) -> String;
}

/// The result of one checkout.
#[derive(Debug, Clone, Serialize)]
pub struct CheckoutReport {
    pub project: String,
    pub directory: PathBuf,
    /// Address of its origin, without a password; for an archive, the file.
    pub origin: String,
    /// Branch, tag or commit; for an archive, its SHA-256.
    pub reference: String,
    pub commit: String,
    /// The commit of the converted sources, if there is one.
    pub hipify: Option<String>,
    /// The commit that is checked out in the end.
    pub head: String,
    /// The change that the run made.
    pub status: CheckoutStatus,
    /// Number of files that the conversion wrote.
    pub converted: u64,
    /// Number of submodules that are checked out, including nested ones.
    pub submodules: u64,
    /// Number of patches that were applied.
    pub patches: u64,
    /// Repository and ref in which files of an interrupted run are kept.
    pub kept: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckoutStatus {
    /// The folder was empty or did not exist.
    New,
    /// Another commit was checked out before, or it was made with other settings.
    Changed,
    /// Everything was as requested; no file was touched.
    Unchanged,
}

impl Plan {
    /// Makes the checkouts one after the other. `finished` is called after each.
    ///
    /// The checkouts before the failed one are complete; another run continues where this one
    /// stopped.
    pub fn execute(
        &self,
        git: &Git,
        convert: &dyn Convert,
        reporter: &dyn Reporter,
        finished: &mut dyn FnMut(&CheckoutReport),
    ) -> Result<Vec<CheckoutReport>, Failure> {
        let mut outcomes = Vec::new();
        for checkout in &self.checkouts {
            if let Some(warning) = &checkout.warning {
                reporter.warn(warning);
            }
            let stage = format!("Checking out {}", checkout.project);
            let stage = reporter.stage(&stage, Some(checkout.steps.len() as u64), Unit::Items);
            let outcome = one(checkout, git, convert, reporter)?;
            drop(stage);
            finished(&outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

fn one(
    checkout: &Checkout,
    git: &Git,
    convert: &dyn Convert,
    reporter: &dyn Reporter,
) -> Result<CheckoutReport, Failure> {
    // Pins are read first, so that a folder is made only for a reference that exists.
    let checkout = &Checkout {
        reference: checkout.reference.resolved()?,
        steps: checkout.steps.iter().map(CheckoutStep::resolved).collect(),
        ..checkout.clone()
    };
    let reference = checkout.reference.clone();
    if let (Movement::Locked, Reference::Named { name, .. }) = (checkout.movement, &reference)
        && !pins::is_commit(name)
    {
        return Err(error::may_move(&checkout.project, name));
    }
    if let Reference::Archive(SourceArchive { path, .. }) = &reference {
        // The archive is opened before anything is made, so that a wrong path leaves nothing
        // behind.
        fs_err::File::open(path)?;
    }
    let folder = Folder::open(&checkout.directory, git, reporter)?;
    let before = folder.state();
    let git = folder.git(git);
    let repository = Repository::new(&git, &checkout.directory, reporter);
    let mut run = Run {
        checkout,
        reference,
        repository,
        state: State::default(),
        before,
        has_moved: false,
        applied: 0,
        folder,
        convert,
        tree: Tree::default(),
        outcome: CheckoutReport {
            project: checkout.project.clone(),
            directory: checkout.directory.clone(),
            origin: String::new(),
            reference: String::new(),
            commit: String::new(),
            hipify: None,
            head: String::new(),
            status: CheckoutStatus::Unchanged,
            converted: 0,
            submodules: 0,
            patches: 0,
            kept: Vec::new(),
        },
    };
    match run.walk() {
        Ok(()) => Ok(run.outcome),
        Err(error) => {
            run.failed(&error)?;
            Err(error)
        }
    }
}

struct Run<'a> {
    checkout: &'a Checkout,
    reference: Reference,
    repository: Repository<'a>,
    folder: Folder,
    before: State,
    state: State,
    /// `true` once the tree has been changed.
    has_moved: bool,
    applied: usize,
    convert: &'a dyn Convert,
    tree: Tree,
    outcome: CheckoutReport,
}

#[derive(Debug, Default)]
struct Tree {
    /// Repositories with changes of ours that have to be removed before another commit is checked
    /// out.
    resets: Vec<String>,
    /// Those of them whose files are kept under a ref: an interrupted run left them, and the user
    /// may have worked there since.
    keep: Vec<String>,
    /// `true` if everything is exactly as the last run left it.
    as_left: bool,
    submodules: Vec<String>,
}

impl Run<'_> {
    fn walk(&mut self) -> Result<(), Failure> {
        for (at, step) in self.checkout.steps.iter().enumerate() {
            match step {
                CheckoutStep::Protect => self.protect()?,
                CheckoutStep::Obtain { depth, jobs } => {
                    self.obtain(*depth, *jobs)?;
                    if self.is_there()? {
                        self.repository.reporter.advance((self.checkout.steps.len() - at) as u64);
                        return Ok(());
                    }
                }
                CheckoutStep::Checkout => self.move_to_commit()?,
                CheckoutStep::Submodules { depth, jobs } => self.submodules(*depth, *jobs)?,
                CheckoutStep::Patch(group) => self.patch(group)?,
                CheckoutStep::BuildEnvironment { values, .. } => self.build_environment(values)?,
                CheckoutStep::Hipify => self.hipify()?,
                CheckoutStep::Commit => self.commit()?,
            }
            self.repository.reporter.advance(1);
        }
        self.state.repositories = self.left(&self.repository)?;
        self.state.phase = Phase::Done;
        self.folder.write(&self.state)?;
        self.describe()
    }

    /// `true` if the last run had the same request and the tree is untouched since.
    fn is_there(&mut self) -> Result<bool, Failure> {
        self.state.fingerprint = self.fingerprint()?;
        if !self.tree.as_left || self.before.fingerprint != self.state.fingerprint {
            return Ok(false);
        }
        // The commit may have been requested under another name.
        let names = State { repositories: self.before.repositories.clone(), phase: Phase::Done, ..self.state.clone() };
        if names != self.before {
            self.folder.write(&names)?;
        }
        self.describe()?;
        Ok(true)
    }

    /// Digest of everything that decides the result.
    fn fingerprint(&self) -> Result<String, Failure> {
        let mut digest = Sha256::new();
        let steps = serde_json::to_string(&self.checkout.steps).map_err(std::io::Error::from)?;
        digest.update(format!("{}\n{}\n{steps}\n", env!("CARGO_PKG_VERSION"), self.state.commit).as_bytes());
        if self.checkout.steps.iter().any(|step| matches!(step, CheckoutStep::Hipify)) {
            digest.update(self.convert.settings().as_bytes());
        }
        for step in &self.checkout.steps {
            if let CheckoutStep::Patch(PatchGroup { files, .. }) = step {
                for file in files {
                    digest.update(&fs_err::read(file)?);
                }
            }
        }
        Ok(hexadecimal(&digest.finish()))
    }

    /// Checks the commit out over the existing tree. Files worth keeping are kept under a ref
    /// first.
    fn move_to_commit(&mut self) -> Result<(), Failure> {
        let scratch = self.folder.scratch()?;
        // A run that is killed after this point leaves an incomplete tree; the state records that.
        self.has_moved = true;
        self.folder.write(&State { phase: Phase::Moving, ..self.before.clone() })?;
        let mut ways_back = Vec::new();
        for path in &self.tree.keep {
            let repository = self.repository.submodule(path);
            let known = self.before.repositories.get(path).map_or("", |left| &left.head);
            let kept = repository.keep(scratch.path(), known)?;
            ways_back.push((repository.path, kept.way_back));
            self.outcome.kept.push((path.clone(), kept.name));
        }
        for path in &self.tree.resets {
            self.repository.submodule(path).reset()?;
        }
        let repositories = if self.folder.is_new { vec![String::new()] } else { self.repository.all()? };
        for path in &repositories {
            let repository = self.repository.submodule(path);
            repository.remove_tag(HIPIFY)?;
            repository.mark_submodules("--no-skip-worktree")?;
        }
        let arguments = ["checkout", "--quiet", "--no-overwrite-ignore", "--detach", &self.state.commit];
        self.repository.run(&arguments, &format!("check out `{}`", self.state.commit))?;
        self.repository.tag(UPSTREAM)?;
        // git leaves the folders of submodules that this commit does not have. They would look like
        // new files.
        let links = self.repository.gitlinks()?;
        for path in self.tree.submodules.iter().filter(|path| !links.contains(path)) {
            let place = self.checkout.directory.join(path);
            if place.join(".git").exists() {
                fs_err::remove_dir_all(&place)?;
            }
        }
        self.outcome.status = if self.folder.is_new { CheckoutStatus::New } else { CheckoutStatus::Changed };
        for (path, way_back) in ways_back {
            let path = path.display();
            let message = format!(
                "a run that was killed left files in `{path}`; they are kept, and this brings them back: `{way_back}`"
            );
            self.repository.reporter.warn(&message);
        }
        Ok(())
    }

    fn submodules(&mut self, depth: Option<u32>, jobs: Option<u16>) -> Result<(), Failure> {
        let repository = &self.repository;
        if repository.gitlinks()?.is_empty() {
            return Ok(());
        }
        let attempt = format!("check out the submodules of `{}`", self.checkout.directory.display());
        let sync = ["submodule", "sync", "--quiet", "--recursive"].map(str::to_owned).to_vec();
        for arguments in [sync, plan::update(depth, jobs)] {
            let call = repository.git.at(&repository.path).args(arguments);
            let call = if self.is_local() { call.setting("protocol.file.allow", "always") } else { call };
            call.expect(&attempt, repository.reporter)?;
        }
        for path in repository.all()?.iter().filter(|path| !path.is_empty()) {
            repository.submodule(path).tag(UPSTREAM)?;
        }
        // Patches and conversions in a submodule must not count as a change of the repository that
        // contains it.
        for path in repository.gitlinks()? {
            if let Some(name) = repository.submodule_name(&path)? {
                repository
                    .run(&["config", &format!("submodule.{name}.ignore"), "all"], "set how submodules are looked at")?;
            }
        }
        repository.mark_submodules("--skip-worktree")
    }

    fn patch(&mut self, group: &PatchGroup) -> Result<(), Failure> {
        patches::apply(&self.repository, group)?;
        self.outcome.patches += group.files.len() as u64;
        self.applied += 1;
        Ok(())
    }

    fn build_environment(&mut self, values: &BTreeMap<String, String>) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(values).map_err(std::io::Error::from)?;
        fs_err::write(self.checkout.directory.join(BUILD_ENVIRONMENT), text)?;
        Ok(())
    }

    fn hipify(&mut self) -> Result<(), Failure> {
        let tree = &self.checkout.directory;
        if !tree.join(CONVERTED).exists() {
            return Ok(());
        }
        let converted = self.convert.convert(tree, self.repository.reporter);
        self.outcome.converted = converted.map_err(|source| {
            if self.repository.reporter.interrupted() {
                return Interrupted.into();
            }
            let text = format!("could not convert the sources in `{}`", tree.display());
            Failure::from(std::io::Error::other(source)).context(text)
        })?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        for path in self.own_repositories()? {
            let repository = self.repository.submodule(&path);
            if repository.commit_all(HIPIFY_MESSAGE, UPSTREAM)? {
                repository.tag(HIPIFY)?;
            }
        }
        Ok(())
    }

    /// The checkout, and its submodules if this run includes them.
    fn own_repositories(&self) -> Result<Vec<String>, Failure> {
        let with_submodules = self.checkout.steps.iter().any(|step| matches!(step, CheckoutStep::Submodules { .. }));
        if with_submodules { self.repository.all() } else { Ok(vec![String::new()]) }
    }

    fn left(&self, checkout: &Repository<'_>) -> Result<BTreeMap<String, Left>, Failure> {
        let scratch = self.folder.scratch()?;
        let mut left = BTreeMap::new();
        for path in checkout.all()? {
            let repository = checkout.submodule(&path);
            let tree =
                if repository.changes()?.is_empty() { None } else { Some(repository.working_tree(scratch.path())?) };
            left.insert(path, Left { head: repository.head()?.unwrap_or_default(), tree });
        }
        Ok(left)
    }

    fn describe(&mut self) -> Result<(), Failure> {
        self.outcome.origin.clone_from(&self.state.origin);
        self.outcome.reference.clone_from(&self.state.reference);
        self.outcome.commit.clone_from(&self.state.commit);
        self.outcome.hipify = self.repository.commit(&format!("refs/tags/{HIPIFY}"))?;
        self.outcome.head = self.repository.head()?.unwrap_or_default();
        self.outcome.submodules = self.repository.all()?.len() as u64 - 1;
        Ok(())
    }

    fn is_local(&self) -> bool {
        matches!(&self.reference, Reference::Named { origin, .. } if plan::is_local(origin))
    }

    /// Cleans up after a failure so that the next run, or the user, can continue.
    fn failed(&mut self, failure: &Failure) -> Result<(), Failure> {
        match failure.find::<PatchConflict>() {
            // The user continues here; work that is finished by hand is then the user's.
            Some(_) => {
                self.state.fingerprint.clear();
                let heads = self.repository.all()?.into_iter().map(|path| {
                    let head = self.repository.submodule(&path).head()?.unwrap_or_default();
                    Ok((path, Left { head, tree: None }))
                });
                self.state.repositories = heads.collect::<Result<_, Failure>>()?;
                self.state.phase = Phase::Done;
                let groups = self.checkout.steps.iter().filter_map(|step| match step {
                    CheckoutStep::Patch(group) => Some((group.stage, group.repository.clone())),
                    _ => None,
                });
                self.state.unreached = groups.skip(self.applied + 1).collect();
                self.folder.write(&self.state)
            }
            // Nothing was fetched, so the folder that this run made is removed.
            _ if self.folder.is_new && !self.has_moved => self.folder.remove_if_new().map_err(Into::into),
            _ if self.has_moved => {
                // If the tree cannot be read, it stays marked as incomplete, and the next run keeps
                // its files.
                let _ = self.stopped();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Records what an incomplete run has left, so that the next run can distinguish it from the
    /// user's later work.
    fn stopped(&self) -> Result<(), Failure> {
        // The user may have asked to stop. With that reporter git would not run at all.
        let repository = Repository { reporter: &Silent, ..self.repository.clone() };
        repository.remove_torn()?;
        let has_arrived = repository.commit(&format!("refs/tags/{UPSTREAM}"))?.as_ref() == Some(&self.state.commit);
        let identity = if has_arrived { &self.state } else { &self.before };
        self.folder.write(&State {
            fingerprint: String::new(),
            phase: Phase::Stopped,
            repositories: self.left(&repository)?,
            ..identity.clone()
        })
    }
}

fn names(reference: &Reference) -> (String, String) {
    match reference {
        Reference::Named { origin, name, .. } => (without_secret(origin), name.clone()),
        Reference::Archive(archive) => {
            (archive.path.file_name().unwrap_or_default().to_string_lossy().into_owned(), String::new())
        }
        other => (String::new(), other.describe()),
    }
}
