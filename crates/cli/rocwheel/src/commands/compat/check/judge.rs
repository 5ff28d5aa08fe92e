//! Input: the words of a command. Output: whether `rocwheel compat` takes them, as its command line
//! parses them.

use std::ffi::OsString;
use std::sync::LazyLock;

use clap::builder::OsStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};
use regex::Regex;
use rocwheel_console::environment;
use rocwheel_console::failure::{Failure, Result};
use rocwheel_progress::{Hint, in_backticks};
use serde::Serialize;

use super::shell::Word;
use crate::arguments::{self, Arguments};
use crate::commands::compat;
use crate::documents;
use crate::misplaced;

/// Verdict about a command of a workflow, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// `rocwheel compat` takes it unchanged.
    Taken,
    /// The same, and an option has no effect.
    Differs,
    /// None of rocwheel's business: it makes and moves no packages.
    Stays,
    /// Another command of rocwheel does it.
    OtherCommand,
    NotTaken,
    /// It depends on variables of the run.
    Unknown,
}

impl Verdict {
    pub(super) const ALL: [Self; 6] =
        [Self::Taken, Self::Differs, Self::OtherCommand, Self::NotTaken, Self::Unknown, Self::Stays];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Differs => "taken, but differs",
            Self::Stays => "left as they are",
            Self::OtherCommand => "done by another command",
            Self::NotTaken => "not taken",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn is_good(self) -> bool {
        matches!(self, Self::Taken | Self::Differs | Self::Stays)
    }
}

/// A command with its verdict.
#[derive(Debug)]
pub(super) struct Judged {
    /// The script, and the first word behind it if that is a command of the script.
    pub(super) command: String,
    pub(super) verdict: Verdict,
    pub(super) reasons: Vec<String>,
}

/// The folders of TheRock whose scripts these are about, in the words of a path.
const FOLDERS: [&str; 2] = ["build_tools", "external-builds"];

/// Scripts with the name of one of ours: `None` in any folder that is not named, otherwise in this
/// one.
const NAMESAKES: [(&str, Option<&str>); 5] = [
    ("build_prod_wheels", Some("uccl")),
    ("create_skip_tests", Some("jax")),
    ("generate_s3_index", Some("packaging")),
    ("build_rocm", Some("manywheel")),
    ("manage", None),
];

/// A program that is no script of TheRock's.
const AUDITWHEEL: &str = "auditwheel";

/// Programs that run the script behind them.
const RUNNERS: [&str; 12] = ["bash", "sh", "zsh", "sudo", "env", "exec", "time", "source", ".", "call", "&", "run"];

/// Programs that only name files.
const READERS: [&str; 18] = [
    "echo",
    "printf",
    "cat",
    "ls",
    "git",
    "chmod",
    "cp",
    "mv",
    "rm",
    "grep",
    "sed",
    "test",
    "[",
    "diff",
    "ruff",
    "black",
    "Write-Host",
    "curl",
];

/// `${{ CONDITION && 'ONE' || 'OTHER' }}`.
static CHOICE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\$\{\{.*&&\s*'([^']*)'\s*\|\|\s*'([^']*)'\s*\}\}$").expect("a test compiles it"));

/// Where the script is in a command, and its name without the ending.
struct Script<'a> {
    at: usize,
    name: &'a str,
    path: &'a str,
}

/// The name of the file in a word, without the ending of a script.
fn script_name(word: &str) -> Option<&str> {
    let file = word.rsplit(['/', '\\']).next()?;
    file.strip_suffix(".py").or_else(|| file.strip_suffix(".sh")).filter(|name| !name.is_empty())
}

fn is_known(name: &str, path: &str) -> bool {
    compat::has_script(name)
        || documents::words().iter().any(|word| word.at == "compat" && word.typed.iter().any(|typed| typed == name))
        || documents::plumbing().iter().any(|script| script == name)
        || path.split(['/', '\\']).any(|part| FOLDERS.contains(&part))
}

/// `true` if a text names a script that this check is about.
pub(super) fn names_script(text: &str) -> bool {
    text.split(|character: char| !character.is_ascii_alphanumeric() && !"_-./".contains(character))
        .any(|word| script_name(word).is_some_and(|name| is_known(name, word)))
}

/// The script of a command; `None` if it runs none of those that this check is about.
fn find(words: &[Word]) -> Option<Script<'_>> {
    for (at, word) in words.iter().enumerate() {
        let text = word.text.as_str();
        let before = words[..at].iter().rev().find(|word| !word.text.starts_with('-'));
        let is_module = at > 0 && words[at - 1].text == "-m";
        let module = text.rsplit('.').next().filter(|name| compat::has_script(name) || *name == AUDITWHEEL);
        let script = script_name(text).filter(|name| is_known(name, text));
        let Some(name) = (if is_module { module } else { script }) else { continue };
        let program = before.map(|word| word.text.rsplit(['/', '\\']).next().unwrap_or_default());
        let is_run = program.is_none_or(|program| {
            program.starts_with("python")
                || program.starts_with("pypy")
                || program == "py"
                || RUNNERS.contains(&program)
        }) || (at == 1 && words[0].is_any);
        if is_run {
            return Some(Script { at, name, path: text });
        }
    }
    let program = words.first()?.text.as_str();
    let is_magma = program == "make" && words.iter().any(|word| word.text.starts_with("magma"));
    (is_magma || program == AUDITWHEEL).then_some(Script { at: 0, name: program, path: program })
}

/// `true` for a command that only prints or copies what its words name.
pub(super) fn is_reader(words: &[Word]) -> bool {
    words.first().is_some_and(|word| READERS.contains(&word.text.as_str()))
}

/// The verdict about a command; `None` if it is none of those that this check is about.
pub(super) fn judge(words: &[Word]) -> Option<Judged> {
    find(words).map(|script| judge_script(&script, words))
}

fn judge_script(script: &Script<'_>, words: &[Word]) -> Judged {
    let rest = &words[script.at + 1..];
    let name = script.name;
    let target = rest.iter().map(|word| word.text.as_str()).find(|word| word.starts_with("magma-"));
    if let Some((_, folder)) = NAMESAKES.iter().find(|(namesake, folder)| {
        *namesake == name && folder.map_or(!script.path.contains('/'), |folder| script.path.contains(folder))
    }) {
        let reason = match folder {
            Some(folder) => format!("the script in `{folder}` has the name of another one, which `compat` takes"),
            None => "many projects have a script of this name, and its folder is not named".to_owned(),
        };
        return judged(name, if folder.is_some() { Verdict::NotTaken } else { Verdict::Unknown }, reason);
    }
    if compat::has_script(name) {
        return variants(name, rest);
    }
    if documents::plumbing().iter().any(|script| script == name) {
        return judged(name, Verdict::Stays, "it makes and moves no packages".to_owned());
    }
    match misplaced::find_anywhere(documents::words(), "compat", name) {
        Some(documents::Word { meant: Some(meant), why, .. }) => {
            let meant = target.map_or(meant.clone(), |target| format!("rocwheel build {target}"));
            judged(name, Verdict::OtherCommand, format!("`{meant}`. {why}"))
        }
        Some(word) => judged(name, Verdict::NotTaken, word.why.clone()),
        None => {
            judged(name, Verdict::NotTaken, "no command of rocwheel does this; continue with the script".to_owned())
        }
    }
}

fn judged(name: &str, verdict: Verdict, reason: String) -> Judged {
    Judged { command: name.to_owned(), verdict, reasons: vec![reason] }
}

/// The worst verdict over both values of every `${{ CONDITION && 'ONE' || 'OTHER' }}`.
fn variants(name: &str, words: &[Word]) -> Judged {
    let (one, other) = (parsed(name, &side(words, 1)), parsed(name, &side(words, 2)));
    if other.verdict > one.verdict { other } else { one }
}

fn side(words: &[Word], group: usize) -> Vec<Word> {
    words.iter().flat_map(|word| chosen(word, group)).collect()
}

/// The words of one side of a choice; any other word is itself.
fn chosen(word: &Word, group: usize) -> Vec<Word> {
    match CHOICE.captures(&word.text).filter(|_| word.is_any) {
        Some(found) => {
            let words = shlex::split(&found[group]).unwrap_or_default();
            words.into_iter().map(|text| Word { text, is_open: false, is_any: false }).collect()
        }
        None => vec![word.clone()],
    }
}

/// Parses the words as `rocwheel compat NAME` does.
fn parsed(name: &str, words: &[Word]) -> Judged {
    let mut program = environment::without_variables(Arguments::command());
    program.build();
    let script = program.find_subcommand("compat").and_then(|compat| compat.find_subcommand(name));
    let inner = script.zip(words.first()).and_then(|(script, word)| script.find_subcommand(&word.text));
    let command = inner.map_or_else(|| name.to_owned(), |inner| format!("{name} {}", inner.get_name()));
    let (left, known): (Vec<_>, Vec<_>) = words.iter().enumerate().partition(|(at, word)| {
        let before = at.checked_sub(1).map(|before| &words[before].text);
        word.is_any && !script.zip(before).is_some_and(|(script, option)| takes_value(script, option))
    });
    let left: Vec<&str> = left.into_iter().map(|(_, word)| word.text.as_str()).collect();
    let known: Vec<&Word> = known.into_iter().map(|(_, word)| word).collect();
    let (mut verdict, mut reasons) = match parse(name, &known) {
        // The required words are those that only the run knows.
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument && !left.is_empty() => {
            match parse(name, &words.iter().collect::<Vec<_>>()) {
                Ok(parsed) => return Judged { command, ..of_matches(name, &parsed, words) },
                Err(_) => (Verdict::Unknown, Vec::new()),
            }
        }
        Err(error) => (Verdict::NotTaken, vec![explained(&error, name, &known)]),
        Ok(parsed) => {
            let Judged { verdict, reasons, .. } = of_matches(name, &parsed, words);
            (verdict, reasons)
        }
    };
    if !left.is_empty() && verdict != Verdict::NotTaken {
        verdict = Verdict::Unknown;
        reasons.push(format!("which options {} brings is known only to the run", in_backticks(&left)));
    }
    Judged { command, verdict, reasons }
}

/// `true` if an option of the script, or of one of its commands, takes the next word.
fn takes_value(script: &Command, option: &str) -> bool {
    script.get_arguments().any(|argument| argument.get_action().takes_values() && is_called(argument, option))
        || script.get_subcommands().any(|inner| takes_value(inner, option))
}

fn is_called(argument: &clap::Arg, option: &str) -> bool {
    let long = option.strip_prefix("--").zip(argument.get_long_and_visible_aliases());
    long.is_some_and(|(name, names)| names.contains(&name))
        || argument.get_short().is_some_and(|short| option == format!("-{short}"))
}

fn command_line(name: &str, words: &[&Word]) -> Vec<OsString> {
    let words = words.iter().map(|word| word.text.as_str());
    ["rocwheel", "compat", name].into_iter().chain(words).map(OsString::from).collect()
}

/// clap's answer.
struct Parsed {
    matches: ArgMatches,
    /// `true` if an option has a value that only the run knows, and its type has few of them.
    is_loose: bool,
}

/// Parses a command line. A value that only the run knows fits every option.
fn parse(name: &str, words: &[&Word]) -> clap::error::Result<Parsed> {
    let mut open: Vec<String> = Vec::new();
    loop {
        let program = loosened(environment::without_variables(Arguments::command()), &open);
        let error = match program.try_get_matches_from(command_line(name, words)) {
            Ok(matches) => return Ok(Parsed { matches, is_loose: !open.is_empty() }),
            Err(error) => error,
        };
        let is_of_value = matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation);
        let option = text_of(&error, ContextKind::InvalidArg).and_then(|text| text.strip_prefix("--"));
        let option = option.and_then(|text| text.split([' ', '=']).next()).map(str::to_owned);
        let value = text_of(&error, ContextKind::InvalidValue);
        let is_open = value.is_some_and(|value| words.iter().any(|word| word.is_open && word.text.ends_with(value)));
        match option {
            Some(option) if is_of_value && is_open && !open.contains(&option) => open.push(option),
            _ => return Err(error),
        }
    }
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

/// The command, whose options of these names take any value.
fn loosened(command: Command, names: &[String]) -> Command {
    if names.is_empty() {
        return command;
    }
    let command = command.mut_subcommands(|inner| loosened(inner, names));
    command.mut_args(|argument| {
        let is_named = argument.get_long().is_some_and(|long| names.iter().any(|name| name == long));
        if is_named { argument.value_parser(OsStringValueParser::new()) } else { argument }
    })
}

/// One sentence about a command line that clap refuses.
fn explained(error: &clap::Error, name: &str, words: &[&Word]) -> String {
    let typed: Vec<String> =
        command_line(name, words).into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let usage = misplaced::explain(error, &typed).or_else(|| compat::explain(error, typed.into_iter()));
    if let Some(usage) = usage {
        return Hint::hint(&usage).map_or_else(|| usage.to_string(), |hint| format!("{usage}: {hint}"));
    }
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").replace('\'', "`")
}

/// The verdict about words that the command line takes, by what its help says about each option.
fn of_matches(name: &str, parsed: &Parsed, words: &[Word]) -> Judged {
    let program = Arguments::command();
    let (mut command, mut matches_of) = (&program, &parsed.matches);
    let (mut differs, mut refused) = (Vec::new(), Vec::new());
    while let Some((inner_name, inner)) = matches_of.subcommand() {
        let Some(found) = command.find_subcommand(inner_name) else { break };
        (command, matches_of) = (found, inner);
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            let is_typed =
                inner.try_contains_id(id).is_ok() && inner.value_source(id) == Some(ValueSource::CommandLine);
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let said = format!(
                "`{}`: {}",
                argument.get_long().map_or(id.to_owned(), |long| format!("--{long}")),
                lowered(&help)
            );
            match help.split_whitespace().next().unwrap_or_default() {
                "Without" | "Has" if is_typed => differs.push(said),
                "Not" | "Is" if is_typed => refused.push(said),
                _ => {}
            }
        }
    }
    if refused.is_empty() && !parsed.is_loose {
        match settings(&parsed.matches) {
            Some(Ok(settings)) => {
                // Options that have no effect beside others, or for one project.
                for note in settings.without_effect() {
                    if !note.split('`').nth(1).is_some_and(|option| is_in(option, &differs)) {
                        differs.push(note.clone());
                    }
                }
            }
            Some(Err(error)) => refused.extend(refusal(&error, words)),
            None => {}
        }
    }
    let (verdict, reasons) = match (refused.is_empty(), differs.is_empty()) {
        (false, _) => (Verdict::NotTaken, refused),
        (true, false) => (Verdict::Differs, differs),
        (true, true) => (Verdict::Taken, Vec::new()),
    };
    Judged { command: name.to_owned(), verdict, reasons }
}

fn lowered(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| format!("{}{}", first.to_lowercase(), characters.as_str()))
}

/// `true` if a reason is about this option.
fn is_in(option: &str, reasons: &[String]) -> bool {
    reasons.iter().any(|reason| reason.starts_with(&format!("`{option}`")))
}

/// The settings that the script's options give on this machine; `None` for options that do not
/// parse.
fn settings(matches: &ArgMatches) -> Option<Result<compat::Settings>> {
    let parsed = Arguments::from_arg_matches(matches).ok()?;
    let arguments::Command::Compat(arguments) = parsed.command else { return None };
    Some(compat::Settings::try_from(*arguments))
}

/// The error of the script's settings about its own options. An error about a file or a variable of
/// this machine is ignored: the workflow runs elsewhere.
fn refusal(error: &Failure, words: &[Word]) -> Option<String> {
    let text = error.chain().next()?.to_string();
    // An empty value is as if the option were not there.
    let is_about_open = words.iter().enumerate().filter(|(_, word)| word.is_open).any(|(at, word)| {
        let option = if word.text.starts_with("--") { word } else { &words[at.saturating_sub(1)] };
        let name = option.text.split('=').next().unwrap_or_default();
        text.contains(&word.text) || (name.starts_with("--") && text.contains(&format!("`{name}`")))
    });
    let hint = error.hint().map_or_else(String::new, |hint| format!(": {hint}"));
    (text.contains("`--") && !is_about_open).then(|| format!("{text}{hint}"))
}
