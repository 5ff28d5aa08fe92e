//! Writes a script as a batch file for the Windows command prompt.

use super::{Dialect, INSTALLED, LIBRARIES, Otherwise, VERSION, escaped, indented};
use crate::evaluated::{Action, Evaluated, Provided};
use crate::recipe::Pick;

pub(super) struct Batch;

/// A quoted path with `\`, because the command prompt would take `/` for an option.
fn path(text: &str) -> String {
    format!("\"{}\"", escaped(text, |part| percent(part).replace('/', "\\")))
}

/// Escapes `%`, which would begin a variable.
fn percent(text: &str) -> String {
    text.replace('%', "%%")
}

/// A quoted word. A name in it may have a value with spaces.
fn quoted(word: &str) -> String {
    let is_plain = word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./:@+\\*".contains(letter));
    if !word.is_empty() && is_plain {
        word.to_owned()
    } else {
        format!("\"{}\"", escaped(word, |part| percent(part).replace('"', "\"\"")))
    }
}

/// A Python program of several lines, which no batch file can hold, as one of a single line.
fn on_one_line(program: &str) -> String {
    let mut line = String::from("exec('");
    for letter in program.chars() {
        match letter {
            '\n' => line.push_str("\\n"),
            '\'' | '"' | '\\' => line.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ => line.push(letter),
        }
    }
    line + "')"
}

/// A text that `echo` prints, also in a block.
fn printed(text: &str) -> String {
    escaped(text, |part| {
        let mut written = String::with_capacity(part.len());
        for letter in percent(part).chars() {
            if "^&|<>()\"".contains(letter) {
                written.push('^');
            }
            written.push(letter);
        }
        written
    })
}

/// The end of a line whose command has to succeed.
const OR_EXIT: &str = " || exit /b 1";

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
        format!("set \"{name}={}\"", escaped(value, percent))
    }

    fn set_default(&self, name: &str, value: &str) -> String {
        format!("if not defined {name} {}", self.set(name, value))
    }

    fn set_from_file(&self, file: &str) -> String {
        // The command prompt takes values from a batch file, so the program writes one.
        let program = "import json, sys; [print('set', chr(34) + name + '=' + text + chr(34)) for name, text in \
                       json.load(open(sys.argv[1])).items()]";
        let made = "\"%TEMP%\\rocwheel-variables.cmd\"";
        format!("\"${{python}}\" -c \"{program}\" {} >{made} && call {made}", path(file))
    }

    fn prepend(&self, name: &str, value: &str) -> String {
        format!("set \"{name}={};%{name}%\"", escaped(value, percent))
    }

    fn append(&self, name: &str, value: &str) -> String {
        format!("set \"{name}=%{name}%{}\"", escaped(value, percent))
    }

    fn under(&self, provided: &Provided, lines: Vec<String>, otherwise: Option<Otherwise<'_>>) -> Vec<String> {
        let mut all = Vec::new();
        if let Provided::Contains(contains) = provided {
            all.push(format!("findstr /c:\"{}\" {} >nul", percent(&contains.text), path(&contains.path)));
        }
        all.push(format!("if {} (", test(provided)));
        all.extend(indented(if lines.is_empty() { vec!["rem".to_owned()] } else { lines }));
        match otherwise {
            None => {}
            Some(Otherwise::Warning(text, names)) => {
                let echo = format!("  echo warning: {} 1>&2", printed(text));
                if names.is_empty() {
                    all.extend([") else (".to_owned(), echo.clone()]);
                }
                for name in names {
                    all.extend([format!(") else if not defined {name} ("), echo.clone()]);
                }
            }
            Some(Otherwise::Error(text)) => {
                all.extend([") else (".into(), format!("  echo error: {} 1>&2", printed(text)), "  exit /b 1".into()]);
            }
        }
        all.push(")".into());
        all
    }

    fn inside(&self, directory: &str, lines: Vec<String>) -> Vec<String> {
        let mut all = vec![format!("pushd {}{OR_EXIT}", path(directory))];
        all.extend(lines);
        all.push("popd".into());
        all
    }

    fn command(&self, words: &[String]) -> String {
        let words =
            words.iter().map(|word| if word.contains('\n') { quoted(&on_one_line(word)) } else { quoted(word) });
        words.collect::<Vec<_>>().join(" ")
    }

    fn action(&self, action: &Action) -> Vec<String> {
        match action {
            Action::Run { command, more, expect } => {
                let mut lines = Vec::new();
                let mut line = self.command(command);
                if !more.is_empty() {
                    lines.push("set \"ARGUMENTS=\"".to_owned());
                    for more in more {
                        // In a block, `%ARGUMENTS%` has its value from before the block; `call`
                        // reads it again.
                        let arguments = escaped(&more.arguments.join(" "), |part| percent(&percent(part)));
                        let add = format!("call set \"ARGUMENTS=%%ARGUMENTS%% {arguments}\"");
                        match &more.provided {
                            Some(provided) => lines.extend(self.under(provided, vec![add], None)),
                            None => lines.push(add),
                        }
                    }
                    line = format!("call {line} %%ARGUMENTS%%");
                }
                if let Some(expect) = expect {
                    line.push_str(&format!(" | findstr /r {}", quoted(expect)));
                }
                lines.push(line + OR_EXIT);
                lines
            }
            Action::Install { requirements, index } => {
                let index = index.as_ref().map(|index| format!(" --index-url {}", quoted(index)));
                let (index, words) = (index.unwrap_or_default(), self.command(requirements));
                vec![format!("\"${{python}}\" -m pip install{index} {words}{OR_EXIT}")]
            }
            Action::Uninstall(names) => {
                vec![format!("\"${{python}}\" -m pip uninstall --yes {}{OR_EXIT}", self.command(names))]
            }
            Action::Write(file) => write(&file.path, &file.text, ">"),
            Action::Append(file) => write(&file.path, &file.text, ">>"),
            Action::Copy(copy) => {
                let to = path(&copy.to);
                let folder = if copy.as_file { String::new() } else { format!("if not exist {to} mkdir {to}") };
                let mut lines: Vec<String> = Some(folder).filter(|line| !line.is_empty()).into_iter().collect();
                let line = match copy.pick {
                    Pick::Folder => format!("xcopy /e /i /y {} {to}{OR_EXIT}", path(&copy.from)),
                    Pick::One => format!("copy /y {} {to}{OR_EXIT}", path(&copy.from)),
                    Pick::First => {
                        let (folder, name) = copy.from.split_once("/**/").unwrap_or((".", &copy.from));
                        lines.push("set \"FOUND=\"".to_owned());
                        format!(
                            "for /r {} %%f in ({}) do if exist \"%%f\" if not defined FOUND set \"FOUND=%%f\"& copy /y \"%%f\" {to}",
                            path(folder),
                            percent(name)
                        )
                    }
                };
                lines.push(line);
                if copy.pick == Pick::First {
                    lines.push(format!(
                        "if not defined FOUND echo error: there is no {} 1>&2& exit /b 1",
                        path(&copy.from)
                    ));
                }
                lines
            }
            // A path may be a file or a folder.
            Action::Remove(paths) => paths
                .iter()
                .flat_map(|file| {
                    let file = path(file);
                    let folder = format!("{}\\\"", file.trim_end_matches('"'));
                    [format!("if exist {folder} rmdir /s /q {file}"), format!("if exist {file} del /q {file}")]
                })
                .collect(),
            Action::Replace(replace) => {
                let program = "import re, sys; path, old, new = sys.argv[1:]; text = open(path, encoding='utf-8', \
                               newline='').read(); open(path, 'w', encoding='utf-8', newline='').write(re.sub(old, new, text))";
                let with = regex::Regex::new(r"\$(\d+)").map_or_else(
                    |_| replace.with.clone(),
                    |group| group.replace_all(&replace.with, r"\$1").into_owned(),
                );
                vec![format!(
                    "\"${{python}}\" -c \"{program}\" {} {} {}{OR_EXIT}",
                    path(&replace.path),
                    quoted(&replace.pattern),
                    quoted(&with)
                )]
            }
            Action::Script(file) => vec![format!("copy /y \"%~f0\" {}{OR_EXIT}", path(file))],
        }
    }

    fn begin(&self) -> &'static [&'static str] {
        &["@echo off", "setlocal"]
    }

    fn variable(&self, variable: &str) -> String {
        format!("%{variable}%")
    }

    fn default(&self, name: &str, variable: &str, recipe: &Evaluated) -> (Vec<String>, &'static [&'static str]) {
        let version_file = recipe.source.version_file.as_ref().filter(|file| file.pattern.is_none());
        let (text, needs): (&str, &[&str]) = match name {
            "source" => ("%CD%", &[]),
            "stage" => ("%CD%\\stage", &[]),
            "work" => ("%CD%\\work", &[]),
            "python" => ("python", &[]),
            "rocwheel" => ("rocwheel", &[]),
            "tool.sccache" => ("sccache", &[]),
            "jobs" => ("%NUMBER_OF_PROCESSORS%", &[]),
            "rocm.bin" => ("%ROCM_ROOT%\\bin", &["rocm.root"]),
            "rocm.cmake" => ("%ROCM_ROOT%\\lib\\cmake", &["rocm.root"]),
            "rocm.lib" => ("%ROCM_ROOT%\\lib", &["rocm.root"]),
            "rocm.version" | "rocm.lock" => ("%ROCM_SDK_VERSION%", &["rocm.sdk-version"]),
            "label" => ("rocm%ROCM_SDK_VERSION%", &["rocm.sdk-version"]),
            "rocm.root" => return (asked(variable, "rocm-sdk path --root"), &[]),
            "rocm.sdk-version" => return (asked(variable, "rocm-sdk version"), &[]),
            "python.version" => return (asked_python(variable, VERSION, ""), &["python"]),
            "source.commit" => return (asked(variable, "git -C \"%SOURCE%\" rev-parse --short=8 HEAD"), &["source"]),
            "source.revision" => return (asked(variable, "git -C \"%SOURCE%\" rev-parse HEAD"), &["source"]),
            "source.version" if version_file.is_some() => {
                let file = version_file.map_or("", |file| file.path.as_str()).replace('/', "\\");
                return (
                    vec![format!("if not defined {variable} set /p {variable}=<\"%SOURCE%\\{file}\"")],
                    &["source"],
                );
            }
            _ => {
                return match (name.strip_prefix("rocm.libraries."), name.strip_prefix("installed.")) {
                    (Some(names), _) => (asked_python(variable, LIBRARIES, &names.replace(',', " ")), &["python"]),
                    (_, Some(distribution)) => (asked_python(variable, INSTALLED, distribution), &["python"]),
                    _ => {
                        let error = format!("echo error: set {variable} first 1>&2& exit /b 1");
                        (vec![format!("if not defined {variable} {error}")], &[])
                    }
                };
            }
        };
        (vec![format!("if not defined {variable} set \"{variable}={text}\"")], needs)
    }

    fn may_fail(&self, lines: Vec<String>) -> Vec<String> {
        lines.into_iter().map(|line| line.trim_end_matches(OR_EXIT).to_owned()).collect()
    }

    fn install(&self, wheel: &str) -> String {
        format!("for %%f in ({}) do \"${{python}}\" -m pip install \"%%f\"{OR_EXIT}", path(wheel))
    }
}

/// Sets a variable to what a program prints. `for /f` would need the command in quotes, and it
/// contains quotes itself.
fn asked(variable: &str, command: &str) -> Vec<String> {
    let file = "\"%TEMP%\\rocwheel-value.txt\"";
    vec![format!("if not defined {variable} {command} >{file} && set /p {variable}=<{file}")]
}

/// The same for a Python program.
fn asked_python(variable: &str, program: &str, words: &str) -> Vec<String> {
    asked(variable, &format!("\"%PYTHON%\" -c \"{program}\" {words}"))
}

/// The lines that write a text into a file.
fn write(file: &str, text: &str, first: &str) -> Vec<String> {
    let file = path(file);
    let mut redirect = first;
    let mut lines = Vec::new();
    for line in text.trim_end_matches('\n').split('\n') {
        let echo = if line.is_empty() { "echo.".to_owned() } else { format!("echo {}", printed(line)) };
        lines.push(format!("{redirect}{file} {echo}"));
        redirect = ">>";
    }
    lines
}
