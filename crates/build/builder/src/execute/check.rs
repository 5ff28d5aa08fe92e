//! Runs the recipe's checks of the installed result.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::execute::context::{Call, Context};
use crate::execute::environment::interpreter_of;
use rocwheel_process::ProcessEnd;
use rocwheel_progress::{Failure, Interrupted};
use rocwheel_recipe::{BuiltFile, Check, PythonVersion};

use crate::execute::folder::Log;
use crate::execute::installer::INSTALLING;

/// Time limit for a check: the first import of torch reads gigabytes.
const PATIENCE: Duration = Duration::from_mins(15);

impl Context<'_> {
    /// Runs a check in the build's environment, or in a new one with only the result.
    pub(super) fn check(
        &self,
        check: &Check,
        python: Option<PythonVersion>,
        outputs: &[BuiltFile],
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        let stage = format!("check-{}", check.name);
        if !check.fresh {
            let environment = self.environment()?;
            return self.try_out(&stage, check, self.texts(&check.run)?, &environment, log);
        }
        let mut name = String::from(if check.requirements { "check-all" } else { "check" });
        name.extend(python.map(|python| format!("-py{python}")));
        let venv = self.folder.join(name);
        let interpreter = if python.is_none() {
            self.interpreter(self.job.python)?
        } else {
            // An interpreter that the user named is for the build.
            let outer = self.outer_environment();
            crate::python::Search { environment: &outer, uv: self.place.uv.as_deref() }.find(python, self.reporter)?
        };
        let program = interpreter_of(&venv);
        let mut environment = self.outer_environment();
        environment.insert("VIRTUAL_ENV".into(), venv.to_string_lossy().into_owned());
        // A new result needs a new environment.
        let mark = venv.join("rocwheel-installed");
        let installed: String = outputs.iter().map(|made| format!("{}\n", made.sha256)).collect();
        if !fs_err::read_to_string(&mark).is_ok_and(|there| there == installed) {
            if let Some(ended) = self.make_venv(&stage, &interpreter, &venv, log)? {
                return Ok(Some(ended));
            }
            if let Some(ended) = self.ensure_pip(&stage, &venv, log)? {
                return Ok(Some(ended));
            }
            let mut words = self.installer(&program, "install");
            if check.requirements {
                words.extend(self.where_rocm_is());
                words.extend(self.job.with.iter().map(|input| input.path.to_string_lossy().into_owned()));
            } else {
                words.push("--no-deps".into());
            }
            words.extend(self.made(outputs));
            let patience = if check.requirements { INSTALLING } else { PATIENCE };
            if let Some(ended) = self.call(&stage, words, &environment, patience, log)? {
                return Ok(Some(ended));
            }
            fs_err::write(&mark, installed)?;
        }
        if !self.install_beside(&stage, check, (&program, &environment), log)? {
            return Ok(None);
        }
        self.known.borrow_mut().insert("python".into(), program.to_string_lossy().into_owned());
        let words = self.texts(&check.run);
        self.known.borrow_mut().remove("python");
        self.try_out(&stage, check, words?, &environment, log)
    }

    /// Installs what a check has beside the result; `false` if it is not to be had. With the
    /// interpreter's own packages, those are beside it.
    fn install_beside(
        &self,
        stage: &str,
        check: &Check,
        (program, environment): (&Path, &BTreeMap<String, String>),
        log: &mut Log,
    ) -> Result<bool, Failure> {
        if check.beside.is_empty() || self.job.recipe.cell.system_packages.is_on() {
            return Ok(true);
        }
        let mut words = self.installer(program, "install");
        words.push("--no-deps".into());
        words.extend(check.beside.iter().cloned());
        let call = Call { stage, words, directory: &self.folder, environment, timeout: PATIENCE };
        let finished = self.attempt(call, log)?;
        if rocwheel_process::is_stopping(self.reporter) {
            return Err(Interrupted.into());
        }
        let is_there = finished.ended == ProcessEnd::Code(0);
        if !is_there {
            let what = check.beside.join(", ");
            let log = log.path().display();
            self.reporter
                .warn(&format!("the check `{}` is left out: {what} cannot be installed here; see `{log}`", check.name));
        }
        Ok(is_there)
    }

    fn try_out(
        &self,
        stage: &str,
        check: &Check,
        words: Vec<String>,
        environment: &BTreeMap<String, String>,
        log: &mut Log,
    ) -> Result<Option<ProcessEnd>, Failure> {
        // The sources are not the working folder, because Python would import from there.
        let call = Call { stage, words, directory: &self.folder, environment, timeout: PATIENCE };
        let finished = self.run(call, log)?;
        if finished.ended == ProcessEnd::Deadline {
            return Ok(Some(ProcessEnd::Deadline));
        }
        self.insist(stage, check.expect.as_deref(), &finished, log)?;
        Ok(None)
    }
}
