//! Input: a wheel and what is the matter with it. Output: the command that mends it, as one would type it. All commands
//! that findings name are made here; a test of the binary parses every one of them.

use crate::site::InstalledWheel;

/// A word as a shell reads it: in quotes where it must be (POSIX shell, 2.2).
pub fn word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._/+=:,@%~".contains(character);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('~') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn command(verb: &str, wheel: &InstalledWheel, options: &[&str]) -> String {
    let path = wheel.path.to_string_lossy();
    let mut words = vec!["rocwheel".to_owned(), verb.to_owned(), word(&path)];
    words.extend(options.iter().map(|option| word(option)));
    words.join(" ")
}

/// Whatever a repair does by itself.
pub(crate) fn repair(wheel: &InstalledWheel) -> String {
    command("repair", wheel, &[])
}

/// Libraries of this machine go into the wheel.
pub(crate) fn graft(wheel: &InstalledWheel) -> String {
    command("repair", wheel, &["--mode", "graft"])
}

/// ROCm and torch stay out, and are found.
pub(crate) fn rocm(wheel: &InstalledWheel) -> String {
    command("repair", wheel, &["--mode", "rocm"])
}

/// The preload list is written anew.
pub(crate) fn preload(wheel: &InstalledWheel) -> String {
    command("repair", wheel, &["--mode", "rocm", "--resolve", "preload"])
}

fn edit(wheel: &InstalledWheel, options: &[&str]) -> String {
    let options: Vec<&str> = ["--in-place"].iter().chain(options).copied().collect();
    command("edit", wheel, &options)
}

/// A requirement comes in.
pub(crate) fn require(wheel: &InstalledWheel, requirement: &str) -> String {
    edit(wheel, &["--requires", requirement])
}

/// A requirement goes.
pub(crate) fn unrequire(wheel: &InstalledWheel, name: &str) -> String {
    edit(wheel, &["--remove-requires", name])
}

/// Files get another search path; `None` for those that shall have none. `files` are patterns of members.
pub(crate) fn search_paths(wheel: &InstalledWheel, files: &[(String, Option<String>)]) -> String {
    let options: Vec<String> = files
        .iter()
        .flat_map(|(pattern, path)| match path {
            Some(path) => ["--rpath".to_owned(), format!("{pattern}={path}")],
            None => ["--remove-rpath".to_owned(), pattern.clone()],
        })
        .collect();
    edit(wheel, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Another platform tag.
pub(crate) fn platform(wheel: &InstalledWheel, tag: &str) -> String {
    edit(wheel, &["--platform-tag", tag])
}

/// RECORD is written anew.
pub(crate) fn record(wheel: &InstalledWheel) -> String {
    edit(wheel, &["--record"])
}

/// Members go.
pub(crate) fn drop_files(wheel: &InstalledWheel, pattern: &str) -> String {
    edit(wheel, &["--drop", pattern])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_they_must_be() {
        for (text, quoted) in [
            ("dist/a-1.0+rocm7-py3-none-any.whl", "dist/a-1.0+rocm7-py3-none-any.whl"),
            ("tests/*", "'tests/*'"),
            ("$ORIGIN/..", "'$ORIGIN/..'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("~a", "'~a'"),
        ] {
            assert_eq!(word(text), quoted);
        }
    }
}
