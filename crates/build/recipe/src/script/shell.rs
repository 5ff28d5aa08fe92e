//! Writes a script as a POSIX shell script.

use rocwheel_progress::shell_word_with;

use super::{Dialect, INSTALLED, LIBRARIES, Otherwise, VERSION, escaped, indented, next_name, parts};
use crate::evaluated::{Action, Evaluated, Provided};
use crate::recipe::Pick;

pub(super) struct Shell;

/// The marks of a here-document, whose text stays unchanged.
pub(super) const BEGIN: &str = "<<'END'";
/// The mark of one whose names are replaced.
pub(super) const BEGIN_WITH_NAMES: &str = "<<END";
pub(super) const END: &str = "END";

/// A quoted shell word; our names (`${…}`) keep their meaning.
pub fn quoted(word: &str) -> String {
    if next_name(word).is_none() {
        return shell_word_with(word, |_| false);
    }
    format!("\"{}\"", escaped(word, inside_quotes))
}

/// Escapes a text for use between double quotes or in a here-document.
fn inside_quotes(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        if "\\\"$`".contains(letter) {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}

fn python(program: &str, words: &str) -> String {
    format!("$(\"${{PYTHON}}\" -c \"{program}\"{words})")
}

/// A pattern of file names: only its names are quoted.
fn pattern(text: &str) -> String {
    let parts = parts(text).into_iter();
    parts
        .map(|(before, name)| before.to_owned() + &name.map_or(String::new(), |name| format!("\"${{{name}}}\"")))
        .collect()
}

fn test(provided: &Provided) -> String {
    match provided {
        Provided::Exists(path) => format!("[ -e {} ]", quoted(path)),
        Provided::Lacks(path) => format!("[ ! -e {} ]", quoted(path)),
        Provided::Contains(contains) => {
            format!("grep --quiet --fixed-strings {} {}", quoted(&contains.text), quoted(&contains.path))
        }
        Provided::Variable(name) => format!("[ -n \"${{{name}:-}}\" ]"),
    }
}

impl Dialect for Shell {
    fn comment(&self, text: &str) -> String {
        format!("# {text}")
    }

    fn set(&self, name: &str, value: &str) -> String {
        format!("export {name}={}", quoted(value))
    }

    fn set_default(&self, name: &str, value: &str) -> String {
        // An empty variable counts as set.
        format!("[ -n \"${{{name}+set}}\" ] || export {name}={}", quoted(value))
    }

    fn set_from_file(&self, path: &str) -> String {
        let program = "import json, shlex, sys\nfor item in json.load(open(sys.argv[1])).items(): print('export %s=%s' % (item[0], shlex.quote(item[1])))";
        format!("eval \"$(\"${{python}}\" -c {} {})\"", quoted(program), quoted(path))
    }

    fn prepend(&self, name: &str, value: &str) -> String {
        format!("export {name}={}:\"${{{name}:-}}\"", quoted(value))
    }

    fn append(&self, name: &str, value: &str) -> String {
        format!("export {name}=\"${{{name}:-}}\"{}", quoted(value))
    }

    fn under(&self, provided: &Provided, lines: Vec<String>, otherwise: Option<Otherwise<'_>>) -> Vec<String> {
        let mut all = vec![format!("if {}; then", test(provided))];
        all.extend(indented(if lines.is_empty() { vec![":".to_owned()] } else { lines }));
        match otherwise {
            None => {}
            Some(Otherwise::Warning(text, names)) => {
                let unset: Vec<String> = names.iter().map(|name| format!("[ -z \"${{{name}:-}}\" ]")).collect();
                let head =
                    if unset.is_empty() { "else".to_owned() } else { format!("elif {}; then", unset.join(" || ")) };
                all.extend([head, format!("  echo {} >&2", quoted(&format!("warning: {text}")))]);
            }
            Some(Otherwise::Error(text)) => {
                all.extend(["else".into(), format!("  echo {} >&2; exit 1", quoted(&format!("error: {text}")))]);
            }
        }
        all.push("fi".into());
        all
    }

    fn inside(&self, directory: &str, lines: Vec<String>) -> Vec<String> {
        let mut all = vec!["(".to_owned(), format!("  cd {}", quoted(directory))];
        all.extend(indented(lines));
        all.push(")".into());
        all
    }

    fn command(&self, words: &[String]) -> String {
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn action(&self, action: &Action) -> Vec<String> {
        match action {
            Action::Run { command, more, expect } => {
                let mut lines = vec!["set --".to_owned()];
                for more in more {
                    let add = format!("set -- \"$@\" {}", self.command(&more.arguments));
                    match &more.provided {
                        Some(provided) => lines.extend(self.under(provided, vec![add], None)),
                        None => lines.push(add),
                    }
                }
                let mut line = self.command(command);
                if more.is_empty() {
                    lines.clear();
                } else {
                    line.push_str(" \"$@\"");
                }
                if let Some(expect) = expect {
                    line.push_str(&format!(" | grep --extended-regexp {}", quoted(expect)));
                }
                lines.push(line);
                lines
            }
            Action::Install { requirements, index } => {
                let index = index.as_ref().map(|index| format!(" --index-url {}", quoted(index)));
                vec![format!(
                    "\"${{python}}\" -m pip install{} {}",
                    index.unwrap_or_default(),
                    self.command(requirements)
                )]
            }
            Action::Uninstall(names) => vec![format!("\"${{python}}\" -m pip uninstall --yes {}", self.command(names))],
            Action::Write(file) => {
                let mut lines = vec![format!("mkdir -p \"$(dirname {})\"", quoted(&file.path))];
                lines.extend(heredoc(">", &file.path, &file.text));
                lines
            }
            Action::Append(file) => heredoc(">>", &file.path, &file.text),
            Action::Copy(copy) => {
                let (from, to) = (quoted(&copy.from), quoted(&copy.to));
                let files = pattern(&copy.from);
                vec![match (copy.pick, copy.as_file) {
                    (Pick::Folder, _) => format!("mkdir -p {to} && cp -a {from}/. {to}"),
                    (Pick::First, _) => format!("cp \"$(ls {files} | head -1)\" {to}"),
                    (Pick::One, true) => format!("cp {files} {to}"),
                    (Pick::One, false) => format!("mkdir -p {to} && cp {files} {to}"),
                }]
            }
            Action::Remove(paths) => vec![format!("rm -rf {}", self.command(paths))],
            Action::Replace(replace) => {
                let script = format!("s@{}@{}@g", replace.pattern, perl_replacement(&replace.with));
                vec![format!("perl -0777 -pi -e {} {}", quoted(&script), quoted(&replace.path))]
            }
            Action::Script(path) => {
                let path = quoted(path);
                vec![format!("mkdir -p \"$(dirname {path})\" && cp \"${{SCRIPT}}\" {path}")]
            }
        }
    }

    fn begin(&self) -> &'static [&'static str] {
        &["#!/bin/sh", "set -e", "SCRIPT=$(realpath \"$0\")"]
    }

    fn variable(&self, variable: &str) -> String {
        format!("${{{variable}}}")
    }

    fn default(&self, name: &str, variable: &str, recipe: &Evaluated) -> (Vec<String>, &'static [&'static str]) {
        let version_file = recipe.source.version_file.as_ref().filter(|file| file.pattern.is_none());
        let (value, needs): (String, &[&str]) = match name {
            "source" => ("$PWD".into(), &[]),
            "stage" | "work" => (format!("$PWD/{name}"), &[]),
            "python" => ("python3".into(), &[]),
            "python.version" => (python(VERSION, ""), &["python"]),
            "python.compact" => ("$(echo \"${PYTHON_VERSION}\" | tr -d .)".into(), &["python.version"]),
            "jobs" => ("$(nproc)".into(), &[]),
            "rocwheel" => ("rocwheel".into(), &[]),
            "tool.sccache" => ("sccache".into(), &[]),
            "rocm.root" => ("$(rocm-sdk path --root 2>/dev/null || echo /opt/rocm)".into(), &[]),
            "rocm.bin" => ("${ROCM_ROOT}/bin".into(), &["rocm.root"]),
            "rocm.cmake" => ("${ROCM_ROOT}/lib/cmake".into(), &["rocm.root"]),
            "rocm.clang" => ("$(\"${ROCM_ROOT}/bin/hipconfig\" --hipclangpath)".into(), &["rocm.root"]),
            "rocm.bitcode" => ("$(\"${ROCM_CLANG}/clang\" -print-resource-dir)/amdgcn/bitcode".into(), &["rocm.clang"]),
            "rocm.lib" => ("${ROCM_ROOT}/lib".into(), &["rocm.root"]),
            "rocm.asan" => (
                "$(dirname \"$(\"${ROCM_ROOT}/lib/llvm/bin/clang++\" -print-file-name=libclang_rt.asan-x86_64.so)\")"
                    .into(),
                &["rocm.root"],
            ),
            "rocm.version" | "rocm.sdk-version" | "rocm.lock" => ("$(rocm-sdk version)".into(), &[]),
            "rocm.minor" => ("$(rocm-sdk version | cut -d . -f 1,2)".into(), &[]),
            "label" => ("rocm$(rocm-sdk version)".into(), &[]),
            "targets" => ("$(rocm-sdk targets | tr ' ,' ';;')".into(), &[]),
            "source.commit" => ("$(git -C \"${SOURCE}\" rev-parse --short=8 HEAD)".into(), &["source"]),
            "source.revision" => ("$(git -C \"${SOURCE}\" rev-parse HEAD)".into(), &["source"]),
            "source.version" if version_file.is_some() => {
                let path = version_file.map_or("", |file| file.path.as_str());
                (format!("$(cat \"${{SOURCE}}/{path}\")"), &["source"])
            }
            _ => match (name.strip_prefix("rocm.libraries."), name.strip_prefix("installed.")) {
                (Some(names), _) => (python(LIBRARIES, &format!(" {}", names.replace(',', " "))), &["python"]),
                (_, Some(distribution)) => (python(INSTALLED, &format!(" {distribution}")), &["python"]),
                _ => return (vec![format!(": \"${{{variable}:?is what the recipe calls {name}}}\"")], &[]),
            },
        };
        (vec![format!(": \"${{{variable}:={value}}}\"")], needs)
    }

    fn may_fail(&self, mut lines: Vec<String>) -> Vec<String> {
        if let Some(last) = lines.last_mut() {
            last.push_str(" || :");
        }
        lines
    }

    fn install(&self, wheel: &str) -> String {
        format!("\"${{python}}\" -m pip install {}", pattern(wheel))
    }
}

/// The text that replaces a match, as Perl reads it between two `@`: only its `$1` and our `${…}`
/// stay names.
fn perl_replacement(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_name = letters.peek().is_some_and(|&next| next == '{' || next.is_ascii_digit());
        match letter {
            '@' => written.push_str(r"\x40"),
            '\\' => written.push_str(r"\\"),
            '$' if !is_name => written.push_str(r"\$"),
            _ => written.push(letter),
        }
    }
    written
}

fn heredoc(how: &str, path: &str, text: &str) -> Vec<String> {
    let (begin, text) = match next_name(text) {
        Some(_) => {
            (BEGIN_WITH_NAMES, escaped(text, |part| part.replace('\\', r"\\").replace('$', r"\$").replace('`', r"\`")))
        }
        None => (BEGIN, text.to_owned()),
    };
    let mut lines = vec![format!("cat {how} {} {begin}", quoted(path))];
    lines.extend(text.trim_end_matches('\n').split('\n').map(str::to_owned));
    lines.push(END.into());
    lines
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

    use std::process::Command;

    use super::*;
    use crate::recipe::Replace;

    /// Perl writes what the build writes.
    #[test]
    fn text_with_signs_of_perl_replaces_a_match() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        let text = "echo \"NOT_FOUND\"\nexit 1\n";
        fs_err::write(&path, text).unwrap();
        let replace = Replace {
            path: path.to_str().unwrap().into(),
            pattern: r#"echo "(NOT_FOUND)"\s+exit"#.into(),
            with: r"it=$(tool | cut -d . -f 1,2).0 a@b \n $1".into(),
        };
        let expected =
            regex::Regex::new(&replace.pattern).unwrap().replace_all(text, replace.with.as_str()).into_owned();
        let lines = Shell.action(&Action::Replace(replace));
        assert!(Command::new("sh").arg("-ec").arg(lines.join("\n")).status().unwrap().success());
        assert_eq!(fs_err::read_to_string(&path).unwrap(), expected);
    }
}
