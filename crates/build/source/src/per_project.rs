//! Input: an option that can be given for each project. Output: its value for one project.

use std::path::{Path, PathBuf};

use rocwheel_progress::Failure;

use crate::error;
use crate::table::{Project, Table};

/// An absolute path without `.` and without a `/` at its end, so that equal paths compare equal.
/// `directory` is absolute: relative paths start there. Links are not followed.
pub fn absolute(directory: &Path, path: &Path) -> PathBuf {
    directory.join(path).components().collect()
}

/// Makes the path of a local repository absolute, because git runs in another folder. Names of
/// origins and addresses are returned unchanged.
pub fn local_origin(project: &Project, origin: &str, directory: &Path) -> String {
    let path = directory.join(origin);
    if origin.is_empty() || project.origins.contains_key(origin) || origin.contains("://") || !path.exists() {
        return origin.to_owned();
    }
    absolute(directory, &path).display().to_string()
}

/// The values of one option, each for one project: `PROJECT=VALUE`, or `VALUE` alone when there is
/// only one project.
#[derive(Debug)]
pub struct PerProject<'a> {
    option: &'static str,
    values: Vec<(Option<&'a str>, &'a str)>,
    table: &'a Table,
}

impl<'a> PerProject<'a> {
    /// Reads the values of `option` (`--ref`). The text before the first `=` counts as a project
    /// only if a project has that name, because addresses and paths may contain `=`.
    pub fn new(option: &'static str, given: &'a [String], table: &'a Table) -> Self {
        let values = given.iter().map(|text| match text.split_once('=') {
            Some((name, value)) if table.project(name).is_ok() => (Some(name), value),
            _ => (None, text.as_str()),
        });
        Self { option, values: values.collect(), table }
    }

    /// Checks that every value belongs to exactly one of `projects`.
    pub fn check(&self, projects: &[&Project]) -> Result<(), Failure> {
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in &self.values {
            let of = match name {
                None if projects.len() == 1 => projects[0].name.as_str(),
                None => {
                    let reason = format!("`{} {value}` does not say for which project", self.option);
                    let hint = format!("write `{} PROJECT={value}`", self.option);
                    return Err(error::request(reason).with_hint(hint));
                }
                Some(name) => {
                    let Some(project) = projects.iter().find(|project| self.is(name, project)) else {
                        let reason = format!("`{} {name}={value}`: {name} is not checked out", self.option);
                        return Err(error::request(reason));
                    };
                    project.name.as_str()
                }
            };
            if seen.contains(&of) {
                let reason = format!("`{}` is given twice for {of}", self.option);
                return Err(error::request(reason));
            }
            seen.push(of);
        }
        Ok(())
    }

    /// The value for a project; `None` if the option does not name it.
    pub fn of(&self, project: &Project) -> Option<&'a str> {
        let found = self.values.iter().find(|(name, _)| name.is_none_or(|name| self.is(name, project)));
        found.map(|(_, value)| *value)
    }

    fn is(&self, name: &str, project: &Project) -> bool {
        self.table.project(name).is_ok_and(|found| found.name == project.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_projects() {
        let table = Table::built_in();
        let (torch, audio) = (table.project("torch").unwrap(), table.project("torchaudio").unwrap());
        let given = ["pytorch=release/2.9".to_owned(), "torchaudio=main".to_owned()];
        let values = PerProject::new("--ref", &given, &table);
        values.check(&[torch, audio]).unwrap();
        assert_eq!((values.of(torch), values.of(audio)), (Some("release/2.9"), Some("main")));
        assert!(values.check(&[torch]).unwrap_err().to_string().contains("torchaudio is not checked out"));
        let plain = ["https://host/x?a=b".to_owned()];
        let values = PerProject::new("--origin", &plain, &table);
        assert_eq!(values.of(torch), Some("https://host/x?a=b"));
        values.check(&[torch]).unwrap();
        assert!(values.check(&[torch, audio]).unwrap_err().to_string().contains("for which project"));
        let twice = ["torch=a".to_owned(), "pytorch=b".to_owned()];
        assert!(PerProject::new("--ref", &twice, &table).check(&[torch]).unwrap_err().to_string().contains("twice"));
    }
}
