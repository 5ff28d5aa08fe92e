//! Input: a Python. Output: what it has installed, without importing it; and whether tests belong
//! to the installed torch.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::supervisor::{ProgramLine, run_briefly};
use rocwheel_progress::{Failure, shell_word};

const PROBE: &str = include_str!("../python/probe.py");

/// What begins the line with the answer; site customisations may print as well.
const ANSWER: &str = "ROCWHEEL ";

/// Longest time for the answer.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Deserialize)]
pub struct PythonFacts {
    pub python: String,
    /// Version of pytest; `None` without it.
    pub pytest: Option<String>,
    /// pytest-xdist is installed.
    pub xdist: bool,
    pub torch: Option<InstalledTorch>,
    /// File name → SHA-256 of the wheels whose installer wrote it down (PEP 610).
    pub wheels: BTreeMap<String, String>,
    /// Normalised name → version of all distributions.
    pub distributions: BTreeMap<String, String>,
    /// Normalised name → the `.dist-info` folder of those that have one.
    #[serde(default)]
    pub folders: BTreeMap<String, PathBuf>,
}

/// What `torch/version.py` says.
#[derive(Debug, Clone, Deserialize)]
pub struct InstalledTorch {
    /// Its version with the local part.
    pub version: Option<String>,
    /// The commit that it was built from.
    pub git_version: Option<String>,
    /// Version of HIP; `None` for builds without it.
    pub hip: Option<String>,
    /// Version of CUDA; `None` for builds without it.
    pub cuda: Option<String>,
}

impl InstalledTorch {
    /// Major and minor number, as names of lists have them: `2.12`.
    pub fn minor(&self) -> Option<String> {
        let mut parts = self.version.as_deref()?.split('.');
        Some(format!("{}.{}", parts.next()?, parts.next()?))
    }
}

/// The Python does not answer; `said` is the end of what it printed.
pub(crate) fn no_python(python: &Path, said: &str) -> Failure {
    Failure::message(format!("`{}` does not work as a Python: {said}", python.display()))
        .with_hint("name a Python with `--python`, such as `.venv/bin/python`")
}

/// Asks a Python. `base` has the environment and the working directory.
pub fn probe_python(python: &Path, base: &ProgramLine) -> Result<PythonFacts, Failure> {
    let words = [python.as_os_str().to_owned(), "-c".into(), PROBE.into()].to_vec();
    let program = ProgramLine { words, ..base.clone() };
    let mark = format!("probe-{}", std::process::id());
    let text = run_briefly(&program, &mark, PATIENCE).ok_or_else(|| no_python(python, "it cannot be started"))?;
    let answer = text.lines().rev().find_map(|line| line.strip_prefix(ANSWER));
    let Some(answer) = answer else {
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        return Err(no_python(python, last.unwrap_or("nothing")));
    };
    serde_json::from_str(answer).map_err(|error| no_python(python, &error.to_string()))
}

impl PythonFacts {
    /// Checks that the plugin works with this pytest.
    pub fn check_pytest(&self, python: &Path) -> Result<(), Failure> {
        let shown = python.display();
        let Some(pytest) = &self.pytest else {
            let word = shell_word(&python.to_string_lossy());
            return Err(Failure::message(format!("`{shown}` has no pytest"))
                .with_hint(format!("install it: `{word} -m pip install pytest`")));
        };
        let found = if part_of(pytest, 0).is_some_and(|major| major < 7) {
            format!("pytest {pytest}")
        } else if (part_of(&self.python, 0), part_of(&self.python, 1).unwrap_or_default()) < (Some(3), 10) {
            format!("Python {}", self.python)
        } else {
            return Ok(());
        };
        Err(Failure::message(format!("`{shown}` has {found}, which is too old"))
            .with_hint("pytest 7 and Python 3.10 are the oldest that work"))
    }
}

/// A number of a version.
fn part_of(version: &str, index: usize) -> Option<u32> {
    version.split('.').nth(index)?.parse().ok()
}

/// The platforms that rows of lists name, by what the installed torch is built for, or by the
/// machine if there is none.
pub fn platforms(torch: Option<&InstalledTorch>, has_gpu: bool) -> Vec<String> {
    let mut platforms = vec![std::env::consts::OS.to_owned()];
    if torch.map_or(has_gpu, |torch| torch.hip.is_some()) {
        platforms.push("rocm".to_owned());
    }
    if torch.is_some_and(|torch| torch.cuda.is_some()) {
        platforms.push("cuda".to_owned());
    }
    platforms
}

fn of_unknown_commit(folder: &Path, reason: &str) -> Failure {
    let folder = folder.display();
    Failure::message(format!("it is not known whether the tests in `{folder}` belong to the installed torch: {reason}"))
        .with_hint("use a git checkout of the commit in `torch/version.py`, or give `--allow-version-mismatch`")
}

/// Compares the commit of a checkout with that of the installed torch. Returns the commit.
pub fn check_source(folder: &Path, torch: Option<&InstalledTorch>, base: &ProgramLine) -> Result<String, Failure> {
    let found = commit_of(folder, base).ok_or_else(|| of_unknown_commit(folder, "git names no commit of it"))?;
    let installed = torch.ok_or_else(|| of_unknown_commit(folder, "torch is not installed"))?.git_version.clone();
    let installed = installed.filter(|commit| commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let installed = installed.ok_or_else(|| of_unknown_commit(folder, "`torch/version.py` names no commit"))?;
    // Either may be shortened.
    if found.starts_with(&installed) || installed.starts_with(&found) {
        return Ok(found);
    }
    let shown = folder.display();
    let text = format!("the tests in `{shown}` are of commit {found}, and the installed torch is of {installed}");
    let hint = format!("check out {installed}, or give `--allow-version-mismatch`, which is recorded in the run");
    Err(Failure::message(text).with_hint(hint))
}

/// The folder of a checkout in which tests are, as `COMMIT` or `COMMIT:FOLDER/`; `None` outside of
/// a checkout, and without git.
pub fn source_of(folder: &Path, base: &ProgramLine) -> Option<String> {
    let words = ["git", "rev-parse", "HEAD", "--show-prefix"].map(OsString::from).to_vec();
    let program = ProgramLine { words, directory: PathBuf::from(folder), ..base.clone() };
    let text = run_briefly(&program, &format!("git-{}", std::process::id()), PATIENCE)?;
    let mut lines = text.lines();
    let commit = lines.next().filter(|line| is_commit(line))?;
    match lines.next() {
        Some(prefix) if !prefix.is_empty() => Some(format!("{commit}:{prefix}")),
        _ => Some(commit.to_owned()),
    }
}

fn is_commit(text: &str) -> bool {
    text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The commit of a checkout; `None` if the folder is not one.
pub(crate) fn commit_of(folder: &Path, base: &ProgramLine) -> Option<String> {
    // A folder in another project's checkout is not that project.
    if !folder.join(".git").exists() {
        return None;
    }
    let words = ["git", "rev-parse", "HEAD"].map(OsString::from).to_vec();
    let program = ProgramLine { words, directory: PathBuf::from(folder), ..base.clone() };
    let text = run_briefly(&program, &format!("git-{}", std::process::id()), PATIENCE)?;
    let commit = text.trim();
    is_commit(commit).then(|| commit.to_owned())
}
