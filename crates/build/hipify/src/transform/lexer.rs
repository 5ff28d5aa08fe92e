//! Input: a C++ text. Output: the same text with each byte of comments, strings and character
//! literals replaced by a space.

/// The code of a text; byte positions and line ends stay the same. Handles raw strings, digit
/// separators (`1'000`) and strings that are not closed on their line.
pub(crate) fn code_only(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_comment(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                memchr::memmem::find(&bytes[at + 2..], b"*/").map_or(bytes.len(), |length| at + 2 + length + 2)
            }
            b'"' if is_raw(bytes, at) => raw_string(bytes, at),
            b'"' => quoted(bytes, at).unwrap_or_else(|| line_end(bytes, at)),
            b'\''
                if at > 0
                    && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
                    && !is_prefix(bytes, at) =>
            {
                at + 1
            }
            b'\'' => quoted(bytes, at).unwrap_or(at + 1),
            _ => {
                at += 1;
                continue;
            }
        };
        for byte in &mut code[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    code
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length)
}

/// The end of a line comment. After a backslash at the line end it continues on the next line.
fn line_comment(bytes: &[u8], at: usize) -> usize {
    let mut end = line_end(bytes, at);
    while end < bytes.len() && bytes[end - 1] == b'\\' {
        end = line_end(bytes, end + 1);
    }
    end
}

/// The end of a string or character literal; `None` if it is not closed on its line.
fn quoted(bytes: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    while let Some(&byte) = bytes.get(end) {
        match byte {
            b'\\' => end += 2,
            b'\n' => return None,
            byte if byte == bytes[at] => return Some(end + 1),
            _ => end += 1,
        }
    }
    None
}

/// `true` if the letters before the quote at `at` are a prefix of literals and not the end of a
/// longer word.
fn is_prefix(bytes: &[u8], at: usize) -> bool {
    let word = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    [&b"u"[..], b"U", b"L", b"u8"].contains(&&bytes[at - word..at])
}

fn is_raw(bytes: &[u8], at: usize) -> bool {
    let word = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    [&b"R"[..], b"uR", b"UR", b"LR", b"u8R"].contains(&&bytes[at - word..at])
}

/// The end of `"delimiter(…)delimiter"`.
fn raw_string(bytes: &[u8], at: usize) -> usize {
    // The delimiter has up to 16 characters (C++ standard, [lex.string]).
    let Some(open) = bytes[at + 1..].iter().take(17).position(|byte| *byte == b'(') else { return at + 1 };
    let close = [b")", &bytes[at + 1..at + 1 + open], b"\""].concat();
    let begin = at + 1 + open;
    memchr::memmem::find(&bytes[begin..], &close).map_or(bytes.len(), |length| begin + length + close.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        String::from_utf8(code_only(text)).unwrap()
    }

    #[test]
    fn what_is_no_code_becomes_spaces() {
        assert_eq!(code("a // b\nc /* d\n */ e"), "a     \nc     \n    e");
        assert_eq!(code(r#"f("a\\"); g"#), "f(     ); g");
        assert_eq!(code(r#"R"x(a)" b)x" c"#), "R            c");
        assert_eq!(code("1'000'000 'a' u8'b' '\\'' x"), "1 000 000     u8         x");
        assert_eq!(code("a \"b\nc"), "a   \nc");
        assert_eq!(code("// a\\\nb\nc"), "     \n \nc");
        assert_eq!(code("#error don't\nx"), "#error don t\nx");
    }

    #[test]
    fn the_end_of_the_text_ends_everything() {
        for text in ["\"", "'", "/*", "//", "\"\\", "R\"(", "'\\", "R\""] {
            assert_eq!(code(text).len(), text.len());
        }
    }
}
