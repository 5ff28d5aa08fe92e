//! Input: the text of a workflow (GitHub, GitLab and others that write commands into YAML) or of a
//! script. Output: the scripts in it, with the lines that they begin at.

use std::path::Path;

use rocwheel_console::failure::{Failure, Result};
use saphyr::{LoadableYamlNode as _, MarkedYaml, YamlData};

/// Keys whose text, or list of texts, is commands.
const KEYS: [&str; 9] =
    ["run", "script", "before_script", "after_script", "command", "bash", "sh", "pwsh", "powershell"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Shell,
    PowerShell,
    Cmd,
}

/// Commands that run one after the other.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: String,
    /// The line of the file that the text begins at, from 1.
    pub(super) line: usize,
    pub(super) language: Language,
}

impl Language {
    /// Of the `shell:` of a step: `bash`, `cmd`, `wsl-bash {0}`.
    fn of_shell(shell: &str) -> Self {
        match shell.split_whitespace().next().unwrap_or_default() {
            "cmd" => Self::Cmd,
            "pwsh" | "powershell" => Self::PowerShell,
            _ => Self::Shell,
        }
    }

    /// Of a file that is a script as a whole.
    fn of_file(path: &Path, text: &str) -> Option<Self> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "sh" | "bash" | "zsh" => Some(Self::Shell),
            "bat" | "cmd" => Some(Self::Cmd),
            "ps1" => Some(Self::PowerShell),
            _ => text.starts_with("#!").then_some(Self::Shell),
        }
    }
}

/// The scripts of a file.
///
/// # Errors
///
/// If the file is neither a script nor a mapping in YAML.
pub(super) fn scripts(path: &Path, text: &str) -> Result<Vec<Script>> {
    if let Some(language) = Language::of_file(path, text) {
        return Ok(vec![Script { text: text.to_owned(), line: 1, language }]);
    }
    let name = path.display();
    let documents = MarkedYaml::load_from_str(text)
        .map_err(Failure::other)
        .map_err(Failure::attempt(format!("`{name}` is neither a workflow in YAML nor a script of a shell")))?;
    if !documents.iter().any(|document| document.data.is_mapping()) {
        return Err(Failure::message(format!("`{name}` is no workflow: it has no keys"))
            .with_hint("name the YAML of a CI, or a script that ends in `.sh`, `.ps1`, `.bat` or `.cmd`"));
    }
    let mut found = Vec::new();
    for document in &documents {
        collect(document, Language::Shell, &mut found);
    }
    Ok(found)
}

fn text_of<'a>(node: &'a MarkedYaml<'_>, key: &str) -> Option<&'a str> {
    node.data.as_mapping_get(key)?.data.as_str()
}

fn collect(node: &MarkedYaml<'_>, outer: Language, found: &mut Vec<Script>) {
    if let YamlData::Tagged(_, inner) = &node.data {
        return collect(inner, outer, found);
    }
    for item in node.data.as_sequence().into_iter().flatten() {
        collect(item, outer, found);
    }
    let defaults = node.data.as_mapping_get("defaults").and_then(|defaults| defaults.data.as_mapping_get("run"));
    let shell = text_of(node, "shell").or_else(|| text_of(defaults?, "shell"));
    let language = shell.map_or(outer, Language::of_shell);
    // Its `script:` is JavaScript.
    let is_javascript = text_of(node, "uses").is_some_and(|action| action.contains("github-script"));
    for (key, value) in node.data.as_mapping().into_iter().flatten() {
        match key.data.as_str() {
            Some("with") if is_javascript => {}
            Some(key) if KEYS.contains(&key) => {
                let language = if key.starts_with('p') { Language::PowerShell } else { language };
                add(value, language, found);
            }
            _ => collect(value, language, found),
        }
    }
}

/// Adds the text of a key, or each of a list.
fn add(value: &MarkedYaml<'_>, language: Language, found: &mut Vec<Script>) {
    match &value.data {
        YamlData::Sequence(items) => items.iter().for_each(|item| add(item, language, found)),
        YamlData::Tagged(_, inner) => add(inner, language, found),
        _ => match value.data.as_str() {
            Some(text) => {
                // The parser counts from the first line with text.
                let text = text.trim_start_matches('\n').to_owned();
                found.push(Script { text, line: value.span.start.line(), language });
            }
            None => collect(value, language, found),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKFLOW: &str = "\
on: push
jobs:
  a:
    defaults: {run: {shell: pwsh}}
    steps:
      - run: echo one
      - shell: cmd
        run: |

          echo two
          echo three
      - run: >-
          echo
          four
      - uses: actions/github-script@v8
        with: {script: 'echo JavaScript'}
      - {run: \"echo five\", shell: bash}
  b: &anchor
    script:
      - echo six
      - |
        echo seven
        echo eight
    retry: {command: echo nine}
";

    #[test]
    fn lines_and_languages() {
        let found = scripts(Path::new("a.yml"), WORKFLOW).unwrap();
        let found: Vec<(usize, &str, Language)> =
            found.iter().map(|script| (script.line, script.text.trim(), script.language)).collect();
        let expected = [
            (6, "echo one", Language::PowerShell),
            (10, "echo two\necho three", Language::Cmd),
            (13, "echo four", Language::PowerShell),
            (17, "echo five", Language::Shell),
            (20, "echo six", Language::Shell),
            (22, "echo seven\necho eight", Language::Shell),
            (24, "echo nine", Language::Shell),
        ];
        assert_eq!(found, expected);
    }
}
