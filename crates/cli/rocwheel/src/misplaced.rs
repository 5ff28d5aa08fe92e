//! Input: clap's error about a command line. Output: advice for words from other tools and
//! documents that rocwheel names differently (`data/documents.toml`). It replaces clap's own tips,
//! which compare spelling.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use rocwheel_console::failure::Usage;

use crate::arguments::Arguments;
use crate::commands::compat;
use crate::documents::{self, Word};

/// Explains a command or option that does not exist; `None` if the table lacks it. `typed` is the
/// command line, including the name of the program.
pub(crate) fn explain(error: &clap::Error, typed: &[String]) -> Option<Usage> {
    let context = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::MissingRequiredArgument => return missing(error, &command_of(typed)),
        _ => return None,
    };
    let Some(ContextValue::String(wrong)) = error.get(context) else { return None };
    let at = command_of(typed);
    let words = documents::words();
    if error.kind() == ErrorKind::InvalidSubcommand {
        return command(wrong, &at, words, typed);
    }
    if !wrong.starts_with('-') && at == "package" {
        let usage = Usage::new(format!("`rocwheel package` takes its input with an option, not as `{wrong}`"));
        return Some(usage.hint(format!("did you mean `--artifacts {wrong}`?")));
    }
    if at == "doctor" && rocwheel_wheel::WheelName::is_wheel(wrong) {
        let usage = Usage::new(format!("`rocwheel doctor` examines a machine, not `{wrong}`"));
        return Some(usage.hint(format!("did you mean `rocwheel audit {wrong}`? It checks whether wheels will load")));
    }
    option(name_of(wrong), &at, words, typed)
}

/// The words of the typed command: `source checkout`; empty for none.
fn command_of(typed: &[String]) -> String {
    let mut command: &Command = &Arguments::command();
    let mut names: Vec<&str> = Vec::new();
    for word in typed.iter().skip(1) {
        if let Some(found) = command.find_subcommand(word) {
            command = found;
            names.push(found.get_name());
        }
    }
    names.join(" ")
}

/// An option without its value.
fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or(word)
}

fn find<'a>(words: &'a [Word], at: &str, typed: &str) -> Option<&'a Word> {
    words.iter().find(|word| word.at == at && word.typed.iter().any(|one| one == typed))
}

/// Words for a wheel, and our command for it.
const WHEEL_WORDS: [(&[&str], &str, &str); 2] = [
    (&["check", "verify", "validate"], "audit", "It checks whether wheels will load"),
    (&["show", "list", "ls"], "kernels", "It shows the GPU code of wheels"),
];

/// Words that other tools have for commands which take wheels: `rocwheel check X.whl`.
fn of_wheels(wrong: &str, typed: &[String]) -> Option<Usage> {
    if !typed.iter().any(rocwheel_wheel::WheelName::is_wheel) {
        return None;
    }
    let (_, meant, why) = WHEEL_WORDS.iter().find(|(words, ..)| words.contains(&wrong))?;
    Some(
        Usage::new(format!("there is no command `{wrong}` here"))
            .hint(format!("did you mean `rocwheel {meant}`? {why}")),
    )
}

/// The commands of this name below other commands: `hipify` is `rocwheel source hipify`.
fn nested(wrong: &str, at: &str) -> Option<Usage> {
    fn search(command: &Command, path: &str, wrong: &str, found: &mut Vec<String>) {
        // The scripts of `compat` have words of their own, which would lead away from ours.
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "compat") {
            let path = format!("{path} {}", inner.get_name());
            search(inner, &path, wrong, found);
            if inner.get_name() == wrong {
                found.push(format!("`{path}`"));
            }
        }
    }
    let mut found = Vec::new();
    search(&Arguments::command(), "rocwheel", wrong, &mut found);
    if at == "compat" || found.is_empty() {
        return None;
    }
    let hint = format!("did you mean {}?", found.join(" or "));
    Some(Usage::new(format!("there is no command `{wrong}` here")).hint(hint))
}

/// clap names the one option that is required; `edit` has a second way.
fn missing(error: &clap::Error, at: &str) -> Option<Usage> {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else { return None };
    if at != "edit" || names.len() != 1 || !names[0].starts_with("--output") {
        return None;
    }
    let usage = Usage::new("`rocwheel edit` does not know where to write");
    Some(usage.hint("add `--output DIR` for edited copies, or `--in-place`; `--dry-run` writes nothing"))
}

fn command(wrong: &str, at: &str, words: &[Word], typed: &[String]) -> Option<Usage> {
    // Documents write scripts with their folders: `./build_rocm.sh`.
    let without_ending = wrong.strip_suffix(".py").or(wrong.strip_suffix(".sh"));
    let script = without_ending.map_or(wrong, |path| path.rsplit(['/', '\\']).next().unwrap_or(path));
    let wrong = if without_ending.is_some() { wrong.rsplit(['/', '\\']).next().unwrap_or(wrong) } else { wrong };
    if compat::has_script(script) && at != "compat" {
        let usage = Usage::new(format!("there is no command `{wrong}` here"));
        let hint = format!("did you mean `rocwheel compat {script}`? It takes the options of that script");
        return Some(usage.hint(hint));
    }
    if let Some(usage) = of_wheels(wrong, typed).filter(|_| at.is_empty()) {
        return Some(usage);
    }
    let of_others = || find(words, "", wrong).filter(|_| at != "compat");
    let Some(word) = find(words, at, wrong).or_else(of_others).or_else(|| find(words, "compat", wrong)) else {
        return nested(wrong, at);
    };
    let yet = if word.later { " yet" } else { "" };
    let usage = match at {
        "compat" => format!("`rocwheel compat` does not cover the script `{wrong}`{yet}"),
        _ => format!("there is no command `{wrong}` here{yet}"),
    };
    Some(Usage::new(usage).hint(advice(word)))
}

/// Explains all words of the command line that the table has.
fn option(wrong: &str, at: &str, words: &[Word], typed: &[String]) -> Option<Usage> {
    let first = find(words, at, wrong)?;
    let mut hint = advice(first);
    let mut explained = vec![wrong];
    for word in typed.iter().take_while(|word| *word != "--").map(|word| name_of(word)) {
        if explained.contains(&word) || !word.starts_with("--") {
            continue;
        }
        explained.push(word);
        match find(words, at, word) {
            Some(Word { meant: Some(meant), .. }) => hint.push_str(&format!("; `{word}` is `{meant}`")),
            Some(Word { why, .. }) => hint.push_str(&format!("; `{word}`: {why}")),
            None => {}
        }
    }
    Some(Usage::new(format!("`rocwheel {at}` has no `{wrong}`")).hint(hint))
}

fn advice(word: &Word) -> String {
    match &word.meant {
        Some(meant) => format!("did you mean `{meant}`? {}", word.why),
        None => word.why.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a command line and its explanation.
    fn explained(line: &[&str]) -> Option<String> {
        let typed: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
        let error = Arguments::command().try_get_matches_from(&typed).unwrap_err();
        explain(&error, &typed)
            .map(|usage| format!("{usage} | {}", rocwheel_progress::Hint::hint(&usage).unwrap_or_default()))
    }

    #[test]
    fn every_row_is_reached_by_what_is_typed() {
        for word in documents::words() {
            for typed in &word.typed {
                let line = format!("rocwheel {} {typed}", word.at);
                let said = explained(&line.split_whitespace().collect::<Vec<_>>());
                let said = said.unwrap_or_else(|| panic!("{line} leads nowhere"));
                let expected = word.meant.as_ref().map_or(word.why.clone(), |meant| format!("did you mean `{meant}`?"));
                assert!(said.contains(typed) && said.contains(&expected), "{line}: {said}");
            }
        }
    }

    #[test]
    fn what_is_suggested_exists() {
        for word in documents::words() {
            let Some(meant) = &word.meant else { continue };
            let full = meant.strip_prefix("rocwheel ").map_or_else(|| format!("{} {meant}", word.at), str::to_owned);
            let mut command = Arguments::command();
            command.build();
            let mut command = &command;
            for name in full.split(' ') {
                command = command.find_subcommand(name).unwrap_or(command);
                let Some(option) = name.strip_prefix("--") else { continue };
                let long = option.split('=').next();
                assert!(command.get_arguments().any(|argument| argument.get_long() == long), "{full}");
            }
            assert!(!command.get_name().eq("rocwheel"), "{full}");
        }
    }

    #[test]
    fn the_words_of_a_row_are_not_ours() {
        let mut seen = std::collections::BTreeSet::new();
        for word in documents::words() {
            let why =
                if word.meant.is_some() { word.why.starts_with(|first: char| !first.is_lowercase()) } else { true };
            assert!(
                why && !word.why.ends_with('.'),
                "{}: the reason follows a question mark, without a full stop",
                word.why
            );
            for typed in &word.typed {
                assert!(seen.insert((word.at.clone(), typed.clone())), "{} {typed} is there twice", word.at);
            }
        }
    }

    #[test]
    fn words_for_wheels_and_for_nested_commands() {
        let hint = |line: &[&str]| explained(line).unwrap_or_default();
        assert!(hint(&["rocwheel", "check", "X.whl"]).contains("did you mean `rocwheel audit`?"));
        assert!(hint(&["rocwheel", "check", "artifacts"]).contains("did you mean `rocwheel artifact verify`?"));
        assert!(hint(&["rocwheel", "show", "X.whl"]).contains("did you mean `rocwheel kernels`?"));
        assert!(hint(&["rocwheel", "doctor", "X.whl"]).contains("did you mean `rocwheel audit X.whl`?"));
        assert!(hint(&["rocwheel", "yank", "1.0"]).contains("did you mean `rocwheel release yank`?"));
        assert!(hint(&["rocwheel", "edit", "X.whl", "--version", "3"]).contains("or `--in-place`"));
        // Another missing argument is clap's to explain.
        assert_eq!(explained(&["rocwheel", "edit"]), None);
        assert_eq!(explained(&["rocwheel", "prune", "X.whl"]), None);
    }

    #[test]
    fn several_words_of_one_line_are_explained_together() {
        let said = explained(&["rocwheel", "build", "all", "--install-rocm", "--index-url", "U", "--output-dir=D"]);
        assert_eq!(
            said.unwrap(),
            "`rocwheel build` has no `--install-rocm` | did you mean `--rocm-sdk index=URL`? ROCm's packages are \
             installed for each job; into your own environment with `--into VENV`; `--index-url` is `--rocm-sdk \
             index=URL`; `--output-dir` is `--output`"
        );
        assert_eq!(explained(&["rocwheel", "build", "all", "--nonsense"]), None);
        assert_eq!(explained(&["rocwheel", "nonsense"]), None);
    }
}
