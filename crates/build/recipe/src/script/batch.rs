//! Writes a script as a batch file for the Windows command prompt.

use super::{Dialect, Otherwise, indented};
use crate::evaluated::{Action, Provided};
use crate::recipe::Pick;

pub(super) struct Batch;

/// A quoted path with `\`, because the command prompt would take `/` for an option.
fn path(text: &str) -> String {
    format!("\"{}\"", text.replace('/', "\\"))
}

fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@+,{}$\\*".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("\"{}\"", word.replace('"', "\"\""))
    }
}

fn test(provided: &Provided) -> String {
    match provided {
        Provided::Exists(file) => format!("exist {}", path(file)),
        Provided::Lacks(file) => format!("not exist {}", path(file)),
        Provided::Contains(_) => "not errorlevel 1".to_owned(),
        Provided::Variable(name) => format!("defined {name}"),
    }
}

impl Dialect for Batch {
    fn comment(&self, text: &str) -> String {
        format!("rem {text}")
    }

    fn set(&self, name: &str, value: &str) -> String {
        format!("set \"{name}={value}\"")
    }

    fn set_default(&self, name: &str, value: &str) -> String {
        format!("if not defined {name} set \"{name}={value}\"")
    }

    fn set_from_file(&self, path: &str) -> String {
        self.comment(&format!("and the names and texts of the JSON file {path}"))
    }

    fn prepend(&self, name: &str, value: &str) -> String {
        format!("set \"{name}={value};%{name}%\"")
    }

    fn append(&self, name: &str, value: &str) -> String {
        format!("set \"{name}=%{name}%{value}\"")
    }

    fn under(&self, provided: &Provided, lines: Vec<String>, otherwise: Option<Otherwise<'_>>) -> Vec<String> {
        let mut all = Vec::new();
        if let Provided::Contains(contains) = provided {
            all.push(format!("findstr /c:{} {} >nul", quoted(&contains.text), path(&contains.path)));
        }
        all.push(format!("if {} (", test(provided)));
        all.extend(indented(if lines.is_empty() { vec!["rem".to_owned()] } else { lines }));
        match otherwise {
            None => {}
            Some(Otherwise::Warning(text, names)) => {
                let echo = format!("  echo warning: {text} 1>&2");
                if names.is_empty() {
                    all.extend([") else (".to_owned(), echo.clone()]);
                }
                for name in names {
                    all.extend([format!(") else if not defined {name} ("), echo.clone()]);
                }
            }
            Some(Otherwise::Error(text)) => {
                all.extend([") else (".into(), format!("  echo error: {text} 1>&2"), "  exit /b 1".into()]);
            }
        }
        all.push(")".into());
        all
    }

    fn inside(&self, directory: &str, lines: Vec<String>) -> Vec<String> {
        let mut all = vec![format!("pushd {}", path(directory))];
        all.extend(lines);
        all.push("popd".into());
        all
    }

    fn command(&self, words: &[String]) -> String {
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn action(&self, action: &Action) -> Vec<String> {
        match action {
            Action::Run { command, more, expect } => {
                let mut lines = Vec::new();
                let mut line = self.command(command);
                if !more.is_empty() {
                    lines.push("set \"ARGUMENTS=\"".to_owned());
                    for more in more {
                        let add = format!("set \"ARGUMENTS=%ARGUMENTS% {}\"", more.arguments.join(" "));
                        match &more.provided {
                            Some(provided) => lines.extend(self.under(provided, vec![add], None)),
                            None => lines.push(add),
                        }
                    }
                    line.push_str(" %ARGUMENTS%");
                }
                if let Some(expect) = expect {
                    line.push_str(&format!(" | findstr /r {}", quoted(expect)));
                }
                lines.push(line);
                lines
            }
            Action::Install { requirements, index } => {
                let index = index.as_ref().map(|index| format!(" --index-url {}", quoted(index)));
                vec![format!("${{python}} -m pip install{} {}", index.unwrap_or_default(), self.command(requirements))]
            }
            Action::Uninstall(names) => vec![format!("${{python}} -m pip uninstall --yes {}", self.command(names))],
            Action::Write(file) | Action::Append(file) => {
                let mut lines = vec![self.comment(&format!("these lines go into {}:", file.path))];
                lines.extend(
                    file.text
                        .trim_end_matches('\n')
                        .split('\n')
                        .map(|line| format!("rem   {line}").trim_end().to_owned()),
                );
                lines
            }
            Action::Copy(copy) => match copy.pick {
                Pick::Folder => vec![format!("xcopy /e /i {} {}", path(&copy.from), path(&copy.to))],
                Pick::One => vec![format!("copy {} {}", path(&copy.from), path(&copy.to))],
                Pick::First => {
                    let note = format!("the first file that fits {}", copy.from);
                    vec![self.comment(&note), format!("copy {} {}", path(&copy.from), path(&copy.to))]
                }
            },
            Action::Remove(paths) => {
                paths.iter().map(|file| format!("if exist {0} rmdir /s /q {0}", path(file))).collect()
            }
            Action::Replace(replace) => {
                vec![self.comment(&format!("in {}, `{}` becomes `{}`", replace.path, replace.pattern, replace.with))]
            }
            Action::Script(file) => vec![self.comment(&format!("these lines are written to {file}"))],
        }
    }
}
