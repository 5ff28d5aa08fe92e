//! Python's definition of a word character.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

/// `true` if Python's `\w` matches: letters and numbers of any script (general categories L and N),
/// and `_`. Rust's regexes also match combining marks and do not match numbers such as `²`.
pub fn is_word(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric() || character == '_';
    }
    let ranges = ranges();
    let after = ranges.partition_point(|&(first, _)| first <= character);
    after > 0 && character <= ranges[after - 1].1
}

/// The letters and numbers of Unicode, sorted.
fn ranges() -> &'static [(char, char)] {
    static RANGES: OnceLock<Vec<(char, char)>> = OnceLock::new();
    RANGES.get_or_init(|| match regex_syntax::parse(r"[\p{L}\p{N}]").map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start(), range.end())).collect()
        }
        // The pattern is constant, and a test checks it.
        _ => Vec::new(),
    })
}

/// `true` if the character that ends before byte `at` exists and is not a word character.
pub(crate) fn gap_before(text: &str, at: usize) -> bool {
    match at.checked_sub(1).map(|before| text.as_bytes()[before]) {
        None => false,
        Some(byte) if byte.is_ascii() => !is_word(char::from(byte)),
        Some(_) => text[..at].chars().next_back().is_some_and(|character| !is_word(character)),
    }
}

/// `true` if the character that begins at byte `at` exists and is not a word character.
pub(crate) fn gap_after(text: &str, at: usize) -> bool {
    match text.as_bytes().get(at) {
        None => false,
        Some(byte) if byte.is_ascii() => !is_word(char::from(*byte)),
        Some(_) => text[at..].chars().next().is_some_and(|character| !is_word(character)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_pythons() {
        for character in ['a', 'Z', '0', '_', 'é', '中', '²', '½', '①', 'Ⅷ', '٣'] {
            assert!(is_word(character), "{character}");
        }
        // No-break space, zero-width space and joiner, a combining mark, a circled letter, a
        // private character.
        for character in ['-', ' ', '\u{a0}', '\u{200b}', '\u{200d}', '\u{301}', 'Ⓐ', '\u{e000}', '\u{10ffff}'] {
            assert!(!is_word(character), "{character:?}");
        }
    }

    #[test]
    fn there_is_nothing_before_and_after_a_text() {
        assert!(!gap_before("a", 0) && !gap_after("a", 1));
        assert!(gap_before(" a ", 1) && gap_after(" a ", 2));
        assert!(!gap_before("éa", 2) && gap_after("a\u{a0}", 1));
    }
}
