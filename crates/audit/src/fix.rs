//! Input: a distribution and what is the matter with it. Output: the command that mends it, as one would type it. All commands
//! that findings name are made here; a test of the binary parses every one of them. What is installed is mended by installing
//! something else, where that is known.

use crate::site::Distribution;

/// A word as a shell reads it: in quotes where it must be (POSIX shell, 2.2).
pub fn word(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._/+=:,@%~".contains(character);
    if !text.is_empty() && text.chars().all(plain) && !text.starts_with('~') {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn command(verb: &str, distribution: &Distribution, options: &[&str]) -> Option<String> {
    distribution.wheel()?;
    let path = distribution.path.to_string_lossy();
    let mut words = vec!["rocwheel".to_owned(), verb.to_owned(), word(&path)];
    words.extend(options.iter().map(|option| word(option)));
    Some(words.join(" "))
}

/// Installs something into the environment that a distribution is in. `pip --python` takes its interpreter (pip 22.3).
fn install(distribution: &Distribution, options: &[&str]) -> Option<String> {
    let environment = distribution.installed()?.environment()?;
    let python = environment.join("bin/python");
    let mut words =
        vec!["pip".to_owned(), "--python".to_owned(), word(&python.to_string_lossy()), "install".to_owned()];
    words.extend(options.iter().map(|option| word(option)));
    Some(words.join(" "))
}

/// Whatever a repair does by itself.
pub(crate) fn repair(distribution: &Distribution) -> Option<String> {
    command("repair", distribution, &[])
}

/// Libraries of this machine go into the wheel.
pub(crate) fn graft(distribution: &Distribution) -> Option<String> {
    command("repair", distribution, &["--mode", "graft"])
}

/// ROCm and torch stay out, and are found.
pub(crate) fn rocm(distribution: &Distribution) -> Option<String> {
    command("repair", distribution, &["--mode", "rocm"])
}

/// The preload list is written anew.
pub(crate) fn preload(distribution: &Distribution) -> Option<String> {
    command("repair", distribution, &["--mode", "rocm", "--resolve", "preload"])
}

fn edit(distribution: &Distribution, options: &[&str]) -> Option<String> {
    let options: Vec<&str> = ["--in-place"].iter().chain(options).copied().collect();
    command("edit", distribution, &options)
}

/// A requirement comes in.
pub(crate) fn require(distribution: &Distribution, requirement: &str) -> Option<String> {
    edit(distribution, &["--requires", requirement]).or_else(|| install(distribution, &[requirement]))
}

/// A requirement goes.
pub(crate) fn unrequire(distribution: &Distribution, name: &str) -> Option<String> {
    edit(distribution, &["--remove-requires", name])
}

/// Files get another search path; `None` for those that shall have none. `files` are patterns of members.
pub(crate) fn search_paths(distribution: &Distribution, files: &[(String, Option<String>)]) -> Option<String> {
    let options: Vec<String> = files
        .iter()
        .flat_map(|(pattern, path)| match path {
            Some(path) => ["--rpath".to_owned(), format!("{pattern}={path}")],
            None => ["--remove-rpath".to_owned(), pattern.clone()],
        })
        .collect();
    edit(distribution, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Another platform tag.
pub(crate) fn platform(distribution: &Distribution, tag: &str) -> Option<String> {
    edit(distribution, &["--platform-tag", tag])
}

/// RECORD is written anew, or what it lists is installed again.
pub(crate) fn record(distribution: &Distribution) -> Option<String> {
    edit(distribution, &["--record"]).or_else(|| {
        let pinned = format!("{}=={}", distribution.name, distribution.version());
        install(distribution, &["--force-reinstall", "--no-deps", &pinned])
    })
}

/// A devel tree is made whole by the program that expanded it.
pub(crate) fn devel_tree(distribution: &Distribution) -> Option<String> {
    let program = distribution.installed()?.environment()?.join("bin/rocm-sdk");
    program.is_file().then(|| format!("{} init --repair", word(&program.to_string_lossy())))
}

/// Members go.
pub(crate) fn drop_files(distribution: &Distribution, pattern: &str) -> Option<String> {
    edit(distribution, &["--drop", pattern])
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
