//! Input: the git settings of the user and the machine. Output: those that a checkout may depend
//! on.

use std::process::Command;

use rocwheel_progress::Failure;

use super::Git;
use crate::error;

/// Oldest supported version of git; before it, `GIT_CONFIG_GLOBAL` has no effect.
const OLDEST: (u32, u32) = (2, 32);

/// Sections of the user's settings that decide how a repository is reached and if access is
/// allowed, but not its content. Large files of Git LFS are part of a tree only through its filter.
const KEPT: [&str; 13] = [
    "credential.",
    "filter.lfs.",
    "http.",
    "https.",
    "lfs.",
    "pack.",
    "protocol.",
    "safe.",
    "ssh.",
    "url.",
    "core.gitproxy",
    "core.sshcommand",
    "index.threads",
];

/// Settings that are the same for all users; they override the user's own.
const FIXED: [(&str, &str); 16] = [
    ("advice.detachedHead", "false"),
    ("commit.gpgSign", "false"),
    ("core.askPass", ""),
    ("core.attributesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.excludesFile", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    // Only git for Windows knows it: paths of more than 260 characters.
    ("core.longpaths", "true"),
    ("core.quotePath", "false"),
    ("credential.interactive", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("submodule.recurse", "false"),
    ("tag.gpgSign", "false"),
    ("rebase.autoStash", "false"),
];

pub(super) fn check_version(git: &Git) -> Result<(), Failure> {
    let output = git.bare().arg("--version").output().map_err(error::no_git)?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let version = text.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let mut numbers = version.unwrap_or_default().split('.').map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        _ => {
            let found = version.unwrap_or(&text);
            Err(Failure::message(format!("`git` is version {found}, and 2.32 or newer is needed")))
        }
    }
}

/// The kept settings of the user and the machine in git's order, because the last one counts.
pub(super) fn of_the_user(git: &Git) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for scope in ["--system", "--global"] {
        // Without settings of that scope, the exit code is 1.
        let Ok(output) = git.bare().current_dir("/").args(["config", scope, "--includes", "--null", "--list"]).output()
        else {
            continue;
        };
        for record in output.stdout.split(|byte| *byte == 0) {
            let record = String::from_utf8_lossy(record);
            // A key without a value has no line break and means true.
            let (key, value) = record.split_once('\n').unwrap_or((&record, "true"));
            let lower = key.to_ascii_lowercase();
            if !key.is_empty() && KEPT.iter().any(|kept| lower.starts_with(kept)) {
                settings.push((key.to_owned(), value.to_owned()));
            }
        }
    }
    if !settings.iter().any(|(key, _)| key.eq_ignore_ascii_case("core.sshCommand")) {
        settings.push(("core.sshCommand".to_owned(), "ssh -o BatchMode=yes".to_owned()));
    }
    settings.extend(FIXED.map(|(key, value)| (key.to_owned(), value.to_owned())));
    settings
}

/// Passes only these settings to a command. Its children, also in submodules, get the same.
pub(super) fn apply<'a>(command: &mut Command, settings: impl Iterator<Item = &'a (String, String)>) {
    let mut count = 0;
    for (at, (key, value)) in settings.enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value);
        count = at + 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_ATTR_NOSYSTEM", "1");
    command
        .env("GIT_ASKPASS", "")
        .env("GCM_INTERACTIVE", "never")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_EDITOR", "true");
}
