//! Texts for people: what is safe on a terminal, sizes, numbers, and warnings on stderr.

use std::borrow::Cow;
use std::io::Write as _;

use clap::builder::styling::{AnsiColor, Style};
pub use rocwheel_progress::{escape_controls, one_line};

use crate::github::{self, AnnotationLevel};

const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// The amount of messages on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Talk {
    /// Only warnings and errors.
    Quiet,
    /// Also notes.
    Normal,
    /// Also the time of each stage.
    Verbose,
    /// Also the settings.
    Debug,
}

/// Writes to stderr. A failure is ignored, since it cannot be reported.
pub fn talk(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// A warning in its printed form, on GitHub as an annotation.
pub fn warning(text: &str) -> String {
    if let Some(line) = github::step().annotation(AnnotationLevel::Warning, &one_line(text)) {
        return line;
    }
    format!("{WARNING}warning:{WARNING:#} {}", one_line(text))
}

/// Escapes control characters except line breaks: names come from archives and may contain anything
/// that would control a terminal.
pub fn harmless(text: &str) -> Cow<'_, str> {
    escape_controls(text, |character| character != '\n')
}

/// The same for messages: text between backticks is a name, so its line breaks are escaped.
pub fn harmless_names(text: &str) -> Cow<'_, str> {
    let mut parts = text.split('`').collect::<Vec<_>>();
    // With an odd number of backticks, names cannot be recognised.
    if parts.len() % 2 == 1 && parts.iter().skip(1).step_by(2).any(|name| name.contains('\n')) {
        let names: Vec<String> = parts.iter().map(|name| escape_controls(name, |_| true).into_owned()).collect();
        parts = parts
            .iter()
            .zip(&names)
            .enumerate()
            .map(|(at, (text, name))| if at % 2 == 1 { name } else { *text })
            .collect();
        return harmless(&parts.join("`")).into_owned().into();
    }
    harmless(text)
}

/// A size in decimal units, such as `190.0 MB`.
pub fn bytes(amount: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if amount < 1000 {
        return format!("{amount} B");
    }
    let (mut unit, mut size) = (0, 1000_u128);
    loop {
        let tenths = (u128::from(amount) * 10 + size / 2) / size;
        if tenths < 10_000 || unit + 1 == UNITS.len() {
            return format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]);
        }
        (unit, size) = (unit + 1, size * 1000);
    }
}

/// A number with its noun.
pub fn count(amount: u64, one: &str, many: &str) -> String {
    format!("{amount} {}", if amount == 1 { one } else { many })
}

/// Breaks a text at spaces into lines of at most `width` characters; a longer word has its own
/// line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_decimal_units() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_949, "999.9 kB"),
            (999_950, "1.0 MB"),
            (1_310_000_000, "1.3 GB"),
            (u64::MAX, "18446.7 PB"),
        ];
        for (amount, text) in cases {
            assert_eq!(bytes(amount), text);
        }
    }

    #[test]
    fn names_do_nothing_to_the_terminal() {
        assert_eq!(harmless("a\x1b[31mb\nc\td\u{9b}"), "a\\u{1b}[31mb\nc\\td\\u{9b}");
        assert_eq!(harmless_names("no `a\nb`:\n  c"), "no `a\\nb`:\n  c");
    }

    #[test]
    fn nouns_follow_their_number() {
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(0, "file", "files"), "0 files");
    }

    #[test]
    fn words_are_wrapped_whole() {
        assert_eq!(wrapped("a bb ccc dddd", 5), ["a bb", "ccc", "dddd"]);
        assert_eq!(wrapped("a waytoolong b", 5), ["a", "waytoolong", "b"]);
        assert_eq!(wrapped("", 5), [""]);
    }
}
