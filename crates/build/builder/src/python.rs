//! Input: a version of Python. Output: an interpreter of this machine with that version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rocwheel_progress::{Failure, Reporter};
use serde::{Deserialize, Serialize};

use rocwheel_process::{ProcessEnd, Program};
use rocwheel_recipe::PythonVersion;

use crate::error;

/// Python code that prints the interpreter's version (with `t` if it has no global lock), its path,
/// and the folder of installed packages.
pub(crate) const QUESTION: &str = "import sys, sysconfig\n\
    print('%d.%d%s' % (*sys.version_info[:2], 't' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))\n\
    print(sys.executable)\n\
    print(sysconfig.get_path('purelib'))";

/// Time limit for an interpreter's answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The minor versions that are searched for by name.
const MINORS: std::ops::RangeInclusive<u16> = 8..=20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonInterpreter {
    pub path: PathBuf,
    /// Its version, `3.12` or `3.13t`.
    pub version: String,
    /// Folder of installed packages; Debian's own Python has it outside of its prefix.
    pub packages: PathBuf,
}

/// Answers by program and PATH.
static ANSWERED: Mutex<BTreeMap<(PathBuf, Option<String>), PythonInterpreter>> = Mutex::new(BTreeMap::new());

/// The places where interpreters are searched for.
#[derive(Debug, Clone)]
pub(crate) struct Search<'a> {
    /// The environment; only its PATH counts.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Path of uv, which knows more places.
    pub(crate) uv: Option<&'a Path>,
}

impl Search<'_> {
    /// An interpreter of this version; `None`: the first that is found.
    /// The error lists the existing ones.
    pub(crate) fn find(
        &self,
        version: Option<PythonVersion>,
        reporter: &dyn Reporter,
    ) -> Result<PythonInterpreter, Failure> {
        let Some(version) = version else {
            for name in ["python3", "python"] {
                if let Some(found) = self.ask(Path::new(name), reporter)? {
                    return Ok(found);
                }
            }
            return Err(error::no_python("3", &self.all(reporter)?));
        };
        let wanted = version.to_string();
        let plain = format!("python{}.{}", version.major, version.minor);
        for name in [format!("python{wanted}"), plain, "python3".into(), "python".into()] {
            if let Some(found) = self.ask(Path::new(&name), reporter)?.filter(|found| found.version == wanted) {
                return Ok(found);
            }
        }
        if let Some(uv) = self.uv {
            let arguments = ["python", "find", "--no-project", "--no-python-downloads", "--quiet", &wanted];
            let answer = self.answer(uv, &arguments, reporter)?;
            if let Some(path) = answer.as_deref().and_then(|text| text.lines().next())
                && let Some(found) = self.ask(Path::new(path), reporter)?.filter(|found| found.version == wanted)
            {
                return Ok(found);
            }
        }
        Err(error::no_python(&wanted, &self.all(reporter)?))
    }

    /// Asks an interpreter for its version; `None` if it does not exist or does not run. Each is
    /// asked once: a plan has thousands of jobs, and where pyenv wraps Python an answer takes
    /// longer than everything else in a small job.
    pub(crate) fn ask(&self, path: &Path, reporter: &dyn Reporter) -> Result<Option<PythonInterpreter>, Failure> {
        let asked = (path.to_owned(), self.environment.get("PATH").cloned());
        let known = ANSWERED.lock().unwrap_or_else(PoisonError::into_inner).get(&asked).cloned();
        if known.as_ref().is_some_and(|known| known.path.exists()) {
            return Ok(known);
        }
        let Some(answer) = self.answer(path, &["-I", "-c", QUESTION], reporter)? else { return Ok(None) };
        let mut lines = answer.lines();
        let [Some(version), Some(path), Some(packages)] = [lines.next(), lines.next(), lines.next()] else {
            return Ok(None);
        };
        let interpreter =
            PythonInterpreter { path: path.into(), version: version.to_owned(), packages: packages.into() };
        ANSWERED.lock().unwrap_or_else(PoisonError::into_inner).insert(asked, interpreter.clone());
        Ok(Some(interpreter))
    }

    /// The versions of all interpreters that are found by name.
    fn all(&self, reporter: &dyn Reporter) -> Result<Vec<String>, Failure> {
        let mut found = BTreeSet::new();
        for minor in MINORS {
            for suffix in ["", "t"] {
                if let Some(interpreter) = self.ask(Path::new(&format!("python3.{minor}{suffix}")), reporter)? {
                    found.insert((minor, interpreter.version));
                }
            }
        }
        Ok(found.into_iter().map(|(_, version)| version).collect())
    }

    fn answer(&self, program: &Path, arguments: &[&str], reporter: &dyn Reporter) -> Result<Option<String>, Failure> {
        let words = std::iter::once(program.to_string_lossy().into_owned());
        let program = Program {
            words: words.chain(arguments.iter().map(|&argument| argument.to_owned())).collect(),
            directory: Path::new("."),
            environment: self.environment,
            timeout: PATIENCE,
            deadline: None,
        };
        match rocwheel_process::run(&program, None, reporter) {
            Ok(finished) => Ok((finished.ended == ProcessEnd::Code(0)).then_some(finished.said)),
            Err(rocwheel_process::Error::NotStarted(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
