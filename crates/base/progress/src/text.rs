//! Texts that may hold control characters, made safe for a terminal and for one line.

use std::borrow::Cow;
use std::path::Path;

/// Longest line in characters; the middle of a longer one is skipped. A path has up to 4096.
const LONGEST_LINE: usize = 4096;

/// Escapes control characters and line breaks, and leaves out the middle of a text that is longer
/// than 4096 characters.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let text = escape_controls(text, |_| true);
    let length = text.chars().count();
    if length <= LONGEST_LINE {
        return text;
    }
    let head: String = text.chars().take(LONGEST_LINE / 2).collect();
    let tail: String = text.chars().skip(length - LONGEST_LINE / 2).collect();
    format!("{head}[…]{tail}").into()
}

/// Escapes the control characters that are unwanted (`\n` becomes a backslash and an `n`). Those
/// that turn the direction of text are always escaped: with them a name looks like another one
/// (UAX #9).
pub fn escape_controls(text: &str, unwanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    let (mut safe, mut rest) = (String::new(), text);
    while let Some((at, character)) = rest.char_indices().find(|(_, character)| match character {
        // These turn the direction of the text.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control() && unwanted(*character),
    }) {
        safe.push_str(&rest[..at]);
        safe.extend(character.escape_default());
        rest = &rest[at + character.len_utf8()..];
    }
    if safe.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(safe + rest) }
}

/// The names in backticks, with commas between them.
pub fn in_backticks(names: impl IntoIterator<Item: std::fmt::Display>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// At most `most` names in backticks, and the number of the others.
pub fn few_in_backticks(names: impl IntoIterator<Item: std::fmt::Display>, most: usize) -> String {
    let mut names = names.into_iter();
    let shown = in_backticks(names.by_ref().take(most));
    match names.count() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A word as a POSIX shell reads it (section 2.2), in quotes if it needs them. Characters that
/// [`one_line`] escapes are octal numbers in `$'…'`, so that the word stays the same.
///
/// shlex quotes every word with `=`, `,` or `%`, and options and versions would be hard to read.
pub fn shell_word(word: &str) -> String {
    if matches!(escape_controls(word, |_| true), Cow::Borrowed(_)) {
        return shell_word_with(word, |_| false);
    }
    let mut quoted = String::from("$'");
    for character in word.chars() {
        let is_safe = matches!(escape_controls(character.encode_utf8(&mut [0; 4]), |_| true), Cow::Borrowed(_));
        match character {
            '\n' => quoted.push_str("\\n"),
            '\'' | '\\' => quoted.extend(['\\', character]),
            _ if is_safe => quoted.push(character),
            _ => quoted.extend(character.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}"))),
        }
    }
    quoted + "'"
}

/// A path of this machine as an argument of a command for its shell: `./` keeps one that begins
/// with a dash from being an option, and the empty path is the working directory.
pub fn shell_path(path: &Path) -> String {
    let word = if cfg!(windows) { command_prompt_word } else { shell_word };
    match &*path.to_string_lossy() {
        "" => ".".to_owned(),
        text if text.starts_with('-') => word(&format!("./{text}")),
        text => word(text),
    }
}

/// A path as the command prompt of Windows and PowerShell read it.
fn command_prompt_word(path: &str) -> String {
    let mut special = path.chars().filter(|letter| !letter.is_alphanumeric());
    if special.all(|letter| r"-_./\:=+~".contains(letter)) { path.to_owned() } else { format!("\"{path}\"") }
}

/// As [`shell_word`], but for letters that may keep their meaning for the shell, such as the `$` of
/// a variable. They are not quoted on their own, only together with others.
pub fn shell_word_with(word: &str, keeps_meaning: impl Fn(char) -> bool) -> String {
    // `~` is a home at the beginning, and bash makes several words of `{a,b}` and `{1..3}`.
    let opens = word.match_indices('{').any(|(at, _)| !word[..at].ends_with('$'));
    let has_braces = opens && (word.contains(',') || word.contains(".."));
    let is_plain = !word.is_empty() && !word.starts_with('~') && !has_braces;
    let mut special = word.chars().filter(|letter| !letter.is_ascii_alphanumeric());
    if is_plain && special.all(|letter| "-_./:=@%+,^{}~".contains(letter) || keeps_meaning(letter)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// `1 test`, `2 tests`: a number of things whose plural has an `s`.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Problems that a message lists; `--json` has all of them.
const LISTED: usize = 20;

/// The first problems, each in an indented line that begins with a line feed.
pub fn listed_problems(problems: &[String]) -> String {
    let mut text: String = problems.iter().take(LISTED).map(|problem| format!("\n  {problem}")).collect();
    if problems.len() > LISTED {
        text.push_str(&format!("\n  and {} more", problems.len() - LISTED));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed() {
        assert_eq!(in_backticks(["a", "b"]), "`a`, `b`");
        assert_eq!(few_in_backticks(["a", "b"], 2), "`a`, `b`");
        assert_eq!(few_in_backticks(["a", "b", "c", "d"], 2), "`a`, `b` and 2 more");
        assert_eq!(few_in_backticks([""; 0], 2), "");
    }

    #[test]
    fn words_are_quoted_where_they_must_be() {
        for (text, quoted) in [
            ("dist/a-1.0+rocm7-py3-none-any.whl", "dist/a-1.0+rocm7-py3-none-any.whl"),
            ("--option=a,b%", "--option=a,b%"),
            ("HEAD~1^{tree}", "HEAD~1^{tree}"),
            ("tests/*", "'tests/*'"),
            ("$ORIGIN/..", "'$ORIGIN/..'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("~a", "'~a'"),
            ("{a,b}", "'{a,b}'"),
            ("{1..3}", "'{1..3}'"),
            ("n\nl/it's\\", r"$'n\nl/it\'s\\'"),
            ("a\u{202e}\u{1b}1ü", r"$'a\342\200\256\0331ü'"),
        ] {
            assert_eq!(shell_word(text), quoted);
            assert_eq!(one_line(quoted), quoted, "it is not escaped again");
        }
        let quoted = if cfg!(windows) { "\"./-x/a b\"" } else { "'./-x/a b'" };
        for (path, argument) in [("", "."), ("-x/a b", quoted), ("a", "a"), ("--x", "./--x")] {
            assert_eq!(shell_path(Path::new(path)), argument);
        }
        assert_eq!(command_prompt_word(r"C:\b\venv"), r"C:\b\venv");
        assert_eq!(command_prompt_word(r"C:\it's (1)\venv"), "\"C:\\it's (1)\\venv\"");
        assert_eq!(shell_word_with("${name.A,B}/x", |letter| letter == '$'), "${name.A,B}/x");
    }

    #[test]
    fn a_line_is_one_line_and_not_endless() {
        assert_eq!(one_line("a\nb ü"), "a\\nb ü");
        assert_eq!(one_line("a\u{202e}lhw.b"), "a\\u{202e}lhw.b");
        let long = one_line(&"ü".repeat(5000)).into_owned();
        assert_eq!((long.chars().count(), long.contains("ü[…]ü")), (LONGEST_LINE + 3, true));
    }
}
