//! Texts that may hold control characters, made safe for a terminal and for one line.

use std::borrow::Cow;

/// Characters of a line from which on the middle is left out: a path has up to 4096.
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

/// Escapes the control characters that are unwanted (`\n` becomes a backslash and an `n`).
pub fn escape_controls(text: &str, unwanted: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_unwanted = |character: char| character.is_control() && unwanted(character);
    if !text.contains(is_unwanted) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if is_unwanted(character) {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_not_endless() {
        assert_eq!(one_line("a\nb ü"), "a\\nb ü");
        let long = one_line(&"ü".repeat(5000)).into_owned();
        assert_eq!((long.chars().count(), long.contains("ü[…]ü")), (LONGEST_LINE + 3, true));
    }
}
