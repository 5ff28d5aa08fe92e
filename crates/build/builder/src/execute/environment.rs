//! The environment of steps: a few variables of the caller, and those of the recipe.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error;
use crate::execute::context::Context;
use rocwheel_progress::Failure;
use rocwheel_recipe::surroundings::{FILES, NETWORK, of_cache};
use rocwheel_recipe::{Provided, Variables};

/// Variables that steps need to find their caches and to identify the user.
const KEPT: [&str; 9] =
    ["PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PIP_CACHE_DIR", "UV_CACHE_DIR"];

impl Context<'_> {
    pub(super) fn python(&self) -> PathBuf {
        interpreter_of(&self.venv())
    }

    /// The variables that every program of the job gets, before those of the recipe.
    pub(super) fn base_environment(&self) -> BTreeMap<String, String> {
        let mut environment = self.outer_environment();
        let venv = self.venv();
        let programs = self.python().parent().map(Path::to_owned).unwrap_or_default();
        environment.insert("VIRTUAL_ENV".into(), venv.to_string_lossy().into_owned());
        prepend(&mut environment, "PATH", &programs.to_string_lossy());
        environment
    }

    /// The same variables without the job's own Python.
    pub(super) fn outer_environment(&self) -> BTreeMap<String, String> {
        let surroundings = &self.place.surroundings;
        let cache = of_cache(self.job.recipe.cell.compiler_cache);
        let kept = surroundings.iter().filter(|(name, _)| {
            // On Windows, compilers are found through the many variables that Visual Studio's
            // script sets. No list of them is maintained.
            cfg!(windows)
                || [&KEPT[..], &NETWORK, &FILES].iter().any(|names| names.contains(&name.as_str()))
                || cache.iter().any(|prefix| name.starts_with(prefix))
        });
        let mut environment: BTreeMap<String, String> =
            kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        for (name, value) in [("LANG", "C.UTF-8"), ("PYTHONNOUSERSITE", "1"), ("PYTHONHASHSEED", "0")] {
            environment.insert(name.into(), value.into());
        }
        environment.insert("SOURCE_DATE_EPOCH".into(), self.job.epoch.to_string());
        environment
    }

    pub(super) fn environment(&self) -> Result<BTreeMap<String, String>, Failure> {
        if let Some(known) = &*self.variables.borrow() {
            return Ok(known.clone());
        }
        let mut environment = self.base_environment();
        let mut unmet = Vec::new();
        for block in &self.job.recipe.environment {
            if !self.lay(block, &mut environment)? {
                unmet.push(block);
            }
        }
        for block in unmet {
            // Another block may have set the variable.
            let is_missing = block.set.keys().any(|name| !environment.contains_key(name));
            if let Some(warning) = block.warning.as_ref().filter(|_| is_missing || block.set.is_empty()) {
                self.reporter.warn(warning);
            }
        }
        *self.variables.borrow_mut() = Some(environment.clone());
        Ok(environment)
    }

    /// Sets the variables of a block; `false` if only its last condition does not hold.
    fn lay(&self, block: &Variables, environment: &mut BTreeMap<String, String>) -> Result<bool, Failure> {
        let mut conditions = block.provided.iter();
        while let Some(provided) = conditions.next() {
            if self.holds(provided)? {
                continue;
            }
            let is_last = conditions.len() == 0;
            if let Some(reason) = block.error.as_ref().filter(|_| is_last) {
                let reason = format!("{}: {reason}", self.job.title());
                return Err(error::request(reason));
            }
            return Ok(!is_last);
        }
        for (name, value) in &block.default_values {
            environment.insert(name.clone(), self.text(value)?);
        }
        if let Some(path) = &block.from_file {
            environment.extend(read_json(Path::new(&self.text(path)?))?);
        }
        for (name, value) in &block.set {
            environment.insert(name.clone(), self.text(value)?);
        }
        for (name, value) in &block.prepend {
            let value = self.text(value)?;
            prepend(environment, name, &value);
        }
        for (name, value) in &block.append {
            let value = self.text(value)?;
            environment.entry(name.clone()).or_default().push_str(&value);
        }
        Ok(true)
    }

    /// `true` if a condition that depends on the place holds.
    pub(super) fn holds(&self, provided: &Provided) -> Result<bool, Failure> {
        Ok(match provided {
            Provided::Exists(path) => Path::new(&self.text(path)?).exists(),
            Provided::Lacks(path) => !Path::new(&self.text(path)?).exists(),
            Provided::Contains(contains) => {
                fs_err::read_to_string(self.text(&contains.path)?).is_ok_and(|text| text.contains(&contains.text))
            }
            Provided::Variable(name) => self.place.surroundings.get(name).is_some_and(|value| !value.is_empty()),
        })
    }
}

pub(super) fn interpreter_of(venv: &Path) -> PathBuf {
    let names = ["python", "python3"].map(|name| rocwheel_system::program_of(venv, name));
    // Debian's own Python has the second name alone.
    names.iter().find(|path| path.exists()).unwrap_or(&names[0]).clone()
}

fn prepend(environment: &mut BTreeMap<String, String>, name: &str, folder: &str) {
    let separator = if cfg!(windows) { ';' } else { ':' };
    let value = match environment.get(name).filter(|rest| !rest.is_empty()) {
        Some(rest) => format!("{folder}{separator}{rest}"),
        None => folder.to_owned(),
    };
    environment.insert(name.to_owned(), value);
}

fn read_json(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let text = fs_err::read_to_string(path)?;
    let values = serde_json::from_str(&text).map_err(|error| rocwheel_recipe::Error::Malformed {
        path: path.to_string_lossy().into_owned(),
        line: Some(error.line()),
        reason: format!("an object of names and texts is expected: {error}"),
        hint: None,
    });
    Ok(values?)
}
