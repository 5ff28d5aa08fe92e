//! Input: the requirements of a recipe (`[[require]]`). Output: an error for the first one that
//! this machine does not meet, before anything is installed.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use pep440_rs::{Version, VersionSpecifiers};
use regex::Regex;
use rocwheel_progress::Failure;

use crate::error;
use crate::execute::context::Context;
use rocwheel_process::Program;
use rocwheel_recipe::recipe::MachineRequirement;

/// Time limit for a program to print its version.
const PATIENCE: Duration = Duration::from_mins(1);

impl Context<'_> {
    /// Fails with the first requirement that is not met, with its fix as the hint.
    pub(super) fn check_requirements(&self) -> Result<(), Failure> {
        for requirement in &self.job.recipe.requirements {
            let wrong = match (&requirement.program, &requirement.version) {
                (Some(program), Some(specifier)) => self.wrong_version(program, specifier)?,
                _ => wrong_path(&self.interpreter(self.job.python)?.path),
            };
            if let Some(wrong) = wrong {
                let MachineRequirement { says, fix, .. } = requirement;
                return Err(error::preflight(&self.job.title(), &format!("{wrong}: {says}"), fix));
            }
        }
        Ok(())
    }

    /// The reason why a program does not meet a version specifier; `None` if it does.
    fn wrong_version(&self, name: &str, specifier: &str) -> Result<Option<String>, Failure> {
        let surroundings = &self.place.surroundings;
        let path = surroundings.get("PATH").map(String::as_str).unwrap_or_default();
        let Some(found) = rocwheel_system::find_program(name, path) else {
            return Ok(Some(format!("there is no {name} {specifier}")));
        };
        let program = Program {
            words: vec![found.to_string_lossy().into_owned(), "--version".into()],
            directory: &self.folder,
            environment: surroundings,
            timeout: PATIENCE,
            deadline: self.place.deadline,
        };
        let said = rocwheel_process::run(&program, None, self.reporter)?.said;
        let number = Regex::new(r"\d+(?:\.\d+)+").ok().and_then(|number| Some(number.find(&said)?.as_str().to_owned()));
        let version = number.as_deref().and_then(|number| Version::from_str(number).ok());
        let specifiers = VersionSpecifiers::from_str(specifier)
            .map_err(|error| error::malformed(&self.job.recipe.recipe, format!("`{specifier}`: {error}")))?;
        let place = found.display();
        Ok(match version {
            None => Some(format!("`{place}` does not say its version")),
            Some(version) if rocwheel_wheel::accepts(&specifiers, &version) => None,
            Some(version) => Some(format!("`{place}` is {version} and not {specifier}")),
        })
    }
}

/// The reason why the path of an interpreter is refused; `None` if it has no spaces.
fn wrong_path(python: &Path) -> Option<String> {
    let has_space = python.to_string_lossy().contains(' ');
    has_space.then(|| format!("the path of Python, `{}`, has a space", python.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_space_is_wrong() {
        assert_eq!(wrong_path(Path::new(r"C:\Python312\python.exe")), None);
        let wrong = wrong_path(Path::new(r"C:\Program Files\Python312\python.exe")).unwrap();
        assert_eq!(wrong, r"the path of Python, `C:\Program Files\Python312\python.exe`, has a space");
    }
}
