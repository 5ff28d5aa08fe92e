//! Input: wheels of a build, or its ROCm, and a Python environment of the user. Output: the wheels
//! or ROCm's packages are installed there.

use std::path::{Path, PathBuf};

use rocwheel_progress::{Interrupted, Reporter};

use crate::cell::PythonVersion;
use crate::error::{Error, StepFailure};
use crate::execute::JobPlace;
use crate::execute::context::{hidden, reason};
use crate::execute::environment::interpreter_of;
use crate::execute::install::{INSTALLING, ensurepip, fresh_install, has_pip, installer, rocm_options};
use crate::job::Rocm;
use crate::process::{self, Ended, Program};
use crate::python::Search;

/// Number of installer lines that an error shows.
const TAIL: usize = 15;

/// A Python environment of the user. It is never made anew or removed.
pub struct UserEnvironment<'a> {
    path: PathBuf,
    /// Python version of its interpreter.
    pub python: PythonVersion,
    place: &'a JobPlace,
    reporter: &'a dyn Reporter,
}

impl<'a> UserEnvironment<'a> {
    /// Inspects the environment at a path: a venv, one of conda, or a whole Python, such as that of
    /// pyenv or of a container.
    ///
    /// # Errors
    /// The folder has no interpreter that runs, or its distribution keeps the packages to itself
    /// (PEP 668).
    pub fn open(path: &Path, place: &'a JobPlace, reporter: &'a dyn Reporter) -> Result<UserEnvironment<'a>, Error> {
        let missing = || {
            let is_free = fs_err::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
            let folder = if is_free { path.display().to_string() } else { ".venv".to_owned() };
            let hint = format!("make one: `python3 -m venv {folder}`");
            Error::request_with(format!("`{}` is not a Python environment", path.display()), hint)
        };
        let path = std::path::absolute(path)?;
        if !interpreter_of(&path).exists() {
            return Err(missing());
        }
        let search = Search { environment: &place.surroundings, uv: place.uv.as_deref() };
        let found = search.ask(&interpreter_of(&path), reporter)?.ok_or_else(missing)?;
        let version = found.version.parse::<PythonVersion>()?;
        let library = path.join(format!("lib/python{}.{}", version.major, version.minor));
        if library.join("EXTERNALLY-MANAGED").exists() {
            return Err(Error::request_with(
                format!("the packages of `{}` are its distribution's", path.display()),
                "make an environment: `python3 -m venv .venv`, and name that",
            ));
        }
        Ok(UserEnvironment { path, python: version, place, reporter })
    }

    /// Path of the interpreter in an environment's folder; it need not exist.
    pub fn interpreter_of(path: &Path) -> PathBuf {
        interpreter_of(path)
    }

    fn interpreter(&self) -> PathBuf {
        interpreter_of(&self.path)
    }

    /// Installs or upgrades ROCm's packages (`rocm[libraries,devel]`).
    ///
    /// # Errors
    /// An installed ROCm has no packages; or the installer fails, and the error has its last lines.
    pub fn install_rocm(&self, rocm: &Rocm) -> Result<(), Error> {
        let (Rocm::Index { packages, .. } | Rocm::FindLinks { packages, .. }) = rocm else {
            return Err(Error::request_with(
                "an installed ROCm has no packages that could be installed",
                "name them: `--rocm-sdk index=URL`, `find-links=PLACE` or `directory=DIR`",
            ));
        };
        self.ensure_pip()?;
        let arguments = [rocm_options(rocm, self.place), vec![packages.requirement()]].concat();
        let mut words = fresh_install(self.place, &self.interpreter());
        words.push("--upgrade".into());
        words.extend(arguments.iter().cloned());
        self.succeed("install-rocm", words)?;
        // The installed package names the versions of the others.
        let mut words = installer(self.place, &self.interpreter(), "install");
        words.extend(arguments);
        self.succeed("install-rocm", words)
    }

    /// Installs wheels and their requirements. A wheel replaces an installed distribution of its
    /// name, even of the same version.
    ///
    /// # Errors
    /// The installer fails; the error has its last lines.
    pub fn install(&self, wheels: &[PathBuf], rocm: &Rocm) -> Result<(), Error> {
        if wheels.is_empty() {
            return Ok(());
        }
        self.ensure_pip()?;
        let paths: Vec<String> = wheels.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let mut words = installer(self.place, &self.interpreter(), "install");
        words.extend(["--force-reinstall".into(), "--no-deps".into()]);
        words.extend(paths.iter().cloned());
        self.succeed("install", words)?;
        let mut words = installer(self.place, &self.interpreter(), "install");
        words.extend(beside_the_usual_index(rocm_options(rocm, self.place)));
        words.extend(paths);
        self.succeed("install", words)
    }

    fn ensure_pip(&self) -> Result<(), Error> {
        if self.place.uv.is_some() || has_pip(&self.path) {
            return Ok(());
        }
        self.succeed("install", ensurepip(&self.interpreter()))
    }

    fn succeed(&self, step: &str, words: Vec<String>) -> Result<(), Error> {
        let finished = self.run(words)?;
        if finished.ended == Ended::Code(0) {
            return Ok(());
        }
        if process::is_stopping(self.reporter) {
            return Err(Error::Interrupted(Interrupted));
        }
        Err(Error::Step(Box::new(StepFailure {
            job: format!("`{}`", self.path.display()),
            step: step.to_owned(),
            reason: reason(finished.ended, INSTALLING),
            tail: finished.tail(TAIL),
            log: self.log(),
            cause: None,
        })))
    }

    fn log(&self) -> PathBuf {
        self.place.work.join("install.log")
    }

    fn run(&self, words: Vec<String>) -> Result<process::Finished, Error> {
        let directory = &self.place.work;
        fs_err::create_dir_all(directory)?;
        let mut log = fs_err::OpenOptions::new().create(true).append(true).open(self.log())?;
        let (words, environment) = hidden(words, &self.place.surroundings);
        let (timeout, deadline) = (INSTALLING, self.place.deadline);
        let program = Program { words, directory, environment: &environment, timeout, deadline };
        process::run(&program, Some(&mut log), self.reporter)
    }
}

/// Rewrites options for ROCm's packages so that the usual index is searched too.
fn beside_the_usual_index(mut words: Vec<String>) -> Vec<String> {
    for word in &mut words {
        if word == "--index-url" {
            *word = "--extra-index-url".into();
        }
    }
    words
}
