//! Input: a diagnosis, and what an index has for the machine. Output: the diagnosis with commands
//! that install it.

use crate::coverage::Unexamined;
use crate::diagnosis::{Diagnosis, verdict};
use crate::finding::IndexInstall;
use crate::pip_command::{AND, Installer};
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

    /// Takes the installations of what is missing, each as the words after `install`; none if there
    /// is no such set. They replace the commands that would take versions from an index without
    /// asking what this has for the GPU.
    pub fn choose(&mut self, chosen: ChosenLine, installations: &[Vec<String>]) {
        let installer = self.installer.as_ref().unwrap_or(&Installer::Pip);
        for symptom in &mut self.findings {
            let Some(IndexInstall { before, reinstalls, .. }) = &symptom.from_index else { continue };
            // The packages of another name are removed first. One that is replaced by a package of
            // its version needs the word, also where several commands follow each other.
            let commands = before.iter().cloned().chain(installer.installs(installations, *reinstalls));
            symptom.command = (!installations.is_empty()).then(|| commands.collect::<Vec<_>>().join(AND));
        }
        let command = installer.installs(installations, false).join(AND);
        self.install = Some(ChosenLine { command: (!command.is_empty()).then_some(command), ..chosen });
    }
}
