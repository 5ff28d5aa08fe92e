//! Input: a diagnosis, and what an index has for the machine. Output: the diagnosis with commands
//! that install it.

use crate::coverage::Unexamined;
use crate::diagnosis::{Diagnosis, verdict};
use crate::pip_command::Installer;
use crate::settle::ChosenLine;

impl Diagnosis {
    /// `true` if uv installs packages into the environment.
    pub fn takes_uv(&self) -> bool {
        matches!(self.installer, Some(Installer::Uv(_)))
    }

    /// Adds something that was not looked at.
    pub fn leave(&mut self, unexamined: Unexamined) {
        self.not_looked_at.push(unexamined);
        self.verdict = verdict(self);
    }

    /// Takes the line that installs what is missing. It replaces the commands that would take
    /// versions from an index without asking what this has for the GPU.
    pub fn choose(&mut self, chosen: ChosenLine) {
        let installer = self.installer.as_ref();
        for symptom in self.findings.iter_mut().filter(|symptom| !symptom.requirements.is_empty()) {
            let old = symptom.command.take().unwrap_or_default();
            let Some(line) = &chosen.command else { continue };
            let forced = line.replacen("pip install ", "pip install --force-reinstall ", 1);
            let line = adapted(installer, if old.contains("--force-reinstall") { &forced } else { line });
            // The packages of another name are removed first.
            let before = old.split(" && ").take_while(|one| !one.contains("--index-url"));
            symptom.command = Some(before.chain([line.as_str()]).collect::<Vec<_>>().join(" && "));
        }
        let command = chosen.command.as_ref().map(|line| adapted(installer, line));
        self.install = Some(ChosenLine { command, ..chosen });
    }
}

/// A line of `choose` for the environment that was looked at.
fn adapted(installer: Option<&Installer>, line: &str) -> String {
    let line = line.strip_prefix("uv ").unwrap_or(line);
    installer.map_or_else(|| line.to_owned(), |installer| installer.adapted(line))
}
