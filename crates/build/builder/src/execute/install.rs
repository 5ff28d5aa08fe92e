//! Provides the sources and the Python environment of a build, and installs packages into it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocwheel_progress::Failure;
use rocwheel_wheel::WheelName;

use crate::error;
use crate::execute::context::{Call, Context};
use crate::execute::environment::interpreter_of;
use crate::execute::folder::Log;
use crate::execute::installer::{INSTALLING, ensurepip, fresh_install, has_pip, installer, rocm_options};
use crate::execute::user_environment::UserEnvironment;
use crate::preflight::{self, Estimated};
use crate::python::{PythonInterpreter, Search};
use rocwheel_process::{NotStarted, ProcessEnd};
use rocwheel_recipe::BuildMode;
use rocwheel_recipe::recipe::WorkOn;
use rocwheel_recipe::{BuiltFile, Job, JobSource, Rocm};
use rocwheel_recipe::{shared_files, source_digest};

/// Time limit for making an environment.
const MAKING: Duration = Duration::from_mins(10);
/// The lock file of a checkout. If `.git` is a file (a work tree of another repository, a
/// submodule), that file itself is locked: the repository is elsewhere, and containers may only
/// read it.
fn lock_of(checkout: &Path) -> PathBuf {
    let marker = checkout.join(".git");
    if marker.is_file() { marker } else { marker.join("rocwheel-build.lock") }
}

/// Locks the checkout that a job builds in. Two builds in one tree would mix their results.
pub(super) fn own_tree(job: &Job) -> Result<Option<rocwheel_system::Lock>, Failure> {
    let (JobSource::Checkout { path, .. }, WorkOn::Checkout) = (&job.source, job.recipe.source.work_on) else {
        return Ok(None);
    };
    let lock = shared_files::lock(&lock_of(path))?;
    lock.map(Some).ok_or_else(|| error::locked(format!("in `{}`", path.display())))
}

impl Context<'_> {
    /// Puts the sources into the folder in which they are built.
    pub(super) fn sources(&self, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        self.job.source.verify(&self.place.surroundings, self.reporter)?;
        let place = self.source();
        match (&self.job.source, self.job.recipe.source.work_on) {
            (JobSource::Checkout { path, .. }, WorkOn::Checkout) => log.say(&format!("(in {})", path.display()))?,
            (source, _) => {
                // A stopped run may have left an incomplete copy.
                if place.exists() {
                    fs_err::remove_dir_all(&place)?;
                }
                fs_err::create_dir_all(&place)?;
                log.say(&format!("(from {} to {})", source.path().display(), place.display()))?;
                match source {
                    JobSource::Archive { path, .. } => {
                        rocwheel_source::unpack(path, &place, self.reporter)?;
                    }
                    JobSource::Checkout { path, .. } | JobSource::Folder { path, .. } => {
                        source_digest::copy(path, &place, self.reporter)?;
                    }
                }
            }
        }
        // The version is read now, because a missing one would be noticed only after hours.
        if self.job.recipe.source.version_file.is_some() {
            log.say(&format!("(version {})", self.fact("source.version")?))?;
        }
        Ok(None)
    }

    /// Makes a new Python environment; the user's own (`--into`) is only checked.
    pub(super) fn make_environment(&self, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        if let Some(path) = self.of_user() {
            let environment = UserEnvironment::open(path, self.place, self.reporter)?;
            log.say(&format!("(Python {} of {})", environment.python, path.display()))?;
            return Ok(None);
        }
        let interpreter = self.interpreter(self.job.python)?;
        self.make_venv("environment", &interpreter, &self.venv(), log)
    }

    /// The interpreter that the place names, otherwise one of that version.
    pub(super) fn interpreter(
        &self,
        version: Option<rocwheel_recipe::PythonVersion>,
    ) -> Result<PythonInterpreter, Failure> {
        let outer = self.outer_environment();
        let search = Search { environment: &outer, uv: self.place.uv.as_deref() };
        let Some(path) = &self.place.interpreter else { return search.find(version, self.reporter) };
        let Some(found) = search.ask(path, self.reporter)? else {
            let source = std::io::Error::other("it does not say which Python it is");
            return Err(NotStarted { program: path.to_string_lossy().into_owned(), source }.into());
        };
        match version {
            Some(version) if found.version != version.to_string() => Err(error::request(format!(
                "`{}` is Python {}, and the job is for {version}",
                path.display(),
                found.version
            ))),
            _ => Ok(found),
        }
    }

    pub(super) fn make_venv(
        &self,
        stage: &str,
        interpreter: &PythonInterpreter,
        venv: &Path,
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        if venv.exists() {
            fs_err::remove_dir_all(venv)?;
        }
        let (python, place) = (interpreter.path.to_string_lossy(), venv.to_string_lossy());
        let mut words = if let Some(uv) = &self.place.uv {
            let mut words =
                vec![uv.to_string_lossy().into_owned(), "venv".into(), "--quiet".into(), "--no-project".into()];
            // Recipes that install the sources in place use pip.
            if self.job.recipe.cell.mode == BuildMode::Develop {
                words.push("--seed".into());
            }
            words.extend(["--python".into(), python.into_owned()]);
            words
        } else {
            let mut words = vec![python.into_owned(), "-m".into(), "venv".into()];
            // pip takes seconds to install itself, and not every build needs it.
            if self.job.recipe.cell.mode == BuildMode::Wheel {
                words.push("--without-pip".into());
            }
            words
        };
        if self.job.recipe.cell.system_packages.is_on() {
            words.push("--system-site-packages".into());
        }
        words.push(place.into_owned());
        let outer = self.outer_environment();
        self.call(stage, words, &outer, MAKING, log)
    }

    pub(super) fn install_rocm(&self, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        let packages = match &self.job.rocm {
            Rocm::Index { packages, .. } | Rocm::FindLinks { packages, .. } => packages,
            Rocm::None | Rocm::Prefix { .. } => return Ok(None),
        };
        let environment = self.base_environment();
        if let Some(ended) = self.ensure_pip("install-rocm", &self.venv(), log)? {
            return Ok(Some(ended));
        }
        let arguments = [self.where_rocm_is(), vec![packages.requirement()]].concat();
        for mut words in [fresh_install(self.place, &self.python()), self.installer(&self.python(), "install")] {
            words.extend(arguments.iter().cloned());
            if let Some(ended) = self.call("install-rocm", words, &environment, INSTALLING, log)? {
                return Ok(Some(ended));
            }
        }
        log.say(&format!("(ROCm {})", self.fact("rocm.sdk-version")?))?;
        Ok(None)
    }

    /// Options that make an installer find ROCm's packages at the job's source.
    pub(super) fn where_rocm_is(&self) -> Vec<String> {
        rocm_options(&self.job.rocm, self.place)
    }

    /// Installs the wheels that the job names, and their requirements from the usual sources.
    pub(super) fn install_with(&self, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        let mut wheels = Vec::new();
        for input in &self.job.with {
            let found = rocwheel_source::sha256(&input.path, &rocwheel_progress::Silent)?;
            if found != input.sha256 {
                let reason = format!("`{}` is not the wheel that the job was made for", input.path.display());
                return Err(rocwheel_recipe::Error::Source { reason, hint: Some("make the job again".into()) }.into());
            }
            wheels.push(input.path.to_string_lossy().into_owned());
        }
        self.install("install-with", &wheels, None, INSTALLING, log)
    }

    /// Installs the result for its checks. pip keeps what an earlier result of the same version has
    /// installed, unless it is told not to; of requirements it would install all again, too.
    pub(super) fn install_result(&self, outputs: &[BuiltFile], log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        let wheels = self.made(outputs);
        let replaced = [vec!["--force-reinstall".to_owned(), "--no-deps".to_owned()], wheels.clone()].concat();
        if let Some(ended) = self.install("install-result", &replaced, None, INSTALLING, log)? {
            return Ok(Some(ended));
        }
        self.install("install-result", &wheels, None, INSTALLING, log)
    }

    /// Paths of the built wheels in the job's own folder.
    pub(super) fn made(&self, outputs: &[BuiltFile]) -> Vec<String> {
        let wheels = outputs.iter().filter(|made| WheelName::is_wheel(&made.path));
        wheels.map(|made| self.folder.join("made").join(&made.path).to_string_lossy().into_owned()).collect()
    }

    /// Installs requirements into the build's environment.
    pub(super) fn install(
        &self,
        stage: &str,
        requirements: &[String],
        index: Option<&str>,
        timeout: Duration,
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        if let Some(ended) = self.ensure_pip(stage, &self.venv(), log)? {
            return Ok(Some(ended));
        }
        let mut words = self.installer(&interpreter_of(&self.venv()), "install");
        if let Some(index) = index {
            // Of two indexes, uv takes a package from the first that has it. pip would take the
            // higher version or build tag.
            let option = if self.place.uv.is_some() { "--extra-index-url" } else { "--index-url" };
            words.extend([option.to_owned(), index.to_owned()]);
        }
        words.extend(requirements.iter().cloned());
        self.call(stage, words, &self.base_environment(), timeout, log)
    }

    /// Uninstalls those of the distributions that are installed.
    pub(super) fn uninstall(
        &self,
        stage: &str,
        names: &[String],
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        let mut words = self.installer(&interpreter_of(&self.venv()), "uninstall");
        if self.place.uv.is_none() {
            if !has_pip(&self.venv()) {
                return log.say("(nothing is installed)").map(|()| None);
            }
            words.push("--yes".into());
        }
        words.extend(names.iter().cloned());
        self.call(stage, words, &self.base_environment(), MAKING, log)
    }

    /// Adds pip to an environment that lacks it, unless uv is the installer.
    pub(super) fn ensure_pip(&self, stage: &str, venv: &Path, log: &mut Log) -> Result<Option<ProcessEnd>, Failure> {
        if self.place.uv.is_some() || has_pip(venv) {
            return Ok(None);
        }
        self.call(stage, ensurepip(&interpreter_of(venv)), &self.base_environment(), MAKING, log)
    }

    /// The command line of the installer up to the names of packages.
    pub(super) fn installer(&self, python: &Path, verb: &str) -> Vec<String> {
        installer(self.place, python, verb)
    }

    /// Runs a program in the job's folder. Returns how it ended if it was stopped.
    pub(super) fn call(
        &self,
        stage: &str,
        words: Vec<String>,
        environment: &BTreeMap<String, String>,
        timeout: Duration,
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        let call = Call { stage, words, directory: &self.folder, environment, timeout };
        let finished = self.run(call, log)?;
        Ok((finished.ended == ProcessEnd::Deadline).then_some(ProcessEnd::Deadline))
    }

    /// Counts the files to compile, and checks that the link command is not too long.
    pub(super) fn estimate(&self, log: &mut Log) -> Result<Estimated, Failure> {
        let Some(estimate) = &self.job.recipe.estimate else { return Ok(Estimated::default()) };
        let folder = self.folder.join("estimate");
        for direction in &estimate.directions {
            fs_err::create_dir_all(&folder)?;
            self.known.borrow_mut().insert("direction".into(), direction.clone());
            let words = self.texts(&estimate.run)?;
            let environment = self.base_environment();
            let source = self.source();
            self.run(
                Call { stage: "estimate", words, directory: &source, environment: &environment, timeout: MAKING },
                log,
            )?;
        }
        let files = super::actions::matching(&format!("{}/{}", folder.to_string_lossy(), estimate.count))?;
        let objects = self.text(&estimate.objects)?;
        let estimated = Estimated::new(&files, &objects, estimate.units_per_minute);
        fs_err::remove_dir_all(&folder)?;
        log.say(&format!("({} files, {} bytes to link)", estimated.units, estimated.link_bytes))?;
        preflight::make_room(&self.job.title(), &estimated)?;
        Ok(estimated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_taken_by_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (clone, worktree) = (folder.path().join("clone"), folder.path().join("worktree"));
        fs_err::create_dir_all(clone.join(".git/worktrees/worktree")).unwrap();
        fs_err::create_dir(&worktree).unwrap();
        let says = format!("gitdir: {}\n", clone.join(".git/worktrees/worktree").display());
        fs_err::write(worktree.join(".git"), &says).unwrap();
        assert!(lock_of(&clone).starts_with(clone.join(".git")));

        let taken = shared_files::lock(&lock_of(&worktree)).unwrap();
        assert!(taken.is_some());
        assert!(shared_files::lock(&lock_of(&worktree)).unwrap().is_none());
        assert!(shared_files::lock(&lock_of(&clone)).unwrap().is_some());
        drop(taken);
        assert!(shared_files::lock(&lock_of(&worktree)).unwrap().is_some());
        // Git can still read the worktree.
        assert_eq!(fs_err::read_to_string(worktree.join(".git")).unwrap(), says);
        assert_eq!(fs_err::read_dir(clone.join(".git/worktrees/worktree")).unwrap().count(), 0);
    }
}
