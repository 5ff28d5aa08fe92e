//! What the commands about sources share: options for one project of several, the table, and git.

use std::path::{Path, PathBuf};

use anyhow::Context;
use rocwheel_source::{Git, Project, Table};

use crate::environment;
use crate::failure::Usage;

/// Reads the table of sources: the user's, or the one of the program.
pub(crate) fn table(path: Option<&Path>) -> anyhow::Result<Table> {
    match path {
        None => Ok(Table::built_in()),
        Some(path) => Ok(Table::parse(&fs_err::read_to_string(path)?, &path.display().to_string())?),
    }
}

/// git in this program's environment.
pub(crate) fn git() -> anyhow::Result<Git> {
    Ok(Git::new(environment::variables())?)
}

/// A path from the root of the file system on, without following links.
pub(crate) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path).with_context(|| format!("cannot tell where `{}` is", path.display()))?;
    // `.` and an ending `/` would be part of what is compared and shown.
    Ok(path.components().collect())
}

/// An origin that is a path here is one wherever git runs.
pub(crate) fn local(project: &Project, origin: &str) -> anyhow::Result<String> {
    if project.origins.contains_key(origin) || origin.contains("://") || !Path::new(origin).exists() {
        return Ok(origin.to_owned());
    }
    Ok(absolute(Path::new(origin))?.display().to_string())
}

/// Values of an option that may be given for one project each: `PROJECT=VALUE`, or only `VALUE`
/// when there is only one project.
pub(crate) struct ByProject<'a> {
    option: &'static str,
    values: Vec<(Option<&'a str>, &'a str)>,
    table: &'a Table,
}

impl<'a> ByProject<'a> {
    /// What precedes the first `=` is a project when it is the name of one: an address and a path
    /// may have the sign in it.
    pub(crate) fn new(option: &'static str, given: &'a [String], table: &'a Table) -> Self {
        let split = |text: &'a String| match text.split_once('=') {
            Some((name, value)) if table.project(name).is_ok() => (Some(name), value),
            _ => (None, text.as_str()),
        };
        Self { option, values: given.iter().map(split).collect(), table }
    }

    /// Refuses values for projects that are not asked for, two for one project, and values for none
    /// where there are several.
    pub(crate) fn check(&self, projects: &[&Project]) -> Result<(), Usage> {
        let mut seen: Vec<&str> = Vec::new();
        for (name, value) in &self.values {
            let of = match name {
                None if projects.len() == 1 => projects[0].name.as_str(),
                None => {
                    let reason = format!("`{} {value}` does not say for which project", self.option);
                    return Err(Usage::new(reason).hint(format!("write `{} PROJECT={value}`", self.option)));
                }
                Some(name) => match projects.iter().find(|project| self.is(name, project)) {
                    Some(project) => project.name.as_str(),
                    None => {
                        return Err(Usage::new(format!("`{} {name}={value}`: {name} is not checked out", self.option)));
                    }
                },
            };
            if seen.contains(&of) {
                return Err(Usage::new(format!("`{}` is given twice for {of}", self.option)));
            }
            seen.push(of);
        }
        Ok(())
    }

    /// The value for a project.
    pub(crate) fn of(&self, project: &Project) -> Option<&'a str> {
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
        let values = ByProject::new("--ref", &given, &table);
        values.check(&[torch, audio]).unwrap();
        assert_eq!((values.of(torch), values.of(audio)), (Some("release/2.9"), Some("main")));
        assert!(values.check(&[torch]).unwrap_err().to_string().contains("torchaudio is not checked out"));
        let plain = ["https://host/x?a=b".to_owned()];
        let values = ByProject::new("--origin", &plain, &table);
        assert_eq!(values.of(torch), Some("https://host/x?a=b"));
        values.check(&[torch]).unwrap();
        assert!(values.check(&[torch, audio]).unwrap_err().to_string().contains("for which project"));
        let twice = ["torch=a".to_owned(), "pytorch=b".to_owned()];
        assert!(ByProject::new("--ref", &twice, &table).check(&[torch]).unwrap_err().to_string().contains("twice"));
    }
}
