//! Input: wheels of a build, or its ROCm, and a Python environment of the user. Output: the wheels
//! or ROCm's packages are installed there.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rocwheel_index::Fetch;
use rocwheel_index::requirement::{InstallTarget, Requirement, Requirements};
use rocwheel_process::{ProcessEnd, Program};
use rocwheel_progress::{Failure, Interrupted, Reporter};
use rocwheel_recipe::{Platform, PythonVersion, Rocm};
use rocwheel_wheel::read::Wheel;
use rocwheel_wheel::{Headers, canonical_name};

use crate::error::{self, StepFailure};
use crate::execute::JobPlace;
use crate::execute::context::{hidden, is_on, reason};
use crate::execute::environment::interpreter_of;
use crate::execute::installer::{
    INSTALLING, ensurepip, fresh_install, has_pip, installer, prerelease_options, rocm_options,
};
use crate::execute::rocm_index::RocmIndex;
use crate::python::Search;

/// The source distribution that chooses the packages for a GPU when it is built.
const SELECTOR: &str = "rocm";
/// Number of installer lines that an error shows.
const TAIL: usize = 15;
/// Variables by which pip and uv install beside the packages of a distribution (PEP 668). One
/// counts for both.
const SHARED: [&str; 2] = ["PIP_BREAK_SYSTEM_PACKAGES", "UV_BREAK_SYSTEM_PACKAGES"];

/// A Python environment of the user. It is never made anew or removed.
pub struct UserEnvironment<'a> {
    path: PathBuf,
    /// Python version of its interpreter.
    pub python: PythonVersion,
    /// Folder of its installed packages.
    packages: PathBuf,
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
    pub fn open(given: &Path, place: &'a JobPlace, reporter: &'a dyn Reporter) -> Result<UserEnvironment<'a>, Failure> {
        let path = std::path::absolute(given)?;
        if !interpreter_of(&path).exists() {
            return Err(no_environment(given));
        }
        let search = Search { environment: &place.surroundings, uv: place.uv.as_deref() };
        let found = search.ask(&interpreter_of(&path), reporter)?.ok_or_else(|| no_environment(given))?;
        let version = found.version.parse::<PythonVersion>()?;
        let marker = format!("lib/python{}.{}/EXTERNALLY-MANAGED", version.major, version.minor);
        if path.join(marker).exists() && !SHARED.iter().any(|name| is_on(name, &place.surroundings)) {
            return Err(error::request_with(
                format!("the packages of `{}` are its distribution's", path.display()),
                format!(
                    "make an environment: `python3 -m venv .venv`, and name that; a container that is thrown away \
                     needs none with `{}=1`",
                    SHARED[0]
                ),
            ));
        }
        // A file without a name, which leaves no trace.
        let packages = found.packages;
        if let Err(error) = tempfile::tempfile_in(&packages)
            && matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
        {
            return Err(error::request_with(
                format!("nothing can be installed into `{}`: {error}", packages.display()),
                "make an environment of your own: `python3 -m venv .venv`, and name that",
            ));
        }
        Ok(UserEnvironment { path, python: version, packages, place, reporter })
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
    pub fn install_rocm(&self, rocm: &Rocm) -> Result<(), Failure> {
        let (Rocm::Index { packages, .. } | Rocm::FindLinks { packages, .. }) = rocm else {
            return Err(error::request_with(
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
        let mut words = self.installer(&[]);
        words.extend(arguments);
        self.succeed("install-rocm", words)
    }

    /// Installs wheels and their requirements. A wheel replaces an installed distribution of its
    /// name, even of the same version. Packages in ROCm's index are installed only from there: of
    /// two indexes pip would take the higher version, whoever uploaded it. `fetch` asks that index.
    ///
    /// # Errors
    /// The installer fails, and the error has its last lines; or the index of ROCm does not answer.
    pub fn install(&self, wheels: &[PathBuf], rocm: &Rocm, fetch: &dyn Fetch) -> Result<(), Failure> {
        if wheels.is_empty() {
            return Ok(());
        }
        self.ensure_pip()?;
        let paths: Vec<String> = wheels.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let mut words = self.installer(&["--force-reinstall", "--no-deps"]);
        words.extend(paths.iter().cloned());
        self.succeed("install", words)?;
        if let Some(index) = RocmIndex::of(rocm, fetch)? {
            self.install_from(&index, wheels, rocm)?;
        }
        let mut words = self.installer(&[]);
        words.extend(match rocm {
            Rocm::FindLinks { .. } => rocm_options(rocm, self.place),
            _ => prerelease_options(rocm, self.place),
        });
        words.extend(paths);
        self.succeed("install", words)
    }

    /// Installs the requirements of wheels that ROCm's index has, and their requirements in turn.
    /// Each is installed without its own requirements, so that the installer looks for none of them
    /// in another index.
    fn install_from(&self, index: &RocmIndex<'_>, wheels: &[PathBuf], rocm: &Rocm) -> Result<(), Failure> {
        let target = InstallTarget { python: self.python, platform: Platform::native(), glibc: None };
        let mut waiting = Vec::new();
        let (mut built, mut seen) = (BTreeSet::new(), BTreeSet::new());
        for path in wheels {
            let wheel = Wheel::open(path)?;
            built.insert(canonical_name(&wheel.name.distribution));
            waiting.extend(requirements(&Headers::parse(&wheel.metadata()?), &[], &target));
        }
        while !waiting.is_empty() {
            let mut found: Vec<Requirement> = Vec::new();
            for requirement in std::mem::take(&mut waiting) {
                let is_open = !built.contains(&requirement.name) && requirement.address().is_none();
                if is_open && seen.insert(requirement.text.clone()) && index.has(&requirement.name)? {
                    found.push(requirement);
                }
            }
            if found.is_empty() {
                return Ok(());
            }
            let (selector, others): (Vec<&Requirement>, Vec<&Requirement>) =
                found.iter().partition(|requirement| requirement.name == SELECTOR);
            for (mut words, group) in
                [(fresh_install(self.place, &self.interpreter()), selector), (self.installer(&["--no-deps"]), others)]
            {
                words.extend(rocm_options(rocm, self.place));
                // An installer ignores a requirement whose marker asks for an extra.
                let named = group.iter().filter_map(|requirement| requirement.text.split(';').next());
                words.extend(named.map(|text| text.trim().to_owned()));
                if !group.is_empty() {
                    self.succeed("install", words)?;
                }
            }
            for requirement in &found {
                if let Some(metadata) = self.metadata(&requirement.name)? {
                    waiting.extend(requirements(&metadata, &requirement.extras, &target));
                }
            }
        }
        Ok(())
    }

    /// METADATA of an installed distribution; `name` is canonical.
    fn metadata(&self, name: &str) -> Result<Option<Headers>, Failure> {
        for entry in fs_err::read_dir(&self.packages)? {
            let folder = entry?.path();
            let info = folder.file_name().unwrap_or_default().to_string_lossy();
            let distribution = info.strip_suffix(".dist-info").and_then(|info| info.split_once('-'));
            if distribution.is_some_and(|(distribution, _)| canonical_name(distribution) == name) {
                let text = fs_err::read(folder.join("METADATA"))?;
                return Ok(Some(Headers::parse(&String::from_utf8_lossy(&text))));
            }
        }
        Ok(None)
    }

    /// The command line of the installer with options, up to the names of packages.
    fn installer(&self, options: &[&str]) -> Vec<String> {
        let mut words = installer(self.place, &self.interpreter(), "install");
        words.extend(options.iter().map(|&option| option.to_owned()));
        words
    }

    fn ensure_pip(&self) -> Result<(), Failure> {
        if self.place.uv.is_some() || has_pip(&self.path) {
            return Ok(());
        }
        self.succeed("install", ensurepip(&self.interpreter()))
    }

    fn succeed(&self, step: &str, words: Vec<String>) -> Result<(), Failure> {
        let finished = self.run(words)?;
        if finished.ended == ProcessEnd::Code(0) {
            return Ok(());
        }
        if rocwheel_process::is_stopping(self.reporter) {
            return Err(Interrupted.into());
        }
        Err(StepFailure {
            job: format!("`{}`", self.path.display()),
            step: step.to_owned(),
            reason: reason(finished.ended, INSTALLING),
            tail: finished.tail(TAIL),
            log: self.log(),
            cause: None,
        }
        .into())
    }

    fn log(&self) -> PathBuf {
        self.place.work.join("install.log")
    }

    fn run(&self, words: Vec<String>) -> Result<rocwheel_process::FinishedProcess, Failure> {
        let directory = &self.place.work;
        fs_err::create_dir_all(directory)?;
        let mut log = fs_err::OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut surroundings = self.place.surroundings.clone();
        if SHARED.iter().any(|name| is_on(name, &surroundings)) {
            surroundings.extend(SHARED.map(|name| (name.to_owned(), "1".to_owned())));
        }
        let (words, environment) = hidden(words, &surroundings);
        let (timeout, deadline) = (INSTALLING, self.place.deadline);
        let program = Program { words, directory, environment: &environment, timeout, deadline };
        Ok(rocwheel_process::run(&program, Some(&mut log), self.reporter)?)
    }
}

fn no_environment(path: &Path) -> Failure {
    let is_free = fs_err::read_dir(path).map_or(true, |mut entries| entries.next().is_none());
    let folder = if is_free { path.display().to_string() } else { ".venv".to_owned() };
    let hint = format!("make one: `python3 -m venv {folder}`");
    error::request_with(format!("`{}` is not a Python environment", path.display()), hint)
}

/// The requirements in a METADATA that apply here, with these extras.
fn requirements(metadata: &Headers, extras: &[String], target: &InstallTarget) -> Vec<Requirement> {
    let extras: BTreeSet<String> = extras.iter().cloned().collect();
    let all = Requirements::of(metadata).all.into_iter();
    all.filter(|requirement| requirement.applies(target, &extras)).collect()
}
