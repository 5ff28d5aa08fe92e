//! Verbs that people try and that are called differently here, with the reason.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::Usage;

/// What was typed, what was probably meant, and why it is called so.
const VERBS: [(&[&str], &str, &str); 7] = [
    (
        &["wheel", "wheels", "pack", "bdist", "package"],
        "rocwheel package",
        "it packages a ROCm that is built already; nothing is compiled",
    ),
    (&["import", "convert"], "rocwheel artifact import", "what it makes are artifacts"),
    (&["list", "ls", "show"], "rocwheel artifact list", "what it lists are artifacts"),
    (&["archive", "compress"], "rocwheel artifact archive", "what it packs are artifacts"),
    (
        &["flatten", "unpack", "extract", "install", "populate"],
        "rocwheel artifact flatten",
        "it lays artifacts over each other into one tree; wheels are installed with pip or uv",
    ),
    (&["verify", "check", "validate"], "rocwheel artifact verify", "what it checks are artifacts"),
    (
        &["version", "determine-version", "compute-version"],
        "rocwheel rocm-version",
        "`rocwheel --version` is the version of this program",
    ),
];

/// An explanation for a command that does not exist, if there is one.
pub(crate) fn explain(error: &clap::Error) -> Option<Usage> {
    if error.kind() == ErrorKind::UnknownArgument
        && matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(typed)) if typed == "--artifacts")
        && error.to_string().contains("rocwheel build")
    {
        let usage = Usage::new("`rocwheel build` has no `--artifacts`: it builds frameworks from recipes");
        return Some(usage.hint("did you mean `rocwheel package`? It packages a ROCm that is built already"));
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg)
    {
        return argument(typed, &error.to_string());
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (_, meant, reason) = VERBS.iter().find(|(words, ..)| words.contains(&typed.as_str()))?;
    let usage = Usage::new(format!("there is no command `{typed}` here"));
    Some(usage.hint(format!("did you mean `{meant}`? {}{}", reason[..1].to_uppercase(), &reason[1..])))
}

/// An explanation for an argument that a command does not take; `message` is what clap says, with the usage.
fn argument(typed: &str, message: &str) -> Option<Usage> {
    if typed == "--rpm" && message.contains("rocwheel artifact import") {
        let usage = Usage::new("`rocwheel artifact import` does not read RPM packages");
        return Some(
            usage.hint("install them, or unpack them with `rpm2cpio`, and give the directory with `--prefix DIR`"),
        );
    }
    if !typed.starts_with('-') && message.contains("Usage: rocwheel package ") {
        let usage = Usage::new(format!("`rocwheel package` takes its input with an option, not as `{typed}`"));
        return Some(usage.hint(format!("did you mean `--artifacts {typed}`?")));
    }
    None
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn every_suggestion_exists() {
        for (words, meant, _) in VERBS {
            let mut arguments: Vec<&str> = meant.split(' ').collect();
            arguments.push("--help");
            let error = Arguments::command().try_get_matches_from(arguments).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{meant}");
            for word in words {
                assert!(!meant.ends_with(&format!("rocwheel {word}")) || *word == "package", "{word}");
            }
        }
    }
}
