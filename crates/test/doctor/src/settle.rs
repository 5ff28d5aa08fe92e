//! Input: findings with the commands of the table. Output: the same with commands that work where
//! they are printed: for the kind of container, with the address of an index, and by the program
//! that installs packages here. What only the reader knows makes a template of a command.

use rocwheel_progress::shell_word;
use serde::Serialize;

use crate::container::ContainerKind;
use crate::finding::{IndexInstall, Need, Symptom, blanks};
use crate::pip_command::{AND, Installer, REINSTALL};

/// The word for an index in the table, and the option with it that some commands may lack.
const INDEX: &str = "{index}";
const FROM_INDEX: &str = "{from-index}";

/// What an index has for a machine, as `rocwheel choose` answers.
#[derive(Debug, Serialize)]
pub struct ChosenLine {
    pub index: String,
    pub gpus: Vec<String>,
    pub verdict: String,
    pub reason: String,
    /// The packages with extras and versions.
    pub packages: Vec<String>,
    /// The line, for the installer of the environment; `None` if there is no such set.
    pub command: Option<String>,
    /// What resolved the line again.
    pub checked_by: Option<String>,
}

/// The place in which commands will be typed.
pub(crate) struct Reader<'a> {
    pub(crate) container: Option<ContainerKind>,
    /// The address of a package index, if the user named one.
    pub(crate) index: Option<&'a str>,
    /// `true` if the settings of the installer name an index.
    pub(crate) has_index: bool,
    /// The installer; `None` for a copy of a machine.
    pub(crate) installer: Option<Installer>,
}

impl Reader<'_> {
    /// Makes the commands of a finding ready.
    pub(crate) fn settle(&self, symptom: &mut Symptom) {
        if let Some(kind) = self.container
            && !symptom.commands.is_empty()
        {
            symptom.command = symptom.commands.get(kind.key()).cloned();
            symptom.needs.retain(|need| symptom.command.is_some() || *need != Need::NewContainer);
            if symptom.command.is_some() {
                add_need(symptom, Need::Host);
                add_need(symptom, Need::NewContainer);
            }
        }
        if self.container.is_some() && symptom.machine {
            add_need(symptom, Need::Host);
        }
        if let Some(command) = symptom.command.take() {
            symptom.from_index = self.index_install(&command);
            fill_blanks(symptom, self.adapted(&self.with_index(&command)));
        }
        let is_root = symptom.command.as_deref().is_some_and(|command| command.contains("sudo "));
        if is_root && !symptom.needs.contains(&Need::Root) {
            symptom.needs.insert(0, Need::Root);
        }
    }

    /// What a command of the table takes from an index that it has to name.
    fn index_install(&self, command: &str) -> Option<IndexInstall> {
        let (options, requirements) = command.split_once(INDEX)?;
        let (before, install) = options.rsplit_once(AND).unwrap_or(("", options));
        Some(IndexInstall {
            requirements: shlex::split(requirements).unwrap_or_default(),
            before: before.split(AND).filter(|one| !one.is_empty()).map(|one| self.adapted(one)).collect(),
            reinstalls: install.split(' ').any(|word| word == REINSTALL),
        })
    }

    fn adapted(&self, command: &str) -> String {
        self.installer.as_ref().map_or_else(|| command.to_owned(), |installer| installer.adapted(command))
    }

    fn with_index(&self, command: &str) -> String {
        let option = match (self.index, self.has_index) {
            (Some(index), _) => format!("--index-url {} ", shell_word(index)),
            (None, true) => String::new(),
            (None, false) => format!("--index-url {INDEX} "),
        };
        let command = command.replace(FROM_INDEX, &option);
        match self.index {
            Some(index) => command.replace(INDEX, &shell_word(index)),
            None => command,
        }
    }
}

fn add_need(symptom: &mut Symptom, need: Need) {
    if !symptom.needs.contains(&need) {
        symptom.needs.push(need);
    }
}

/// A command without blanks is one; any other is a template.
fn fill_blanks(symptom: &mut Symptom, command: String) {
    let mut text = command;
    for blank in blanks() {
        let word = format!("{{{}}}", blank.word);
        if text.contains(&word) {
            text = text.replace(&word, &blank.shown);
            symptom.blanks.push(blank.clone());
        }
    }
    if symptom.blanks.is_empty() {
        symptom.command = Some(text);
    } else {
        symptom.template = Some(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_works_or_is_a_template() {
        let reader = |index, has_index| Reader { container: None, index, has_index, installer: None };
        for (name, reader, command, template) in [
            ("cuda-torch", reader(Some("https://a/simple"), false), Some("--index-url https://a/simple"), None),
            ("cuda-torch", reader(None, true), None, Some("--index-url INDEX")),
            ("mixed-versions", reader(None, true), Some("pip install {requirements}"), None),
            ("mixed-versions", reader(None, false), None, Some("pip install --index-url INDEX {requirements}")),
            ("two-copies", reader(None, false), Some("pip uninstall"), None),
        ] {
            let mut symptom = Symptom::new(name);
            reader.settle(&mut symptom);
            for (found, wanted) in [(&symptom.command, command), (&symptom.template, template)] {
                let found = found.as_deref();
                assert_eq!(found.is_some(), wanted.is_some(), "{name}: {found:?}");
                assert!(found.unwrap_or_default().contains(wanted.unwrap_or_default()), "{name}: {found:?}");
            }
            assert_eq!(symptom.from_index.is_some(), name == "cuda-torch", "{name}: {:?}", symptom.from_index);
        }
    }

    #[test]
    fn what_comes_before_an_installation_from_an_index_is_known() {
        let installer = Some(Installer::Uv(None));
        let reader = Reader { container: None, index: Some("https://a/simple"), has_index: false, installer };
        for (command, before, reinstalls) in [
            ("pip install --force-reinstall --index-url {index} torch 'rocm[libraries]'", vec![], true),
            (
                "pip uninstall --yes x && pip install --index-url {index} torch 'rocm[libraries]'",
                vec!["uv pip uninstall x"],
                false,
            ),
        ] {
            let found = reader.index_install(command).unwrap();
            assert_eq!(
                (found.requirements, found.reinstalls),
                (vec!["torch".to_owned(), "rocm[libraries]".to_owned()], reinstalls)
            );
            assert_eq!(found.before, before);
        }
        assert_eq!(reader.index_install("pip install {from-index}torch"), None);
    }

    #[test]
    fn a_container_has_the_command_of_its_kind_or_none() {
        for (kind, start) in [
            (Some(ContainerKind::Podman), "podman run"),
            (Some(ContainerKind::Lxc), "pct set CONTAINER"),
            (Some(ContainerKind::Kubernetes), "kubectl"),
            (Some(ContainerKind::Other), ""),
            (None, "docker run"),
        ] {
            let mut symptom = Symptom::new("container-without-device");
            Reader { container: kind, index: None, has_index: false, installer: None }.settle(&mut symptom);
            assert_eq!(symptom.command, None, "{kind:?}");
            let template = symptom.template.unwrap_or_default();
            assert!(template.starts_with(start) && template.is_empty() == start.is_empty(), "{kind:?}: {template}");
        }
    }
}
