//! Input: a planned checkout. Output: the tree, with its tags, and what was done.

mod obtain;
mod protect;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocwheel_content::{Sha256, hexadecimal};
use rocwheel_report::{Interrupted, Reporter, Silent, Unit};
use serde::Serialize;

use crate::error::Error;
use crate::git::{Git, without_secret};
use crate::patches::{self, PatchGroup};
use crate::pins;
use crate::plan::{self, BUILD_ENVIRONMENT, Checkout, HIPIFY_MESSAGE, Plan, Reference, Step};
use crate::repository::{HIPIFY, Repository, UPSTREAM};
use crate::request::{Archive, Movement};
use crate::state::{Folder, Left, Phase, State};

/// Where a tree says that its sources are to be converted.
const CONVERTED: &str = "tools/amd_build/build_amd.py";

/// Converts the CUDA sources of a tree in place, as its own `tools/amd_build/build_amd.py` would.
pub trait Convert {
    /// Converts a tree that has `tools/amd_build/build_amd.py`; the number of files that were
    /// written.
    ///
    /// # Errors
    /// Whatever goes wrong; then nothing is written.
    fn convert(&self, tree: &Path, reporter: &dyn Reporter) -> Result<u64, Box<dyn std::error::Error + Send + Sync>>;

    /// Takes back what a conversion that was killed has left half done. What cannot be taken back
    /// stays, and is kept like everything else that an interrupted run has left.
    fn take_back(&self, _tree: &Path) {}

    /// What decides the result besides the tree: a checkout that was made with something else is
    /// made again.
    fn settings(&self) -> String;
}

/// What became of one checkout.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Name of the project.
    pub project: String,
    /// Where it is.
    pub directory: PathBuf,
    /// Address it came from, without a password; the file for an archive.
    pub origin: String,
    /// Branch, tag or commit; SHA-256 for an archive.
    pub reference: String,
    /// The upstream commit.
    pub commit: String,
    /// The commit of converted sources, if there is one.
    pub hipify: Option<String>,
    /// What is checked out in the end.
    pub head: String,
    /// Whether anything was done.
    pub status: CheckoutStatus,
    /// Files that the conversion wrote.
    pub converted: u64,
    /// Submodules that are checked out, those of submodules too.
    pub submodules: u64,
    /// Patches that were applied.
    pub patches: u64,
    /// Where an interrupted run's files are kept: repository and ref.
    pub kept: Vec<(String, String)>,
}

/// Whether anything was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckoutStatus {
    /// There was nothing before.
    New,
    /// It was somewhere else, or was made otherwise.
    Changed,
    /// Everything was as it should be; no file was touched.
    Unchanged,
}

impl Plan {
    /// Makes the checkouts, one after the other. `finished` hears of each as soon as it is there.
    ///
    /// # Errors
    /// See [`Error`]. The checkouts before the one that failed are complete; run again, it goes on
    /// where it stopped.
    pub fn execute(
        &self,
        git: &Git,
        convert: &dyn Convert,
        reporter: &dyn Reporter,
        finished: &mut dyn FnMut(&Outcome),
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::new();
        for checkout in &self.checkouts {
            if let Some(warning) = &checkout.warning {
                reporter.warn(warning);
            }
            let stage = format!("Checking out {}", checkout.project);
            reporter.begin(&stage, Some(checkout.steps.len() as u64), Unit::Items);
            let outcome = one(checkout, git, convert, reporter);
            reporter.end();
            let outcome = outcome?;
            finished(&outcome);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }
}

fn one(checkout: &Checkout, git: &Git, convert: &dyn Convert, reporter: &dyn Reporter) -> Result<Outcome, Error> {
    // Pins first: a folder is made only for what can be named.
    let checkout = &Checkout {
        reference: checkout.reference.resolved()?,
        steps: checkout.steps.iter().map(Step::resolved).collect(),
        ..checkout.clone()
    };
    let reference = checkout.reference.clone();
    if let (Movement::Locked, Reference::Named { name, .. }) = (checkout.movement, &reference)
        && !pins::is_commit(name)
    {
        return Err(Error::MayMove { project: checkout.project.clone(), reference: name.clone() });
    }
    if let Reference::Archive(Archive { path, .. }) = &reference {
        // Opened before anything is made, so that a wrong path leaves nothing behind.
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
        outcome: Outcome {
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

/// A checkout that is being made.
struct Run<'a> {
    checkout: &'a Checkout,
    /// With pins followed.
    reference: Reference,
    repository: Repository<'a>,
    folder: Folder,
    /// What the last run left.
    before: State,
    /// What this one leaves.
    state: State,
    /// Whether the tree was touched.
    has_moved: bool,
    /// How many groups of patches were applied.
    applied: usize,
    convert: &'a dyn Convert,
    tree: Tree,
    outcome: Outcome,
}

/// What is found out about the tree before it is changed.
#[derive(Debug, Default)]
struct Tree {
    /// Repositories that hold something of ours that has to go before another commit is checked
    /// out.
    resets: Vec<String>,
    /// Of those, which are to be kept under a name: an interrupted run's, where somebody may have
    /// worked since.
    keep: Vec<String>,
    /// Whether everything is exactly as the last run left it.
    as_left: bool,
    /// Submodules of the commit that was checked out before.
    submodules: Vec<String>,
}

impl Run<'_> {
    fn walk(&mut self) -> Result<(), Error> {
        for (at, step) in self.checkout.steps.iter().enumerate() {
            match step {
                Step::Protect => self.protect()?,
                Step::Obtain { depth, jobs } => {
                    self.obtain(*depth, *jobs)?;
                    if self.is_there()? {
                        self.repository.reporter.advance((self.checkout.steps.len() - at) as u64);
                        return Ok(());
                    }
                }
                Step::Checkout => self.move_to_commit()?,
                Step::Submodules { depth, jobs } => self.submodules(*depth, *jobs)?,
                Step::Patch(group) => self.patch(group)?,
                Step::BuildEnvironment { values, .. } => self.build_environment(values)?,
                Step::Hipify => self.hipify()?,
                Step::Commit => self.commit()?,
            }
            self.repository.reporter.advance(1);
        }
        self.state.repositories = self.left(&self.repository)?;
        self.state.phase = Phase::Done;
        self.folder.write(&self.state)?;
        self.describe()
    }

    /// Whether the last run was asked for the same and nobody has touched anything since.
    fn is_there(&mut self) -> Result<bool, Error> {
        self.state.fingerprint = self.fingerprint()?;
        if !self.tree.as_left || self.before.fingerprint != self.state.fingerprint {
            return Ok(false);
        }
        // The name under which the commit was asked for may be another.
        let names = State { repositories: self.before.repositories.clone(), phase: Phase::Done, ..self.state.clone() };
        if names != self.before {
            self.folder.write(&names)?;
        }
        self.describe()?;
        Ok(true)
    }

    /// A digest of everything that decides the result.
    fn fingerprint(&self) -> Result<String, Error> {
        let mut digest = Sha256::new();
        let steps = serde_json::to_string(&self.checkout.steps).map_err(std::io::Error::from)?;
        digest.update(format!("{}\n{}\n{steps}\n", env!("CARGO_PKG_VERSION"), self.state.commit).as_bytes());
        if self.checkout.steps.iter().any(|step| matches!(step, Step::Hipify)) {
            digest.update(self.convert.settings().as_bytes());
        }
        for step in &self.checkout.steps {
            if let Step::Patch(PatchGroup { files, .. }) = step {
                for file in files {
                    digest.update(&fs_err::read(file)?);
                }
            }
        }
        Ok(hexadecimal(&digest.finish()))
    }

    /// Checks the commit out in place of what is there, of which everything that is worth it is
    /// kept.
    fn move_to_commit(&mut self) -> Result<(), Error> {
        let scratch = self.folder.scratch()?;
        // From here on a run that is killed leaves half of something; this says so.
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
        // git leaves the folders of submodules that this commit does not have; they would look like
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

    fn submodules(&mut self, depth: Option<u32>, jobs: Option<u16>) -> Result<(), Error> {
        let repository = &self.repository;
        if repository.gitlinks()?.is_empty() {
            return Ok(());
        }
        let attempt = format!("check out the submodules of `{}`", self.checkout.directory.display());
        let call = |arguments: Vec<String>| {
            let call = repository.git.at(&repository.path).args(arguments);
            if self.is_local() { call.setting("protocol.file.allow", "always") } else { call }
        };
        let sync = ["submodule", "sync", "--quiet", "--recursive"].map(str::to_owned).to_vec();
        call(sync).expect(&attempt, repository.reporter)?;
        call(plan::update(depth, jobs)).expect(&attempt, repository.reporter)?;
        for path in repository.all()?.iter().filter(|path| !path.is_empty()) {
            repository.submodule(path).tag(UPSTREAM)?;
        }
        // What is patched and converted in submodules is no change of the repository that holds
        // them.
        for path in repository.gitlinks()? {
            if let Some(name) = repository.submodule_name(&path)? {
                repository
                    .run(&["config", &format!("submodule.{name}.ignore"), "all"], "set how submodules are looked at")?;
            }
        }
        repository.mark_submodules("--skip-worktree")
    }

    fn patch(&mut self, group: &PatchGroup) -> Result<(), Error> {
        patches::apply(&self.repository, group)?;
        self.outcome.patches += group.files.len() as u64;
        self.applied += 1;
        Ok(())
    }

    fn build_environment(&mut self, values: &BTreeMap<String, String>) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(values).map_err(std::io::Error::from)?;
        fs_err::write(self.checkout.directory.join(BUILD_ENVIRONMENT), text)?;
        Ok(())
    }

    fn hipify(&mut self) -> Result<(), Error> {
        let tree = &self.checkout.directory;
        if !tree.join(CONVERTED).exists() {
            return Ok(());
        }
        let converted = self.convert.convert(tree, self.repository.reporter);
        let failed = |source| {
            if self.repository.reporter.interrupted() {
                Error::Interrupted(Interrupted)
            } else {
                Error::Hipify { path: tree.clone(), source }
            }
        };
        self.outcome.converted = converted.map_err(failed)?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        for path in self.own_repositories()? {
            let repository = self.repository.submodule(&path);
            if repository.commit_all(HIPIFY_MESSAGE, UPSTREAM)? {
                repository.tag(HIPIFY)?;
            }
        }
        Ok(())
    }

    /// The checkout, and its submodules when they are part of this run.
    fn own_repositories(&self) -> Result<Vec<String>, Error> {
        let with_submodules = self.checkout.steps.iter().any(|step| matches!(step, Step::Submodules { .. }));
        if with_submodules { self.repository.all() } else { Ok(vec![String::new()]) }
    }

    /// What is in the repositories now.
    fn left(&self, checkout: &Repository<'_>) -> Result<BTreeMap<String, Left>, Error> {
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

    fn describe(&mut self) -> Result<(), Error> {
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

    /// Leaves things so that the next run, or the user, can go on.
    fn failed(&mut self, error: &Error) -> Result<(), Error> {
        match error {
            // The user is to go on here; what is finished by hand then is the user's.
            Error::Conflict { .. } => {
                self.state.fingerprint.clear();
                let heads = self.repository.all()?.into_iter().map(|path| {
                    let head = self.repository.submodule(&path).head()?.unwrap_or_default();
                    Ok((path, Left { head, tree: None }))
                });
                self.state.repositories = heads.collect::<Result<_, Error>>()?;
                self.state.phase = Phase::Done;
                let groups = self.checkout.steps.iter().filter_map(|step| match step {
                    Step::Patch(group) => Some((group.stage, group.repository.clone())),
                    _ => None,
                });
                self.state.unreached = groups.skip(self.applied + 1).collect();
                self.folder.write(&self.state)
            }
            // Nothing arrived: what this run made is taken away with the folder.
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

    /// Writes down what an incomplete run has left, so that the next one can tell it from what the
    /// user does meanwhile.
    fn stopped(&self) -> Result<(), Error> {
        // The user may have asked to stop, and git would answer nothing to a reporter that says so.
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

/// What the state calls the origin and the reference.
fn names(reference: &Reference) -> (String, String) {
    match reference {
        Reference::Named { origin, name, .. } => (without_secret(origin), name.clone()),
        Reference::Archive(archive) => {
            (archive.path.file_name().unwrap_or_default().to_string_lossy().into_owned(), String::new())
        }
        other => (String::new(), other.describe()),
    }
}
